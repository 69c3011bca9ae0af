//! Promise: a program that wakes finds what it used before it slept, and no more than that.

use crate::machine::*;

const PAGES: u32 = 4096;
const SECOND: u64 = 1_000_000_000;

fn kind(n: u32) -> Kind {
    match n % 7 {
        0 => Kind::Zero,
        _ => Kind::Text,
    }
}

/// What is used: some neighbours here and there.
fn is_hot(n: u32) -> bool {
    n / 8 % 6 == 1
}

/// The hot set, in an order without streams.
fn hot() -> impl Iterator<Item = u32> {
    (0..PAGES).map(|n| n * 2731 % PAGES).filter(|&n| is_hot(n))
}

fn touch(s: &System, w: &mut TestWorker, n: u32) {
    assert_eq!(s.read(w, 1, n), content(kind(n), n.into()), "page {n}");
}

/// All is evicted, half a minute after it was used, and half a minute passes.
fn sleep(s: &System, r: &mut TestReclaimer) {
    s.machine.advance(30 * SECOND);
    s.send_away(r);
    assert_eq!(s.engine.resident_pages(), 0);
    s.machine.advance(30 * SECOND);
}

/// A fault, as the handler of a host serves it. How many pages came with it.
fn fault(s: &System, w: &mut TestWorker, n: u32, room: &mut u32) -> u32 {
    if s.machine.is_present(1, n) {
        return 0;
    }
    let goes_on = |pages| {
        let is_room = *room >= pages;
        *room -= if is_room { pages } else { 0 };
        is_room
    };
    let restored = s.engine.restore_set_around(&s.machine, w, (1, n), goes_on);
    s.fault(w, 1, n);
    restored
}

/// Wakes to these touches. How many faulted, and how many pages came with them; content is compared.
fn wake(
    s: &System,
    w: &mut TestWorker,
    touches: impl Iterator<Item = u32>,
    room: &mut u32,
) -> (u32, u32) {
    let (mut faults, mut restored) = (0, 0);
    for n in touches {
        faults += u32::from(!s.machine.is_present(1, n));
        restored += fault(s, w, n, room);
        touch(s, w, n);
    }
    s.engine.check_queues();
    (faults, restored)
}

fn asleep() -> (&'static System, TestWorker, TestReclaimer) {
    let s = system(1, PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for n in 0..PAGES {
        s.write(&mut w, 1, n, &content(kind(n), n.into()));
    }
    sleep(s, &mut r);
    (s, w, r)
}

const MUCH: u32 = u32::MAX;

#[test]
fn what_was_used_in_the_wake_before_comes_in_handfuls() {
    let (s, mut w, mut r) = asleep();
    let used = hot().count() as u32;
    let first = wake(s, &mut w, hot(), &mut MUCH.clone());
    assert_eq!(first, (used, 0), "nothing is known of the program yet");
    sleep(s, &mut r);
    let (faults, restored) = wake(s, &mut w, hot(), &mut MUCH.clone());
    assert_eq!(
        faults + restored,
        used,
        "nothing is restored that is not used"
    );
    assert!(faults < used / 2, "{faults} faults of {used}");
    assert!((0..PAGES).all(|n| is_hot(n) || !s.machine.is_present(1, n)));
}

#[test]
fn what_is_not_used_any_more_is_forgotten() {
    let (s, mut w, mut r) = asleep();
    wake(s, &mut w, hot(), &mut MUCH.clone());
    let few = || hot().filter(|n| n % 8 < 4);
    let in_vain = (0..12).map(|_| {
        sleep(s, &mut r);
        wake(s, &mut w, few(), &mut MUCH.clone());
        s.engine.resident_pages() - few().count() as u32
    });
    let in_vain: Vec<u32> = in_vain.collect();
    println!("restored in vain: {in_vain:?}");
    assert!(
        in_vain[0] > 100 && in_vain[11] < in_vain[0] * 6 / 10,
        "{in_vain:?}"
    );
}

#[test]
fn another_request_restores_nothing_of_the_last() {
    let (s, mut w, mut r) = asleep();
    wake(s, &mut w, hot(), &mut MUCH.clone());
    sleep(s, &mut r);
    let (_, restored) = wake(
        s,
        &mut w,
        hot().map(|n| (n + 16) % PAGES),
        &mut MUCH.clone(),
    );
    assert_eq!(restored, 0);
}

#[test]
fn a_host_without_room_has_nothing_restored() {
    let (s, mut w, mut r) = asleep();
    wake(s, &mut w, hot(), &mut MUCH.clone());
    sleep(s, &mut r);
    let (_, restored) = wake(s, &mut w, hot(), &mut 32);
    assert!((20..=32).contains(&restored), "{restored}");
}

/// What was restored in this burst and has had to leave again is no part of a set: a program that uses more than it may
/// hold would get all of it, again and again.
#[test]
fn what_leaves_again_in_a_burst_is_not_restored_with_others() {
    let (s, mut w, mut r) = asleep();
    wake(s, &mut w, hot(), &mut MUCH.clone());
    sleep(s, &mut r);
    let (_, restored) = wake(s, &mut w, hot(), &mut MUCH.clone());
    assert!(restored > 0);
    for _ in 0..3 {
        s.machine.advance(SECOND / 50);
        s.send_away(&mut r);
        let (faults, restored) = wake(s, &mut w, hot(), &mut MUCH.clone());
        assert_eq!((faults, restored), (hot().count() as u32, 0));
    }
}
