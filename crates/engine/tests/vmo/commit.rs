//! Committing and prefetching ranges.

use crate::kernel::*;
use coldpress_engine::Entry;
use coldpress_engine::vmo::VmoError;

#[test]
fn a_commit_fills_the_range() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(20);
    s.commit(&mut w, vmo, 5..9).unwrap();
    assert_placed_eq!(s.in_place(vmo), [5, 6, 7, 8].map(|page| (page, true)));
    assert_eq!(s.read_page(&mut w, vmo, 6), [0; 4096]);
    assert_placed_eq!(s.vmos.engine().queue_counts().generations[0], 4);
    s.commit(&mut w, vmo, 0..20).unwrap();
    assert_eq!(s.machine.pages_in_place(), 20);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_commit_brings_back_what_is_compressed_and_what_is_a_marker() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    s.write_page(&mut w, vmo, 0, &text(1));
    s.write_page(&mut w, vmo, 1, &[0; 4096]);
    s.write_page(&mut w, vmo, 2, &[3; 4096]);
    assert_placed_eq!(s.send_away(&mut reclaimer(1)), 3);
    s.commit(&mut w, vmo, 0..4).unwrap();
    assert_placed_eq!(s.in_place(vmo), [0, 1, 2, 3].map(|page| (page, true)));
    assert_eq!(s.read_page(&mut w, vmo, 0), text(1));
    assert_eq!(s.read_page(&mut w, vmo, 1), [0; 4096]);
    assert_eq!(s.read_page(&mut w, vmo, 2), [3; 4096]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_prefetch_brings_back_content_and_commits_no_zeros() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(8);
    s.write_page(&mut w, vmo, 1, &text(1));
    s.write_page(&mut w, vmo, 2, &[0; 4096]);
    s.write_page(&mut w, vmo, 5, &text(5));
    assert_placed_eq!(s.send_away(&mut reclaimer(1)), 3);
    s.vmos.prefetch(&s.machine, &mut w, vmo, 0..5).unwrap();
    assert_placed_eq!(s.in_place(vmo), [(1, true)]);
    assert_eq!(s.entry(vmo, 2), Entry::Zero);
    assert!(matches!(s.entry(vmo, 5), Entry::Compressed(_)));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_commit_without_frames_keeps_what_it_has_done() {
    let s = system(3);
    let mut w = worker(0);
    let vmo = s.create(8);
    assert_eq!(s.commit(&mut w, vmo, 0..8), Err(VmoError::NoMemory));
    assert_placed_eq!(s.in_place(vmo).len(), 3);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_commit_without_tables_is_refused() {
    let s = system(30);
    let mut w = worker(0);
    let vmo = s.create(8);
    s.machine
        .chunks
        .store(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(s.commit(&mut w, vmo, 0..8), Err(VmoError::NoMemory));
    assert_eq!(s.machine.pages_in_place(), 0);
    s.machine
        .chunks
        .store(100, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(s.commit(&mut w, vmo, 0..8), Ok(()));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
