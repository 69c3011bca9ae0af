//! How willingly a chunk of memory is registered and unregistered: by counts, not by time.
//!
//! | what happens | and then |
//! |---|---|
//! | `ZERO_FAULTS` first touches of its pages came to a handler | it is unregistered, as far as nothing of it is away |
//! | that could not be | twice as many are needed before it is tried again, up to `MOST_DOUBLINGS` times |
//! | it was unregistered | `KNOWN_FAULTS` are enough from then on; for their age alone `REFUSALS` times no pages of it are taken, unless they are `MANY` |

use core::sync::atomic::{AtomicU8, AtomicU16, Ordering::Relaxed};

/// First touches that make a chunk be unregistered: they cost as much as registering it, taking a page and unregistering it.
pub(crate) const ZERO_FAULTS: u16 = 8;
/// As many as that in a chunk that was unregistered before.
pub(crate) const KNOWN_FAULTS: u16 = 2;
/// Tries in vain that make the next one wait longer.
pub(crate) const MOST_DOUBLINGS: u8 = 6;
/// How often a chunk that was unregistered is left alone.
pub(crate) const REFUSALS: u8 = 4;
/// The refusals that a chunk can have before it.
const MOST_REFUSALS: u8 = 64;
/// So many pages of a chunk that go together are worth registering it.
pub(crate) const MANY: u32 = 32;

/// The bit of a chunk that was unregistered before.
const KNOWN: u8 = 1 << 7;

/// The counts of one chunk. Those who write may overtake one another: a count is lost then, which does no harm.
#[derive(Debug, Default)]
pub struct Hysteresis {
    /// First touches that came to a handler since it was last tried to unregister the chunk.
    zero_faults: AtomicU16,
    /// How often that was in vain, one after the other, and whether it ever was not (`KNOWN`).
    tries: AtomicU8,
    /// How often no pages are taken for their age.
    refusals: AtomicU8,
}

impl Hysteresis {
    /// Counts a first touch. Whether there were enough to unregister the chunk.
    pub(crate) fn note_zero_fault(&self) -> bool {
        let count = self.zero_faults.load(Relaxed).saturating_add(1);
        self.zero_faults.store(count, Relaxed);
        let tries = self.tries.load(Relaxed);
        let least = match tries & KNOWN {
            0 => ZERO_FAULTS,
            _ => KNOWN_FAULTS,
        };
        count >= least << (tries & !KNOWN)
    }

    /// It was tried to unregister the chunk.
    pub(crate) fn tried(&self, done: bool) {
        self.zero_faults.store(0, Relaxed);
        let tries = self.tries.load(Relaxed);
        let tries = match done {
            true => KNOWN,
            false => tries & KNOWN | ((tries & !KNOWN) + 1).min(MOST_DOUBLINGS),
        };
        self.tries.store(tries, Relaxed);
    }

    /// The chunk was unregistered, or a part of it.
    pub(crate) fn unregistered(&self) {
        let refusals = self.refusals.load(Relaxed).saturating_add(REFUSALS);
        self.refusals.store(refusals.min(MOST_REFUSALS), Relaxed);
    }

    /// Whether the chunk is left alone although so many of its pages are old enough to go.
    pub(crate) fn refuses(&self, pages: u32) -> bool {
        let refusals = self.refusals.load(Relaxed);
        if refusals == 0 {
            return false;
        }
        self.refusals.store(refusals - 1, Relaxed);
        pages < MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_until_tried(chunk: &Hysteresis) -> u16 {
        (1..).find(|_| chunk.note_zero_fault()).unwrap()
    }

    #[test]
    fn tries_in_vain_are_made_ever_more_seldom() {
        let chunk = Hysteresis::default();
        for doublings in [0, 1, 2, 3, 4, 5, 6, 6, 6] {
            assert_eq!(faults_until_tried(&chunk), ZERO_FAULTS << doublings);
            chunk.tried(false);
        }
        chunk.tried(true);
        for doublings in [0, 1, 2] {
            assert_eq!(faults_until_tried(&chunk), KNOWN_FAULTS << doublings);
            chunk.tried(false);
        }
    }

    #[test]
    fn what_was_unregistered_is_left_alone_for_a_number_of_times() {
        let chunk = Hysteresis::default();
        assert!(!chunk.refuses(1));
        chunk.unregistered();
        chunk.unregistered();
        assert!(!chunk.refuses(MANY), "they are worth it");
        for _ in 1..2 * REFUSALS {
            assert!(chunk.refuses(1));
        }
        assert!(!chunk.refuses(1));
        for _ in 0..100 {
            chunk.unregistered();
        }
        let refused = (0..200).filter(|_| chunk.refuses(1)).count();
        assert_eq!(refused, usize::from(MOST_REFUSALS));
    }
}
