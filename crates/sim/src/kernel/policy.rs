//! The caretaker and the evictor as threads of the machine, and the tunables they work by.
//!
//! A free frame counts as a MiB: so the bounds of pressure, which are set in MiB, are frames.

use super::World;
use super::host::Kernel;
use crate::codec::SimCodec;
use crate::inject::Kind;
use crate::lock::SimLock;
use crate::machine::Table;
use crate::random::Random;
use crate::schedule::{block, doze, note, random, simulation, wake};
use coldpress_engine::caretaker::{Caretaker, Step};
use coldpress_engine::evictor::{EngineSource, Evictor, Freed, Level as HowYoung, Target};
use coldpress_engine::pressure::{Bounds, Level, Pressure};
use coldpress_engine::tunables::LruAction;
use coldpress_engine::{Place, Reclaimer, Trigger, Tunables};
use coldpress_storage::AnyStorage;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// Pages of a MiB.
const PAGES_A_FRAME: u64 = 256;

/// The evictor waits here to be asked.
const EVICTOR: u64 = 1 << 63 | 3 << 60;

/// What looks after the machine's memory, besides the reclaimers of both machines.
pub struct Policy {
    evictor: Evictor<SimLock>,
    /// How often the tunables were set.
    set: Cell<u32>,
}

impl Policy {
    /// Nothing is asked for yet.
    pub fn new() -> Self {
        Self {
            evictor: Evictor::new(),
            set: Cell::new(0),
        }
    }
}

/// Tunables that go together, for a machine of so many frames.
fn draw(random: &Random, frames: usize) -> Tunables {
    let warning_mb = random.below(frames as u64 / 2 + 1);
    let critical_mb = random.below(warning_mb + 1);
    let min_aging_interval_ms = random.below(3);
    let reclaim_anonymous = !random.one_in(6);
    Tunables {
        threshold: random.pick(&[70, 70, 40, 100]),
        at_memory_pressure: !random.one_in(8),
        at_critical: !random.one_in(8),
        reclaim_anonymous,
        reclaim_zero_forks: reclaim_anonymous && !random.one_in(3),
        random_debug_compress: random.pick(&[0, 0, 10, 60]),
        compress_pager_backed: random.one_in(2),
        enable_eviction: !random.one_in(16),
        // Mostly both, so that there is something to meet.
        lru_action: match random.one_in(2) {
            true => random.pick(LruAction::ALL),
            false => LruAction::EvictAndCompress,
        },
        eager_walks_older: random.one_in(2),
        min_aging_interval_ms,
        max_aging_interval_ms: min_aging_interval_ms + random.below(4),
        active_ratio_multiplier: random.below(4),
        accessed_scan_interval_ms: random.below(4),
        retry_failed_ms: random.pick(&[0, 4]),
        warning_mb,
        critical_mb,
        out_of_memory_mb: random.below(critical_mb + 1),
        debounce_mb: random.below(4),
        hysteresis_s: random.below(2),
        evict_at_warning: random.one_in(2),
        ..Tunables::DEFAULT
    }
}

type Source<'a, E, F> = EngineSource<'a, Kernel, SimCodec, AnyStorage, E, F>;

impl World {
    /// Other tunables from now on.
    pub(super) fn tune(&self) {
        let tunables = draw(random(), self.frames);
        self.policy.set.set(self.policy.set.get() + 1);
        let configured = self.vmos.engine().configure(&tunables);
        assert_eq!(configured, Ok(()), "{tunables:?}");
        self.policy.set.set(self.policy.set.get() + 1);
    }

    /// A thread has found no memory.
    pub(super) fn wants_memory(&self) {
        self.policy.evictor.combine(Target {
            pending: true,
            free_pages: random().below(12) * PAGES_A_FRAME,
            min_pages: random().below(4),
            level: random().pick(&[HowYoung::OnlyOldest, HowYoung::IncludeNewest]),
        });
        wake(EVICTOR);
    }

    fn free_frames(&self) -> u64 {
        self.machine.limit.free() as u64
    }

    fn evict_one(&self, place: Place) -> bool {
        let evicted = self.vmos.evict(self.machine, place);
        note(match evicted {
            true => Kind::Evicted,
            false => Kind::EvictRefused,
        });
        evicted
    }

