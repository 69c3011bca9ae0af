//! What `run` says at the end: a few short lines for people, each a whole sentence of 80 columns at most.
//!
//! ```text
//! coldpress: python3: 41.2 MiB instead of 60.1 MiB on average, 31 % saved
//! coldpress: at most 59.5 MiB instead of 76.5 MiB; budget of 60.0 MiB kept
//! coldpress: cost: about 12 % slower (1.1 s), 9 % of a CPU, longest wait 1.2 ms
//! ```
//!
//! First what was saved, then whether the budget was kept, then what it cost; what is wrong has a line of its
//! own. `--verbose` adds what an expert asks for ([`verbose`]).

pub mod verbose;

use crate::advice::Advice;
use crate::budget::BudgetInForce;
use crate::duration::format_nanoseconds;
use crate::follow::Totals;
use crate::rule;
use crate::size::{format_bytes, format_count};
use crate::streams::PREFIX;
use crate::sums::{
    Above, Sums, Young, as_option, is_incompressible, is_little, named_budget, percent,
};
use crate::supervise::Ending;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::{Failure, Statistics};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// So long is a line at most.
const COLUMNS: usize = 80;

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

/// The lines for a program that has ended, after it ran for so long, and its `young` children. `group_bytes`: the limit
/// of its memory group, if it has one.
pub fn of_program(
    program: &str,
    s: &Statistics,
    young: &Young,
    elapsed_ns: u64,
    group_bytes: Option<u64>,
) -> Vec<String> {
    let sums = Sums::with_young(s, young);
    let advice = || Advice::of(s, group_bytes).map(|advice| advice.for_the_next_run());
    lines_of(program, s, &sums, elapsed_ns, &advice)
}

/// As [`of_program`] for one that the kernel has killed for its memory: what it would have held nobody knows, so no
/// budget is suggested.
pub fn of_killed_program(
    program: &str,
    s: &Statistics,
    young: &Young,
    elapsed_ns: u64,
) -> Vec<String> {
    let sums = Sums::with_young(s, young);
    let share = is_incompressible(get(&s.failed_pages), get(&s.content_bytes));
    let share = share.map(|share| format!("at least {} of it does not compress", percent(share)));
    let lines = lines_of(program, s, &sums, elapsed_ns, &|| None);
    lines.into_iter().chain(share).collect()
}

/// The lines for a program that runs. `group_bytes`: the limit of its memory group, if it has one.
pub fn so_far(s: &Statistics, group_bytes: Option<u64>) -> Vec<String> {
    let managed_ns = get(&s.managed_ns);
    let advice = || Advice::of(s, group_bytes).map(|advice| advice.while_it_runs());
    lines_of("so far", s, &Sums::of(s), managed_ns, &advice)
}

/// `advice`: what is told where the budget was missed.
fn lines_of(
    program: &str,
    s: &Statistics,
    sums: &Sums,
    elapsed_ns: u64,
    advice: &dyn Fn() -> Option<String>,
) -> Vec<String> {
    let has_left = get(&s.pager_left) == 1;
    let mut lines = match sums.evictions {
        0 if has_left => vec![format!(
            "{program}: nothing compressed before its pager left it"
        )],
        0 => {
            let mut lines = nothing_taken(s, elapsed_ns);
            lines[0] = format!("{program}: {}", lines[0]);
            lines
        }
        _ => vec![
            format!("{program}: {}", saved(sums, sums.managed_ns)),
            format!(
                "at most {} instead of {}{}",
                format_bytes(get(&s.peak_total_bytes)),
                format_bytes(get(&s.peak_content_bytes)),
                held(s)
            ),
        ],
    };
    lines.extend(missed(s, advice));
    if sums.evictions > 0 {
        lines.push(cost(sums, sums.managed_ns, None));
        if has_left {
            lines.push(format!(
                "that was for {}: then its pager left it",
                format_nanoseconds(sums.managed_ns)
            ));
        }
    }
    lines.extend(written_back(
        get(&s.written_back_pages),
        get(&s.written_back_bytes),
    ));
    lines.extend(warnings(
        get(&s.stalled_faults),
        s.failed(Failure::Corrupt) + s.failed(Failure::InstallRefused),
    ));
    lines
}

