//! How a cache is made.

use crate::error::Error;
use crate::pressure::MACHINE;
use crate::{MOST_CHUNKS, PAGE_BYTES};
use std::path::PathBuf;

/// Chunks of a cache made by [`Options::new`]. Sealing and choosing what to evict cost a walk over
/// a chunk; at 32, as in the original, the chunk that is being filled, and that the kernel cannot
/// take, is 3 % of the cache.
pub const DEFAULT_CHUNKS: usize = 32;

/// What a chunk's memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Marked with `MADV_FREE` once it is full: the kernel takes pages when it needs them, and not
    /// before. They count as resident until then.
    LazyFree,
    /// Ordinary memory. The kernel takes nothing; with swap it may swap it out. It stays resident
    /// when its entries are gone.
    Anonymous,
    /// Ordinary memory, given back with `MADV_DONTNEED` the moment an entry goes: what is resident
    /// is what is cached.
    DontNeed,
    /// A file without a name, mapped shared: the kernel writes it back instead of losing it.
    Disk,
}

/// What [`Cache::new`](crate::Cache::new) is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of pages, rounded up to whole pages and to chunks of equal size.
    pub capacity_bytes: usize,
    /// Chunks of [`Backing::LazyFree`].
    pub lazyfree_chunks: usize,
    /// Chunks of [`Backing::Anonymous`].
    pub anonymous_chunks: usize,
    /// Chunks of [`Backing::DontNeed`].
    pub dont_need_chunks: usize,
    /// Chunks of [`Backing::Disk`].
    pub disk_chunks: usize,
    /// Where files for disk chunks are made (and unlinked at once).
    pub directory: PathBuf,
    /// Evict nothing while the kernel has taken anything: with a capacity above the memory there
    /// is, only pressure evicts. Otherwise what the kernel took is used first where it is at least
    /// an eighth of a chunk.
    pub overcommit: bool,
    /// The part of the capacity, in 256ths, whose hottest pages are kept from the kernel while they
    /// are hot.
    /// The default is 32, an eighth: enough for the hot set of the original's benchmark (256 MiB of
    /// 4 GiB, 16) with room to spare, and little enough that a kernel short of memory still finds
    /// seven eighths.
    pub keep_hot: u8,
    /// Bytes that evicted entries may take, compressed; 0 for none: they are lost then. This is beside
    /// the capacity. Not less than a page otherwise.
    pub compressed_bytes: usize,
    /// About how many entries of less than a page the cache is to hold
    /// ([`insert_small`](crate::Cache::insert_small)); 0 for none. Their index takes 26 bytes an entry
    /// beside the capacity, backed as it is touched; in its page an entry takes 10 bytes beside its own,
    /// and up to 7 to the next multiple of 8. With more entries than this, some give up their place in the index to
    /// others ([`Stats::small_displaced`](crate::Stats::small_displaced)).
    pub small_entries: usize,
    /// Bytes that pages and compressed entries may take together, whatever their kinds; 0 for all there can
    /// be, which is the capacity and `compressed_bytes`. It is never exceeded: where a page more would, the
    /// coldest go first. A page that the kernel may take counts until it has taken it. Must leave a page
    /// beside `compressed_bytes`.
    pub hard_bytes: usize,
    /// Bytes to which pages and compressed entries shrink while memory is short, if the cache is
    /// [tended](crate::Cache::tend); 0 for `hard_bytes`, so that nothing shrinks.
    pub soft_bytes: usize,
    /// Where the kernel tells whether memory is short: `/proc/pressure/memory`, or `memory.pressure` of a
    /// memory group.
    pub pressure: PathBuf,
    /// Keep nothing: every read misses, every write is forgotten. For measuring what a cache is
    /// worth.
    pub stub: bool,
}

impl Options {
    /// A cache of `capacity_bytes`, all of it of one backing.
    pub fn new(capacity_bytes: usize, backing: Backing) -> Options {
        let chunks = |of| if of == backing { DEFAULT_CHUNKS } else { 0 };
        Options {
            capacity_bytes,
            lazyfree_chunks: chunks(Backing::LazyFree),
            anonymous_chunks: chunks(Backing::Anonymous),
            dont_need_chunks: chunks(Backing::DontNeed),
            disk_chunks: chunks(Backing::Disk),
            directory: std::env::temp_dir(),
            overcommit: false,
            keep_hot: 32,
            compressed_bytes: 0,
            small_entries: 0,
            hard_bytes: 0,
            soft_bytes: 0,
            pressure: MACHINE.into(),
            stub: false,
        }
    }

    /// A cache that keeps nothing.
    pub fn stub() -> Options {
        Options {
            stub: true,
            ..Options::new(64 * PAGE_BYTES, Backing::Anonymous)
        }
    }

    /// Pages a chunk has, and the backing of each chunk.
    pub(crate) fn layout(&self) -> Result<(u32, Vec<Backing>), Error> {
        let bytes = self.capacity_bytes;
        if bytes < PAGE_BYTES {
            return Err(Error::NoCapacity { bytes });
        }
        let (hard, soft) = (self.hard_bytes, self.soft_bytes);
        let compressed = self.compressed_bytes;
        if hard != 0 && (soft > hard || hard < compressed.saturating_add(PAGE_BYTES)) {
            return Err(Error::Budget {
                hard,
                soft,
                compressed,
            });
        }
        let counts = [
            (self.lazyfree_chunks, Backing::LazyFree),
            (self.anonymous_chunks, Backing::Anonymous),
            (self.dont_need_chunks, Backing::DontNeed),
            (self.disk_chunks, Backing::Disk),
        ];
        let chunks = counts
            .iter()
            .fold(0usize, |sum, (count, _)| sum.saturating_add(*count));
        if chunks == 0 || chunks > MOST_CHUNKS {
            return Err(Error::Chunks {
                chunks,
                most: MOST_CHUNKS,
            });
        }
        let pages_a_chunk = bytes.div_ceil(PAGE_BYTES).div_ceil(chunks);
        // A page number and one must fit into 32 bits, the last number is no page.
        let most_pages = u32::MAX as usize - 1;
        if pages_a_chunk.saturating_mul(chunks) > most_pages {
            return Err(Error::TooLarge {
                bytes,
                most: (most_pages - MOST_CHUNKS).saturating_mul(PAGE_BYTES),
            });
        }
        let backings = counts
            .iter()
            .flat_map(|&(count, backing)| std::iter::repeat_n(backing, count))
            .collect();
        Ok((pages_a_chunk as u32, backings))
    }
}