    fn source<'a>(
        &'a self,
        reclaimer: &'a mut Reclaimer<SimCodec>,
        trigger: Trigger,
    ) -> Source<'a, impl FnMut(Place) -> bool + 'a, impl Fn() -> u64 + 'a> {
        let counters = self.vmos.engine().counters();
        let taken = Cell::new(0);
        EngineSource {
            engine: self.vmos.engine(),
            host: self.machine,
            reclaimer,
            trigger,
            evict: |place| self.evict_one(place),
            free: move || {
                // A run goes on as long as pages can be had: others bring them back meanwhile.
                let now = counters.evictions.load(Relaxed);
                if taken.replace(now) != now {
                    simulation().begins_anew();
                }
                self.free_frames() * PAGES_A_FRAME
            },
        }
    }

    pub(super) fn caretaker(&self, mut reclaimer: Reclaimer<SimCodec>) {
        let engine = self.vmos.engine();
        self.machine.chunks.growing(&[Table::Storage]);
        let mut caretaker = Caretaker::new(random().next());
        while !self.is_over() {
            self.begins();
            self.ends();
            let (set, tunables) = (self.policy.set.get(), engine.tunables().load());
            let step = caretaker.step(&mut self.source(&mut reclaimer, Trigger::Eager));
            if set % 2 == 0 && self.policy.set.get() == set {
                check_step(&step, &tunables);
            }
            self.machine.clock.jump(random().below(300_000));
            doze(300);
        }
    }

    pub(super) fn evictor(&self, mut reclaimer: Reclaimer<SimCodec>) {
        let (engine, machine) = (self.vmos.engine(), self.machine);
        let evictor = &self.policy.evictor;
        machine.chunks.growing(&[Table::Storage]);
        let mut pressure = Pressure::new(Bounds::from_tunables(&engine.tunables().load()));
        while !self.is_over() {
            self.begins();
            self.ends();
            engine.age_as_tuned(machine);
            let tunables = engine.tunables().load();
            pressure.set_bounds(Bounds::from_tunables(&tunables));
            let now_ns = machine.clock.now_ns();
            let changed = pressure.update(self.free_frames() * PAGES_A_FRAME, now_ns);
            match changed.map(|level| level.trigger(&tunables)) {
                Some(Some(_)) => self.keep_free(pressure.level(), &tunables),
                Some(None) => evictor.disable_continuous(),
                None => {}
            }
            if random().one_in(100) {
                note(Kind::EvictorOff);
                evictor.enable(false);
                let freed = evictor.run(&mut self.source(&mut reclaimer, Trigger::Pressure));
                assert_eq!(freed, Freed::default(), "the evictor is switched off");
                doze(2_000);
                evictor.enable(true);
            }
            let trigger = pressure.level().trigger(&tunables);
            let mut source = self.source(&mut reclaimer, trigger.unwrap_or(Trigger::Eager));
            evictor.run(&mut source);
            evictor.tick(&mut source, now_ns);
            block(EVICTOR, Some(1 + random().below(400)));
        }
    }

    fn keep_free(&self, level: Level, tunables: &Tunables) {
        let target = Target {
            pending: true,
            free_pages: (tunables.warning_mb + tunables.debounce_mb) * PAGES_A_FRAME,
            min_pages: random().below(6),
            level: match level {
                Level::OutOfMemory => HowYoung::IncludeNewest,
                _ => HowYoung::OnlyOldest,
            },
        };
        let now_ns = self.machine.clock.now_ns();
        let interval_ns = random().below(2_000_000);
        self.policy
            .evictor
            .enable_continuous(target, interval_ns, now_ns);
    }
}

/// Whether a step did no more than the tunables allow, which were the same all the time.
fn check_step(step: &Step, tunables: &Tunables) {
    let Step { eager, pressed, .. } = *step;
    let trigger = step.level.trigger(tunables);
    let lru = tunables.lru_action;
    let compresses = match trigger {
        Some(Trigger::Critical) => tunables.at_critical,
        _ => tunables.at_memory_pressure,
    };
    let rules = [
        (
            "nothing is reclaimed",
            tunables.enable_eviction || (eager.pages(), pressed.pages()) == (0, 0),
        ),
        (
            "eager compression is off",
            lru.compresses() || eager.compressed == 0,
        ),
        ("eager eviction is off", lru.evicts() || eager.evicted == 0),
        (
            "it is eager, or it is pressed",
            trigger.is_none() || eager.pages() == 0,
        ),
        (
            "memory is not short",
            trigger.is_some() || pressed.pages() == 0,
        ),
        (
            "compression under pressure is off",
            compresses || pressed.compressed == 0,
        ),
    ];
    for (rule, holds) in rules {
        assert!(holds, "{rule}, and yet: {step:?} under {tunables:?}");
    }
}
