//! The order of locks (suite `vmo_lock`). A family of VMOs has one lock, so there is no order between
//! those of relatives; and nobody holds two. Debug builds check that: a thread that would take a second
//! one panics rather than wait for ever.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::lock::{self, HeldRanks, rank};
use coldpress_engine::vmo::VmoId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

fn held() -> u32 {
    SpinLock::held().unwrap().load(Relaxed)
}

/// With a VMO's lock held. The VMO has a page in place.
fn locked(s: &System, id: VmoId, act: impl FnOnce()) {
    let mut act = Some(act);
    let act = |_, _, _| act.take().into_iter().for_each(|act| act());
    s.vmos.lookup(id, 0..1, act).unwrap();
}

fn checked() -> bool {
    if !cfg!(debug_assertions) {
        println!("SKIPPED: ranks of locks are checked in debug builds only");
    }
    cfg!(debug_assertions)
}

/// Whether somebody who does so panics. The locks it held are given back.
fn panics(act: impl FnOnce() + Send) -> bool {
    std::thread::scope(|scope| {
        let act = || catch_unwind(AssertUnwindSafe(act)).is_err();
        scope.spawn(act).join().unwrap()
    })
}

#[test]
fn vmo_lock_common_fine_lock() {
    let s = system(100);
    let mut w = worker(0);
    let [one, two] = [s.create(1), s.create(1)];
    for vmo in [one, two] {
        s.commit(&mut w, vmo, 0..1).unwrap();
    }
    let child = snapshot(s, one);
    for vmo in [one, two, child] {
        locked(s, vmo, || {
            assert!(!cfg!(debug_assertions) || held() == 1 << rank::VMO);
            // A leaf may be taken under it, and given back, and taken again.
            for _ in 0..2 {
                lock::take::<SpinLock>(rank::LEAF);
                lock::give::<SpinLock>(rank::LEAF);
            }
        });
        assert_eq!(held(), 0);
    }
    if checked() {
        for (first, second) in [(one, two), (two, one), (one, child), (child, one)] {
            let both = || locked(s, first, || locked(s, second, || {}));
            assert_placed!(panics(both), "two locks of VMOs");
        }
        let upwards = || {
            lock::take::<SpinLock>(rank::LEAF);
            locked(s, one, || {});
        };
        assert!(panics(upwards), "a VMO's lock under a leaf");
    }
    // Whoever panicked has left nothing locked.
    end(s, &[one, two, child]);
}

#[test]
fn vmo_lock_fine_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.commit(&mut w, vmo, 0..1).unwrap();
    // One after the other, as often as one likes.
    for _ in 0..2 {
        locked(s, vmo, || {});
        assert_eq!(held(), 0);
    }
    if checked() {
        let twice = || locked(s, vmo, || locked(s, vmo, || {}));
        assert_placed!(panics(twice), "the same lock twice");
        let size = || locked(s, vmo, || _ = s.vmos.pages(vmo));
        assert_placed!(panics(size), "and so is every call that takes it");
    }
    end(s, &[vmo]);
}
