//! What one program, or several together, came to: memory on average, what it cost, whether the budget was kept.
//!
//! *Saved* is what would have been held (content) less what was held (total), both on average over time.
//! *Cost* is estimated: a program that waits for a fault does nothing else, and a fault takes time of its own
//! outside the wait that the pager sees ([`FAULT_KERNEL_NS`]). That time is related to what the program had: the time that
//! passed, or where several of its threads were at work at once, their processor time.

use crate::size::format_bytes;
use coldpress_interface::PAGE_SIZE;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::run_file::YoungWaits;
use coldpress_interface::statistics::Statistics;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a fault costs beside the wait that is measured: entering the kernel, handing over to the handler and
/// back, and what the thread finds cold afterwards. Measured on a two-processor virtual machine: a Python program with
/// 551,929 faults under a tight budget used 8.6 µs more processor time for each than natively.
const FAULT_KERNEL_NS: u64 = 9_000;

/// What the first touch of a page takes natively: the kernel makes it, of zeros. Measured on the same machine: a Python
/// program that fills 300 MiB once takes 0.20 s for 76,800 of them.
const FIRST_TOUCH_NS: u64 = 2_500;

/// User time that each fault adds at least: the thread finds its caches and its address translation cold. By seven Python
/// programs with 70,000 to 1.2 million faults, 0 to 1.7 µs.
const FAULT_USER_NS: u64 = 300;

/// What is counted twice of a fault: a handler reads of it while its thread, on another processor, is still on its way to
/// sleep, which is processor time of the program. By a Python program with 290,000 faults that waited for 3.6 s and used
/// 2.3 s in 5.4 s: 2 µs.
const FAULT_OVERLAP_NS: u64 = 2_000;

/// What a fault waits for processors, in quarters of what a thread of the pager waits for one: the handler, the sooner of
/// two that are woken, and then the thread that goes on. By a Python program with 175,000 faults beside nine busy
/// processes, 7.4 and 10 times slower than natively beside them: 1.2 to 1.3.
const READY_QUARTERS: u128 = 5;

/// What is known of the time that a program loses to faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Faults answered.
    pub faults: u64,
    /// Pages that were touched for the first time, of which the pager hears where they are registered; all others that it
    /// has found were filled by the kernel alone.
    pub first_touches: u64,
    /// How long faults waited once a handler had read them.
    pub waited_ns: u64,
    /// Processor time of the program.
    pub program_cpu_ns: u64,
    /// Of it, in user mode.
    pub program_user_ns: u64,
    /// Time that the pager's threads were ready and had no processor, and how often they were given one.
    pub ready_ns: u64,
    /// The latter.
    pub switches: u64,
    /// Time that forks took beside the kernel's own work.
    pub forks_ns: u64,
}

impl Spent {
    /// So far.
    pub fn of(s: &Statistics) -> Self {
        Self {
            faults: get(&s.faults),
            first_touches: get(&s.faults_zero).max(found_pages(s)),
            waited_ns: get(&s.fault_wait_ns),
            program_cpu_ns: get(&s.program_cpu_ns),
            program_user_ns: get(&s.program_user_ns),
            ready_ns: get(&s.pager_ready_ns),
            switches: get(&s.pager_switches),
            forks_ns: get(&s.fork_wait_ns),
        }
    }