/// The lines for several programs that were managed together.
pub fn of_all(
    program: &str,
    totals: &Totals,
    budget: &BudgetInForce,
    elapsed_ns: u64,
) -> Vec<String> {
    let sums = &totals.sums;
    let largest = &totals.largest;
    let mut lines = vec![match (sums.programs, sums.evictions) {
        (0, _) => format!("{program}: nothing to manage: no program held 4 MiB for 50 ms"),
        (_, 0) => format!(
            "{program}: {}: nothing to compress",
            programs(sums.programs)
        ),
        _ if sums.programs > 1 && sums.saved_share() >= SAVED => {
            format!("{program}: together {}", saved(sums, elapsed_ns))
        }
        _ => format!("{program}: {}", saved(sums, elapsed_ns)),
    }];
    if sums.programs > 0 {
        let managed = match totals.running {
            0 => format!("{} managed", format_count(sums.programs)),
            running => format!(
                "{} managed ({} still running)",
                format_count(sums.programs),
                format_count(running)
            ),
        };
        let most = format!(
            "{} ({}) held most: {} instead of {}",
            largest.program,
            largest.pid,
            format_bytes(largest.peak_total_bytes),
            format_bytes(largest.peak_content_bytes),
        );
        lines.extend(in_one_line_if_they_fit(managed, most));
    }
    lines.extend(budgets(totals, budget));
    if sums.evictions > 0 {
        let slowest = (sums.programs > 1 && !totals.slowest.is_empty()).then_some(&totals.slowest);
        lines.push(cost(sums, elapsed_ns, slowest.map(String::as_str)));
    }
    lines.extend(written_back(
        totals.written_back_pages,
        totals.written_back_bytes,
    ));
    lines.extend(warnings(totals.stalled, totals.lost));
    lines
}

/// Pages that are in the file of `--writeback`, if any are.
fn written_back(pages: u64, file_bytes: u64) -> Option<String> {
    (pages > 0).then(|| {
        format!(
            "{} pages are written back ({} in the file)",
            format_count(pages),
            format_bytes(file_bytes)
        )
    })
}

/// Two things to say, in as many lines as that takes.
fn in_one_line_if_they_fit(first: String, second: String) -> Vec<String> {
    let together = format!("{first}; {second}");
    match PREFIX.len() + together.chars().count() <= COLUMNS {
        true => vec![together],
        false => vec![first, second],
    }
}

/// How several programs kept their budgets, which may have been changed while they ran.
fn budgets(totals: &Totals, at_start: &BudgetInForce) -> Option<String> {
    let sums = &totals.sums;
    // Under chaos no program has a budget, whatever was asked for.
    if sums.budgeted == 0 {
        return None;
    }
    let [lowest, highest] = sums.budgets.unwrap_or([at_start.bytes; 2]);
    if highest == NO_BUDGET {
        return None;
    }
    let most_above = sums.most_above_bytes;
    if sums.missed > 0 {
        return Some(format!(
            "BUDGET MISSED by {} of {}: up to {} above {}",
            format_count(sums.missed),
            programs(sums.programs),
            format_bytes(most_above),
            match lowest == highest {
                true => format_bytes(highest),
                false => "its own".to_owned(),
            }
        ));
    }
    let each = match lowest == highest {
        true => format!("budget of {} for each", format_bytes(highest)),
        false => format!(
            "budgets of {} to {}",
            format_bytes(lowest),
            format_bytes(highest)
        ),
    };
    Some(match most_above {
        _ if began_above(totals.largest.peak_total_bytes, highest, most_above) => {
            format!("{each}: {AFTER_A_START}")
        }
        most if most < NOT_WORTH_A_WORD => format!("{each}: kept"),
        most => format!(
            "{each}: {}, up to {} above",
            how_kept(most, lowest),
            format_bytes(most)
        ),
    })
}

/// "1 program", "12 programs".
fn programs(count: u64) -> String {
    match count {
        1 => "1 program".to_owned(),
        _ => format!("{} programs", format_count(count)),
    }
}

/// Shares below that are nothing.
const SAVED: f64 = 0.005;

/// So little above a budget is not told.
const NOT_WORTH_A_WORD: u64 = 64 << 10;

