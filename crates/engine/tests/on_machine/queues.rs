//! Promise: pages age by time, the oldest go first, and neighbours go together.

use crate::machine::*;
use coldpress_engine::{Ageing, Growth, Pace, Trigger};
use std::sync::atomic::Ordering::Relaxed;

fn text(index: u32) -> [u8; 4096] {
    content(Kind::Text, index.into())
}

#[test]
fn passes_without_time_age_nothing() {
    let s = system(1, 64);
    s.engine.age(&s.machine, &AGEING, Pace::Pressed);
    s.write(&mut worker(1), 1, 0, &text(0));
    for _ in 0..100 {
        assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 0);
        assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Pressed), 0);
    }
    s.machine.advance(AGEING.interval_ns - 1);
    assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 0);
    s.machine.advance(1);
    assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 0);
    for _ in 0..100 {
        assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 0);
    }
    s.machine.advance(AGEING.interval_ns);
    assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 1);
}

#[test]
fn the_two_active_generations_are_never_reclaimed() {
    let s = system(1, 256);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for round in 0..30 {
        s.write(&mut w, 1, round % 4 * 64, &text(round));
        s.machine.advance(AGEING.interval_ns);
        s.engine.age(&s.machine, &AGEING, Pace::Steady);
        let inactive = s.engine.age(&s.machine, &AGEING, Pace::Steady);
        let batch = s.reclaim(&mut r, 100);
        assert_eq!(batch.taken, inactive);
        assert!(s.is_resident(1, round % 4 * 64), "written just now");
    }
    assert_eq!(value(&s.engine.counters().evictions), 29);
}

#[test]
fn a_generation_that_lasts_does_not_stop_ageing() {
    // All generations are in use: the newest stays open until the oldest is empty.
    let s = system(1, 64 * 12);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for leaf in 0..12 {
        s.write(&mut w, 1, leaf * 64, &text(leaf));
        s.machine.advance(AGEING.interval_ns);
        s.engine.age(&s.machine, &AGEING, Pace::Steady);
    }
    // Seven closed generations of one page each, and five pages in the open one.
    assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Steady), 6);
    for leaf in 0..6 {
        assert_eq!(s.reclaim(&mut r, 1).taken, 1);
        assert!(s.is_compressed(1, leaf * 64), "oldest first");
    }
    assert_eq!(s.reclaim(&mut r, 1).taken, 0);
    assert_eq!(s.cool(), 6);
    assert_eq!(s.reclaim(&mut r, 6).taken, 6);
    for leaf in 0..12 {
        assert_eq!(s.read(&mut w, 1, leaf * 64), text(leaf));
    }
}

#[test]
fn pressed_ageing_hurries_only_when_nothing_is_inactive_and_needs_its_interval() {
    let s = system(1, 128);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    let mut w = worker(1);
    s.write(&mut w, 1, 0, &text(0));
    for _ in 0..2 {
        s.machine.advance(AGEING.pressed_interval_ns - 1);
        assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Pressed), 0);
        s.machine.advance(1);
        let without = s.engine.age(&s.machine, &AGEING, Pace::Steady);
        assert_eq!(without, 0, "not pressed, so not in a hurry");
        s.engine.age(&s.machine, &AGEING, Pace::Pressed);
    }
    assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Pressed), 1);
    // One page is inactive: no more hurry.
    s.write(&mut w, 1, 64, &text(64));
    for _ in 0..5 {
        s.machine.advance(AGEING.pressed_interval_ns);
        assert_eq!(s.engine.age(&s.machine, &AGEING, Pace::Pressed), 1);
    }
}