    /// From `before` to now.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            faults: self.faults.saturating_sub(before.faults),
            first_touches: self.first_touches.saturating_sub(before.first_touches),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            program_cpu_ns: self.program_cpu_ns.saturating_sub(before.program_cpu_ns),
            program_user_ns: self.program_user_ns.saturating_sub(before.program_user_ns),
            ready_ns: self.ready_ns.saturating_sub(before.ready_ns),
            switches: self.switches.saturating_sub(before.switches),
            forks_ns: self.forks_ns.saturating_sub(before.forks_ns),
        }
    }

    /// The time there was: what passed, or where several threads were at work at once, what they spent.
    pub fn base_ns(&self, passed_ns: u64) -> u64 {
        let overlap_ns = (self.faults * FAULT_OVERLAP_NS).min(self.waited_ns / 2);
        passed_ns.max(self.program_cpu_ns + self.waited_ns - overlap_ns)
    }

    /// Of `all_ns`, the time lost: faults waited; each took [`FAULT_KERNEL_NS`] more, which is kernel time of the program
    /// and no more than it has of that; on a busy machine each waited for a processor twice (see [`READY_QUARTERS`]); and
    /// forks waited for the pager. What the program computed in user mode was not lost, nor what first touches take natively.
    pub fn lost_ns(&self, all_ns: u64) -> u64 {
        let in_kernel = self.program_cpu_ns.saturating_sub(self.program_user_ns);
        let beside = match self.program_cpu_ns {
            0 => self.faults * FAULT_KERNEL_NS,
            _ => (self.faults * FAULT_KERNEL_NS).min(in_kernel),
        };
        (self.waited_ns + beside + self.for_processors_ns() + self.forks_ns)
            .min(all_ns.saturating_sub(self.own_ns()))
    }

    /// What the program would have spent natively in any case.
    fn own_ns(&self) -> u64 {
        let by_faults = (self.faults * FAULT_USER_NS).min(self.program_user_ns / 2);
        self.program_user_ns - by_faults + self.first_touches * FIRST_TOUCH_NS
    }

    /// How long faults waited for processors.
    fn for_processors_ns(&self) -> u64 {
        let ready = u128::from(self.faults) * u128::from(self.ready_ns) * READY_QUARTERS / 4;
        ready.checked_div(self.switches.into()).unwrap_or(0) as u64
    }
}

/// Pages that a program held at most at a time and has not inherited.
fn found_pages(s: &Statistics) -> u64 {
    let bytes = get(&s.peak_content_bytes).saturating_sub(get(&s.inherited_content_bytes));
    bytes / PAGE_SIZE as u64
}

/// What children of forks waited for that were too young to have figures of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Young {
    /// Faults answered.
    pub faults: u64,
    /// How long they waited.
    pub waited_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

impl Young {
    /// So far.
    pub fn of(waits: &YoungWaits) -> Self {
        Self {
            faults: get(&waits.faults),
            waited_ns: get(&waits.waited_ns),
            longest_ns: get(&waits.longest_ns),
        }
    }
}

/// How many times as long something took as without the time lost; 100 at most.
pub fn slowdown(base_ns: u64, lost_ns: u64) -> f64 {
    let base = base_ns as f64;
    let own = (base - lost_ns as f64).max(base / 100.0);
    if base > 0.0 { base / own } else { 1.0 }
}

/// A budget counts as missed from so many thousandths of the time above it, and so many of the budget.
const MISSED_TIME: u64 = 20;
const MISSED_BYTES: u64 = 50;

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

/// The sums.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Programs.
    pub programs: u64,
    /// Those that had a budget.
    pub budgeted: u64,
    /// Those of them that missed it.
    pub missed: u64,
    /// The lowest and the highest budget that any of them had last.
    pub budgets: Option<[u64; 2]>,
    /// Pages taken out.
    pub evictions: u64,
    /// Faults answered.
    pub faults: u64,
    /// Longest wait of a fault.
    pub longest_wait_ns: u64,
    /// Processor time of the pagers.
    pub pager_cpu_ns: u64,
    /// Time under a pager, of all programs.
    pub managed_ns: u64,
    /// Time with a budget, and above it.
    pub budgeted_ns: u64,
    /// Time above it.
    pub above_ns: u64,
    /// The most that any was above its budget.
    pub most_above_bytes: u64,
    /// Bytes held, and bytes that would have been, times nanoseconds.
    total: u128,
    content: u128,
    /// Time lost to faults, and time that there was, of the program that lost most.
    lost_ns: u64,
    base_ns: u64,
    /// Of what it lost, what faults are estimated to have waited for processors.
    for_processors_ns: u64,
    /// How long that program ran.
    passed_ns: u64,
}

impl Sums {
    /// Those of one program.
    pub fn of(s: &Statistics) -> Self {
        let mut sums = Self::default();
        sums.add(s);
        sums
    }

    /// Those of one program, and of what its young children waited for.
    pub fn with_young(s: &Statistics, young: &Young) -> Self {
        let mut sums = Self::of(s);
        sums.add_young(young);
        sums
    }

