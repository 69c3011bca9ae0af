//! The device of a tier whose segments are objects.

use crate::bits::Bits;
use crate::counts::{Counts, add};
use crate::line::{Line, Patience};
use crate::probe::probe;
use crate::random;
use crate::store::{Failure, Store, StoreError};
use coldpress_tier::{Device, DeviceError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects that are deleted with one call.
const BATCH: usize = 500;

/// Deleting the objects of a run takes no longer than this, and one call more.
const LONGEST_END: Duration = Duration::from_secs(10);

/// Where segments go that the store does not take.
pub struct Fallback {
    /// A device of its own, on this machine.
    pub device: Box<dyn Device + Send>,
    /// Segments that it has room for.
    pub segments: usize,
}

/// A segment in memory.
struct Gathered {
    number: u32,
    /// The store or the fallback has it as it is here.
    is_safe: bool,
}

/// Segments as objects of a store.
pub struct RemoteDevice {
    line: Line,
    /// What the names of all objects of this run begin with.
    name: String,
    segment_bytes: usize,
    /// The segment that is written (R1). It stays here, and is read from here, until the next one begins.
    gathered: Option<Gathered>,
    buffer: Vec<u8>,
    fallback: Option<Fallback>,
    /// Segments that are read from the fallback (R2).
    in_fallback: Bits,
    /// Segments that may have an object in the store (R3).
    in_store: Bits,
    segments: usize,
}

impl RemoteDevice {
    /// So many segments on a store, below `prefix` and a name of this run. A small object is written, read and deleted
    /// before.
    ///
    /// # Errors
    /// The store cannot be used; or the kernel gives no random numbers.
    pub fn new(
        store: Box<dyn Store>,
        prefix: &str,
        (segments, segment_bytes): (usize, usize),
        patience: Patience,
        fallback: Option<Fallback>,
    ) -> Result<Self, StoreError> {
        let no_random = |error| StoreError::new(Failure::Other, format!("/dev/urandom: {error}"));
        let run = random::bits().map_err(no_random)?;
        let slash = if prefix.is_empty() { "" } else { "/" };
        let mut device = Self {
            line: Line::new(store, patience, run.rotate_left(32)),
            name: format!("{prefix}{slash}{run:016x}"),
            segment_bytes,
            gathered: None,
            buffer: Vec::with_capacity(segment_bytes),
            fallback,
            in_fallback: Bits::new(segments),
            in_store: Bits::new(segments),
            segments,
        };
        let name = format!("{}/probe", device.name);
        probe(&mut device.line, &name)?;
        device.line.count_anew();
        Ok(device)
    }

    /// What the names of all objects of this run begin with, without the slash behind it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What was counted, and is, as long as the device is used.
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(self.line.counts())
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.segment_bytes + self.in_fallback.bytes() + self.in_store.bytes()
    }

    fn name_of(&self, segment: u32) -> String {
        format!("{}/{segment}", self.name)
    }

    fn place(&self, offset: u64) -> Result<(u32, usize), DeviceError> {
        let segment = offset / self.segment_bytes as u64;
        let at = (offset % self.segment_bytes as u64) as usize;
        match segment < self.segments as u64 {
            true => Ok((segment as u32, at)),
            false => Err(DeviceError::NoSpace),
        }
    }

    fn is_gathered(&self, segment: u32) -> bool {
        let gathered = self.gathered.as_ref();
        gathered.is_some_and(|gathered| gathered.number == segment)
    }

    /// Has the store, or the fallback, take what is gathered. With an error it stays in memory (R1).
    fn settle(&mut self) -> Result<(), DeviceError> {
        let Some(Gathered { number, is_safe }) = self.gathered else {
            return Ok(());
        };
        if is_safe {
            return Ok(());
        }
        let name = self.name_of(number);
        if !self.line.rests() {
            self.in_store.set(number, true);
        }
        match self.line.put(&name, &self.buffer) {
            Ok(()) => self.leave_fallback(number),
            Err(error) => self.fall_back(number, &error)?,
        }
        self.gathered = Some(Gathered {
            number,
            is_safe: true,
        });
        Ok(())
    }

    /// Writes what is gathered to the fallback, as the store has refused it.
    fn fall_back(&mut self, number: u32, error: &StoreError) -> Result<(), DeviceError> {
        let refused = match error.failure {
            Failure::NoSpace => DeviceError::NoSpace,
            _ => DeviceError::Io,
        };
        let has_room = |fallback: &&mut Fallback| (number as usize) < fallback.segments;
        let fallback = self.fallback.as_mut().filter(has_room).ok_or(refused)?;
        let mut at = u64::from(number) * self.segment_bytes as u64;
        let mut rest = &self.buffer[..];
        while !rest.is_empty() {
            let written = match fallback.device.write_at(at, rest) {
                Ok(0) => Err(DeviceError::Io),
                Ok(written) => Ok(written.min(rest.len())),
                Err(error) => Err(error),
            };
            let written = written.inspect_err(|_| add(&self.line.counts().fallback_errors, 1))?;
            at += written as u64;
            rest = &rest[written..];
        }
        self.in_fallback.set(number, true);
        add(&self.line.counts().fallback_puts, 1);
        Ok(())
    }

    /// What the fallback has of a segment is not needed.
    fn leave_fallback(&mut self, number: u32) {
        if !self.in_fallback.get(number) {
            return;
        }
        self.in_fallback.set(number, false);
        if let Some(fallback) = &mut self.fallback {
            let bytes = self.segment_bytes as u64;
            // It is written again one day.
            let _ = fallback.device.discard(u64::from(number) * bytes, bytes);
        }
    }

    /// Gives up a segment, wherever it is.
    fn give_up(&mut self, number: u32) -> Result<(), DeviceError> {
        if self.is_gathered(number) {
            self.gathered = None;
        }
        self.leave_fallback(number);
        // A store that rests is spared: the object is replaced when the segment is used again, or deleted at the end.
        if self.in_store.get(number) && !self.line.rests() {
            let deleted = self.line.delete(&[self.name_of(number)]);
            deleted.map_err(|_| DeviceError::Io)?;
            self.in_store.set(number, false);
        }
        Ok(())
    }

    /// Deletes all objects of the run, as far as the store does it in time. How many are left.
    fn delete_all(&mut self) -> usize {
        let since = Instant::now();
        let all = self.in_store.all();
        for batch in all.chunks(BATCH) {
            let names: Vec<String> = batch.iter().map(|number| self.name_of(*number)).collect();
            if since.elapsed() > LONGEST_END || self.line.delete(&names).is_err() {
                break;
            }
            batch
                .iter()
                .for_each(|number| self.in_store.set(*number, false));
        }
        self.in_store.all().len()
    }
}

