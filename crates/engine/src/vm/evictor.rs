//! The evictor: takes pages until memory stands where it should.
//!
//! ```text
//!  combine(target) ─▶ one-shot target ──run──┐
//!  enable_continuous ─▶ standing target ─tick─┼─▶ Source::reclaim, step by step, until
//!  run_target(target of the caller) ──────────┘     · so many pages are free, and
//!                                                   · so many were freed by this run
//! ```
//!
//! A target has two numbers: pages that shall be free, whoever frees them, and pages that shall be
//! freed at least, whatever is free (so that the evictor bears its share where the program frees memory,
//! too). Targets that come before a run combine: the minimums add up, of the others the larger counts.
//! What a run could not free of the minimum is carried over to the next.
//!
//! Where the pages come from is a [`Source`]. [`EngineSource`] is the engine's: what its queues offer,
//! oldest first, pager-backed pages by evicting them, anonymous ones by compressing them, one target
//! for both. A cache that can be discarded is another.
//!
//! Invariants:
//! * I1 The lock is not held while a source is asked; targets may be combined meanwhile, and count
//!   for the next run.
//! * I2 A run ends: the source has nothing more, or it was asked several times in vain.

use crate::compression::compress::Reclaimer;
use crate::figures::cause::Trigger;
use crate::machine::lock::{HeldRanks, Lock, rank};
use crate::machine::memory::Place;
use crate::pages::queues::{GENERATIONS, OLDEST_GENERATIONS, Wanted};
use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use lock_api::RawMutex;

/// Steps in a row that free nothing before a run gives up.
const FRUITLESS_STEPS: u32 = 8;

/// Pages that one step takes at most.
const STEP_PAGES: u64 = 64;

/// How young pages may be that go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Only of the oldest generations, and what is offered before them.
    #[default]
    OnlyOldest,
    /// All that is inactive.
    IncludeNewest,
}

/// What shall be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// There is one; without, the next run does nothing.
    pub pending: bool,
    /// So many pages shall be free.
    pub free_pages: u64,
    /// So many pages shall be freed at least.
    pub min_pages: u64,
    /// How young pages may be.
    pub level: Level,
}

/// Pages that were freed, by how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Compressed, or replaced by a marker.
    pub compressed: u64,
    /// Pager-backed, evicted.
    pub evicted: u64,
    /// Discarded by their owners' leave.
    pub discarded: u64,
}

impl Freed {
    /// All of them.
    pub fn pages(&self) -> u64 {
        self.compressed + self.evicted + self.discarded
    }

    fn add(&mut self, more: &Self) {
        self.compressed += more.compressed;
        self.evicted += more.evicted;
        self.discarded += more.discarded;
    }
}

/// Where pages can be had from.
pub trait Source {
    /// Pages that are free now.
    fn free_pages(&self) -> u64;

    /// Frees up to `at_most` pages, more only where pages go in groups. `None`: there is nothing
    /// more to be had.
    fn reclaim(&mut self, level: Level, at_most: u64) -> Option<Freed>;
}

impl Target {
    fn combine(&mut self, other: &Self) {
        self.pending |= other.pending;
        self.free_pages = self.free_pages.max(other.free_pages);
        self.min_pages = self.min_pages.saturating_add(other.min_pages);
        self.level = self.level.max(other.level);
    }

    /// Takes from the source until the target is reached, or no more can be had.
    pub(crate) fn reach(&self, source: &mut impl Source) -> Freed {
        let mut freed = Freed::default();
        let mut fruitless = 0;
        while fruitless < FRUITLESS_STEPS {
            let missing = self.free_pages.saturating_sub(source.free_pages());
            let wanted = missing.max(self.min_pages.saturating_sub(freed.pages()));
            if wanted == 0 {
                break;
            }
            let Some(step) = source.reclaim(self.level, wanted.min(STEP_PAGES)) else {
                break;
            };
            fruitless = if step.pages() == 0 { fruitless + 1 } else { 0 };
            freed.add(&step);
        }
        freed
    }
}

/// A target that stands until it is taken back.
#[derive(Clone, Copy)]
struct Continuous {
    target: Target,
    interval_ns: u64,
    due_ns: u64,
}

struct State {
    enabled: bool,
    one_shot: Target,
    continuous: Option<Continuous>,
}

/// Holds targets, and reaches them. `R` is the host's lock.
pub struct Evictor<R> {
    /// Guards the targets; a leaf of the order, never held while pages are taken (I1).
    state: Lock<R, State, { rank::LEAF }>,
}

impl<R: RawMutex + HeldRanks> Default for Evictor<R> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: RawMutex + HeldRanks> Evictor<R> {
    /// An evictor without targets, enabled.
    pub const fn new() -> Self {
        const NONE: Target = Target {
            pending: false,
            free_pages: 0,
            min_pages: 0,
            level: Level::OnlyOldest,
        };
        Self {
            state: Lock::new(State {
                enabled: true,
                one_shot: NONE,
                continuous: None,
            }),
        }
    }

    /// Lets runs happen, or not: targets are kept meanwhile.
    pub fn enable(&self, enabled: bool) {
        self.state.lock().enabled = enabled;
    }

    /// The one-shot target as it stands.
    pub fn target(&self) -> Target {
        self.state.lock().one_shot
    }

    /// Adds a target to the one for the next run.
    pub fn combine(&self, target: Target) {
        self.state.lock().one_shot.combine(&target);
    }

