//! What a thread that reclaims does again and again: age, take a batch, rest.

use crate::codec::SimCodec;
use crate::machine::Clock;
use crate::schedule::{doze, random};
use coldpress_engine::{Ageing, Engine, Host, Reclaimer, Trigger};
use coldpress_storage::AnyStorage;

/// Generations open quickly: time is short here.
const AGEING: Ageing = Ageing {
    interval_ns: 400_000,
    pressed_interval_ns: 60_000,
    retry_failed_ns: 4_000_000,
};

/// Pages beyond those that it was asked for that a batch may take: the rest of its last run.
const RUN_PAGES: u32 = 64;

/// One turn, of fewer than `pages` pages.
pub fn turn<H: Host>(
    engine: &Engine<H, SimCodec, AnyStorage>,
    host: &H,
    clock: &Clock,
    reclaimer: &mut Reclaimer<SimCodec>,
    pages: u64,
) {
    let inactive = engine.age(host, &AGEING, random().one_in(2));
    let pages = random().between(1, pages) as u32;
    let before = match random().below(4) {
        0..=2 => u64::MAX,
        _ => clock.now_ns().saturating_sub(random().below(1_000_000)),
    };
    let trigger = random().pick(&[Trigger::Eager, Trigger::Pressure, Trigger::Critical]);
    let batch = engine.reclaim_batch(host, reclaimer, pages, before, trigger);
    assert!(batch.taken < pages + RUN_PAGES && batch.kept <= batch.taken);
    match inactive == 0 || batch.taken == 0 {
        true => {
            clock.jump(random().below(300_000));
            doze(300);
        }
        false => doze(60),
    }
}
