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
//!  link, little endian:  frame g, 4 bytes · offset in g / 8, 2 bytes · bytes of the rest, 2
//! ```
//!
//! A whole object is given as it lies. A split one is gathered: its two parts are copied behind
//! each other into memory of the reader's, a [`Gather`]. The storage writes the link when it
//! allocates ([`write_link`]), before anybody knows the reference, and nobody writes it again.
//! Neither part is empty, so the last field of a link is neither 0 nor above 4,095; a storage
//! may tell its links from other words by that.
//!
//! Who may read or write is the caller's affair, as the contracts say; the engine's page
//! requests and temporary references see to it.

use core::ops::Range;
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
    /// The memory itself, for other work between two reads.
    pub fn room(&mut self) -> &mut [u8; FRAME_BYTES] {
        &mut self.0
    }

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
pub(crate) struct Link {
    /// The frame that holds the rest.
    pub(crate) rest_frame: FrameIndex,
    /// Where in that frame the rest begins; a multiple of [`GRANULE_BYTES`].
    pub(crate) rest_offset: usize,
    /// Bytes of the rest. Those of the first part, which follow the link, are all others.
    pub(crate) rest_len: usize,
}

impl Link {
    /// The link as a word, as it stands in memory.
    pub(crate) const fn to_word(self) -> u64 {
        self.rest_frame.0 as u64
            | ((self.rest_offset / GRANULE_BYTES) as u64) << 32
            | (self.rest_len as u64) << 48
    }

    /// The link that the word says.
    pub(crate) const fn from_word(word: u64) -> Self {
        Self {
            rest_frame: FrameIndex(word as u32),
            rest_offset: (word >> 32) as u16 as usize * GRANULE_BYTES,
            rest_len: (word >> 48) as usize,
        }
    }

