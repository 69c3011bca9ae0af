//! What is read and written: the disk itself, or a snapshot of it.
//!
//! Any number of threads may be inside at a time. Each page is read or written whole, or a part of it, under the lock
//! of its VMO, so two writers of different parts of a page never undo each other, and a reader sees a page as it was
//! at one moment. A range of several pages is no unit: others come between its pages.

use crate::context::Context;
use crate::error::IoError;
use crate::io_counts::count;
use crate::shared::Shared;
use coldpress_codec::{PAGE_SIZE, Page};
use coldpress_engine::Entry;
use coldpress_engine::vmo::{VmoError, VmoId};
use std::ops::Range;
use std::sync::Arc;

const PAGE_BYTES: u64 = PAGE_SIZE as u64;

/// What a range holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Data.
    Data,
    /// Nothing: it reads as zeros, and takes no memory.
    Hole,
}

/// A disk, or a snapshot of one. Clones are the same volume.
#[derive(Clone)]
pub struct Volume {
    pub(crate) shared: Arc<Shared>,
    pub(crate) vmo: VmoId,
    pub(crate) size_bytes: u64,
    pub(crate) read_only: bool,
}

/// How often room is made for one write. A part of a page that a snapshot shares needs two frames: its stored content is
/// brought back, and copied. At the limit, room for the second may be made by compressing the first again, for ever.
const MOST_ATTEMPTS: u32 = 64;

impl Volume {
    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether it cannot be written.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Reads bytes from `offset` on. Takes no memory of the disk's: it works whatever the limit is.
    ///
    /// # Errors
    /// [`IoError::Damaged`] where the checksum of a stored page is wrong.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        self.check(offset, buffer.len() as u64)?;
        let shared = &*self.shared;
        let mut context = shared.context();
        let (machine, vmos) = (&shared.machine, &shared.vmos);
        let done = context.worker().timed(machine, &shared.times, |worker| {
            vmos.read_stored(machine, worker, self.vmo, offset, buffer)
        });
        if done.is_err() {
            count(&shared.io.failed_reads, 1);
        }
        count(&shared.io.read_bytes, buffer.len() as u64);
        done.map_err(IoError::of)
    }

    /// Writes bytes from `offset` on. With an error some of its pages may have been written, each whole or not at
    /// all.
    ///
    /// # Errors
    /// [`IoError::NoSpace`] where memory is at its limit and nothing more can be compressed; [`IoError::Damaged`]
    /// where a part of a page is written whose stored rest is damaged.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), IoError> {
        self.check_writable(offset, data.len() as u64)?;
        let shared = &*self.shared;
        let mut context = shared.context();
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let len = (PAGE_SIZE - (at % PAGE_BYTES) as usize).min(data.len() - done);
            self.write_piece(&mut context, at, &data[done..][..len])?;
            done += len;
        }
        count(&shared.io.written_bytes, data.len() as u64);
        Ok(())
    }

    /// Writes a page, or a part of one.
    fn write_piece(&self, context: &mut Context, at: u64, piece: &[u8]) -> Result<(), IoError> {
        let (shared, page) = (&*self.shared, at / PAGE_BYTES);
        let whole: Option<&Page> = piece.try_into().ok();
        let mut attempts = 0;
        loop {
            let written = match whole {
                Some(content) if is_zero(content) => {
                    shared.vmos.zero(&shared.machine, self.vmo, page..page + 1)
                }
                Some(content) => shared
                    .vmos
                    .overwrite(&shared.machine, self.vmo, page, content),
                None => {
                    let (machine, vmos) = (&shared.machine, &shared.vmos);
                    context.worker().timed(machine, &shared.times, |worker| {
                        vmos.write(machine, worker, self.vmo, at, piece)
                    })
                }
            };
            match written {
                Ok(()) => break,
                Err(VmoError::NoMemory)
                    if attempts < MOST_ATTEMPTS && shared.make_room(context) =>
                {
                    attempts += 1;
                }
                Err(error) => {
                    count(&shared.io.failed_writes, 1);
                    return Err(IoError::of(error));
                }
            }
        }
        shared.wrote(context);
        Ok(())
    }

    /// Forgets whole pages inside the range, which read as zeros then and take no memory. Parts of pages at its ends
    /// stay as they are.
    ///
    /// # Errors
    /// The range is not inside the volume, or it cannot be written.
    pub fn trim(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.check_writable(offset, length)?;
        let pages = offset.div_ceil(PAGE_BYTES)..(offset + length) / PAGE_BYTES;
        self.forget(pages)
    }

    /// Has the range read as zeros. Whole pages are forgotten, as by [`trim`](Self::trim).
    ///
    /// # Errors
    /// As [`write`](Self::write), for the parts of pages at its ends.
    pub fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.check_writable(offset, length)?;
        let end = offset + length;
        let pages = offset.div_ceil(PAGE_BYTES)..end / PAGE_BYTES;
        let parts = match pages.start <= pages.end {
            true => [
                offset..pages.start * PAGE_BYTES,
                pages.end * PAGE_BYTES..end,
            ],
            // Inside one page.
            false => [offset..end, end..end],
        };
        let zeros = [0; PAGE_SIZE];
        for part in parts {
            let len = (part.end - part.start) as usize;
            if len > 0 && self.extent(part.start, len as u64)?.1 == Extent::Data {
                self.write(part.start, &zeros[..len])?;
            }
        }
        self.forget(pages)
    }

    fn forget(&self, pages: Range<u64>) -> Result<(), IoError> {
        if pages.start >= pages.end {
            return Ok(());
        }
        let shared = &*self.shared;
        let pages_trimmed = pages.end - pages.start;
        shared
            .vmos
            .decommit(&shared.machine, self.vmo, pages)
            .map_err(IoError::of)?;
        count(&shared.io.notify_free, pages_trimmed);
        shared.wake_up.ring();
        Ok(())
    }

    /// How far from `offset` on, `length` bytes at most, the volume is data, or a hole. May end early; never 0.
    ///
    /// # Errors
    /// The range is empty, or not inside the volume.
    pub fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), IoError> {
        self.check(offset, length)?;
        if length == 0 {
            return Err(IoError::OutOfRange);
        }
        let pages = offset / PAGE_BYTES..(offset + length).div_ceil(PAGE_BYTES);
        let found = self
            .shared
            .vmos
            .extent(self.vmo, pages)
            .map_err(IoError::of)?;
        let end = (found.end * PAGE_BYTES).min(offset + length);
        let kind = match found.is_content {
            true => Extent::Data,
            false => Extent::Hole,
        };
        Ok((end - offset, kind))
    }

    /// Whether a page is in place, uncompressed.
    pub(crate) fn is_in_place(&self, page: u64) -> bool {
        let entry = self.shared.vmos.entry(self.vmo, page);
        matches!(entry, Ok(Entry::Page(_)))
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), IoError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => {
                count(&self.shared.io.invalid_io, 1);
                Err(IoError::OutOfRange)
            }
        }
    }

    fn check_writable(&self, offset: u64, length: u64) -> Result<(), IoError> {
        if self.read_only {
            count(&self.shared.io.invalid_io, 1);
            return Err(IoError::ReadOnly);
        }
        self.check(offset, length)
    }
}

fn is_zero(page: &Page) -> bool {
    let (words, _) = page.as_chunks::<8>();
    words.iter().all(|word| u64::from_ne_bytes(*word) == 0)
}
