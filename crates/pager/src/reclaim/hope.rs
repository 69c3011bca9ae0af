//! Whether faults are still held back for the budget, or it is out of reach for now and they are answered at once.
//!
//! Two signs that waiting is in vain. Memory that has stood where faults wait for [`HOPE_NS`] cannot be less: pages shared with
//! a child cannot be taken, others do not compress. And a batch of old pages that keeps next to none. A look that
//! finds no page old enough says neither: it was taken for hope, and where nearly all pages were shared with a child,
//! each look after a fault found just the few that had come back, so that every fault waited as long as it may
//! (32 MiB read in 4 s, with both processors idle).

use crate::reclaim::fence::GROWTH_BYTES;

/// Faults are held back for a budget that was reached within this time.
const HOPE_NS: u64 = 200_000_000;

/// What is known of it.
pub(crate) struct Hope {
    /// Since when memory has stood where faults wait.
    over_since_ns: u64,
    /// What the program had when memory was last seen to be above because it grew.
    grown_to_bytes: u64,
    /// The last batch kept next to nothing.
    in_vain: bool,
}

impl Hope {
    /// There is some at first.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            over_since_ns: now_ns,
            grown_to_bytes: 0,
            in_vain: false,
        }
    }

    /// Judges a measurement: whether memory stands where faults wait, what the program has, in place or stored (while
    /// that grows, waiting is what holds it back), and whether the batch before it was progress, if there was one. Whether there is hope.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        over: bool,
        content_bytes: u64,
        progress: Option<bool>,
    ) -> bool {
        let grows = content_bytes > self.grown_to_bytes + GROWTH_BYTES;
        if !over || grows {
            self.over_since_ns = now_ns;
            self.grown_to_bytes = content_bytes;
        }
        if let Some(progress) = progress {
            self.in_vain = !progress;
        }
        !self.in_vain && now_ns - self.over_since_ns <= HOPE_NS
    }

    /// Reclaim gives up for now.
    pub(crate) fn give_up(&mut self) {
        self.in_vain = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_that_stays_above_is_hopeless() {
        let mut hope = Hope::new(0);
        assert!(hope.judge(100 * MS, true, MIB, Some(true)));
        assert!(hope.judge(200 * MS, true, MIB, Some(true)));
        assert!(!hope.judge(201 * MS, true, MIB, Some(true)));
        assert!(hope.judge(202 * MS, false, MIB, Some(true)));
        assert!(hope.judge(402 * MS, true, MIB, Some(true)));
        assert!(!hope.judge(403 * MS, true, MIB, Some(true)));
    }

    #[test]
    fn a_program_that_grows_is_held_back_for_longer() {
        let mut hope = Hope::new(0);
        for n in 1..100 {
            assert!(hope.judge(n * 10 * MS, true, n * 2 * MIB, Some(true)));
        }
    }

    #[test]
    fn what_one_batch_has_shown_holds_until_another_shows_more() {
        let mut hope = Hope::new(0);
        assert!(
            hope.judge(MS, true, MIB, None),
            "nothing was old enough yet"
        );
        assert!(!hope.judge(2 * MS, true, MIB, Some(false)));
        assert!(!hope.judge(3 * MS, false, MIB, None));
        assert!(!hope.judge(4 * MS, true, MIB, None));
        assert!(hope.judge(5 * MS, true, MIB, Some(true)));
        hope.give_up();
        assert!(!hope.judge(6 * MS, true, MIB, None));
    }
}
