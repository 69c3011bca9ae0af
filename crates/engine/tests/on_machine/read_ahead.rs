//! Promise: whoever goes through memory in even steps finds it in place, and whoever does not has nothing
//! restored that it did not ask for.

use crate::machine::*;
use coldpress_engine::{Expected, FaultOutcome};

const PAGES: u32 = 4096;

/// All pages written, and away.
fn cold() -> (&'static System, TestWorker) {
    let s = system(1, PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for n in 0..PAGES {
        s.write(&mut w, 1, n, &content(kind(n), n.into()));
    }
    s.send_away(&mut r);
    assert_eq!(s.engine.resident_pages(), 0);
    (s, w)
}

fn kind(n: u32) -> Kind {
    match n % 5 {
        0 => Kind::Zero,
        _ => Kind::Text,
    }
}

/// A touch: as the handler of a host serves it, if the page is away. How many pages came with it.
fn touch(s: &System, w: &mut TestWorker, thread: u32, n: u32) -> Option<u32> {
    if s.machine.is_present(1, n) {
        return None;
    }
    let expected = s.engine.touched(thread, (1, n));
    let ahead = |w: &mut TestWorker| {
        expected.map_or(0, |e| s.engine.read_ahead(&s.machine, w, e, |_| true))
    };
    // Every other thread finds what it will touch restored before what it has touched.
    let first = thread.is_multiple_of(2);
    let before = if first { ahead(w) } else { 0 };
    let outcome = s.fault(w, 1, n);
    assert!(matches!(
        outcome,
        FaultOutcome::Decompressed | FaultOutcome::SameFilled
    ));
    Some(if first { before } else { ahead(w) })
}

/// Thread 1 has gone through a part of memory. The next page that it will touch and is away, and what is
/// expected to follow.
fn in_full_swing(s: &'static System, w: &mut TestWorker) -> (u32, Expected) {
    touches(s, w, 1, 0..200);
    let next = (200..).find(|&n| !s.machine.is_present(1, n)).unwrap();
    let expected = s.engine.touched(1, (1, next)).unwrap();
    assert!(expected.is_proven());
    s.fault(w, 1, next);
    (next, expected)
}

/// How many touches of these pages fault, and what is read ahead of them. Content is compared.
fn touches(
    s: &System,
    w: &mut TestWorker,
    thread: u32,
    pages: impl Iterator<Item = u32>,
) -> (u32, u32) {
    let (mut faults, mut ahead) = (0, 0);
    for n in pages {
        if let Some(restored) = touch(s, w, thread, n) {
            faults += 1;
            ahead += restored;
        }
        assert_eq!(s.read(w, 1, n), content(kind(n), n.into()), "page {n}");
    }
    (faults, ahead)
}

fn random(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 33) as u32
}

#[test]
fn going_through_memory_faults_a_thirtieth_as_often() {
    let (s, mut w) = cold();
    let (faults, ahead) = touches(s, &mut w, 1, 0..PAGES);
    println!("{PAGES} pages in order: {faults} faults, {ahead} pages ahead");
    assert_eq!(faults + ahead, PAGES);
    assert!(faults <= PAGES / 30);
    let c = s.engine.counters();
    assert_eq!(value(&c.read_ahead), u64::from(ahead));
    assert_eq!(
        value(&c.faults_decompressed) + value(&c.faults_same_filled),
        u64::from(faults)
    );
    s.assert_nothing_is_held();
    s.engine.check_queues();
    s.assert_no_record_is_lost();
}

#[test]
fn backwards_in_steps_and_by_several_at_once() {
    let (s, mut w) = cold();
    let quarter = PAGES / 4;
    let (faults, ahead) = touches(s, &mut w, 1, (0..quarter).rev());
    assert_eq!(faults + ahead, quarter);
    assert!(faults <= quarter / 8, "backwards: {faults}");
    let (faults, ahead) = touches(s, &mut w, 1, (quarter..2 * quarter).step_by(8));
    assert!(faults <= quarter / 8 / 4, "every eighth: {faults}");
    assert!(faults + ahead <= quarter / 8 + 16, "only these: {ahead}");
    // Two threads through one half each, and one of them through two arrays.
    let half = PAGES / 2;
    let mut faults = 0;
    for n in 0..half / 3 {
        for (thread, base) in [(1, 0), (1, half / 3), (2, 2 * (half / 3))] {
            faults += touches(s, &mut w, thread, std::iter::once(half + base + n)).0;
        }
    }
    assert!(faults <= half / 8, "three at once: {faults}");
}

#[test]
fn random_touches_restore_nothing_else() {
    let (s, mut w) = cold();
    let mut state = 1;
    let pages: Vec<u32> = (0..PAGES / 2).map(|_| random(&mut state) % PAGES).collect();
    let (faults, ahead) = touches(s, &mut w, 1, pages.into_iter());
    println!("{faults} random faults, {ahead} pages ahead");
    assert!(faults > PAGES / 4);
    assert!(ahead <= faults / 100, "{ahead} ahead of {faults}");
}

