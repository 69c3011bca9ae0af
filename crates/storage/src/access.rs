//! The bytes of stored objects: reading and writing them. Takes no lock.
//!
//! ```text
//!  whole object                      split object
//!  frame f                           frame f                        frame g
//!  ┌──────┬─────────────┬───┐        ┌─────┬──────┬────────────┐    ┌────┬──────────┬───┐
//!  │      │ len bytes   │   │        │     │ link │ first part │    │    │ the rest │   │
//!  └──────┴─────────────┴───┘        └─────┴──────┴────────────┘    └────┴──────────┴───┘
//!         ▲ offset                         ▲ offset └─────────────────▶
//!
//!  link, little endian:  frame g, 4 bytes · offset in g / 8, 2 bytes · bytes of the first part, 2
//! ```
//!
//! A whole object is given as it lies. A split one is gathered: its two parts are copied behind
//! each other into memory of the reader's, a [`Gather`]. The storage writes the link when it
//! allocates ([`write_link`]), before anybody knows the reference, and nobody writes it again.
//!
//! Who may read or write is the caller's affair, as the contracts say; the engine's page
//! requests and temporary references see to it.

use core::ptr::NonNull;

use coldpress_arena::Zeroable;

use crate::frame::{FRAME_BYTES, FrameIndex, FrameSource};
use crate::reference::{GRANULE_BYTES, Reference};

/// Bytes of a link.
pub const LINK_BYTES: usize = 8;

/// Memory of a reader's own, where split objects are put together.
#[repr(C, align(64))]
pub struct Gather([u8; FRAME_BYTES]);

// SAFETY: plain bytes; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for Gather {}

impl Gather {
    /// Fresh memory, for a `static` or a test. Zeroed memory does as well.
    pub const fn new() -> Self {
        Self([0; FRAME_BYTES])
    }
}

impl Default for Gather {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the parts of a split object are.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Link {
    /// The frame that holds the rest.
    pub rest_frame: FrameIndex,
    /// Where in that frame the rest begins; a multiple of [`GRANULE_BYTES`].
    pub rest_offset: usize,
    /// Bytes of the first part, which follow the link.
    pub first_len: usize,
}

impl Link {
    fn to_bytes(self) -> [u8; LINK_BYTES] {
        let bits = u64::from(self.rest_frame.0)
            | ((self.rest_offset / GRANULE_BYTES) as u64) << 32
            | (self.first_len as u64) << 48;
        bits.to_le_bytes()
    }

    fn from_bytes(bytes: [u8; LINK_BYTES]) -> Self {
        let bits = u64::from_le_bytes(bytes);
        Self {
            rest_frame: FrameIndex(bits as u32),
            rest_offset: (bits >> 32) as u16 as usize * GRANULE_BYTES,
            first_len: (bits >> 48) as usize,
        }
    }