    /// Reaches the one-shot target, which is done with then, but for what is missing of its minimum.
    pub fn run(&self, source: &mut impl Source) -> Freed {
        let target = {
            let mut state = self.state.lock();
            if !state.enabled || !state.one_shot.pending {
                return Freed::default();
            }
            core::mem::take(&mut state.one_shot)
        };
        let freed = target.reach(source);
        let missing = target.min_pages.saturating_sub(freed.pages());
        let mut state = self.state.lock();
        state.one_shot.min_pages = state.one_shot.min_pages.saturating_add(missing);
        freed
    }

    /// Reaches a target of the caller's own: one who cannot wait. The one-shot target stays as it is.
    pub fn run_target(&self, source: &mut impl Source, target: &Target) -> Freed {
        match self.state.lock().enabled {
            true => {}
            false => return Freed::default(),
        }
        target.reach(source)
    }

    /// From now on reaches a target every `interval_ns`, when it is [told the time](Self::tick).
    /// Where one stands already, the new numbers replace it, but for the minimum: what is missing
    /// of that is added.
    pub fn enable_continuous(&self, target: Target, interval_ns: u64, now_ns: u64) {
        let mut state = self.state.lock();
        let missing = state.continuous.map_or(0, |c| c.target.min_pages);
        let min_pages = target.min_pages.saturating_add(missing);
        state.continuous = Some(Continuous {
            target: Target {
                min_pages,
                ..target
            },
            interval_ns,
            due_ns: now_ns,
        });
    }

    /// Takes the standing target back, with what is missing of its minimum.
    pub fn disable_continuous(&self) {
        self.state.lock().continuous = None;
    }

    /// Whether a target stands.
    pub fn is_continuous(&self) -> bool {
        self.state.lock().continuous.is_some()
    }

    /// Reaches the standing target, if its time has come. `None`: it has not, or there is none.
    pub fn tick(&self, source: &mut impl Source, now_ns: u64) -> Option<Freed> {
        let target = {
            let mut state = self.state.lock();
            let enabled = state.enabled;
            let continuous = state.continuous.as_mut()?;
            if !enabled || now_ns < continuous.due_ns {
                return None;
            }
            continuous.due_ns = now_ns.saturating_add(continuous.interval_ns);
            // What is missing of the minimum is put back below.
            let target = continuous.target;
            continuous.target.min_pages = 0;
            target
        };
        let freed = target.reach(source);
        let missing = target.min_pages.saturating_sub(freed.pages());
        if let Some(continuous) = &mut self.state.lock().continuous {
            let min = &mut continuous.target.min_pages;
            *min = min.saturating_add(missing);
        }
        Some(freed)
    }
}

/// What the engine's queues offer: pager-backed pages go by `evict`, which frees the page in place
/// there and forgets its content, or says that it cannot; anonymous ones are compressed.
pub struct EngineSource<'a, H: Host, C: PageCodec + 'static, S: CompressedStorage, E, F> {
    /// The engine.
    pub engine: &'a Engine<H, C, S>,
    /// Its host.
    pub host: &'a H,
    /// Who compresses.
    pub reclaimer: &'a mut Reclaimer<C>,
    /// Why: its switches count ([`trigger`](crate::compression::trigger)).
    pub trigger: Trigger,
    /// Evicts one page.
    pub evict: E,
    /// Says how many pages are free.
    pub free: F,
}

impl<H, C, S, E, F> EngineSource<'_, H, C, S, E, F>
where
    H: Host,
    C: PageCodec,
    S: CompressedStorage,
    E: FnMut(Place) -> bool,
    F: Fn() -> u64,
{
    /// Compresses pages of the kinds that this trigger compresses.
    fn compress(&mut self, oldest: usize, at_most: u64) -> Freed {
        let Some(wanted) = self.engine.compressible(self.trigger, u64::MAX) else {
            return Freed::default();
        };
        let wanted = Wanted {
            oldest: wanted.oldest.min(oldest),
            ..wanted
        };
        let batch = self.engine.reclaim_wanted(
            self.host,
            self.reclaimer,
            at_most as u32,
            &wanted,
            self.trigger,
        );
        Freed {
            compressed: batch.kept.into(),
            ..Freed::default()
        }
    }
}

impl<H, C, S, E, F> Source for EngineSource<'_, H, C, S, E, F>
where
    H: Host,
    C: PageCodec,
    S: CompressedStorage,
    E: FnMut(Place) -> bool,
    F: Fn() -> u64,
{
    fn free_pages(&self) -> u64 {
        (self.free)()
    }

    fn reclaim(&mut self, level: Level, at_most: u64) -> Option<Freed> {
        let (engine, trigger) = (self.engine, self.trigger);
        let oldest = match level {
            Level::OnlyOldest => OLDEST_GENERATIONS,
            Level::IncludeNewest => GENERATIONS,
        };
        let victim = engine.next_victim(trigger, oldest)?;
        if !victim.pager_backed || engine.compresses_pager_backed(trigger) {
            // Not those that stand behind pages of the other kind: these are older.
            return Some(self.compress(oldest, at_most.min(victim.alike.into())));
        }
        let evicted = (self.evict)(victim.place);
        if !evicted {
            engine.pass_over(&victim);
        }
        Some(Freed {
            evicted: evicted.into(),
            ..Freed::default()
        })
    }
}
