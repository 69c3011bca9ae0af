//! When pages that stay compressed are stored anew, denser ([ADR 0020](../../../docs/adr/0020-two-tiers.md)).
//!
//! What leaves is compressed by press, quickly. What then is not wanted for the *recode age* is
//! re-coded to press-dense, whose tables are made once, from a sample of the stored pages themselves:
//!
//! ```text
//!  resting ──enough is stored──▶ sampling ──512 pages──▶ training ──▶ recoding ⇄ resting
//! ```
//!
//! A *pass* looks at every stored page. A pass begins at most once in a recode age, and considers what was
//! stored before the pass before it began, and after the one before that: so each page is considered once,
//! when it has been away for one to two recode ages, and no note of it need be kept. Where nothing was stored
//! in that time there is no pass.
//!
//! Where most of the budget is storage ([`squeeze`](crate::reclaim::squeeze)) nobody waits for an age: tables are made as
//! soon as enough is stored, what leaves is compressed by press-dense from then on, and one pass considers
//! all that was stored before.
//!
//! All this is done by the reclaim thread, in turns of [`TURN_NS`], and unless storage is most of the budget only
//! in rounds in which the budget does not ask for pages. What a turn costs is paid back by a rest many times
//! as long.
//!
//! In the child of a fork the tables are those of the parent, or, where it had none yet, made anew.

use crate::machine::linux::Linux;
use crate::machine::os::Os;
use crate::settings::config::Config;
use crate::settings::control::Control;
use crate::space::workplace::Training;
use crate::{Codec, Dense, Pager};
use coldpress_codec::press::Simd;
use coldpress_codec::press_dense::{PressDense, TRAINING_PAGES};
use coldpress_codec::{CodecKind, Density};
use coldpress_engine::{Recoder, Search};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// A turn goes on for so long: the reclaim thread has other duties.
const TURN_NS: u64 = 200_000;
/// How exact the times of stored objects are, twice.
const ROUNDING_MS: u32 = 16;
/// How often it is looked whether there is something to do.
const REST_NS: u64 = 100_000_000;
/// Entries looked at between two looks at the clock.
const ENTRIES: u32 = 256;
/// One part in so many of a processor's time, while there is something to be done: an idle program is
/// promised to cost half a percent at most, all in all.
const SHARE_IDLE: u64 = 800;
/// The same where memory stands near the budget: what is saved there keeps other pages in place.
const SHARE_NEAR: u64 = 50;
/// The same where storage is most of the budget: every page taken otherwise is one that is wanted back.
const SHARE_SQUEEZED: u64 = 3;
/// Where too little could be learnt from, it is tried again after this long.
const SAMPLE_AGAIN_NS: u64 = 60_000_000_000;
/// So much must be stored before tables, which take 120 KiB, are worth it: 16 MiB of pages.
const LEAST_STORED_PAGES: u64 = 4096;
/// Tables are not made from fewer pages.
const LEAST_SAMPLE: usize = TRAINING_PAGES / 4;
/// A page must become smaller by one part in so many: it takes three times as long to decode then.
const GAIN_PART: usize = 8;
/// A chosen recode age is so many cold ages, and at least so long.
const COLD_AGES: u64 = 4;
const LEAST_AGE_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Resting,
    /// Pages are learnt from, with so many entries passed over after each.
    Sampling {
        skip: u32,
    },
    Training,
    Recoding,
}

/// When a pass began, or none had to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mark {
    at_ns: u64,
    /// Pages stored until then, ever.
    stored: u64,
}

/// Which pages a pass considers.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// What was stored until the first was considered before; what was stored until the second is
    /// considered next.
    from: Mark,
    until: Mark,
}

impl Window {
    /// Whether a pass is to be made now. Where nothing was stored in the window it goes on by itself.
    fn is_due(&mut self, now: Mark, age_ns: u64) -> bool {
        if now.at_ns < self.until.at_ns + age_ns {
            return false;
        }
        let is_due = self.until.stored != self.from.stored;
        if !is_due {
            self.advance(now);
        }
        is_due
    }

    /// What stands in the window was considered.
    fn advance(&mut self, now: Mark) {
        self.from = self.until;
        self.until = now;
    }

    /// For how many milliseconds pages have been away that are considered.
    fn away_ms(&self, now_ns: u64) -> Range<u32> {
        let since = |mark: Mark| match mark.at_ns {
            0 => u32::MAX,
            at_ns => u32::try_from(now_ns.saturating_sub(at_ns) / 1_000_000).unwrap_or(u32::MAX),
        };
        // The times of objects are rounded: better considered twice than not at all.
        since(self.until)..since(self.from).saturating_add(ROUNDING_MS)
    }
}

