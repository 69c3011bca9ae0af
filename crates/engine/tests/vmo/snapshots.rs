//! Snapshots: of VMOs, of parts, of snapshots.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{VmoError, VmoId};
use std::sync::atomic::Ordering::Relaxed;

fn snapshot(s: &System, id: VmoId, pages: std::ops::Range<u64>) -> VmoId {
    let child = s.vmos.snapshot(&s.machine, id, pages).unwrap();
    s.vmos.check_invariants();
    child
}

#[test]
fn both_see_what_was_and_neither_sees_what_the_other_writes() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    (0..3).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    let child = snapshot(s, vmo, 0..4);
    assert_placed_eq!(s.machine.pages_in_place(), 3, "nothing was copied");
    assert_placed_eq!(s.in_place(vmo), [0, 1, 2].map(|page| (page, false)));
    s.write_page(&mut w, vmo, 0, &text(10));
    s.write_page(&mut w, child, 1, &text(11));
    s.write_page(&mut w, child, 3, &text(13));
    s.vmos.check_invariants();
    let expect = |w: &mut TestWorker, id, pages: [u64; 4]| {
        for (page, seed) in (0..).zip(pages) {
            let content = if seed == 0 { [0; 4096] } else { text(seed) };
            assert_eq!(s.read_page(w, id, page), content, "page {page}");
        }
    };
    s.zero(vmo, 2..3).unwrap();
    assert_eq!(s.read_page(&mut w, vmo, 2), [0; 4096]);
    s.write_page(&mut w, vmo, 2, &text(2));
    for page in 0..4u64 {
        let content = [text(10), text(1), text(2), [0; 4096]][page as usize];
        assert_eq!(s.read_page(&mut w, vmo, page), content, "page {page}");
    }
    assert_eq!(s.read_page(&mut w, child, 0), text(0));
    s.destroy(vmo);
    s.vmos.check_invariants();
    s.write_page(&mut w, child, 0, &text(20));
    expect(&mut w, child, [20, 11, 2, 13]);
    s.destroy(child);
    s.assert_nothing_is_held();
}

#[test]
fn there_are_no_more_relatives_than_a_page_can_count() {
    let s = system(3);
    let mut w = worker(0);
    let vmo = s.create(1);
    let mut all = vec![vmo];
    let refused = loop {
        match s.vmos.snapshot(&s.machine, vmo, 0..1) {
            Ok(child) => all.push(child),
            Err(refused) => break refused,
        }
        assert!(all.len() <= 1 << 16, "counters have 16 bits");
    };
    assert_eq!(refused, VmoError::BadState);
    assert!(all.len() > 65_000, "{}", all.len());
    s.write_page(&mut w, vmo, 0, &text(1));
    let last = all.pop().unwrap();
    assert_eq!(s.read_page(&mut w, last, 0), [0; 4096]);
    s.destroy(last);
    all.push(
        s.vmos
            .snapshot(&s.machine, all[1], 0..1)
            .expect("there is room again"),
    );
    all.into_iter().for_each(|vmo| s.destroy(vmo));
    s.assert_nothing_is_held();
}

#[test]
fn the_last_who_sees_a_page_gets_it_and_not_a_copy() {
    let s = system(3);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let [one, two] = [snapshot(s, vmo, 0..1), snapshot(s, vmo, 0..1)];
    s.write_page(&mut w, one, 0, &text(2));
    s.write_page(&mut w, two, 0, &text(3));
    assert_placed_eq!(s.machine.free_frames.load(Relaxed), 0);
    s.vmos.check_invariants();
    assert_placed_eq!(s.in_place(vmo), [(0, false)]);
    s.vmos.write(&s.machine, &mut w, vmo, 7, &[7]).unwrap();
    assert_placed_eq!(
        s.in_place(vmo),
        [(0, true)],
        "there was no frame for a copy"
    );
    s.vmos.check_invariants();
    assert_eq!(s.read_page(&mut w, vmo, 0)[8..], text(1)[8..]);
    assert_eq!(s.read_page(&mut w, one, 0), text(2));
    assert_eq!(s.read_page(&mut w, two, 0), text(3));
    for vmo in [vmo, one, two] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn a_part_is_at_its_offset_and_ends_where_the_vmo_does() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(100);
    (60..70).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.write_page(&mut w, vmo, 99, &text(99));
    let part = snapshot(s, vmo, 62..66);
    let tail = snapshot(s, vmo, 99..110);
    assert_eq!(s.vmos.pages(tail), Ok(11));
    for page in 0..4 {
        assert_eq!(s.read_page(&mut w, part, page), text(62 + page));
    }
    assert_eq!(s.read_page(&mut w, tail, 0), text(99));
    assert_eq!(s.read_page(&mut w, tail, 1), [0; 4096]);
    s.write_page(&mut w, tail, 1, &text(5));
    s.resize(vmo, 200).unwrap();
    assert_eq!(s.read_page(&mut w, vmo, 100), [0; 4096]);
    // What only the VMO saw goes with it, what the part sees stays.
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_placed_eq!(s.machine.pages_in_place(), 4 + 2);
    for page in 0..4 {
        assert_eq!(s.read_page(&mut w, part, page), text(62 + page));
    }
    s.resize(part, 2).unwrap();
    s.vmos.check_invariants();
    assert_placed_eq!(s.machine.pages_in_place(), 2 + 2);
    s.resize(part, 10).unwrap();
    assert_eq!(s.read_page(&mut w, part, 2), [0; 4096]);
    for vmo in [part, tail] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
    let vmo = s.create(10);
    let out = Err(VmoError::OutOfRange);
    assert_eq!(s.vmos.snapshot(&s.machine, vmo, 11..12), out);
    assert_eq!(s.vmos.objects(), 1, "nothing was begun");
    s.destroy(vmo);
}

