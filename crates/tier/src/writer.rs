//! The log: records are sealed and put into the buffer, which is written to a free segment; segments are cleaned, so
//! that there is always a free one.
//!
//! ```text
//!   buffer ──full──▶ free segment ──written──▶ records are removed ──none left──▶ free, discarded
//!     ▲                                              │ some left, and no segment is free
//!     ╰─────────── read, opened, sealed anew ────────╯ (the one with the least left)
//! ```
//!
//! Where the device has no space left for a free segment, the reserve is written, which has it (L5), and the segment
//! that is cleaned then is the next reserve.
//!
//! One thread writes. The tables are asked for and told between its steps ([`Access`]): sealing, reading and writing go
//! on without them, and others remove records meanwhile.

use crate::budget::Budget;
use crate::device::{Device, DeviceError};
use crate::handle::{Handle, Refused, Unreadable};
use crate::reader;
use crate::records::{Access, Records};
use crate::seal::{Key, Opener, Sealer, TAG_BYTES};

/// Segments that are tried when writing fails.
const ATTEMPTS: u32 = 3;

/// Writes a log.
pub struct Writer<'m> {
    sealer: Sealer,
    pub(crate) budget: Budget,
    /// Room for the longest record and its tag; more of it saves calls of the device where the tables are shared.
    pub(crate) scratch: &'m mut [u8],
    /// A segment has to be cleaned before anything is taken: what is left in it must find room in the buffer.
    owes_cleaning: bool,
}

impl<'m> Writer<'m> {
    /// One that seals with this key. `daily_bytes`: what may be written in a day.
    ///
    /// # Panics
    /// If there is no room for a record in `scratch`.
    pub fn new(
        key: Key,
        scratch: &'m mut [u8],
        daily_bytes: Option<u64>,
        now_seconds: u64,
    ) -> Self {
        assert!(scratch.len() > TAG_BYTES);
        Self {
            sealer: Sealer::new(key),
            budget: Budget::new(daily_bytes, now_seconds),
            scratch,
            owes_cleaning: false,
        }
    }

    /// What opens the records of this writer.
    pub fn opener(&self) -> &Opener {
        self.sealer.opener()
    }

    /// Says what time it is: with a new day comes a new budget.
    pub fn tick(&mut self, now_seconds: u64) {
        self.budget.look(now_seconds);
    }

    /// Bytes that may still be written today; `None`: as many as wanted.
    pub fn budget_left(&self) -> Option<u64> {
        self.budget.left()
    }

    /// The longest record that is taken.
    pub fn longest(&self, records: &mut impl Access<'m>) -> usize {
        // After a cleaning there is room for a quarter of a buffer: a record always fits then.
        let most = records.with(|records| records.buffer.len() / 8);
        most.min(self.scratch.len()) - TAG_BYTES
    }

