//! Pinned pages.

use super::kit::*;
use super::space::*;
use crate::kernel::*;
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::{MAX_PINS, VmoError, VmoId};
use coldpress_engine::{Entry, Trigger};
use std::ops::Range;

fn pin(s: &System, w: &mut TestWorker, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
    let pinned = s.vmos.pin(&s.machine, w, id, pages);
    s.vmos.check_invariants();
    pinned
}

fn unpin(s: &System, id: VmoId, pages: Range<u64>) -> Result<(), VmoError> {
    let unpinned = s.vmos.unpin(id, pages);
    s.vmos.check_invariants();
    unpinned
}

/// Tries to compress whatever is there, however young it is.
fn reclaim_all(s: &System, r: &mut TestReclaimer) -> u32 {
    let engine = s.vmos.engine();
    (0..3)
        .map(|_| {
            rotate(s, 9);
            let trigger = Trigger::Critical;
            engine
                .reclaim_batch(&s.machine, r, 100, u64::MAX, trigger)
                .kept
        })
        .sum()
}

#[test]
fn vmo_pin_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    let out = Err(VmoError::OutOfRange);
    for range in [10..17, 16..17, 17..18, 3..3, 16..16, 9..u64::MAX] {
        assert_eq!(pin(s, &mut w, vmo, range.clone()), out, "{range:?}");
    }
    assert_eq!(
        s.machine.pages_in_place(),
        0,
        "what was refused has done nothing"
    );
    assert_eq!(pin(s, &mut w, vmo, 3..7), Ok(()));
    assert_eq!(forms(s, vmo), "---PPPP---------", "a pin commits");
    let wired = |page| standing(s, vmo, page) == Standing::In(Queue::Wired);
    assert!((3..7).all(wired));
    let refused = Err(VmoError::BadState);
    for range in [3..7, 0..4, 6..16, 0..16, 4..5] {
        assert_eq!(s.decommit(vmo, range.clone()), refused, "{range:?}");
    }
    for pages in [0, 3, 6] {
        assert_eq!(s.resize(vmo, pages), refused, "{pages}");
    }
    assert_eq!(s.vmos.destroy(&s.machine, vmo), refused);
    assert_eq!(s.vmos.pages(vmo), Ok(16));
    assert_eq!(forms(s, vmo), "---PPPP---------");
    // Beside it everything goes.
    assert_eq!(s.decommit(vmo, 0..3), Ok(()));
    assert_eq!(s.decommit(vmo, 7..16), Ok(()));
    assert_eq!(s.resize(vmo, 7), Ok(()));
    assert_eq!(s.resize(vmo, 16), Ok(()));
    assert_eq!(unpin(s, vmo, 3..7), Ok(()));
    assert!(!(3..7).any(wired));
    assert_eq!(unpin(s, vmo, 3..7), refused, "not pinned any more");
    assert_eq!(s.decommit(vmo, 3..7), Ok(()));
    // And once more: it is committed anew.
    assert_eq!(pin(s, &mut w, vmo, 3..7), Ok(()));
    assert!((3..7).all(wired));
    assert_eq!(s.resize(vmo, 0), refused);
    assert_eq!(unpin(s, vmo, 3..7), Ok(()));
    assert_eq!(s.decommit(vmo, 3..5), Ok(()));
    assert_eq!(s.resize(vmo, 0), Ok(()));
    end(s, &[vmo]);
}

#[test]
fn vmo_multiple_pin_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    let refused = Err(VmoError::BadState);
    assert_eq!(pin(s, &mut w, vmo, 0..16), Ok(()));
    assert_eq!(pin(s, &mut w, vmo, 3..7), Ok(()));
    for _ in 2..MAX_PINS {
        assert_eq!(s.vmos.pin(&s.machine, &mut w, vmo, 3..4), Ok(()));
    }
    assert_eq!(
        pin(s, &mut w, vmo, 3..4),
        refused,
        "as often as can be counted"
    );
    // All of a range or nothing of it.
    assert_eq!(pin(s, &mut w, vmo, 0..16), refused);
    let wired = |page| standing(s, vmo, page) == Standing::In(Queue::Wired);
    assert!((0..16).all(wired));
    assert_eq!(unpin(s, vmo, 0..16), Ok(()));
    for page in 0..16 {
        assert_eq!(wired(page), (3..7).contains(&page));
    }
    assert_eq!(s.decommit(vmo, 0..3), Ok(()), "these were pinned once");
    assert_eq!(s.decommit(vmo, 7..16), Ok(()));
    assert_eq!(s.decommit(vmo, 6..7), refused, "and these more than once");
    assert_eq!(unpin(s, vmo, 2..7), refused, "page 2 is not pinned");
    assert_eq!(unpin(s, vmo, 3..7), Ok(()));
    assert_eq!(s.decommit(vmo, 4..7), Ok(()));
    for _ in 2..MAX_PINS {
        assert_eq!(s.decommit(vmo, 3..4), refused);
        assert_eq!(s.vmos.unpin(vmo, 3..4), Ok(()));
    }
    assert_eq!(s.decommit(vmo, 3..4), Ok(()));
    end(s, &[vmo]);
}

