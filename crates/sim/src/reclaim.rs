//! What a thread that reclaims does again and again: age, take a batch, rest. And what it does in
//! idle time: store pages anew.

use crate::codec::SimCodec;
use crate::inject::Kind;
use crate::machine::Clock;
use crate::schedule::{doze, note, random};
use coldpress_engine::{Ageing, Engine, Host, Pace, Reclaimer, Recoded, Recoder, Search, Trigger};
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
    let pace = if random().one_in(2) {
        Pace::Pressed
    } else {
        Pace::Steady
    };
    let inactive = engine.age(host, &AGEING, pace);
    let pages = random().between(1, pages) as u32;
    let before = match random().below(4) {
        0..=2 => u64::MAX,
        _ => clock.now_ns().saturating_sub(random().below(1_000_000)),
    };
    let trigger = random().pick(&[Trigger::Eager, Trigger::Pressure, Trigger::Critical]);
    let batch = engine.reclaim_batch(host, reclaimer, pages, before, trigger);
    assert!(batch.taken < pages + RUN_PAGES && batch.kept <= batch.taken);
    if inactive == 0 || batch.taken == 0 {
        clock.jump(random().below(300_000));
        doze(300);
    } else {
        doze(60)
    }
}

/// Stores some pages anew, with the codec that made them: what counts here is what happens meanwhile, so
/// that a result need not be smaller.
pub fn recode<H: Host>(
    engine: &Engine<H, SimCodec, AnyStorage>,
    host: &H,
    recoder: &mut Recoder<SimCodec, SimCodec>,
) {
    for _ in 0..random().between(1, 6) {
        let entries = random().between(1, 200) as u32;
        let least_ms = random().pick(&[0, 0, 0, 16]);
        if engine.find_stored(host, recoder, least_ms..u32::MAX, entries) != Search::Found {
            continue;
        }
        match engine.recode(host, recoder, engine.codec(), usize::MAX) {
            Recoded::Kept(_) => note(Kind::Recoded),
            Recoded::Overtaken => note(Kind::RecodeOvertaken),
            Recoded::NoStorage | Recoded::NotWorthIt => {}
            Recoded::Wrong => panic!("what was stored anew is not the page"),
        }
    }
}
