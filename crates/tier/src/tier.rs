//! The tier: taking, reading and giving up records.

use crate::budget::Budget;
use crate::counts::Counts;
use crate::device::{Device, DeviceError};
use crate::memory::{LOST, Memory, NONE, OPEN, Segment, Slot, State};
use crate::seal::{Key, Sealer, TAG_BYTES};

/// Names a record, until it is [removed](Tier::remove).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// A number for tables, never 0.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The handle of this number.
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// Why a record was not taken. The caller has it still, and so has the tier all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is empty, or longer than the buffers.
    #[error("a record of this length cannot be taken")]
    Length,
    /// The device, or the table of records, is full.
    #[error("the tier is full")]
    Full,
    /// What may be written in a day was written.
    #[error("the write budget of the day is spent")]
    Budget,
    /// The device refused to be written, at several places.
    #[error("{0}")]
    Device(DeviceError),
}

/// Why a record could not be read. Others are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// There is no such record of this owner.
    #[error("there is no such record")]
    Unknown,
    /// The buffer is shorter than the record.
    #[error("the record is longer than the buffer")]
    TooLong,
    /// The device returns other bytes than were written.
    #[error("the record is damaged")]
    Damaged,
    /// The device refused to be read.
    #[error("{0}")]
    Device(DeviceError),
}

/// A tier of compressed pages on a device.
pub struct Tier<'m, D: Device> {
    pub(crate) device: D,
    pub(crate) memory: Memory<'m>,
    pub(crate) sealer: Sealer,
    pub(crate) budget: Budget,
    /// The records in the buffer.
    pub(crate) open: Segment,
    /// Bytes of the buffer that are filled.
    pub(crate) filled: usize,
    /// The first row of the table of records that is free again.
    free_slot: u32,
    /// Rows that were used, with that which is none: those behind were not touched yet.
    slots_used: u32,
    pub(crate) free_segments: u32,
    /// Where the search for a free segment begins.
    pub(crate) next_segment: u32,
    pub(crate) counts: Counts,
}

impl<'m, D: Device> Tier<'m, D> {
    /// An empty tier on a device, whatever is there. Rows of records, which are default ones, are touched as they are
    /// needed.
    /// `daily_bytes`: what may be written in a day.
    ///
    /// # Panics
    /// If the memory is too small for anything: two rows of each table, a tag in each buffer; or there are more rows
    /// than 32 bits can number.
    pub fn new(
        device: D,
        key: Key,
        memory: Memory<'m>,
        daily_bytes: Option<u64>,
        now_seconds: u64,
    ) -> Self {
        assert!(memory.slots.len() > 1 && memory.slots.len() < LOST as usize);
        assert!(memory.segments.len() > 1 && memory.segments.len() < LOST as usize);
        assert!(memory.buffer.len() >= 16 * TAG_BYTES && memory.buffer.len() <= 1 << 30);
        assert!(memory.scratch.len() > TAG_BYTES);
        memory.segments.fill(Segment::default());
        Self {
            device,
            sealer: Sealer::new(key),
            budget: Budget::new(daily_bytes, now_seconds),
            open: Segment::default(),
            filled: 0,
            free_slot: NONE,
            slots_used: 1,
            free_segments: memory.segments.len() as u32,
            next_segment: 0,
            counts: Counts::default(),
            memory,
        }
    }

    /// What it holds, and what it has done.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that may still be written today; `None`: as many as wanted.
    pub fn budget_left(&self) -> Option<u64> {
        self.budget.left()
    }

    /// Says what time it is: with a new day comes a new budget.
    pub fn tick(&mut self, now_seconds: u64) {
        self.budget.look(now_seconds);
    }

    /// The device, for what the caller does with it.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// The longest record that is taken.
    pub fn longest(&self) -> usize {
        // After a cleaning there is room for a quarter of a buffer: a record always fits then.
        let most = (self.memory.buffer.len() / 8).min(self.memory.scratch.len());
        most - TAG_BYTES
    }

