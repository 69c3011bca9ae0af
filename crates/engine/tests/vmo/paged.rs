//! Pager-backed VMOs.

use crate::kernel::*;
use coldpress_engine::evictor::{EngineSource, Evictor, Level, Target};
use coldpress_engine::vmo::{Dirtiness, VmoError, VmoId};
use coldpress_engine::{Entry, Trigger, Tunables};
use std::sync::atomic::Ordering::Relaxed;

/// A VMO of so many pages, whose pager supplies `text(100 + page)` when it is asked.
fn paged(s: &'static System, pages: u64) -> VmoId {
    let vmo = s.vmos.create_pager_backed(&s.machine, pages).unwrap();
    *s.machine.pager.lock().unwrap() = Pager::Supplies(Box::new(move |id, page| {
        supply(s, id, page..page + 1);
    }));
    vmo
}

/// What the pager does: fills an anonymous VMO and moves its pages over.
fn supply(s: &System, vmo: VmoId, pages: std::ops::Range<u64>) {
    let mut w = worker(200);
    let from = s.create(pages.end - pages.start);
    for page in pages.clone() {
        s.write_page(&mut w, from, page - pages.start, &text(100 + page));
    }
    let all = 0..pages.end - pages.start;
    let mut list = s.vmos.take(&s.machine, &mut w, from, all).unwrap();
    s.vmos
        .supply(&s.machine, &mut w, vmo, pages.start, &mut list)
        .unwrap();
    s.vmos.discard(&s.machine, list);
    s.destroy(from);
    s.vmos.check_invariants();
}

fn dirty(s: &System, vmo: VmoId) -> Vec<(u64, Dirtiness)> {
    let mut found = Vec::new();
    let pages = s.vmos.pages(vmo).unwrap();
    s.vmos
        .dirty_pages(vmo, 0..pages, |page, state| found.push((page, state)))
        .unwrap();
    s.vmos.check_invariants();
    found
}

#[test]
fn an_absent_page_is_asked_for_and_what_is_supplied_is_clean() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 8);
    assert_eq!(s.read_page(&mut w, vmo, 3), text(103));
    assert_eq!(value(&s.machine.requests), 1);
    assert_eq!(s.read_page(&mut w, vmo, 3), text(103));
    s.commit(&mut w, vmo, 2..5).unwrap();
    assert_eq!(value(&s.machine.requests), 3);
    assert_eq!(s.in_place(vmo), [2, 3, 4].map(|page| (page, true)));
    assert_eq!(dirty(s, vmo), []);
    assert_eq!(s.touch(&mut w, (1, 5), (vmo, 5), 9, None), text(105)[9]);
    assert!(!s.machine.mapped((1, 5)).unwrap().writable);
    s.touch(&mut w, (1, 5), (vmo, 5), 9, Some(1));
    assert_eq!(dirty(s, vmo), [(5, Dirtiness::Dirty)]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_is_there_already_is_not_supplied_again() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 4);
    supply(s, vmo, 1..3);
    s.write_page(&mut w, vmo, 1, &text(1));
    supply(s, vmo, 0..4);
    assert_eq!(s.read_page(&mut w, vmo, 1), text(1));
    assert_eq!(s.read_page(&mut w, vmo, 3), text(103));
    assert_eq!(value(&s.machine.requests), 0);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn without_a_pager_the_access_fails() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.vmos.create_pager_backed(&s.machine, 4).unwrap();
    let none = Err(VmoError::NotSupplied);
    assert_eq!(s.vmos.read(&s.machine, &mut w, vmo, 0, &mut [0]), none);
    assert_eq!(s.vmos.write(&s.machine, &mut w, vmo, 0, &[0]), none);
    assert_eq!(s.commit(&mut w, vmo, 0..4), none);
    let unsupported = Some(VmoError::NotSupported);
    let snapshot = s.vmos.snapshot(&s.machine, vmo, 0..4);
    assert_eq!(snapshot.err(), unsupported);
    let taken = s.vmos.take(&s.machine, &mut w, vmo, 0..4);
    assert_eq!(taken.err(), unsupported);
    let anonymous = s.create(1);
    let begun = s.vmos.writeback_begin(&s.machine, anonymous, 0..1);
    assert_eq!(begun.err(), unsupported);
    s.destroy(vmo);
    s.destroy(anonymous);
    s.assert_nothing_is_held();
}

