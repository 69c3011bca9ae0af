//! From ages and content to what `run` would hold: no process, no file, only numbers.
//!
//! Pages are in *groups* that are alike: pages of one mapping, or of one age. Of each group it is known which share of its
//! pages is touched within each of some times, and what its pages would take in storage. Where a page stays in place
//! as long as it is touched within a window `w`, the program holds
//!
//! ```text
//!   what is not managed + the pager + Σ pages touched within w + Σ the others, compressed + frames kept free
//! ```
//!
//! Of the others, those that do not compress stay in place. Some of the frames of storage that came free, since pages
//! came back or were stored anew, are kept for what is stored next.
//!
//! and the pages that come back are the slope of the second term: how many more are touched within a little longer
//! (P. J. Denning, "The working set model for program behavior", 1968: the miss rate is the derivative of the working
//! set's size). Both hold for a program that goes on as it did while it was watched, and for no other.
//!
//! What is touched for the first time is no refault: pages that have come while the program was watched do not count
//! for the slope. And two things bound it, whatever was seen. Without a budget the pager makes the cold age longer
//! when more come back than it allows, so no more do for long. Where no age that was watched is long enough, nobody
//! knows which it chooses: as much is held as at the shortest, or everything, and only these bounds are told. The
//! wake of a set that was idle for long is seen once in a watch, and whether it wakes each minute or each day is not.
//! Under a budget a program that waits for pages touches fewer.

use crate::anonymous_pages::PAGE_BYTES;
use crate::estimate::content::Content;
use crate::estimate::costs;

const PAGE: f64 = PAGE_BYTES as f64;
/// Standard deviations on each side of the estimate that hold 95 of 100.
const DEVIATIONS: f64 = 1.96;

/// Pages that are alike.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many.
    pub pages: f64,
    /// Share of them that is touched within each of [`Model::times`].
    pub touched: Vec<f64>,
    /// Share of them that is touched for the first time within each of them: there was none before.
    pub fresh: Vec<f64>,
    /// What they hold.
    pub content: Content,
}

/// All that the estimate follows from.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Private anonymous memory that would not be managed, in bytes.
    pub unmanaged_bytes: f64,
    /// The times within which pages were touched, in seconds, rising.
    pub times: Vec<f64>,
    /// The pages that would be managed.
    pub groups: Vec<Group>,
    /// Windows of the address space in which there are pages that would be managed.
    pub windows: f64,
    /// How many times as many pages there were at the peak: tables of the pager do not shrink.
    pub peak: f64,
    /// Threads that the pager would have.
    pub threads: f64,
    /// Pages whose ages the shares of the groups were taken from; `None`: all of them, or their ages are not known.
    pub aged_sample: Option<usize>,
    /// The share of its frames that storage keeps when pages are stored anew; `None`: they are not.
    pub anew: Option<f64>,
}

/// What would be held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// In all: what a budget would count.
    pub held_bytes: f64,
    /// With 95 % certainty between these, as far as the sample goes.
    pub least_bytes: f64,
    /// See [`least_bytes`](Self::least_bytes).
    pub most_bytes: f64,
    /// Pages in place since they are touched within [`window_s`](Self::window_s), in bytes.
    pub resident_bytes: f64,
    /// Others that are in place since they do not compress, in bytes.
    pub incompressible_bytes: f64,
    /// Storage for the others, frames that are kept free included.
    pub storage_bytes: f64,
    /// Pages stay that are touched within this time, in seconds.
    pub window_s: f64,
    /// Pages that come back in a second.
    pub refaults_s: f64,
    /// Pages that leave in a second and do not come back.
    pub leaving_s: f64,
    /// Only bounds are known: how much is held lies between them, and no more pages come back than so many.
    pub is_bound: bool,
}

impl Expected {
    /// Managed pages in place, for whichever reason.
    fn in_place_bytes(&self) -> f64 {
        self.resident_bytes + self.incompressible_bytes
    }

    /// The share of a processor that pages cost which come back, or leave.
    pub fn processor_share(&self) -> f64 {
        (self.refaults_s * costs::CYCLE_CPU_NS + self.leaving_s * costs::EVICTION_CPU_NS) / 1e9
    }

