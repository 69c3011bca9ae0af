//! The tables of a log: which records there are, and where. No input or output, and no cipher.
//!
//! One thread writes the log ([`Writer`](crate::Writer)); any thread reads and removes records. Where there are several
//! the tables are behind a lock of the caller's ([`Access`]), which is held for a few stores, or for the copying of one
//! record; of the buffer's bytes, which nobody changes below `filled` meanwhile, [`STEP`] bytes are copied at a time.

use crate::counts::Counts;
use crate::device::{Device, DeviceError};
use crate::handle::Handle;
use crate::memory::{LOST, NONE, OPEN, Segment, Slot, State};
use crate::seal::TAG_BYTES;

/// Bytes of the buffer that are copied at once.
const STEP: usize = 16 << 10;

/// How the tables are come by: they are the caller's alone, or behind a lock.
pub trait Access<'m> {
    /// Calls `act` with the tables, which nobody else has meanwhile.
    fn with<T>(&mut self, act: impl FnOnce(&mut Records<'m>) -> T) -> T;

    /// Writes bytes of the buffer, the first of `left` from `from` on, to a device; `scratch` is free to use. How many
    /// bytes were given to the device, and how many it took. By the writer, which alone changes the buffer.
    ///
    /// # Errors
    /// The device's.
    fn write<D: Device>(
        &mut self,
        device: &mut D,
        at: u64,
        (from, left): (usize, usize),
        scratch: &mut [u8],
    ) -> Result<(usize, usize), DeviceError> {
        let length = left.min(scratch.len());
        let copy = &mut scratch[..length];
        for (piece, start) in copy.chunks_mut(STEP).zip((from..).step_by(STEP)) {
            self.with(|records| {
                piece.copy_from_slice(&records.buffer[start..][..piece.len()]);
            });
        }
        Ok((length, device.write_at(at, copy)?))
    }
}

/// Nobody else has them.
impl<'m> Access<'m> for Records<'m> {
    fn with<T>(&mut self, act: impl FnOnce(&mut Records<'m>) -> T) -> T {
        act(self)
    }

    fn write<D: Device>(
        &mut self,
        device: &mut D,
        at: u64,
        (from, left): (usize, usize),
        _scratch: &mut [u8],
    ) -> Result<(usize, usize), DeviceError> {
        Ok((left, device.write_at(at, &self.buffer[from..][..left])?))
    }
}

/// The tables of a log, and its buffer.
pub struct Records<'m> {
    pub(crate) slots: &'m mut [Slot],
    segments: &'m mut [Segment],
    pub(crate) buffer: &'m mut [u8],
    /// The records in the buffer.
    pub(crate) open: Segment,
    /// Bytes of the buffer that are filled.
    pub(crate) filled: usize,
    /// The first row of the table of records that is free again.
    free_slot: u32,
    /// Rows that were used, with that which is none: those behind were not touched yet.
    slots_used: u32,
    pub(crate) free_segments: u32,
    /// Of these: those whose space was not given up yet.
    freed_segments: u32,
    /// None of these has a lower number.
    first_freed: u32,
    kept_segments: u32,
    /// The free segment whose space is not given up (L5), if there is one.
    reserve: Option<u32>,
    /// Where the search for a free segment begins.
    pub(crate) next_segment: u32,
    pub(crate) counts: Counts,
}

impl<'m> Records<'m> {
    /// None. Rows of records, which are default ones, are touched as they are needed.
    ///
    /// # Panics
    /// If the memory is too small for anything: two rows of each table, a tag in the buffer; or there are more rows
    /// than 32 bits can number.
    pub fn new(slots: &'m mut [Slot], segments: &'m mut [Segment], buffer: &'m mut [u8]) -> Self {
        assert!(slots.len() > 1 && slots.len() < LOST as usize);
        assert!(segments.len() > 1 && segments.len() < LOST as usize);
        assert!(buffer.len() >= 16 * TAG_BYTES && buffer.len() <= 1 << 30);
        segments.fill(Segment::default());
        Self {
            free_segments: segments.len() as u32,
            slots,
            segments,
            buffer,
            open: Segment::default(),
            filled: 0,
            free_slot: NONE,
            slots_used: 1,
            freed_segments: 0,
            first_freed: 0,
            kept_segments: 0,
            reserve: None,
            next_segment: 0,
            counts: Counts::default(),
        }
    }