    /// Adds a program.
    pub fn add(&mut self, s: &Statistics) {
        let managed_ns = get(&s.managed_ns);
        let times = |bytes: u64| u128::from(bytes) * u128::from(managed_ns);
        let above = Above::of(s);
        self.programs += 1;
        self.budgeted += u64::from(get(&s.budgeted_ns) > 0);
        let budget = get(&s.budget_bytes);
        if budget != NO_BUDGET {
            let [lowest, highest] = self.budgets.unwrap_or([budget; 2]);
            self.budgets = Some([lowest.min(budget), highest.max(budget)]);
        }
        self.missed += u64::from(above.is_missed(get(&s.budget_bytes)));
        self.evictions += get(&s.evictions);
        self.faults += get(&s.faults);
        self.longest_wait_ns = self.longest_wait_ns.max(get(&s.longest_fault_wait_ns));
        self.pager_cpu_ns += pager_cpu_ns(s);
        self.managed_ns += managed_ns;
        self.budgeted_ns += above.budgeted_ns;
        self.above_ns += above.above_ns;
        self.most_above_bytes = self.most_above_bytes.max(above.most_bytes);
        // What a child has of its parent it shares with it, natively: it is counted there, and so is what is saved of it.
        // Pages that have come back in the child are copies of its own, which natively there would not be.
        let own = |bytes: u64, inherited: &AtomicU64| times(bytes.saturating_sub(get(inherited)));
        self.total += own(get(&s.average_total_bytes), &s.inherited_total_bytes);
        self.content += own(get(&s.average_content_bytes), &s.inherited_content_bytes);
        let spent = Spent::of(s);
        let base = spent.base_ns(managed_ns);
        let lost = spent.lost_ns(base);
        if lost > self.lost_ns || self.programs == 1 {
            (self.lost_ns, self.base_ns) = (lost, base);
            self.for_processors_ns = spent.for_processors_ns();
            self.passed_ns = managed_ns;
        }
    }

    /// Time lost to faults by the program that lost most.
    pub fn most_lost_ns(&self) -> u64 {
        self.lost_ns
    }

    /// Adds the child of a fork that did next to nothing: what it holds is its parent's.
    pub fn add_idle(&mut self, s: &Statistics) {
        self.evictions += get(&s.evictions);
        self.faults += get(&s.faults);
        self.longest_wait_ns = self.longest_wait_ns.max(get(&s.longest_fault_wait_ns));
        self.pager_cpu_ns += pager_cpu_ns(s);
    }

    /// Adds what children of forks waited for that ended young: their parent waits for them as a rule.
    pub fn add_young(&mut self, young: &Young) {
        self.faults += young.faults;
        self.longest_wait_ns = self.longest_wait_ns.max(young.longest_ns);
        self.lost_ns += young.waited_ns + young.faults * FAULT_KERNEL_NS;
    }

    /// Memory held on average over so much time, by all together.
    pub fn average_total_bytes(&self, over_ns: u64) -> u64 {
        self.total.checked_div(over_ns.into()).unwrap_or(0) as u64
    }

    /// Memory that would have been held natively.
    pub fn average_content_bytes(&self, over_ns: u64) -> u64 {
        self.content.checked_div(over_ns.into()).unwrap_or(0) as u64
    }

    /// The share that was saved, from 0 to 1; below 0 where the pager took more than it saved.
    pub fn saved_share(&self) -> f64 {
        match self.content {
            0 => 0.0,
            content => 1.0 - self.total as f64 / content as f64,
        }
    }

    /// How many times as long it took as it would have without faults, estimated; of several programs, the one that lost most
    /// time. (Others wait for it, or sleep: how long all together would have taken cannot be known.)
    pub fn slowdown(&self) -> f64 {
        slowdown(self.base_ns, self.lost_ns)
    }

    /// Time lost to faults, estimated; of several programs, by the one that lost most.
    pub fn lost_ns(&self) -> u64 {
        self.lost_ns
    }

    /// Whether more time was lost than passed: by several threads at once.
    pub fn waited_side_by_side(&self) -> bool {
        self.lost_ns > self.passed_ns
    }

    /// Whether most of what was lost was lost since others kept the processors busy. Then it is a bound: natively the
    /// program waits for processors, too, and its threads wait at the same time.
    pub fn is_bound(&self) -> bool {
        self.for_processors_ns > self.lost_ns / 2
    }

    /// Whether it was so short that an estimate is no more than a hint.
    pub fn is_short(&self) -> bool {
        self.base_ns < 1_000_000_000
    }

