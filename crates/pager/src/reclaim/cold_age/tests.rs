//! The cold age against figures, and against programs of known habits.

extern crate std;

use super::*;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{vec, vec::Vec};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// Of a program that never rests: it has run for a hundred seconds more each time.
fn counts(refaults: u64, taken: u64) -> Counts {
    static RAN_NS: AtomicU64 = AtomicU64::new(0);
    Counts {
        cost_ns: refaults * FAULT_NS,
        resident: 1 << 17,
        content: 1 << 17,
        taken,
        ran_ns: RAN_NS.fetch_add(100 * S, Relaxed),
        pressed: false,
    }
}

/// An age that has been in force for so many seconds, with nothing taken.
fn after(seconds: u64) -> ColdAge {
    let mut age = ColdAge::new();
    for second in 0..=seconds {
        age.observe((1 + second) * S, counts(0, 0));
    }
    age
}

#[test]
fn it_begins_in_seconds_where_there_is_much() {
    let first = |mib: u64| first_age_ns(mib << 8) / MS;
    assert_eq!(first(0), 60_000);
    assert_eq!(first(8), 16_000);
    assert_eq!(first(32), 4_000);
    assert_eq!(first(64), 2_000);
    assert_eq!(first(64 << 10), 2_000);
    let mut age = ColdAge::new();
    let small = Counts {
        content: 8 << 8,
        ..counts(0, 0)
    };
    age.observe(S, small);
    assert_eq!(age.in_force_ns(), 16 * S);
    age.observe(2 * S, counts(0, 0));
    assert_eq!(age.in_force_ns(), 2 * S, "it grows into it");
}

#[test]
fn too_many_make_it_longer_at_once_and_leave_the_program_in_peace() {
    let mut age = after(10);
    let credit = age.credit_ns as u64;
    assert_eq!(credit, FIRST_CREDIT_NS as u64 + 10 * S / EARLY_SHARE);
    let now = 11 * S + 10 * MS;
    let pages = credit / FAULT_NS;
    assert_eq!(age.observe(now, counts(pages, 1)), Verdict::Pending);
    assert!(!age.is_in_peace());
    let verdict = age.observe(now + 10 * MS, counts(pages + 20, 1));
    assert_eq!((verdict, age.in_force_ns()), (Verdict::Longer, 4 * S));
    assert!(age.is_in_peace());
    // What was taken before comes back meanwhile: that is one lesson, not many.
    let verdict = age.observe(now + 20 * MS, counts(pages + 90_000, 1));
    assert_eq!((verdict, age.in_force_ns()), (Verdict::Pending, 4 * S));
    age.observe(now + 10 * MS + EARLY_PEACE_NS, counts(pages + 90_000, 1));
    assert!(!age.is_in_peace(), "and has credit again");
    assert!(age.credit_ns > 0);
}

#[test]
fn each_window_is_judged_for_itself() {
    let mut age = after(100);
    let (mut now, mut refaults, mut taken) = (101 * S, 0, 0);
    let mut window = |age: &mut ColdAge, more: u64| {
        (now, refaults, taken) = (now + WINDOW_NS, refaults + more, taken + 1);
        // The credit is not what this is about.
        age.credit_ns = 1 << 40;
        age.observe(now, counts(refaults, taken))
    };
    let share = WINDOW_NS / SHARE / FAULT_NS;
    window(&mut age, share);
    let before = age.in_force_ns();
    assert_eq!(window(&mut age, share + 1), Verdict::Longer);
    assert_eq!(age.in_force_ns(), before + before / 4);
    assert_eq!(window(&mut age, share), Verdict::Same);
    assert_eq!(window(&mut age, share / 2), Verdict::Same);
    assert_eq!(window(&mut age, share / 2 - 1), Verdict::Shorter);
    for _ in 0..100 {
        window(&mut age, 0);
    }
    assert_eq!(age.in_force_ns(), LEAST_NS);
    for _ in 0..100 {
        window(&mut age, 9_000);
    }
    assert_eq!(age.in_force_ns(), MOST_AGE_NS);
}

#[test]
fn in_a_large_program_more_may_come_back() {
    let age = after(100);
    assert_eq!(age.share_ns(WINDOW_NS, 1000), WINDOW_NS / SHARE);
    // 64 GiB: 0.2 % a minute are 5,592 pages in ten seconds.
    let pages = age.share_ns(WINDOW_NS, 1 << 24) / FAULT_NS;
    assert!((5_500..5_600).contains(&pages), "{pages}");
    assert!(age.share_ns(3_600 * S, 1 << 28) < i64::MAX as u64);
}

#[test]
fn where_nothing_was_taken_nothing_is_learnt() {
    let mut age = after(100);
    let before = age.in_force_ns();
    assert_eq!(
        age.observe(111 * S + 1, counts(0, 0)),
        Verdict::Same,
        "nothing could come back"
    );
    assert_eq!(age.in_force_ns(), before);
}

#[test]
fn a_program_that_rests_has_its_first_age_again_soon() {
    let mut age = after(100);
    let (mut now, mut ran_ns) = (101 * S, 200 * S);
    let mut window = |age: &mut ColdAge, ran_more_ns: u64, refaults: u64| {
        (now, ran_ns) = (now + WINDOW_NS, ran_ns + ran_more_ns);
        let counts = Counts {
            ran_ns,
            ..counts(refaults, 0)
        };
        age.credit_ns = 1 << 40;
        age.observe(now, counts)
    };
    // Where the window before it ends.
    window(&mut age, 0, 0);
    (age.age_ns, age.is_learnt) = (60 * S, true);
    let most = WINDOW_NS / REST;
    assert_eq!(window(&mut age, most, 0), Verdict::Same, "it ran");
    assert_eq!(window(&mut age, most - 1, 0), Verdict::Rest);
    assert_eq!(age.in_force_ns(), 45 * S);
    let refaults = WINDOW_NS / SHARE / FAULT_NS;
    let verdict = window(&mut age, 0, refaults);
    assert_eq!(verdict, Verdict::Same, "but wants some of it");
    for _ in 0..20 {
        window(&mut age, 0, refaults);
    }
    assert_eq!(age.in_force_ns(), 2 * S);
    assert_eq!(window(&mut age, 0, refaults), Verdict::Same, "no further");
}