#[test]
fn vmo_pinning_backlink_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    let places = [0, 1].map(|page| place(s, vmo, page));
    let check = |wired: [bool; 2]| {
        // Each record names the place at which its entry stands.
        s.vmos.check_invariants();
        assert_placed_eq!([0, 1].map(|page| place(s, vmo, page)), places);
        let stands = [0, 1].map(|page| standing(s, vmo, page) == Standing::In(Queue::Wired));
        assert_eq!(stands, wired);
    };
    check([false, false]);
    assert_eq!(pin(s, &mut w, vmo, 1..2), Ok(()));
    check([false, true]);
    assert_eq!(pin(s, &mut w, vmo, 0..2), Ok(()));
    check([true, true]);
    assert_eq!(unpin(s, vmo, 0..2), Ok(()));
    check([false, true]);
    assert_eq!(unpin(s, vmo, 1..2), Ok(()));
    check([false, false]);
    assert_placed_eq!(standing(s, vmo, 1), Standing::Generation(0), "young again");
    assert_filled(s, &mut w, vmo, 0..2, 1);
    end(s, &[vmo]);
}

#[test]
fn vmo_zero_pinned_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(3);
    fill(s, &mut w, vmo, 0..3, 1);
    let mut space = Space::new(s);
    let keep = handle(s, vmo);
    space.map(1000, &keep, 0..3);
    (1000..1003).for_each(|page| _ = space.read(&mut w, page, 0));
    let shown = space.shown(1001);
    assert_eq!(pin(s, &mut w, vmo, 1..2), Ok(()));
    let pinned = place(s, vmo, 1);
    s.zero(vmo, 0..3).unwrap();
    s.vmos.check_invariants();
    assert_eq!(forms(s, vmo), "-P-");
    assert_eq!(place(s, vmo, 1), pinned, "cleared where it is");
    assert_placed_eq!(space.shown(1001), shown, "whoever maps it still does");
    assert_eq!(standing(s, vmo, 1), Standing::In(Queue::Wired));
    for page in 0..3 {
        assert_eq!(s.read_page(&mut w, vmo, page), [0; 4096]);
    }
    // Below a snapshot that it hides, too.
    assert_eq!(unpin(s, vmo, 1..2), Ok(()));
    fill(s, &mut w, vmo, 1..2, 9);
    let child = snapshot(s, vmo);
    assert_eq!(pin(s, &mut w, child, 1..2), Ok(()));
    s.zero(child, 1..2).unwrap();
    assert_eq!(s.in_place(child), [(1, true)]);
    assert_eq!(s.read_page(&mut w, child, 1), [0; 4096]);
    assert_filled(s, &mut w, vmo, 1..2, 9);
    assert_eq!(unpin(s, child, 1..2), Ok(()));
    s.destroy(child);
    drop((keep, space));
    // Of a pager's VMO, too, also where it has grown.
    let paged = paged(s, 1);
    for page in 0..2 {
        assert_eq!(pin(s, &mut w, paged, page..page + 1), Ok(()));
        s.vmos
            .write(&s.machine, &mut w, paged, page * PAGE, &[0xff])
            .unwrap();
        let pinned = place(s, paged, page);
        s.zero(paged, page..page + 1).unwrap();
        assert_eq!(place(s, paged, page), pinned);
        assert_eq!(standing(s, paged, page), Standing::In(Queue::Wired));
        assert_eq!(s.read_page(&mut w, paged, page), [0; 4096]);
        if page == 0 {
            s.resize(paged, 2).unwrap();
        }
    }
    assert_eq!(unpin(s, paged, 0..2), Ok(()));
    end(s, &[paged]);
}

/// A kernel has a page of the clone mapped for good, and pinned it for that: the page of the parent can
/// be compressed all the same, for it is another.
#[test]
fn vmo_clone_kernel_mapped_compressed_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let child = handle(s, snapshot(s, vmo));
    let mut kernel = Space::new(s);
    kernel.map(1, &child, 0..1);
    assert_eq!(pin(s, &mut w, child.id, 0..1), Ok(()));
    kernel.write(&mut w, 1, 0, 42);
    let shown = kernel.shown(1);
    assert!(shown.is_some_and(|shown| shown.writable));
    assert_placed_eq!(reclaim_all(s, &mut r), 1);
    assert!(matches!(s.entry(vmo, 0), Entry::Compressed(_)));
    assert_eq!(kernel.shown(1), shown, "not touched by that");
    assert_eq!(kernel.read(&mut w, 1, 0), 42);
    assert!(s.read_page(&mut w, vmo, 0) == text(1));
    assert_eq!(unpin(s, child.id, 0..1), Ok(()));
    drop((child, kernel));
    end(s, &[vmo]);
}