#[test]
fn who_waits_for_a_page_hears_of_the_end_of_the_vmo() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.vmos.create_pager_backed(&s.machine, 4).unwrap();
    *s.machine.pager.lock().unwrap() = Pager::Supplies(Box::new(|id, _| s.destroy(id)));
    let read = s.vmos.read(&s.machine, &mut w, vmo, 0, &mut [0]);
    assert_eq!(read, Err(VmoError::NoSuchVmo));
    s.assert_nothing_is_held();
}

#[test]
fn written_pages_are_dirty_until_they_are_written_back() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = paged(s, 8);
    supply(s, vmo, 0..4);
    s.touch(&mut w, (1, 0), (vmo, 0), 5, Some(50));
    s.write_page(&mut w, vmo, 1, &text(1));
    let [zero, one] = [0, 1].map(|page| (page, Dirtiness::Dirty));
    assert_eq!(dirty(s, vmo), [zero, one]);
    assert_eq!(s.vmos.engine().queue_counts().dirty, 2);
    assert_eq!(
        s.send_away(&mut r),
        0,
        "clean ones are evicted, not compressed"
    );
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..8), Ok(2));
    assert_eq!(s.in_place(vmo), [(0, true), (1, true)]);
    s.vmos.writeback_begin(&s.machine, vmo, 0..8).unwrap();
    assert_eq!(
        dirty(s, vmo),
        [0, 1].map(|page| (page, Dirtiness::AwaitingClean))
    );
    assert!(
        !s.machine.mapped((1, 0)).unwrap().writable,
        "a write is noticed"
    );
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..8), Ok(0));
    s.touch(&mut w, (1, 0), (vmo, 0), 5, Some(60));
    s.vmos.writeback_end(vmo, 0..8).unwrap();
    assert_eq!(dirty(s, vmo), [zero], "it was written meanwhile");
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..8), Ok(1));
    s.vmos.writeback_begin(&s.machine, vmo, 0..8).unwrap();
    s.vmos.writeback_end(vmo, 0..8).unwrap();
    assert_eq!(dirty(s, vmo), []);
    assert_eq!(s.vmos.engine().queue_counts().dirty, 0);
    s.decommit(vmo, 0..8).unwrap();
    assert_eq!(s.vmos.usage(vmo).unwrap().content_pages, 0, "nor content");
    assert_eq!(s.read_page(&mut w, vmo, 1), text(101), "from the pager");
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn the_evictor_takes_clean_pages_and_anonymous_ones_alike() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = paged(s, 8);
    supply(s, vmo, 0..6);
    s.write_page(&mut w, vmo, 5, &text(5));
    let anonymous = s.create(8);
    (0..4).for_each(|page| s.write_page(&mut w, anonymous, page, &text(page)));
    (0..9).for_each(|_| s.vmos.engine().rotate(&s.machine));
    let evictor = Evictor::<SpinLock>::new();
    let mut source = EngineSource {
        engine: s.vmos.engine(),
        host: &s.machine,
        reclaimer: &mut r,
        trigger: Trigger::Pressure,
        evict: |place| s.vmos.evict(&s.machine, place),
        free: || s.machine.free_frames.load(Relaxed) as u64,
    };
    evictor.combine(Target {
        pending: true,
        free_pages: 0,
        min_pages: 20,
        level: Level::IncludeNewest,
    });
    let freed = evictor.run(&mut source);
    assert_placed_eq!((freed.evicted, freed.compressed), (5, 4));
    s.vmos.check_invariants();
    assert_eq!(s.in_place(vmo), [(5, true)], "the dirty one");
    assert_eq!(s.read_page(&mut w, vmo, 2), text(102));
    assert_eq!(s.read_page(&mut w, anonymous, 2), text(2));
    s.destroy(vmo);
    s.destroy(anonymous);
    s.assert_nothing_is_held();
}

