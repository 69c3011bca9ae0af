//! Every hazard program, with the arguments and the budget it is run under. The tests of single
//! promises, the native test and the refusal test all read this table.

use crate::{Managed, Statistics, Workplace, process, skip};
use Eviction::{AtRandom, ByBudget};
use std::process::Command;
use std::time::Duration;

/// What evicts pages of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The budget.
    ByBudget,
    /// Chance, whatever the budget.
    AtRandom,
}

/// A program out of `programs/` and how it is run.
#[derive(Clone, Copy, Debug)]
pub struct Hazard {
    /// Name of the case.
    pub name: &'static str,
    /// File in `programs/`, without `.c`.
    pub program: &'static str,
    /// Arguments: the seed first.
    pub arguments: &'static [&'static str],
    /// Budget of the managed run.
    pub budget: &'static str,
    /// What evicts pages.
    pub eviction: Eviction,
}

const fn hazard(
    name: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    budget: &'static str,
    eviction: Eviction,
) -> Hazard {
    Hazard {
        name,
        program,
        arguments,
        budget,
        eviction,
    }
}

/// The table. Random eviction finds races; eviction by budget is what users have: where both
/// matter there are two rows.
#[rustfmt::skip]
pub const HAZARDS: &[Hazard] = &[
    // Moving pages out and in
    hazard("writers", "writers", &["1", "3", "16", "3000"], "64M", AtRandom),
    hazard("vmsplice_bytes", "vmsplice_bytes", &["2", "5"], "64M", AtRandom),
    hazard("direct_io", "direct_io", &["3", "2", "8", "3000"], "64M", AtRandom),
    hazard("fixed_buffers", "fixed_buffers", &["4", "4"], "64M", AtRandom),
    hazard("ring_cold", "ring_cold", &["46", "16", "3000"], "64M", AtRandom),
    hazard("huge_pages", "huge_pages", &["47", "16", "3000"], "64M", AtRandom),
    hazard("huge_referenced", "huge_referenced", &["71", "16", "3"], "64M", AtRandom),
    hazard("freed_lazily", "freed_lazily", &["72", "8", "10"], "64M", AtRandom),
    hazard("locked_refused", "locked_refused", &["54"], "64M", AtRandom),
    hazard("locked_all", "locked_all", &["48", "2"], "64M", AtRandom),
    hazard("locked_and_read_only", "locked_and_read_only", &["5", "2500"], "64M", AtRandom),
    hazard("removing_while_restoring", "removing_while_restoring", &["6", "3000"], "64M", AtRandom),
    hazard("larger_than_limit", "larger_than_limit", &["7", "80", "2"], "32M", ByBudget),
    hazard("cold_reread", "cold_reread", &["8", "24", "2"], "12M", ByBudget),
    hazard("scan", "scan", &["51", "64", "2"], "32M", ByBudget),
    hazard("bursts", "bursts", &["66", "48", "12", "6000"], "28M", ByBudget),
    hazard("freed_holes", "freed_holes", &["43", "48", "3"], "20M", ByBudget),
    hazard("freed_holes_chaos", "freed_holes", &["44", "12", "6"], "64M", AtRandom),
    // The address space changes
    hazard("fork_content", "fork_content", &["9", "32", "2"], "16M", ByBudget),
    hazard("fork_content_chaos", "fork_content", &["10", "8", "3"], "64M", AtRandom),
    hazard("fork_with_threads", "fork_with_threads", &["11", "20", "4"], "16M", ByBudget),
    hazard("fork_with_threads_chaos", "fork_with_threads", &["12", "8", "6"], "64M", AtRandom),
    hazard("spawned_children", "spawned_children", &["13", "24", "3"], "12M", ByBudget),
    hazard("spawned_children_chaos", "spawned_children", &["14", "8", "4"], "64M", AtRandom),
    hazard("raw_clone", "raw_clone", &["15", "24", "3"], "12M", ByBudget),
    hazard("fork_without_descriptors", "fork_without_descriptors", &["63", "24"], "12M", ByBudget),
    hazard("raw_clone_busy", "raw_clone_busy", &["61", "32", "8", "2"], "16M", ByBudget),
    hazard("raw_clone_busy_chaos", "raw_clone_busy", &["62", "24", "16", "2"], "64M", AtRandom),
    hazard("mremap_moves", "mremap_moves", &["16", "48", "3000"], "64M", AtRandom),
    hazard("moved_when_unregistered", "moved_when_unregistered", &["64", "3", "300", "900"], "64M", ByBudget),
    hazard("moved_while_put_back", "moved_while_put_back", &["56", "6000"], "64M", AtRandom),
    hazard("madvise_zero", "madvise_zero", &["17", "24", "3000"], "64M", AtRandom),
    hazard("dropped_again", "dropped_again", &["63", "32", "2000"], "24M", ByBudget),
    hazard("dropped_again_chaos", "dropped_again", &["64", "16", "1500"], "64M", AtRandom),
    hazard("guards_among_scans", "guards_among_scans", &["59", "3000"], "64M", AtRandom),
    hazard("unmap_reuse", "unmap_reuse", &["18", "24", "3000"], "64M", AtRandom),
    hazard("reuse_among_threads", "reuse_among_threads", &["36", "3", "48", "5000"], "24M", ByBudget),
    hazard("reuse_among_threads_chaos", "reuse_among_threads", &["37", "3", "24", "4000"], "64M", AtRandom),
    hazard("mprotect_keeps", "mprotect_keeps", &["19", "16", "2500"], "64M", AtRandom),
    hazard("brk_moves", "brk_moves", &["20", "16", "2500"], "64M", AtRandom),
    hazard("fd_sweep", "fd_sweep", &["21", "16"], "64M", AtRandom),
    hazard("fork_and_signals", "fork_and_signals", &["39", "32", "40"], "16M", ByBudget),
    hazard("fork_and_signals_chaos", "fork_and_signals", &["40", "16", "40"], "64M", AtRandom),
    hazard("vfork_copies", "vfork_copies", &["70"], "64M", AtRandom),
    hazard("fork_waits", "fork_waits", &["67", "12", "4"], "24M", ByBudget),
    hazard("fork_without_device", "fork_without_device", &["38", "32"], "12M", ByBudget),
    hazard("foreign_reader", "foreign_reader", &["22", "24"], "12M", ByBudget),
    hazard("debugger", "debugger", &["49", "16", "2"], "64M", AtRandom),
    hazard("memory_limits", "memory_limits", &["50", "48", "2500"], "96M", AtRandom),
    hazard("core_dump", "core_dump", &["23", "16"], "12M", ByBudget),
    hazard("thread_storm", "thread_storm", &["24", "10000", "0"], "64M", AtRandom),
    hazard("thread_storm_own_stacks", "thread_storm", &["25", "10000", "1"], "64M", AtRandom),
    hazard("signals", "signals", &["26", "3000"], "64M", AtRandom),
    // Never evict
    hazard("idle_stacks", "idle_stacks", &["27", "8", "3000"], "64M", AtRandom),
    hazard("ended_threads", "ended_threads", &["58", "600", "4"], "64M", AtRandom),
    hazard("beside_excluded", "beside_excluded", &["65"], "64M", AtRandom),
    hazard("seccomp_threads", "seccomp_threads", &["41", "2000"], "64M", AtRandom),
    hazard("hugetlb", "hugetlb", &["28", "1500"], "64M", AtRandom),
    hazard("shared_and_file", "shared_and_file", &["29", "3"], "64M", AtRandom),
    hazard("fork_advice_moves", "fork_advice_moves", &["60", "8"], "64M", AtRandom),
    hazard("fork_advice", "fork_advice", &["30", "6"], "64M", AtRandom),
    hazard("fork_kept", "fork_kept", &["55", "12"], "64M", AtRandom),
    hazard("fork_while_unmapping", "fork_while_unmapping", &["57", "4", "200"], "64M", AtRandom),
    hazard("fork_while_moving", "fork_while_moving", &["58", "1", "300"], "64M", AtRandom),
    hazard("advised_while_forking", "advised_while_forking", &["61", "16"], "64M", AtRandom),
    hazard("own_userfaultfd", "own_userfaultfd", &["31", "8", "0"], "64M", AtRandom),
    hazard("own_userfaultfd_late", "own_userfaultfd", &["32", "8", "1"], "64M", AtRandom),
    hazard("robust_mutex", "robust_mutex", &["33", "5"], "64M", AtRandom),
    hazard("advice_in_part", "advice_in_part", &["69"], "64M", AtRandom),
    hazard("failed_unmap", "failed_unmap", &["68", "24"], "64M", AtRandom),
    hazard("locked_grown", "locked_grown", &["77", "16", "80"], "64M", AtRandom),
    hazard("grown_over", "grown_over", &["76", "4", "2000"], "64M", AtRandom),
    hazard("robust_mutex_moves", "robust_mutex_moves", &["66", "300"], "64M", AtRandom),
    // Everything at once
    hazard("malloc_counter", "malloc_counter", &["34", "3000"], "64M", AtRandom),
    hazard("verify", "verify", &["45", "3", "32", "4", "700", "20"], "64M", AtRandom),
    hazard("stress", "stress", &["35", "3", "64", "0", "20000"], "24M", ByBudget),
];

