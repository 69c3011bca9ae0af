//! What `run` says while the program runs: that its budget cannot be kept, or is kept at a price that nobody
//! wants, and which command to try.
//!
//! The parent looks at the statistics page and compares it with the look before. What is wrong at
//! [`CONVINCED`] looks in a row is said, and said again a minute later if it has not ended, then four minutes after that,
//! and so on. Another budget is another matter, and judged anew. The pager knows nothing of it and writes no text.

use crate::advice::Advice;
use crate::duration::format_cold_after;
use crate::memory_limit;
use crate::own_name;
use crate::size::format_bytes;
use crate::statistics_file;
use crate::sums::{Spent, is_incompressible, percent, slowdown};
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::{Failure, Statistics};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Looks in a row that must agree.
const CONVINCED: u32 = 3;
/// The shortest time between two looks that are compared.
const LEAST: Duration = Duration::from_millis(900);
/// Time until something is said for the second time; for the third, four times as long.
const AGAIN: Duration = Duration::from_secs(60);
/// So much slower is a price that nobody wants.
const DEAR: f64 = 3.0;

/// What was seen of all processes.
#[derive(Debug)]
pub struct Notices {
    quiet: bool,
    began: Instant,
    seen: HashMap<u32, Seen>,
}

impl Notices {
    /// Nothing was seen yet. `quiet`: nothing shall be said.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            began: Instant::now(),
            seen: HashMap::new(),
        }
    }

    /// Looks at a process; the lines that there are to say.
    pub fn look(&mut self, pid: u32, s: &Statistics) -> Vec<String> {
        if self.quiet {
            return Vec::new();
        }
        let now = self.began.elapsed();
        let seen = self.seen.entry(pid).or_default();
        let limit = || memory_limit::group_bytes_of(pid);
        let mut lines = seen.look(now, s, limit).unwrap_or_default();
        if let Some(first) = lines.first_mut() {
            *first = format!("{} ({pid}): {first}", statistics_file::program(s));
        }
        lines
    }

    /// Forgets those that are not among `running`.
    pub fn keep(&mut self, running: &[u32]) {
        self.seen.retain(|pid, _| running.contains(pid));
    }
}

/// Figures of one look.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: Duration,
    budget_bytes: u64,
    budgeted_ns: u64,
    above_ns: u64,
    managed_ns: u64,
    spent: Spent,
    evicted: Evicted,
}

/// Pages that were compressed, by the reason.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted {
    /// For their age.
    by_age: u64,
    /// Near the budget, or above it.
    by_budget: u64,
}

impl Evicted {
    fn of(s: &Statistics) -> Self {
        let get = |word: &AtomicU64| word.load(Relaxed);
        Self {
            by_age: get(&s.eager_compressions),
            by_budget: get(&s.pressure_compressions) + get(&s.critical_compressions),
        }
    }

    /// Adds those from `before` to `now`.
    fn add(&mut self, before: Self, now: Self) {
        self.by_age += now.by_age.saturating_sub(before.by_age);
        self.by_budget += now.by_budget.saturating_sub(before.by_budget);
    }

    /// Whether most went for their age.
    fn mostly_by_age(self) -> bool {
        self.by_age > self.by_budget
    }
}

