//! Compaction on demand.

use crate::frames::Idle;
use crate::shared::Shared;
use coldpress_storage::FRAME_BYTES;

/// Bytes that are copied in a step, and passes that are made at most.
const STEP_BYTES: usize = 1 << 20;
const PASSES: u32 = 4;

impl Shared {
    /// Compacts until a pass gains nothing, and gives all idle frames back. How many frames storage holds less.
    pub(crate) fn compact_all(&self) -> u64 {
        let held = || self.engine().storage_usage().storage_bytes;
        let before = held();
        for _ in 0..PASSES {
            let at_begin = held();
            loop {
                match self.engine().compact(&self.machine, STEP_BYTES) {
                    Some(done) if done.pass_ended => break,
                    Some(_) => {}
                    // An object is being stored.
                    None => std::thread::yield_now(),
                }
            }
            if held() >= at_begin {
                break;
            }
        }
        self.machine.frames.give_back(Idle::All);
        (before.saturating_sub(held()) / FRAME_BYTES) as u64
    }
}
