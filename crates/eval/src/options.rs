//! What is to be measured, and how.

pub use coldpress_codec::press::Simd;

/// What is to be measured, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Codecs by name; empty for all.
    pub codecs: Vec<String>,
    /// Storages by name; empty for all.
    pub storages: Vec<String>,
    /// Which path `press` takes; `None`: the best of this processor, with the others beside it.
    pub simd: Option<Simd>,
    /// Bytes above which a compressed page counts as failed.
    pub threshold_bytes: usize,
    /// Times that each block is measured.
    pub rounds: usize,
    /// Pages of each file to evaluate; `None`: all.
    pub sample_pages: Option<usize>,
    /// Whether made-up pages and sizes are measured, too.
    pub made_up: bool,
    /// Processor to run on.
    pub pin: Pin,
    /// Where samples, orders and synthetic data come from.
    pub seed: u64,
    /// Codec that all others are compared with; `None`: `press` with `lz4:1` and `press-dense`
    /// with `zstd:1`.
    pub against: Option<String>,
}

/// Where the measuring thread runs.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Pin {
    /// Pinned to the processor that it happens to be on.
    Here,
    /// Pinned to this one.
    To(usize),
    /// Not pinned.
    No,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codecs: Vec::new(),
            storages: Vec::new(),
            simd: None,
            threshold_bytes: coldpress_codec::DEFAULT_TARGET_BYTES,
            rounds: 3,
            sample_pages: None,
            made_up: true,
            pin: Pin::Here,
            seed: 1,
            against: None,
        }
    }
}
