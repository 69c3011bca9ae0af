//! Counters of readers, which cost a reader no locked instruction.

use std::cell::Cell;
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

const STRIPES: usize = 16;

#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Stripe {
    pub hits: AtomicU64,
    pub misses: AtomicU64,
    pub resets: AtomicU64,
}

/// Counters of readers: a line for each of a few threads, which counts in it without a locked
/// instruction, and one for all others.
#[derive(Default)]
pub(crate) struct Counters(pub [Stripe; STRIPES]);

/// The stripe of threads that have none of their own.
const SHARED: usize = STRIPES - 1;

/// Stripes that a thread has, of all caches alike.
static OWNED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    static OWNER: Owner = Owner::new();
}

/// Gives a thread's stripe back when the thread ends.
struct Owner(usize);

impl Owner {
    fn new() -> Owner {
        let mut owned = OWNED.load(Relaxed);
        loop {
            let stripe = owned.trailing_ones() as usize;
            if stripe >= SHARED {
                return Owner(SHARED);
            }
            // Acquire: whoever had it has counted.
            match OWNED.compare_exchange_weak(owned, owned | 1 << stripe, Acquire, Relaxed) {
                Ok(_) => return Owner(stripe),
                Err(now) => owned = now,
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        STRIPE.set(SHARED);
        if self.0 < SHARED {
            OWNED.fetch_and(!(1 << self.0), Release);
        }
    }
}

impl Counters {
    #[inline]
    fn count(&self, of: fn(&Stripe) -> &AtomicU64) {
        let mut stripe = STRIPE.get();
        if stripe >= STRIPES {
            stripe = assign();
        }
        let counter = of(&self.0[stripe]);
        if stripe == SHARED {
            counter.fetch_add(1, Relaxed);
        } else {
            counter.store(counter.load(Relaxed) + 1, Relaxed);
        }
    }

    #[inline]
    pub fn hit(&self) {
        self.count(|stripe| &stripe.hits);
    }

    pub fn miss(&self) {
        self.count(|stripe| &stripe.misses);
    }

    pub fn taken(&self) {
        self.count(|stripe| &stripe.resets);
    }
}

#[cold]
fn assign() -> usize {
    // A thread that is ending has given its own back.
    let stripe = OWNER.try_with(|owner| owner.0).unwrap_or(SHARED);
    STRIPE.set(stripe);
    stripe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_however_many_threads_count() {
        let counters = Counters::default();
        for _ in 0..3 {
            std::thread::scope(|scope| {
                for _ in 0..40 {
                    scope.spawn(|| (0..10_000).for_each(|_| counters.hit()));
                }
            });
        }
        let hits = counters.0.iter().map(|stripe| stripe.hits.load(Relaxed));
        assert_eq!(hits.sum::<u64>(), 3 * 40 * 10_000);
    }
}
