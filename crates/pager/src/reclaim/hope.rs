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

/// Where memory stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Where faults wait.
    Above,
    /// Below that.
    Below,
}

/// What a batch of old pages has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    /// Progress.
    Progress,
    /// Next to nothing.
    InVain,
}

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

    /// Judges a measurement: where memory stands, what the program has, in place or stored (while that grows, waiting
    /// is what holds it back), and the batch before it, if there was one. Whether there is hope.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        memory: Memory,
        content_bytes: u64,
        batch: Option<Batch>,
    ) -> bool {
        let grows = content_bytes > self.grown_to_bytes + GROWTH_BYTES;
        if memory == Memory::Below || grows {
            self.over_since_ns = now_ns;
            self.grown_to_bytes = content_bytes;
        }
        if let Some(batch) = batch {
            self.in_vain = batch == Batch::InVain;
        }
        !self.in_vain && now_ns - self.over_since_ns <= HOPE_NS
    }

    /// Whether the last batch kept next to nothing.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.in_vain
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
        assert!(hope.judge(100 * MS, Memory::Above, MIB, Some(Batch::Progress)));
        assert!(hope.judge(200 * MS, Memory::Above, MIB, Some(Batch::Progress)));
        assert!(!hope.judge(201 * MS, Memory::Above, MIB, Some(Batch::Progress)));
        assert!(hope.judge(202 * MS, Memory::Below, MIB, Some(Batch::Progress)));
        assert!(hope.judge(402 * MS, Memory::Above, MIB, Some(Batch::Progress)));
        assert!(!hope.judge(403 * MS, Memory::Above, MIB, Some(Batch::Progress)));
    }

    #[test]
    fn a_program_that_grows_is_held_back_for_longer() {
        let mut hope = Hope::new(0);
        for n in 1..100 {
            assert!(hope.judge(
                n * 10 * MS,
                Memory::Above,
                n * 2 * MIB,
                Some(Batch::Progress)
            ));
        }
    }

    #[test]
    fn what_one_batch_has_shown_holds_until_another_shows_more() {
        let mut hope = Hope::new(0);
        assert!(
            hope.judge(MS, Memory::Above, MIB, None),
            "nothing was old enough yet"
        );
        assert!(!hope.judge(2 * MS, Memory::Above, MIB, Some(Batch::InVain)));
        assert!(!hope.judge(3 * MS, Memory::Below, MIB, None));
        assert!(!hope.judge(4 * MS, Memory::Above, MIB, None));
        assert!(hope.judge(5 * MS, Memory::Above, MIB, Some(Batch::Progress)));
        hope.give_up();
        assert!(!hope.judge(6 * MS, Memory::Above, MIB, None));
    }
}
