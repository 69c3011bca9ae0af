//! An ordinary user with an inherited open `/dev/userfaultfd` has the full tier, except the fork
//! event, which needs CAP_SYS_PTRACE: forked children must be right all the same.

use coldpress_promises::{Workplace, hazards, skip};

fn survive_as_nobody(name: &str) {
    if !skip::root_or_skip() {
        return;
    }
    let hazard = hazards::named(name);
    let place = Workplace::new(name);
    let program = place.compile(hazard.program);
    match hazard.managed(&place).as_nobody().with_device() {
        Ok(managed) => drop(managed.survive(&program, hazard.arguments)),
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}

#[test]
fn reread() {
    survive_as_nobody("cold_reread");
}

#[test]
fn fork() {
    survive_as_nobody("fork_content");
}

#[test]
fn fork_among_threads() {
    survive_as_nobody("fork_with_threads");
}

#[test]
fn mremap() {
    survive_as_nobody("mremap_moves");
}

#[test]
fn descriptor_sweeps() {
    survive_as_nobody("fd_sweep");
}

/// The program closes the device, so that its children can have no userfaultfd.
#[test]
fn fork_without_device() {
    survive_as_nobody("fork_without_device");
}

#[test]
fn stress() {
    survive_as_nobody("stress");
}
