//! Promise: pages age as the tunables say, by time, by the ratio of active pages and by hand; what
//! is accessed is young again, wherever it stood.

use crate::machine::*;
use coldpress_engine::harvest::Harvest;
use coldpress_engine::queues::ageing::AgedBy;
use coldpress_engine::queues::counts::{QueueCounts, ReclaimBytes};
use coldpress_engine::queues::standing::{Mark, Marking, Queue, Standing};
use coldpress_engine::queues::{GENERATIONS, OLDEST_GENERATIONS};
use coldpress_engine::{Trigger, Tunables};

const MILLISECOND: u64 = 1_000_000;

/// A machine whose first `pages` leaves have a page in place each.
fn system_of(pages: u32) -> &'static System {
    let s = system(1, 64 * pages as usize);
    for n in 0..pages {
        s.write(&mut worker(1), 1, n * 64, &content(Kind::Text, n.into()));
    }
    s
}

fn configure(s: &System, change: impl FnOnce(&mut Tunables)) {
    let mut tunables = s.engine.tunables().load();
    change(&mut tunables);
    s.engine.configure(&tunables).unwrap();
}

fn age(s: &System, ms: u64) -> Option<AgedBy> {
    s.machine.advance(ms * MILLISECOND);
    let aged = s.engine.age_as_tuned(&s.machine);
    s.engine.check_queues();
    aged
}

fn standing(s: &System, n: u32) -> Standing {
    s.engine.standing(1, n * 64).unwrap()
}

#[test]
fn time_and_the_ratio_of_active_pages_open_generations() {
    let s = system_of(6);
    configure(s, |t| {
        t.min_aging_interval_ms = 10;
        t.max_aging_interval_ms = 100;
        t.active_ratio_multiplier = 2;
    });
    assert_eq!(age(s, 0), Some(AgedBy::Time), "the first of all");
    // Six active pages, none inactive.
    assert_eq!(age(s, 9), None);
    assert_eq!(age(s, 1), Some(AgedBy::ActiveRatio));
    // All are inactive now; two of them become active: 2 × 2 is not more than 4.
    assert_eq!(s.engine.active_inactive().inactive, 6);
    for n in 0..2 {
        assert!(s.engine.mark_accessed(1, n * 64));
    }
    assert_eq!(age(s, 99), None);
    // A third: 2 × 3 is more than 3.
    s.engine.mark_accessed(1, 2 * 64);
    assert_eq!(age(s, 0), Some(AgedBy::ActiveRatio));
    assert_eq!(age(s, 9), None);
    // Without the rule only time counts.
    configure(s, |t| t.active_ratio_multiplier = 0);
    assert_eq!(age(s, 90), None);
    assert_eq!(age(s, 1), Some(AgedBy::Time));
    s.engine.rotate(&s.machine);
    let c = s.engine.counters();
    let aged = [&c.aged_by_time, &c.aged_by_active_ratio, &c.aged_by_hand].map(value);
    assert_eq!(aged, [2, 2, 1]);
}

#[test]
fn rotating_a_large_generation_out_keeps_its_order() {
    // More pages than are isolated under one hold of the queue lock.
    let s = system(1, 8192);
    let mut w = worker(1);
    for n in (0..1000).rev() {
        s.write(&mut w, 1, n * 8, &content(Kind::Zero, 0));
    }
    for _ in 0..GENERATIONS {
        s.engine.rotate(&s.machine);
    }
    s.engine.check_queues();
    assert_eq!(s.engine.queue_counts().isolated, 1000);
    s.write(&mut w, 1, 1, &content(Kind::Zero, 0));
    let mut r = reclaimer(2);
    // The last leaf was written first.
    s.reclaim(&mut r, 1);
    assert!(!s.is_resident(1, 999 * 8) && s.is_resident(1, 0));
    while s.reclaim(&mut r, 64).taken > 0 {}
    assert!(s.is_resident(1, 1) || !s.is_resident(1, 0));
    assert_eq!(s.engine.queue_counts().isolated, 0);
}

