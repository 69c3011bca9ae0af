//! The order of the pager's locks, checked in debug builds.
//!
//! A thread takes a lock only while all that it holds have lower ranks; the gate has one too. What is only *tried* closes
//! no circle, so it may be taken under anything but its own rank. The engine checks its locks the same way, by the same
//! word of the thread (`coldpress_engine::lock`), and panics naming the two ranks. Threads of the program have no such
//! word and are not checked; the simulation checks the pager's threads with every step.
//!
//! | rank | lock |
//! |---|---|
//! | [`FORK`] | the fork lock; the request lock |
//! | [`REGISTERING`] | `Pager::registering` |
//! | [`GATE`] | the gate, inside or closed |
//! | [`DISCOVERY_BUFFER`], [`FOUND`] | the text of the mappings, and the mappings as last read |
//! | [`NEW_WINDOWS`] | `Pager::new_windows` |
//! | 6, [`LEAF`] | the engine's: a VMO, leaves. The pager's own leaves share their rank |
//! | [`INDEX_PARTS`], [`CHUNKS`], [`GROWING`] | address space that is handed out and mapped |

use coldpress_engine::lock;

/// One fork, or one request, at a time.
pub const FORK: u32 = 0;
/// Memory is registered, moved, or marked for forks.
pub const REGISTERING: u32 = 1;
/// The gate.
pub const GATE: u32 = 2;
/// The text of the mappings.
pub const DISCOVERY_BUFFER: u32 = 3;
/// The mappings as last read.
pub const FOUND: u32 = 4;
/// Making a window.
pub const NEW_WINDOWS: u32 = 5;
/// Locks under which only address space is taken.
pub const LEAF: u32 = lock::rank::LEAF;
/// Parts of the window index.
pub const INDEX_PARTS: u32 = 8;
/// Chunks for tables.
pub const CHUNKS: u32 = 9;
/// Mapping more of an area.
pub const GROWING: u32 = 10;
