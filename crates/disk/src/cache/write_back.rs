//! Writing back, syncing, and making the pool smaller.
//!
//! A page goes to its place in the store as it was written by the client. It stays held until a sync has ended well, so
//! that one that fails finds it dirty again; only then is it evicted.

use super::core::{Core, LEAF_PAGES, PAGE};
use super::table::State;
use crate::error::IoError;
use crate::frames::Idle;
use crate::io_counts::count;
use std::sync::atomic::Ordering::SeqCst;

/// How often a flush begins anew because the sync of another has failed.
const FLUSH_ATTEMPTS: u32 = 4;

/// Pages that are evicted between two syncs.
const BATCH_PAGES: usize = 1024;

/// Which pages are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are held.
    All,
    /// Those that were not used since they were [marked](super::Cache::mark_idle).
    Idle,
    /// Those that do not compress.
    Huge,
}

/// Bytes that compaction moves after a batch.
const COMPACTED_BYTES: usize = 8 << 20;

impl Core {
    /// All that was written before is in the store, and stays there.
    pub(crate) fn flush(&self) -> Result<(), IoError> {
        if !self.backing.outlives() {
            return Ok(());
        }
        let failed_syncs = || self.counts.backing_sync_errors.load(SeqCst);
        for _ in 0..FLUSH_ATTEMPTS {
            let before = failed_syncs();
            let dirty = self.table.lock().to_be_written();
            let written = self.write_back(&dirty);
            let synced = self.sync();
            if self.owes_error.swap(false, SeqCst) {
                // A sync between two flushes has failed, and this is the first who can be told.
                return Err(IO);
            }
            written.and(synced)?;
            if failed_syncs() == before {
                return Ok(());
            }
            // Another's sync has failed meanwhile. Of what it was about some was written back when this began, and is
            // dirty again, though the sync that followed was a good one.
        }
        Err(IO)
    }

    /// Writes back what is dirty of these pages, which are in order. The first error; all others were written.
    pub(crate) fn write_back(&self, pages: &[u32]) -> Result<(), IoError> {
        let mut result = Ok(());
        let mut buffer = Vec::new();
        let leaf = |page: u32| u64::from(page) / LEAF_PAGES;
        for pages in pages.chunk_by(|a, b| leaf(*a) == leaf(*b)) {
            let _range = self.range(pages[0].into());
            let dirty: Vec<u32> = {
                let table = self.table.lock();
                let is_dirty = |page: &u32| table.get(*page) == Some(State::Dirty);
                pages.iter().copied().filter(is_dirty).collect()
            };
            for run in dirty.chunk_by(|a, b| a + 1 == *b) {
                result = result.and(self.write_run(run, &mut buffer));
            }
        }
        result
    }

    /// Writes neighbours back; where that fails, each alone.
    fn write_run(&self, run: &[u32], buffer: &mut Vec<u8>) -> Result<(), IoError> {
        let offset = u64::from(run[0]) * PAGE;
        buffer.resize(run.len() * PAGE as usize, 0);
        let written = self
            .volume()
            .read(offset, buffer)
            .and_then(|()| self.write_pages(run, buffer));
        match written {
            Err(_) if run.len() > 1 => {
                let mut result = Ok(());
                for page in run.chunks(1) {
                    result = result.and(self.write_run(page, buffer));
                }
                result
            }
            Err(error) => {
                count(&self.counts.reject_reclaim_fail, 1);
                // Others first, the next time.
                self.table.lock().touch(run[0]);
                Err(error)
            }
            Ok(()) => Ok(()),
        }
    }

    fn write_pages(&self, run: &[u32], content: &[u8]) -> Result<(), IoError> {
        let _gate = self.gate.read();
        let offset = u64::from(run[0]) * PAGE;
        self.backing.write(offset, content).map_err(|error| {
            count(&self.counts.backing_write_errors, 1);
            IoError::Backing(error)
        })?;
        count(&self.counts.written_back_pages, run.len() as u64);
        let mut table = self.table.lock();
        run.iter()
            .for_each(|page| table.become_(*page, State::Written));
        Ok(())
    }

    /// Syncs the store. If that fails, what was written back is dirty again.
    fn sync(&self) -> Result<(), IoError> {
        let _gate = self.gate.write();
        let synced = self.backing.sync();
        count(&self.counts.syncs, 1);
        let went_past = self.went_past.swap(false, SeqCst);
        let state = match synced {
            Ok(()) => State::Clean,
            Err(_) => {
                count(&self.counts.backing_sync_errors, 1);
                self.owes_error.fetch_or(went_past, SeqCst);
                State::Dirty
            }
        };
        self.table.lock().synced(state);
        synced.map_err(IoError::Backing)
    }

    /// Evicts the least recently used pages, after writing back those that only the pool has. How many.
    pub(crate) fn evict_coldest(&self, most: usize) -> u64 {
        let pages = self.table.lock().coldest(most);
        self.evict(pages)
    }

    /// Evicts these pages, as far as they can be written back.
    fn evict(&self, mut pages: Vec<u32>) -> u64 {
        pages.sort_unstable();
        let is_dirty = {
            let table = self.table.lock();
            let is_dirty = |page: &u32| table.get(*page) != Some(State::Clean);
            pages.iter().any(is_dirty)
        };
        if is_dirty {
            // Errors are counted; those pages stay.
            let _ = self.write_back(&pages);
            let _ = self.sync();
        }
        let evicted = self.evict_clean(&pages);
        count(&self.counts.evicted_pages, evicted);
        let shared = &self.volume().shared;
        if shared.is_sparse() {
            shared.engine().compact(&shared.machine, COMPACTED_BYTES);
        }
        shared.count_tables();
        shared.wake_up.ring();
        evicted
    }

    /// Evicts the pages that are meant. How many.
    pub(crate) fn evict_all(&self, which: Which) -> u64 {
        let pages = match which {
            Which::All => self.table.lock().coldest(usize::MAX),
            Which::Idle => self.table.lock().idle(),
            Which::Huge => {
                // What is in place still does not compress.
                self.disk.settle();
                let mut pages = self.table.lock().coldest(usize::MAX);
                pages.retain(|page| self.volume().is_in_place((*page).into()));
                pages
            }
        };
        let batches = pages.chunks(BATCH_PAGES);
        let evicted = batches.map(|batch| self.evict(batch.to_vec())).sum();
        // Somebody has asked for the memory.
        self.volume().shared.machine.frames.give_back(Idle::All);
        evicted
    }

    fn evict_clean(&self, pages: &[u32]) -> u64 {
        let mut evicted = 0;
        for &page in pages {
            let page = u64::from(page);
            let _range = self.range(page);
            let state = self.table.lock().get(page as u32);
            if state == Some(State::Clean) {
                self.forget(page..page + 1);
                evicted += 1;
            }
        }
        evicted
    }
}

const IO: IoError = IoError::Backing(crate::backing::BackingError::Io);
