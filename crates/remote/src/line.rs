//! The way to a store: attempts, pauses between them, and the rest after a failure.
//!
//! ```text
//!   works ── all attempts failed ──▶ rests, 1 s at first ── time is over ──▶ the next write tries, or any read before
//!     ▲                                 ▲                                            │ failed: twice as long
//!     ╰────────── answered ─────────────┴────────────────────────────────────────────╯
//! ```
//!
//! While it rests a write is refused at once, so that a dead store costs each of them nothing, and a read, which has no
//! other place to go to, is tried once.

use crate::counts::{Counts, add, took};
use crate::random::Jitter;
use crate::store::{Failure, Store, StoreError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a store is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a connection, for sending, and for an answer, each.
    pub timeout: Duration,
    /// Attempts after the first one.
    pub retries: u32,
    /// The pause before the second attempt at most, and at least half of it. Each further pause is twice as long.
    pub pause: Duration,
    /// How long writes are refused after a failure. Each further failure doubles it.
    pub rest: Duration,
    /// The longest such time.
    pub longest_rest: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            retries: 3,
            pause: Duration::from_millis(50),
            rest: Duration::from_secs(1),
            longest_rest: Duration::from_secs(30),
        }
    }
}

/// Why writes are refused, and how long.
struct Rest {
    until: Option<Instant>,
    length: Duration,
    because: Failure,
}

/// A store, and how it is come by.
pub struct Line {
    store: Box<dyn Store>,
    patience: Patience,
    jitter: Jitter,
    rest: Rest,
    counts: Arc<Counts>,
}

impl Line {
    pub fn new(store: Box<dyn Store>, patience: Patience, seed: u64) -> Self {
        Self {
            store,
            patience,
            jitter: Jitter::new(seed),
            rest: Rest {
                until: None,
                length: patience.rest,
                because: Failure::Other,
            },
            counts: Arc::default(),
        }
    }

    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Forgets what was counted until now.
    pub fn count_anew(&mut self) {
        self.counts = Arc::default();
    }

    /// Whether writes are refused.
    pub fn rests(&self) -> bool {
        self.rest.until.is_some_and(|until| Instant::now() < until)
    }

    pub fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        if self.rests() {
            add(&self.counts.refused_puts, 1);
            let text = "the store failed a moment ago";
            return Err(StoreError::new(Failure::Resting, text));
        }
        let since = Instant::now();
        self.attempt(self.patience.retries, |store| store.put(name, bytes))?;
        self.works();
        self.rest.length = self.patience.rest;
        took(&self.counts.put_times, since.elapsed());
        add(&self.counts.puts, 1);
        add(&self.counts.put_bytes, bytes.len());
        Ok(())
    }

    pub fn get(&mut self, name: &str, at: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let since = Instant::now();
        let length = self.attempt(self.retries(), |store| store.get(name, at, into))?;
        self.answered();
        took(&self.counts.get_times, since.elapsed());
        add(&self.counts.gets, 1);
        add(&self.counts.get_bytes, length);
        Ok(length)
    }

    pub fn delete(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.attempt(self.retries(), |store| store.delete(names))?;
        add(&self.counts.deletes, names.len());
        Ok(())
    }

    /// How often a call may be repeated now.
    fn retries(&self) -> u32 {
        match self.rests() {
            true => 0,
            false => self.patience.retries,
        }
    }

    /// One attempt, and so many more as long as another may succeed.
    fn attempt<T>(
        &mut self,
        retries: u32,
        mut act: impl FnMut(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut pause = self.patience.pause;
        for attempt in 0.. {
            let error = match act(&mut *self.store) {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            self.count(error.failure);
            if attempt == retries || !error.failure.may_pass() {
                self.failed(error.failure);
                return Err(error);
            }
            add(&self.counts.retries, 1);
            let pause_us = self.jitter.of(pause.as_micros() as u64);
            std::thread::sleep(Duration::from_micros(pause_us));
            pause *= 2;
        }
        unreachable!("the attempts have an end")
    }

    fn count(&self, failure: Failure) {
        add(&self.counts.errors, 1);
        match failure {
            Failure::Timeout => add(&self.counts.timeouts, 1),
            Failure::Missing => add(&self.counts.missing, 1),
            _ => {}
        }
    }

    /// It answers again. One that has no room, or does not allow writes, was never silent.
    fn answered(&mut self) {
        if self.rest.because.may_pass() {
            self.works();
        }
    }

    fn works(&mut self) {
        self.rest.until = None;
        self.counts.set_failing(None);
    }

    /// All attempts have failed. A store that has answered that an object is not there works.
    fn failed(&mut self, failure: Failure) {
        if failure == Failure::Missing {
            return self.answered();
        }
        if self.rests() {
            return;
        }
        self.counts.set_failing(Some(failure));
        self.rest.because = failure;
        self.rest.until = Some(Instant::now() + self.rest.length);
        self.rest.length = (self.rest.length * 2).min(self.patience.longest_rest);
    }
}