#[test]
fn isolated_pages_are_as_old_as_the_youngest_of_them() {
    let s = system_of(2);
    s.machine.advance(SECOND);
    s.engine.rotate(&s.machine);
    let closed = s.now_ns();
    for _ in 0..GENERATIONS {
        s.machine.advance(SECOND);
        s.engine.rotate(&s.machine);
    }
    assert_eq!(standing(s, 0), Standing::Isolated);
    let mut r = reclaimer(2);
    let mut take = |before| {
        let eager = Trigger::Eager;
        s.engine
            .reclaim_batch(&s.machine, &mut r, 1, before, eager)
            .taken
    };
    assert_eq!(take(closed - 1), 0);
    assert_eq!(take(closed), 1);
}

#[test]
fn a_harvest_goes_on_where_the_last_one_ended_and_takes_bounded_steps() {
    let s = system_of(10);
    let mut harvest = Harvest::default();
    s.engine.rotate(&s.machine);
    let mut w = worker(1);
    let (mut asked, mut calls) = (0, 0);
    while harvest.rounds == 0 {
        let found = s.engine.harvest(&s.machine, &mut harvest, 3);
        assert!(found.asked <= 3);
        asked += found.asked;
        calls += 1;
        assert!(calls <= 128 / 3 + 2, "it comes to an end");
    }
    assert_eq!(asked, 10);
    assert_eq!(value(&s.engine.counters().accessed), 10, "written before");
    s.engine.rotate(&s.machine);
    s.read(&mut w, 1, 7 * 64);
    while harvest.rounds == 1 {
        s.engine.harvest(&s.machine, &mut harvest, 3);
    }
    for n in 0..10 {
        let young = Standing::Generation(usize::from(n != 7));
        assert_eq!(standing(s, n), young, "page {n}");
    }
    s.engine.check_queues();
}

#[test]
fn pages_that_came_and_went_during_a_harvest_are_passed_over() {
    let s = system(2, 128);
    let (mut w, mut harvest) = (worker(1), Harvest::default());
    s.write(&mut w, 1, 0, &content(Kind::Text, 0));
    s.write(&mut w, 2, 64, &content(Kind::Text, 0));
    s.send_away(&mut reclaimer(2));
    let found = s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
    assert_eq!((found.asked, harvest.rounds), (0, 1));
    s.read(&mut w, 2, 64);
    let found = s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
    assert_eq!((found.asked, found.accessed), (1, 1));
    s.decommit(2, 64, 65);
    assert!(!s.engine.mark_accessed(2, 64));
    s.engine.check_queues();
}

#[test]
fn failed_pages_stay_failed_until_they_are_accessed() {
    let s = system(1, 256);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for n in 0..3 {
        s.write(&mut w, 1, n * 64, &content(Kind::Noise, n.into()));
    }
    for _ in 0..3 {
        s.engine.rotate(&s.machine);
    }
    assert_eq!(s.reclaim(&mut r, 10).kept, 0);
    assert_eq!(s.engine.failed_pages(), 3);
    let attempts = value(&s.engine.counters().compression_attempts);
    for _ in 0..50 {
        age(s, 1_000_000);
        s.reclaim(&mut r, 10);
    }
    assert_eq!(
        value(&s.engine.counters().compression_attempts),
        attempts,
        "compression is not attempted again"
    );
    // One is accessed, which a harvest finds; one is seen to be.
    let mut harvest = Harvest::default();
    s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
    assert_eq!(s.engine.failed_pages(), 3);
    s.read(&mut w, 1, 0);
    s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
    assert!(s.engine.mark_accessed(1, 64));
    assert_eq!(s.engine.failed_pages(), 1);
    for n in 0..2 {
        assert_eq!(standing(s, n), Standing::Generation(0));
    }
    // They age, and are attempted again.
    for _ in 0..3 {
        s.engine.rotate(&s.machine);
    }
    s.reclaim(&mut r, 10);
    assert_eq!(
        value(&s.engine.counters().compression_attempts),
        attempts + 2
    );
}

#[test]
fn failed_pages_come_back_after_the_time_that_is_set() {
    let s = system_of(1);
    configure(s, |t| t.retry_failed_ms = 1000);
    age(s, 0);
    assert!(s.engine.move_page(1, 0, Queue::Failed));
    age(s, 499);
    assert_eq!(s.engine.failed_pages(), 1);
    age(s, 501);
    assert_eq!(s.engine.failed_pages(), 1, "listed at this tick");
    age(s, 500);
    assert_eq!(s.engine.failed_pages(), 0);
}

