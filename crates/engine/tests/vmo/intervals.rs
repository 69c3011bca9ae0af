//! Zeroing large ranges of VMOs that see snapshots: two entries, whatever they hide.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{MAX_PAGES, VmoError, VmoId};
use std::ops::Range;

/// How many pages the snapshot holds, in leaves side by side.
const HELD: u64 = 200;
const ZEROS: [u8; 4096] = [0; 4096];

fn snapshot(s: &System, id: VmoId, pages: Range<u64>) -> VmoId {
    let child = s.vmos.snapshot(&s.machine, id, pages).unwrap();
    s.vmos.check_invariants();
    child
}

/// A VMO that holds its first pages, and a snapshot of it. Others are far behind.
fn pair(s: &System, w: &mut TestWorker) -> [VmoId; 2] {
    let vmo = s.create(MAX_PAGES);
    (0..HELD).for_each(|page| s.write_page(w, vmo, page, &text(page)));
    s.write_page(w, vmo, MAX_PAGES - 1, &text(7));
    let child = snapshot(s, vmo, 0..MAX_PAGES);
    [vmo, child]
}

fn expect(s: &System, w: &mut TestWorker, id: VmoId, content: impl Fn(u64) -> Option<u64>) {
    let pages = s.vmos.pages(id).unwrap();
    let looked_at = (0..HELD + 3).chain([1 << 20, MAX_PAGES - 2, MAX_PAGES - 1]);
    for page in looked_at.filter(|&page| page < pages) {
        let content = content(page).map_or(ZEROS, text);
        assert!(s.read_page(w, id, page) == content, "page {page} of {id:?}");
    }
}

/// What the first one of a pair has at first.
fn held(page: u64) -> Option<u64> {
    match page {
        0..HELD => Some(page),
        _ => (page == MAX_PAGES - 1).then_some(7),
    }
}

#[test]
fn zeroing_sixteen_terabytes_costs_two_entries() {
    let s = system(400);
    let mut w = worker(0);
    let [vmo, child] = pair(s, &mut w);
    let before = s.vmos.tables_in_use();
    s.zero(child, 0..MAX_PAGES).unwrap();
    s.vmos.check_invariants();
    assert_eq!(s.vmos.zero_intervals(child), Ok(1));
    let after = s.vmos.tables_in_use();
    assert_eq!((after.0 - before.0, after.1 - before.1), (2, 2));
    assert_eq!(
        value(&s.vmos.engine().counters().same_filled_pages),
        0,
        "no markers"
    );
    assert_placed_eq!(s.machine.pages_in_place() as u64, HELD + 1);
    expect(s, &mut w, child, |_| None);
    expect(s, &mut w, vmo, held);
    assert_eq!(s.in_place(child), []);
    assert_eq!(s.entry(child, 1), Entry::Empty);
    s.zero(child, 5..HELD).unwrap();
    assert_eq!(s.vmos.zero_intervals(child), Ok(1), "twice is once");
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_eq!(s.machine.pages_in_place(), 0, "nobody sees them");
    assert_eq!(
        s.vmos.zero_intervals(child),
        Ok(0),
        "nothing is left to hide"
    );
    expect(s, &mut w, child, |_| None);
    s.destroy(child);
    s.assert_nothing_is_held();
}

