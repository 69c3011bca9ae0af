//! Promise: each trigger does what the tunables let it do, and is counted; random debug compression
//! takes its share, and the same for the same seed.

use crate::machine::*;
use coldpress_engine::queues::GENERATIONS;
use coldpress_engine::queues::random::RandomPick;
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::tunables::LruAction;
use coldpress_engine::{Batch, Trigger, TunableError, Tunables};

/// Sets something.
type Switch = fn(&mut Tunables);

const TRIGGERS: [Trigger; 3] = [Trigger::Eager, Trigger::Pressure, Trigger::Critical];

fn configure(s: &System, change: impl FnOnce(&mut Tunables)) {
    let mut tunables = Tunables::DEFAULT;
    change(&mut tunables);
    s.engine.configure(&tunables).unwrap();
}

fn reclaim(s: &System, r: &mut TestReclaimer, pages: u32, trigger: Trigger) -> Batch {
    s.engine
        .reclaim_batch(&s.machine, r, pages, u64::MAX, trigger)
}

/// A machine with `pages` inactive pages, a leaf apart.
fn inactive(pages: u32, kind: Kind) -> &'static System {
    let s = system(1, 64 * pages as usize);
    for n in 0..pages {
        s.write(&mut worker(1), 1, n * 64, &content(kind, n.into()));
    }
    for _ in 0..2 {
        s.engine.rotate(&s.machine);
    }
    s
}

#[test]
fn each_trigger_has_a_switch_and_a_counter() {
    let switches: [(Trigger, Switch); 4] = [
        (Trigger::Eager, |t| t.lru_action = LruAction::None),
        (Trigger::Eager, |t| t.lru_action = LruAction::EvictOnly),
        (Trigger::Pressure, |t| t.at_memory_pressure = false),
        (Trigger::Critical, |t| t.at_critical = false),
    ];
    for (off, switch) in switches {
        let s = inactive(6, Kind::Text);
        let (mut r, c) = (reclaimer(2), s.engine.counters());
        configure(s, switch);
        for trigger in TRIGGERS {
            let kept = reclaim(s, &mut r, 1, trigger).kept;
            assert_eq!(kept, u32::from(trigger != off), "{trigger:?}");
        }
        let counted = [
            &c.eager_compressions,
            &c.pressure_compressions,
            &c.critical_compressions,
        ];
        let expected = TRIGGERS.map(|trigger| u64::from(trigger != off));
        assert_eq!(counted.map(value), expected);
        assert_eq!(value(&c.switched_off), 1);
        configure(s, |_| {});
        assert_eq!(reclaim(s, &mut r, 1, off).kept, 1);
    }
}

#[test]
fn nothing_is_reclaimed_where_reclaim_or_the_strategy_is_off() {
    use coldpress_engine::tunables::{StorageStrategy, Strategy};
    let s = inactive(3, Kind::Text);
    let mut r = reclaimer(2);
    let offs: [Switch; 2] = [
        |t| t.enable_eviction = false,
        |t| (t.strategy, t.storage_strategy) = (Strategy::None, StorageStrategy::None),
    ];
    for (n, off) in offs.into_iter().enumerate() {
        configure(s, off);
        for trigger in TRIGGERS {
            assert_eq!(reclaim(s, &mut r, 9, trigger), Batch::default());
            assert_eq!(s.engine.evicts(trigger), n == 1);
        }
    }
    assert_eq!(s.engine.active_inactive().inactive, 3);
}

#[test]
fn the_lru_action_says_what_the_eager_trigger_does() {
    let s = inactive(1, Kind::Text);
    for (action, evicts, compresses) in [
        (LruAction::None, false, false),
        (LruAction::EvictOnly, true, false),
        (LruAction::CompressOnly, false, true),
        (LruAction::EvictAndCompress, true, true),
    ] {
        configure(s, |t| t.lru_action = action);
        let (evicted, compressed) = (
            s.engine.evicts(Trigger::Eager),
            s.engine.compresses(Trigger::Eager),
        );
        assert_eq!((evicted, compressed), (evicts, compresses), "{action:?}");
        assert!(s.engine.evicts(Trigger::Pressure) && s.engine.compresses(Trigger::Pressure));
    }
}

#[test]
fn the_eager_trigger_walks_older_generations_only_if_it_is_told_to() {
    let s = inactive(4, Kind::Text);
    let mut r = reclaimer(2);
    configure(s, |t| t.eager_walks_older = false);
    assert_eq!(reclaim(s, &mut r, 1, Trigger::Eager).taken, 0);
    assert_eq!(reclaim(s, &mut r, 1, Trigger::Pressure).taken, 1);
    // A hint is as good as age.
    s.engine.move_page(1, 3 * 64, Queue::DontNeed);
    assert_eq!(reclaim(s, &mut r, 9, Trigger::Eager).taken, 1);
    assert!(s.is_compressed(1, 3 * 64));
    for age in 2..GENERATIONS - 1 {
        assert_eq!(s.engine.standing(1, 64), Some(Standing::Generation(age)));
        assert_eq!(reclaim(s, &mut r, 1, Trigger::Eager).taken, 0);
        s.engine.rotate(&s.machine);
    }
    assert_eq!(reclaim(s, &mut r, 1, Trigger::Eager).taken, 1);
    s.engine.rotate(&s.machine);
    let isolated = Some(Standing::Isolated);
    assert_eq!(s.engine.standing(1, 2 * 64), isolated);
    assert_eq!(reclaim(s, &mut r, 9, Trigger::Eager).taken, 1);
    let s = inactive(4, Kind::Text);
    assert_eq!(reclaim(s, &mut r, 9, Trigger::Eager).taken, 4, "by default");
}

