//! What a machine's background thread calls now and then: all policy in one step.
//!
//! ```text
//!  harvest accessed bits, if it is time      kernel.page-scanner.accessed-scan-interval-ms
//!  open a generation, if it is time          min- and max-aging-interval-ms, active-ratio-multiplier
//!  compress what was picked at random        kernel.compression.random-debug-compress
//!  look at free memory:
//!    short ─▶ reclaim until it is not        kernel.oom.*, at_memory_pressure, at_critical
//!    enough ─▶ take old pages all the same   kernel.page-scanner.lru-action
//! ```
//!
//! A step is bounded: so many leaves, so many pages that are merely old; under pressure it ends when
//! memory is free, or none can be had. A host that has its own rhythm, as the Linux runtime, calls the
//! parts itself.

use crate::Host;
use crate::compression::harvest::{Harvest, Harvested};
use crate::compression::tunables::Tunables;
use crate::figures::cause::Trigger;
use crate::machine::memory::Place;
use crate::pages::queues::ageing::AgedBy;
use crate::pages::queues::random::RandomPick;
use crate::vm::evictor::{EngineSource, Freed, Level as HowYoung, Source, Target};
use crate::vm::pressure::{Bounds, Level, Pressure};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// Leaves that are asked for accessed bits in one step.
const LEAVES_A_STEP: u32 = 1024;

/// Pages that are taken in one step for their age alone.
const EAGER_PAGES: u64 = 64;

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Accessed bits.
    pub harvested: Harvested,
    /// Why a generation was opened, if one was.
    pub aged: Option<AgedBy>,
    /// Pages picked at random.
    pub picked: u32,
    /// How short memory is.
    pub level: Level,
    /// Pages freed because it is short.
    pub pressed: Freed,
    /// Pages freed because they are old.
    pub eager: Freed,
}

/// Where the next step goes on.
#[derive(Clone, Debug)]
pub struct Caretaker {
    harvest: Harvest,
    /// A harvest is going on.
    harvesting: bool,
    harvested_ns: u64,
    random: RandomPick,
    pressure: Pressure,
}

impl Caretaker {
    /// Its first step is due. `seed`: for random debug compression.
    pub const fn new(seed: u64) -> Self {
        Self {
            harvest: Harvest::new(),
            harvesting: true,
            harvested_ns: 0,
            random: RandomPick::new(seed),
            pressure: Pressure::new(Bounds::from_tunables(&Tunables::DEFAULT)),
        }
    }

    /// Does what is due. The trigger of `source` is set as it is needed.
    pub fn step<H, C, S, E, F>(&mut self, source: &mut EngineSource<'_, H, C, S, E, F>) -> Step
    where
        H: Host,
        C: PageCodec,
        S: CompressedStorage,
        E: FnMut(Place) -> bool,
        F: Fn() -> u64,
    {
        let (engine, host) = (source.engine, source.host);
        let tunables = engine.tunables().load();
        let mut step = Step::default();
        let now_ns = host.now_ns();
        let interval_ns = tunables.accessed_scan_interval_ms * 1_000_000;
        if now_ns.saturating_sub(self.harvested_ns) >= interval_ns && !self.harvesting {
            self.harvesting = true;
        }
        if self.harvesting {
            let round = self.harvest.rounds;
            step.harvested = engine.harvest(host, &mut self.harvest, LEAVES_A_STEP);
            if self.harvest.rounds != round {
                self.harvesting = false;
                self.harvested_ns = now_ns;
            }
        }
        step.aged = engine.age_as_tuned(host);
        if tunables.random_debug_compress > 0 {
            step.picked = engine.pick_random(&mut self.random, tunables.random_debug_compress);
            engine.compress_picked(host, source.reclaimer, step.picked);
        }
        self.pressure.set_bounds(Bounds::from_tunables(&tunables));
        self.pressure.update(source.free_pages(), now_ns);
        step.level = self.pressure.level();
        match step.level.trigger(&tunables) {
            Some(trigger) => {
                source.trigger = trigger;
                step.pressed = self.target(&tunables).reach(source);
            }
            None => {
                source.trigger = Trigger::Eager;
                let eager = source.reclaim(HowYoung::IncludeNewest, EAGER_PAGES);
                step.eager = eager.unwrap_or_default();
            }
        }
        step
    }

    /// What shall be free while memory is short: so much that the level is left.
    fn target(&self, tunables: &Tunables) -> Target {
        let bounds = Bounds::from_tunables(tunables);
        let begins = match tunables.evict_at_warning {
            true => bounds.warning,
            false => bounds.critical,
        };
        Target {
            pending: true,
            free_pages: begins.saturating_add(bounds.debounce),
            min_pages: 0,
            level: match self.pressure.level() {
                Level::Normal | Level::Warning => HowYoung::OnlyOldest,
                Level::Critical | Level::OutOfMemory => HowYoung::IncludeNewest,
            },
        }
    }
}
