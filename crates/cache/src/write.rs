//! Writing: one page a lock, any number of locks.

use crate::cache::{Cache, ZEROS, check_range};
use crate::error::Error;
use crate::order::DEFAULT_COST;
use crate::slot::{Ending, State};
use crate::{PAGE_BYTES, racy};
use std::sync::atomic::{
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

/// A page locked for write.
pub(crate) struct Writing {
    pub slot: u32,
    /// Its content is not what the key had (or what the upgraded lock saw): it is unspecified.
    pub fresh: bool,
}

impl Cache {
    /// Locks the page of `key` for write, or takes a page for it. With `seen`, what a read lock
    /// saw, the content counts as kept only if it still is that.
    pub(crate) fn begin(&self, key: u64, seen: Option<(u32, State)>) -> Result<Writing, Error> {
        let mut room = self.lock_room();
        let there = match seen {
            Some((slot, state)) if self.state(slot) == state => Some((slot, true)),
            Some(_) => self.index.find(key, &self.slots).map(|slot| (slot, false)),
            None => self.index.find(key, &self.slots).map(|slot| (slot, true)),
        };
        let Some((slot, same)) = there else {
            // What is there compressed is replaced, and must not come back (T1).
            let cost = room.tier.as_mut().and_then(|tier| tier.forget(key));
            let slot = self.take_page(&mut room, key)?;
            self.set_cost_of_page(slot, cost.unwrap_or(DEFAULT_COST));
            self.count_writer(slot);
            return Ok(Writing { slot, fresh: true });
        };
        let state = self.state(slot);
        if !state.is_open() {
            return Err(Error::Busy { key });
        }
        self.close(slot, state);
        self.count_writer(slot);
        drop(room);
        let page = self.region.page(slot);
        // SAFETY: a page of our region. Made dirty, it stays (C2 keeps it from being sealed again).
        if !unsafe { racy::hold(page) } {
            self.counters.taken();
            return Ok(Writing { slot, fresh: true });
        }
        // SAFETY: as above.
        unsafe { racy::marker(page) }.store(state.last_byte(), Relaxed);
        Ok(Writing { slot, fresh: !same })
    }

    /// From here on readers of `slot` know that it changed (C1). Under the room lock.
    pub(crate) fn close(&self, slot: u32, state: State) {
        let record = &self.slots[slot as usize];
        record.state.store(state.closed().0, Relaxed);
        // No byte written from now on is seen by who does not see the state closed.
        fence(Release);
    }

    /// Under the room lock, before the writer has its page (C2).
    pub(crate) fn count_writer(&self, slot: u32) {
        let chunk = &self.chunk_states[self.chunk_of(slot)];
        chunk.writers.fetch_add(1, Relaxed);
        chunk.written.fetch_add(1, Relaxed);
    }

    /// Ends a write.
    pub(crate) fn finish(&self, slot: u32, ending: Ending) {
        let chunk_number = self.chunk_of(slot);
        let chunk = &self.chunk_states[chunk_number];
        if ending == Ending::Readable && !self.stub {
            // SAFETY: a page of our region, locked for us.
            let marker = unsafe { racy::marker(self.region.page(slot)) };
            let last_byte = marker.load(Relaxed);
            marker.store(last_byte | 1, Relaxed);
            let opened = self.state(slot).opened(last_byte);
            self.slots[slot as usize].state.store(opened.0, Release);
        } else {
            let mut room = self.lock_room();
            self.release(&mut room, slot);
        }
        let left = chunk.writers.fetch_sub(1, AcqRel) - 1;
        if left == 0 && self.seal_is_due(chunk_number) {
            let mut room = self.lock_room();
            if chunk.writers.load(Acquire) == 0 && self.seal_is_due(chunk_number) {
                self.seal(&mut room, chunk_number);
            }
        }
    }

    /// Locks `key` for write: its entry if the cache has one, else a page of zeros.
    ///
    /// # Errors
    /// [`Error::Busy`] if the key is locked for write, by this thread or another;
    /// [`Error::NoRoom`] if every page is.
    pub fn write_lock(&self, key: u64) -> Result<WriteLock<'_>, Error> {
        self.look_up_anywhere(key);
        Ok(WriteLock::new(self, self.begin(key, None)?))
    }
}

/// A page locked for write, by [`Cache::write_lock`] or [`ReadLock::upgrade`](crate::ReadLock::upgrade).
///
/// [`commit`](WriteLock::commit) makes it readable. Dropped without that, the entry is forgotten,
/// so that a panic leaves no half of one.
#[must_use = "dropped without `commit`, the entry is forgotten"]
pub struct WriteLock<'cache> {
    cache: &'cache Cache,
    slot: u32,
    fresh: bool,
}

impl<'cache> WriteLock<'cache> {
    pub(crate) fn new(cache: &'cache Cache, writing: Writing) -> WriteLock<'cache> {
        let Writing { slot, fresh } = writing;
        if fresh {
            // SAFETY: the page is locked for us. What it held may be another key's.
            unsafe { racy::copy(ZEROS.as_ptr(), cache.region.page(slot), PAGE_BYTES) };
        }
        WriteLock { cache, slot, fresh }
    }

    /// Whether the page was new or lost, and is zero; otherwise it has the entry as it was.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Panics
    /// If they reach beyond the page.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        check_range(offset, bytes.len()).unwrap_or_else(|e| panic!("{e}"));
        // SAFETY: inside the page, which is locked for us; readers bear with it (C4).
        unsafe { racy::copy(bytes.as_ptr(), self.as_mut_ptr().add(offset), bytes.len()) };
    }

    /// Reads back what was written.
    ///
    /// # Panics
    /// If `into` reaches beyond the page.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        check_range(offset, into.len()).unwrap_or_else(|e| panic!("{e}"));
        let page = self.cache.region.page(self.slot);
        // SAFETY: inside the page; nobody else writes.
        unsafe { racy::copy(page.add(offset), into.as_mut_ptr(), into.len()) };
    }

    /// The page, to write through. Readers may look at it meanwhile, so make no reference to it
    /// that outlives a statement; it must not be used after the lock.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.cache.region.page(self.slot)
    }

    /// Makes the entry readable.
    pub fn commit(self) {
        self.cache.finish(self.slot, Ending::Readable);
        std::mem::forget(self);
    }
}

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        self.cache.finish(self.slot, Ending::Forgotten);
    }
}
