//! Whose memory it is.

use crate::kernel::*;
use coldpress_engine::vmo::{Attribution, Shares, Usage, VmoError, VmoId};

fn usage(committed_pages: u64, content_pages: u64) -> Usage {
    Usage {
        committed_pages,
        content_pages,
    }
}

/// Pages, as bytes.
fn shares(private: u64, shared: u64, scaled_bytes: u64) -> Shares {
    Shares {
        private_bytes: private * PAGE,
        shared_bytes: shared * PAGE,
        scaled_bytes,
    }
}

fn of(s: &System, vmo: VmoId) -> Attribution {
    let pages = s.vmos.pages(vmo).unwrap();
    s.vmos.attribution(vmo, 0..pages).unwrap()
}

#[test]
fn what_operations_change() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    assert_eq!(s.vmos.usage(vmo), Ok(usage(0, 0)));
    s.read_page(&mut w, vmo, 0);
    assert_eq!(s.vmos.usage(vmo), Ok(usage(0, 0)), "a read commits nothing");
    s.commit(&mut w, vmo, 0..4).unwrap();
    s.write_page(&mut w, vmo, 4, &text(4));
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(5, 5)));
    assert_placed_eq!(s.send_away(&mut r), 5);
    // Zeros are found by compression: four pages are no content any more.
    assert_eq!(s.vmos.usage(vmo), Ok(usage(0, 1)));
    assert_eq!(of(s, vmo).committed, shares(0, 0, 0));
    assert_eq!(of(s, vmo).content, shares(1, 0, PAGE));
    s.commit(&mut w, vmo, 0..5).unwrap();
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(5, 5)));
    s.decommit(vmo, 0..2).unwrap();
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(3, 3)));
    s.zero(vmo, 2..3).unwrap();
    s.resize(vmo, 4).unwrap();
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(1, 1)));
    let part = s.vmos.attribution(vmo, 0..3).unwrap();
    assert_eq!(part, Attribution::default());
    let part = s.vmos.attribution(vmo, 3..4).unwrap();
    assert_placed_eq!(part.committed, shares(1, 0, PAGE));
    let out = s.vmos.attribution(vmo, 3..5);
    assert_eq!(out, Err(VmoError::OutOfRange));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn snapshots_share_private_and_scaled_bytes() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(6);
    (0..6).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    let whole = s.vmos.snapshot(&s.machine, vmo, 0..6).unwrap();
    assert_placed_eq!(of(s, vmo).committed, shares(0, 6, 3 * PAGE));
    assert_eq!(of(s, whole), of(s, vmo));
    let part = s.vmos.snapshot(&s.machine, vmo, 0..2).unwrap();
    let scaled = 2 * PAGE + 2 * PAGE / 3;
    assert_placed_eq!(of(s, vmo).committed, shares(0, 6, scaled));
    assert_placed_eq!(of(s, part).committed, shares(0, 2, 2 * PAGE / 3));
    s.write_page(&mut w, vmo, 0, &text(10));
    s.write_page(&mut w, vmo, 5, &text(15));
    let of_vmo = of(s, vmo).committed;
    assert_placed_eq!(of_vmo, shares(2, 4, 2 * PAGE + PAGE / 3 + 3 * PAGE / 2));
    let of_whole = of(s, whole).committed;
    assert_placed_eq!(
        of_whole,
        shares(1, 5, PAGE + PAGE / 2 + PAGE / 3 + 3 * PAGE / 2)
    );
    let sum = [vmo, whole, part].map(|vmo| of(s, vmo).committed.scaled_bytes);
    let sum: u64 = sum.iter().sum();
    assert_placed!(
        (8 * PAGE - 3..=8 * PAGE).contains(&sum),
        "{sum} of all bytes"
    );
    s.destroy(whole);
    s.destroy(part);
    assert_placed_eq!(of(s, vmo).committed, shares(6, 0, 6 * PAGE));
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(6, 6)));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_is_compressed_stays_content_of_all_who_see_it() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    (0..2).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    let child = s.vmos.snapshot(&s.machine, vmo, 0..2).unwrap();
    assert_placed_eq!(s.send_away(&mut r), 2);
    for vmo in [vmo, child] {
        assert_eq!(of(s, vmo).committed, shares(0, 0, 0));
        assert_eq!(of(s, vmo).content, shares(0, 2, PAGE));
    }
    s.read_page(&mut w, child, 0);
    for vmo in [vmo, child] {
        assert_placed_eq!(of(s, vmo).committed, shares(0, 1, PAGE / 2));
        assert_eq!(of(s, vmo).content, shares(0, 2, PAGE));
    }
    for vmo in [vmo, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}

#[test]
fn peaks_are_the_highest_since_they_were_read() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(10);
    (0..5).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    assert_placed_eq!(s.send_away(&mut r), 5);
    s.zero(vmo, 0..2).unwrap();
    assert_placed_eq!(s.vmos.peak(vmo), Ok(usage(5, 5)));
    assert_eq!(s.vmos.peak(vmo), Ok(usage(0, 3)));
    s.commit(&mut w, vmo, 8..10).unwrap();
    s.zero(vmo, 8..10).unwrap();
    assert_eq!(s.vmos.peak(vmo), Ok(usage(2, 5)));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_page_that_its_last_viewer_takes_is_counted_there() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let child = s.vmos.snapshot(&s.machine, vmo, 0..1).unwrap();
    assert_eq!(
        s.vmos.usage(vmo),
        Ok(usage(0, 0)),
        "the hidden node holds it"
    );
    s.write_page(&mut w, child, 0, &text(2));
    assert_placed_eq!(s.vmos.usage(child), Ok(usage(1, 1)));
    assert_placed_eq!(of(s, vmo).committed, shares(1, 0, PAGE));
    s.write_page(&mut w, vmo, 0, &text(3));
    assert_placed_eq!(s.vmos.usage(vmo), Ok(usage(1, 1)));
    s.vmos.check_invariants();
    for vmo in [vmo, child] {
        s.destroy(vmo);
    }
    s.assert_nothing_is_held();
}