    /// Takes a record of `owner`. It is written to the device with others, when a segment is full; until then it is
    /// read from memory.
    ///
    /// # Errors
    /// See [`Refused`]. Whatever the reason, no record that was taken before is lost.
    pub fn put(&mut self, owner: u64, bytes: &[u8]) -> Result<Handle, Refused> {
        if bytes.is_empty() || bytes.len() > self.longest() {
            return Err(Refused::Length);
        }
        if self.free_slot == NONE && self.slots_used as usize == self.memory.slots.len() {
            self.counts.refused_full += 1;
            return Err(Refused::Full);
        }
        let length = bytes.len() + TAG_BYTES;
        while self.filled + length > self.memory.buffer.len() {
            // Cleaning fills a part of the buffer again, and gives a segment for it.
            self.write_out()?;
        }
        let at = self.take_slot();
        self.append(at, owner, bytes);
        self.counts.writes += 1;
        self.counts.records += 1;
        Ok(Handle(at))
    }

    fn take_slot(&mut self) -> u32 {
        match self.free_slot {
            NONE => {
                self.slots_used += 1;
                self.slots_used - 1
            }
            at => {
                self.free_slot = self.memory.slots[at as usize].after;
                at
            }
        }
    }

    /// Bytes of tables that were touched, and of buffers.
    pub fn memory_bytes(&self) -> usize {
        let memory = &self.memory;
        let tables = self.slots_used as usize * size_of::<Slot>() + size_of_val(memory.segments);
        tables + memory.buffer.len() + memory.scratch.len()
    }

    /// Seals a record at the end of the buffer, where there is room for it.
    fn append(&mut self, at: u32, owner: u64, bytes: &[u8]) {
        let room = &mut self.memory.buffer[self.filled..][..bytes.len() + TAG_BYTES];
        room[..bytes.len()].copy_from_slice(bytes);
        let number = self.sealer.seal(owner, room);
        self.memory.slots[at as usize] = Slot {
            number,
            owner,
            segment: OPEN,
            offset: self.filled as u32,
            length: room.len() as u32,
            ..Slot::default()
        };
        self.filled += room.len();
        self.open.link(self.memory.slots, at);
        self.counts.live_bytes += (bytes.len() + TAG_BYTES) as u64;
    }

    /// Moves a record, whose content is in the scratch buffer, to the buffer.
    pub(crate) fn append_again(&mut self, at: u32, owner: u64, length: usize) {
        // One buffer is the other's neighbour in `memory`, so they are borrowed apart.
        let scratch = core::mem::take(&mut self.memory.scratch);
        self.append(at, owner, &scratch[..length]);
        self.memory.scratch = scratch;
    }

    /// Reads a record. Its length.
    ///
    /// # Errors
    /// See [`Unreadable`]. What is damaged is read twice before it is given up; it stays until it is removed.
    pub fn get(
        &mut self,
        handle: Handle,
        owner: u64,
        into: &mut [u8],
    ) -> Result<usize, Unreadable> {
        let slot = self.slot(handle, owner).ok_or(Unreadable::Unknown)?;
        let length = slot.length as usize - TAG_BYTES;
        if length > into.len() {
            return Err(Unreadable::TooLong);
        }
        self.load(&slot)?;
        self.counts.reads += 1;
        into[..length].copy_from_slice(&self.memory.scratch[..length]);
        Ok(length)
    }

    /// Where a record lies on the device, and how long it is there; `None`: it is in memory, or lost.
    pub fn place(&self, handle: Handle) -> Option<(u64, u64)> {
        let slot = self.memory.slots.get(handle.0 as usize)?;
        let is_there = slot.length > 0 && slot.segment < LOST;
        let start = u64::from(slot.segment) * self.memory.buffer.len() as u64;
        is_there.then_some((start + u64::from(slot.offset), slot.length.into()))
    }

    fn slot(&self, handle: Handle, owner: u64) -> Option<Slot> {
        let slot = *self.memory.slots.get(handle.0 as usize)?;
        (handle.0 != NONE && slot.length > 0 && slot.owner == owner).then_some(slot)
    }