    /// The share of a thread's time that it would wait for them, were they all its own.
    pub fn wait_share(&self) -> f64 {
        self.refaults_s * costs::FAULT_WAIT_NS / 1e9
    }
}

impl Model {
    /// Pages that would be managed.
    pub fn pages(&self) -> f64 {
        self.groups.iter().map(|group| group.pages).sum()
    }

    /// What the program holds natively.
    pub fn native_bytes(&self) -> f64 {
        self.unmanaged_bytes + self.pages() * PAGE
    }

    /// What the pager itself would hold, as long as nothing is stored anew.
    pub fn overhead_bytes(&self) -> f64 {
        costs::OVERHEAD_BYTES
            + self.threads * costs::OVERHEAD_THREAD_BYTES
            + self.peak
                * (self.pages() * costs::OVERHEAD_PAGE_BYTES
                    + self.windows * costs::OVERHEAD_WINDOW_BYTES)
    }

    /// What all sampled pages hold, each group for as much as it has pages.
    pub fn mean_page_bytes(&self) -> f64 {
        let sum = |group: &Group| group.pages * group.content.mean(1.0);
        self.groups.iter().map(sum).sum::<f64>() / self.pages().max(1.0)
    }

    /// Pages touched within `window_s` seconds: known at [`times`](Self::times), on a straight line in between.
    pub fn touched_pages(&self, window_s: f64) -> f64 {
        let touched = |group: &Group| group.pages * self.share(&group.touched, window_s);
        self.groups.iter().map(touched).sum()
    }

    /// Those of them that were there before.
    fn touched_again(&self, window_s: f64) -> f64 {
        let again = |group: &Group| {
            let (all, first) = (&group.touched, &group.fresh);
            group.pages * (self.share(all, window_s) - self.share(first, window_s)).max(0.0)
        };
        self.groups.iter().map(again).sum()
    }

    /// The share within `window_s` seconds, where `known` has those of [`times`](Self::times).
    fn share(&self, known: &[f64], window_s: f64) -> f64 {
        let at = self.times.partition_point(|time| *time < window_s);
        let point = |at: usize| match at {
            0 => (0.0, 0.0),
            at => (self.times[at - 1], known[at - 1]),
        };
        let (from, below) = point(at);
        if at == self.times.len() {
            return below;
        }
        let (to, above) = point(at + 1);
        below + (above - below) * (window_s - from) / (to - from)
    }

    /// What is held where pages stay that are touched within `window_s` seconds; `anew`: the share that stored pages keep.
    fn held(&self, window_s: f64, anew: f64) -> Expected {
        let (mut resident, mut incompressible, mut storage, mut freed) = (0.0, 0.0, 0.0, 0.0);
        let (mut variance, mut mean_square, mut sum) = (0.0, 0.0, 0.0);
        for group in &self.groups {
            let share = self.share(&group.touched, window_s);
            let (hot, idle) = (group.pages * share, group.pages * (1.0 - share));
            let mean = group.content.mean(anew);
            resident += hot * PAGE;
            incompressible += idle * group.content.incompressible_share() * PAGE;
            let stored = group.content.stored_mean(anew);
            storage += idle * stored;
            freed += group.pages * group.content.stored_mean(1.0) - idle * stored;
            let sampled = group.content.pages as f64;
            // Where every page was looked at nothing is left to chance.
            let unseen = (1.0 - sampled / group.pages.max(1.0)).max(0.0);
            variance += idle * idle * unseen * group.content.variance() / sampled.max(1.0);
            sum += group.pages * (share * PAGE + (1.0 - share) * mean);
            mean_square += group.pages * (share * PAGE * PAGE + (1.0 - share) * mean * mean);
        }
        if let Some(sampled) = self.aged_sample {
            let pages = self.pages().max(1.0);
            let spread = (mean_square / pages - (sum / pages).powi(2)).max(0.0);
            variance += pages * pages * spread / (sampled.max(1) as f64);
        }
        // All was stored before it was known what is in use.
        let idle_frames = freed.min(costs::IDLE_FRAMES_BYTES + storage / costs::IDLE_FRAMES_PART);
        let storage = storage + idle_frames;
        let tables = match anew < 1.0 {
            true => costs::OVERHEAD_ANEW_BYTES,
            false => 0.0,
        };
        let in_place = self.unmanaged_bytes + resident + incompressible;
        let held = in_place + self.overhead_bytes() + tables + storage;
        let half = DEVIATIONS * variance.sqrt();
        Expected {
            held_bytes: held,
            least_bytes: held - half,
            most_bytes: held + half,
            resident_bytes: resident,
            incompressible_bytes: incompressible,
            storage_bytes: storage,
            window_s,
            refaults_s: self.refaults_s(window_s),
            leaving_s: 0.0,
            is_bound: false,
        }
    }

