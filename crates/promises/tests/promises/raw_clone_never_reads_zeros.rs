//! A raw `clone` passes every libc hook: its child may be refused (killed), and never sees zeros where data were. With
//! `--raw-clones`, where the kernel tells of forks (CAP_SYS_PTRACE), it has all its content, whatever else goes on.
//! Story: for Go with cgo, which starts a child in a new user namespace so, `run` was SIGSEGV.

use coldpress_promises::hazards::survive;
use coldpress_promises::{Managed, Workplace, skip};

/// CAP_SYS_PTRACE is bit 19 (`capabilities(7)`).
fn kernel_tells_of_forks() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    effective.is_some_and(|set| set & 1 << 19 != 0)
}

fn told_or_skip() -> bool {
    if !kernel_tells_of_forks() {
        skip::skipped("needs CAP_SYS_PTRACE");
    }
    kernel_tells_of_forks()
}

#[test]
fn raw_clone_never_reads_zeros() {
    survive("raw_clone");
}

#[test]
fn no_child_of_a_raw_clone_is_refused_where_the_kernel_tells_of_it() {
    if !told_or_skip() {
        return;
    }
    let place = Workplace::new("raw_clone_as_natively");
    let program = place.compile("raw_clone");
    let (outcome, _) = Managed::new(&place)
        .budget("12M")
        .raw_clones()
        .run(&program, ["15", "24", "3"]);
    let figures = outcome.verdict().expect("nothing to skip");
    assert_eq!(figures, "OK 3 right, 0 refused", "{outcome}");
}

#[test]
fn children_of_a_raw_clone_are_whole_processes() {
    if told_or_skip() {
        survive("raw_clone_busy");
        survive("raw_clone_busy_chaos");
    }
}

#[test]
fn without_the_capability_they_never_read_zeros() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("raw_clone_as_nobody");
    let program = place.compile("raw_clone");
    match Managed::new(&place)
        .budget("12M")
        .raw_clones()
        .as_nobody()
        .with_device()
    {
        Ok(managed) => drop(managed.survive(&program, ["16", "24", "3"])),
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}

/// A sandbox leaves its process no descriptors. Where forks are told of by one, libc's `fork` hung.
#[test]
fn a_process_without_descriptors_forks() {
    survive("fork_without_descriptors");
}
