//! Pages taken out of one VMO and supplied to another.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::vmo::{SpliceList, VmoError, VmoId};
use std::ops::Range;

fn take(s: &System, w: &mut TestWorker, id: VmoId, pages: Range<u64>) -> SpliceList {
    let list = s.vmos.take(&s.machine, w, id, pages).unwrap();
    s.vmos.check_invariants();
    list
}

fn supply(s: &System, w: &mut TestWorker, id: VmoId, first: u64, mut list: SpliceList) {
    s.vmos.supply(&s.machine, w, id, first, &mut list).unwrap();
    assert_eq!(list.supplied(), list.pages());
    s.vmos.check_invariants();
    s.vmos.discard(&s.machine, list);
    s.vmos.check_invariants();
}

/// A list takes the place of what a VMO has, from its first page on.
fn transfer(s: &System, w: &mut TestWorker, mut list: SpliceList, id: VmoId) {
    s.vmos.transfer(&s.machine, w, id, 0, &mut list).unwrap();
    s.vmos.check_invariants();
    s.vmos.discard(&s.machine, list);
}

/// Compressed pages stay compressed on their way: nobody needs them yet. A pager's VMO has them as well.
#[test]
fn what_is_supplied_stays_compressed() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let [from, to] = [s.create(4), s.create(6)];
    fill(s, &mut w, from, 0..3, 1);
    assert_placed_eq!(s.send_away(&mut r), 3);
    s.read_page(&mut w, from, 1);
    let list = take(s, &mut w, from, 0..4);
    assert_eq!(list.pages(), 4);
    assert_eq!(forms(s, from), "----");
    assert_eq!(content(s, from), pages(0, 0, 0));
    supply(s, &mut w, to, 1, list);
    assert_placed_eq!(forms(s, to), "-CPC--");
    assert_eq!(content(s, to), pages(3, 0, 3 * PAGE));
    assert_eq!(decompressed(s), 1, "what was read before");
    for page in 0..3 {
        assert!(s.read_page(&mut w, to, page + 1) == text(page + 1));
        assert!(s.read_page(&mut w, from, page) == [0; 4096]);
    }
    assert_placed_eq!(forms(s, to), "-PPP--");
    // It is supplied to a pager's VMO: there it may be evicted, since its pager has it still.
    let paged = s.vmos.create_pager_backed(&s.machine, 2).unwrap();
    fill(s, &mut w, from, 0..2, 1);
    assert_placed_eq!(s.send_away(&mut r), 5);
    let list = take(s, &mut w, from, 0..2);
    supply(s, &mut w, paged, 0, list);
    assert_placed_eq!(forms(s, paged), "CC");
    assert_filled(s, &mut w, paged, 0..1, 1);
    assert_placed_eq!(forms(s, paged), "PC");
    assert_eq!(s.vmos.evict_pages(&s.machine, paged, 0..2), Ok(2));
    assert_eq!(forms(s, paged), "--");
    end(s, &[from, to, paged]);
}

/// Where a child sees a marker of zeros, what is supplied replaces it, and the others still see zeros.
#[test]
fn vmo_zero_marker_transfer_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    for supplied in [true, false] {
        let [vmo, other] = [s.create(2), s.create(2)];
        s.commit(&mut w, vmo, 0..2).unwrap();
        assert_placed_eq!(s.send_away(&mut r), 2);
        let child = snapshot(s, vmo);
        assert_eq!(forms(s, child), "00");
        if supplied {
            fill(s, &mut w, other, 0..1, 7);
            let list = take(s, &mut w, other, 0..2);
            supply(s, &mut w, child, 0, list);
            assert!(s.read_page(&mut w, child, 0) == text(7));
            assert!(s.read_page(&mut w, child, 1) == [0; 4096]);
        } else {
            // Taking it moves nothing but zeros.
            let list = take(s, &mut w, child, 0..2);
            supply(s, &mut w, other, 0, list);
            for page in 0..2 {
                assert!(s.read_page(&mut w, other, page) == [0; 4096]);
                assert!(s.read_page(&mut w, child, page) == [0; 4096]);
            }
            assert_eq!(committed(s, other), pages(0, 0, 0));
        }
        for page in 0..2 {
            assert!(s.read_page(&mut w, vmo, page) == [0; 4096]);
        }
        end(s, &[vmo, child, other]);
    }
}