fn saved(sums: &Sums, over_ns: u64) -> String {
    let (total, content) = (
        format_bytes(sums.average_total_bytes(over_ns)),
        format_bytes(sums.average_content_bytes(over_ns)),
    );
    match sums.saved_share() {
        share if share >= SAVED => {
            format!(
                "{total} instead of {content} on average, {} saved",
                percent(share)
            )
        }
        share if share > -SAVED => format!("nothing saved: {total} on average, as natively"),
        _ => format!("nothing saved: {total} on average, natively {content}"),
    }
}

/// Why nothing was compressed, and what to try where that is known.
fn nothing_taken(s: &Statistics, elapsed_ns: u64) -> Vec<String> {
    /// A program that held less, or ended sooner, had nothing to compress, whatever its budget.
    const SMALL: u64 = 1 << 20;
    const SHORT_MS: u64 = 100;
    /// A program that held so much is worth a budget.
    const MUCH: u64 = 32 << 20;
    let peak_bytes = get(&s.peak_total_bytes);
    let peak = format_bytes(peak_bytes);
    let budget = get(&s.budget_bytes);
    let time = format_nanoseconds(elapsed_ns);
    let elapsed_ms = elapsed_ns / 1_000_000;
    let is_small = peak_bytes < SMALL || elapsed_ms < SHORT_MS;
    if budget != NO_BUDGET && peak_bytes > budget {
        return vec![format!(
            "nothing compressed: it held {peak}, and ended after {time}"
        )];
    }
    if budget != NO_BUDGET && (!is_small || elapsed_ms >= 1_000) {
        return vec![format!(
            "nothing compressed: {peak} at most, which its budget of {} allows",
            format_bytes(budget)
        )];
    }
    if elapsed_ms > (2 * get(&s.cold_after_ms)).max(4_000) {
        let cold = format!("nothing compressed: none of its {peak} was cold in {time}");
        return vec![cold];
    }
    if peak_bytes < MUCH || elapsed_ms < SHORT_MS {
        let ended = format!("nothing to compress: the program ended after {time}");
        return vec![ended];
    }
    let mut lines = vec![format!(
        "nothing compressed: none of its {peak} was cold before it ended"
    )];
    if budget == NO_BUDGET {
        let half = as_option(peak_bytes / 2);
        lines.push(format!(
            "to hold less, at the price of time: --budget {half}"
        ));
    }
    lines
}

/// What is said of a budget that was kept where more was held at most than was ever above it: a program that is followed
/// has no pager at first, and a forked child begins with what it inherits.
const AFTER_A_START: &str = "kept after a start above it";

/// What is said of one that was kept from when it was set while the program ran: what was held at most may be of before.
const SINCE_SET: &str = "kept since it was set";

/// Whether more was held at most than was ever above the budget.
fn began_above(peak_bytes: u64, budget: u64, most_above_bytes: u64) -> bool {
    peak_bytes > budget.saturating_add(most_above_bytes) + (1 << 20)
}

/// What the second line says of the budget.
fn held(s: &Statistics) -> String {
    let above = Above::of(s);
    let budget = get(&s.budget_bytes);
    if budget != NO_BUDGET && rule::triggers(s).is_some_and(|on| !on.keep_a_budget()) {
        return "; no trigger keeps the budget".to_owned();
    }
    if above.budgeted_ns == 0 || budget == NO_BUDGET || above.is_missed(budget) {
        return String::new();
    }
    // It was lowered a moment ago.
    match is_little(get(&s.total_bytes).saturating_sub(budget), budget) {
        true if above.budgeted_ns < get(&s.managed_ns) / 100 * 99 => {
            format!("; budget of {} {SINCE_SET}", format_bytes(budget))
        }
        true if began_above(get(&s.peak_total_bytes), budget, above.present_bytes) => {
            let since = if was_set(s) { SINCE_SET } else { AFTER_A_START };
            format!("; budget of {} {since}", format_bytes(budget))
        }
        true => format!(
            "; budget of {} {}",
            format_bytes(budget),
            how_kept(above.present_bytes, budget)
        ),
        false => format!("; coming down to its budget of {}", format_bytes(budget)),
    }
}

/// How closely a budget was kept that was exceeded by so much at most.
fn how_kept(most_bytes: u64, budget: u64) -> &'static str {
    match most_bytes {
        most if most < NOT_WORTH_A_WORD => "kept",
        most if is_little(most, budget) => "kept within 5 %",
        _ => "kept but for moments",
    }
}

