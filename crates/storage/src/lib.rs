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
//! | the RFC's left, middle and right slot | `three_slot.rs`, `three_slot/` |
//!
//! Locks: none here. `allocate` and `free` take `&mut self`, which is the RFC's "compressed
//! storage lock", a lock of the engine; no byte of an object is copied under it.
//!
//! Implements RFC-0219, section "Compressed storage".
#![no_std]
#![deny(missing_docs)]

#[cfg(test)]
extern crate std;

mod access;
mod compressed_storage;
mod frame;
mod reference;
mod three_slot;

pub use access::{Gather, LINK_BYTES, data, prefetch, write};
pub use compressed_storage::{Compaction, CompressedStorage, Usage};
pub use frame::{FRAME_BYTES, FrameIndex, FrameSource};
pub use reference::{GRANULE_BYTES, Reference};
pub use three_slot::ThreeSlot;