#[test]
fn the_oldest_go_first_and_none_younger_than_asked_for() {
    let s = system(1, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let order = [3, 0, 5, 1, 4];
    let mut closed = Vec::new();
    for leaf in order {
        s.write(&mut w, 1, leaf * 64, &text(leaf));
        s.machine.advance(AGEING.interval_ns);
        s.engine.age(&s.machine, &AGEING, Pace::Steady);
        closed.push(s.now_ns());
    }
    for _ in 0..2 {
        s.machine.advance(AGEING.interval_ns);
        s.engine.age(&s.machine, &AGEING, Pace::Steady);
    }
    let mut take = |before| {
        let trigger = Trigger::Eager;
        let batch = s
            .engine
            .reclaim_batch(&s.machine, &mut r, 1, before, trigger);
        batch.taken
    };
    for (leaf, closed) in order.into_iter().zip(closed) {
        assert_eq!(take(closed - 1), 0, "touched since, for all that is known");
        assert!(s.is_resident(1, leaf * 64));
        assert_eq!(take(closed), 1);
        assert!(s.is_compressed(1, leaf * 64));
    }
    assert_eq!(value(&s.engine.counters().eager_compressions), 5);
}

#[test]
fn within_a_generation_the_first_to_enter_go_first() {
    let s = system(1, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let order = [3, 0, 5, 1, 4];
    for leaf in order {
        s.write(&mut w, 1, leaf * 64, &text(leaf));
    }
    s.cool();
    for leaf in order {
        assert!(s.is_resident(1, leaf * 64));
        assert_eq!(s.reclaim(&mut r, 1).taken, 1);
        assert!(s.is_compressed(1, leaf * 64));
    }
}

#[test]
fn a_restored_page_is_young_again() {
    let s = system(1, 128);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 0, &text(0));
    s.write(&mut w, 1, 64, &text(64));
    s.send_away(&mut r);
    s.read(&mut w, 1, 0);
    assert_eq!(s.reclaim(&mut r, 10).taken, 0);
    s.machine.advance(AGEING.interval_ns);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.reclaim(&mut r, 10).taken, 0);
    s.machine.advance(AGEING.interval_ns);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.reclaim(&mut r, 10).taken, 1);
}

#[test]
fn refused_pages_are_retried_after_their_time_and_enter_as_young() {
    let s = system(1, 256);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for leaf in 0..3 {
        s.write(&mut w, 1, leaf * 64, &text(leaf));
        s.machine.place(1, leaf * 64).pinned = true;
    }
    s.cool();
    let batch = s.reclaim(&mut r, 10);
    assert_eq!((batch.taken, batch.refused), (0, 3));
    assert_eq!(s.engine.failed_pages(), 3);
    assert_eq!(value(&s.engine.counters().refused), 3);
    // One of them is dropped while it waits.
    s.decommit(1, 64, 65);
    assert_eq!(s.engine.failed_pages(), 2);
    let takes = value(&s.machine.takes);
    for _ in 0..50 {
        s.machine.advance(SECOND);
        s.engine.age(&s.machine, &AGEING, Pace::Pressed);
        s.reclaim(&mut r, 10);
    }
    assert_eq!(value(&s.machine.takes), takes, "nobody asked for them");
    s.machine.place(1, 0).pinned = false;
    s.machine.advance(AGEING.retry_failed_ns - 50 * SECOND);
    let inactive = s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!((s.engine.failed_pages(), inactive), (0, 0));
    s.send_away(&mut r);
    assert!(s.is_compressed(1, 0));
    assert!(s.is_resident(1, 128), "still pinned");
    assert_eq!(s.engine.failed_pages(), 1);
}

/// More of them than are let back in under one hold of the lock.
#[test]
fn many_refused_pages_are_retried_at_once() {
    let s = system(1, 1024);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..700 {
        s.write(&mut w, 1, index, &text(index));
        s.machine.place(1, index).pinned = true;
    }
    s.cool();
    while s.reclaim(&mut r, 1000).refused > 0 {}
    assert_eq!(s.engine.failed_pages(), 700);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    s.machine.advance(AGEING.retry_failed_ns / 2 - SECOND);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.engine.failed_pages(), 700, "not yet");
    s.machine.advance(AGEING.retry_failed_ns);
    s.engine.age(&s.machine, &AGEING, Pace::Steady);
    assert_eq!(s.engine.failed_pages(), 0);
    s.engine.check_queues();
}

#[test]
fn holes_are_forgotten_and_a_take_that_stops_early_is_taken_up_again() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..10 {
        s.write(&mut w, 1, index, &text(index));
    }
    // The kernel has dropped two without a word.
    s.machine.zap(1, 3);
    s.machine.zap(1, 8);
    s.machine.take_limit.store(4, Relaxed);
    s.cool();
    let batch = s.reclaim(&mut r, 64);
    assert_eq!((batch.taken, batch.kept, batch.refused), (4, 4, 5));
    assert_eq!(s.engine.failed_pages(), 0, "not refused, only not reached");
    assert_eq!(s.engine.resident_pages(), 5);
    s.machine.take_limit.store(u32::MAX, Relaxed);
    s.send_away(&mut r);
    assert_eq!(s.engine.resident_pages(), 0);
    for index in 0..10 {
        let expected = match index {
            3 | 8 => [0; 4096],
            _ => text(index),
        };
        assert_eq!(s.read(&mut w, 1, index), expected);
    }
    s.decommit(1, 0, 64);
    s.assert_nothing_is_held();
    s.assert_no_record_is_lost();
}