/// Where the budget was not kept, or not all the time.
fn missed(s: &Statistics, advice: &dyn Fn() -> Option<String>) -> Vec<String> {
    let above = Above::of(s);
    let budget = get(&s.budget_bytes);
    if above.above_ns == 0 {
        return Vec::new();
    }
    let share = above.share();
    let most = format_bytes(above.most_bytes);
    let over = |what: &str| format!("above {what} {share} of the time, by up to {most}");
    let one_in_force = "the budget in force then";
    if !above.is_missed(budget) {
        let what = if was_set(s) { one_in_force } else { "it" };
        return match above.most_bytes < NOT_WORTH_A_WORD {
            true => Vec::new(),
            false => vec![over(what)],
        };
    }
    let (present, named) = (above.present_bytes, named_budget(budget));
    // What was above it, if anything, is too little to have been missed by.
    if is_little(present, budget) {
        return vec![format!(
            "BUDGET MISSED: an earlier one, {share} of the time, by up to {most}"
        )];
    }
    let missed = match present < above.most_bytes {
        true => vec![
            format!(
                "BUDGET MISSED: above {named} by up to {}",
                format_bytes(present)
            ),
            over(one_in_force),
        ],
        false => vec![format!(
            "BUDGET MISSED: above {named} {share} of the time, by up to {most}"
        )],
    };
    missed.into_iter().chain(advice()).collect()
}

/// Whether its pager was asked for something while it ran: to change settings, perhaps.
fn was_set(s: &Statistics) -> bool {
    get(&s.control_answered) != 0
}

/// What it cost. `slowest`: which of several programs lost most time.
fn cost(sums: &Sums, over_ns: u64, slowest: Option<&str>) -> String {
    // How an estimate begins: as usual, or as what it can be at most.
    let up_to = |usual| match sums.is_bound() && !sums.is_short() {
        true => "up to ",
        false => usual,
    };
    let slower = match sums.slowdown() {
        // Threads, or children, waited side by side: how much longer all took for it nobody knows.
        _ if sums.waited_side_by_side() => "its threads or children waited".to_owned(),
        times if times >= 1.995 && sums.is_short() => "much slower".to_owned(),
        // What is left when nearly all was lost is mostly what cold caches cost: it would have been less natively.
        times if times >= 9.95 => format!("{}{:.0} times slower", up_to("over "), times.min(99.0)),
        times if times >= 1.995 => format!("{}{times:.1} times slower", up_to("")),
        times if times >= 1.01 => format!("{}{} slower", up_to("about "), percent(times - 1.0)),
        _ => "less than 1 % slower".to_owned(),
    };
    let slower = format!("{slower} ({})", format_nanoseconds(sums.lost_ns()));
    let slower = match slowest {
        Some(program) => format!("{program} {slower}"),
        None => slower,
    };
    let mut line = format!(
        "cost: {slower}, {} of a CPU",
        percent(sums.processor_share(over_ns))
    );
    // A program that was killed may have waited when nobody took note of it any more.
    if sums.longest_wait_ns > 0 {
        line += &format!(
            ", longest wait {}",
            format_nanoseconds(sums.longest_wait_ns)
        );
    }
    line
}

fn warnings(stalled: u64, lost: u64) -> Vec<String> {
    let faults = match stalled {
        1 => "1 fault waited for more than a second".to_owned(),
        _ => format!(
            "{} faults waited for more than a second",
            format_count(stalled)
        ),
    };
    let pages = match lost {
        1 => "1 page was lost: wrong checksum, or not to be put back".to_owned(),
        _ => format!(
            "{} pages were lost: wrong checksums, or not to be put back",
            format_count(lost)
        ),
    };
    [(stalled, faults), (lost, pages)]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(_, what)| format!("WARNING: {what}"))
        .collect()
}

