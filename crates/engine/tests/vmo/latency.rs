//! Latency-sensitive VMOs are never compressed.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{VmoError, VmoId};

fn mark(s: &System, w: &mut TestWorker, vmo: VmoId) {
    s.vmos.mark_latency_sensitive(&s.machine, w, vmo).unwrap();
    s.vmos.check_invariants();
}

fn unmark(s: &System, vmo: VmoId) {
    s.vmos.unmark_latency_sensitive(vmo).unwrap();
    s.vmos.check_invariants();
}

#[test]
fn marking_brings_back_what_is_compressed_and_keeps_it() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    (0..4).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.write_page(&mut w, vmo, 4, &[0; 4096]);
    assert_placed_eq!(s.send_away(&mut r), 5);
    mark(s, &mut w, vmo);
    mark(s, &mut w, vmo);
    assert_eq!(s.in_place(vmo).len(), 4);
    assert_eq!(
        s.entry(vmo, 4),
        Entry::Zero,
        "there is nothing to decompress"
    );
    s.write_page(&mut w, vmo, 5, &text(5));
    s.write_page(&mut w, vmo, 4, &[0; 4096]);
    assert_eq!(s.send_away(&mut r), 0);
    assert_eq!(s.vmos.engine().queue_counts().high_priority, 6);
    unmark(s, vmo);
    assert_eq!(s.vmos.is_latency_sensitive(vmo), Ok(true));
    assert_eq!(s.send_away(&mut r), 0, "there is a second mark");
    unmark(s, vmo);
    assert_eq!(s.vmos.is_latency_sensitive(vmo), Ok(false));
    let none = s.vmos.unmark_latency_sensitive(vmo);
    assert_eq!(none, Err(VmoError::BadState));
    assert_placed_eq!(s.send_away(&mut r), 6);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_a_marked_vmo_sees_in_a_snapshot_stays_too() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    s.write_page(&mut w, vmo, 0, &text(0));
    let child = s.vmos.snapshot(&s.machine, vmo, 0..10).unwrap();
    s.write_page(&mut w, vmo, 1, &text(1));
    s.write_page(&mut w, child, 1, &text(2));
    assert_placed_eq!(s.send_away(&mut r), 3);
    mark(s, &mut w, child);
    assert_eq!(s.in_place(child), [(0, false), (1, true)]);
    assert_eq!(s.send_away(&mut r), 0);
    let grandchild = s.vmos.snapshot(&s.machine, child, 0..10).unwrap();
    s.vmos.check_invariants();
    s.write_page(&mut w, grandchild, 2, &text(3));
    assert_placed_eq!(s.send_away(&mut r), 1, "the unmarked one's own page");
    s.write_page(&mut w, child, 2, &text(3));
    assert_eq!(s.send_away(&mut r), 0);
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_eq!(s.send_away(&mut r), 0);
    s.destroy(child);
    s.vmos.check_invariants();
    assert_placed_eq!(s.send_away(&mut r), 2, "no marked one is left");
    for page in 0..3 {
        assert_eq!(
            s.read_page(&mut w, grandchild, page),
            text([0, 2, 3][page as usize])
        );
    }
    s.destroy(grandchild);
    s.assert_nothing_is_held();
}

#[test]
fn a_page_that_is_being_compressed_comes_back() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(0));
    s.codec
        .on_compress
        .set(move || mark(s, &mut worker(2), vmo));
    assert_eq!(s.send_away(&mut r), 0);
    assert_eq!(s.in_place(vmo), [(0, true)]);
    assert_eq!(s.read_page(&mut w, vmo, 0), text(0));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn without_memory_there_is_no_mark() {
    let s = system(2);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    (0..2).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    assert_placed_eq!(s.send_away(&mut r), 2);
    let other = s.create(2);
    (0..2).for_each(|page| s.write_page(&mut w, other, page, &noise(page)));
    let marked = s.vmos.mark_latency_sensitive(&s.machine, &mut w, vmo);
    assert_eq!(marked, Err(VmoError::NoMemory));
    assert_eq!(s.vmos.is_latency_sensitive(vmo), Ok(false));
    for vmo in [vmo, other] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}