    /// Pages that come back in a second where pages leave after so many seconds without a touch.
    fn refaults_s(&self, window_s: f64) -> f64 {
        let last = self.times.last().copied().unwrap_or(0.0);
        // Beyond what was watched the slope of its second half is all that there is.
        let (from, to) = match window_s < last {
            true => (window_s * 0.75, (window_s * 1.25).min(last)),
            false => (last / 2.0, last),
        };
        match to > from {
            true => (self.touched_again(to) - self.touched_again(from)).max(0.0) / (to - from),
            false => 0.0,
        }
    }

    /// The shortest cold age at which few enough pages come back, once those that come back soon are passed over. `None`:
    /// longer than was watched.
    fn cold_age_s(&self) -> Option<f64> {
        let mut age = costs::SHORTEST_COLD_AGE_S;
        let last = self.times.last().copied().unwrap_or(0.0);
        while age <= last {
            let allowed = allowed_refaults_s(self.touched_pages(age));
            // What has second chances comes back no more.
            if self.refaults_s(age * (1.0 + costs::SECOND_CHANCES)) <= allowed {
                return Some(age);
            }
            age *= 1.125;
        }
        None
    }

    /// What the program would hold with default settings, once its cold pages have gone.
    pub fn by_default(&self) -> Expected {
        let last = self.times.last().copied().unwrap_or(0.0);
        let age = self.cold_age_s();
        let window_s = age.unwrap_or(last) * (1.0 + costs::SECOND_CHANCES);
        let held = self.held(window_s.min(last), 1.0);
        let allowed = allowed_refaults_s(held.in_place_bytes() / PAGE);
        match age {
            Some(_) => Expected {
                refaults_s: held.refaults_s.min(allowed),
                ..held
            },
            // Each cold age that is tried lets something go that comes back: nobody has seen how often.
            None => Expected {
                least_bytes: self
                    .held(costs::SHORTEST_COLD_AGE_S.min(last), 1.0)
                    .least_bytes,
                most_bytes: held.most_bytes.max(self.untouched().held_bytes),
                refaults_s: allowed,
                is_bound: true,
                ..held
            },
        }
    }

    /// The same of a program that has lived for so many seconds: at first nothing is old enough to go, then as much goes as
    /// the pager's pace allows.
    pub fn by_default_after(&self, life_s: f64) -> Expected {
        let settled = self.by_default();
        let pages_bytes = (self.pages() * PAGE).max(1.0);
        let first_s = costs::SHORTEST_COLD_AGE_S * costs::LARGE_BYTES / pages_bytes;
        if life_s < first_s.clamp(costs::SHORTEST_COLD_AGE_S, costs::LONGEST_FIRST_AGE_S) {
            return self.untouched();
        }
        let may_go = life_s * costs::PACE_PAGES_S;
        let idle = (self.pages() - settled.in_place_bytes() / PAGE).max(0.0);
        let settled = Expected {
            refaults_s: match settled.is_bound {
                true => settled.refaults_s.max(allowed_early_s(life_s)),
                false => settled.refaults_s,
            },
            leaving_s: idle.min(may_go) / life_s,
            ..settled
        };
        if idle <= may_go {
            return settled;
        }
        let untouched = self.untouched();
        let part = may_go / idle;
        let between = |all: f64, none: f64| none + (all - none) * part;
        Expected {
            held_bytes: between(settled.held_bytes, untouched.held_bytes),
            least_bytes: between(settled.least_bytes, untouched.held_bytes),
            most_bytes: between(settled.most_bytes, untouched.held_bytes),
            resident_bytes: between(settled.resident_bytes, untouched.resident_bytes),
            incompressible_bytes: settled.incompressible_bytes * part,
            storage_bytes: settled.storage_bytes * part,
            refaults_s: settled.refaults_s * part,
            ..settled
        }
    }