/// What is said where the kernel has killed `killed` processes of the memory group while the program ran.
pub fn killed(program: &str, ending: Ending, killed: u64, limit: Option<u64>) -> Option<String> {
    // Without a limit it was the machine that was full.
    let limit = format_bytes(limit?);
    match (killed, ending) {
        (0, _) => None,
        (_, Ending::Killed(libc::SIGKILL)) => Some(format!(
            "{program}: KILLED by the kernel: its memory group of {limit} was full"
        )),
        (1, _) => Some(format!(
            "the kernel KILLED a process: its memory group of {limit} was full"
        )),
        (many, _) => Some(format!(
            "the kernel KILLED {} processes: their group of {limit} was full",
            format_count(many)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_interface::triggers::Triggers;

    pub(super) const MS: u64 = 1_000_000;
    const MIB: u64 = 1 << 20;

    fn of_program(program: &str, s: &Statistics, young: &Young, elapsed_ns: u64) -> Vec<String> {
        super::of_program(program, s, young, elapsed_ns, None)
    }

    pub(super) fn page() -> Statistics {
        let s = Statistics::new();
        s.budget_bytes.store(60 * MIB, Relaxed);
        s.managed_ns.store(10_000 * MS, Relaxed);
        s.budgeted_ns.store(10_000 * MS, Relaxed);
        s.average_total_bytes.store(41 * MIB, Relaxed);
        s.average_content_bytes.store(60 * MIB, Relaxed);
        s.peak_total_bytes.store(59 * MIB, Relaxed);
        s.peak_content_bytes.store(76 * MIB, Relaxed);
        s.evictions.store(29_745, Relaxed);
        s.faults.store(100_000, Relaxed);
        s.fault_wait_ns.store(200 * MS, Relaxed);
        s.longest_fault_wait_ns.store(1_200_000, Relaxed);
        s.pager_cpu_ns.store(920 * MS, Relaxed);
        s.codec.set(b"press");
        s.storage.set(b"press");
        s
    }

    pub(super) fn fits(lines: &[String]) {
        for line in lines {
            assert!(PREFIX.len() + line.chars().count() <= COLUMNS, "{line}");
        }
    }

    #[test]
    fn it_is_said_that_the_kernel_has_killed() {
        let said = |ending, count| killed("a", ending, count, Some(200 << 20));
        assert_eq!(said(Ending::Killed(libc::SIGKILL), 0), None);
        assert_eq!(
            said(Ending::Killed(libc::SIGKILL), 1).unwrap(),
            "a: KILLED by the kernel: its memory group of 200.0 MiB was full"
        );
        assert_eq!(
            said(Ending::Exited(1), 12).unwrap(),
            "the kernel KILLED 12 processes: their group of 200.0 MiB was full"
        );
        for count in [1, 1_234] {
            fits(&[killed("a", Ending::Exited(1), count, Some((1 << 30) - 1)).unwrap()]);
        }
    }

    #[test]
    fn a_run_reads_as_documented() {
        let lines = of_program("python3", &page(), &Young::default(), 10_000 * MS);
        assert_eq!(
            lines,
            [
                "python3: 41.0 MiB instead of 60.0 MiB on average, 32 % saved",
                "at most 59.0 MiB instead of 76.0 MiB; budget of 60.0 MiB kept",
                "cost: about 12 % slower (1.1 s), 9 % of a CPU, longest wait 1.2 ms",
            ]
        );
        fits(&lines);
    }

    /// A service that waits for requests most of the time: the time lost says more than the share.
    #[test]
    fn the_time_that_was_lost_is_told() {
        let s = page();
        // Of 60 s it works for 1.7; 0.4 s of that it waits, and its faults take 0.5 s of kernel time.
        s.managed_ns.store(60_000 * MS, Relaxed);
        s.program_cpu_ns.store(1_300 * MS, Relaxed);
        s.program_user_ns.store(800 * MS, Relaxed);
        s.fault_wait_ns.store(400 * MS, Relaxed);
        let cost = |s: &Statistics| {
            of_program("redis-server", s, &Young::default(), 60_000 * MS)[2].clone()
        };
        let expected = "cost: about 2 % slower (900 ms), 2 % of a CPU, longest wait 1.2 ms";
        assert_eq!(cost(&s), expected);
        s.managed_ns.store(1_700 * MS, Relaxed);
        s.peak_content_bytes.store(MIB, Relaxed);
        assert!(cost(&s).starts_with("cost: 2.1 times slower (900 ms), "));
        s.managed_ns.store(800 * MS, Relaxed);
        s.program_cpu_ns.store(400 * MS, Relaxed);
        s.program_user_ns.store(100 * MS, Relaxed);
        assert!(cost(&s).starts_with("cost: much slower ("));
    }

    /// Of 60 s, 54 went: for faults, or mostly for processors that others kept busy.
    #[test]
    fn a_large_slowdown_is_a_bound_from_below_or_above() {
        let s = page();
        s.managed_ns.store(60_000 * MS, Relaxed);
        s.faults.store(100_000, Relaxed);
        s.fault_wait_ns.store(54_000 * MS, Relaxed);
        let cost =
            |s: &Statistics| of_program("python3", s, &Young::default(), 60_000 * MS)[2].clone();
        assert!(
            cost(&s).starts_with("cost: over 12 times slower ("),
            "{}",
            cost(&s)
        );
        s.fault_wait_ns.store(4_000 * MS, Relaxed);
        s.pager_ready_ns.store(40_000 * MS, Relaxed);
        s.pager_switches.store(100_000, Relaxed);
        assert!(
            cost(&s).starts_with("cost: up to 12 times slower ("),
            "{}",
            cost(&s)
        );
        s.faults.store(100, Relaxed);
        s.pager_switches.store(100, Relaxed);
        s.fault_wait_ns.store(4 * MS, Relaxed);
        s.pager_ready_ns.store(40 * MS, Relaxed);
        assert!(
            cost(&s).starts_with("cost: less than 1 % slower ("),
            "{}",
            cost(&s)
        );
    }

    /// What was held before says nothing of the budget that was set since; what was held against that does.
    #[test]
    fn after_set_moments_are_of_the_time_and_older_peaks_advise_nothing() {
        let s = page();
        let all = get(&s.budgeted_ns);
        s.budgeted_ns.store(all / 2, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(
            lines[1].ends_with("budget of 60.0 MiB kept since it was set"),
            "{lines:?}"
        );
        s.budgeted_ns.store(all, Relaxed);
        s.above_budget_ns.store(80 * MS, Relaxed);
        s.most_above_budget_bytes.store(2 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(2 * MIB, Relaxed);
        let peak = s.peak_total_bytes.swap(66 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(
            lines[1].ends_with("budget of 60.0 MiB kept after a start above it"),
            "{lines:?}"
        );
        // It had a larger one, and was within it.
        s.control_answered.store(1, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(
            lines[1].ends_with("budget of 60.0 MiB kept since it was set"),
            "{lines:?}"
        );
        s.peak_total_bytes.store(peak, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[2],
            "above the budget in force then 0.8 % of the time, by up to 2.0 MiB"
        );
        s.above_budget_ns.store(8_000 * MS, Relaxed);
        s.most_above_budget_bytes.store(42 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(42 * MIB, Relaxed);
        s.peak_total_bytes.store(400 * MIB, Relaxed);
        s.peak_content_bytes.store(130 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(lines[2].starts_with("BUDGET MISSED: "), "{lines:?}");
        assert_eq!(lines[3], "to try: --budget 108M");
        assert!(lines[4].starts_with("cost: "), "{lines:?}");
    }

    /// Story: a program was at 109 MiB for seconds, and "budget of 20.0 MiB kept since it was set" was said.
    #[test]
    fn what_no_trigger_keeps_is_not_called_kept() {
        let s = page();
        s.filled_bytes.store(u64::MAX, Relaxed);
        s.triggers.store(Triggers::EAGER.bits(), Relaxed);
        s.budgeted_ns.store(5_000 * MS, Relaxed);
        s.total_bytes.store(109 * MIB, Relaxed);
        s.peak_total_bytes.store(109 * MIB + MIB / 2, Relaxed);
        s.peak_content_bytes.store(107 * MIB, Relaxed);
        assert_eq!(held(&s), "; no trigger keeps the budget");
        fits(&of_program("python3", &s, &Young::default(), 10_000 * MS));
        s.triggers.store(Triggers::PRESSURE.bits(), Relaxed);
        assert!(held(&s).starts_with("; coming down to"));
    }

    #[test]
    fn a_budget_that_was_missed_is_said_first_of_all() {
        let s = page();
        s.budget_bytes.store(40 * MIB, Relaxed);
        s.above_budget_ns.store(9_700 * MS, Relaxed);
        s.most_above_budget_bytes.store(42 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(42 * MIB, Relaxed);
        s.peak_total_bytes.store(82 * MIB, Relaxed);
        s.peak_content_bytes.store(96 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[1..4],
            [
                "at most 82.0 MiB instead of 96.0 MiB",
                "BUDGET MISSED: above 40.0 MiB 97 % of the time, by up to 42.0 MiB",
                "to try: --budget 88M",
            ]
        );
        fits(&lines);
        let group = Some(42 * MIB);
        let lines = super::of_program("python3", &s, &Young::default(), 10_000 * MS, group);
        assert_eq!(
            lines[3],
            "its memory group allows no more: raise its limit of 42.0 MiB"
        );
        assert_eq!(super::so_far(&s, group)[3], lines[3]);
        fits(&lines);
        s.peak_content_bytes.store(84 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[3],
            "no budget below the 84.0 MiB that it holds natively will do"
        );
        fits(&lines);
        s.evictions.store(0, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(lines[1].starts_with("BUDGET MISSED"), "{lines:?}");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn an_excess_over_an_earlier_budget_is_not_told_of_the_last_one() {
        let s = page();
        s.budget_bytes.store(204 * MIB, Relaxed);
        s.above_budget_ns.store(2_400 * MS, Relaxed);
        s.most_above_budget_bytes.store(232 * MIB, Relaxed);
        s.peak_total_bytes.store(252 * MIB, Relaxed);
        s.peak_content_bytes.store(315 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[2],
            "BUDGET MISSED: an earlier one, 24 % of the time, by up to 232.0 MiB"
        );
        assert!(lines[3].starts_with("cost: "), "{lines:?}");
        fits(&lines);
        // Of 96 MiB that do not compress, a budget of 20 and then one of 60 keep 66.
        s.budget_bytes.store(60 * MIB, Relaxed);
        s.most_above_budget_bytes.store(46 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(6 * MIB, Relaxed);
        s.peak_total_bytes.store(110 * MIB, Relaxed);
        s.peak_content_bytes.store(110 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[2..5],
            [
                "BUDGET MISSED: above 60.0 MiB by up to 6.0 MiB",
                "above the budget in force then 24 % of the time, by up to 46.0 MiB",
                "to try: --budget 88M",
            ]
        );
        fits(&lines);
        // Then it had none.
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        s.most_above_present_budget_bytes.store(0, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[2],
            "BUDGET MISSED: an earlier one, 24 % of the time, by up to 46.0 MiB"
        );
        // One of 150 MiB is kept, whatever was before.
        s.budget_bytes.store(150 * MIB, Relaxed);
        s.above_budget_ns.store(80 * MS, Relaxed);
        s.control_answered.store(1, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(lines[1].ends_with("budget of 150.0 MiB kept"), "{lines:?}");
    }

    #[test]
    fn a_moment_above_the_budget_is_told_as_a_moment() {
        let s = page();
        s.above_budget_ns.store(80 * MS, Relaxed);
        s.most_above_budget_bytes.store(2 * MIB, Relaxed);
        s.most_above_present_budget_bytes.store(2 * MIB, Relaxed);
        let lines = of_program("python3", &s, &Young::default(), 10_000 * MS);
        assert!(lines[1].ends_with("budget of 60.0 MiB kept within 5 %"));
        assert_eq!(lines[2], "above it 0.8 % of the time, by up to 2.0 MiB");
        // A peak from before the budget was lowered is none above it.
        s.above_budget_ns.store(0, Relaxed);
        s.peak_total_bytes.store(500 * MIB, Relaxed);
        assert_eq!(
            of_program("python3", &s, &Young::default(), 10_000 * MS).len(),
            3
        );
    }

    #[test]
    fn where_nothing_was_taken_it_says_why() {
        let s = page();
        s.evictions.store(0, Relaxed);
        let told = |s, ms| of_program("p", s, &Young::default(), ms * MS);
        assert_eq!(
            told(&s, 10_000),
            ["p: nothing compressed: 59.0 MiB at most, which its budget of 60.0 MiB allows"]
        );
        assert_eq!(
            told(&s, 99),
            ["p: nothing to compress: the program ended after 99 ms"]
        );
        s.peak_total_bytes.store(MIB - 1, Relaxed);
        assert_eq!(
            told(&s, 200),
            ["p: nothing to compress: the program ended after 200 ms"]
        );
        s.peak_total_bytes.store(59 * MIB, Relaxed);
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        s.cold_after_ms.store(2_000, Relaxed);
        assert_eq!(
            told(&s, 3),
            ["p: nothing to compress: the program ended after 3.0 ms"]
        );
        assert_eq!(
            told(&s, 12_000),
            ["p: nothing compressed: none of its 59.0 MiB was cold in 12 s"]
        );
    }

    #[test]
    fn what_took_more_than_it_saved_says_so() {
        let s = page();
        s.average_total_bytes.store(62 * MIB, Relaxed);
        let line = &of_program("p", &s, &Young::default(), 10_000 * MS)[0];
        assert_eq!(
            line,
            "p: nothing saved: 62.0 MiB on average, natively 60.0 MiB"
        );
        s.average_content_bytes.store(62 * MIB, Relaxed);
        let line = &of_program("p", &s, &Young::default(), 10_000 * MS)[0];
        assert_eq!(line, "p: nothing saved: 62.0 MiB on average, as natively");
    }

    #[test]
    fn what_is_wrong_has_lines_of_its_own() {
        let s = page();
        s.stalled_faults.store(1, Relaxed);
        s.fail(Failure::Corrupt);
        s.fail(Failure::InstallRefused);
        s.fault_wait_ns.store(9_000 * MS, Relaxed);
        let lines = of_program("p", &s, &Young::default(), 10_000 * MS);
        assert_eq!(
            lines[2..],
            [
                "cost: over 99 times slower (9.9 s), 9 % of a CPU, longest wait 1.2 ms",
                "WARNING: 1 fault waited for more than a second",
                "WARNING: 2 pages were lost: wrong checksums, or not to be put back",
            ]
        );
    }

    #[test]
    fn several_programs_are_told_together() {
        let budget = BudgetInForce::of(64 * MIB, None).unwrap();
        let none = of_all("sh", &Totals::default(), &budget, 10_000 * MS);
        assert_eq!(
            none,
            ["sh: nothing to manage: no program held 4 MiB for 50 ms"]
        );
        let mut totals = Totals::default();
        totals.sums.add(&page());
        totals.largest.program = "cc1plus".to_owned();
        totals.largest.pid = 4242;
        totals.largest.peak_total_bytes = 59 * MIB;
        totals.largest.peak_content_bytes = 76 * MIB;
        totals.sums.most_above_bytes = 2 * MIB;
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert_eq!(
            lines[2],
            "budget of 60.0 MiB for each: kept within 5 %, up to 2.0 MiB above"
        );
        totals.sums.most_above_bytes = 0;
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert_eq!(
            lines,
            [
                "make: 20.5 MiB instead of 30.0 MiB on average, 32 % saved",
                "1 managed; cc1plus (4242) held most: 59.0 MiB instead of 76.0 MiB",
                "budget of 60.0 MiB for each: kept",
                "cost: about 12 % slower (1.1 s), 5 % of a CPU, longest wait 1.2 ms",
            ]
        );
        fits(&lines);
        (totals.written_back_pages, totals.written_back_bytes) = (12_345, 17 * MIB);
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        let written_back = "12,345 pages are written back (17.0 MiB in the file)";
        assert_eq!(lines[4], written_back, "as of one program");
        (totals.written_back_pages, totals.written_back_bytes) = (0, 0);
        totals.sums.programs = 1200;
        totals.sums.missed = 2;
        totals.sums.most_above_bytes = 42 * MIB;
        (totals.running, totals.lost) = (2, 1);
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert_eq!(
            lines[1..4],
            [
                "1,200 managed (2 still running)",
                "cc1plus (4242) held most: 59.0 MiB instead of 76.0 MiB",
                "BUDGET MISSED by 2 of 1,200 programs: up to 42.0 MiB above 60.0 MiB",
            ]
        );
        assert!(lines[5].starts_with("WARNING: 1 page was lost"));
        fits(&lines);
        // The limit of their memory group was raised while some of them ran.
        totals.sums.budgets = Some([60 * MIB, 900 * MIB]);
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert_eq!(
            lines[3],
            "BUDGET MISSED by 2 of 1,200 programs: up to 42.0 MiB above its own"
        );
        (totals.sums.missed, totals.sums.most_above_bytes) = (0, 0);
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert_eq!(lines[3], "budgets of 60.0 MiB to 900.0 MiB: kept");
        fits(&lines[3..4]);
        totals.sums.budgeted = 0;
        let lines = of_all("make", &totals, &budget, 20_000 * MS);
        assert!(
            lines[3].starts_with("cost: "),
            "under chaos there is no budget: {lines:?}"
        );
    }
}
