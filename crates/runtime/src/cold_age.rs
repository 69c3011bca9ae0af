//! The age from which pages are compressed although there is room, where it is not given: chosen by
//! what it costs the program.
//!
//! A page that was taken and is wanted again costs a fault. Two measures say how many are right: 0.2 % of
//! the pages in place a minute (Google's far memory, ASPLOS 2019), or a thousandth of the time (Meta's TMO,
//! ASPLOS 2022, holds stalls at that), whichever is more: in a small program 0.2 % is next to nothing, and hot
//! pages have to come back once before they are known to be hot. With fewer pages are let grow cold sooner,
//! with more later. Each window is judged for itself; it ends early for compressing, not for judging,
//! when it has had ten times its share ([`ColdAge::has_had_enough`]): so an age that turns out far too short
//! costs a hundredth of the time, and for one window.
//!
//! Windows in which the budget, or the machine's want, made pages go say nothing of the age, and change nothing.

/// Refaults a minute, of a million pages in place: 0.2 %.
const MOST_REFAULTS: u64 = 2_000;

/// How long one window lasts.
const WINDOW_NS: u64 = 10_000_000_000;

/// A window that has had so many times its share is left in peace.
const ENOUGH: u64 = 10;

/// So many refaults in one window cost a thousandth of its time, at 10 µs each.
const CHEAP: u64 = WINDOW_NS / 1000 / 10_000;

const LEAST_NS: u64 = 5_000_000_000;
const FIRST_NS: u64 = 60_000_000_000;
const MOST_AGE_NS: u64 = 3_600_000_000_000;

/// The age in force, and the window that is being judged.
#[derive(Debug)]
pub(crate) struct ColdAge {
    age_ns: u64,
    began_ns: u64,
    /// Refaults before the window.
    before: u64,
    /// Refaults in it.
    refaults: u64,
    resident: u64,
    pressed: bool,
    /// Pages taken for their age before the window, and in it.
    taken_before: u64,
    taken: u64,
}

/// How things stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Pages that came back, ever.
    pub refaults: u64,
    /// Pages in place.
    pub resident: u64,
    /// Pages taken for their age, ever.
    pub taken: u64,
    /// Pages are made to go now for another reason: the budget, or the machine.
    pub pressed: bool,
}

/// What a window made of the age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The window is not over.
    Pending,
    /// Too many came back.
    Longer,
    /// Hardly any did.
    Shorter,
    /// As it should be, or nothing can be said.
    Same,
}

impl ColdAge {
    pub(crate) const fn new() -> Self {
        Self {
            age_ns: FIRST_NS,
            began_ns: 0,
            before: 0,
            refaults: 0,
            resident: 0,
            pressed: false,
            taken_before: 0,
            taken: 0,
        }
    }

    /// The age in force, in nanoseconds.
    pub(crate) fn in_force_ns(&self) -> u64 {
        self.age_ns
    }

    /// Refaults that a window may have, with so many pages in place.
    fn share(&self) -> u64 {
        let a_minute = self.resident * MOST_REFAULTS / 1_000_000;
        (a_minute * (WINDOW_NS / 1_000_000_000) / 60).max(CHEAP)
    }

    /// Whether no more pages should be taken in this window because of their age.
    pub(crate) fn has_had_enough(&self) -> bool {
        self.refaults > ENOUGH * self.share()
    }

    /// Takes note of how things stand.
    pub(crate) fn observe(&mut self, now_ns: u64, counts: Counts) -> Verdict {
        if self.began_ns == 0 {
            self.begin(now_ns, counts);
        }
        self.refaults = counts.refaults - self.before;
        self.taken = counts.taken - self.taken_before;
        self.resident = counts.resident;
        self.pressed |= counts.pressed;
        if now_ns - self.began_ns < WINDOW_NS {
            return Verdict::Pending;
        }
        let verdict = self.judge();
        match verdict {
            Verdict::Longer => self.age_ns = (self.age_ns + self.age_ns / 4).min(MOST_AGE_NS),
            Verdict::Shorter => self.age_ns = (self.age_ns - self.age_ns / 8).max(LEAST_NS),
            Verdict::Pending | Verdict::Same => {}
        }
        self.begin(now_ns, counts);
        verdict
    }

