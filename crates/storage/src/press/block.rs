//! Blocks: how a frame is divided, and what stands in it besides objects.
//!
//! ```text
//!  byte 0      6   8                                                       4094  4096
//!  ├───────────┼───┼──────────────┬───┼───────────┬───┼──── … ────────────┼───┤
//!  │ unused    │ h │ body         │ h │ body      │ h │                   │ h │ the end
//!  └───────────┴───┴──────────────┴───┴───────────┴───┴──── … ────────────┴───┘
//!              unit 1             unit k          unit m                  unit 512
//!
//!  h, header, 2 bytes:   15 0 │ 14 a hole lies before │ 13–12 kind │ 11–0 value
//!
//!  kind    value         body
//!  hole    units         next hole, 6 bytes · previous hole, 6 bytes · … · units, 2 bytes
//!  whole   its bytes     the object
//!  head    its bytes     link, 8 bytes · the object's first part
//!  rest    its bytes     the object's rest · … · where the head is, 6 bytes
//! ```
//!
//! The header of the block at unit `k` lies in the two bytes before `8 k`, so that a body begins
//! at a multiple of 8, as references demand, and a block of `u` units has a body of `8 u − 2`
//! bytes. The last header is the frame's end. Holes of one unit have no room for links and are on
//! no list; they wait for a neighbour to be freed.
//!
//! Invariants:
//! * K1 The blocks of a frame follow each other from unit 1 to unit 512 without a gap.
//! * K2 No two holes are neighbours; the header behind a hole says that there is one, and the
//!   hole's last two bytes say how long it is.
//! * K3 A head's link leads to the rest's body, and the rest's last six bytes lead back.
//!
//! Bodies of objects are written and read by others without a lock. What this file touches of a
//! frame is never part of an object: headers, links, back pointers, and holes.
#![forbid(unsafe_op_in_unsafe_fn)]

use core::ptr::NonNull;

use crate::access::LINK_BYTES;
use crate::frame::{FRAME_BYTES, FrameIndex, FrameSource};

/// Bytes of a unit.
pub(super) const UNIT_BYTES: usize = 8;

/// The first unit of the first block.
pub(super) const FIRST_UNIT: usize = 1;

/// Where the last header stands.
pub(super) const END_UNIT: usize = FRAME_BYTES / UNIT_BYTES;

/// Units of a frame.
pub(super) const FRAME_UNITS: usize = END_UNIT - FIRST_UNIT;

const HEADER_BYTES: usize = 2;
const PLACE_BYTES: usize = 6;

/// The smallest hole that can be on a list.
pub(super) const LISTED_UNITS: usize = (HEADER_BYTES + 2 * PLACE_BYTES + 2) / UNIT_BYTES;

/// Bytes of a block with a head in it that are not the object's.
pub(super) const HEAD_OVERHEAD: usize = HEADER_BYTES + LINK_BYTES;

/// Bytes of a block with a rest in it that are not the object's.
pub(super) const REST_OVERHEAD: usize = HEADER_BYTES + PLACE_BYTES;

/// What is in a block.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(super) enum Kind {
    Hole = 0,
    Whole = 1,
    Head = 2,
    Rest = 3,
}

/// The header of a block.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Units of a hole, else bytes of the object in this block.
    pub(super) value: usize,
    /// The block before is a hole (K2).
    pub(super) follows_hole: bool,
}

impl Header {
    /// A block that follows no hole.
    pub(super) fn new(kind: Kind, value: usize) -> Self {
        Self {
            kind,
            value,
            follows_hole: false,
        }
    }

    #[inline]
    fn to_bits(self) -> u16 {
        debug_assert!(self.value < 1 << 12);
        self.value as u16 | (self.kind as u16) << 12 | u16::from(self.follows_hole) << 14
    }

