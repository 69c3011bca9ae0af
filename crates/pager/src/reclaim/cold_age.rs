//! The age from which pages are compressed although there is room, where it is not given: chosen by
//! what it costs the program.
//!
//! It begins with [`FIRST_NS`], so that a program of some size has its idle memory compressed in seconds, and
//! later in small programs, which have little to give. Without accessed bits nobody knows which pages are hot:
//! they are taken, and come back. So three things bound what finding out costs.
//!
//! * *Pace*. Pages taken for their age, ever, at [`FAULT_NS`] each, are an [`PACE`]th of the time at most. Should the program want all
//!   of them back at once it has lost no more than that share of its time, and so much is also what
//!   compressing them takes of a processor, about.
//! * *Credit*. What threads wait for faults is paid from a credit, which grows with time by the share that is
//!   allowed: a two-hundredth of it in the first minute, then a thousandth (Meta's TMO, ASPLOS 2022, holds stalls at that); or by
//!   0.2 % of the pages in place a minute (Google's far memory, ASPLOS 2019), where that is more. Where none is left
//!   the age becomes longer at once, and no page is taken for its age for [`PEACE_NS`].
//! * *Windows*. Each window is judged for itself: faults that cost more than the share make the age longer, less than
//!   half of it makes it shorter. Windows are a second long at first, an eighth of the time later, and ten seconds at most.
//!
//! In the first minute the age becomes longer by half or doubles, up to a minute; later by a quarter; shorter always by an eighth.
//!
//! Times in which the budget, or the machine's want, made pages go say nothing of the age, and change nothing.
//!
//! What a program wants back while it is busy says little of what it wants while it rests. In a window in which it ran for less
//! than a [`REST`]th of the time the age becomes shorter by a quarter, although nothing was taken, down to the first
//! age ([ADR 0048](../../../../docs/adr/0048-rest-shortens-the-cold-age.md)).

/// What a page that comes back costs its program, about.
const FAULT_NS: u64 = 10_000;

/// Refaults a minute, of a million pages in place: 0.2 %.
const MOST_REFAULTS: u64 = 2_000;

/// Of the time: what refaults may cost in the first minute, and later.
const EARLY_SHARE: u64 = 200;
const SHARE: u64 = 1_000;
/// How long it is early.
const EARLY_NS: u64 = 60_000_000_000;

/// Of the time: what it would cost if all pages that were taken came back.
const PACE: u64 = 8;

/// The credit of the beginning: 3,000 pages may come back before anything was earned.
const FIRST_CREDIT_NS: i64 = 30_000_000;
/// No more credit is kept than is earned in this time.
const CREDIT_FOR_NS: u64 = 100_000_000_000;

/// How long a program is left in peace when its credit is used up.
const PEACE_NS: u64 = 10_000_000_000;
/// The same in the first minute.
const EARLY_PEACE_NS: u64 = 3_000_000_000;

/// A program that runs for less than this part of the time rests.
const REST: u64 = 50;

const SHORTEST_WINDOW_NS: u64 = 1_000_000_000;
const WINDOW_NS: u64 = 10_000_000_000;
/// A window is one of so many parts of the time before it.
const WINDOW_PART: u64 = 8;

/// The shortest age, which is also the first one of a program that has at least [`LARGE_PAGES`].
const LEAST_NS: u64 = 2_000_000_000;
const FIRST_NS: u64 = LEAST_NS;
/// 64 MiB. With half of it the first age is twice as long, and so on.
const LARGE_PAGES: u64 = 1 << 14;
/// The first age of the smallest programs.
const SMALL_FIRST_NS: u64 = 60_000_000_000;
const MOST_AGE_NS: u64 = 3_600_000_000_000;

/// The age in force, and the window that is being judged.
#[derive(Debug)]
pub(crate) struct ColdAge {
    age_ns: u64,
    /// A window has made the age longer or shorter: it is the first one no more.
    is_learnt: bool,
    /// When the first observation was; 0: there was none.
    began_ns: u64,
    observed_ns: u64,
    /// What refaults may still cost.
    credit_ns: i64,
    /// No page is taken before this time.
    peace_until_ns: u64,
    /// What faults had cost at the last observation.
    cost_ns: u64,
    window: Window,
}