    fn begin(&mut self, now_ns: u64, counts: Counts) {
        self.began_ns = now_ns;
        self.before = counts.refaults;
        self.taken_before = counts.taken;
        self.refaults = 0;
        self.taken = 0;
        self.pressed = false;
    }

    fn judge(&self) -> Verdict {
        match self.share() {
            _ if self.pressed => Verdict::Same,
            share if self.refaults > share => Verdict::Longer,
            // Where nothing was taken nothing could come back.
            share if self.refaults < share / 2 && self.taken > 0 => Verdict::Shorter,
            _ => Verdict::Same,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 GiB in place: 5,592 refaults a window are allowed.
    const RESIDENT: u64 = 1 << 24;
    const ALLOWED: u64 = 5_592;

    fn counts(refaults: u64, taken: u64) -> Counts {
        Counts {
            refaults,
            resident: RESIDENT,
            taken,
            pressed: false,
        }
    }

    /// So many windows after each other, with so many refaults each; pages are taken in all of them.
    fn windows(age: &mut ColdAge, count: u64, a_window: u64) -> Verdict {
        let (began, before, taken) = (age.began_ns.max(1), age.before, age.taken_before);
        let mut verdict = age.observe(began, counts(before, taken));
        for n in 1..=count {
            let now = counts(before + n * a_window, taken + n);
            verdict = age.observe(began + n * WINDOW_NS, now);
        }
        verdict
    }

    #[test]
    fn it_grows_while_pages_come_back_and_shrinks_while_they_do_not() {
        let mut age = ColdAge::new();
        assert_eq!(windows(&mut age, 1, ALLOWED + 1), Verdict::Longer);
        assert_eq!(age.in_force_ns(), FIRST_NS / 4 * 5);
        assert_eq!(windows(&mut age, 1, ALLOWED), Verdict::Same);
        assert_eq!(windows(&mut age, 1, ALLOWED / 2), Verdict::Same);
        assert_eq!(windows(&mut age, 1, ALLOWED / 2 - 1), Verdict::Shorter);
        assert_eq!(age.in_force_ns(), FIRST_NS / 4 * 5 / 8 * 7);
        windows(&mut age, 100, 0);
        assert_eq!(age.in_force_ns(), LEAST_NS);
        windows(&mut age, 100, 100_000);
        assert_eq!(age.in_force_ns(), MOST_AGE_NS);
    }

    #[test]
    fn in_a_small_program_a_thousandth_of_the_time_is_allowed() {
        for (refaults, expected) in [(1000, Verdict::Same), (1001, Verdict::Longer)] {
            let mut age = ColdAge::new();
            let now = |refaults, taken| Counts {
                resident: 1000,
                ..counts(refaults, taken)
            };
            age.observe(1, now(0, 0));
            let verdict = age.observe(1 + WINDOW_NS, now(refaults, 1));
            assert_eq!(verdict, expected);
        }
    }

    #[test]
    fn where_nothing_was_taken_nothing_is_learnt() {
        let mut age = ColdAge::new();
        age.observe(1, counts(0, 7));
        assert_eq!(age.observe(1 + WINDOW_NS, counts(0, 7)), Verdict::Same);
        assert_eq!(
            age.observe(1 + 2 * WINDOW_NS, counts(0, 8)),
            Verdict::Shorter
        );
    }

    #[test]
    fn a_window_that_has_had_its_share_is_left_in_peace() {
        let mut age = ColdAge::new();
        age.observe(1, counts(1000, 0));
        age.observe(2, counts(1000 + 10 * ALLOWED, 0));
        assert!(!age.has_had_enough());
        age.observe(3, counts(1001 + 10 * ALLOWED, 0));
        assert!(age.has_had_enough());
        age.observe(1 + WINDOW_NS, counts(1001 + 10 * ALLOWED, 0));
        assert!(!age.has_had_enough(), "the next one is another");
    }

    #[test]
    fn what_the_budget_does_is_not_the_ages_fault() {
        let mut age = ColdAge::new();
        let pressed = Counts {
            pressed: true,
            ..counts(10, 1)
        };
        age.observe(1, counts(0, 0));
        age.observe(2, pressed);
        let verdict = age.observe(1 + WINDOW_NS, counts(1_000_000, 1));
        assert_eq!((verdict, age.in_force_ns()), (Verdict::Same, FIRST_NS));
    }
}
