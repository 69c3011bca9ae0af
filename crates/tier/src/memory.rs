//! The memory of a tier, which its caller gives: tables of records and segments, and buffers.

use crate::seal::TAG_BYTES;

/// A row of the table of records. [`Slot::default`] is a free one, and is all zero bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Slot {
    /// The number under which it was sealed.
    pub(crate) number: u64,
    pub(crate) owner: u64,
    /// Its segment, or [`OPEN`] or [`LOST`].
    pub(crate) segment: u32,
    pub(crate) offset: u32,
    /// With its tag; 0: the row is free.
    pub(crate) length: u32,
    /// Its neighbours in the list of its segment, a ring; of a free row, `after` is the next free one.
    pub(crate) before: u32,
    pub(crate) after: u32,
    pub(crate) _unused: u32,
}

/// Of a record that is in the buffer.
pub(crate) const OPEN: u32 = u32::MAX;

/// Of a record that a cleaning could not read.
pub(crate) const LOST: u32 = u32::MAX - 1;

/// No row.
pub(crate) const NONE: u32 = 0;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    #[default]
    Free = 0,
    Written = 1,
    /// Free, and its space was not given up yet.
    Freed = 2,
    /// Written, and to stay as it is even if none of its records is live: others read it.
    Kept = 3,
    /// Free, and its space is not given up: where the device has none for another, cleaning begins with it.
    Reserve = 4,
}

/// A row of the table of segments. [`Segment::default`] is a free one, and is all zero bytes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Segment {
    pub(crate) state: State,
    /// A row of the ring of its records, the first one written.
    pub(crate) first: u32,
    pub(crate) live_bytes: u32,
    pub(crate) live_records: u32,
}

/// The memory of a tier.
pub struct Memory<'m> {
    /// As many records as there can be, and one more. 40 bytes each.
    pub slots: &'m mut [Slot],
    /// One for each segment of the device. 16 bytes each.
    pub segments: &'m mut [Segment],
    /// Records that were not written yet. Its length is that of a segment.
    pub buffer: &'m mut [u8],
    /// Room for the longest record, and [`Memory::SCRATCH_BYTES`] more.
    pub scratch: &'m mut [u8],
}

impl Memory<'_> {
    /// What the scratch buffer has beside the longest record.
    pub const SCRATCH_BYTES: usize = TAG_BYTES;
}

/// Rings of records: of each segment, and of the buffer.
impl Segment {
    /// Puts a record at the end of the ring.
    pub(crate) fn link(&mut self, slots: &mut [Slot], at: u32) {
        let first = self.first;
        if first == NONE {
            (slots[at as usize].before, slots[at as usize].after) = (at, at);
            self.first = at;
        } else {
            let last = slots[first as usize].before;
            (slots[at as usize].before, slots[at as usize].after) = (last, first);
            slots[last as usize].after = at;
            slots[first as usize].before = at;
        }
        self.live_bytes += slots[at as usize].length;
        self.live_records += 1;
    }

    /// Takes a record out of the ring.
    pub(crate) fn unlink(&mut self, slots: &mut [Slot], at: u32) {
        let Slot {
            before,
            after,
            length,
            ..
        } = slots[at as usize];
        slots[before as usize].after = after;
        slots[after as usize].before = before;
        if self.first == at {
            self.first = if after == at { NONE } else { after };
        }
        self.live_bytes -= length;
        self.live_records -= 1;
    }
}