/// What happens in a window.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began_ns: u64,
    ends_ns: u64,
    cost_ns: u64,
    /// Pages taken for their age before it.
    taken_before: u64,
    /// For how long the program had run before it.
    ran_before_ns: u64,
    pressed: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// What faults have cost the program, ever: time that its threads waited for them.
    pub cost_ns: u64,
    /// Pages in place.
    pub resident: u64,
    /// Pages of the program, in place or not.
    pub content: u64,
    /// Pages taken for their age, ever.
    pub taken: u64,
    /// For how long the program has run.
    pub ran_ns: u64,
    /// Pages are made to go now for another reason: the budget, or the machine.
    pub pressed: bool,
}

/// What an observation made of the age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Pending,
    /// Too many came back.
    Longer,
    /// Hardly any did.
    Shorter,
    /// Hardly any did, and the program hardly ran.
    Rest,
    /// As it should be, or nothing can be said.
    Same,
}

impl ColdAge {
    pub(crate) const fn new() -> Self {
        Self {
            age_ns: SMALL_FIRST_NS,
            is_learnt: false,
            began_ns: 0,
            observed_ns: 0,
            credit_ns: FIRST_CREDIT_NS,
            peace_until_ns: 0,
            cost_ns: 0,
            window: Window {
                began_ns: 0,
                ends_ns: 0,
                cost_ns: 0,
                taken_before: 0,
                ran_before_ns: 0,
                pressed: false,
            },
        }
    }

    /// The age in force, in nanoseconds.
    pub(crate) fn in_force_ns(&self) -> u64 {
        self.age_ns
    }

    /// Whether no more pages should be taken now because of their age: too many came back.
    pub(crate) fn is_in_peace(&self) -> bool {
        self.observed_ns < self.peace_until_ns
    }

    /// How many pages may be taken now because of their age, having taken so many.
    pub(crate) fn pace(&self, taken: u64) -> u64 {
        let lived_ns = self.observed_ns - self.began_ns;
        (lived_ns / PACE / FAULT_NS).saturating_sub(taken)
    }

    fn is_early(&self) -> bool {
        self.observed_ns - self.began_ns < EARLY_NS
    }

    /// What refaults may cost in so much time.
    fn share_ns(&self, time_ns: u64, resident: u64) -> u64 {
        let of_time = match self.is_early() {
            true => time_ns / EARLY_SHARE,
            false => time_ns / SHARE,
        };
        // Of a terabyte for an hour it is less than 2^64.
        let of_pages = resident * MOST_REFAULTS / 60 * FAULT_NS / 1_000_000;
        of_time.max(of_pages * (time_ns / 1_000_000) / 1_000)
    }

    /// Takes note of how things stand.
    pub(crate) fn observe(&mut self, now_ns: u64, counts: Counts) -> Verdict {
        if self.began_ns == 0 {
            (self.began_ns, self.observed_ns) = (now_ns, now_ns);
            self.cost_ns = counts.cost_ns;
            self.open_window(&counts);
        }
        let passed_ns = now_ns.saturating_sub(self.observed_ns);
        let cost_ns = counts.cost_ns.saturating_sub(self.cost_ns);
        self.observed_ns = now_ns;
        self.cost_ns = counts.cost_ns;
        if !self.is_learnt {
            self.age_ns = first_age_ns(counts.content);
        }
        self.window.pressed |= counts.pressed;
        self.window.cost_ns += cost_ns;
        self.earn(passed_ns, &counts);
        if !self.window.pressed && self.spend(cost_ns, &counts) {
            self.open_window(&counts);
            return Verdict::Longer;
        }
        if now_ns < self.window.ends_ns {
            return Verdict::Pending;
        }
        let verdict = self.judge(&counts);
        match verdict {
            Verdict::Longer => self.lengthen(if self.is_early() { 2 } else { 4 }),
            Verdict::Shorter => self.shorten(8, LEAST_NS),
            Verdict::Rest => self.shorten(4, first_age_ns(counts.content)),
            Verdict::Pending | Verdict::Same => {}
        }
        self.open_window(&counts);
        verdict
    }

