//! What an evaluation found, as it is printed in JSON.

use serde::Serialize;

/// Everything that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How it was measured.
    pub method: Method,
    /// What was evaluated.
    pub corpora: Vec<CorpusRow>,
    /// The RFC's first table: by codec and corpus, and pooled.
    pub codecs: Vec<CodecRow>,
    /// Codecs against their peers.
    pub ratios: Vec<RatioRow>,
    /// Pages that were made up: random, and nearly constant ones.
    pub synthetic: Vec<CodecRow>,
    /// The RFC's second table: by storage, sizes and stage.
    pub storages: Vec<StorageRow>,
    /// Same-filled pages: how many there are, and what telling them costs.
    pub same_filled: Vec<SameFilledRow>,
    /// What the test saves where pages are same-filled.
    pub same_filled_gain: Vec<SameFilledGain>,
    /// The cost of the same-filled test, apart from any corpus.
    pub same_filled_test: SameFilledTest,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// Name of the processor.
    pub processor: String,
    /// Processor that the thread was pinned to.
    pub cpu: Option<usize>,
    /// The path that `press` took.
    pub simd: &'static str,
    /// Bytes above which a page counts as failed.
    pub threshold_bytes: usize,
    /// Rounds over each block.
    pub rounds: usize,
    /// Where samples and orders come from.
    pub seed: u64,
    /// What reading the clock costs; subtracted from every latency.
    pub clock_overhead_ns: f64,
}

/// A file of pages.
#[derive(Clone, Debug, Serialize)]
pub struct CorpusRow {
    /// Its name.
    pub corpus: String,
    /// Pages of the program that were looked at for it, same-filled ones included; of a file without a note,
    /// those in it.
    pub pages: usize,
    /// Pages that are evaluated.
    pub evaluated_pages: usize,
    /// Whether its capture has said what it left out.
    pub captured: bool,
    /// For how long nobody had touched its pages; `null`: that is not known.
    pub inactive_ms: Option<u64>,
}

/// Storing and loading a same-filled page with the test for it and without.
#[derive(Clone, Debug, Serialize)]
pub struct SameFilledGain {
    /// The codec that has the page otherwise.
    pub codec: String,
    /// "zero", or "one word": another, repeated.
    pub kind: &'static str,
    /// Bytes that the codec makes of it.
    pub stored_bytes: usize,
    /// Compressing it.
    pub store_without_ns: f64,
    /// Telling that it is same-filled.
    pub store_with_ns: f64,
    /// What that saves.
    pub store_gain_percent: f64,
    /// Decompressing it.
    pub load_without_ns: f64,
    /// Filling a page with the word.
    pub load_with_ns: f64,
    /// What that saves.
    pub load_gain_percent: f64,
}

/// One codec on one corpus, or on all of them.
#[derive(Clone, Debug, Serialize)]
pub struct CodecRow {
    /// The strategy.
    pub codec: String,
    /// The file's name, or "pooled".
    pub corpus: String,
    /// Pages evaluated: not same-filled, not trained on.
    pub pages: usize,
    /// Of these, those that missed the threshold.
    pub failed: usize,
    /// The same as a share.
    pub failed_percent: f64,
    /// Over all pages, failed ones included.
    pub compress_mib_s: f64,
    /// Mean time of a page.
    pub compress_mean_ns: f64,
    /// Time that 99 % of the pages stay within.
    pub compress_p99_ns: f64,
    /// The worst page's.
    pub compress_worst_ns: f64,
    /// Over the pages that did not fail.
    pub decompress_mib_s: f64,
    /// Mean time of a page.
    pub decompress_mean_ns: f64,
    /// Time that 99 % of the pages stay within.
    pub decompress_p99_ns: f64,
    /// The worst page's.
    pub decompress_worst_ns: f64,
    /// Mean time from a cold source with prefetch; `null` where it was not measured.
    pub cold_decompress_mean_ns: Option<f64>,
    /// Time from a cold source that 99 % stay within.
    pub cold_decompress_p99_ns: Option<f64>,
    /// What copying the same pages, uncompressed, takes from a cold source.
    pub cold_memcpy_p99_ns: Option<f64>,
    /// Bytes of all pages, failed ones as 4096, and of the tables.
    pub total_bytes: usize,
    /// Bytes of the tables, which are in `total_bytes`.
    pub table_bytes: usize,
    /// Uncompressed over total.
    pub ratio: f64,
    /// Pages that tables were trained on.
    pub in_sample_pages: usize,
    /// Bytes of these as the codec compresses them, tables not included.
    pub in_sample_bytes: usize,
    /// The same by page; beside [`held_out_bytes_per_page`](Self::held_out_bytes_per_page).
    pub in_sample_bytes_per_page: f64,
    /// Bytes by page of those evaluated, tables not included.
    pub held_out_bytes_per_page: f64,
}