#[test]
fn chains_end_in_any_order() {
    for order in 0..24 {
        let s = system(200);
        let mut w = worker(0);
        let vmo = s.create(8);
        (0..8).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
        let mut all = vec![(vmo, 0)];
        for n in 1..4u64 {
            let (last, _) = all[all.len() - 1];
            let child = snapshot(s, last, 1..8);
            s.write_page(&mut w, child, 0, &text(100 + n));
            s.write_page(&mut w, last, 7 - n, &text(200 + n));
            all.push((child, n));
        }
        let mut picks = order;
        for left in (1..=4usize).rev() {
            for (vmo, n) in &all {
                let first = if *n == 0 { text(0) } else { text(100 + n) };
                assert_eq!(s.read_page(&mut w, *vmo, 0), first);
                assert_eq!(s.read_page(&mut w, *vmo, 1), text(1 + n));
            }
            let (vmo, _) = all.remove(picks % left);
            picks /= left;
            s.destroy(vmo);
            s.vmos.check_invariants();
        }
        s.assert_nothing_is_held();
    }
}

#[test]
fn content_stays_compressed_until_it_is_written() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(4);
    (0..4).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.write_page(&mut w, vmo, 2, &[0; 4096]);
    s.write_page(&mut w, vmo, 3, &[3; 4096]);
    assert_placed_eq!(s.send_away(&mut r), 4);
    let child = snapshot(s, vmo, 0..4);
    let other = snapshot(s, child, 1..4);
    s.destroy(child);
    assert_placed_eq!(value(&s.codec.decompressed), 0);
    assert!(matches!(s.entry(vmo, 1), Entry::Compressed(_)));
    assert_eq!(s.entry(other, 1), Entry::Zero);
    assert_eq!(s.read_page(&mut w, other, 2), [3; 4096]);
    s.zero(vmo, 3..4).unwrap();
    s.vmos.check_invariants();
    assert_eq!(s.read_page(&mut w, other, 2), [3; 4096]);
    assert_eq!(s.read_page(&mut w, other, 0), text(1));
    assert_placed_eq!(value(&s.codec.decompressed), 1);
    assert_placed_eq!(s.in_place(vmo), [(1, false)], "for both");
    assert_placed_eq!(s.send_away(&mut r), 1);
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_placed_eq!(value(&s.codec.decompressed), 1);
    assert_eq!(s.read_page(&mut w, other, 0), text(1));
    s.destroy(other);
    s.assert_nothing_is_held();
}