#[test]
fn runs_of_neighbours_are_taken_together() {
    let s = system(1, 256);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..256 {
        s.write(&mut w, 1, index, &text(index));
    }
    s.cool();
    assert_eq!(s.reclaim(&mut r, 256).taken, 256);
    assert_eq!(value(&s.machine.takes), 4, "a leaf at a time");
    // Ten pages come back and become cold; the others between them are away.
    for index in (0..60).step_by(6) {
        s.read(&mut w, 1, index);
    }
    s.cool();
    assert_eq!(s.reclaim(&mut r, 10).taken, 10);
    assert_eq!(value(&s.machine.takes), 5, "passes over what is away");
}

#[test]
fn few_young_neighbours_are_taken_along_and_many_split_a_run() {
    for (young, runs) in [(4, 1), (5, 2)] {
        let s = system(1, 64);
        let (mut w, mut r) = (worker(1), reclaimer(2));
        for index in (0..10).chain(10 + young..20 + young) {
            s.write(&mut w, 1, index, &text(index));
        }
        s.cool();
        for index in 10..10 + young {
            s.write(&mut w, 1, index, &text(index));
        }
        let taken = s.reclaim(&mut r, 64).taken;
        assert_eq!(value(&s.machine.takes), runs);
        assert_eq!(taken, if runs == 1 { 20 + young } else { 20 });
        for index in 0..20 + young {
            assert_eq!(s.read(&mut w, 1, index), text(index));
        }
    }
}

#[test]
fn claimed_pages_are_not_restored_while_a_run_is_being_taken() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..20 {
        s.write(&mut w, 1, index, &text(index));
    }
    s.send_away(&mut r);
    s.read(&mut w, 1, 0);
    s.read(&mut w, 1, 19);
    s.cool();
    let (tell, told) = std::sync::mpsc::channel();
    s.machine.on_take.set(move || {
        let let_in = value(&s.machine.let_in);
        let toucher = std::thread::spawn(move || {
            let mut w = worker(3);
            s.fault(&mut w, 1, 10);
            s.read(&mut w, 1, 10)
        });
        // The toucher has found the claim and waits for its end.
        while value(&s.machine.let_in) < let_in + 10 && !toucher.is_finished() {
            std::thread::yield_now();
        }
        assert!(!s.machine.is_present(1, 10));
        tell.send(toucher).unwrap();
    });
    assert_eq!(s.reclaim(&mut r, 64).taken, 2);
    assert_eq!(value(&s.machine.takes), 2, "one run across what is away");
    let toucher = told.recv().unwrap();
    assert_eq!(toucher.join().unwrap(), text(10));
    for index in 0..20 {
        assert_eq!(s.read(&mut w, 1, index), text(index));
    }
}

#[test]
fn a_batch_is_bounded_by_its_pages_and_by_the_staging_slots() {
    let s = system(1, 2048);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for index in 0..2048 {
        s.write(&mut w, 1, index, &content(Kind::Zero, 0));
    }
    s.cool();
    let taken = s.reclaim(&mut r, 100).taken;
    assert!((100..164).contains(&taken), "up to one run more: {taken}");
    let taken = s.reclaim(&mut r, u32::MAX).taken;
    assert_eq!(taken, coldpress_engine::STAGING_SLOTS as u32);
    assert_eq!(s.machine.filled_slots(), 0);
}

#[test]
fn a_host_without_memory_tracks_what_it_can() {
    let s = system(1, 64);
    let ageing = Ageing {
        interval_ns: 1,
        ..AGEING
    };
    s.machine.chunks.store(0, Relaxed);
    for index in 0..64 {
        assert!(s.engine.track_known(&s.machine, 1, index, Growth::Allowed));
    }
    // Pages that are not there after all.
    for _ in 0..2 {
        s.machine.advance(1);
        s.engine.age(&s.machine, &ageing, Pace::Steady);
    }
    let batch = s.reclaim(&mut reclaimer(2), 64);
    assert_eq!((batch.taken, batch.refused), (0, 0));
    assert_eq!(s.engine.resident_pages(), 0);
}
