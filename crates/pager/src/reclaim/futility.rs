//! How long reclaim rests where it can take nothing, although memory stands above the budget.
//!
//! A forked child that idles shares all it has with its parent, and what is shared cannot be taken (`EBUSY`), as what is
//! pinned or does not compress cannot. Looking for it every ten milliseconds took five percent of a processor
//! in each child of a prefork server. So the rest after a look in vain doubles, from [`LEAST_NS`] to [`MOST_NS`], until
//! something changes: the memory held, or that the program runs (a child that writes to shared pages gets its own).
//! That a parent has ended, and its pages are the child's alone, nobody tells: it is found after [`MOST_NS`].
//!
//! Pages that the kernel has refused are looked at again after some seconds. Where next to all of them are refused each
//! time, and nothing changes, that interval doubles as well.

use crate::reclaim::fence::GROWTH_BYTES;
use coldpress_engine::Batch;

/// The shortest rest: as long as between two measurements.
const LEAST_NS: u64 = 10_000_000;
/// The longest rest. A child whose parent has ended is above its budget for so long.
const MOST_NS: u64 = 4_000_000_000;
/// How often it is looked whether something has changed: sooner in the first second.
const LOOK_NS: u64 = 10_000_000;
const LATER_LOOK_NS: u64 = 40_000_000;
/// A page that could not be compressed or taken is tried again after this long.
const RETRY_NS: u64 = 5_000_000_000;
/// And after so long at most.
const LATEST_RETRY_NS: u64 = 80_000_000_000;
/// So many refusals for each page that was kept are next to all.
const NEXT_TO_ALL: u64 = 16;
/// A program that ran for less than this has changed nothing.
const RAN_NS: u64 = 4_000_000;

/// What has been found out.
pub(crate) struct Futility {
    /// 0: there is hope.
    rest_ns: u64,
    since_ns: u64,
    again_ns: u64,
    seen: Seen,
    retry_ns: u64,
    retried_ns: u64,
    retried: Seen,
    kept: u64,
    refused: u64,
}

/// What may change.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Memory held.
    pub(crate) bytes: u64,
    /// For how long the program has run.
    pub(crate) ran_ns: u64,
}

impl Seen {
    fn differs(self, from: Self) -> bool {
        self.bytes.abs_diff(from.bytes) > GROWTH_BYTES || self.ran_ns.abs_diff(from.ran_ns) > RAN_NS
    }
}

impl Futility {
    /// Nothing was in vain yet.
    pub(crate) const fn new() -> Self {
        const NOTHING: Seen = Seen {
            bytes: 0,
            ran_ns: 0,
        };
        Self {
            rest_ns: 0,
            since_ns: 0,
            again_ns: 0,
            seen: NOTHING,
            retry_ns: RETRY_NS,
            retried_ns: 0,
            retried: NOTHING,
            kept: 0,
            refused: 0,
        }
    }

    /// How long to rest before the next look, of which nothing is expected. `None`: it is time to try.
    pub(crate) fn rest(&mut self, now_ns: u64, seen: Seen) -> Option<u64> {
        if self.rest_ns == 0 || now_ns >= self.again_ns || seen.differs(self.seen) {
            return None;
        }
        let settled = now_ns - self.since_ns > 1_000_000_000;
        let look = if settled { LATER_LOOK_NS } else { LOOK_NS };
        Some(look.min(self.again_ns - now_ns))
    }

    /// It was tried in vain.
    pub(crate) fn in_vain(&mut self, now_ns: u64, seen: Seen) {
        if self.rest_ns == 0 || seen.differs(self.seen) {
            self.rest_ns = LEAST_NS;
            self.since_ns = now_ns;
            self.seen = seen;
        } else {
            self.rest_ns = (2 * self.rest_ns).min(MOST_NS);
        }
        self.again_ns = now_ns + self.rest_ns;
    }

    /// It was not in vain, or is not wanted any more.
    pub(crate) fn is_over(&mut self) {
        self.rest_ns = 0;
    }

    /// Takes note of what a batch brought.
    pub(crate) fn note(&mut self, batch: &Batch, now_ns: u64, seen: impl FnOnce() -> Seen) {
        self.kept += u64::from(batch.kept);
        self.refused += u64::from(batch.refused);
        if now_ns - self.retried_ns < self.retry_ns {
            return;
        }
        let seen = seen();
        let in_vain = self.refused > NEXT_TO_ALL * (1 + self.kept);
        self.retry_ns = match in_vain && !seen.differs(self.retried) {
            true => (2 * self.retry_ns).min(LATEST_RETRY_NS),
            false => RETRY_NS,
        };
        (self.kept, self.refused) = (0, 0);
        (self.retried_ns, self.retried) = (now_ns, seen);
    }

    /// After how long a page that was refused is tried again.
    pub(crate) fn retry_ns(&self) -> u64 {
        self.retry_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen {
        bytes: 64 << 20,
        ran_ns: 1_000_000,
    };

    #[test]
    fn rests_double_until_something_changes() {
        let mut futility = Futility::new();
        assert_eq!(futility.rest(0, SEEN), None);
        let mut now = 0;
        for rest_ms in [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 4000, 4000] {
            futility.in_vain(now, SEEN);
            assert!(futility.rest(now + rest_ms * 1_000_000 - 1, SEEN).is_some());
            now += rest_ms * 1_000_000;
            assert_eq!(futility.rest(now, SEEN), None);
        }
        futility.in_vain(now, SEEN);
        assert_eq!(futility.rest(now, SEEN), Some(LATER_LOOK_NS));
        let written = Seen {
            ran_ns: SEEN.ran_ns + RAN_NS + 1,
            ..SEEN
        };
        assert_eq!(futility.rest(now, written), None);
        futility.in_vain(now, written);
        assert_eq!(
            futility.rest(now + LEAST_NS, written),
            None,
            "from the start"
        );
        futility.is_over();
        assert_eq!(futility.rest(now, written), None);
    }

    #[test]
    fn what_is_always_refused_is_tried_less_often() {
        let mut futility = Futility::new();
        let refused = Batch {
            refused: 300,
            ..Batch::default()
        };
        futility.note(&refused, RETRY_NS, || SEEN);
        assert_eq!(futility.retry_ns(), RETRY_NS, "nothing to compare with");
        futility.note(&refused, 2 * RETRY_NS, || SEEN);
        assert_eq!(futility.retry_ns(), 2 * RETRY_NS);
        futility.note(&refused, 3 * RETRY_NS, || unreachable!());
        let kept = Batch {
            kept: 300,
            ..Batch::default()
        };
        futility.note(&kept, 4 * RETRY_NS, || SEEN);
        assert_eq!(futility.retry_ns(), RETRY_NS);
    }
}
