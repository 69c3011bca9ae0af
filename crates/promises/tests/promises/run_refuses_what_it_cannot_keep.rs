//! Without the right to serve faults of the kernel, `run` would break programs (a system call that
//! touches a compressed page gets EFAULT). It refuses, before the program starts, and names the
//! tier and the exact mend; so does `doctor`.
//!
//! Needs root (to become nobody) and `vm.unprivileged_userfaultfd` at its default 0.

use coldpress_promises::hazards::HAZARDS;
use coldpress_promises::{Managed, Outcome, Workplace, skip};

/// What `coldpress` exits with when it refuses.
const REFUSED: i32 = 125;

/// The command that mends it, in what `doctor` and `run` say alike.
const MEND: &str = "sysctl -w vm.unprivileged_userfaultfd=1";

fn assert_refusal(outcome: &Outcome) {
    assert_eq!(outcome.status.code(), Some(REFUSED), "{outcome}");
    let said = format!("{}{}", outcome.stdout, outcome.stderr).to_lowercase();
    let tier = said.contains("user-mode-only") || said.contains("user_mode_only");
    assert!(tier, "the tier is not named: {outcome}");
    assert!(said.contains(MEND), "the mend is not named: {outcome}");
}

#[test]
fn doctor_names_tier_and_mend() {
    if !skip::root_or_skip() || !skip::restricted_or_skip() {
        return;
    }
    let place = Workplace::new("doctor");
    assert_refusal(&Managed::new(&place).as_nobody().call(&["doctor"]));
}

#[test]
fn every_hazard_is_refused_before_it_starts() {
    if !skip::root_or_skip() || !skip::restricted_or_skip() {
        return;
    }
    let place = Workplace::new("refusal");
    let nobody = Managed::new(&place).as_nobody().within(20);
    for hazard in HAZARDS {
        let program = place.compile(hazard.program);
        let (outcome, _) = nobody.run(&program, hazard.arguments);
        assert_refusal(&outcome);
        let started = outcome
            .stdout
            .lines()
            .any(|l| l.starts_with("OK") || l.starts_with("WRONG"));
        assert!(!started, "{} was started: {outcome}", hazard.name);
    }
    eprintln!("{} programs refused", HAZARDS.len());
}
