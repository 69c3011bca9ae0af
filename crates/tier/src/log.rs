//! The log: writing the buffer to a free segment, and cleaning segments, so that there is always a free one.
//!
//! ```text
//!   buffer ──full──▶ free segment ──written──▶ records are removed ──none left──▶ free, discarded
//!     ▲                                              │ some left, and no segment is free
//!     ╰─────────── read, opened, sealed anew ────────╯ (the one with the least left)
//! ```

use crate::device::{Device, DeviceError};
use crate::memory::{LOST, Segment, State};
use crate::seal::TAG_BYTES;
use crate::tier::{Refused, Tier};

/// Segments that are tried when writing fails.
const ATTEMPTS: u32 = 3;

impl<D: Device> Tier<'_, D> {
    /// Writes the buffer to a free segment, and cleans one where that was the last. With an error all is as it was.
    pub(crate) fn write_out(&mut self) -> Result<(), Refused> {
        match self.compact_buffer() {
            true => Ok(()),
            false => self.write_now(),
        }
    }

    fn write_now(&mut self) -> Result<(), Refused> {
        // The last free segment is given only for one that can be cleaned.
        let has_room = match self.free_segments {
            0 => false,
            1 => self.least_filled().is_some(),
            _ => true,
        };
        if !has_room {
            self.counts.refused_full += 1;
            return Err(Refused::Full);
        }
        let number = self.write_somewhere()?;
        self.hand_over(number);
        if self.free_segments == 0
            && let Some(victim) = self.least_filled()
        {
            self.clean(victim);
        }
        Ok(())
    }

    /// Writes what is in the buffer, full or not, and syncs the device.
    ///
    /// # Errors
    /// As [`put`](Tier::put). All records can be read still.
    pub fn sync(&mut self) -> Result<(), Refused> {
        self.compact_buffer();
        if self.open.live_records > 0 {
            self.write_now()?;
        }
        self.device.sync().map_err(|error| {
            self.counts.sync_errors += 1;
            Refused::Device(error)
        })
    }

    /// Moves records in the buffer together, if that makes an eighth of it free.
    fn compact_buffer(&mut self) -> bool {
        let dead = self.filled - self.open.live_bytes as usize;
        if dead < self.memory.buffer.len() / 8 {
            return false;
        }
        let (mut at, mut end) = (self.open.first, 0);
        for _ in 0..self.open.live_records {
            let slot = &mut self.memory.slots[at as usize];
            let (from, length) = (slot.offset as usize, slot.length as usize);
            self.memory.buffer.copy_within(from..from + length, end);
            slot.offset = end as u32;
            end += length;
            at = slot.after;
        }
        self.filled = end;
        true
    }

    /// The segment with the least in it, if a quarter of it could be won.
    fn least_filled(&self) -> Option<u32> {
        let most = (self.memory.buffer.len() / 4 * 3) as u32;
        let segments = self.memory.segments.iter().zip(0..);
        let written = segments.filter(|(segment, _)| segment.state == State::Written);
        let least = written.min_by_key(|(segment, _)| segment.live_bytes)?;
        (least.0.live_bytes <= most).then_some(least.1)
    }

    /// Writes the buffer to one of the next free segments.
    fn write_somewhere(&mut self) -> Result<u32, Refused> {
        let mut failed = DeviceError::Io;
        for _ in 0..ATTEMPTS {
            if !self.budget.allows(self.filled) {
                self.counts.refused_budget += 1;
                return Err(Refused::Budget);
            }
            let Some(number) = self.next_free() else {
                break;
            };
            match self.write_buffer(number) {
                Ok(()) => return Ok(number),
                Err(error) => failed = error,
            }
        }
        Err(Refused::Device(failed))
    }

    /// The next free segment, round and round, so that all wear alike, and one that cannot be written is passed by.
    fn next_free(&mut self) -> Option<u32> {
        let count = self.memory.segments.len() as u32;
        for _ in 0..count {
            let number = self.next_segment;
            self.next_segment = (number + 1) % count;
            if self.memory.segments[number as usize].state == State::Free {
                return Some(number);
            }
        }
        None
    }

    fn write_buffer(&mut self, number: u32) -> Result<(), DeviceError> {
        let mut at = u64::from(number) * self.memory.buffer.len() as u64;
        let mut left = &self.memory.buffer[..self.filled];
        self.budget.spend(left.len());
        while !left.is_empty() {
            let written = match self.device.write_at(at, left) {
                Ok(written) => written.min(left.len()),
                Err(DeviceError::NoSpace) => {
                    self.counts.no_space_errors += 1;
                    return Err(DeviceError::NoSpace);
                }
                Err(error) => {
                    self.counts.write_errors += 1;
                    return Err(error);
                }
            };
            if written < left.len() {
                self.counts.short_writes += 1;
                if written == 0 {
                    return Err(DeviceError::Io);
                }
            }
            self.counts.written_bytes += written as u64;
            at += written as u64;
            left = &left[written..];
        }
        Ok(())
    }

    /// The records of the buffer are those of a segment from now on.
    fn hand_over(&mut self, number: u32) {
        let open = core::mem::take(&mut self.open);
        let mut at = open.first;
        for _ in 0..open.live_records {
            let slot = &mut self.memory.slots[at as usize];
            slot.segment = number;
            at = slot.after;
        }
        self.filled = 0;
        if open.live_records == 0 {
            return;
        }
        self.free_segments -= 1;
        self.memory.segments[number as usize] = Segment {
            state: State::Written,
            ..open
        };
    }

    /// Moves what is left in a segment to the buffer, which is empty. What cannot be read is lost, and it alone.
    fn clean(&mut self, number: u32) {
        debug_assert_eq!(self.filled, 0, "a segment's worth of room");
        self.counts.cleaned_segments += 1;
        for _ in 0..self.memory.segments[number as usize].live_records {
            let at = self.memory.segments[number as usize].first;
            let slot = self.memory.slots[at as usize];
            let loaded = self.load(&slot);
            self.detach(at, &slot);
            match loaded {
                Ok(()) => {
                    let length = slot.length as usize - TAG_BYTES;
                    self.append_again(at, slot.owner, length);
                    self.counts.moved_records += 1;
                }
                Err(_) => {
                    self.memory.slots[at as usize].segment = LOST;
                    self.counts.lost_records += 1;
                }
            }
        }
    }
}