    /// The share of one processor that the pagers used. Of a program that ended at once nothing is known: 0.
    pub fn processor_share(&self, over_ns: u64) -> f64 {
        const AT_ONCE_NS: u64 = 1_000_000;
        match over_ns {
            ..AT_ONCE_NS => 0.0,
            _ => self.pager_cpu_ns as f64 / over_ns as f64,
        }
    }

    /// The object for `--stats`. `over_ns`: the time that averages are over.
    pub fn to_json(&self, over_ns: u64) -> Value {
        let budget_was_kept = (self.budgeted > 0).then_some(self.missed == 0);
        let share = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        json!({
            "average_total_bytes": self.average_total_bytes(over_ns),
            "average_content_bytes": self.average_content_bytes(over_ns),
            "saved_share": self.saved_share(),
            "estimated_slowdown": self.slowdown(),
            "pager_processor_share": self.processor_share(over_ns),
            "longest_fault_wait_ns": self.longest_wait_ns,
            "budget_was_kept": budget_was_kept,
            "above_budget_share": share(self.above_ns, self.budgeted_ns),
            "most_above_budget_bytes": self.most_above_bytes,
            "programs_that_missed_the_budget": self.missed,
        })
    }
}

/// Processor time of a pager; an older one tells it in clock ticks.
pub fn pager_cpu_ns(s: &Statistics) -> u64 {
    match get(&s.pager_cpu_ns) {
        0 => get(&s.pager_user_time_ns) + get(&s.pager_system_time_ns),
        ns => ns,
    }
}

/// For how long, and by how much, memory was above the budget that was in force.
#[derive(Clone, Copy, Debug)]
pub struct Above {
    /// Time with a budget.
    pub budgeted_ns: u64,
    /// Time above it.
    pub above_ns: u64,
    /// The most that it was exceeded by.
    pub most_bytes: u64,
    /// The most that the present budget was exceeded by.
    pub present_bytes: u64,
}

impl Above {
    /// Of one program.
    pub fn of(s: &Statistics) -> Self {
        Self {
            budgeted_ns: get(&s.budgeted_ns),
            above_ns: get(&s.above_budget_ns),
            most_bytes: get(&s.most_above_budget_bytes),
            present_bytes: get(&s.most_above_present_budget_bytes),
        }
    }

    /// Whether the budget was missed, and not only passed for a moment or by a little.
    pub fn is_missed(&self, budget_bytes: u64) -> bool {
        let share = u128::from(self.above_ns) * 1000;
        share >= u128::from(self.budgeted_ns) * u128::from(MISSED_TIME)
            && self.above_ns > 0
            && !self.is_little(budget_bytes)
    }

    /// Whether it was exceeded by no more than a small part of it.
    fn is_little(&self, budget_bytes: u64) -> bool {
        is_little(self.most_bytes, budget_bytes)
    }

    /// The share of the time, for people.
    pub fn share(&self) -> String {
        percent(self.above_ns as f64 / self.budgeted_ns.max(1) as f64)
    }
}

/// A share for people.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.95 => format!("{p:.0} %"),
        p if p >= 0.05 => format!("{p:.1} %"),
        p if p > 0.0 => "less than 0.1 %".to_owned(),
        _ => "0 %".to_owned(),
    }
}

/// A size as it is given on the command line, rounded up to 4 MiB or a sixty-fourth: `176M`.
pub fn as_option(bytes: u64) -> String {
    let step = (bytes / 64).next_power_of_two().max(4 << 20);
    match bytes.next_multiple_of(step) >> 20 {
        mib if mib >= 10 << 10 && mib.is_multiple_of(1 << 10) => format!("{}G", mib >> 10),
        mib => format!("{mib}M"),
    }
}

/// Whether `over_bytes` more than a budget are only a small part of it.
pub fn is_little(over_bytes: u64, budget_bytes: u64) -> bool {
    let little = match budget_bytes {
        NO_BUDGET => 1 << 20,
        bytes => bytes / 1000 * MISSED_BYTES,
    };
    over_bytes <= little
}

/// Whether so much of the memory does not compress that this is why it is above the budget.
pub fn is_incompressible(failed_pages: u64, content: u64) -> Option<f64> {
    let share = (failed_pages as f64 * 4096.0 / content.max(1) as f64).min(1.0);
    (share >= 0.2).then_some(share)
}