#[test]
fn mappings_lose_the_right_to_write_and_nothing_else() {
    if not_under_random_compression("what is mapped must stay mapped") {
        return;
    }
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(2);
    s.touch(&mut w, (1, 0), (vmo, 0), 9, Some(1));
    let before = s.machine.mapped((1, 0)).unwrap();
    assert!(before.writable);
    let child = snapshot(s, vmo, 0..2);
    let after = s.machine.mapped((1, 0)).unwrap();
    assert_eq!((after.place, after.writable), (before.place, false));
    assert_eq!(s.touch(&mut w, (2, 0), (child, 0), 9, None), 1);
    assert_eq!(s.touch(&mut w, (1, 0), (vmo, 0), 9, Some(2)), 2);
    assert_eq!(s.touch(&mut w, (2, 0), (child, 0), 9, None), 1);
    assert_eq!(s.touch(&mut w, (2, 0), (child, 0), 9, Some(3)), 3);
    assert_eq!(s.touch(&mut w, (1, 0), (vmo, 0), 9, None), 2);
    s.vmos.check_invariants();
    for vmo in [vmo, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn an_entry_is_shared_whatever_becomes_of_it() {
    if not_under_random_compression("it makes a page take one form after the other") {
        return;
    }
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let child = snapshot(s, vmo, 0..1);
    let (send, receive) = std::sync::mpsc::channel();
    // Snapshotted, hidden and ended while the shared page is compressed,
    s.codec.on_compress.set(move || {
        assert!(matches!(s.entry(child, 0), Entry::Temporary(_)));
        let third = snapshot(s, child, 0..1);
        s.zero(child, 0..1).unwrap();
        s.vmos.check_invariants();
        s.destroy(vmo);
        s.vmos.check_invariants();
        assert!(matches!(s.entry(third, 0), Entry::Temporary(_)));
        send.send(third).unwrap();
    });
    assert_placed_eq!(s.send_away(&mut r), 1, "it stood where it had moved to");
    let third = receive.recv().unwrap();
    assert!(matches!(s.entry(third, 0), Entry::Compressed(_)));
    // and once more while it is restored.
    let (send, receive) = std::sync::mpsc::channel();
    s.codec.on_decompress.set(move || {
        assert_eq!(s.entry(third, 0), Entry::Request(0));
        let fourth = snapshot(s, third, 0..1);
        s.destroy(child);
        s.destroy(third);
        s.vmos.check_invariants();
        assert_eq!(s.entry(fourth, 0), Entry::Request(0));
        send.send(fourth).unwrap();
    });
    let read = s.vmos.read(&s.machine, &mut w, third, 0, &mut [0; 4096]);
    assert_eq!(read, Err(VmoError::NoSuchVmo));
    let fourth = receive.recv().unwrap();
    assert_eq!(s.in_place(fourth), [(0, true)], "the worker followed it");
    assert_eq!(s.read_page(&mut w, fourth, 0), text(1));
    s.destroy(fourth);
    s.assert_nothing_is_held();
}

#[test]
fn a_zero_marker_of_a_snapshot_hides_nothing_after_the_last_write() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &[0; 4096]);
    let child = snapshot(s, vmo, 0..1);
    assert_placed_eq!(s.send_away(&mut r), 1);
    assert_eq!(s.entry(child, 0), Entry::Zero);
    s.vmos.check_invariants();
    s.write_page(&mut w, vmo, 0, &text(1));
    s.vmos.check_invariants();
    assert_eq!(s.read_page(&mut w, child, 0), [0; 4096]);
    s.write_page(&mut w, child, 0, &text(2));
    s.vmos.check_invariants();
    assert_eq!(value(&s.vmos.engine().counters().same_filled_pages), 0);
    for vmo in [vmo, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn without_tables_there_is_no_snapshot_and_nothing_is_changed() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    s.machine.chunks.store(0, Relaxed);
    let none = s.vmos.snapshot(&s.machine, vmo, 0..1);
    assert_eq!(none, Err(VmoError::NoMemory));
    s.vmos.check_invariants();
    assert_eq!(s.in_place(vmo), [(0, true)]);
    s.machine.chunks.store(9, Relaxed);
    let child = snapshot(s, vmo, 0..1);
    for vmo in [child, vmo] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn snapshots_of_what_is_not_written_stand_side_by_side() {
    let s = system(2000);
    let mut w = worker(0);
    let vmo = s.create(70);
    (60..70).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    let children: Vec<VmoId> = (0..300)
        .map(|_| s.vmos.snapshot(&s.machine, vmo, 60..70).unwrap())
        .collect();
    s.vmos.check_invariants();
    assert_eq!(s.vmos.objects(), 302, "one hidden node for all of them");
    for (n, &child) in (0..).zip(&children) {
        s.write_page(&mut w, child, n % 10, &text(1000 + n));
        let grandchild = s.vmos.snapshot(&s.machine, child, 0..10).unwrap();
        assert_eq!(s.read_page(&mut w, grandchild, n % 10), text(1000 + n));
        s.destroy(grandchild);
    }
    s.vmos.check_invariants();
    s.destroy(vmo);
    s.vmos.check_invariants();
    for (n, child) in (0..).zip(children) {
        assert_eq!(s.read_page(&mut w, child, n % 10), text(1000 + n));
        assert_eq!(
            s.read_page(&mut w, child, (n + 1) % 10),
            text(60 + (n + 1) % 10)
        );
        s.destroy(child);
    }
    s.assert_nothing_is_held();
}

#[test]
fn a_snapshot_of_nothing_shares_nothing() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    let child = snapshot(s, vmo, 1..9);
    assert_eq!(s.vmos.objects(), 2);
    s.write_page(&mut w, vmo, 2, &text(1));
    s.write_page(&mut w, child, 7, &text(2));
    assert_eq!(s.read_page(&mut w, child, 1), [0; 4096]);
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_eq!(s.read_page(&mut w, child, 7), text(2));
    s.destroy(child);
    s.assert_nothing_is_held();
}