impl Look {
    fn at(now: Duration, s: &Statistics) -> Self {
        let get = |word: &AtomicU64| word.load(Relaxed);
        Self {
            at: now,
            budget_bytes: get(&s.budget_bytes),
            budgeted_ns: get(&s.budgeted_ns),
            above_ns: get(&s.above_budget_ns),
            managed_ns: get(&s.managed_ns),
            spent: Spent::of(s),
            evicted: Evicted::of(s),
        }
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wrong {
    /// Memory stays above the budget.
    OutOfReach,
    /// It waits as below, since the memory group is full.
    Crowded(f64),
    /// The program waits for its pages most of the time; so many times as long as without it takes what it does.
    Dear(f64),
    /// It waits as above, for pages that were mostly evicted for their age.
    Aged(f64),
}

/// What was seen of a process.
#[derive(Debug, Default)]
struct Seen {
    last: Look,
    in_a_row: u32,
    /// The least of how many times slower it was, at the looks in a row that found it so.
    times: Option<f64>,
    /// At one of them its memory group was full: that comes and goes within moments.
    is_crowded: bool,
    /// What was evicted at these looks, since something was said.
    evicted: Evicted,
    said: u32,
    say_again_at: Duration,
}

impl Seen {
    /// `limit`: that of the process's memory group, if it has one.
    fn look(
        &mut self,
        now: Duration,
        s: &Statistics,
        limit: impl FnOnce() -> Option<u64>,
    ) -> Option<Vec<String>> {
        let look = Look::at(now, s);
        let last = self.last;
        if last.at > Duration::ZERO && now < last.at + LEAST {
            return None;
        }
        self.last = look;
        if look.budget_bytes != last.budget_bytes {
            (self.in_a_row, self.said, self.times) = (0, 0, None);
            self.say_again_at = Duration::ZERO;
            self.evicted = Evicted::default();
            return None;
        }
        let Some(mut wrong) = judge(&last, &look, s) else {
            (self.in_a_row, self.times, self.is_crowded) = (0, None, false);
            self.evicted = Evicted::default();
            return None;
        };
        self.evicted.add(last.evicted, look.evicted);
        self.is_crowded |= matches!(wrong, Wrong::Crowded(_));
        if let Wrong::Dear(times) = wrong {
            wrong = match () {
                () if self.is_crowded => Wrong::Crowded(times),
                () if self.evicted.mostly_by_age() => Wrong::Aged(times),
                () => Wrong::Dear(times),
            };
        }
        self.times = match &mut wrong {
            Wrong::OutOfReach => None,
            Wrong::Crowded(times) | Wrong::Dear(times) | Wrong::Aged(times) => {
                *times = self.times.map_or(*times, |least| times.min(least));
                Some(*times)
            }
        };
        self.in_a_row += 1;
        if self.in_a_row < CONVINCED || now < self.say_again_at {
            return None;
        }
        self.say_again_at = now + AGAIN * 4u32.saturating_pow(self.said.min(8));
        self.said += 1;
        self.evicted = Evicted::default();
        Some(say(wrong, s, limit()))
    }
}

fn judge(last: &Look, look: &Look, s: &Statistics) -> Option<Wrong> {
    if look.budget_bytes == NO_BUDGET {
        return None;
    }
    let since = |now: u64, before: u64| now.saturating_sub(before);
    let budgeted = since(look.budgeted_ns, last.budgeted_ns);
    let above = since(look.above_ns, last.above_ns);
    let total = s.total_bytes.load(Relaxed);
    let much = look.budget_bytes + (look.budget_bytes / 20).max(1 << 20);
    if budgeted > 0 && above >= budgeted / 10 * 9 && total > much {
        return Some(Wrong::OutOfReach);
    }
    let spent = look.spent.since(&last.spent);
    let base = spent.base_ns(since(look.managed_ns, last.managed_ns));
    let times = slowdown(base, spent.lost_ns(base));
    let wrong = match s.beside_bytes.load(Relaxed) {
        0 => Wrong::Dear,
        _ => Wrong::Crowded,
    };
    (times >= DEAR).then_some(wrong(times))
}

fn say(wrong: Wrong, s: &Statistics, group_bytes: Option<u64>) -> Vec<String> {
    let get = |word: &AtomicU64| word.load(Relaxed);
    let (total, content) = (get(&s.total_bytes), get(&s.content_bytes));
    let budget = format_bytes(get(&s.budget_bytes));
    let advice = Advice::of(s, group_bytes);
    let held = advice.as_ref().map_or(total, |advice| advice.held_bytes);
    let natively = format!(
        "natively it would hold {}; the nearer to that, the faster",
        format_bytes(content)
    );
    let waits = |times: f64| {
        let share = percent(1.0 - 1.0 / times);
        format!("it waits for pages {share} of the time")
    };
    let incompressible = is_incompressible(get(&s.failed_pages), content);
    let (first, second) = match (wrong, incompressible) {
        (Wrong::OutOfReach, Some(share)) => (
            format!("budget of {budget} out of reach"),
            format!(
                "at least {} {}: it holds {}, {} at most",
                percent(share),
                why_it_stays(s),
                format_bytes(total),
                format_bytes(held.max(total))
            ),
        ),
        (Wrong::OutOfReach, None) => (
            format!(
                "holds {} now: its budget of {budget} is too small",
                format_bytes(total)
            ),
            natively,
        ),
        (Wrong::Dear(times), _) => (
            format!("with a budget of {budget} {}", waits(times)),
            natively,
        ),
        (Wrong::Aged(times), _) => (
            format!(
                "with a cold age of {} {}",
                format_cold_after(get(&s.cold_after_ms)),
                waits(times)
            ),
            format!("most pages are evicted by age, not by the budget of {budget}"),
        ),
        (Wrong::Crowded(times), incompressible) => (
            format!("its memory group is full: {}", waits(times)),
            match incompressible {
                Some(share) => format!(
                    "at least {} of its own memory {}",
                    percent(share),
                    why_it_stays(s)
                ),
                None => "raise the limit of the group, or run fewer processes in it".to_owned(),
            },
        ),
    };
    let command = match wrong {
        // No budget of its own mends it.
        Wrong::Crowded(_) => None,
        Wrong::Aged(_) => Some(format!(
            "to try: {} set {} cold-after=none",
            own_name::get(),
            get(&s.pid)
        )),
        _ => advice.map(|advice| advice.while_it_runs()),
    };
    [first, second].into_iter().chain(command).collect()
}

/// Why pages stay that were tried, by what was met most often: a child that was forked shares them, or something has
/// pinned or merged them (the kernel refuses these alike); they are locked, or may not be written; or they do not compress.
fn why_it_stays(s: &Statistics) -> &'static str {
    const COMPRESSION: &str = "does not compress";
    // Of those met equally often the last.
    let reasons = [
        (Failure::MoveInvalid, "is locked, or may not be written"),
        (
            Failure::MoveBusy,
            "is shared with a child, pinned or merged",
        ),
        (Failure::Incompressible, COMPRESSION),
    ];
    let most = reasons
        .into_iter()
        .max_by_key(|&(reason, _)| s.failed(reason));
    most.map_or(COMPRESSION, |(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closing;
    use crate::sums::Young;

    const MIB: u64 = 1 << 20;
    const S: u64 = 1_000_000_000;

    fn say(wrong: Wrong, s: &Statistics) -> Vec<String> {
        super::say(wrong, s, None)
    }

    fn page() -> Statistics {
        let s = Statistics::new();
        s.pid.store(4242, Relaxed);
        s.budget_bytes.store(40 * MIB, Relaxed);
        s.total_bytes.store(82 * MIB, Relaxed);
        s.peak_total_bytes.store(82 * MIB, Relaxed);
        s.most_above_budget_bytes.store(42 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(42 * MIB, Relaxed);
        s.content_bytes.store(88 * MIB, Relaxed);
        s.failed_pages.store(78 * 256, Relaxed);
        s
    }

    /// A look each second from `from` on, so many times; each with what `step` does to the page before.
    fn looks(seen: &mut Seen, s: &Statistics, from: u64, count: u64, step: impl Fn()) -> Vec<u64> {
        let mut said = Vec::new();
        for second in from..from + count {
            s.managed_ns.fetch_add(S, Relaxed);
            s.budgeted_ns.fetch_add(S, Relaxed);
            step();
            if let Some(lines) = seen.look(Duration::from_secs(second), s, || None) {
                assert!(lines.iter().all(|line| line.len() <= 69), "{lines:?}");
                said.push(second);
            }
        }
        said
    }

    #[test]
    fn a_budget_out_of_reach_is_said_once_and_then_seldom() {
        let s = page();
        let mut seen = Seen::default();
        let above = || {
            let _ = s.above_budget_ns.fetch_add(S, Relaxed);
        };
        let said = looks(&mut seen, &s, 1, 400, above);
        assert_eq!(said, [4, 64, 304], "the first look compares with nothing");
        s.budget_bytes.store(50 * MIB, Relaxed);
        let said = looks(&mut seen, &s, 401, 10, above);
        assert_eq!(said, [404], "another budget is another matter");
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        assert_eq!(looks(&mut seen, &s, 500, 10, above), [] as [u64; 0]);
    }

    #[test]
    fn what_lasts_for_a_moment_or_is_a_little_is_not_said() {
        let s = page();
        let none = [] as [u64; 0];
        let mut seen = Seen::default();
        let half = || {
            let _ = s.above_budget_ns.fetch_add(S / 2, Relaxed);
        };
        assert_eq!(looks(&mut seen, &s, 1, 50, half), none);
        let above = || {
            let _ = s.above_budget_ns.fetch_add(S, Relaxed);
        };
        assert_eq!(looks(&mut seen, &s, 51, 2, above), none);
        assert_eq!(looks(&mut seen, &s, 53, 2, half), none);
        s.total_bytes.store(41 * MIB, Relaxed);
        assert_eq!(looks(&mut seen, &s, 60, 50, above), none);
    }

    #[test]
    fn a_budget_that_is_kept_at_a_high_price_is_said_too() {
        let s = page();
        s.total_bytes.store(39 * MIB, Relaxed);
        let mut seen = Seen::default();
        let dear = || {
            let _ = s.fault_wait_ns.fetch_add(S / 4 * 3, Relaxed);
        };
        assert_eq!(looks(&mut seen, &s, 1, 10, dear), [4]);
        let mut seen = Seen::default();
        let cheap = || {
            let _ = s.fault_wait_ns.fetch_add(S / 2, Relaxed);
        };
        assert_eq!(looks(&mut seen, &s, 1, 10, cheap), [] as [u64; 0]);
    }

    /// With `--cold-after 1s` beside a budget that was far away the budget was called too small.
    #[test]
    fn a_cold_age_that_costs_is_named_and_not_the_budget() {
        let s = page();
        s.total_bytes.store(20 * MIB, Relaxed);
        s.cold_after_ms.store(1_000, Relaxed);
        let mut seen = Seen::default();
        let mut said = Vec::new();
        let mut look = |second, by_age, by_budget| {
            s.managed_ns.fetch_add(S, Relaxed);
            s.budgeted_ns.fetch_add(S, Relaxed);
            s.fault_wait_ns.fetch_add(S / 4 * 3, Relaxed);
            s.eager_compressions.fetch_add(by_age, Relaxed);
            s.critical_compressions.fetch_add(by_budget, Relaxed);
            said.extend(seen.look(Duration::from_secs(second), &s, || None));
        };
        // What went before it was slow does not count.
        look(1, 0, 1_000_000);
        (2..=4).for_each(|second| look(second, 5_000, 100));
        // A minute later it is the budget.
        (5..=64).for_each(|second| look(second, 10, 100));
        assert_eq!(
            said[0],
            [
                "with a cold age of 1 s it waits for pages 75 % of the time",
                "most pages are evicted by age, not by the budget of 40.0 MiB",
                "to try: coldpress set 4242 cold-after=none",
            ]
        );
        assert!(
            said[1][0].starts_with("with a budget of 40.0 MiB "),
            "{said:?}"
        );
    }

    #[test]
    fn a_full_group_is_not_mended_by_a_budget() {
        let s = page();
        s.total_bytes.store(39 * MIB, Relaxed);
        s.beside_bytes.store(3 * MIB, Relaxed);
        let mut seen = Seen::default();
        let dear = || {
            let _ = s.fault_wait_ns.fetch_add(S / 4 * 3, Relaxed);
        };
        assert_eq!(looks(&mut seen, &s, 1, 10, dear), [4]);
        assert_eq!(
            say(Wrong::Crowded(4.0), &s),
            [
                "its memory group is full: it waits for pages 75 % of the time",
                "at least 89 % of its own memory does not compress"
            ]
        );
        s.failed_pages.store(0, Relaxed);
        assert_eq!(
            say(Wrong::Crowded(4.0), &s)[1],
            "raise the limit of the group, or run fewer processes in it"
        );
    }

    #[test]
    fn a_group_that_was_full_a_moment_ago_is_what_is_said() {
        let s = page();
        s.total_bytes.store(39 * MIB, Relaxed);
        let mut seen = Seen::default();
        let mut said = Vec::new();
        for second in 1..=4 {
            s.managed_ns.fetch_add(S, Relaxed);
            s.budgeted_ns.fetch_add(S, Relaxed);
            s.fault_wait_ns.fetch_add(S / 4 * 3, Relaxed);
            let beside = if second == 2 { 3 * MIB } else { 0 };
            s.beside_bytes.store(beside, Relaxed);
            said.extend(seen.look(Duration::from_secs(second), &s, || None));
        }
        assert_eq!(said.len(), 1);
        assert!(
            said[0][0].starts_with("its memory group is full"),
            "{said:?}"
        );
    }

    #[test]
    fn how_dear_a_budget_is_does_not_come_from_when_it_was_out_of_reach() {
        let s = page();
        let mut seen = Seen::default();
        let above = || {
            let _ = s.above_budget_ns.fetch_add(S, Relaxed);
        };
        let none = [] as [u64; 0];
        assert_eq!(looks(&mut seen, &s, 1, 3, above), none);
        s.total_bytes.store(39 * MIB, Relaxed);
        let _ = s.managed_ns.fetch_add(S, Relaxed);
        let _ = s.fault_wait_ns.fetch_add(S / 10 * 9, Relaxed);
        let said = seen
            .look(Duration::from_secs(4), &s, || None)
            .expect("three in a row");
        assert_eq!(
            said[0],
            "with a budget of 40.0 MiB it waits for pages 90 % of the time"
        );
    }

    #[test]
    fn the_mend_is_a_command() {
        let s = page();
        assert_eq!(
            say(Wrong::OutOfReach, &s),
            [
                "budget of 40.0 MiB out of reach",
                "at least 89 % does not compress: it holds 82.0 MiB, 82.0 MiB at most",
                "to try: coldpress set 4242 budget=85M",
            ]
        );
        s.fail(Failure::MoveBusy);
        let shared = "at least 89 % is shared with a child, pinned or merged: it holds 82.0 MiB, 82.0 MiB at most";
        assert_eq!(say(Wrong::OutOfReach, &s)[1], shared);
        (0..2).for_each(|_| s.fail(Failure::MoveInvalid));
        let locked =
            "at least 89 % is locked, or may not be written: it holds 82.0 MiB, 82.0 MiB at most";
        assert_eq!(say(Wrong::OutOfReach, &s)[1], locked);
        s.failed_pages.store(0, Relaxed);
        assert_eq!(
            say(Wrong::OutOfReach, &s),
            [
                "holds 82.0 MiB now: its budget of 40.0 MiB is too small",
                "natively it would hold 88.0 MiB; the nearer to that, the faster",
                "to try: coldpress set 4242 budget=85M",
            ]
        );
        s.most_above_budget_bytes.store(0, Relaxed);
        s.most_above_present_budget_bytes.store(0, Relaxed);
        assert_eq!(
            say(Wrong::Dear(15.1), &s),
            [
                "with a budget of 40.0 MiB it waits for pages 93 % of the time",
                "natively it would hold 88.0 MiB; the nearer to that, the faster",
                "to try: coldpress set 4242 budget=64M",
            ]
        );
    }

    /// Messages took what was held at the moment, `status` and the summary what had been held at most, and a program
    /// that was asked for its status had no suggestion in its summary: up to three numbers in one run.
    #[test]
    fn messages_status_and_summary_suggest_one_budget() {
        let number = |lines: &[String]| -> Vec<String> {
            let words = lines.iter().flat_map(|line| line.split([' ', '=']));
            let words: Vec<&str> = words.collect();
            let named = words
                .windows(2)
                .filter(|two| ["budget", "--budget"].contains(&two[0]));
            let sizes = named
                .filter(|two| two[1].starts_with(|c: char| c.is_ascii_digit()) || two[1] == "none");
            sizes.map(|two| two[1].to_owned()).collect()
        };
        let mut compared = 0;
        for (total, peak, above, content, failed) in [
            (82, 82, 42, 96, 0),
            (60, 170, 130, 180, 160),
            (45, 90, 50, 300, 10),
            (82, 500, 42, 510, 0),
            (82, 82, 42, 84, 78),
        ] {
            for answered in [0, 1] {
                let s = page();
                s.total_bytes.store(total * MIB, Relaxed);
                s.peak_total_bytes.store(peak * MIB, Relaxed);
                s.most_above_budget_bytes.store(above * MIB, Relaxed);
                s.most_above_present_budget_bytes
                    .store(above * MIB, Relaxed);
                s.content_bytes.store(content * MIB / 2, Relaxed);
                s.peak_content_bytes.store(content * MIB, Relaxed);
                s.failed_pages.store(failed * 256, Relaxed);
                s.evictions.store(1, Relaxed);
                s.managed_ns.store(10 * S, Relaxed);
                s.budgeted_ns.store(10 * S, Relaxed);
                s.above_budget_ns.store(9 * S, Relaxed);
                s.control_answered.store(answered, Relaxed);
                let messages =
                    [Wrong::OutOfReach, Wrong::Dear(9.0)].map(|wrong| number(&say(wrong, &s)));
                let status = number(&closing::so_far(&s, None));
                let summary = number(&closing::of_program(
                    "p",
                    &s,
                    &Young::default(),
                    10 * S,
                    None,
                ));
                assert_eq!(
                    (messages[0].len(), status.len()),
                    (1, 1),
                    "{messages:?} {status:?}"
                );
                assert_eq!(messages[0], messages[1]);
                assert_eq!(messages[0], status);
                // Where no budget will do the summary has no command, and no number.
                assert!(
                    summary == status || status == ["none"] && summary.is_empty(),
                    "{summary:?}"
                );
                compared += summary.len();
            }
        }
        assert!(compared >= 8, "{compared}");
    }
}
