//! The model can fail: each machine that breaks one rule on which the protocol relies is found out.

use coldpress_sim::sabotage::{KernelSabotage, PagerSabotage};
use coldpress_sim::{Failure, Mode, Settings, run};

/// Steps within which every sabotage is noticed.
const STEPS: u64 = 10_000_000;

fn failure_of(settings: &Settings, what: &str) -> Box<Failure> {
    let failure = run(settings, |_| ()).expect_err(what);
    println!(
        "{what}: world {}, step {}: {}",
        failure.world, failure.step, failure.found
    );
    failure
}

fn on_pager(pager_sabotage: PagerSabotage) -> Box<Failure> {
    on_pager_of(1, pager_sabotage)
}

/// In the worlds of another seed: the first of seed 1 finds it by another check.
fn on_pager_of(seed: u64, pager_sabotage: PagerSabotage) -> Box<Failure> {
    let settings = Settings {
        pager_sabotage,
        ..Settings::new(Mode::Pager, seed, STEPS)
    };
    failure_of(&settings, &format!("{pager_sabotage:?}"))
}

fn on_kernel(kernel_sabotage: KernelSabotage) -> Box<Failure> {
    on_kernel_of(1, kernel_sabotage)
}

/// As [`on_pager_of`].
fn on_kernel_of(seed: u64, kernel_sabotage: KernelSabotage) -> Box<Failure> {
    let settings = Settings {
        kernel_sabotage,
        ..Settings::new(Mode::Kernel, seed, STEPS)
    };
    failure_of(&settings, &format!("{kernel_sabotage:?}"))
}

#[test]
fn a_move_that_loses_a_write() {
    let failure = on_pager_of(2, PagerSabotage::MoveLosesWrites);
    assert!(failure.found.contains("must be"), "{}", failure.found);
    // When it was taken out may stand with the first page of its run.
    assert!(
        failure.transitions.contains("Latest of page") && failure.transitions.contains("installs"),
        "the page's story is told: {}",
        failure.transitions
    );
}

#[test]
fn an_install_that_replaces_what_is_there() {
    on_pager(PagerSabotage::InstallReplaces);
}

#[test]
fn an_install_in_the_middle_of_a_change() {
    on_pager(PagerSabotage::InstallsWhileChanging);
}

#[test]
fn a_sleeper_that_nobody_wakes() {
    let failure = on_pager(PagerSabotage::NeverWakes);
    assert!(failure.found.contains("nobody wakes"), "{}", failure.found);
    let failure = on_kernel(KernelSabotage::NeverWakes);
    assert!(
        failure.found.contains("nobody has woken"),
        "{}",
        failure.found
    );
}

#[test]
fn staging_that_changes_while_it_is_compressed() {
    on_pager(PagerSabotage::StagingOverwritten);
    let failure = on_kernel(KernelSabotage::StagingOverwritten);
    assert!(
        failure.found.contains("holds something else"),
        "{}",
        failure.found
    );
}

#[test]
fn a_page_that_is_taken_out_and_stays_mapped() {
    on_kernel(KernelSabotage::TakeKeepsMappings);
}

#[test]
fn a_snapshot_that_is_written_through_an_old_mapping() {
    let failure = on_kernel(KernelSabotage::ProtectIgnored);
    assert!(
        failure.found.contains("holds something else"),
        "{}",
        failure.found
    );
}

#[test]
fn a_mapping_that_goes_on_showing_what_it_showed() {
    on_kernel(KernelSabotage::UnmapIgnored);
}

#[test]
fn a_user_pager_that_forgets_what_it_has_written_back() {
    let failure = on_kernel_of(2, KernelSabotage::WritebackForgotten);
    assert!(
        failure.found.contains("holds something else"),
        "{}",
        failure.found
    );
}

#[test]
fn a_failure_comes_back() {
    let first = on_pager(PagerSabotage::MoveLosesWrites);
    let again = on_pager(PagerSabotage::MoveLosesWrites);
    assert_eq!(
        (first.world, first.step, first.found),
        (again.world, again.step, again.found)
    );
}