    fn earn(&mut self, passed_ns: u64, counts: &Counts) {
        let most = self.share_ns(CREDIT_FOR_NS, counts.resident);
        let earned = self.share_ns(passed_ns, counts.resident);
        self.credit_ns = (self.credit_ns + earned as i64).min(most as i64);
    }

    /// Pays for faults. Whether the credit is used up, and what follows from it was done.
    fn spend(&mut self, cost_ns: u64, counts: &Counts) -> bool {
        self.credit_ns -= cost_ns as i64;
        if self.credit_ns >= 0 || cost_ns == 0 {
            return false;
        }
        // A phase in which everything is wanted back shall not count for hours: there is credit again when the
        // program has been left in peace.
        let peace_ns = match self.is_early() {
            true => EARLY_PEACE_NS,
            false => PEACE_NS,
        };
        let least = self.share_ns(peace_ns / 2, counts.resident);
        self.credit_ns = self.credit_ns.max(-(least as i64));
        if self.is_in_peace() {
            return false;
        }
        self.peace_until_ns = self.observed_ns + peace_ns;
        self.lengthen(if self.is_early() { 1 } else { 4 });
        true
    }

    fn open_window(&mut self, counts: &Counts) {
        let lived_ns = self.observed_ns - self.began_ns;
        let length_ns = (lived_ns / WINDOW_PART).clamp(SHORTEST_WINDOW_NS, WINDOW_NS);
        self.window = Window {
            began_ns: self.observed_ns,
            ends_ns: self.observed_ns + length_ns,
            cost_ns: 0,
            taken_before: counts.taken,
            ran_before_ns: counts.ran_ns,
            pressed: false,
        };
    }

    fn judge(&self, counts: &Counts) -> Verdict {
        let length_ns = self.observed_ns - self.window.began_ns;
        let cost_ns = self.window.cost_ns;
        match self.share_ns(length_ns, counts.resident) {
            _ if self.window.pressed => Verdict::Same,
            share if cost_ns > share => Verdict::Longer,
            share if cost_ns < share / 2 && self.may_shorten_for_rest(length_ns, counts) => {
                Verdict::Rest
            }
            // Where nothing was taken nothing could come back.
            share if cost_ns < share / 2 && counts.taken > self.window.taken_before => {
                Verdict::Shorter
            }
            _ => Verdict::Same,
        }
    }

    /// The program has rested in this window, and the age is longer than it was at first.
    fn may_shorten_for_rest(&self, length_ns: u64, counts: &Counts) -> bool {
        let ran_ns = counts.ran_ns.saturating_sub(self.window.ran_before_ns);
        ran_ns < length_ns / REST && self.age_ns > first_age_ns(counts.content)
    }

    fn lengthen(&mut self, part: u64) {
        self.is_learnt = true;
        // A program that is busy at first may be idle afterwards.
        let most_ns = match self.is_early() {
            true => SMALL_FIRST_NS.max(self.age_ns),
            false => MOST_AGE_NS,
        };
        self.age_ns = (self.age_ns + self.age_ns / part).min(most_ns);
    }

    fn shorten(&mut self, part: u64, least_ns: u64) {
        self.is_learnt = true;
        self.age_ns = (self.age_ns - self.age_ns / part).max(least_ns);
    }
}

/// The age to begin with, of a program with so many pages.
fn first_age_ns(content: u64) -> u64 {
    let smaller = LARGE_PAGES * FIRST_NS / content.max(1);
    smaller.clamp(FIRST_NS, SMALL_FIRST_NS)
}

#[cfg(test)]
mod tests;