impl Drop for RemoteDevice {
    fn drop(&mut self) {
        let left = self.delete_all();
        add(&self.line.counts().left_objects, left);
    }
}

impl Device for RemoteDevice {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        let (segment, at) = self.place(offset)?;
        let length = into.len().min(self.segment_bytes - at);
        let into = &mut into[..length];
        if self.is_gathered(segment) {
            let there = self.buffer.get(at..).unwrap_or_default();
            let length = length.min(there.len());
            into[..length].copy_from_slice(&there[..length]);
            return Ok(length);
        }
        if self.in_fallback.get(segment)
            && let Some(fallback) = &mut self.fallback
        {
            add(&self.line.counts().fallback_gets, 1);
            let read = fallback.device.read_at(offset, into);
            return read.inspect_err(|_| add(&self.line.counts().fallback_errors, 1));
        }
        if !self.in_store.get(segment) {
            return Err(DeviceError::Io);
        }
        let name = self.name_of(segment);
        let read = self.line.get(&name, at as u64, into);
        // One that refuses, as it does while a password is changed, has the object still.
        read.map_err(|error| match error.failure {
            Failure::Missing => DeviceError::Io,
            _ => DeviceError::Unreachable,
        })
    }

    /// Gathers bytes. A segment is written from its start on, each piece behind the one before.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        let (segment, at) = self.place(offset)?;
        let bytes = &bytes[..bytes.len().min(self.segment_bytes - at)];
        let follows = self.is_gathered(segment) && at == self.buffer.len();
        if !follows {
            if at != 0 {
                // An object is not written in its middle.
                return Err(DeviceError::Io);
            }
            if !self.is_gathered(segment) {
                self.settle()?;
            }
            self.buffer.clear();
        }
        self.buffer.extend_from_slice(bytes);
        self.gathered = Some(Gathered {
            number: segment,
            is_safe: false,
        });
        Ok(bytes.len())
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let bytes = self.segment_bytes as u64;
        // Of whole segments alone.
        let first = offset.div_ceil(bytes);
        let end = ((offset + length) / bytes).min(self.segments as u64);
        let mut given_up = Ok(());
        for number in first..end {
            given_up = given_up.and(self.give_up(number as u32));
        }
        given_up
    }

    /// What is gathered is in the store, or in the fallback, which is synced.
    fn sync(&mut self) -> Result<(), DeviceError> {
        self.settle()?;
        match &mut self.fallback {
            Some(fallback) if !self.in_fallback.all().is_empty() => fallback.device.sync(),
            _ => Ok(()),
        }
    }
}
