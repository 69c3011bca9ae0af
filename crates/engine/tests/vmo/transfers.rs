//! Taking pages out of one VMO and supplying them to another.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{SpliceList, VmoError, VmoId};
use std::ops::Range;

fn take(s: &System, w: &mut TestWorker, vmo: VmoId, pages: Range<u64>) -> SpliceList {
    let list = s.vmos.take(&s.machine, w, vmo, pages).unwrap();
    s.vmos.check_invariants();
    list
}

fn supply(s: &System, w: &mut TestWorker, vmo: VmoId, first: u64, list: SpliceList) {
    let mut list = list;
    s.vmos.supply(&s.machine, w, vmo, first, &mut list).unwrap();
    assert_eq!(list.supplied(), list.pages());
    s.vmos.check_invariants();
    s.vmos.discard(&s.machine, list);
    s.vmos.check_invariants();
}

#[test]
fn entries_of_every_kind_go_as_they_are() {
    let s = system(8);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let (from, to) = (s.create(200), s.create(100));
    s.write_page(&mut w, from, 62, &text(1));
    s.write_page(&mut w, from, 63, &[0; 4096]);
    s.write_page(&mut w, from, 64, &[7; 4096]);
    assert_placed_eq!(s.send_away(&mut r), 3);
    s.write_page(&mut w, from, 66, &text(2));
    s.write_page(&mut w, from, 70, &text(3));
    let list = take(s, &mut w, from, 60..68);
    assert_eq!(list.pages(), 8);
    for page in 60..68 {
        assert_eq!(s.read_page(&mut w, from, page), [0; 4096]);
    }
    assert_eq!(s.read_page(&mut w, from, 70), text(3), "not in the range");
    supply(s, &mut w, to, 10, list);
    assert_placed_eq!(value(&s.codec.decompressed), 0);
    assert!(matches!(s.entry(to, 12), Entry::Compressed(_)));
    assert_eq!(s.entry(to, 13), Entry::Zero);
    assert_placed_eq!(s.in_place(to), [(16, true)]);
    assert_eq!(s.read_page(&mut w, to, 12), text(1));
    assert_eq!(s.read_page(&mut w, to, 14), [7; 4096]);
    assert_eq!(s.read_page(&mut w, to, 16), text(2));
    assert_eq!(s.read_page(&mut w, to, 17), [0; 4096]);
    // Compaction and reclaim find them where they are now.
    assert_placed_eq!(s.send_away(&mut r), 3);
    assert!(s.vmos.engine().compact(&s.machine, 1 << 20).is_some());
    assert_eq!(s.read_page(&mut w, to, 16), text(2));
    for vmo in [from, to] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn what_is_there_stays_and_what_a_snapshot_shows_is_replaced() {
    let s = system(100);
    let mut w = worker(0);
    let (from, to) = (s.create(4), s.create(4));
    (0..4).for_each(|page| s.write_page(&mut w, from, page, &text(page)));
    (0..3).for_each(|page| s.write_page(&mut w, to, page, &text(10 + page)));
    let child = s.vmos.snapshot(&s.machine, to, 0..4).unwrap();
    s.write_page(&mut w, to, 1, &text(20));
    s.zero(to, 2..3).unwrap();
    let list = take(s, &mut w, from, 0..4);
    supply(s, &mut w, to, 0, list);
    let seeds = [0, 20, 0, 3];
    for page in [0, 1, 3] {
        assert_eq!(s.read_page(&mut w, to, page), text(seeds[page as usize]));
    }
    assert_eq!(
        s.read_page(&mut w, to, 2),
        [0; 4096],
        "a marker is there, too"
    );
    for page in 0..3 {
        assert_eq!(s.read_page(&mut w, child, page), text(10 + page));
    }
    for vmo in [from, to, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn a_transfer_replaces_everything() {
    let s = system(100);
    let mut w = worker(0);
    let (from, to) = (s.create(4), s.create(4));
    s.write_page(&mut w, from, 1, &text(1));
    (0..4).for_each(|page| s.write_page(&mut w, to, page, &text(10 + page)));
    let child = s.vmos.snapshot(&s.machine, to, 0..4).unwrap();
    s.write_page(&mut w, to, 1, &text(20));
    let mut list = take(s, &mut w, from, 0..3);
    s.vmos.pin(&s.machine, &mut w, to, 2..3).unwrap();
    let refused = s.vmos.transfer(&s.machine, &mut w, to, 0, &mut list);
    assert_eq!(refused, Err(VmoError::BadState));
    s.vmos.unpin(to, 2..3).unwrap();
    assert_eq!(s.read_page(&mut w, to, 1), text(20), "nothing was done");
    s.vmos
        .transfer(&s.machine, &mut w, to, 0, &mut list)
        .unwrap();
    s.vmos.check_invariants();
    s.vmos.discard(&s.machine, list);
    for (page, seed) in [(0, None), (1, Some(1)), (2, None), (3, Some(13))] {
        let content = seed.map_or([0; 4096], text);
        assert_eq!(s.read_page(&mut w, to, page), content);
        assert_eq!(s.read_page(&mut w, child, page), text(10 + page));
    }
    for vmo in [from, to, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn what_is_taken_of_a_snapshot_is_still_there_for_the_other() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let (vmo, to) = (s.create(4), s.create(4));
    (0..3).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.write_page(&mut w, vmo, 3, &[0; 4096]);
    let child = s.vmos.snapshot(&s.machine, vmo, 0..4).unwrap();
    s.write_page(&mut w, child, 1, &text(10));
    assert_placed_eq!(s.send_away(&mut r), 5);
    let list = take(s, &mut w, child, 0..4);
    for page in 0..4 {
        let content = if page < 3 { text(page) } else { [0; 4096] };
        assert_eq!(s.read_page(&mut w, child, page), [0; 4096]);
        assert_eq!(s.read_page(&mut w, vmo, page), content);
    }
    s.destroy(child);
    s.vmos.check_invariants();
    supply(s, &mut w, to, 0, list);
    for (page, content) in [text(0), text(10), text(2), [0; 4096]].iter().enumerate() {
        assert_eq!(s.read_page(&mut w, to, page as u64), *content);
    }
    for vmo in [vmo, to] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn a_list_that_nobody_wants_is_freed() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    (0..4).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    let list = take(s, &mut w, vmo, 1..3);
    s.destroy(vmo);
    assert_placed_eq!(s.machine.pages_in_place(), 2);
    s.vmos.discard(&s.machine, list);
    s.assert_nothing_is_held();
}

#[test]
fn what_cannot_be_supplied_is_kept() {
    let s = system(100);
    let mut w = worker(0);
    let (from, to) = (s.create(4), s.create(4));
    (0..4).for_each(|page| s.write_page(&mut w, from, page, &text(page)));
    s.vmos.pin(&s.machine, &mut w, from, 2..3).unwrap();
    let none = s.vmos.take(&s.machine, &mut w, from, 2..4);
    assert_eq!(none.err(), Some(VmoError::BadState));
    let mut list = take(s, &mut w, from, 0..4);
    assert_eq!(list.pages(), 2, "up to the pinned one");
    let out = Err(VmoError::OutOfRange);
    let done = s.vmos.supply(&s.machine, &mut w, to, 3, &mut list);
    assert_eq!(done, out);
    s.destroy(to);
    let done = s.vmos.supply(&s.machine, &mut w, to, 0, &mut list);
    assert_eq!(done, Err(VmoError::NoSuchVmo));
    assert_eq!(list.supplied(), 0);
    supply(s, &mut w, from, 0, list);
    for page in 0..4 {
        assert_eq!(s.read_page(&mut w, from, page), text(page));
    }
    s.vmos.unpin(from, 2..3).unwrap();
    s.destroy(from);
    s.assert_nothing_is_held();
}

#[test]
fn pages_are_taken_while_they_are_compressed_and_decompressed() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let (from, to) = (s.create(1), s.create(1));
    s.write_page(&mut w, from, 0, &text(1));
    s.codec.on_compress.set(move || {
        let mut w = worker(2);
        let list = take(s, &mut w, from, 0..1);
        supply(s, &mut w, to, 0, list);
    });
    s.send_away(&mut r);
    assert!(matches!(s.entry(to, 0), Entry::Compressed(_)), "later");
    let (send, receive) = std::sync::mpsc::channel();
    s.codec.on_decompress.set(move || {
        assert!(matches!(s.entry(to, 0), Entry::Request(0)));
        send.send(take(s, &mut worker(3), to, 0..1)).unwrap();
    });
    assert_eq!(s.read_page(&mut w, to, 0), [0; 4096], "it was taken before");
    let list = receive.recv().unwrap();
    supply(s, &mut w, from, 0, list);
    assert_placed_eq!(s.in_place(from), [(0, true)]);
    assert_eq!(s.read_page(&mut w, from, 0), text(1));
    for vmo in [from, to] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}
