//! Committing and prefetching.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::queues::standing::Standing;
use coldpress_engine::vmo::VmoError;

#[test]
fn vmo_commit_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    s.commit(&mut w, vmo, 0..16).unwrap();
    assert_placed_eq!(
        s.in_place(vmo),
        Vec::from_iter((0..16).map(|page| (page, true)))
    );
    assert_placed_eq!(s.machine.pages_in_place(), 16);
    assert_placed_eq!(committed(s, vmo), pages(16, 0, 16 * PAGE));
    for page in 0..16 {
        assert_placed_eq!(
            standing(s, vmo, page),
            Standing::Generation(0),
            "as anonymous memory"
        );
    }
    assert_eq!(s.commit(&mut w, vmo, 8..17), Err(VmoError::OutOfRange));
    end(s, &[vmo]);
}

#[test]
fn vmo_commit_compressed_pages_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(6);
    fill(s, &mut w, vmo, 0..3, 50);
    s.commit(&mut w, vmo, 3..5).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(5, 0, 5 * PAGE));
    assert_placed_eq!(s.send_away(&mut r), 5);
    assert_eq!(forms(s, vmo), "CCC00-");
    assert_eq!(committed(s, vmo), pages(0, 0, 0));
    assert_eq!(content(s, vmo), pages(3, 0, 3 * PAGE), "two were zeros");
    assert_eq!(s.machine.pages_in_place(), 0);
    s.commit(&mut w, vmo, 0..5).unwrap();
    assert_placed_eq!(forms(s, vmo), "PPPPP-");
    assert_eq!(decompressed(s), 3);
    assert_placed_eq!(committed(s, vmo), pages(5, 0, 5 * PAGE));
    for page in 0..5 {
        assert_placed_eq!(standing(s, vmo, page), Standing::Generation(0));
    }
    let usage = s.vmos.engine().storage_usage();
    assert_placed_eq!((usage.objects, s.machine.storage.lent()), (0, 0));
    assert_filled(s, &mut w, vmo, 0..3, 50);
    for page in 3..5 {
        assert_eq!(s.read_page(&mut w, vmo, page), [0; 4096]);
    }
    end(s, &[vmo]);
}

#[test]
fn vmo_prefetch_compressed_pages_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(8);
    fill(s, &mut w, vmo, 0..6, 1);
    assert_placed_eq!(s.send_away(&mut r), 6);
    assert_eq!(committed(s, vmo), pages(0, 0, 0));
    s.vmos.prefetch(&s.machine, &mut w, vmo, 2..5).unwrap();
    assert_placed_eq!(forms(s, vmo), "CCPPPC--");
    assert_placed_eq!(committed(s, vmo), pages(3, 0, 3 * PAGE));
    assert_eq!(content(s, vmo), pages(6, 0, 6 * PAGE));
    assert_eq!(decompressed(s), 3);
    // What is there already costs nothing, and what is nowhere is not committed.
    s.vmos.prefetch(&s.machine, &mut w, vmo, 2..5).unwrap();
    s.vmos.prefetch(&s.machine, &mut w, vmo, 6..8).unwrap();
    assert_placed_eq!((forms(s, vmo).as_str(), decompressed(s)), ("CCPPPC--", 3));
    s.vmos.prefetch(&s.machine, &mut w, vmo, 0..8).unwrap();
    assert_placed_eq!((forms(s, vmo).as_str(), decompressed(s)), ("PPPPPP--", 6));
    assert_filled(s, &mut w, vmo, 0..6, 1);
    let beyond = s.vmos.prefetch(&s.machine, &mut w, vmo, 0..9);
    assert_eq!(beyond, Err(VmoError::OutOfRange));
    end(s, &[vmo]);
}
