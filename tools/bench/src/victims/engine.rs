//! The engine itself, driven through a trace as the pager drives it.
//!
//! Queues, ageing, second chances, runs and claims are those of `coldpress-engine`, on a machine in memory: pages
//! are really compressed, stored and restored, and each that comes back is looked at. What the pager adds is
//! imitated here: the watermarks of `pager/src/settings/watermarks.rs`, and the rhythm of `Reclaim::press` in
//! `pager/src/reclaim/turns.rs`. Time is counted, not measured: each touch, refault and eviction takes what it
//! took when it was measured (docs/measurements.md, "Beside kernel zram"). Reclaim goes on beside the program;
//! where memory stands above the budget, the program waits for it.
//!
//! Left out: read-ahead, what the pager's own memory and the compressed pages take (memory is counted in pages that are
//! resident, as for all policies), and the program's dropping of pages.
//!
//! The engine sees no touch of a page that is there. With [`Sight::Bits`] it is given what a machine with accessed bits
//! would give at such intervals: what they would be worth.

use super::reference::Policy;
use coldpress_engine::harvest::Harvest;
use coldpress_engine::{Ageing, LEAF_PAGES, Pace, SEGMENT_PAGES, Trigger};
use coldpress_machine::mapped::{
    System, TestReclaimer, TestWorker, owned_system, reclaimer, value, worker,
};
use coldpress_storage::StorageKind;

const MILLISECOND: u64 = 1_000_000;
/// Between two touches, of pages that are there.
const TOUCH_NS: u64 = 500;
/// How long the program waits for a page.
const REFAULT_NS: u64 = 16_000;
/// Until a page is evicted, of many that are.
const EVICTION_NS: u64 = 7_300;
/// A batch besides its pages.
const BATCH_NS: u64 = 50_000;
const BATCH_PAGES: u32 = 384;
/// How often memory is measured where nothing is evicted.
const MEASURE_NS: u64 = MILLISECOND;
const INTERVAL_NS: u64 = 100 * MILLISECOND;
/// Batches that a program waits for before it goes on all the same.
const MOST_WAITS: u32 = 10_000;
const PAGE_BYTES: u64 = 4096;

/// What the engine is told of touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Refaults, as the Linux pager is.
    Refaults,
    /// Besides, once in so many milliseconds, which pages were accessed.
    Bits(u64),
}

/// What it has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Pages evicted.
    pub evictions: u64,
    /// Calls that took them: contiguous stretches of pages.
    pub calls: u64,
    /// Second chances given.
    pub second_chances: u64,
    /// Resident pages, on average over the touches since the first eviction; 0: there was none.
    pub held: f64,
}

/// In pages.
struct Watermarks {
    low: u32,
    high: u32,
    wait: u32,
    budget: u32,
}

impl Watermarks {
    fn of(budget: u32) -> Self {
        let bytes = u64::from(budget) * PAGE_BYTES;
        let margin = (bytes / 32).clamp(1 << 20, 16 << 20).min(bytes / 4);
        let below = |part: u64| budget - (margin / part / PAGE_BYTES) as u32;
        Self {
            low: below(1),
            high: below(2),
            wait: if margin > 4 << 20 { below(4) } else { budget },
            budget,
        }
    }

    fn hurry_ns(&self, resident: u32, fault: Fault) -> u64 {
        match resident.saturating_sub(self.budget) {
            _ if fault == Fault::Waits => MILLISECOND / 2,
            0 => 20 * MILLISECOND,
            over if over < self.budget / 64 => 5 * MILLISECOND,
            _ => MILLISECOND / 2,
        }
    }
}

/// Whether a fault waits for reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Waits,
    None,
}

/// The engine, its machine, and who drives them.
pub struct Coldpress {
    system: System,
    worker: TestWorker,
    reclaimer: TestReclaimer,
    watermarks: Watermarks,
    sight: Sight,
    seen: Vec<bool>,
    evicts: bool,
    /// No batch before this time.
    batch_ns: u64,
    measured_ns: u64,
    harvested_ns: u64,
    /// Touches since the first eviction, and resident pages summed over them.
    touches: u64,
    held: u64,
}

impl Coldpress {
    /// As `Lru::new` (reference.rs); `memory` is the budget.
    pub fn new(pages: usize, memory: usize, sight: Sight) -> Self {
        let segments = pages.div_ceil(SEGMENT_PAGES as usize);
        let in_segment = pages.min(SEGMENT_PAGES as usize);
        let system = owned_system(StorageKind::default(), segments, in_segment);
        let mut tunables = system.engine.tunables().load();
        // What the Linux pager sets.
        tunables.second_chances = 15;
        system
            .engine
            .configure(&tunables)
            .expect("they go together");
        Self {
            worker: worker(1),
            reclaimer: reclaimer(2),
            watermarks: Watermarks::of(memory as u32),
            sight,
            seen: vec![false; pages],
            evicts: false,
            batch_ns: 0,
            measured_ns: 0,
            harvested_ns: system.now_ns(),
            touches: 0,
            held: 0,
            system,
        }
    }