    /// Takes a record of `owner`. It is written to the device with others, when a segment is full; until then it is
    /// read from memory.
    ///
    /// # Errors
    /// See [`Refused`]. Whatever the reason, no record that was taken before is lost.
    pub fn put<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
        owner: u64,
        bytes: &[u8],
    ) -> Result<Handle, Refused> {
        if bytes.is_empty() || bytes.len() > self.longest(records) {
            return Err(Refused::Length);
        }
        let has_row = |records: &mut Records<'m>| {
            let has_row = records.has_row();
            records.counts.refused_full += u64::from(!has_row);
            has_row
        };
        if !records.with(has_row) {
            return Err(Refused::Full);
        }
        self.clean_what_is_owed(records, device)?;
        let length = bytes.len() + TAG_BYTES;
        while !records.with(|records| records.has_room(length)) {
            // Cleaning fills a part of the buffer again, and gives a segment for it.
            self.write_out(records, device)?;
        }
        let sealed = &mut self.scratch[..length];
        sealed[..bytes.len()].copy_from_slice(bytes);
        let number = self.sealer.seal(owner, sealed);
        Ok(records.with(|records| records.append_new(owner, number, sealed)))
    }

    /// Reads a record.
    ///
    /// # Errors
    /// As [`read`](crate::read).
    pub fn read<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
        record: (Handle, u64),
    ) -> Result<&[u8], Unreadable> {
        let opener = self.sealer.opener();
        let length = reader::read(records, device, opener, record, self.scratch)?;
        Ok(&self.scratch[..length])
    }

    /// Writes the buffer to a free segment, and cleans one where that was the last. With an error all records are where
    /// they were, but for those that a cleaning has moved before it stopped.
    fn write_out<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
    ) -> Result<(), Refused> {
        match records.with(Records::compact_buffer) {
            true => Ok(()),
            false => self.write_now(records, device),
        }
    }

    fn write_now<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
    ) -> Result<(), Refused> {
        self.clean_what_is_owed(records, device)?;
        if !records.with(Records::may_write) {
            return Err(Refused::Full);
        }
        let is_last = records.with(|records| records.free_segments == 1);
        if is_last && !self.can_clean(records, device) {
            return Err(Refused::Device(DeviceError::Unreachable));
        }
        if records.with(|records| records.wants_reserve()) {
            self.write_reserve(records, device);
        }
        let (number, was_reserve) = self.write_somewhere(records, device)?;
        self.owes_cleaning = records.with(|records| {
            records.hand_over(number);
            was_reserve || records.free_segments == 0
        });
        self.clean_what_is_owed(records, device)?;
        discard_freed(records, device);
        Ok(())
    }

    /// Cleans a segment where the last one that was free was written, or the reserve, and none has become free since.
    fn clean_what_is_owed<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
    ) -> Result<(), Refused> {
        if !self.owes_cleaning {
            return Ok(());
        }
        // Nothing was taken since. So what has least in it now has no more than what was left of the segment, which
        // finds room behind what was moved.
        let victim = records.with(|records| match records.has_reserve() {
            true => None,
            false => records.least_that_fits(),
        });
        if let Some(victim) = victim {
            self.clean(records, device, victim)?;
        }
        // Without a free segment nothing may fill the room that a cleaning needs.
        let is_full = |records: &mut Records<'m>| {
            let is_full = records.free_segments == 0;
            records.counts.refused_full += u64::from(is_full);
            is_full
        };
        self.owes_cleaning = records.with(is_full);
        match self.owes_cleaning {
            true => Err(Refused::Full),
            false => Ok(()),
        }
    }

    /// Whether the segment that would be cleaned can be read now. A cleaning loses what it cannot read, and a device
    /// that does not answer may answer later.
    fn can_clean<D: Device>(&mut self, records: &mut impl Access<'m>, device: &mut D) -> bool {
        let first = |records: &mut Records<'m>| {
            let victim = records.least_filled()?;
            records.first_of(victim)
        };
        match records.with(first) {
            None => true,
            Some((_, slot)) => reader::answers(records, device, &slot, self.scratch),
        }
    }

    /// Writes what is in the buffer, full or not, and syncs the device.
    ///
    /// # Errors
    /// As [`put`](Self::put). All records can be read still.
    pub fn sync<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
    ) -> Result<(), Refused> {
        let is_empty = records.with(|records| {
            records.compact_buffer();
            records.open.live_records == 0
        });
        if !is_empty {
            self.write_now(records, device)?;
        }
        device.sync().map_err(|error| {
            records.with(|records| records.counts.sync_errors += 1);
            Refused::Device(error)
        })
    }

    /// Has a segment take space that no record needs (L5). Where it cannot there is no reserve: nothing is lost by
    /// that.
    fn write_reserve<D: Device>(&mut self, records: &mut impl Access<'m>, device: &mut D) {
        let filled = records.with(|records| records.filled);
        // The segment that is about to be written must fit into the budget, too.
        if !self.budget.allows(2 * filled) {
            return;
        }
        let Some(number) = records.with(Records::next_free) else {
            return;
        };
        if self.write_buffer(records, device, number, filled).is_ok() {
            records.with(|records| records.make_reserve(number));
        }
    }

    /// Writes the buffer to one of the next free segments; where none has space, to the reserve, if a segment can be
    /// cleaned then. Its number, and whether it was the reserve.
    fn write_somewhere<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
    ) -> Result<(u32, bool), Refused> {
        let filled = records.with(|records| records.filled);
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            self.may_spend(records, filled)?;
            let Some(number) = records.with(Records::next_free) else {
                break;
            };
            match self.write_buffer(records, device, number, filled) {
                Ok(()) => return Ok((number, false)),
                Err(error) => failed = Some(error),
            }
        }
        if failed == Some(DeviceError::NoSpace) {
            // Where files may not grow, or nothing is left, those at the start are the ones that have had space.
            records.with(|records| records.next_segment = 0);
        }
        if failed != Some(DeviceError::Io) {
            for _ in 0..ATTEMPTS {
                self.may_spend(records, filled)?;
                let Some(number) = records.with(Records::take_reserve) else {
                    break;
                };
                match self.write_buffer(records, device, number, filled) {
                    Ok(()) => return Ok((number, true)),
                    Err(error) => failed = Some(error),
                }
                records.with(|records| records.make_reserve(number));
            }
        }
        Err(failed.map_or(Refused::Full, Refused::Device))
    }

    fn may_spend(&self, records: &mut impl Access<'m>, bytes: usize) -> Result<(), Refused> {
        if self.budget.allows(bytes) {
            return Ok(());
        }
        records.with(|records| records.counts.refused_budget += 1);
        Err(Refused::Budget)
    }

    fn write_buffer<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
        number: u32,
        filled: usize,
    ) -> Result<(), DeviceError> {
        let start = records.with(|records| u64::from(number) * records.buffer.len() as u64);
        let mut done = 0;
        while done < filled {
            let piece = (done, filled - done);
            let wrote = records.write(device, start + done as u64, piece, self.scratch);
            let (given, taken) = match wrote {
                Ok((given, taken)) => (given, taken.min(given)),
                Err(DeviceError::NoSpace) => {
                    records.with(|records| records.counts.no_space_errors += 1);
                    return Err(DeviceError::NoSpace);
                }
                Err(error) => {
                    records.with(|records| records.counts.write_errors += 1);
                    return Err(error);
                }
            };
            if taken < given {
                records.with(|records| records.counts.short_writes += 1);
                if taken == 0 {
                    return Err(DeviceError::Io);
                }
            }
            records.with(|records| records.counts.written_bytes += taken as u64);
            self.budget.spend(taken);
            done += taken;
        }
        Ok(())
    }

    /// Moves what is left in a segment to the buffer, where there is room for it. What cannot be read is lost, and it
    /// alone. Where the device does not answer it stops: what is left is where it was.
    fn clean<D: Device>(
        &mut self,
        records: &mut impl Access<'m>,
        device: &mut D,
        number: u32,
    ) -> Result<(), Refused> {
        while let Some((at, slot)) = records.with(|records| records.first_of(number)) {
            let opener = self.sealer.opener();
            match reader::load_twice(records, device, opener, &slot, self.scratch) {
                Ok(()) => {
                    let sealed = &mut self.scratch[..slot.length as usize];
                    let again = self.sealer.seal(slot.owner, sealed);
                    records.with(|records| records.move_to_buffer(at, &slot, again, sealed));
                }
                Err(Unreadable::Device(DeviceError::Unreachable)) => {
                    return Err(Refused::Device(DeviceError::Unreachable));
                }
                Err(_) => records.with(|records| records.lose(at, &slot)),
            }
        }
        records.with(|records| records.counts.cleaned_segments += 1);
        discard_freed(records, device);
        Ok(())
    }
}

/// Gives up the space of segments that are free. By the writer.
pub fn discard_freed<'m, D: Device>(records: &mut impl Access<'m>, device: &mut D) {
    let freed = |records: &mut Records<'m>| {
        let bytes = records.buffer.len() as u64;
        records
            .take_freed()
            .map(|number| (u64::from(number) * bytes, bytes))
    };
    while let Some((offset, bytes)) = records.with(freed) {
        if device.discard(offset, bytes).is_err() {
            records.with(|records| records.counts.discard_errors += 1);
        }
    }
}
