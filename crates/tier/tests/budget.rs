//! Promise: no more is written in a day than was allowed, and a new day begins with a new budget.

use crate::common::{Run, SEGMENT};
use coldpress_tier::Refused;

#[test]
fn no_more_is_written_in_a_day_than_was_allowed() {
    let daily = 5 * SEGMENT as u64;
    let mut run = Run::new(4, 2000, 11, Some(daily));
    let mut written = 0;
    for day in 0..30 {
        run.tier.tick(day * 86_400 + 17);
        loop {
            match run.put() {
                Ok(_) => {}
                Err(Refused::Full) => {
                    let all: Vec<u32> = run.held.keys().copied().step_by(2).collect();
                    all.iter().for_each(|number| run.remove(*number));
                }
                Err(error) => {
                    assert_eq!(error, Refused::Budget);
                    break;
                }
            }
        }
        let counts = run.tier.counts();
        assert!(counts.written_bytes - written <= daily, "{counts:?}");
        assert!(counts.written_bytes > written, "nothing was written");
        written = counts.written_bytes;
        run.tier.tick(day * 86_400 + 86_399);
        assert!(run.tier.budget_left().unwrap() < SEGMENT as u64);
        // All is there, whatever was refused.
        let all: Vec<u32> = run.held.keys().copied().collect();
        all.iter().for_each(|number| run.get(*number).unwrap());
    }
    assert_eq!(run.tier.counts().refused_budget, 30);
}
