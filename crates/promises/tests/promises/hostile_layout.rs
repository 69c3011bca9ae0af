//! The pager's own memory is nobody's burden: it takes no address space, no data, no locked memory and no room in core
//! files beyond what it uses, whatever the program locks and whatever limits it has.

use coldpress_promises::machine::MemoryGroup;
use coldpress_promises::{Managed, Workplace, process, skip};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// The program natively, which must pass.
pub fn natively(place: &Workplace, wrapper: &[&str], program: &Path, arguments: &[&str]) -> String {
    let mut words = wrapper.iter().copied().chain([program.to_str().unwrap()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(arguments);
    let outcome = process::run(place, command, LIMIT);
    outcome.verdict().unwrap_or_else(|| panic!("{outcome}"))
}

/// A figure of the line that the program prints.
pub fn figure(line: &str, name: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|&word| word != name);
    let value = words.nth(1).and_then(|word| word.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// In a memory group that has room for the program three times.
fn locked(how: &[&str], options: &[&str]) {
    if !skip::root_or_skip() {
        return;
    }
    let Some(group) = MemoryGroup::new(128 << 20) else {
        return;
    };
    let place = Workplace::new("hostile-locked");
    let program = place.compile("hostile_locked");
    let arguments: Vec<&str> = ["1"].iter().chain(how).copied().collect();
    let enter = group.enter();
    let wrapper: Vec<&str> = enter.iter().map(String::as_str).collect();
    natively(&place, &wrapper, &program, &arguments);
    let budget = if options.is_empty() { "16M" } else { "40M" };
    let mut managed = Managed::new(&place).budget(budget).wrapped(enter);
    for option in options {
        managed = managed.flag(option);
    }
    managed.survive(&program, &arguments);
}

#[test]
fn memory_that_is_locked_by_a_raw_system_call() {
    locked(&["raw"], &[]);
}

#[test]
fn memory_that_is_locked_mapping_by_mapping() {
    locked(&["maps"], &[]);
}

/// Story: the wrapper of `mlockall` left the pager's memory out only once the pager ran.
#[test]
fn memory_that_is_locked_before_the_pager_starts() {
    locked(&["libc", "at once"], &["--follow"]);
    locked(&["raw", "at once"], &["--follow"]);
}

/// Natively and managed under a limit: the pager leaves the program seven eighths of it.
fn limited(limit: &str, nobody: bool) {
    let place = Workplace::new("hostile-limits");
    let program = place.compile("hostile_limits");
    let (wrapper, arguments) = (["/usr/bin/prlimit", limit, "--"], ["2", "1000"]);
    if !skip::installed_or_skip(wrapper[0], "util-linux") {
        return;
    }
    let native = natively(&place, &wrapper, &program, &arguments);
    let mut managed = Managed::new(&place).budget("64M").wrapped(wrapper);
    if nobody {
        let Ok(with_device) = managed.as_nobody().with_device() else {
            skip::skipped("no /dev/userfaultfd");
            return;
        };
        managed = with_device;
    }
    let (outcome, _) = managed.run(&program, arguments);
    let line = outcome.verdict().expect("it does not skip");
    let (had, natively) = (figure(&line, "had"), figure(&native, "had"));
    assert!(
        had >= natively * 3 / 4,
        "{had} MiB of {natively}: {outcome}"
    );
}

#[test]
fn address_space_is_left_to_the_program() {
    limited("--as=268435456", false);
    limited("--as=268435456", true);
}

#[test]
fn data_is_left_to_the_program() {
    limited("--data=268435456", false);
}

/// Story: memory of the program came to lie behind the data of the pager's library; of the one mapping that they were
/// the pager evicted its own data, and waited for itself. Where there is room differs from run to run.
#[test]
fn memory_may_be_joined_to_the_data_of_libraries() {
    let place = Workplace::new("hostile-joined");
    let program = place.compile("hostile_joined");
    natively(&place, &[], &program, &["5"]);
    for _ in 0..4 {
        // At random: what the pager uses is seldom old.
        let managed = Managed::new(&place).chaos().within(45);
        managed.survive(&program, ["5"]);
    }
    if skip::root_or_skip() {
        match Managed::new(&place).chaos().as_nobody().with_device() {
            Ok(managed) => drop(managed.survive(&program, ["5"])),
            Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
        }
    }
}

/// Story: the core file of a program of 32 MiB had an apparent size of 27 GB.
#[test]
fn core_files_hold_the_program() {
    let place = Workplace::new("hostile-core");
    let program = place.compile("hostile_limits");
    let native = natively(&place, &[], &program, &["4", "32"]);
    let (outcome, _) = Managed::new(&place)
        .budget("16M")
        .run(&program, ["4", "32"]);
    let line = outcome.verdict().expect("it does not skip");
    for name in ["dumped", "child"] {
        let (managed, native) = (figure(&line, name), figure(&native, name));
        assert!(managed <= native + 8, "{managed} MiB, natively {native}");
    }
}
