//! Holding faults back while memory stands above the budget.
//!
//! A restored page is a page more. Where pages come back faster than reclaim takes others, the
//! budget could not be kept; so a fault that finds memory close below it waits for the reclaim thread,
//! as an allocation in a kernel waits for reclaim, but never longer than `PATIENCE_NS`: with
//! a budget that cannot be reached the program is slow, not stuck. The processor that the
//! waiting thread leaves idle is reclaim's.

use crate::Pager;
use crate::machine::futex::wait_for;
use crate::machine::os::Os;
use crate::settings::watermarks::Watermarks;
use coldpress_uffd::PAGE_SIZE;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

/// The longest that one fault is held back.
const PATIENCE_NS: u64 = 2_000_000;
/// Its length where a process of the memory group would be killed.
const PATIENCE_CRITICAL_NS: u64 = 20_000_000;
/// After so long in which nothing has compressed a process that is alone in its memory group does not wait for it any more.
const GIVEN_UP_NS: u64 = 500_000_000;

/// What the reclaim thread and the handlers tell each other of memory.
pub struct Pressure {
    /// Private anonymous resident memory as last measured.
    pub total_bytes: AtomicU64,
    /// What counts beside that, since the memory group holds so much (`reclaim/group.rs`).
    pub beside_bytes: AtomicU64,
    /// Pages put in place since.
    pub restored: AtomicU64,
    /// The memory group is so full that the kernel is about to kill.
    pub group_is_critical: AtomicBool,
    /// The memory group is not looked at before this time.
    pub group_again_ns: AtomicU64,
    /// The memory group is near its bound: whoever restores pages looks at it, too.
    pub group_is_near: AtomicBool,
    /// How many pages were restored when a handler last looked at the memory group.
    pub looked: AtomicU64,
    /// Changes with every measurement.
    pub measured: AtomicU32,
    /// Faults that are held back now.
    pub waiting: AtomicU32,
    /// Reclaim cannot reach the budget; waiting for it is in vain.
    pub hopeless: AtomicBool,
    /// Since when, without a break, nothing that was tried has compressed; 0: something has.
    in_vain_since_ns: AtomicU64,
    /// This is the young child of a fork: nothing is taken from it yet, so nothing makes room for what comes back.
    pub is_young: AtomicBool,
    /// When a handler last had the reclaim thread come for free frames.
    pub frames_rung_ns: AtomicU64,
    /// The machine is short of memory, and this program helps out.
    pub machine_is_short: AtomicBool,
    /// What is being taken goes for its age alone.
    pub takes_for_age: AtomicBool,
}

impl Pressure {
    /// Nothing measured yet.
    pub const fn new() -> Self {
        Self {
            total_bytes: AtomicU64::new(0),
            beside_bytes: AtomicU64::new(0),
            restored: AtomicU64::new(0),
            group_is_critical: AtomicBool::new(false),
            group_again_ns: AtomicU64::new(0),
            group_is_near: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            measured: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            hopeless: AtomicBool::new(false),
            in_vain_since_ns: AtomicU64::new(0),
            is_young: AtomicBool::new(false),
            frames_rung_ns: AtomicU64::new(0),
            machine_is_short: AtomicBool::new(false),
            takes_for_age: AtomicBool::new(false),
        }
    }

    /// What counted against the budget when it was last measured.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.total_bytes.load(Relaxed) + self.beside_bytes.load(Relaxed)
    }

    /// Takes note of whether nothing that was tried of late has compressed. By the reclaim thread.
    pub(crate) fn note_in_vain(&self, in_vain: bool, now_ns: u64) {
        let since = match (in_vain, self.in_vain_since_ns.load(Relaxed)) {
            (true, 0) => now_ns,
            (true, since) => since,
            (false, _) => 0,
        };
        self.in_vain_since_ns.store(since, Relaxed);
    }

    /// Whether it was so for so long that only another process could make room.
    pub(crate) fn is_given_up(&self, now_ns: u64) -> bool {
        let since = self.in_vain_since_ns.load(Relaxed);
        since != 0 && now_ns > since + GIVEN_UP_NS
    }

    /// What counts now.
    pub(crate) fn estimate(&self) -> u64 {
        self.counted_bytes() + self.restored.load(Relaxed) * PAGE_SIZE as u64
    }
}

impl Default for Pressure {
    fn default() -> Self {
        Self::new()
    }
}

/// While the reclaim thread has free frames to give back it looks as often by itself.
const FRAMES_RING_NS: u64 = 10_000_000;

impl<O: Os> Pager<O> {
    /// Storage has become empty faster than its frames are given back: what was stored would be there beside the pages
    /// that have come back, until a program that slept is looked at again.
    pub(crate) fn have_frames_given_back(&self, now_ns: u64) {
        let rung_ns = &self.pressure.frames_rung_ns;
        if self.host.memory.has_too_many()
            && now_ns >= rung_ns.load(Relaxed) + FRAMES_RING_NS
            && !self.pressure.is_young.load(Relaxed)
        {
            rung_ns.store(now_ns, Relaxed);
            self.ring();
        }
    }

    fn must_wait(&self) -> bool {
        let config = self.config();
        Watermarks::in_force(&config).waits(self.pressure.estimate(), &config)
            && config.chaos.is_none()
            && (!self.pressure.hopeless.load(Relaxed)
                || self.pressure.group_is_critical.load(Relaxed))
            && !self.pressure.is_young.load(Relaxed)
            && self.fork.pause.load(Acquire) == 0
    }

    /// Called before a fault is answered.
    pub(crate) fn wait_for_room(&self) {
        self.mind_groups();
        if self.must_wait() {
            self.pressure.waiting.fetch_add(1, Relaxed);
            let began_ns = O::now_ns();
            let patience_ns = || match self.pressure.group_is_critical.load(Relaxed) {
                true => PATIENCE_CRITICAL_NS,
                false => PATIENCE_NS,
            };
            while self.must_wait() && O::now_ns() < began_ns + patience_ns() {
                let measured = self.pressure.measured.load(Acquire);
                self.ring();
                wait_for::<O>(&self.pressure.measured, measured, 1_000_000);
            }
            self.pressure.waiting.fetch_sub(1, Relaxed);
        }
        self.pressure.restored.fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_after_half_a_second_without_a_break() {
        const MS: u64 = 1_000_000;
        let pressure = Pressure::new();
        for at in [100, 300, 600] {
            pressure.note_in_vain(true, at * MS);
            assert!(!pressure.is_given_up(at * MS));
        }
        assert!(pressure.is_given_up(601 * MS));
        pressure.note_in_vain(false, 700 * MS);
        assert!(!pressure.is_given_up(701 * MS));
        pressure.note_in_vain(true, 800 * MS);
        assert!(!pressure.is_given_up(1_300 * MS) && pressure.is_given_up(1_301 * MS));
    }
}