    /// The same when all that stays compressed was stored anew, which takes minutes; `None`: it is not.
    pub fn later(&self) -> Option<Expected> {
        let now = self.by_default();
        self.anew.map(|anew| {
            let later = self.held(now.window_s, anew);
            Expected {
                most_bytes: match now.is_bound {
                    true => now.most_bytes,
                    false => later.most_bytes,
                },
                refaults_s: now.refaults_s,
                is_bound: now.is_bound,
                ..later
            }
        })
    }

    /// Whether that is reached within a minute or so. If not, so many pages come back at the shortest cold age that the
    /// pager waits longer before it takes what is idle.
    pub fn settles_quickly(&self) -> bool {
        let waits = self.refaults_s(costs::SHORTEST_COLD_AGE_S) * costs::FAULT_WAIT_NS / 1e9;
        waits <= costs::EARLY_SHARE
    }

    /// The least that it could hold: all compressed, and stored anew.
    pub fn least(&self) -> Expected {
        self.held(0.0, self.anew.unwrap_or(1.0))
    }

    /// What would be held under a budget; `None`: it is out of reach.
    pub fn under(&self, budget_bytes: f64) -> Option<Expected> {
        let last = self.times.last().copied().unwrap_or(0.0);
        let anew = self.anew.unwrap_or(1.0);
        if self.native_bytes() + self.overhead_bytes() <= budget_bytes {
            return Some(Expected {
                refaults_s: 0.0,
                ..self.untouched()
            });
        }
        if self.held(0.0, anew).held_bytes > budget_bytes {
            return None;
        }
        if self.held(last, 1.0).held_bytes <= budget_bytes {
            // There is room for some of what was not touched at all.
            let kept = self.held(last, 1.0);
            return Some(Expected {
                held_bytes: budget_bytes,
                least_bytes: budget_bytes,
                most_bytes: budget_bytes,
                ..kept
            });
        }
        let (mut below, mut above) = (0.0, last);
        for _ in 0..40 {
            let middle = (below + above) / 2.0;
            match self.held(middle, 1.0).held_bytes <= budget_bytes {
                true => below = middle,
                false => above = middle,
            }
        }
        let tight = self.held(below, 1.0);
        // A thread that waits for a page touches no other meanwhile.
        let slowed = tight.refaults_s / (1.0 + tight.wait_share());
        Some(Expected {
            held_bytes: budget_bytes,
            least_bytes: budget_bytes,
            most_bytes: budget_bytes,
            refaults_s: slowed,
            ..tight
        })
    }

    /// As it is, with the pager in it.
    fn untouched(&self) -> Expected {
        let held = self.native_bytes() + self.overhead_bytes();
        Expected {
            held_bytes: held,
            least_bytes: held,
            most_bytes: held,
            resident_bytes: self.pages() * PAGE,
            incompressible_bytes: 0.0,
            storage_bytes: 0.0,
            window_s: f64::INFINITY,
            refaults_s: 0.0,
            leaving_s: 0.0,
            is_bound: false,
        }
    }

    /// The budget to try: room for all that was touched while it was watched, and a little more. `None`: it would save nothing.
    pub fn suggested_budget(&self) -> Option<u64> {
        let budget = self.needed_budget();
        (budget < self.native_bytes()).then_some(budget as u64)
    }

    /// The budget to try for a program that was like each of these for a time: what the one that needs most needs.
    pub fn suggested_budget_of<'a>(models: impl Iterator<Item = &'a Model> + Clone) -> Option<u64> {
        let needed = models.clone().map(Model::needed_budget);
        let needed = needed.fold(0.0, f64::max);
        let native = models.map(Model::native_bytes).fold(0.0, f64::max);
        (needed < native).then_some(needed as u64)
    }

    /// Room for what was touched, which may be more than is held natively.
    fn needed_budget(&self) -> f64 {
        const MIB: f64 = 1024.0 * 1024.0;
        let last = self.times.last().copied().unwrap_or(0.0);
        let kept = self.held(last, 1.0).most_bytes;
        let budget = (kept * costs::BUDGET_MARGIN).max(kept + costs::BUDGET_ROOM_BYTES);
        (budget / MIB).ceil().max(8.0) * MIB
    }
}