#[test]
fn clean_pages_can_be_compressed_before_they_are_evicted() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = paged(s, 8);
    supply(s, vmo, 0..2);
    let before_eviction = Tunables {
        compress_pager_backed: true,
        ..Tunables::default()
    };
    s.vmos.engine().configure(&before_eviction).unwrap();
    (0..9).for_each(|_| s.vmos.engine().rotate(&s.machine));
    let engine = s.vmos.engine();
    let batch = engine.reclaim_batch(&s.machine, &mut r, 8, u64::MAX, Trigger::Pressure);
    assert_placed_eq!(batch.kept, 2);
    assert!(matches!(s.entry(vmo, 0), Entry::Compressed(_)));
    assert_eq!(s.read_page(&mut w, vmo, 0), text(100));
    assert_eq!(dirty(s, vmo), [], "as clean as before");
    assert_eq!(
        s.vmos.evict_pages(&s.machine, vmo, 0..8),
        Ok(2),
        "one compressed"
    );
    assert_eq!(value(&s.machine.requests), 0);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(100));
    assert_eq!(value(&s.machine.requests), 1);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn zeros_are_not_asked_for() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 8);
    supply(s, vmo, 1..2);
    s.zero(vmo, 0..2).unwrap();
    assert_eq!(s.read_page(&mut w, vmo, 0), [0; 4096]);
    assert_eq!(s.read_page(&mut w, vmo, 1), [0; 4096]);
    assert_eq!(dirty(s, vmo), [0, 1].map(|page| (page, Dirtiness::Dirty)));
    assert_eq!(
        s.decommit(vmo, 0..2),
        Err(VmoError::NotSupported),
        "not lost"
    );
    s.resize(vmo, 4).unwrap();
    s.resize(vmo, 8).unwrap();
    assert_eq!(
        s.read_page(&mut w, vmo, 6),
        [0; 4096],
        "the pager knows of four"
    );
    s.write_page(&mut w, vmo, 6, &text(6));
    assert_eq!(dirty(s, vmo)[2..], [(6, Dirtiness::Dirty)]);
    assert_eq!(value(&s.machine.requests), 0);
    assert_eq!(s.read_page(&mut w, vmo, 3), text(103));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_was_written_behind_what_the_pager_knew_is_asked_for_once_it_knows() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 4);
    s.resize(vmo, 8).unwrap();
    let from = s.create(1);
    s.write_page(&mut w, from, 0, &text(1));
    let mut list = s.vmos.take(&s.machine, &mut w, from, 0..1).unwrap();
    let refused = s.vmos.supply(&s.machine, &mut w, vmo, 6, &mut list);
    assert_eq!(refused, Err(VmoError::OutOfRange));
    s.vmos.discard(&s.machine, list);
    s.write_page(&mut w, vmo, 6, &text(6));
    s.vmos.writeback_begin(&s.machine, vmo, 0..8).unwrap();
    assert_eq!(s.read_page(&mut w, vmo, 5), [0; 4096]);
    s.vmos.writeback_end(vmo, 0..8).unwrap();
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..8), Ok(1));
    assert_eq!(s.read_page(&mut w, vmo, 6), text(106), "what the pager has");
    assert_eq!(s.read_page(&mut w, vmo, 7), [0; 4096]);
    s.destroy(vmo);
    s.destroy(from);
    s.assert_nothing_is_held();
}

#[test]
fn a_pinned_page_stays_wired_whatever_its_pager_does() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 2);
    s.vmos.pin(&s.machine, &mut w, vmo, 0..1).unwrap();
    assert_eq!(dirty(s, vmo), [(0, Dirtiness::Dirty)], "who pins may write");
    s.vmos.writeback_begin(&s.machine, vmo, 0..2).unwrap();
    s.vmos.writeback_end(vmo, 0..2).unwrap();
    assert_eq!(dirty(s, vmo), []);
    assert_eq!(s.vmos.engine().queue_counts().wired, 1);
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..2), Ok(0));
    s.vmos.unpin(vmo, 0..1).unwrap();
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..2), Ok(1));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