/// The reclaim thread's part in it.
pub(crate) struct Recode<O: Os = Linux> {
    pager: &'static Pager<O>,
    recoder: Recoder<Codec, Dense>,
    phase: Phase,
    window: Window,
    /// With what tables are made; `None`: they are made.
    training: Option<Training>,
    /// No turn before this time.
    again_ns: u64,
    /// No sample is taken of all that is stored before this time: the last was too small. (Of what is in the window
    /// not before that is due again.)
    sample_again_ns: u64,
    /// The pass under way considers all that is stored, whatever its age.
    considers_all: bool,
    /// Such a pass was made since storage is most of the budget.
    considered_all: bool,
}

/// How much re-coding is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It saves memory that nobody asks for.
    Idle,
    /// Memory stands near the budget.
    Near,
    /// Storage is most of the budget.
    Squeezed,
}

impl Need {
    /// A turn is followed by a rest so many times as long.
    fn share(self) -> u64 {
        match self {
            Self::Idle => SHARE_IDLE,
            Self::Near => SHARE_NEAR,
            Self::Squeezed => SHARE_SQUEEZED,
        }
    }
}

/// When the pages of a program are re-coded, by its configuration; `None`: never.
fn age_ms<O: Os>(config: &Config, control: &Control) -> Option<u64> {
    if config.codec != CodecKind::Press {
        return None;
    }
    // Without vectors press-dense decodes more slowly than is hidden in a fault.
    if O::vectors() == Simd::Portable {
        return None;
    }
    match config.recode_after_ms {
        Some(0) => None,
        Some(ms) => Some(ms),
        None if config.chaos.is_some() => None,
        None => Some((COLD_AGES * control.cold_age_ms()).max(LEAST_AGE_MS)),
    }
}

impl<O: Os> Recode<O> {
    /// # Safety
    /// There is one at a time.
    pub(crate) unsafe fn new(pager: &'static Pager<O>) -> Self {
        let workplace = &pager.workplace;
        let is_trained = pager.engine.codec().tables().is_some();
        // SAFETY: one at a time, as the caller promises; nobody decodes with tables that were not
        // published.
        let (recoder, training) = unsafe {
            (
                workplace.recoder(),
                (!is_trained).then(|| workplace.training()),
            )
        };
        Self {
            pager,
            recoder,
            phase: Phase::Resting,
            window: Window::default(),
            training,
            again_ns: 0,
            sample_again_ns: 0,
            considers_all: false,
            considered_all: false,
        }
    }

    /// The search through what is stored, for others between two turns.
    pub(crate) fn recoder(&mut self) -> &mut Recoder<Codec, Dense> {
        &mut self.recoder
    }

    /// Says how densely what leaves is compressed from now on.
    pub(crate) fn set_density(&mut self, config: &Config, density: Density) {
        let density = match age_ms::<O>(config, &self.pager.control) {
            Some(_) => density,
            None => Density::Usual,
        };
        self.pager.engine.codec().set_density(density);
        self.considered_all &= density == Density::Dense;
    }

    /// Does some of what there is to do, if it is time.
    pub(crate) fn turn(&mut self, config: &Config, need: Need) {
        let Some(age_ms) = age_ms::<O>(config, &self.pager.control) else {
            return;
        };
        let began_ns = O::now_ns();
        if began_ns < self.again_ns {
            return;
        }
        let age_ns = age_ms.saturating_mul(1_000_000);
        if self.phase == Phase::Resting && !self.begins(began_ns, age_ns, need) {
            self.again_ns = began_ns + REST_NS;
            return;
        }
        let before = O::own_cpu_ns();
        loop {
            self.step();
            let over = O::now_ns() - began_ns > TURN_NS;
            if over || self.phase == Phase::Resting || self.pager.bell_rung() {
                break;
            }
        }
        let took = O::own_cpu_ns() - before;
        self.again_ns = O::now_ns() + took * need.share();
        let s = self.pager.host.statistics();
        s.recode_time_ns.fetch_add(took, Relaxed);
    }

    fn now(&self) -> Mark {
        Mark {
            at_ns: O::now_ns(),
            stored: self.pager.ever_stored_pages(),
        }
    }

    /// Begins a pass, if there is one to be made.
    fn begins(&mut self, now_ns: u64, age_ns: u64, need: Need) -> bool {
        let stored = self.pager.engine.counters().compressed_pages.load(Relaxed);
        if self.training.is_some() && stored < LEAST_STORED_PAGES {
            return false;
        }
        let now = Mark {
            at_ns: now_ns,
            ..self.now()
        };
        self.considers_all = need == Need::Squeezed && !self.considered_all;
        let due = match need {
            // What is stored after that pass is dense.
            Need::Squeezed => self.considers_all && now_ns >= self.sample_again_ns,
            Need::Idle | Need::Near => self.window.is_due(now, age_ns),
        };
        if !due {
            return false;
        }
        self.recoder.begin();
        self.phase = match self.training {
            None => Phase::Recoding,
            Some(_) => Phase::Sampling {
                skip: (stored / (2 * TRAINING_PAGES as u64)) as u32,
            },
        };
        true
    }

