//! A discardable cache: pages that the kernel may take back when memory is short, found by a
//! 64-bit key and read where they lie.
//!
//! It is for what can be had again (from a network, from a computation) at a price: memory that
//! would otherwise be idle keeps it, and gives way without anybody being asked, without swap and
//! without the program being killed.
//!
//! ```text
//!  key ──▶ index ──▶ record of the page ──▶ page, in a chunk
//!          hash,      key, state             4096 bytes, the last is the marker
//!          no lock
//!
//!  chunk  being filled ──full, no writer──▶ sealed: MADV_FREE ──┬─▶ pages taken by the kernel
//!              ▲                                                └─▶ evicted by the cache
//!              └──────────────── free pages ◀───────────────────────────┘
//! ```
//!
//! # How a page that vanished is noticed
//!
//! `MADV_FREE` leaves pages readable until the kernel needs them; then they read as zeros. The last
//! byte of each page is therefore made odd (its true value goes into the page's record): a page whose last
//! byte is zero was taken. The kernel takes whole pages, and a page once taken stays zero until a writer comes,
//! so a reader that finds the marker **after** it read has read what was written.
//!
//! A page may also be evicted and used for another key while somebody reads it. Its record has a
//! state word (`slot.rs`) that changes with each use and never comes back; a reader compares it
//! afterwards. Both together make a read valid; neither makes it wait.
//!
//! # Small entries
//!
//! Entries of less than half a page lie together in pages, which are filled from front to end and never
//! rewritten; a word of an index of their own leads to each (`small.rs`). What happens to a page
//! happens to all of them.
//!
//! # Writers
//!
//! Any number of writers may each hold a page. The *room lock* is held for the moments in which a
//! page is chosen or given back, never while one is filled. A chunk is sealed only while no writer
//! holds a page of it: a page that is half written when it becomes takeable could lose its first
//! half. Whoever writes to a sealed page first makes it dirty, which takes it from the kernel's
//! reach, and then looks whether it is still there.
//!
//! # What goes first
//!
//! Each page has a count of its hits, halved as time (in evictions) goes by. Where there is no free
//! page, pages that the kernel has taken already are used; otherwise the chunk with the least heat a
//! page gives its colder half. The hottest pages of sealed chunks, up to a part of the capacity, are kept
//! from the kernel by making them dirty, since it sees only whether a page was used, not how often.
//!
//! With a compressed tier an entry that is evicted is compressed and stays, up to a budget, and gets
//! a page again when it is asked for. Of these the ones go first that cost least to make again for the
//! memory they take, which the caller may say ([`Cache::set_cost`]), and that have been there longest. Readers wait then for one page to be decompressed, and for a
//! few to be compressed; what lies in pages is read without waiting as ever.
//!
//! # How much memory
//!
//! Pages and compressed entries together never take more than a hard budget. Above a soft one the cache
//! gives memory back while the kernel says that memory is short, if somebody tends it ([`Cache::tend`]).
//!
//! # Invariants
//!
//! * C1 A page's state is closed under the room lock, and opened by its one writer after the last
//!   byte was replaced by the marker.
//! * C2 A chunk with writers is not sealed. Writers are counted under the room lock before they
//!   get their page.
//! * C3 A page is in exactly one of: never used, free, locked for write, open. Only the last two
//!   have a word in the index.
//! * C4 What a reader hands out was copied between two looks at an unchanged open state, with the
//!   marker in place at the second.
//!
//! # What it deliberately does not do
//!
//! It makes no reference to a page. It starts no thread unless asked to ([`Cache::tend_every`]). A forked child has a copy of the cache like
//! of any memory; a write lock that another thread held at the fork stays locked there.
//!
//! | concept | file |
//! |---|---|
//! | the cache, reading | `cache.rs`, `read.rs` |
//! | writing | `write.rs` |
//! | chunks and what the room lock guards; taking pages, giving them back, sealing | `room.rs`, `pages.rs` |
//! | what is evicted | `evict.rs` |
//! | key to page | `index.rs` |
//! | entries smaller than a page, and their index | `small.rs`, `small_index.rs` |
//! | entries compressed | `tier.rs`, `frames.rs` |
//! | which of these go first | `order.rs` |
//! | hard and soft budget | `budget.rs`, `tend.rs`, `pressure.rs` |
//! | a page's record | `slot.rs` |
//! | bytes that change under one's hands | `racy.rs` |
//! | memory, system calls | `region.rs` |
//! | kinds and sizes | `options.rs` |
//! | figures | `counters.rs`, `stats.rs` |
//! | the C interface (`include/lazyfree.h`) | `ffi.rs` |
//!
//! Implements seed 004, "LazyFree cache".
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod budget;
mod cache;
mod counters;
mod error;
mod evict;
pub mod ffi;
mod frames;
mod index;
mod options;
mod order;
mod pages;
mod pressure;
mod racy;
mod read;
mod region;
mod room;
mod slot;
mod small;
mod small_index;
mod stats;
mod tend;
mod tier;
mod write;

pub use cache::Cache;
pub use error::Error;
pub use options::{Backing, DEFAULT_CHUNKS, Options};
pub use read::ReadLock;
pub use stats::Stats;
pub use tend::Tender;
pub use write::WriteLock;

/// Bytes of a page. The kernel's must be the same.
pub const PAGE_BYTES: usize = 4096;

/// The longest small entry ([`Cache::insert_small`]): two of them fit into a page. Longer ones would leave
/// more of it free than a page of their own does.
pub const MOST_SMALL_BYTES: usize = 2030;

/// The most chunks a cache can have: what is kept of each is looked through whenever a page is needed.
pub const MOST_CHUNKS: usize = 4096;