    /// What it holds, and what was done with it.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of tables that were touched, and of the buffer.
    pub fn memory_bytes(&self) -> usize {
        let tables = self.slots_used as usize * size_of::<Slot>() + size_of_val(self.segments);
        tables + self.buffer.len()
    }

    /// Where a record lies on the device, and how long it is there; `None`: it is in memory, or lost.
    pub fn place(&self, handle: Handle) -> Option<(u64, u64)> {
        let slot = self.slots.get(handle.0 as usize)?;
        let is_there = slot.length > 0 && slot.segment < LOST;
        is_there.then(|| (self.offset_of(slot), slot.length.into()))
    }

    /// Where on the device a record is.
    pub(crate) fn offset_of(&self, slot: &Slot) -> u64 {
        u64::from(slot.segment) * self.buffer.len() as u64 + u64::from(slot.offset)
    }

    pub(crate) fn row(&self, handle: Handle, owner: u64) -> Option<Slot> {
        let slot = *self.slots.get(handle.0 as usize)?;
        (handle.0 != NONE && slot.length > 0 && slot.owner == owner).then_some(slot)
    }

    /// Whether there is a row for another record.
    pub(crate) fn has_row(&self) -> bool {
        self.free_slot != NONE || (self.slots_used as usize) < self.slots.len()
    }

    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.filled + length <= self.buffer.len()
    }

    /// Takes a record, sealed under `number`, in a row of its own. There is a row and room for it.
    pub(crate) fn append_new(&mut self, owner: u64, number: u64, sealed: &[u8]) -> Handle {
        let at = self.take_slot();
        self.append(at, owner, number, sealed);
        self.counts.writes += 1;
        self.counts.records += 1;
        Handle(at)
    }

    fn take_slot(&mut self) -> u32 {
        match self.free_slot {
            NONE => {
                self.slots_used += 1;
                self.slots_used - 1
            }
            at => {
                self.free_slot = self.slots[at as usize].after;
                at
            }
        }
    }

    /// Puts a record at the end of the buffer, where there is room for it.
    fn append(&mut self, at: u32, owner: u64, number: u64, sealed: &[u8]) {
        self.buffer[self.filled..][..sealed.len()].copy_from_slice(sealed);
        self.slots[at as usize] = Slot {
            number,
            owner,
            segment: OPEN,
            offset: self.filled as u32,
            length: sealed.len() as u32,
            ..Slot::default()
        };
        self.filled += sealed.len();
        self.open.link(self.slots, at);
        self.counts.live_bytes += sealed.len() as u64;
    }

    /// Gives a record up. `false`: there is no such record of this owner.
    pub fn remove(&mut self, handle: Handle, owner: u64) -> bool {
        let Some(slot) = self.row(handle, owner) else {
            return false;
        };
        self.detach(handle.0, &slot);
        self.slots[handle.0 as usize] = Slot {
            after: self.free_slot,
            ..Slot::default()
        };
        self.free_slot = handle.0;
        self.counts.records -= 1;
        true
    }

    /// Takes a record from its segment, which is free if it was the last one.
    fn detach(&mut self, at: u32, slot: &Slot) {
        match slot.segment {
            LOST => return,
            OPEN => self.open.unlink(self.slots, at),
            number => {
                let of = &mut self.segments[number as usize];
                of.unlink(self.slots, at);
                if of.live_records == 0 && of.state == State::Written {
                    self.free_segments += 1;
                    self.has_space(number);
                }
            }
        }
        self.counts.live_bytes -= u64::from(slot.length);
    }

    /// A free segment has space on the device: it is the reserve, or its space may be given up.
    fn has_space(&mut self, number: u32) {
        let is_reserve = self.reserve.is_none();
        if is_reserve {
            self.reserve = Some(number);
        } else {
            self.freed_segments += 1;
            self.first_freed = self.first_freed.min(number);
        }
        self.segments[number as usize].state = match is_reserve {
            true => State::Reserve,
            false => State::Freed,
        };
    }

    /// Whether nothing is on the device, and there are segments enough for one to be the reserve.
    pub(crate) fn wants_reserve(&self) -> bool {
        self.is_empty() && self.reserve.is_none() && self.free_segments > 2
    }

    /// Whether all segments are free.
    fn is_empty(&self) -> bool {
        self.free_segments as usize == self.segments.len()
    }

    /// Whether a segment is free that has space on the device.
    pub(crate) fn has_reserve(&self) -> bool {
        self.reserve.is_some()
    }

    /// A free segment was written, and holds nothing: it is the reserve.
    pub(crate) fn make_reserve(&mut self, number: u32) {
        debug_assert!(self.segments[number as usize].state == State::Free);
        self.has_space(number);
    }

    /// The reserve, to be written, if a segment can be cleaned then: its number.
    pub(crate) fn take_reserve(&mut self) -> Option<u32> {
        self.least_filled()?;
        let number = self.reserve.take()?;
        self.segments[number as usize].state = State::Free;
        Some(number)
    }

    /// A free segment whose space may be given up: its number.
    pub(crate) fn take_freed(&mut self) -> Option<u32> {
        // Nothing is left to be cleaned.
        if self.is_empty()
            && let Some(number) = self.reserve.take()
        {
            self.segments[number as usize].state = State::Free;
            return Some(number);
        }
        if self.freed_segments == 0 {
            return None;
        }
        let rest = &mut self.segments[self.first_freed as usize..];
        let mut numbered = rest.iter_mut().zip(self.first_freed..);
        let (freed, number) = numbered.find(|(segment, _)| segment.state == State::Freed)?;
        freed.state = State::Free;
        self.freed_segments -= 1;
        self.first_freed = number + 1;
        Some(number)
    }

    /// The next free segment but the reserve, round and round, so that all wear alike, and one that cannot be written
    /// is passed by.
    pub(crate) fn next_free(&mut self) -> Option<u32> {
        let count = self.segments.len() as u32;
        for _ in 0..count {
            let number = self.next_segment;
            self.next_segment = (number + 1) % count;
            match self.segments[number as usize].state {
                State::Free => return Some(number),
                State::Freed => {
                    self.segments[number as usize].state = State::Free;
                    self.freed_segments -= 1;
                    return Some(number);
                }
                State::Written | State::Kept | State::Reserve => {}
            }
        }
        None
    }

    /// Whether a segment may be written: the last free one is given only for one that can be cleaned.
    pub(crate) fn may_write(&mut self) -> bool {
        let may = match self.free_segments {
            0 => false,
            1 => self.least_filled().is_some(),
            _ => true,
        };
        self.counts.refused_full += u64::from(!may);
        may
    }

    /// The segment with the least in it, if a quarter of it could be won.
    pub(crate) fn least_filled(&self) -> Option<u32> {
        let most = (self.buffer.len() / 4 * 3) as u32;
        let segments = self.segments.iter().zip(0..);
        let written = segments.filter(|(segment, _)| segment.state == State::Written);
        let least = written.min_by_key(|(segment, _)| segment.live_bytes)?;
        (least.0.live_bytes <= most).then_some(least.1)
    }

    /// As [`Self::least_filled`], if there is room in the buffer for what is in it.
    pub(crate) fn least_that_fits(&self) -> Option<u32> {
        let number = self.least_filled()?;
        let live_bytes = self.segments[number as usize].live_bytes as usize;
        self.has_room(live_bytes).then_some(number)
    }

    /// Moves records in the buffer together, if that makes an eighth of it free.
    pub(crate) fn compact_buffer(&mut self) -> bool {
        let dead = self.filled - self.open.live_bytes as usize;
        if dead < self.buffer.len() / 8 {
            return false;
        }
        let (mut at, mut end) = (self.open.first, 0);
        for _ in 0..self.open.live_records {
            let slot = &mut self.slots[at as usize];
            let (from, length) = (slot.offset as usize, slot.length as usize);
            self.buffer.copy_within(from..from + length, end);
            slot.offset = end as u32;
            end += length;
            at = slot.after;
        }
        self.filled = end;
        true
    }

    /// The records of the buffer are those of a segment from now on.
    pub(crate) fn hand_over(&mut self, number: u32) {
        let open = core::mem::take(&mut self.open);
        let mut at = open.first;
        for _ in 0..open.live_records {
            let slot = &mut self.slots[at as usize];
            slot.segment = number;
            at = slot.after;
        }
        self.filled = 0;
        if open.live_records == 0 {
            self.has_space(number);
            return;
        }
        self.free_segments -= 1;
        self.segments[number as usize] = Segment {
            state: State::Written,
            ..open
        };
    }

    /// A record of a segment that is cleaned: its row.
    pub(crate) fn first_of(&self, number: u32) -> Option<(u32, Slot)> {
        let segment = &self.segments[number as usize];
        let is_left = segment.state == State::Written && segment.live_records > 0;
        is_left.then(|| (segment.first, self.slots[segment.first as usize]))
    }

    /// Whether a row holds what it held.
    fn stands(&self, at: u32, slot: &Slot) -> bool {
        let now = &self.slots[at as usize];
        now.length > 0 && now.number == slot.number && now.segment == slot.segment
    }

    /// A record is in the buffer from now on, sealed anew, unless it was removed meanwhile.
    pub(crate) fn move_to_buffer(&mut self, at: u32, slot: &Slot, number: u64, sealed: &[u8]) {
        if self.stands(at, slot) {
            self.detach(at, slot);
            self.append(at, slot.owner, number, sealed);
            self.counts.moved_records += 1;
        }
    }

    /// A record cannot be read, and its segment is needed: it is lost, unless it was removed meanwhile.
    pub(crate) fn lose(&mut self, at: u32, slot: &Slot) {
        if self.stands(at, slot) {
            self.detach(at, slot);
            self.slots[at as usize].segment = LOST;
            self.counts.lost_records += 1;
        }
    }

    /// What is on the device now stays there, although records are removed: others have the tables as they are now, and
    /// read it.
    pub fn keep_all(&mut self) {
        for segment in self.segments.iter_mut() {
            if segment.state == State::Written {
                segment.state = State::Kept;
                self.kept_segments += 1;
            }
        }
    }

    /// Segments that are kept for others.
    pub fn kept_segments(&self) -> u32 {
        self.kept_segments
    }

    /// Nobody else reads what is kept any more.
    pub fn end_keeping(&mut self) {
        for number in 0..self.segments.len() as u32 {
            let segment = &mut self.segments[number as usize];
            match (segment.state, segment.live_records) {
                (State::Kept, 0) => {
                    self.free_segments += 1;
                    self.has_space(number);
                }
                (State::Kept, _) => segment.state = State::Written,
                _ => {}
            }
        }
        self.kept_segments = 0;
    }

    /// Checks the tables: for tests.
    ///
    /// # Panics
    /// If something in them does not agree.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let slots = &*self.slots;
        let (mut records, mut bytes) = (0, 0);
        let mut check = |segment: &Segment, number: u32| {
            let (mut at, mut live, mut sum, mut end) = (segment.first, 0, 0, 0);
            while live < segment.live_records {
                let slot = &slots[at as usize];
                assert_eq!(slot.segment, number, "L2: a record names its segment");
                assert!(slot.offset >= end, "L3: records lie in their order");
                end = slot.offset + slot.length;
                (live, sum, at) = (live + 1, sum + slot.length, slot.after);
            }
            assert_eq!((at, sum), (segment.first, segment.live_bytes), "the ring");
            assert!(end as usize <= self.buffer.len());
            (records, bytes) = (records + u64::from(live), bytes + u64::from(sum));
        };
        check(&self.open, OPEN);
        for (segment, number) in self.segments.iter().zip(0..) {
            check(segment, number);
            let is_free = !matches!(segment.state, State::Written | State::Kept);
            assert!(!is_free || segment.live_records == 0, "L1");
            assert!(
                segment.state != State::Written || segment.live_records > 0,
                "L1"
            );
        }
        let lost = slots
            .iter()
            .filter(|slot| slot.length > 0 && slot.segment == LOST);
        assert_eq!(records + lost.count() as u64, self.counts.records);
        assert_eq!(bytes, self.counts.live_bytes);
        let count = |states: &[State]| {
            let of = |segment: &&Segment| states.contains(&segment.state);
            self.segments.iter().filter(of).count()
        };
        let free = count(&[State::Free, State::Freed, State::Reserve]);
        assert_eq!(free, self.free_segments as usize);
        assert_eq!(count(&[State::Freed]), self.freed_segments as usize);
        assert_eq!(count(&[State::Kept]), self.kept_segments as usize);
        let reserve = self
            .segments
            .iter()
            .position(|segment| segment.state == State::Reserve);
        assert_eq!(reserve, self.reserve.map(|number| number as usize), "L5");
        assert!(count(&[State::Reserve]) <= 1, "L5");
    }
}