    #[inline]
    fn from_bits(bits: u16) -> Self {
        let kind = match bits >> 12 & 3 {
            0 => Kind::Hole,
            1 => Kind::Whole,
            2 => Kind::Head,
            _ => Kind::Rest,
        };
        Self {
            kind,
            value: usize::from(bits & 0xfff),
            follows_hole: bits >> 14 & 1 == 1,
        }
    }

    /// Units of the block.
    #[inline]
    pub(super) fn units(self) -> usize {
        match self.kind {
            Kind::Hole => self.value,
            kind => units_for(kind, self.value),
        }
    }
}

/// Units that a block takes with `len` bytes of an object in it.
#[inline]
pub(super) const fn units_for(kind: Kind, len: usize) -> usize {
    let overhead = match kind {
        Kind::Hole | Kind::Whole => HEADER_BYTES,
        Kind::Head => HEAD_OVERHEAD,
        Kind::Rest => REST_OVERHEAD,
    };
    (len + overhead).div_ceil(UNIT_BYTES)
}

/// Whether a block of `units` at `unit` lies inside a frame.
#[inline]
pub(super) const fn is_inside(unit: usize, units: usize) -> bool {
    unit >= FIRST_UNIT && unit + units <= END_UNIT
}

/// A block's place: its frame and its first unit. 48 bits; zero is none.
#[derive(Copy, Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Place {
    pub(super) frame: u32,
    pub(super) unit: u16,
}

impl Place {
    /// No place.
    pub(super) const NONE: Self = Self { frame: 0, unit: 0 };

    pub(super) fn new(frame: u32, unit: usize) -> Self {
        Self {
            frame,
            unit: unit as u16,
        }
    }

    pub(super) fn is_none(self) -> bool {
        self.frame == 0
    }

    pub(super) fn unit(self) -> usize {
        usize::from(self.unit)
    }

    /// Where in the frame the body of the block begins.
    pub(super) fn offset(self) -> usize {
        self.unit() * UNIT_BYTES
    }

    #[inline]
    fn to_bytes(self) -> [u8; PLACE_BYTES] {
        let ([a, b, c, d], [e, f]) = (self.frame.to_le_bytes(), self.unit.to_le_bytes());
        [a, b, c, d, e, f]
    }

    #[inline]
    fn from_bytes([a, b, c, d, e, f]: [u8; PLACE_BYTES]) -> Self {
        Self {
            frame: u32::from_le_bytes([a, b, c, d]),
            unit: u16::from_le_bytes([e, f]),
        }
    }
}

/// A frame's blocks.
#[derive(Copy, Clone)]
pub(super) struct Blocks {
    base: NonNull<u8>,
}

impl Blocks {
    /// The blocks of `frame`.
    ///
    /// # Safety
    /// The storage holds the frame as long as the result is used, the storage lock is held, and
    /// units given to the methods are those of blocks (K1), so that nothing is touched that is
    /// part of an object.
    pub(super) unsafe fn of(frames: &impl FrameSource, frame: u32) -> Self {
        Self {
            base: frames.address(FrameIndex(frame)),
        }
    }

    #[inline]
    fn read<const N: usize>(self, offset: usize) -> [u8; N] {
        assert!(offset <= FRAME_BYTES - N, "beyond the frame");
        // SAFETY: inside the frame, which is held; the bytes are the storage's own, as `of`
        // demands, so under the storage lock nobody writes to them.
        unsafe { self.base.add(offset).cast::<[u8; N]>().read() }
    }

    #[inline]
    fn write<const N: usize>(self, offset: usize, bytes: [u8; N]) {
        assert!(offset <= FRAME_BYTES - N, "beyond the frame");
        // SAFETY: as for `read`; nobody else uses the bytes.
        unsafe { self.base.add(offset).cast::<[u8; N]>().write(bytes) }
    }