#[test]
fn the_target_size_decides_what_is_kept() {
    // A page of which 2,400 bytes do not compress.
    let mut page = content(Kind::Noise, 1);
    page[2400..].fill(7);
    for (threshold, kept) in [(100, 1), (70, 1), (60, 1), (58, 0), (1, 0)] {
        let s = system(1, 64);
        s.write(&mut worker(1), 1, 0, &page);
        configure(s, |t| t.threshold = threshold);
        s.cool();
        let batch = s.reclaim(&mut reclaimer(2), 1);
        assert_eq!((batch.taken, batch.kept), (1, kept), "{threshold} %");
        assert_eq!(s.engine.failed_pages(), 1 - kept);
        assert_eq!(s.read(&mut worker(1), 1, 0), page);
    }
}

#[test]
fn zero_pages_are_found_by_compression() {
    let s = inactive(3, Kind::Zero);
    s.engine.move_page(1, 0, Queue::ZeroFork);
    for _ in 0..2 {
        s.engine.rotate(&s.machine);
    }
    assert_eq!(s.reclaim(&mut reclaimer(2), 9).kept, 3);
    assert_eq!(value(&s.engine.counters().same_filled_pages), 3);
    assert_eq!(s.engine.storage_usage().objects, 0);
}

/// Which of 200 pages random debug compression takes.
fn picked(seed: u64, share_percent: u64) -> Vec<u32> {
    let s = system(1, 64 * 200);
    let (mut w, mut r, mut random) = (worker(1), reclaimer(2), RandomPick::new(seed));
    let mut picked = 0;
    for n in 0..200 {
        s.write(
            &mut w,
            1,
            n * 64 % 8192 + n / 128 * 3,
            &content(Kind::Text, n.into()),
        );
        picked += s.engine.pick_random(&mut random, share_percent);
        s.engine.check_queues();
    }
    assert_eq!(value(&s.engine.counters().picked), picked.into());
    assert_eq!(s.engine.queue_counts().picked, picked);
    // However young, these go, and no others but their neighbours.
    let mut taken = 0;
    while s.engine.queue_counts().picked > 0 {
        taken += s.reclaim(&mut r, 1).taken;
    }
    assert!(taken >= picked);
    let place = |n: u32| n * 64 % 8192 + n / 128 * 3;
    let gone = (0..200).filter(|&n| s.is_compressed(1, place(n))).collect();
    for n in 0..200 {
        assert_eq!(s.read(&mut w, 1, place(n)), content(Kind::Text, n.into()));
    }
    gone
}

#[test]
fn random_debug_compression_takes_its_share_the_same_for_the_same_seed() {
    assert_eq!(picked(1, 0), []);
    let ten = picked(1, 10);
    assert!((8..50).contains(&ten.len()), "{} pages", ten.len());
    assert_eq!(picked(1, 10), ten);
    assert_ne!(picked(2, 10), ten);
    assert!(picked(1, 100).len() > 100);
}

#[test]
fn random_debug_compression_spares_what_is_never_reclaimed_and_what_was_touched() {
    let s = inactive(4, Kind::Text);
    for (n, queue) in [Queue::Wired, Queue::Dirty, Queue::HighPriority]
        .into_iter()
        .enumerate()
    {
        s.engine.move_page(1, n as u32 * 64, queue);
    }
    let mut random = RandomPick::new(7);
    for _ in 0..100 {
        s.engine.mark_accessed(1, 3 * 64);
        s.engine.rotate(&s.machine);
        s.engine.pick_random(&mut random, 100);
    }
    let counts = s.engine.queue_counts();
    assert_eq!(counts.picked, 1);
    assert_eq!(
        (counts.wired, counts.dirty, counts.high_priority),
        (1, 1, 1)
    );
    s.engine.mark_accessed(1, 3 * 64);
    assert_eq!(s.engine.queue_counts().picked, 0);
    s.engine.check_queues();
}

#[test]
fn values_that_contradict_each_other_are_not_taken_over() {
    let s = system(1, 64);
    for lines in [
        &["kernel.page-scanner.min-aging-interval-ms=15001"][..],
        &["kernel.compression.reclaim_anonymous=false"],
        &["kernel.compression.strategy=none"],
        &["kernel.compression.storage-strategy=none"],
        &["kernel.oom.warning-mb=149"],
        &["kernel.oom.critical-mb=49"],
    ] {
        let mut tunables = Tunables::DEFAULT;
        lines.iter().for_each(|line| tunables.set(line).unwrap());
        let refused = s.engine.configure(&tunables);
        assert!(matches!(refused, Err(TunableError::Contradiction(_))));
        assert_eq!(s.engine.tunables().load(), Tunables::DEFAULT);
    }
    let mut tunables = Tunables::DEFAULT;
    tunables.set("kernel.compression.strategy=none").unwrap();
    tunables
        .set("kernel.compression.storage-strategy=none")
        .unwrap();
    s.engine.configure(&tunables).unwrap();
    assert_eq!(s.engine.tunables().load(), tunables);
}