#[test]
fn what_the_budget_does_is_not_the_ages_fault() {
    let mut age = after(100);
    let before = (age.in_force_ns(), age.credit_ns);
    let pressed = Counts {
        pressed: true,
        ..counts(1_000_000, 1)
    };
    age.observe(101 * S + MS, pressed);
    let verdict = age.observe(112 * S, counts(1_000_000, 1));
    assert_eq!((verdict, age.in_force_ns()), (Verdict::Same, before.0));
    assert!(age.credit_ns >= before.1 && !age.is_in_peace());
}

/// A program, page by page, as far as the cold age can tell: pages in place since when, or away.
struct Program {
    in_since_ns: Vec<u64>,
    away: Vec<bool>,
    chances: Vec<u8>,
    taken: u64,
    lost_ns: u64,
    ran_ns: u64,
    age: ColdAge,
    now_ns: u64,
}

impl Program {
    fn new(pages: usize) -> Self {
        Self {
            in_since_ns: vec![S; pages],
            away: vec![false; pages],
            chances: vec![0; pages],
            taken: 0,
            lost_ns: 0,
            ran_ns: 0,
            age: ColdAge::new(),
            now_ns: S,
        }
    }

    fn touch(&mut self, page: usize) {
        if self.away[page] {
            self.away[page] = false;
            self.in_since_ns[page] = self.now_ns;
            self.chances[page] = (self.chances[page] * 2 + 1).min(15);
            self.lost_ns += FAULT_NS;
        }
    }

    /// Ten milliseconds: a batch at most is taken; then the program touches what `touched` gives.
    fn step(&mut self, touched: impl Iterator<Item = usize>) {
        self.now_ns += 10 * MS;
        let away = self.away.iter().filter(|&&away| away).count();
        let content = self.away.len() as u64;
        self.age.observe(
            self.now_ns,
            Counts {
                cost_ns: self.lost_ns,
                resident: content - away as u64,
                content,
                taken: self.taken,
                ran_ns: self.ran_ns,
                pressed: false,
            },
        );
        let mut room = match self.age.is_in_peace() {
            true => 0,
            false => self.age.pace(self.taken).min(384),
        };
        let old = self.now_ns.saturating_sub(self.age.in_force_ns());
        for page in 0..self.away.len() {
            if room > 0 && !self.away[page] && self.in_since_ns[page] < old {
                if self.chances[page] > 0 {
                    self.chances[page] -= 1;
                    self.in_since_ns[page] = self.now_ns;
                    continue;
                }
                self.away[page] = true;
                self.taken += 1;
                room -= 1;
            }
        }
        for page in touched {
            self.touch(page);
            self.ran_ns += MS;
        }
    }

    fn away_share(&self) -> f64 {
        self.away.iter().filter(|&&away| away).count() as f64 / self.away.len() as f64
    }

    fn lost_share(&self) -> f64 {
        self.lost_ns as f64 / (self.now_ns - S) as f64
    }
}

const PAGES: usize = 5_000;

#[test]
fn an_idle_program_is_compressed_within_seconds() {
    let mut program = Program::new(20_000);
    for _ in 0..400 {
        program.step(0..0);
    }
    assert!(program.away_share() > 0.99, "{}", program.away_share());
    assert_eq!(program.lost_ns, 0);
}

#[test]
fn a_program_that_uses_all_of_it_loses_little() {
    let mut program = Program::new(PAGES);
    let mut seconds = Vec::new();
    for step in 0..12_000usize {
        // All of it in a fifth of a second, again and again.
        let begin = step % 20 * (PAGES / 20);
        program.step(begin..begin + PAGES / 20);
        if step % 1000 == 999 {
            seconds.push(program.lost_share());
        }
    }
    assert!(seconds[0] < 0.02, "of ten seconds: {seconds:?}");
    assert!(seconds[5] < 0.01, "of a minute: {seconds:?}");
    assert!(seconds[11] < 0.007, "of two minutes: {seconds:?}");
    assert!(program.age.in_force_ns() <= 2 * SMALL_FIRST_NS);
}

#[test]
fn hot_pages_are_found_and_the_rest_goes() {
    let mut program = Program::new(PAGES);
    for step in 0..6_000usize {
        let hot = PAGES / 5;
        let begin = step % 10 * (hot / 10);
        program.step(begin..begin + hot / 10);
    }
    assert!(program.away_share() > 0.7, "{}", program.away_share());
    assert!(program.lost_share() < 0.01, "{}", program.lost_share());
}

/// Everything was cold and is wanted at once: no more than the pace has allowed is lost.
#[test]
fn the_worst_moment_costs_an_eighth_of_the_time_at_most() {
    for steps in [300, 400] {
        let mut program = Program::new(40_000);
        for _ in 0..steps {
            program.step(0..0);
        }
        program.step(0..40_000);
        let share = program.lost_share();
        assert!(share <= 1.0 / PACE as f64, "after {steps}: {share}");
    }
}
