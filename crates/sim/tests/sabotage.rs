//! The model can fail: each machine that breaks one rule on which the protocol relies is found out.

use coldpress_sim::linux::Sabotage;
use coldpress_sim::{Failure, Mode, Settings, run};

/// Steps within which every sabotage is noticed.
const STEPS: u64 = 2_000_000;

fn found(sabotage: Sabotage) -> Box<Failure> {
    let settings = Settings {
        sabotage,
        ..Settings::new(Mode::Linux, 1, STEPS)
    };
    let result = run(&settings, |_| ());
    let failure = result.expect_err(&format!("{sabotage:?} went unnoticed"));
    println!(
        "{sabotage:?}: world {}, step {}: {}",
        failure.world, failure.step, failure.found
    );
    failure
}

#[test]
fn a_take_that_loses_a_write() {
    let failure = found(Sabotage::TakeLosesWrites);
    assert!(failure.found.contains("must be"), "{}", failure.found);
    assert!(
        failure.transitions.contains("takes a page out"),
        "the page's story is told"
    );
}

#[test]
fn an_install_that_replaces_what_is_there() {
    found(Sabotage::InstallReplaces);
}

#[test]
fn an_install_in_the_middle_of_a_change() {
    found(Sabotage::InstallsWhileChanging);
}

#[test]
fn a_change_delivered_inside_a_stable_section() {
    found(Sabotage::GateBroken);
}

#[test]
fn a_sleeper_that_nobody_wakes() {
    let failure = found(Sabotage::NeverWakes);
    assert!(
        failure.found.contains("nobody will wake"),
        "{}",
        failure.found
    );
}

#[test]
fn staging_that_changes_while_it_is_compressed() {
    found(Sabotage::StagingOverwritten);
}

#[test]
fn a_failure_comes_back() {
    let first = found(Sabotage::TakeLosesWrites);
    let again = found(Sabotage::TakeLosesWrites);
    assert_eq!(
        (first.world, first.step, first.found),
        (again.world, again.step, again.found)
    );
}