/// A codec against a peer on the same pages.
#[derive(Clone, Debug, Serialize)]
pub struct RatioRow {
    /// The strategy.
    pub codec: String,
    /// Whom it is compared with.
    pub against: String,
    /// The file's name, or "pooled".
    pub corpus: String,
    /// Compression speed over the peer's.
    pub compress: f64,
    /// Decompression speed over the peer's.
    pub decompress: f64,
    /// Total size over the peer's.
    pub total: f64,
    /// Decompression's p99 over the peer's.
    pub decompress_p99: f64,
}

/// One storage, filled with the sizes that one codec made of one corpus, at one stage.
#[derive(Clone, Debug, Serialize)]
pub struct StorageRow {
    /// The storage.
    pub storage: String,
    /// The codec whose sizes these are; of made-up sizes their range.
    pub codec: String,
    /// The file's name, "pooled", or "synthetic".
    pub corpus: String,
    /// "fill", "churned", "halved" (half freed at random) or "compacted".
    pub stage: &'static str,
    /// Objects stored.
    pub objects: usize,
    /// Frames held.
    pub frames: usize,
    /// Bytes of the objects.
    pub payload_bytes: usize,
    /// Bytes of tables.
    pub metadata_bytes: usize,
    /// Bytes of frames and tables.
    pub total_bytes: usize,
    /// Pages' bytes over total: what the pages take uncompressed over what they take here.
    pub ratio: f64,
    /// Payload over total.
    pub density: f64,
    /// Allocating and writing an object, in this stage.
    pub store_p99_ns: Option<f64>,
    /// Freeing an object, in this stage.
    pub free_p99_ns: Option<f64>,
    /// One step of compaction.
    pub compact_step_p99_ns: Option<f64>,
    /// The longest step.
    pub compact_step_worst_ns: Option<f64>,
    /// Bytes that compaction moved.
    pub moved_bytes: usize,
}

/// Same-filled pages of one file, or of all.
#[derive(Clone, Debug, Serialize)]
pub struct SameFilledRow {
    /// The file's name, or "pooled".
    pub corpus: String,
    /// Pages in the file.
    pub file_pages: usize,
    /// Zero pages.
    pub zero_pages: usize,
    /// Pages of another repeated word.
    pub same_filled_pages: usize,
    /// Both, as a share.
    pub share_percent: f64,
    /// Mean time of the test on the pages that are not same-filled.
    pub test_mean_ns: f64,
    /// Time of the test that 99 % of them stay within.
    pub test_p99_ns: f64,
    /// Mean time of the test as a share of press compression's; `null` without press.
    pub percent_of_press: Option<f64>,
}

/// The same-filled test on made-up pages.
#[derive(Clone, Debug, Serialize)]
pub struct SameFilledTest {
    /// A page that is same-filled.
    pub same_filled_ns: f64,
    /// All words equal but the last.
    pub all_but_last_word_ns: f64,
    /// All words equal but the last but one: the worst case, a whole pass for nothing.
    pub worst_case_ns: f64,
    /// Writing a same-filled page back.
    pub fill_ns: f64,
}