/// The row of that name.
///
/// # Panics
/// When there is none.
pub fn named(name: &str) -> &'static Hazard {
    HAZARDS
        .iter()
        .find(|h| h.name == name)
        .unwrap_or_else(|| panic!("no hazard `{name}`"))
}

impl Hazard {
    /// Runs it natively: it must pass. False where it skipped.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn pass_natively(&self, place: &Workplace) -> bool {
        let mut command = Command::new(place.compile(self.program));
        command.args(self.arguments);
        let outcome = process::run(place, command, Duration::from_secs(60));
        let verdict = outcome.verdict();
        if let Some(figures) = &verdict {
            eprintln!(
                "{} (native): {figures} | {:.1} s",
                self.name,
                outcome.wall.as_secs_f64()
            );
        }
        verdict.is_some()
    }

    /// The call of `coldpress run` that the table asks for.
    pub fn managed<'a>(&self, place: &'a Workplace) -> Managed<'a> {
        // `ended_threads` takes 30 s beside other steps.
        let managed = Managed::new(place).budget(self.budget).within(240);
        let managed = match self.program == "raw_clone_busy" {
            true => managed.raw_clones(),
            false => managed,
        };
        match self.eviction {
            AtRandom => managed.chaos(),
            ByBudget => managed,
        }
    }
}