#[test]
fn pages_that_are_always_needed_are_passed_over_until_memory_is_critical() {
    let s = system_of(3);
    let mut r = reclaimer(2);
    assert!(s.engine.mark_page(1, 0, Mark::AlwaysNeed, Marking::Set));
    let mut reclaim = |trigger| {
        for _ in 0..3 {
            s.engine.rotate(&s.machine);
        }
        s.engine
            .reclaim_batch(&s.machine, &mut r, 10, u64::MAX, trigger)
            .taken
    };
    assert_eq!(reclaim(Trigger::Pressure), 2);
    assert_eq!(standing(s, 0), Standing::Generation(0), "it is young again");
    assert_eq!(reclaim(Trigger::Eager), 0);
    assert_eq!(reclaim(Trigger::Critical), 1);
    // The hint is spent: the page is one like all when it comes back.
    s.read(&mut worker(1), 1, 0);
    assert_eq!(reclaim(Trigger::Pressure), 1);
}

#[test]
fn neighbours_that_are_always_needed_are_not_taken_along() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..6 {
        s.write(&mut w, 1, index, &content(Kind::Text, index.into()));
    }
    assert!(s.engine.mark_page(1, 2, Mark::AlwaysNeed, Marking::Set));
    for rotations in [0, 3] {
        for _ in 0..rotations {
            s.engine.rotate(&s.machine);
        }
        s.engine.move_page(1, 0, Queue::DontNeed);
        while s.reclaim(&mut r, 64).taken > 0 {}
        assert!(s.is_resident(1, 2), "after {rotations} rotations");
        s.read(&mut w, 1, 0);
    }
    assert!(!s.is_resident(1, 1) && !s.is_resident(1, 5));
}

#[test]
fn marks_end_with_the_page() {
    let s = system_of(1);
    for mark in [Mark::PagerBacked, Mark::AlwaysNeed] {
        assert!(s.engine.mark_page(1, 0, mark, Marking::Set));
        s.decommit(1, 0, 1);
        s.write(&mut worker(1), 1, 0, &content(Kind::Text, 0));
        for _ in 0..3 {
            s.engine.rotate(&s.machine);
        }
        assert_eq!(s.reclaim(&mut reclaimer(2), 1).taken, 1, "{mark:?}");
        s.read(&mut worker(1), 1, 0);
    }
}

#[test]
fn the_later_of_two_hints_counts() {
    let s = system_of(1);
    let mut r = reclaimer(2);
    assert!(s.engine.mark_page(1, 0, Mark::AlwaysNeed, Marking::Set));
    assert!(s.engine.move_page(1, 0, Queue::DontNeed));
    assert!(s.engine.mark_page(1, 0, Mark::AlwaysNeed, Marking::Set));
    assert_eq!(standing(s, 0), Standing::Generation(0));
    assert!(s.engine.move_page(1, 0, Queue::DontNeed));
    assert_eq!(s.reclaim(&mut r, 1).taken, 1);
}

#[test]
fn neighbours_that_are_pinned_dirty_or_needed_are_never_taken_along() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..12 {
        s.write(&mut w, 1, index, &content(Kind::Text, index.into()));
    }
    for (index, queue) in [
        (2, Queue::Wired),
        (4, Queue::HighPriority),
        (6, Queue::Dirty),
        (8, Queue::Failed),
    ] {
        assert!(s.engine.move_page(1, index, queue));
    }
    for _ in 0..3 {
        s.engine.rotate(&s.machine);
    }
    while s.reclaim(&mut r, 64).taken > 0 {}
    for index in 0..12 {
        let stays = matches!(index, 2 | 4 | 6 | 8);
        assert_eq!(s.is_resident(1, index), stays, "page {index}");
        assert_eq!(s.read(&mut w, 1, index), content(Kind::Text, index.into()));
    }
    s.engine.check_queues();
}

#[test]
fn pager_backed_pages_age_with_the_others_and_are_not_compressed_unless_it_is_set() {
    let s = system_of(4);
    let mut r = reclaimer(2);
    for n in [0, 2] {
        assert!(
            s.engine
                .mark_page(1, n * 64, Mark::PagerBacked, Marking::Set)
        );
    }
    for _ in 0..3 {
        s.engine.rotate(&s.machine);
    }
    assert_eq!(s.engine.active_inactive().inactive, 4);
    assert_eq!(s.reclaim(&mut r, 10).taken, 2);
    assert_eq!(s.engine.active_inactive().inactive, 2);
    assert_eq!(s.reclaim(&mut r, 10).taken, 0);
    configure(s, |t| t.compress_pager_backed = true);
    let critical = Trigger::Critical;
    let batch = s
        .engine
        .reclaim_batch(&s.machine, &mut r, 10, u64::MAX, critical);
    assert_eq!(batch.taken, 0, "these are evicted when memory is critical");
    assert_eq!(s.reclaim(&mut r, 10).taken, 2);
    s.engine.check_queues();
}

