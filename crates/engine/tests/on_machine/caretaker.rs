//! Promise: one step after the other, a machine's memory is looked after as the tunables say.

use crate::machine::*;
use coldpress_engine::Trigger;
use coldpress_engine::Tunables;
use coldpress_engine::caretaker::{Caretaker, Step};
use coldpress_engine::evictor::EngineSource;
use coldpress_engine::pressure::Level;
use coldpress_engine::queues::ageing::AgedBy;
use coldpress_engine::queues::standing::Standing;
use coldpress_engine::tunables::LruAction;
use std::cell::Cell;

const MILLISECOND: u64 = 1_000_000;

/// Free pages of the machine, besides those that reclaim frees.
struct Care {
    s: &'static System,
    caretaker: Caretaker,
    reclaimer: TestReclaimer,
    free: Cell<u64>,
}

impl Care {
    fn new(pages: u32, change: impl FnOnce(&mut Tunables)) -> Self {
        let s = system(1, 64 * pages as usize);
        for n in 0..pages {
            s.write(&mut worker(1), 1, n * 64, &content(Kind::Text, n.into()));
        }
        let mut tunables = Tunables {
            min_aging_interval_ms: 10,
            max_aging_interval_ms: 100,
            active_ratio_multiplier: 0,
            accessed_scan_interval_ms: 50,
            lru_action: LruAction::None,
            ..Tunables::DEFAULT
        };
        change(&mut tunables);
        s.engine.configure(&tunables).unwrap();
        Self {
            s,
            caretaker: Caretaker::new(1),
            reclaimer: reclaimer(2),
            free: Cell::new(1 << 30),
        }
    }

    fn step(&mut self, ms: u64) -> Step {
        self.s.machine.advance(ms * MILLISECOND);
        let (s, free) = (self.s, &self.free);
        let before = s.engine.resident_pages();
        let mut source = EngineSource {
            engine: &s.engine,
            host: &s.machine,
            reclaimer: &mut self.reclaimer,
            trigger: Trigger::Eager,
            evict: |_| false,
            free: || free.get() + u64::from(before - s.engine.resident_pages()),
        };
        let step = self.caretaker.step(&mut source);
        s.engine.check_queues();
        step
    }
}

#[test]
fn pages_age_and_accesses_are_seen_each_at_its_time() {
    let mut care = Care::new(2, |_| {});
    let first = care.step(0);
    assert_eq!(first.aged, Some(AgedBy::Time));
    assert_eq!((first.harvested.asked, first.harvested.accessed), (2, 2));
    let mut harvests = 0;
    for ms in 1..=300 {
        if ms == 120 {
            care.s.read(&mut worker(1), 1, 0);
        }
        let step = care.step(1);
        assert_eq!(step.aged, (ms % 100 == 0).then_some(AgedBy::Time));
        harvests += u32::from(step.harvested.asked > 0);
        assert_eq!(step.eager.pages() + step.pressed.pages(), 0);
    }
    assert_eq!(harvests, 300 / 50);
    let standing = |n: u32| care.s.engine.standing(1, n * 64).unwrap();
    let ages = [Standing::Generation(2), Standing::Generation(4)];
    assert_eq!([standing(0), standing(1)], ages);
}

#[test]
fn old_pages_go_if_the_lru_action_says_so() {
    let mut care = Care::new(5, |t| t.lru_action = LruAction::CompressOnly);
    let mut compressed = 0;
    for _ in 0..4 {
        compressed += care.step(100).eager.compressed;
    }
    assert_eq!(compressed, 5);
    assert_eq!(value(&care.s.engine.counters().eager_compressions), 5);
    let mut care = Care::new(5, |_| {});
    assert!((0..20).all(|_| care.step(100).eager.pages() == 0));
}

#[test]
fn under_pressure_pages_go_until_the_level_is_left() {
    let mut care = Care::new(40, |t| {
        (t.warning_mb, t.critical_mb, t.out_of_memory_mb) = (3, 2, 1);
        t.debounce_mb = 0;
        t.hysteresis_s = 0;
    });
    let critical = 2 * 256;
    care.free.set(critical + 1);
    for _ in 0..3 {
        let step = care.step(100);
        assert_eq!((step.level, step.pressed.pages()), (Level::Warning, 0));
    }
    care.free.set(critical - 10);
    let step = care.step(0);
    assert_eq!((step.level, step.pressed.compressed), (Level::Critical, 10));
    assert_eq!(value(&care.s.engine.counters().pressure_compressions), 10);
    care.free.set(critical - 256 - 1);
    let step = care.step(0);
    assert_eq!(step.level, Level::OutOfMemory);
    assert_eq!(step.pressed.compressed, 30, "all there is");
    assert_eq!(value(&care.s.engine.counters().critical_compressions), 30);
    care.free.set(critical + 256);
    assert_eq!(care.step(0).level, Level::Normal);
}

#[test]
fn at_warning_only_the_oldest_go_and_only_if_that_is_set() {
    for (set, gone) in [(false, 0), (true, 3)] {
        let mut care = Care::new(3, |t| {
            (t.warning_mb, t.critical_mb, t.out_of_memory_mb) = (3, 2, 1);
            (t.evict_at_warning, t.debounce_mb) = (set, 0);
        });
        care.free.set(3 * 256 - 3);
        let mut pressed = Vec::new();
        for _ in 0..8 {
            pressed.push(care.step(100).pressed.pages());
        }
        let total: u64 = pressed.iter().sum();
        assert_eq!(total, gone);
        assert_eq!(pressed[..5], [0; 5], "none of them is among the oldest yet");
    }
}

#[test]
fn what_is_picked_at_random_goes_at_once_whatever_the_lru_action() {
    let mut care = Care::new(60, |t| t.random_debug_compress = 50);
    let step = care.step(0);
    assert!((10..=30).contains(&step.picked), "{}", step.picked);
    let gone = (0..60).filter(|&n| care.s.is_compressed(1, n * 64)).count();
    assert_eq!(gone as u32, step.picked);
    assert_eq!(care.s.engine.queue_counts().picked, 0);
    assert_eq!(care.step(0).picked, 0, "nothing was queued since");
}
