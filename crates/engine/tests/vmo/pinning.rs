//! Pinned pages.

use crate::kernel::*;
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::{MAX_PINS, VmoError, VmoId};
use coldpress_engine::{Entry, Place};

fn pin(
    s: &System,
    w: &mut TestWorker,
    vmo: VmoId,
    pages: std::ops::Range<u64>,
) -> Result<(), VmoError> {
    let done = s.vmos.pin(&s.machine, w, vmo, pages);
    s.vmos.check_invariants();
    done
}

fn unpin(s: &System, vmo: VmoId, pages: std::ops::Range<u64>) -> Result<(), VmoError> {
    let done = s.vmos.unpin(vmo, pages);
    s.vmos.check_invariants();
    done
}

fn place(s: &System, vmo: VmoId, page: u64) -> Place {
    let mut found = None;
    s.vmos
        .lookup(vmo, page..page + 1, |_, place, _| found = Some(place))
        .unwrap();
    found.expect("a page in place")
}

#[test]
fn a_pinned_range_is_neither_decommitted_nor_cut_off() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(8);
    let bad = Err(VmoError::BadState);
    assert_eq!(pin(s, &mut w, vmo, 2..9), Err(VmoError::OutOfRange));
    assert_eq!(pin(s, &mut w, vmo, 3..3), Err(VmoError::OutOfRange));
    assert_eq!(s.machine.pages_in_place(), 0, "nothing was begun");
    pin(s, &mut w, vmo, 2..4).unwrap();
    assert_eq!(s.in_place(vmo), [(2, true), (3, true)]);
    assert_eq!(s.vmos.engine().queue_counts().wired, 2);
    assert_eq!(s.decommit(vmo, 0..8), bad);
    assert_eq!(s.decommit(vmo, 3..4), bad);
    assert_eq!(s.decommit(vmo, 4..8), Ok(()));
    assert_eq!(s.resize(vmo, 3), bad);
    assert_eq!(s.resize(vmo, 4), Ok(()));
    let snapshot = s.vmos.snapshot(&s.machine, vmo, 0..1);
    assert_eq!(snapshot, Err(VmoError::BadState));
    assert_eq!(s.vmos.destroy(&s.machine, vmo), bad);
    assert_eq!(unpin(s, vmo, 1..4), bad);
    assert_eq!(s.vmos.engine().queue_counts().wired, 2, "none was unpinned");
    unpin(s, vmo, 2..4).unwrap();
    assert_eq!(unpin(s, vmo, 2..4), bad);
    assert_eq!(s.decommit(vmo, 0..4), Ok(()));
    assert_eq!(s.resize(vmo, 0), Ok(()));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn pins_are_counted_for_each_page() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    pin(s, &mut w, vmo, 0..3).unwrap();
    pin(s, &mut w, vmo, 2..4).unwrap();
    unpin(s, vmo, 0..3).unwrap();
    assert_eq!(s.decommit(vmo, 0..2), Ok(()));
    assert_eq!(s.decommit(vmo, 2..3), Err(VmoError::BadState));
    unpin(s, vmo, 2..4).unwrap();
    for _ in 0..MAX_PINS {
        s.vmos.pin(&s.machine, &mut w, vmo, 1..2).unwrap();
    }
    assert_eq!(pin(s, &mut w, vmo, 0..3), Err(VmoError::BadState));
    assert_eq!(
        s.decommit(vmo, 0..1),
        Ok(()),
        "what was pinned before is not"
    );
    for _ in 0..MAX_PINS {
        assert_eq!(s.decommit(vmo, 1..2), Err(VmoError::BadState));
        s.vmos.unpin(vmo, 1..2).unwrap();
    }
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_pinned_page_stays_where_it_is() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    s.write_page(&mut w, vmo, 0, &text(1));
    s.write_page(&mut w, vmo, 1, &text(2));
    assert_placed_eq!(s.send_away(&mut r), 2);
    pin(s, &mut w, vmo, 0..1).unwrap();
    let before = place(s, vmo, 0);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(1));
    assert_eq!(s.read_page(&mut w, vmo, 1), text(2));
    assert_placed_eq!(s.send_away(&mut r), 1, "only the other one");
    let engine = s.vmos.engine();
    let wired = Some(Standing::In(Queue::Wired));
    assert_eq!(engine.standing(before.0, before.1), wired);
    s.zero(vmo, 0..2).unwrap();
    assert_eq!(s.entry(vmo, 1), Entry::Empty);
    assert_eq!(place(s, vmo, 0), before, "cleared where it is");
    assert_eq!(s.read_page(&mut w, vmo, 0), [0; 4096]);
    s.write_page(&mut w, vmo, 0, &text(3));
    assert_eq!(place(s, vmo, 0), before);
    unpin(s, vmo, 0..1).unwrap();
    let newest = Some(Standing::Generation(0));
    assert_placed_eq!(engine.standing(before.0, before.1), newest);
    assert_placed_eq!(s.send_away(&mut r), 1);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(3));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_pin_in_a_snapshot_takes_a_page_of_its_own() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    s.write_page(&mut w, vmo, 0, &text(1));
    let child = s.vmos.snapshot(&s.machine, vmo, 0..2).unwrap();
    pin(s, &mut w, child, 0..1).unwrap();
    s.touch(&mut w, (1, 0), (child, 0), 5, Some(9));
    let before = s.machine.mapped((1, 0)).unwrap();
    assert_eq!(s.in_place(child), [(0, true)]);
    assert_placed_eq!(s.in_place(vmo), [(0, false)]);
    // Neither the other's page going away nor the other's end touches it.
    assert_placed_eq!(s.send_away(&mut r), 1);
    s.zero(vmo, 0..2).unwrap();
    assert_eq!(s.machine.mapped((1, 0)), Some(before));
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_eq!(s.machine.mapped((1, 0)), Some(before));
    unpin(s, child, 0..1).unwrap();
    s.destroy(child);
    s.assert_nothing_is_held();
}

#[test]
fn a_pin_without_memory_leaves_nothing_pinned() {
    let s = system(3);
    let mut w = worker(0);
    let vmo = s.create(8);
    assert_eq!(pin(s, &mut w, vmo, 0..8), Err(VmoError::NoMemory));
    assert_eq!(s.vmos.engine().queue_counts().wired, 0);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
