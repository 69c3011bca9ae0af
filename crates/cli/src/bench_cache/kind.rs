//! The kinds of caches that are measured.

use super::plan::Plan;
use coldpress_cache::{Backing, DEFAULT_CHUNKS, Options};

/// A way to make a cache, and how it gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The kernel takes pages; the hottest are kept from it.
    Lazyfree,
    /// The kernel takes what pages it likes: what the original does where nothing has to be evicted.
    LazyfreePlain,
    /// Asked, it evicts; what is evicted stays, compressed.
    Compressed,
    /// Asked, it evicts.
    DontNeed,
    /// It gives nothing back; with swap, the kernel may swap it out.
    Anonymous,
    /// The same, so small that what is taken leaves room for it.
    AnonymousSmall,
    /// Chunks of lazyfree and anonymous memory.
    Mix,
    /// A file: the kernel writes pages back.
    Disk,
    /// It keeps nothing.
    Stub,
}

impl Kind {
    /// All, in the order in which they are measured.
    pub const ALL: [Kind; 9] = [
        Kind::Lazyfree,
        Kind::LazyfreePlain,
        Kind::Compressed,
        Kind::DontNeed,
        Kind::Anonymous,
        Kind::AnonymousSmall,
        Kind::Mix,
        Kind::Disk,
        Kind::Stub,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lazyfree => "lazyfree",
            Kind::LazyfreePlain => "lazyfree-plain",
            Kind::Compressed => "compressed",
            Kind::DontNeed => "dontneed",
            Kind::Anonymous => "anonymous",
            Kind::AnonymousSmall => "anonymous-small",
            Kind::Mix => "mix",
            Kind::Disk => "disk",
            Kind::Stub => "stub",
        }
    }

    /// Whether the program has to ask for memory before it takes it.
    pub fn is_asked(self) -> bool {
        matches!(self, Kind::Compressed | Kind::DontNeed)
    }

    /// How such a cache is made.
    pub fn options(self, plan: &Plan) -> Options {
        let bytes = plan.capacity_bytes as usize;
        match self {
            Kind::Lazyfree => Options::new(bytes, Backing::LazyFree),
            Kind::LazyfreePlain => Options {
                keep_hot: 0,
                ..Options::new(bytes, Backing::LazyFree)
            },
            Kind::Compressed => Options {
                compressed_bytes: plan.compressed_bytes as usize,
                ..Options::new(bytes, Backing::DontNeed)
            },
            Kind::DontNeed => Options::new(bytes, Backing::DontNeed),
            Kind::Anonymous => Options::new(bytes, Backing::Anonymous),
            Kind::AnonymousSmall => Options::new(bytes / 4, Backing::Anonymous),
            Kind::Mix => Options {
                lazyfree_chunks: DEFAULT_CHUNKS - DEFAULT_CHUNKS / 4,
                anonymous_chunks: DEFAULT_CHUNKS / 4,
                ..Options::new(bytes, Backing::LazyFree)
            },
            Kind::Disk => Options {
                directory: plan.directory.clone(),
                ..Options::new(bytes, Backing::Disk)
            },
            Kind::Stub => Options::stub(),
        }
    }
}
