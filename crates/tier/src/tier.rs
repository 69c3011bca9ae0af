//! The tier of one thread: taking, reading and giving up records.

use crate::counts::Counts;
use crate::device::Device;
use crate::handle::{Handle, Refused, Unreadable};
use crate::memory::Memory;
use crate::records::Records;
use crate::seal::{Key, TAG_BYTES};
use crate::writer::{Writer, discard_freed};

/// A tier of compressed pages on a device.
pub struct Tier<'m, D: Device> {
    device: D,
    records: Records<'m>,
    writer: Writer<'m>,
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
        Self {
            device,
            records: Records::new(memory.slots, memory.segments, memory.buffer),
            writer: Writer::new(key, memory.scratch, daily_bytes, now_seconds),
        }
    }

    /// What it holds, and what it has done.
    pub fn counts(&self) -> Counts {
        self.records.counts()
    }

    /// Bytes that may still be written today; `None`: as many as wanted.
    pub fn budget_left(&self) -> Option<u64> {
        self.writer.budget_left()
    }

    /// Says what time it is: with a new day comes a new budget.
    pub fn tick(&mut self, now_seconds: u64) {
        self.writer.tick(now_seconds);
    }

    /// The device, for what the caller does with it.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// The longest record that is taken.
    pub fn longest(&mut self) -> usize {
        self.writer.longest(&mut self.records)
    }

    /// Takes a record of `owner`. It is written to the device with others, when a segment is full; until then it is
    /// read from memory.
    ///
    /// # Errors
    /// See [`Refused`]. Whatever the reason, no record that was taken before is lost.
    pub fn put(&mut self, owner: u64, bytes: &[u8]) -> Result<Handle, Refused> {
        let Self {
            device,
            records,
            writer,
        } = self;
        writer.put(records, device, owner, bytes)
    }

    /// Bytes of tables that were touched, and of buffers.
    pub fn memory_bytes(&self) -> usize {
        self.records.memory_bytes() + self.writer.scratch.len()
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
        let row = self.records.row(handle, owner);
        let length = row.ok_or(Unreadable::Unknown)?.length as usize - TAG_BYTES;
        let into = into.get_mut(..length).ok_or(Unreadable::TooLong)?;
        let Self {
            device,
            records,
            writer,
        } = self;
        into.copy_from_slice(writer.read(records, device, (handle, owner))?);
        Ok(length)
    }

    /// Where a record lies on the device, and how long it is there; `None`: it is in memory, or lost.
    pub fn place(&self, handle: Handle) -> Option<(u64, u64)> {
        self.records.place(handle)
    }

    /// Gives a record up. `false`: there is no such record of this owner.
    pub fn remove(&mut self, handle: Handle, owner: u64) -> bool {
        let was_there = self.records.remove(handle, owner);
        discard_freed(&mut self.records, &mut self.device);
        was_there
    }

    /// Writes what is in the buffer, full or not, and syncs the device.
    ///
    /// # Errors
    /// As [`put`](Tier::put). All records can be read still.
    pub fn sync(&mut self) -> Result<(), Refused> {
        let Self {
            device,
            records,
            writer,
        } = self;
        writer.sync(records, device)
    }

    /// Checks the tables: for tests.
    ///
    /// # Panics
    /// If something in them does not agree.
    #[doc(hidden)]
    pub fn check_invariants(&self) {
        self.records.check_invariants();
    }
}