    fn find(&mut self) -> Search {
        let away_ms = if self.considers_all {
            0..u32::MAX
        } else {
            self.window.away_ms(O::now_ns())
        };
        let engine = &self.pager.engine;
        engine.find_stored(self.pager, &mut self.recoder, away_ms, ENTRIES)
    }

    fn step(&mut self) {
        match (self.phase, &mut self.training) {
            (Phase::Resting, _) => {}
            (Phase::Sampling { skip }, Some(_)) => self.sample(skip),
            (Phase::Training, Some(training)) => {
                if training.step()
                    && let Some(training) = self.training.take()
                {
                    self.pager.engine.codec().set_tables(training.into_tables());
                    self.recoder.begin();
                    self.phase = Phase::Recoding;
                }
            }
            (Phase::Recoding, _) => self.recode(),
            (Phase::Sampling { .. } | Phase::Training, None) => self.phase = Phase::Resting,
        }
    }

    /// Learns from one page more.
    fn sample(&mut self, skip: u32) {
        let found = self.find();
        let Some(training) = &mut self.training else {
            return;
        };
        match found {
            Search::Found => {
                training.add(&mut self.recoder);
                self.recoder.skip(skip);
                if training.pages() == TRAINING_PAGES {
                    self.phase = Phase::Training;
                }
            }
            Search::Unfinished => {}
            Search::PassEnded if training.pages() >= LEAST_SAMPLE => self.phase = Phase::Training,
            Search::PassEnded if skip > 0 => self.phase = Phase::Sampling { skip: skip / 4 },
            Search::PassEnded => {
                // Most of what is stored came lately, or has nothing to tell.
                training.forget();
                self.window.until = self.now();
                self.sample_again_ns = O::now_ns() + SAMPLE_AGAIN_NS;
                self.phase = Phase::Resting;
            }
        }
        let s = self.pager.host.statistics();
        let pages = self.training.as_ref().map_or(0, Training::pages);
        s.recode_sample_pages.store(pages as u64, Relaxed);
    }

    /// Looks on, and stores one page anew.
    fn recode(&mut self) {
        let engine = &self.pager.engine;
        let dense = engine.codec().tables().and_then(PressDense::new);
        match (self.find(), dense) {
            (Search::Found, Some(dense)) => {
                engine.recode(self.pager, &mut self.recoder, &dense, GAIN_PART);
            }
            (Search::Unfinished, Some(_)) => {}
            (Search::PassEnded, _) | (_, None) => {
                self.considered_all |= self.considers_all;
                let now = self.now();
                self.window.advance(now);
                if self.considers_all {
                    self.window.from = now;
                }
                self.phase = Phase::Resting;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE_NS: u64 = 60_000_000_000;

    fn at(ages: u64, stored: u64) -> Mark {
        Mark {
            at_ns: 1 + ages * AGE_NS,
            stored,
        }
    }

    #[test]
    fn each_page_is_considered_once_and_not_before_it_is_old() {
        let mut window = Window::default();
        // Nothing is stored yet; then, between the first and the second, something.
        assert!(!window.is_due(at(1, 0), AGE_NS));
        assert!(!window.is_due(at(2, 50), AGE_NS));
        assert!(!window.is_due(at(2, 60), AGE_NS), "an age has not gone by");
        assert!(window.is_due(at(3, 60), AGE_NS));
        // Stored from the first to the second mark: away for one to two ages.
        let ms = |ages: u64| (ages * AGE_NS / 1_000_000) as u32;
        assert_eq!(window.away_ms(at(3, 60).at_ns), ms(1)..ms(2) + ROUNDING_MS);
        window.advance(at(4, 60));
        // What came after the second mark.
        assert!(window.is_due(at(5, 60), AGE_NS));
        assert_eq!(window.away_ms(at(5, 60).at_ns), ms(1)..ms(3) + ROUNDING_MS);
        window.advance(at(5, 60));
        for ages in 6..9 {
            assert!(!window.is_due(at(ages, 60), AGE_NS), "nothing came since");
        }
        assert!(!window.is_due(at(9, 61), AGE_NS));
        assert!(window.is_due(at(10, 61), AGE_NS));
    }

    #[test]
    fn the_first_pass_considers_all_that_is_old() {
        let mut window = Window {
            until: at(1, 7),
            ..Window::default()
        };
        assert!(window.is_due(at(2, 7), AGE_NS));
        assert_eq!(window.away_ms(at(2, 7).at_ns).end, u32::MAX);
    }
}
