//! When storage is compacted, and how much of it at a time.
//!
//! Programs free and rewrite what is stored, and frames are left half empty. Moving an object
//! costs less than compressing another page, and nobody misses a page for it: so where there is
//! something to be had, it is had first. A step holds the storage lock, for which compression and
//! the end of a restore wait; so steps are short.

use crate::Pager;
use crate::machine::os::Os;
use coldpress_storage::Usage;

/// Bytes copied while the storage lock is held: about 20 microseconds.
const STEP_BYTES: usize = 64 << 10;
/// Steps between two looks at the budget: about a millisecond.
const STEPS: u32 = 32;
/// What is lost to half-empty frames is worth a pass if it is at least [`Os::WORTH_COMPACTING`] and this part of storage.
const WORTH_PART: usize = 8;
/// Another pass is worth it if this part of storage more is lost than the last one left,
const MORE_PART: usize = 32;
/// or after this much time.
const AGAIN_NS: u64 = 1_000_000_000;

/// Passes over storage.
#[derive(Default)]
pub(crate) struct Passes {
    under_way: bool,
    /// What the last pass left, and when.
    left_bytes: usize,
    ended_ns: u64,
}

impl Passes {
    /// Whether a pass was begun that has not ended.
    pub(crate) fn are_under_way(&self) -> bool {
        self.under_way
    }

    /// Whether storage is worth a pass now.
    fn worth_while<O: Os>(&self, usage: &Usage, now_ns: u64) -> bool {
        let lost = usage.fragmentation_bytes;
        lost > O::WORTH_COMPACTING.max(usage.storage_bytes / WORTH_PART)
            && (lost > self.left_bytes + usage.storage_bytes / MORE_PART
                || now_ns - self.ended_ns > AGAIN_NS)
    }

    /// Goes on with the pass under way, or begins one where it is worth while.
    pub(crate) fn advance<O: Os>(&mut self, pager: &Pager<O>) {
        let engine = &pager.engine;
        if !self.under_way && !self.worth_while::<O>(&engine.storage_usage(), O::now_ns()) {
            return;
        }
        self.under_way = true;
        for _ in 0..STEPS {
            let ended = match engine.compact(pager, STEP_BYTES) {
                Some(step) => step.pass_ended,
                None => break,
            };
            if ended {
                self.under_way = false;
                self.left_bytes = engine.storage_usage().fragmentation_bytes;
                self.ended_ns = O::now_ns();
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::linux::Linux;

    #[test]
    fn passes_are_made_where_frames_can_be_had() {
        let usage = |lost: usize| Usage {
            storage_bytes: 64 << 20,
            fragmentation_bytes: lost,
            ..Usage::default()
        };
        let mut passes = Passes::default();
        assert!(!passes.worth_while::<Linux>(&usage(7 << 20), 5));
        assert!(passes.worth_while::<Linux>(&usage(9 << 20), 5));
        passes.left_bytes = 9 << 20;
        assert!(
            !passes.worth_while::<Linux>(&usage(10 << 20), 5),
            "just ended"
        );
        assert!(passes.worth_while::<Linux>(&usage(12 << 20), 5));
        assert!(passes.worth_while::<Linux>(&usage(10 << 20), AGAIN_NS + 1));
        let small = Usage {
            storage_bytes: 1 << 20,
            fragmentation_bytes: 900 << 10,
            ..Usage::default()
        };
        assert!(!passes.worth_while::<Linux>(&small, AGAIN_NS + 1));
    }
}