/// Pager-backed VMOs have no snapshots: those are of an anonymous VMO that was supplied alike.
#[test]
fn vmo_pager_supply_test() {
    let s = system(100);
    let mut w = worker(0);
    let from = s.create(4);
    let paged = s.vmos.create_pager_backed(&s.machine, 4).unwrap();
    let anonymous = s.create(4);
    for to in [paged, anonymous] {
        // What is there stays, what would have come is freed.
        fill(s, &mut w, from, 0..2, 10);
        let list = take(s, &mut w, from, 0..2);
        supply(s, &mut w, to, 0, list);
        fill(s, &mut w, from, 0..4, 50);
        let before = s.machine.pages_in_place();
        let list = take(s, &mut w, from, 0..4);
        assert_placed_eq!(committed(s, from), pages(0, 0, 0));
        assert_placed_eq!(committed(s, to), pages(2, 0, 2 * PAGE));
        assert_placed_eq!(s.machine.pages_in_place(), before, "in the list");
        supply(s, &mut w, to, 0, list);
        assert_placed_eq!(s.machine.pages_in_place() + 2, before);
        assert_placed_eq!(committed(s, to), pages(4, 0, 4 * PAGE));
        for (page, seed) in [(0, 10), (1, 11), (2, 52), (3, 53)] {
            assert!(s.read_page(&mut w, to, page) == text(seed), "page {page}");
        }
    }
    let holds = |w: &mut TestWorker, id: VmoId, seeds: [u64; 4]| {
        for (page, seed) in (0..).zip(seeds) {
            assert!(s.read_page(w, id, page) == text(seed), "page {page}");
        }
    };
    // Into the middle of a snapshot: what it sees is replaced for it alone.
    let child = snapshot(s, anonymous);
    fill(s, &mut w, from, 1..3, 20);
    let list = take(s, &mut w, from, 1..3);
    supply(s, &mut w, child, 1, list);
    holds(&mut w, child, [10, 21, 22, 53]);
    holds(&mut w, anonymous, [10, 11, 52, 53]);
    for id in [child, anonymous] {
        assert_placed_eq!(committed(s, id), pages(2, 2, 3 * PAGE));
    }
    // All of it, in place of what it has itself, too: nothing is shared any more.
    fill(s, &mut w, from, 0..4, 30);
    let list = take(s, &mut w, from, 0..4);
    transfer(s, &mut w, list, child);
    holds(&mut w, child, [30, 31, 32, 33]);
    holds(&mut w, anonymous, [10, 11, 52, 53]);
    for id in [child, anonymous] {
        assert_placed_eq!(committed(s, id), pages(4, 0, 4 * PAGE));
    }
    // A snapshot of the snapshot: they have half of each, until one is supplied two of them.
    let second = snapshot(s, child);
    for id in [child, second] {
        assert_placed_eq!(committed(s, id), pages(0, 4, 2 * PAGE));
    }
    fill(s, &mut w, from, 0..2, 40);
    let list = take(s, &mut w, from, 0..2);
    transfer(s, &mut w, list, second);
    assert_placed_eq!(committed(s, second), pages(2, 2, 3 * PAGE));
    assert_placed_eq!(committed(s, child), pages(2, 2, 3 * PAGE));
    holds(&mut w, second, [40, 41, 32, 33]);
    holds(&mut w, child, [30, 31, 32, 33]);
    // Where there is no room, nothing is lost.
    fill(s, &mut w, from, 0..4, 60);
    let mut list = take(s, &mut w, from, 0..4);
    let beyond = s.vmos.supply(&s.machine, &mut w, paged, 1, &mut list);
    assert_eq!((beyond, list.supplied()), (Err(VmoError::OutOfRange), 0));
    supply(s, &mut w, from, 0, list);
    assert_filled(s, &mut w, from, 0..4, 60);
    end(s, &[from, paged, anonymous, child, second]);
}
