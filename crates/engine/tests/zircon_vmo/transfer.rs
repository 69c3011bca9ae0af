//! Pages taken out of one VMO and supplied to another.

use super::kernel::*;
use super::kit::*;
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

/// Compressed pages stay compressed on their way: nobody needs them yet.
#[test]
fn vmo_supply_compressed_pages_test() {
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
    end(s, &[from, to]);
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

#[test]
fn vmo_pager_supply_test() {
    let s = system(100);
    let mut w = worker(0);
    let [from, to] = [s.create(4), s.create(4)];
    // What is there stays, what would have come is freed.
    fill(s, &mut w, from, 0..3, 10);
    fill(s, &mut w, to, 1..2, 50);
    let list = take(s, &mut w, from, 0..4);
    assert_placed_eq!(
        (committed(s, from), committed(s, to)),
        (pages(0, 0, 0), pages(1, 0, PAGE))
    );
    assert_placed_eq!(s.machine.pages_in_place(), 4, "three of them in the list");
    supply(s, &mut w, to, 0, list);
    assert_placed_eq!(s.machine.pages_in_place(), 3);
    assert_placed_eq!(
        (committed(s, from), committed(s, to)),
        (pages(0, 0, 0), pages(3, 0, 3 * PAGE))
    );
    for (page, seed) in [(0, 10), (1, 51), (2, 12)] {
        assert!(s.read_page(&mut w, to, page) == text(seed), "page {page}");
    }
    // Into a snapshot: what it sees is replaced for it alone.
    let child = snapshot(s, to);
    fill(s, &mut w, from, 0..2, 20);
    let list = take(s, &mut w, from, 0..2);
    supply(s, &mut w, child, 1, list);
    for (page, seed) in [(0, 10), (1, 20), (2, 21)] {
        assert!(
            s.read_page(&mut w, child, page) == text(seed),
            "page {page}"
        );
    }
    for (page, seed) in [(0, 10), (1, 51), (2, 12)] {
        assert!(s.read_page(&mut w, to, page) == text(seed), "page {page}");
    }
    assert_placed_eq!(committed(s, child), pages(2, 1, 2 * PAGE + PAGE / 2));
    assert_placed_eq!(committed(s, to), pages(2, 1, 2 * PAGE + PAGE / 2));
    // Where there is no room, nothing is lost.
    fill(s, &mut w, from, 0..4, 30);
    let mut list = take(s, &mut w, from, 0..4);
    let beyond = s.vmos.supply(&s.machine, &mut w, to, 1, &mut list);
    assert_eq!((beyond, list.supplied()), (Err(VmoError::OutOfRange), 0));
    supply(s, &mut w, from, 0, list);
    assert_filled(s, &mut w, from, 0..4, 30);
    end(s, &[from, to, child]);
}