/// Runs the hazard program of that name under `coldpress run`: its contents must be right, pages
/// must have been evicted, it must end. `None` where this machine cannot show it (said loudly).
///
/// # Panics
/// When the promise is broken.
#[track_caller]
pub fn survive(name: &str) -> Option<Statistics> {
    if !skip::root_or_skip() {
        return None;
    }
    let hazard = named(name);
    let place = Workplace::new(name);
    let program = place.compile(hazard.program);
    hazard.managed(&place).survive(&program, hazard.arguments)
}

/// [`survive`] where another program has started it: its pager waits until the program is worth one, and what the program
/// does before that counts. The program itself insists that pages are taken. Whether it ran.
///
/// # Panics
/// When the promise is broken.
#[track_caller]
pub fn survive_started_by_another(name: &str) -> bool {
    if !skip::root_or_skip() {
        return false;
    }
    let hazard = named(name);
    let place = Workplace::new(name);
    let program = place.compile(hazard.program);
    let program = program.to_str().expect("a path in UTF-8");
    let shell = ["-c", "\"$@\"; exit $?", "sh", program];
    let arguments = shell.into_iter().chain(hazard.arguments.iter().copied());
    let (outcome, _) = hazard.managed(&place).run("/bin/sh".as_ref(), arguments);
    outcome.verdict().is_some()
}