    /// Has the content of a record in the scratch buffer.
    pub(crate) fn load(&mut self, slot: &Slot) -> Result<(), Unreadable> {
        if slot.segment == LOST {
            return Err(Unreadable::Damaged);
        }
        let length = slot.length as usize;
        if slot.segment == OPEN {
            let sealed = &self.memory.buffer[slot.offset as usize..][..length];
            self.memory.scratch[..length].copy_from_slice(sealed);
            return self.unseal(slot);
        }
        let first = self.load_from_device(slot);
        if first.is_ok() {
            return first;
        }
        let second = self.load_from_device(slot);
        self.counts.reread_records += u64::from(second.is_ok());
        second
    }

    fn load_from_device(&mut self, slot: &Slot) -> Result<(), Unreadable> {
        let mut at = u64::from(slot.segment) * self.memory.buffer.len() as u64;
        at += u64::from(slot.offset);
        let mut room = &mut self.memory.scratch[..slot.length as usize];
        while !room.is_empty() {
            let read = match self.device.read_at(at, room) {
                Ok(read) => read.min(room.len()),
                Err(error) => {
                    self.counts.read_errors += 1;
                    return Err(Unreadable::Device(error));
                }
            };
            if read < room.len() {
                self.counts.short_reads += 1;
                if read == 0 {
                    return Err(Unreadable::Device(DeviceError::Io));
                }
            }
            at += read as u64;
            room = &mut room[read..];
        }
        self.unseal(slot)
    }

    fn unseal(&mut self, slot: &Slot) -> Result<(), Unreadable> {
        let sealed = &mut self.memory.scratch[..slot.length as usize];
        match self.sealer.open(slot.number, slot.owner, sealed) {
            true => Ok(()),
            false => {
                self.counts.damaged_reads += 1;
                Err(Unreadable::Damaged)
            }
        }
    }

    /// Gives a record up. `false`: there is no such record of this owner.
    pub fn remove(&mut self, handle: Handle, owner: u64) -> bool {
        let Some(slot) = self.slot(handle, owner) else {
            return false;
        };
        self.detach(handle.0, &slot);
        let row = &mut self.memory.slots[handle.0 as usize];
        *row = Slot {
            after: self.free_slot,
            ..Slot::default()
        };
        self.free_slot = handle.0;
        self.counts.records -= 1;
        true
    }

    /// Takes a record from its segment, which is free if it was the last one.
    pub(crate) fn detach(&mut self, at: u32, slot: &Slot) {
        match slot.segment {
            LOST => return,
            OPEN => self.open.unlink(self.memory.slots, at),
            segment => {
                let of = &mut self.memory.segments[segment as usize];
                of.unlink(self.memory.slots, at);
                if of.live_records == 0 {
                    self.free_segment(segment);
                }
            }
        }
        self.counts.live_bytes -= u64::from(slot.length);
    }

    fn free_segment(&mut self, number: u32) {
        let segment = &mut self.memory.segments[number as usize];
        debug_assert_eq!(segment.state, State::Written);
        segment.state = State::Free;
        self.free_segments += 1;
        let bytes = self.memory.buffer.len() as u64;
        if self
            .device
            .discard(u64::from(number) * bytes, bytes)
            .is_err()
        {
            self.counts.discard_errors += 1;
        }
    }

    /// Checks the tables: for tests.
    ///
    /// # Panics
    /// If something in them does not agree.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        let slots = &*self.memory.slots;
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
            assert!(end as usize <= self.memory.buffer.len());
            (records, bytes) = (records + u64::from(live), bytes + u64::from(sum));
        };
        check(&self.open, OPEN);
        for (segment, number) in self.memory.segments.iter().zip(0..) {
            check(segment, number);
            let is_written = segment.state == State::Written;
            assert_eq!(is_written, segment.live_records > 0, "L1");
        }
        let lost = slots
            .iter()
            .filter(|slot| slot.length > 0 && slot.segment == LOST);
        assert_eq!(records + lost.count() as u64, self.counts.records);
        assert_eq!(bytes, self.counts.live_bytes);
        let free = self.memory.segments.iter();
        let free = free.filter(|segment| segment.state == State::Free).count();
        assert_eq!(free, self.free_segments as usize);
    }
}