#[test]
fn own_pages_in_the_range_go_and_pinned_ones_stay() {
    let s = system(600);
    let mut w = worker(0);
    let [vmo, child] = pair(s, &mut w);
    (20..60).for_each(|page| s.write_page(&mut w, child, page, &noise(page)));
    s.vmos.pin(&s.machine, &mut w, child, 100..102).unwrap();
    s.send_away(&mut reclaimer(9));
    s.zero(child, 10..150).unwrap();
    s.vmos.check_invariants();
    assert_eq!(
        s.vmos.zero_intervals(child),
        Ok(2),
        "one on each side of what is pinned"
    );
    let outside = |page| (!(10..150).contains(&page)).then_some(page).and_then(held);
    expect(s, &mut w, child, outside);
    expect(s, &mut w, vmo, held);
    assert_eq!(s.decommit(child, 90..120), Err(VmoError::BadState));
    s.vmos.unpin(child, 100..102).unwrap();
    s.decommit(child, 90..120).unwrap();
    assert_eq!(s.vmos.zero_intervals(child), Ok(1));
    expect(s, &mut w, child, outside);
    s.vmos.check_invariants();
    s.destroy(child);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_write_splits_it_and_a_fault_does() {
    let s = system(600);
    let mut w = worker(0);
    let [vmo, child] = pair(s, &mut w);
    s.zero(child, 0..HELD).unwrap();
    s.write_page(&mut w, child, 64, &text(1000));
    assert_eq!(s.touch(&mut w, (3, 127), (child, 127), 5, None), 0);
    s.touch(&mut w, (3, 130), (child, 130), 5, Some(9));
    assert_eq!(s.touch(&mut w, (3, 130), (child, 130), 5, None), 9);
    s.commit(&mut w, child, 0..3).unwrap();
    s.vmos.check_invariants();
    assert_eq!(s.vmos.zero_intervals(child), Ok(4));
    s.zero(child, 130..131).unwrap();
    expect(s, &mut w, child, |page| match page {
        64 => Some(1000),
        0..HELD => None,
        _ => held(page),
    });
    expect(s, &mut w, vmo, held);
    s.zero(child, 0..HELD).unwrap();
    assert_eq!(s.vmos.zero_intervals(child), Ok(1), "whole again");
    s.vmos.check_invariants();
    s.destroy(vmo);
    s.destroy(child);
    s.assert_nothing_is_held();
}

#[test]
fn snapshots_of_it_hide_the_same() {
    for last in 0..3usize {
        let s = system(800);
        let mut w = worker(0);
        let [vmo, child] = pair(s, &mut w);
        s.write_page(&mut w, child, 3, &text(3000));
        s.zero(child, 10..HELD).unwrap();
        let part = snapshot(s, child, 50..100);
        let whole = snapshot(s, child, 0..HELD + 3);
        assert_eq!(s.vmos.zero_intervals(part), Ok(1));
        let seen = |page| match page {
            3 => Some(3000),
            10..HELD => None,
            _ => held(page),
        };
        s.write_page(&mut w, part, 7, &text(700));
        s.write_page(&mut w, child, 57, &text(5700));
        s.vmos.check_invariants();
        expect(s, &mut w, part, |page| (page == 7).then_some(700));
        expect(s, &mut w, whole, |page| {
            if page < HELD + 3 { seen(page) } else { None }
        });
        expect(s, &mut w, child, |page| {
            if page == 57 { Some(5700) } else { seen(page) }
        });
        // Whoever ends first or last, the others see what they saw.
        let mut left = vec![vmo, child, part, whole];
        left.rotate_left(last);
        while let Some(ended) = left.pop() {
            s.destroy(ended);
            s.vmos.check_invariants();
            for &id in &left {
                match id {
                    id if id == vmo => expect(s, &mut w, vmo, held),
                    id if id == part => expect(s, &mut w, part, |page| (page == 7).then_some(700)),
                    id if id == whole => expect(s, &mut w, whole, seen),
                    _ => expect(s, &mut w, child, |page| match page {
                        57 => Some(5700),
                        page => seen(page),
                    }),
                }
            }
        }
        s.assert_nothing_is_held();
    }
}

#[test]
fn a_smaller_vmo_has_a_shorter_one() {
    let s = system(400);
    let mut w = worker(0);
    let [vmo, child] = pair(s, &mut w);
    s.zero(child, 30..HELD).unwrap();
    s.resize(child, 70).unwrap();
    s.vmos.check_invariants();
    assert_eq!(s.vmos.zero_intervals(child), Ok(1));
    s.resize(child, MAX_PAGES).unwrap();
    expect(s, &mut w, child, |page| (page < 30).then_some(page));
    s.resize(child, 30).unwrap();
    assert_eq!(s.vmos.zero_intervals(child), Ok(0));
    s.vmos.check_invariants();
    expect(s, &mut w, vmo, held);
    s.destroy(vmo);
    s.destroy(child);
    s.assert_nothing_is_held();
}

#[test]
fn pages_can_be_taken_from_it_and_supplied_into_it() {
    let s = system(600);
    let mut w = worker(0);
    let (m, vmos) = (&s.machine, &s.vmos);
    let [vmo, child] = pair(s, &mut w);
    s.zero(child, 0..HELD).unwrap();
    let other = s.create(HELD);
    (0..HELD).for_each(|page| s.write_page(&mut w, other, page, &text(page + 500)));
    let mut list = vmos.take(m, &mut w, child, 0..10).unwrap();
    vmos.supply(m, &mut w, other, 0, &mut list).unwrap();
    vmos.discard(m, list);
    expect(s, &mut w, other, |page| (page < HELD).then_some(page + 500));
    let mut list = vmos.take(m, &mut w, other, 20..30).unwrap();
    vmos.transfer(m, &mut w, child, 120, &mut list).unwrap();
    vmos.discard(m, list);
    vmos.check_invariants();
    assert_eq!(vmos.zero_intervals(child), Ok(2));
    expect(s, &mut w, child, |page| match page {
        120..130 => Some(page + 400),
        0..HELD => None,
        _ => held(page),
    });
    expect(s, &mut w, vmo, held);
    [other, vmo, child].into_iter().for_each(|id| s.destroy(id));
    s.assert_nothing_is_held();
}