/// Rust only.
#[test]
fn vmo_apply_unmap_to_child_with_kernel_mapping_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    let child = handle(s, snapshot(s, vmo));
    let mut kernel = Space::new(s);
    kernel.map(1, &child, 0..2);
    assert_eq!(pin(s, &mut w, child.id, 0..2), Ok(()));
    assert_eq!(kernel.show_in_place(1..3), 2);
    let shown = [1, 2].map(|page| kernel.shown(page));
    assert!(shown.iter().all(Option::is_some));
    s.zero(vmo, 0..2).unwrap();
    s.vmos.check_invariants();
    assert_eq!([1, 2].map(|page| kernel.shown(page)), shown);
    assert_filled(s, &mut w, child.id, 0..2, 1);
    assert!(s.read_page(&mut w, vmo, 0) == [0; 4096]);
    assert_eq!(unpin(s, child.id, 0..2), Ok(()));
    drop((child, kernel));
    end(s, &[vmo]);
}

/// Rust only. What is to be pinned for good must have something that can be.
#[test]
fn vmo_always_pinned_with_no_pages_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(0);
    for range in [0..0, 0..1] {
        assert_eq!(pin(s, &mut w, vmo, range), Err(VmoError::OutOfRange));
    }
    assert_eq!(unpin(s, vmo, 0..1), Err(VmoError::OutOfRange));
    end(s, &[vmo]);
}

#[test]
fn vmo_high_priority_reclaim_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(4);
    fill(s, &mut w, vmo, 0..2, 1);
    s.commit(&mut w, vmo, 2..3).unwrap();
    assert_placed_eq!(reclaim_all(s, &mut r), 3);
    assert_eq!(forms(s, vmo), "CC0-");
    s.vmos
        .mark_latency_sensitive(&s.machine, &mut w, vmo)
        .unwrap();
    s.vmos.check_invariants();
    assert_eq!(forms(s, vmo), "PP0-", "what was compressed is back");
    s.commit(&mut w, vmo, 2..4).unwrap();
    for page in 0..4 {
        assert_eq!(standing(s, vmo, page), Standing::In(Queue::HighPriority));
    }
    // Neither compressed nor found to be zeros, for whatever reason.
    let (segment, index) = place(s, vmo, 0).unwrap();
    let attempts = value(&s.vmos.engine().counters().compression_attempts);
    assert_eq!(reclaim_all(s, &mut r), 0);
    assert_eq!(
        value(&s.vmos.engine().counters().compression_attempts),
        attempts
    );
    assert_eq!(forms(s, vmo), "PPPP");
    assert_eq!(place(s, vmo, 0), Some((segment, index)));
    s.vmos.unmark_latency_sensitive(vmo).unwrap();
    s.vmos.check_invariants();
    assert_placed_eq!(reclaim_all(s, &mut r), 4);
    assert_eq!(forms(s, vmo), "CC00");
    assert_filled(s, &mut w, vmo, 0..2, 1);
    end(s, &[vmo]);
}

#[test]
fn vmo_pinned_wrapper_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    let refused = Err(VmoError::BadState);
    let mut pinned = |pages: Range<u64>| s.vmos.pinned(&s.machine, &mut w, vmo, pages).unwrap();
    // What is dropped is unpinned.
    let guard = pinned(0..1);
    assert_eq!((guard.vmo(), guard.pages()), (vmo, 0..1));
    assert_eq!(s.decommit(vmo, 0..1), refused);
    drop(guard);
    assert_eq!(s.decommit(vmo, 0..1), Ok(()));
    // Made anew in place of itself: pinned all the time, and once at the end.
    let mut guard = pinned(1..2);
    for _ in 0..3 {
        guard = pinned(1..2);
        assert_eq!(s.decommit(vmo, 1..2), refused);
    }
    drop(guard);
    assert_eq!(s.decommit(vmo, 1..2), Ok(()));
    // Moved: only the place that it moved to counts.
    let from = pinned(2..3);
    let to = Some(from);
    assert_eq!(s.decommit(vmo, 2..3), refused);
    drop(to);
    assert_eq!(s.decommit(vmo, 2..3), Ok(()));
    // Exchanged: each ends with what it holds then.
    let (mut one, mut two) = (pinned(0..2), pinned(2..4));
    std::mem::swap(&mut one, &mut two);
    assert_eq!((one.pages(), two.pages()), (2..4, 0..2));
    drop(one);
    assert_eq!(s.decommit(vmo, 2..4), Ok(()));
    assert_eq!(s.decommit(vmo, 0..1), refused);
    drop(std::mem::replace(&mut two, pinned(2..3)));
    assert_eq!(s.decommit(vmo, 0..2), Ok(()), "what it held has ended");
    assert_eq!(s.decommit(vmo, 2..3), refused);
    drop(two);
    assert_eq!(s.vmos.unpin(vmo, 2..3), refused, "nothing is pinned twice");
    let none = s.vmos.pinned(&s.machine, &mut w, vmo, 3..5);
    assert!(none.is_err());
    s.vmos.check_invariants();
    end(s, &[vmo]);
}