/// "60.0 MiB", or what there is to say where there is none.
pub fn named_budget(bytes: u64) -> String {
    match bytes {
        NO_BUDGET => "the budget".to_owned(),
        bytes => format_bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn page(seconds: u64, total: u64, content: u64) -> Statistics {
        let s = Statistics::new();
        s.managed_ns.store(seconds * S, Relaxed);
        s.average_total_bytes.store(total << 20, Relaxed);
        s.average_content_bytes.store(content << 20, Relaxed);
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        s
    }

    #[test]
    fn averages_of_several_are_over_the_time_of_the_run() {
        let mut sums = Sums::of(&page(10, 40, 60));
        assert_eq!(sums.average_total_bytes(10 * S), 40 << 20);
        assert!((sums.saved_share() - 1.0 / 3.0).abs() < 1e-9);
        sums.add(&page(5, 40, 60));
        assert_eq!(sums.average_total_bytes(10 * S), 60 << 20);
        assert_eq!(sums.average_content_bytes(10 * S), 90 << 20);
        assert_eq!(Sums::default().saved_share(), 0.0);
    }

    /// Four children of a parent with 100 MiB, of which 40 are in place, have read all of it.
    #[test]
    fn what_children_share_is_counted_once() {
        let mut sums = Sums::of(&page(10, 40, 100));
        for _ in 0..4 {
            let child = page(10, 100, 104);
            child.inherited_total_bytes.store(40 << 20, Relaxed);
            child.inherited_content_bytes.store(100 << 20, Relaxed);
            sums.add(&child);
        }
        assert_eq!(sums.average_total_bytes(10 * S), (40 + 4 * 60) << 20);
        assert_eq!(sums.average_content_bytes(10 * S), (100 + 4 * 4) << 20);
        assert!(sums.saved_share() < 0.0);
    }

    /// A program of 1 s whose children waited 16 µs for each of 20,000 pages.
    #[test]
    fn what_children_waited_for_is_lost() {
        let mut sums = Sums::of(&page(1, 1, 1));
        sums.add_young(&Young {
            faults: 20_000,
            waited_ns: 320_000_000,
            longest_ns: 7,
        });
        assert!((sums.slowdown() - 2.0).abs() < 1e-9);
        assert_eq!((sums.faults, sums.longest_wait_ns), (20_000, 7));
        sums.add_young(&Young {
            waited_ns: S,
            ..Young::default()
        });
        assert!(sums.waited_side_by_side());
    }

    #[test]
    fn what_faults_cost_is_related_to_the_time_there_was() {
        let s = page(10, 1, 1);
        assert_eq!(Sums::of(&s).slowdown(), 1.0);
        s.fault_wait_ns.store(4_100_000_000, Relaxed);
        s.faults.store(100_000, Relaxed);
        assert!((Sums::of(&s).slowdown() - 2.0).abs() < 1e-9);
        // Four threads at work.
        s.program_cpu_ns.store(36 * S - S / 10, Relaxed);
        assert!((Sums::of(&s).slowdown() - 39.8 / 34.8).abs() < 1e-9);
        s.program_cpu_ns.store(0, Relaxed);
        s.fault_wait_ns.store(1000 * S, Relaxed);
        assert_eq!(Sums::of(&s).slowdown(), 100.0, "a bound, and no infinity");
        assert_eq!(Sums::default().slowdown(), 1.0);
    }

    /// 28 s of which 6 were sleep: 1,018,496 faults waited for 17 s, and the program used 5 s of processor time.
    #[test]
    fn faults_cost_no_more_than_the_program_used() {
        let s = page(28, 1, 1);
        s.fault_wait_ns.store(17 * S, Relaxed);
        s.faults.store(1_018_496, Relaxed);
        s.program_cpu_ns.store(5 * S, Relaxed);
        assert!((Sums::of(&s).slowdown() - 28.0 / 6.0).abs() < 1e-9);
    }

    /// 10 s of which faults took all but what the program did itself: 2 s in user mode, less what a million faults added,
    /// and 100,000 first touches.
    #[test]
    fn what_the_program_did_itself_is_not_lost() {
        let s = page(10, 1, 1);
        s.fault_wait_ns.store(20 * S, Relaxed);
        s.faults.store(1_000_000, Relaxed);
        s.faults_zero.store(100_000, Relaxed);
        s.program_cpu_ns.store(9 * S, Relaxed);
        s.program_user_ns.store(2 * S, Relaxed);
        s.pager_ready_ns.store(10 * S, Relaxed);
        s.pager_switches.store(1_000_000, Relaxed);
        let (all, own) = (27.0, 1.7 + 0.25);
        assert!((Sums::of(&s).slowdown() - all / own).abs() < 1e-9);
    }

    /// Story: a Python program that takes 1.1 s natively and took 5.4 was called 8 times slower, or one whose threads wait.
    #[test]
    fn one_thread_does_not_wait_side_by_side() {
        let s = page(0, 1, 1);
        s.managed_ns.store(5_376_500_762, Relaxed);
        s.faults.store(291_623, Relaxed);
        s.faults_zero.store(6_921, Relaxed);
        s.fault_wait_ns.store(3_671_613_670, Relaxed);
        s.program_cpu_ns.store(2_296_239_312, Relaxed);
        s.program_user_ns.store(810_000_000, Relaxed);
        s.pager_ready_ns.store(1_775_633_143, Relaxed);
        s.pager_switches.store(600_000, Relaxed);
        s.peak_content_bytes.store(299 << 20, Relaxed);
        let sums = Sums::of(&s);
        assert!(!sums.waited_side_by_side());
        assert!((5.0..6.2).contains(&sums.slowdown()), "{}", sums.slowdown());
    }

    /// 10 s, in which a shell forked 1,500 times.
    #[test]
    fn what_forks_waited_for_is_lost() {
        let s = page(10, 1, 1);
        s.program_cpu_ns.store(4 * S, Relaxed);
        s.program_user_ns.store(S, Relaxed);
        s.fork_wait_ns.store(1500 * 2_000_000, Relaxed);
        assert!((Sums::of(&s).slowdown() - 10.0 / 7.0).abs() < 1e-9);
    }

    /// 1,000 faults that waited for 63 ms, by handlers that waited 3 ms for each processor.
    #[test]
    fn on_a_busy_machine_it_is_a_bound() {
        let s = page(10, 1, 1);
        s.fault_wait_ns.store(63_000_000, Relaxed);
        s.faults.store(1_000, Relaxed);
        assert!(!Sums::of(&s).is_bound());
        s.pager_ready_ns.store(3 * S, Relaxed);
        s.pager_switches.store(1_000, Relaxed);
        assert!(Sums::of(&s).is_bound());
    }

    #[test]
    fn a_moment_or_a_little_is_no_miss() {
        let above = |budgeted_ns, above_ns, most_bytes| Above {
            budgeted_ns,
            above_ns,
            most_bytes,
            present_bytes: most_bytes,
        };
        assert!(above(100, 50, 42 << 20).is_missed(40 << 20));
        assert!(!above(100, 1, 42 << 20).is_missed(40 << 20));
        assert!(!above(100, 50, 1 << 20).is_missed(40 << 20));
        assert!(!above(0, 0, 0).is_missed(40 << 20));
        assert_eq!(above(1000, 8, 0).share(), "0.8 %");
    }

    /// Story: a program that ended before the first measurement used 558,822 processors.
    #[test]
    fn a_moment_has_no_share_of_a_processor() {
        let s = page(0, 1, 1);
        s.pager_cpu_ns.store(558_822, Relaxed);
        assert_eq!(Sums::of(&s).processor_share(0), 0.0);
        assert!((Sums::of(&s).processor_share(1_000_000) - 0.558_822).abs() < 1e-9);
    }

    #[test]
    fn sizes_are_given_as_they_are_typed() {
        assert_eq!(as_option(170 << 20), "172M");
        assert_eq!(as_option((40 << 20) + 1), "44M");
        assert_eq!(as_option(12 << 30), "12G");
        assert_eq!(as_option(1000 << 20), "1008M");
    }

    #[test]
    fn shares_are_short() {
        let texts = [0.0, 0.0001, 0.004, 0.05, 0.314, 1.2].map(percent);
        assert_eq!(
            texts,
            ["0 %", "less than 0.1 %", "0.4 %", "5 %", "31 %", "120 %"]
        );
    }
}