    /// What it has done so far.
    pub fn work(&self) -> Work {
        let counters = self.system.engine.counters();
        Work {
            evictions: value(&counters.evictions),
            calls: value(&self.system.machine.stretches),
            second_chances: value(&counters.second_chances),
            held: self.held as f64 / self.touches.max(1) as f64,
        }
    }

    fn resident(&self) -> u32 {
        self.system.engine.resident_pages()
    }

    fn bring(&mut self, page: u32, segment: u32, index: u32) {
        // One word: it takes next to no room in storage, and is no marker.
        let word = u64::from(page) << 8 | 1;
        let system = &self.system;
        let was_seen = std::mem::replace(&mut self.seen[page as usize], true);
        if was_seen {
            system.machine.advance(REFAULT_NS);
        }
        system.with(&mut self.worker, (segment, index), |content| {
            let first = content.first_chunk_mut::<8>().expect("a page is longer");
            let expected = if was_seen { word } else { 0 };
            assert_eq!(u64::from_ne_bytes(*first), expected, "page {page} is wrong");
            *first = word.to_ne_bytes();
        });
    }

    fn age(&self, hurry_ns: u64, pace: Pace) -> u32 {
        let ageing = Ageing {
            interval_ns: INTERVAL_NS,
            pressed_interval_ns: hurry_ns,
            retry_failed_ns: 60_000 * MILLISECOND,
        };
        self.system.engine.age(&self.system.machine, &ageing, pace)
    }

    /// What the reclaim thread does by now.
    fn reclaim(&mut self, fault: Fault) {
        let (now, resident) = (self.system.now_ns(), self.resident());
        if !self.evicts {
            let watched = u64::from(resident) * 4 > u64::from(self.watermarks.budget) * 3;
            if watched && now >= self.measured_ns + MEASURE_NS {
                self.measured_ns = now;
                self.age(0, Pace::Steady);
            }
            self.evicts = resident > self.watermarks.high;
        }
        if !self.evicts || now < self.batch_ns {
            return;
        }
        let hurry_ns = self.watermarks.hurry_ns(resident, fault);
        if self.age(hurry_ns, Pace::Pressed) == 0 {
            self.batch_ns = now + hurry_ns.min(2 * MILLISECOND);
            return;
        }
        let trigger = if resident > self.watermarks.budget {
            Trigger::Critical
        } else {
            Trigger::Pressure
        };
        let batch = self.system.engine.reclaim_batch(
            &self.system.machine,
            &mut self.reclaimer,
            BATCH_PAGES,
            u64::MAX,
            trigger,
        );
        self.batch_ns = now + BATCH_NS + u64::from(batch.taken) * EVICTION_NS;
        self.evicts = self.resident() > self.watermarks.low;
    }

    /// Back-pressure.
    fn wait_for_room(&mut self) {
        for _ in 0..MOST_WAITS {
            if self.resident() <= self.watermarks.wait {
                return;
            }
            let until = self.batch_ns.saturating_sub(self.system.now_ns());
            self.system.machine.advance(until);
            self.reclaim(Fault::Waits);
        }
        panic!("nothing can be evicted");
    }

    fn look_at_bits(&mut self) {
        let Sight::Bits(every_ms) = self.sight else {
            return;
        };
        let now = self.system.now_ns();
        if now < self.harvested_ns + every_ms * MILLISECOND {
            return;
        }
        self.harvested_ns = now;
        let mut harvest = Harvest::new();
        while harvest.rounds == 0 {
            let (engine, machine) = (&self.system.engine, &self.system.machine);
            engine.harvest(machine, &mut harvest, SEGMENT_PAGES / LEAF_PAGES);
        }
    }
}

impl Policy for Coldpress {
    fn touch(&mut self, page: u32) -> bool {
        let (segment, index) = (page / SEGMENT_PAGES + 1, page % SEGMENT_PAGES);
        self.system.machine.advance(TOUCH_NS);
        let there = {
            let mut place = self.system.machine.place(segment, index);
            place.accessed = true;
            place.page.is_some()
        };
        if !there {
            self.wait_for_room();
            self.bring(page, segment, index);
        }
        self.look_at_bits();
        self.reclaim(Fault::None);
        if self.evicts || self.touches > 0 {
            self.touches += 1;
            self.held += u64::from(self.resident());
        }
        there
    }
}
