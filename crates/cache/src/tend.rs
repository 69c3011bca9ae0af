//! Shrinking to the soft budget while memory is short, by a call or by a thread.
//!
//! What goes is what the cache would evict next: the coldest pages, which are given back to the kernel
//! and, where there is a compressed tier, stay there compressed; when no page is left, the compressed entries
//! that cost least to make again. Each time half of what is above the soft budget goes: if memory is
//! short only for a moment, the rest is not lost for it.

use crate::cache::Cache;
use crate::options::Backing;
use crate::room::Room;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What goes at least each time, so that the last bytes above the budget do not take for ever.
const LEAST_BYTES: usize = 1 << 20;

impl Cache {
    /// Looks whether memory is short ([`Options::pressure`](crate::Options::pressure)); if it is, the cache
    /// shrinks some way towards its soft budget. Returns the bytes by which it did. For a loop of the caller's
    /// own, about once a second; [`tend_every`](Cache::tend_every) starts a thread that does it.
    ///
    /// Readers never wait for it. Writers may, for the eviction of half a chunk, or of 64 pages where they are
    /// compressed.
    pub fn tend(&self) -> u64 {
        let short = self.pressure.is_short();
        self.short.store(short, Relaxed);
        if short { self.shrink_to_soft() } else { 0 }
    }

    fn shrink_to_soft(&self) -> u64 {
        let (before, goal) = {
            let mut room = self.lock_room();
            if room.used_bytes() <= room.budget.soft_bytes() {
                return 0;
            }
            // What the kernel took and what is free first: nothing is lost with it.
            let before = room.used_bytes();
            self.note_taken(&mut room);
            self.give_back_free(&mut room);
            let above = before.saturating_sub(room.budget.soft_bytes());
            (before, before - (above / 2).max(LEAST_BYTES.min(above)))
        };
        loop {
            // Taken anew for each step, so that writers come in between.
            let mut room = self.lock_room();
            let used = room.used_bytes();
            if used <= goal || !self.shrink_a_step(&mut room) {
                let gone = before.saturating_sub(room.used_bytes()) as u64;
                room.budget.shrunk_bytes += gone;
                return gone;
            }
        }
    }

    fn shrink_a_step(&self, room: &mut Room) -> bool {
        self.evict_coldest(room) > 0 || room.tier.as_mut().is_some_and(|tier| tier.discard_next())
    }

    /// Frees pages that the kernel has taken.
    fn note_taken(&self, room: &mut Room) {
        for number in 0..room.chunks.len() {
            if room.chunks[number].backing == Backing::LazyFree {
                self.reuse_taken(room, number);
            }
        }
    }

    /// Starts a thread that [tends](Cache::tend) the cache at an interval, until what is returned is
    /// dropped. Nothing starts one unasked.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn tend_every(self: &Arc<Self>, interval: Duration) -> io::Result<Tender> {
        let stop = Arc::new(AtomicBool::new(false));
        let (cache, told) = (Arc::clone(self), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("coldpress-tend".into())
            .spawn(move || {
                while !told.load(Acquire) {
                    cache.tend();
                    thread::park_timeout(interval);
                }
            })?;
        Ok(Tender {
            stop,
            thread: Some(thread),
        })
    }
}

/// The thread of [`Cache::tend_every`]. It ends when this is dropped, which waits for it.
#[must_use = "dropped, the thread ends"]
pub struct Tender {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Tender {
    fn drop(&mut self) {
        self.stop.store(true, Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say, and if it panicked the cache says so itself.
            let _ = thread.join();
        }
    }
}