    /// Whether this can be the link of an object of `len` bytes at `offset`: both parts are not
    /// empty and lie inside their frames.
    fn fits(self, offset: usize, len: usize) -> bool {
        self.rest_frame.0 != 0
            && self.rest_len != 0
            && self.rest_len < len
            && offset + LINK_BYTES + (len - self.rest_len) <= FRAME_BYTES
            && self.rest_offset + self.rest_len <= FRAME_BYTES
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
    // SAFETY: R2 and R3: the link lies inside the frame, which is lent; nobody else uses it.
    unsafe {
        write_word(
            frames,
            reference.frame(),
            reference.offset(),
            link.to_word(),
        )
    };
}

/// Reads the eight bytes at `offset`, a multiple of 8, as a little-endian word.
///
/// # Safety
/// The frame is lent to the caller, and nobody else writes these bytes.
#[inline]
pub(crate) unsafe fn read_word(frames: &impl FrameSource, frame: FrameIndex, offset: usize) -> u64 {
    debug_assert!(offset.is_multiple_of(GRANULE_BYTES));
    let place = place(frames, frame, offset).cast::<[u8; 8]>();
    // SAFETY: the word lies inside the frame, since frames are multiples of 8; as promised.
    u64::from_le_bytes(unsafe { place.read() })
}

/// Writes the eight bytes at `offset`, a multiple of 8, as a little-endian word.
///
/// # Safety
/// The frame is lent to the caller, and nobody else uses these bytes.
#[inline]
pub(crate) unsafe fn write_word(
    frames: &impl FrameSource,
    frame: FrameIndex,
    offset: usize,
    word: u64,
) {
    debug_assert!(offset.is_multiple_of(GRANULE_BYTES));
    let place = place(frames, frame, offset).cast::<[u8; 8]>();
    // SAFETY: the word lies inside the frame, since frames are multiples of 8; as promised.
    unsafe { place.write(word.to_le_bytes()) };
}

/// Where the bytes of an object are: frame and range, of one part or of both. For tests, for
/// diagnosis and for storages that move objects. `None`: the link of a split object is damaged.
///
/// # Safety
/// As for [`data`].
pub unsafe fn parts(
    frames: &impl FrameSource,
    reference: Reference,
) -> Option<[(FrameIndex, Range<usize>); 2]> {
    let (frame, offset, len) = (reference.frame(), reference.offset(), reference.len());
    if !reference.is_split() {
        return Some([(frame, offset..offset + len), (frame, 0..0)]);
    }
    // SAFETY: as the caller promises.
    let link = unsafe { read_link(frames, reference) }?;
    let start = offset + LINK_BYTES;
    Some([
        (frame, start..start + len - link.rest_len),
        (
            link.rest_frame,
            link.rest_offset..link.rest_offset + link.rest_len,
        ),
    ])
}

/// Copies the bytes of one object to another of the same length.
///
/// # Safety
/// Both were allocated and not freed; nobody writes to `from`, nobody else uses `to`.
pub(crate) unsafe fn copy(frames: &impl FrameSource, from: Reference, to: Reference) {
    debug_assert_eq!(from.len(), to.len());
    // SAFETY: as the caller promises.
    let parts = unsafe { parts(frames, from) }.expect("the link is damaged");
    let pieces = parts.map(|(frame, range)| {
        // SAFETY: parts lie inside frames that the storage holds, and nobody writes to them;
        // `to` shares no byte with them (S1).
        unsafe {
            let start = place(frames, frame, range.start);
            core::slice::from_raw_parts(start.as_ptr(), range.len())
        }
    });
    // SAFETY: as the caller promises.
    unsafe { write(frames, to, &[pieces[0], pieces[1]]) };
}

/// The link of a split object, or `None` if it cannot be one.
///
/// # Safety
/// `reference` is split; else as for [`data`].
#[inline]
pub(crate) unsafe fn read_link(frames: &impl FrameSource, reference: Reference) -> Option<Link> {
    // SAFETY: R2 and R3: the link lies inside the frame, and was written when it was allocated.
    let word = unsafe { read_word(frames, reference.frame(), reference.offset()) };
    let link = Link::from_word(word);
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
    let (to_first, to_rest) = gathered.split_at_mut(len - link.rest_len);
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
            len - link.rest_len,
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

/// Reads bytes of an object, from byte `at` of it. `false`: the link of a split object is damaged,
/// and nothing was read. Takes no lock.
///
/// # Panics
/// If the object ends before the bytes do.
///
/// # Safety
/// As for [`data`].
pub unsafe fn read_at(
    frames: &impl FrameSource,
    reference: Reference,
    at: usize,
    into: &mut [u8],
) -> bool {
    // SAFETY: as the caller promises.
    let Some(parts) = (unsafe { parts(frames, reference) }) else {
        return false;
    };
    let (len, first) = (into.len(), parts[0].1.len());
    for_each_piece(at, len, first, reference.len(), |part, from, piece| {
        let (frame, range) = &parts[part];
        // SAFETY: the piece lies inside the part, and that inside a frame that the storage holds;
        // that nobody writes there is the caller's promise.
        unsafe {
            place(frames, *frame, range.start + from)
                .copy_to_nonoverlapping(NonNull::from(&mut into[piece.clone()]).cast(), piece.len())
        };
    });
    true
}

/// Writes bytes of an object again, from byte `at` of it. Takes no lock.
///
/// # Panics
/// If the object ends before the bytes do, or the link of a split object is damaged.
///
/// # Safety
/// As for [`write()`], whether or not the reference has been published.
pub unsafe fn write_at(frames: &impl FrameSource, reference: Reference, at: usize, bytes: &[u8]) {
    // SAFETY: as the caller promises.
    let parts = unsafe { parts(frames, reference) }.expect("the link is damaged");
    let first = parts[0].1.len();
    for_each_piece(
        at,
        bytes.len(),
        first,
        reference.len(),
        |part, from, piece| {
            let (frame, range) = &parts[part];
            // SAFETY: as in `read_at`; that nobody else uses the object is the caller's promise.
            unsafe {
                place(frames, *frame, range.start + from).copy_from_nonoverlapping(
                    NonNull::from(&bytes[piece.clone()]).cast(),
                    piece.len(),
                )
            };
        },
    );
}

/// Divides the bytes from `at` of an object of `total` bytes, the first `first` of which are in
/// its first part: calls `act` with the part, where in it the piece begins, and which of the
/// bytes it is. Not for empty pieces.
fn for_each_piece(
    at: usize,
    len: usize,
    first: usize,
    total: usize,
    mut act: impl FnMut(usize, usize, Range<usize>),
) {
    assert!(at + len <= total, "more bytes than the object has");
    let split = first.saturating_sub(at).min(len);
    if split > 0 {
        act(0, at, 0..split);
    }
    if split < len {
        act(1, at + split - first, split..len);
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
