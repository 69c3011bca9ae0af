//! What a cache refuses, and why.

use std::io;

/// Why a call was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The capacity holds no page.
    #[error(
        "a cache of {bytes} bytes holds no page: the capacity must be at least {} bytes",
        crate::PAGE_BYTES
    )]
    NoCapacity {
        /// The capacity asked for.
        bytes: usize,
    },
    /// The capacity has more pages than a cache can number.
    #[error("a cache of {bytes} bytes is too large: at most {most} bytes can be addressed")]
    TooLarge {
        /// The capacity asked for.
        bytes: usize,
        /// The largest capacity.
        most: usize,
    },
    /// The numbers of chunks do not add up.
    #[error("a cache needs between 1 and {most} chunks, not {chunks}")]
    Chunks {
        /// Chunks asked for, of all backings together.
        chunks: usize,
        /// The most there can be.
        most: usize,
    },
    /// Budgets that contradict each other.
    #[error(
        "a hard budget of {hard} bytes with a soft one of {soft} and {compressed} for compressed entries: the soft one must not be above it, and it must leave at least {} bytes beside compressed entries",
        crate::PAGE_BYTES
    )]
    Budget {
        /// `hard_bytes`
        hard: usize,
        /// `soft_bytes`
        soft: usize,
        /// `compressed_bytes`
        compressed: usize,
    },
    /// The kernel's pages have another size.
    #[error(
        "the kernel's pages have {kernel} bytes, the cache (or its caller) was built for {built}"
    )]
    PageSize {
        /// Bytes of a page of the kernel.
        kernel: usize,
        /// Bytes of a page as compiled.
        built: usize,
    },
    /// The kernel gave no address space, or no file could back a chunk.
    #[error(
        "{call} of {bytes} bytes failed: {source}; lower the capacity, or raise `ulimit -v` and vm.max_map_count"
    )]
    Memory {
        /// The call that failed.
        call: &'static str,
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// A writer holds the key.
    #[error("key {key} is locked for write")]
    Busy {
        /// The key.
        key: u64,
    },
    /// Every page is locked for write.
    #[error("every page of the cache is locked for write")]
    NoRoom,
    /// A small entry is empty or too long.
    #[error(
        "a small entry of {bytes} bytes: it must have 1 to {}; longer ones get a page each (`insert`)",
        crate::MOST_SMALL_BYTES
    )]
    SmallBytes {
        /// How many bytes it has.
        bytes: usize,
    },
    /// The cache was made without an index for small entries.
    #[error(
        "the cache was made for no small entries: set `small_entries` to how many it is to hold"
    )]
    NoSmallEntries,
    /// More small entries than can be numbered.
    #[error("an index for {entries} small entries is too large: at most {most}")]
    SmallEntries {
        /// Entries asked for.
        entries: usize,
        /// The most there can be.
        most: usize,
    },
    /// More bytes than a page has.
    #[error(
        "{bytes} bytes at offset {offset} do not fit into a page of {} bytes",
        crate::PAGE_BYTES
    )]
    TooLong {
        /// Where they were to begin.
        offset: usize,
        /// How many they are.
        bytes: usize,
    },
}