    /// Whether this can be the link of an object of `len` bytes at `offset`: both parts are not
    /// empty and lie inside their frames.
    fn fits(self, offset: usize, len: usize) -> bool {
        self.rest_frame.0 != 0
            && self.first_len != 0
            && self.first_len < len
            && offset + LINK_BYTES + self.first_len <= FRAME_BYTES
            && self.rest_offset + (len - self.first_len) <= FRAME_BYTES
    }
}

/// Writes the link of a split object: for storages, when they allocate.
///
/// # Panics
/// If a part is empty or does not lie inside its frame.
///
/// # Safety
/// The place of `reference` is allocated, and nobody knows the reference yet.
pub(crate) unsafe fn write_link(frames: &impl FrameSource, reference: Reference, link: Link) {
    assert!(
        reference.is_split()
            && link.fits(reference.offset(), reference.len())
            && link.rest_offset.is_multiple_of(GRANULE_BYTES),
        "a part of the object is not inside its frame"
    );
    let place = place(frames, reference.frame(), reference.offset());
    // SAFETY: R2 and R3: the link lies inside the frame, which is lent; nobody else uses it.
    unsafe { place.cast::<[u8; LINK_BYTES]>().write(link.to_bytes()) };
}

/// The link of a split object, or `None` if it cannot be one.
///
/// # Safety
/// `reference` is split; else as for [`data`].
#[inline]
pub(crate) unsafe fn read_link(frames: &impl FrameSource, reference: Reference) -> Option<Link> {
    let place = place(frames, reference.frame(), reference.offset());
    // SAFETY: R2 and R3: the link lies inside the frame, and was written when it was allocated.
    let link = Link::from_bytes(unsafe { place.cast::<[u8; LINK_BYTES]>().read() });
    link.fits(reference.offset(), reference.len())
        .then_some(link)
}

#[inline]
fn place(frames: &impl FrameSource, frame: FrameIndex, offset: usize) -> NonNull<u8> {
    debug_assert!(offset < FRAME_BYTES);
    // SAFETY: the offset is inside the frame (R2), so the sum stays inside one allocation.
    unsafe { frames.address(frame).add(offset) }
}

/// The bytes of an object: as they lie, or gathered. `None`: the link of a split object is
/// damaged. Takes no lock.
///
/// The lifetime is the caller's to choose; it is the time in which the contract holds.
///
/// # Safety
/// `reference` was returned by `allocate` of a storage that was given `frames`, is not freed
/// while the result is in use, and nobody writes to the object meanwhile.
#[inline]
pub unsafe fn data<'a>(
    frames: &impl FrameSource,
    reference: Reference,
    gather: &'a mut Gather,
) -> Option<&'a [u8]> {
    let (frame, len) = (reference.frame(), reference.len());
    if !reference.is_split() {
        let place = place(frames, frame, reference.offset());
        // SAFETY: the object is allocated, so its storage holds the frame and the contract of
        // FrameSource makes its bytes valid; R2: the object lies inside the frame; that it is
        // not freed nor written to is the caller's promise.
        return Some(unsafe { core::slice::from_raw_parts(place.as_ptr(), len) });
    }
    // SAFETY: as the caller promises.
    let link = unsafe { read_link(frames, reference) }?;
    let first = place(frames, frame, reference.offset() + LINK_BYTES);
    let rest = place(frames, link.rest_frame, link.rest_offset);
    let (gathered, _) = gather.0.split_at_mut(len);
    let (to_first, to_rest) = gathered.split_at_mut(link.first_len);
    // SAFETY: both parts lie inside frames that the storage holds (`fits`); the rest as above.
    unsafe {
        to_first.copy_from_slice(core::slice::from_raw_parts(first.as_ptr(), to_first.len()));
        to_rest.copy_from_slice(core::slice::from_raw_parts(rest.as_ptr(), to_rest.len()));
    }
    Some(gathered)
}

/// Writes `pieces`, one behind the other, to an object. Takes no lock: the RFC copies the
/// compressed bytes after it has released the storage lock.
///
/// # Panics
/// If the pieces are longer than the object, or the link of a split object is damaged.
///
/// # Safety
/// `reference` was returned by `allocate` of a storage that was given `frames`, is not freed
/// meanwhile, and nobody else reads or writes the object; as long as the reference has not been
/// published, nobody can.
pub unsafe fn write(frames: &impl FrameSource, reference: Reference, pieces: &[&[u8]]) {
    let (frame, len) = (reference.frame(), reference.len());
    let (first, first_len, rest) = if reference.is_split() {
        // SAFETY: as the caller promises.
        let link = unsafe { read_link(frames, reference) }.expect("the link is damaged");
        (
            place(frames, frame, reference.offset() + LINK_BYTES),
            link.first_len,
            place(frames, link.rest_frame, link.rest_offset),
        )
    } else {
        let first = place(frames, frame, reference.offset());
        (first, len, first)
    };
    let mut at = 0;
    for piece in pieces {
        assert!(piece.len() <= len - at, "more bytes than the object has");
        let (head, tail) = piece.split_at(piece.len().min(first_len.saturating_sub(at)));
        // SAFETY: `at + head.len() <= first_len` and the rest ends before `len`, so both lie
        // inside their parts, which lie inside frames that the storage holds; that nobody else
        // uses the object is the caller's promise, and objects do not overlap (S1).
        unsafe {
            if !head.is_empty() {
                first
                    .add(at)
                    .copy_from_nonoverlapping(NonNull::from(head).cast(), head.len());
            }
            if !tail.is_empty() {
                rest.add(at + head.len() - first_len)
                    .copy_from_nonoverlapping(NonNull::from(tail).cast(), tail.len());
            }
        }
        at += piece.len();
    }
}

/// Asks the processor for every cache line of an object, ahead of [`data`]: as soon as the
/// reference is known. A split object's second part is not asked for (its link is not here yet).
#[inline]
pub fn prefetch(frames: &impl FrameSource, reference: Reference) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = frames.address(reference.frame()).as_ptr();
        let end = (reference.offset() + reference.len()).min(FRAME_BYTES);
        for line in (reference.offset() & !63..end).step_by(64) {
            // SAFETY: a hint: it touches nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (frames, reference);
}