/// Many fields of an object that lies across three pages, objects at random: two pages more of each were
/// for nothing.
#[test]
fn short_walks_at_random_places_restore_next_to_nothing_else() {
    let (s, mut w) = cold();
    let (mut state, mut faults, mut ahead) = (7, 0, 0);
    for _ in 0..300 {
        let at = random(&mut state) % (PAGES / 4) * 4;
        let (f, a) = touches(s, &mut w, 1, at..at + 3);
        (faults, ahead) = (faults + f, ahead + a);
    }
    println!("{faults} faults, {ahead} pages ahead");
    assert!(ahead <= faults / 50, "{ahead} ahead of {faults}");
}

#[test]
fn nothing_is_read_ahead_once_the_host_says_no() {
    let (s, mut w) = cold();
    let (next, expected) = in_full_swing(s, &mut w);
    let mut asked = 0;
    let restored = s.engine.read_ahead(&s.machine, &mut w, expected, |pages| {
        asked += pages;
        asked <= 16
    });
    assert_eq!(
        (restored, asked),
        (16, 32),
        "as many at once as are restored together"
    );
    assert!(!s.machine.is_present(1, next + 17));
    let mut tunables = s.engine.tunables().load();
    tunables.read_ahead_pages = 0;
    s.engine.configure(&tunables).unwrap();
    assert_eq!(touches(s, &mut w, 1, next + 17..next + 117), (100, 0));
}

/// What lies ahead and is on its way out, or being restored by another, is left alone.
#[test]
fn pages_that_somebody_is_at_are_passed_over() {
    let (s, mut w) = cold();
    let (next, expected) = in_full_swing(s, &mut w);
    let busy = next + 20;
    s.codec.on_decompress.set(move || {
        // In the middle of the pages that are restored together first: another worker comes.
        let mut other = worker(3);
        s.fault(&mut other, 1, busy);
        assert!(s.machine.is_present(1, busy));
    });
    let restored = s.engine.read_ahead(&s.machine, &mut w, expected, |_| true);
    assert_eq!(restored, 32);
    assert_eq!(
        s.machine.installs(1, busy),
        s.machine.installs(1, 0),
        "once"
    );
    for n in next..next + 34 {
        assert!(s.machine.is_present(1, n));
        assert_eq!(s.read(&mut w, 1, n), content(kind(n), n.into()));
    }
}

/// The program drops what is being read ahead: nothing of it appears.
#[test]
fn memory_that_is_dropped_meanwhile_reads_zeros() {
    let (s, mut w) = cold();
    let (next, expected) = in_full_swing(s, &mut w);
    s.codec
        .on_decompress
        .set(move || s.decommit(1, next + 1, next + 3));
    s.engine.read_ahead(&s.machine, &mut w, expected, |_| true);
    for n in next + 1..next + 3 {
        assert!(!s.machine.is_present(1, n));
        assert_eq!(s.read(&mut w, 1, n), [0; 4096]);
    }
}

/// While pages are restored together, one of them is touched, one dropped, and one moves: each finds what it would find
/// if it were restored alone.
#[test]
fn what_befalls_one_of_many_that_are_restored_together() {
    let (s, mut w) = cold();
    let (next, expected) = in_full_swing(s, &mut w);
    let (touched, dropped, moved, to) = (next + 3, next + 5, next + 8, PAGES - 1);
    s.codec.on_decompress.set(move || {
        let mut other = worker(3);
        assert_eq!(s.fault(&mut other, 1, touched), FaultOutcome::Present);
        assert!(!s.machine.is_present(1, touched), "it waits");
        s.decommit(1, dropped, dropped + 1);
        s.decommit(1, to, to + 1);
        s.transfer((1, moved), (1, to));
    });
    s.engine.read_ahead(&s.machine, &mut w, expected, |_| true);
    assert!(s.machine.is_present(1, touched));
    assert!(!s.machine.is_present(1, dropped) && !s.machine.is_present(1, moved));
    assert!(s.machine.is_present(1, to), "it has followed");
    assert_eq!(s.read(&mut w, 1, to), content(kind(moved), moved.into()));
    assert_eq!(s.read(&mut w, 1, dropped), [0; 4096]);
    assert_eq!(s.read(&mut w, 1, moved), [0; 4096]);
    for n in (next..next + 16).filter(|n| ![dropped, moved].contains(n)) {
        assert_eq!(s.machine.installs(1, n), 2, "page {n}: filled, and back");
        assert_eq!(s.read(&mut w, 1, n), content(kind(n), n.into()));
    }
    s.engine.check_queues();
}
