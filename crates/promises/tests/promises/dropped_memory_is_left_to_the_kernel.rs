//! Memory that holds nothing of the pager's costs nothing: where a program drops memory of which some was taken, and
//! touches it again, the kernel fills it, and no handler.
//!
//! Story: jemalloc's own test `mallocx` took five times as long under the pager as natively, with 2,736 pages taken and
//! 2,981,650 first touches that a handler answered with zeros: what was registered once stayed so.

use coldpress_promises::{Managed, Workplace, hazards, skip};

/// Pages that the program touches again after it has dropped them, for one of which a handler may have to come. (Seen: 47.)
const TOUCHED_A_FAULT: u64 = 16;

fn few_come_to_a_handler(place: &Workplace, managed: &Managed) {
    let program = place.compile("dropped_again");
    let Some(statistics) = managed.survive(&program, ["62", "32", "6000"]) else {
        return;
    };
    const TOUCHED: u64 = 262_144;
    let figures = ["faults_zero", "unregistrations", "unregistered_pages"];
    let [zeros, times, pages] = figures.map(|name| statistics.get(name));
    eprintln!("{zeros} first touches by handlers; {pages} pages unregistered, {times} times");
    statistics.at_least("unregistrations", 10);
    assert!(
        zeros < TOUCHED / TOUCHED_A_FAULT,
        "{zeros} of {TOUCHED} first touches came to a handler"
    );
}

#[test]
fn few_first_touches_come_to_a_handler() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("dropped_again");
    let managed = Managed::new(&place).budget("1G");
    few_come_to_a_handler(&place, &managed.option("--cold-after", "200ms"));
}

#[test]
fn nor_for_an_ordinary_user() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("dropped_again_as_nobody");
    let managed = Managed::new(&place)
        .budget("1G")
        .option("--cold-after", "200ms");
    match managed.as_nobody().with_device() {
        Ok(managed) => few_come_to_a_handler(&place, &managed),
        Err(e) => skip::skipped(&format!("/dev/userfaultfd: {e}")),
    }
}

/// Neighbours are taken all the time, so memory is registered and unregistered without rest.
#[test]
fn content_is_right_whatever_is_taken() {
    if let Some(statistics) = hazards::survive("dropped_again_chaos") {
        statistics.at_least("unregistrations", 100);
    }
}

/// Close to the budget memory stays registered, so that what is fresh can be held back.
#[test]
fn content_is_right_under_the_fence() {
    hazards::survive("dropped_again");
}