/// So many pages may come back in a second without the pager making the cold age longer, where so many are in place.
fn allowed_refaults_s(resident_pages: f64) -> f64 {
    (costs::COLD_AGE_SHARE * 1e9 / costs::COLD_AGE_FAULT_NS)
        .max(costs::COLD_AGE_REFAULTS * resident_pages)
}

/// So many may on average in a program that has lived for so many seconds: more in its first minute.
fn allowed_early_s(life_s: f64) -> f64 {
    let early_s = costs::EARLY_S.min(life_s);
    let early = costs::EARLY_SHARE * 1e9 / costs::COLD_AGE_FAULT_NS * early_s;
    (costs::FIRST_REFAULTS + early) / life_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_eval::Fate;

    const MIB_PAGES: f64 = 256.0;
    const MIB: f64 = 1024.0 * 1024.0;

    /// 100 MiB, of which `hot` are touched within a second and no more later; pages become a quarter.
    fn model(hot: f64, times: &[f64]) -> Model {
        let content = Content::of([Fate::Stored(1024); 1000], 1.0);
        let group = |mib: f64, touched: f64| Group {
            pages: mib * MIB_PAGES,
            touched: vec![touched; times.len()],
            fresh: vec![0.0; times.len()],
            content,
        };
        Model {
            unmanaged_bytes: 5.0 * MIB,
            times: times.to_vec(),
            groups: vec![group(hot, 1.0), group(100.0 - hot, 0.0)],
            aged_sample: None,
            anew: Some(0.5),
            windows: 4.0,
            threads: 4.0,
            peak: 1.0,
        }
    }

    fn mib(bytes: f64) -> f64 {
        bytes / MIB
    }

    #[test]
    fn what_is_in_use_stays_and_the_rest_is_a_quarter() {
        let model = model(20.0, &[1.0, 10.0]);
        assert_eq!(mib(model.native_bytes()), 105.0);
        let expected = model.by_default();
        let overhead = mib(model.overhead_bytes());
        // Frames that are kept free: 5 MiB came back, and 10 were stored anew.
        let idle_frames = |storage: f64| 1.0 + storage / 64.0;
        let held = 5.0 + overhead + 20.0 + 20.0 + idle_frames(20.0);
        assert!((mib(expected.held_bytes) - held).abs() < 0.01);
        assert_eq!(expected.refaults_s, 0.0);
        assert_eq!(model.cold_age_s(), Some(costs::SHORTEST_COLD_AGE_S));
        let later = model.later().unwrap();
        let tables = mib(costs::OVERHEAD_ANEW_BYTES);
        let held = 5.0 + overhead + tables + 20.0 + 10.0 + idle_frames(10.0);
        assert!((mib(later.held_bytes) - held).abs() < 0.01);
        let held = 5.0 + overhead + tables + 12.5 + idle_frames(12.5);
        assert!((mib(model.least().held_bytes) - held).abs() < 0.01);
        assert!(
            expected.most_bytes - expected.least_bytes < 1.0,
            "all pages are alike"
        );
    }

    /// Frames that nothing came free of are not there, and what does not compress is in place: of pandas' columns 17.5
    /// MiB were foretold in place, where 71.0 were, and the sum was right.
    #[test]
    fn what_does_not_compress_is_in_place_and_no_storage() {
        let fates = (0..1000).map(|n| match n % 2 {
            0 => Fate::Stored(1024),
            _ => Fate::Incompressible,
        });
        let mut model = model(0.0, &[1.0, 10.0]);
        model.groups[1].content = Content::of(fates, 1.0);
        let expected = model.by_default();
        assert!((mib(expected.incompressible_bytes) - 50.0).abs() < 0.01);
        assert_eq!(expected.resident_bytes, 0.0);
        assert!((mib(expected.storage_bytes) - 12.5).abs() < 0.01);
        let held = 5.0 + mib(model.overhead_bytes()) + 50.0 + 12.5;
        assert!(
            (mib(expected.held_bytes) - held).abs() < 0.01,
            "{expected:?}"
        );
        let mut little = self::model(1.0, &[1.0, 10.0]);
        let with = |model: &Model| mib(model.by_default().held_bytes - model.overhead_bytes());
        let held = 5.0 + 1.0 + 99.0 / 4.0 + 0.25;
        assert!(
            (with(&little) - held).abs() < 0.01,
            "a quarter of a MiB came back"
        );
        little.anew = None;
        assert_eq!(little.later(), None);
    }

    /// 1 MiB was taken for what the pager holds in any program, of which it holds 0.14; frames that it keeps free were not
    /// in it, and tables of pages that are gone neither.
    #[test]
    fn the_pager_holds_threads_and_tables_of_the_peak() {
        let mut model = model(20.0, &[1.0]);
        let fixed = 88.0 / 1024.0 + 4.0 * 12.0 / 1024.0;
        let tables = 100.0 * MIB_PAGES * 26.0 / MIB + 4.0 * 10.0 / 1024.0;
        assert!((mib(model.overhead_bytes()) - fixed - tables).abs() < 1e-6);
        model.peak = 1.5;
        assert!((mib(model.overhead_bytes()) - fixed - 1.5 * tables).abs() < 1e-6);
    }

    #[test]
    fn a_budget_is_kept_by_compressing_more_or_is_out_of_reach() {
        let model = model(20.0, &[1.0, 10.0]);
        let under = |budget: f64| model.under(budget * MIB);
        assert_eq!(under(200.0).unwrap().resident_bytes, 100.0 * MIB);
        assert_eq!(under(60.0).unwrap().refaults_s, 0.0);
        let tight = under(40.0).unwrap();
        assert!(
            tight.resident_bytes < 20.0 * MIB && tight.refaults_s > 0.0,
            "{tight:?}"
        );
        assert!(tight.processor_share() > 0.0 && tight.wait_share() > 0.0);
        assert_eq!(under(10.0), None);
        let suggested = model.suggested_budget().unwrap() as f64;
        assert!((47.0..60.0).contains(&mib(suggested)), "{suggested}");
        assert_eq!(self::model(99.0, &[1.0]).suggested_budget(), None);
    }

    /// Story: a program that was idle while it was small and then used all that it held was suggested the budget of its
    /// first second.
    #[test]
    fn a_budget_is_enough_for_each_time_or_none_is_suggested() {
        let [idle, busy] = [20.0, 99.0].map(|hot| model(hot, &[1.0]));
        let mut small_and_busy = model(99.0, &[1.0]);
        small_and_busy.groups.truncate(1);
        small_and_busy.groups[0].pages = 10.0 * MIB_PAGES;
        let of = |models: &[&Model]| Model::suggested_budget_of(models.iter().copied());
        assert_eq!(of(&[&idle]), idle.suggested_budget());
        assert_eq!(of(&[&idle, &busy]), None);
        assert_eq!(of(&[&small_and_busy, &idle]), idle.suggested_budget());
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_comes_back_is_the_slope_and_lengthens_the_cold_age() {
        // Ever more is touched: 10 MiB more in each second.
        let mut busy = model(0.0, &[1.0, 2.0, 4.0, 8.0]);
        busy.groups[1].touched = vec![0.1, 0.2, 0.4, 0.8];
        assert!((busy.touched_pages(3.0) - 30.0 * MIB_PAGES).abs() < 1.0);
        let expected = busy.by_default();
        assert!((busy.refaults_s(8.0) - 10.0 * MIB_PAGES).abs() < 1.0);
        assert_eq!(busy.cold_age_s(), None);
        // The pager would wait longer, until few enough come back: nobody has seen how long.
        assert!(expected.is_bound);
        assert!((expected.refaults_s - 100.0).abs() < 0.1, "{expected:?}");
        assert!(mib(expected.most_bytes) > 105.0 && mib(expected.least_bytes) < 50.0);
        assert!(!busy.settles_quickly() && model(20.0, &[1.0, 4.0]).settles_quickly());
        assert!(
            (mib(expected.resident_bytes) - 80.0).abs() < 0.1,
            "all that was touched stays"
        );
    }

    /// A program that read its data was foretold 139 % of a CPU, where a run took 6 %: each page that it filled was
    /// taken for one that comes back.
    #[test]
    fn what_is_filled_for_the_first_time_comes_not_back() {
        let mut growing = model(0.0, &[0.25, 0.5, 1.0, 2.0]);
        growing.groups[1].touched = vec![0.125, 0.25, 0.5, 1.0];
        let expected = growing.by_default_after(3.0);
        assert!(
            expected.is_bound && expected.refaults_s < 2_000.0,
            "{expected:?}"
        );
        assert!(growing.refaults_s(2.0) > 10_000.0);
        growing.groups[1].fresh = growing.groups[1].touched.clone();
        let expected = growing.by_default();
        assert_eq!((expected.refaults_s, expected.is_bound), (0.0, false));
        assert!(
            (mib(expected.resident_bytes) - 100.0).abs() < 0.01,
            "it is all in use"
        );
        let after = growing.by_default_after(3.0);
        assert!(after.processor_share() < 0.01, "{after:?}");
    }

    #[test]
    fn leaving_costs_and_waiting_slows_down() {
        // 20,480 pages leave in 4 s, at 10 µs each.
        let left = model(20.0, &[1.0, 10.0]).by_default_after(4.0);
        assert!(
            (left.processor_share() - 20_480.0 * 1e-5 / 4.0).abs() < 1e-4,
            "{left:?}"
        );
        let tight = model(100.0, &[0.25, 10.0]).under(40.0 * MIB).unwrap();
        assert!(
            tight.wait_share() < 1.0,
            "no more than all of a thread's time: {tight:?}"
        );
    }

    #[test]
    fn little_goes_at_the_beginning_of_a_life() {
        let model = model(20.0, &[1.0, 10.0]);
        let held = |life_s| mib(model.by_default_after(life_s).held_bytes);
        let overhead = mib(model.overhead_bytes());
        assert!((held(1.0) - 105.0 - overhead).abs() < 0.01);
        // Four seconds are time for 50,000 pages.
        assert_eq!(held(4.0), mib(model.by_default().held_bytes));
        let mut small = model.clone();
        small
            .groups
            .iter_mut()
            .for_each(|group| group.pages /= 10.0);
        assert_eq!(
            small.by_default_after(10.0),
            small.untouched(),
            "10 MiB have to be 13 s old"
        );
        assert!(small.by_default_after(14.0).held_bytes < small.native_bytes());
        let mut large = model.clone();
        large.groups[1].pages *= 100.0;
        let native = large.native_bytes();
        let part = large.by_default_after(4.0).held_bytes;
        assert!(part < native && part > native * 0.9);
    }

    #[test]
    fn a_sample_gives_an_interval() {
        let mut model = model(20.0, &[1.0, 10.0]);
        let fates = (0..1000).map(|n| Fate::Stored(if n % 2 == 0 { 500 } else { 1548 }));
        model.groups[1].content = Content::of(fates, 1.0);
        let expected = model.by_default();
        // 80 MiB of pages whose sizes differ by 524: a standard error of 16.6 bytes of 1,024.
        let half = mib(expected.most_bytes - expected.least_bytes) / 2.0;
        assert!((half - 1.96 * 80.0 * 16.6 / 4096.0).abs() < 0.05, "{half}");
        model.aged_sample = Some(1000);
        let wider = model.by_default();
        assert!(wider.most_bytes - wider.least_bytes > expected.most_bytes - expected.least_bytes);
    }

    #[test]
    fn nothing_is_known_of_ages_where_nothing_was_seen() {
        let mut model = model(0.0, &[]);
        model.groups[0].touched = Vec::new();
        assert_eq!(model.touched_pages(5.0), 0.0);
        assert_eq!(model.cold_age_s(), None);
        assert_eq!(model.least(), model.held(0.0, 0.5));
    }
}
