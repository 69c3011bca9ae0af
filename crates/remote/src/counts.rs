//! What is counted of a store.

use crate::store::Failure;
use coldpress_interface::histogram::Histogram;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters, which others may read at any time.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) puts: AtomicU64,
    pub(crate) put_bytes: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) get_bytes: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) missing: AtomicU64,
    pub(crate) refused_puts: AtomicU64,
    pub(crate) fallback_puts: AtomicU64,
    pub(crate) fallback_gets: AtomicU64,
    pub(crate) fallback_errors: AtomicU64,
    pub(crate) left_objects: AtomicU64,
    failing: AtomicU8,
    pub(crate) put_times: Histogram,
    pub(crate) get_times: Histogram,
}

/// How long calls took that succeeded, retries included, in nanoseconds; `None`: there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Half of them took at most so long.
    pub p50_ns: Option<u64>,
    /// 99 % of them took at most so long.
    pub p99_ns: Option<u64>,
}

/// The values of [`Counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Segments that the store has taken, ever.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: u64,
    /// Reads that the store has answered, ever.
    pub gets: u64,
    /// Their bytes.
    pub get_bytes: u64,
    /// Objects deleted, ever.
    pub deletes: u64,
    /// Attempts that were repeated ones.
    pub retries: u64,
    /// Attempts that failed, whatever the reason.
    pub errors: u64,
    /// Of these: there was no answer in time.
    pub timeouts: u64,
    /// Of these: the object was not there, or too short. The store has forgotten it.
    pub missing: u64,
    /// Segments that were not offered to the store, as it had failed a moment before.
    pub refused_puts: u64,
    /// Segments that went to the fallback.
    pub fallback_puts: u64,
    /// Reads from the fallback.
    pub fallback_gets: u64,
    /// Reads and writes that the fallback refused.
    pub fallback_errors: u64,
    /// Objects that could not be deleted at the end of the run.
    pub left_objects: u64,
    /// Why the store does not do what it is asked to, if it did not when it was last asked. That an object is missing
    /// is no such reason. A store that refuses writes does so until it takes one, whatever it answers to reads.
    pub failing: Option<Failure>,
    /// Of puts.
    pub put_latency: Latency,
    /// Of reads.
    pub get_latency: Latency,
}

pub(crate) fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Relaxed);
}

fn latency(times: &Histogram) -> Latency {
    Latency {
        p50_ns: times.quantile_ns(0.5),
        p99_ns: times.quantile_ns(0.99),
    }
}

pub(crate) fn took(times: &Histogram, time: Duration) {
    times.record(time.as_nanos() as u64);
}

impl Counts {
    pub(crate) fn set_failing(&self, failure: Option<Failure>) {
        self.failing.store(Failure::to_byte(failure), Relaxed);
    }

    /// Their values now.
    pub fn figures(&self) -> Figures {
        let value = |counter: &AtomicU64| counter.load(Relaxed);
        Figures {
            puts: value(&self.puts),
            put_bytes: value(&self.put_bytes),
            gets: value(&self.gets),
            get_bytes: value(&self.get_bytes),
            deletes: value(&self.deletes),
            retries: value(&self.retries),
            errors: value(&self.errors),
            timeouts: value(&self.timeouts),
            missing: value(&self.missing),
            refused_puts: value(&self.refused_puts),
            fallback_puts: value(&self.fallback_puts),
            fallback_gets: value(&self.fallback_gets),
            fallback_errors: value(&self.fallback_errors),
            left_objects: value(&self.left_objects),
            failing: Failure::of_byte(self.failing.load(Relaxed)),
            put_latency: latency(&self.put_times),
            get_latency: latency(&self.get_times),
        }
    }
}