    /// Asks the processor for the cache line with the header of the block at `unit`.
    #[inline]
    pub(super) fn prefetch(self, unit: usize) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let header = self
                .base
                .as_ptr()
                .wrapping_add(unit * UNIT_BYTES - HEADER_BYTES);
            // SAFETY: a hint: it touches nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(header.cast()) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = unit;
    }

    /// The header of the block at `unit`.
    #[inline]
    pub(super) fn header(self, unit: usize) -> Header {
        Header::from_bits(u16::from_le_bytes(
            self.read(unit * UNIT_BYTES - HEADER_BYTES),
        ))
    }

    #[inline]
    pub(super) fn set_header(self, unit: usize, header: Header) {
        self.write(
            unit * UNIT_BYTES - HEADER_BYTES,
            header.to_bits().to_le_bytes(),
        );
    }

    /// Says at `unit` whether the block before is a hole.
    #[inline]
    pub(super) fn set_follows_hole(self, unit: usize, follows_hole: bool) {
        let header = self.header(unit);
        self.set_header(
            unit,
            Header {
                follows_hole,
                ..header
            },
        );
    }

    /// Units of the hole that ends before `unit` (K2).
    #[inline]
    pub(super) fn hole_before(self, unit: usize) -> usize {
        let units = self.read((unit * UNIT_BYTES) - HEADER_BYTES - 2);
        usize::from(u16::from_le_bytes(units))
    }

    /// Makes a hole, and tells the block behind.
    #[inline]
    pub(super) fn set_hole(self, unit: usize, units: usize) {
        self.set_header(unit, Header::new(Kind::Hole, units));
        let end = unit + units;
        self.write(
            end * UNIT_BYTES - HEADER_BYTES - 2,
            (units as u16).to_le_bytes(),
        );
        self.set_follows_hole(end, true);
    }

    /// Makes a frame that is one hole.
    pub(super) fn set_empty(self) {
        self.set_header(END_UNIT, Header::new(Kind::Whole, 0));
        self.set_hole(FIRST_UNIT, FRAME_UNITS);
    }

    /// The hole that follows on its list.
    #[inline]
    pub(super) fn next(self, unit: usize) -> Place {
        Place::from_bytes(self.read(unit * UNIT_BYTES))
    }

    #[inline]
    pub(super) fn set_next(self, unit: usize, place: Place) {
        self.write(unit * UNIT_BYTES, place.to_bytes());
    }

    /// The hole that precedes on its list.
    #[inline]
    pub(super) fn previous(self, unit: usize) -> Place {
        Place::from_bytes(self.read(unit * UNIT_BYTES + PLACE_BYTES))
    }

    #[inline]
    pub(super) fn set_previous(self, unit: usize, place: Place) {
        self.write(unit * UNIT_BYTES + PLACE_BYTES, place.to_bytes());
    }

    /// Where the head of a rest is (K3). `units` are the rest's.
    #[inline]
    pub(super) fn head_of(self, unit: usize, units: usize) -> Place {
        Place::from_bytes(self.read((unit + units) * UNIT_BYTES - REST_OVERHEAD))
    }

    #[inline]
    pub(super) fn set_head_of(self, unit: usize, units: usize, head: Place) {
        self.write((unit + units) * UNIT_BYTES - REST_OVERHEAD, head.to_bytes());
    }

    /// The first block at or behind `from`, a unit of any kind, that is no hole.
    pub(super) fn next_object(self, from: usize) -> Option<(usize, Header)> {
        let mut unit = FIRST_UNIT;
        while unit < END_UNIT {
            let header = self.header(unit);
            if unit >= from && header.kind != Kind::Hole {
                return Some((unit, header));
            }
            unit += header.units();
        }
        None
    }

    /// Calls `visit` with each block.
    pub(super) fn for_each(self, mut visit: impl FnMut(usize, Header)) {
        let mut unit = FIRST_UNIT;
        while unit < END_UNIT {
            let header = self.header(unit);
            assert!(header.units() != 0, "K1");
            visit(unit, header);
            unit += header.units();
        }
        assert_eq!(unit, END_UNIT, "K1");
    }
}