#[test]
fn pages_of_the_wrong_kind_do_not_hide_those_behind_them() {
    // Three hundred pager-backed pages are older than the one anonymous page.
    let s = system(1, 8192);
    let mut w = worker(1);
    for n in 0..300 {
        s.write(&mut w, 1, n * 20, &content(Kind::Zero, 0));
        assert!(
            s.engine
                .mark_page(1, n * 20, Mark::PagerBacked, Marking::Set)
        );
    }
    s.write(&mut w, 1, 8191, &content(Kind::Zero, 0));
    for _ in 0..3 {
        s.engine.rotate(&s.machine);
    }
    let mut r = reclaimer(2);
    let searches = (1..100).find(|_| s.reclaim(&mut r, 1).taken == 1);
    assert_eq!(searches, Some(300 / 64 + 1));
    assert!(!s.is_resident(1, 8191));
    s.engine.check_queues();
}

#[test]
fn bytes_by_age() {
    let s = system_of(5);
    let bytes = |total: u64, newest: u64, oldest: u64| ReclaimBytes {
        total_bytes: total * 4096,
        newest_bytes: newest * 4096,
        oldest_bytes: oldest * 4096,
    };
    assert!(s.engine.move_page(1, 0, Queue::Wired));
    assert!(s.engine.mark_page(1, 64, Mark::PagerBacked, Marking::Set));
    for age in 0..GENERATIONS + 2 {
        let newest = if age < 2 { 4 } else { 0 };
        let oldest = if age + OLDEST_GENERATIONS >= GENERATIONS {
            4
        } else {
            0
        };
        assert_eq!(s.engine.reclaim_bytes(), bytes(4, newest, oldest), "{age}");
        s.engine.rotate(&s.machine);
    }
    s.engine.mark_accessed(1, 64);
    assert_eq!(s.engine.reclaim_bytes(), bytes(4, 1, 3));
    s.engine.move_page(1, 128, Queue::DontNeed);
    assert_eq!(s.engine.reclaim_bytes(), bytes(4, 1, 3));
    while s.reclaim(&mut reclaimer(2), 10).taken > 0 {}
    assert_eq!(s.engine.reclaim_bytes(), bytes(1, 1, 0));
}

#[test]
fn anonymous_pages_and_zero_forks_stand_aside_until_they_are_reclaimed() {
    let s = system_of(4);
    let kinds = |anonymous, zero_forks| {
        configure(s, |t| {
            t.reclaim_anonymous = anonymous;
            t.reclaim_zero_forks = zero_forks;
        });
        s.engine.check_queues();
    };
    let mut w = worker(1);
    kinds(true, false);
    assert!(s.engine.move_page(1, 0, Queue::ZeroFork));
    assert_eq!(standing(s, 0), Standing::In(Queue::ZeroFork));
    assert!(!s.engine.mark_accessed(1, 0));
    kinds(false, false);
    // What comes from now on stands aside; pager-backed pages do not.
    s.write(&mut w, 1, 1, &content(Kind::Text, 9));
    assert_eq!(s.engine.standing(1, 1), Some(Standing::NotReclaimed));
    s.engine.mark_page(1, 1, Mark::PagerBacked, Marking::Set);
    assert_eq!(s.engine.standing(1, 1), Some(Standing::Generation(0)));
    s.engine.mark_accessed(1, 64);
    s.write(&mut w, 1, 2, &content(Kind::Text, 9));
    let counts = s.engine.queue_counts();
    assert_eq!((counts.not_reclaimed, counts.zero_fork), (1, 1));
    kinds(true, true);
    let mut generations = [0; GENERATIONS];
    generations[0] = 6;
    let expected = QueueCounts {
        generations,
        ..Default::default()
    };
    assert_eq!(s.engine.queue_counts(), expected);
    assert!(s.engine.move_page(1, 0, Queue::ZeroFork));
    assert_eq!(
        standing(s, 0),
        Standing::Generation(0),
        "reclaimed like any"
    );
}
