//! What is looked for because of the cold age is looked for seldom; what the budget needs must not wait
//! for that.

use coldpress_promises::{Managed, Workplace, skip};

#[test]
fn memory_that_comes_later_is_held_within_the_budget() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("grow_later");
    let program = place.compile("grow_later");
    let managed = Managed::new(&place)
        .budget("600M")
        .option("--cold-after", "10m");
    if let Some(statistics) = managed.survive(&program, ["53", "512", "256", "600"]) {
        statistics.at_least("evictions", 1000);
    }
}
