//! Compressed storage: pack compressed pages into single frames.
//!
//! A storage keeps objects of 1 to 4096 bytes in frames of 4096 bytes that a host lends it one
//! at a time. It is the zpool of the Linux world and the compressed storage of Zircon. It knows
//! nothing of VMOs, of codecs or of what is in the bytes; the engine puts its own header (a
//! checksum and a time) at the head of each object.
//!
//! ```text
//!  engine ──allocate(len)──▶ CompressedStorage ──allocate()──▶ FrameSource (host)
//!         ◀──Reference──────  search lists, one                 frames of 4096 bytes
//!                             record a frame
//!  engine ──data(Reference)─────────────────────address()────▶  the bytes; no lock, no table
//! ```
//!
//! A [`Reference`] says where the object is: frame, offset and length, and whether it is split
//! over two frames. RFC-0219 hands out
//! references only after compression, when the length is known, for this very reason: "This can
//! allow it to represent the exact location of the data in the reference, without needing to
//! indirect through an additional table."
//!
//! | concept | file |
//! |---|---|
//! | frames and the host that lends them | `frame.rs` |
//! | references | `reference.rs` |
//! | the bytes of an object | `access.rs` |
//! | the trait, and usage | `compressed_storage.rs` |
//! | what a storage remembers of each frame, counted | `frame_table.rs` |
//! | lists of frames by free bytes | `search_lists.rs` |
//! | what a storage holds, counted | `tally.rs` |
//! | frames with a few slots | `slot_storage.rs` |
//! | zbud's first and last buddy | `slot_storage/two_slot.rs` |
//! | the RFC's left, middle and right slot | `slot_storage/three_slot.rs` |
//! | zsmalloc's classes, chains and compaction | `size_class.rs`, `size_class/` |
//! | our own | `press.rs`, `press/` |
//! | one of them, chosen when the program starts | `any.rs` |
//!
//! Locks: none here. `allocate` and `free` take `&mut self`, which is the RFC's "compressed
//! storage lock", a lock of the engine; no byte of an object is copied under it.
//!
//! Implements RFC-0219, section "Compressed storage".
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
extern crate std;

mod access;
mod any;
mod compressed_storage;
mod frame;
mod frame_table;
mod press;
mod reference;
mod search_lists;
mod size_class;
mod slot_storage;
mod tally;

pub use access::{Gather, LINK_BYTES, data, parts, prefetch, read_at, write, write_at};
pub use any::{AnyStorage, StorageKind};
pub use compressed_storage::{Compaction, CompressedStorage, Usage};
pub use frame::{FRAME_BYTES, FrameIndex, FrameSource};
pub use press::{Press, Tuning as PressTuning};
pub use reference::{GRANULE_BYTES, Reference};
pub use size_class::SizeClass;
pub use slot_storage::{SlotStorage, ThreeSlot, TwoSlot};
