//! Looking pages up without changing anything.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::vmo::VmoError;

#[test]
fn vmo_lookup_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    assert_eq!(s.in_place(vmo), []);
    s.commit(&mut w, vmo, 1..4).unwrap();
    s.commit(&mut w, vmo, 9..10).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(4, 0, 4 * PAGE));
    let there = [1, 2, 3, 9].map(|page| (page, true));
    assert_placed_eq!(s.in_place(vmo), there, "what is committed, in order");
    let mut part = Vec::new();
    s.vmos
        .lookup(vmo, 2..9, |page, _, _| part.push(page))
        .unwrap();
    assert_placed_eq!(part, [2, 3]);
    let beyond = s.vmos.lookup(vmo, 2..17, |_, _, _| panic!("out of range"));
    assert_eq!(beyond, Err(VmoError::OutOfRange));
    assert_placed_eq!(s.machine.pages_in_place(), 4, "looking commits nothing");
    for (range, seen) in [(0..1, 0), (0..2, 1), (1..2, 1), (4..9, 0)] {
        let mut found = 0;
        s.vmos.lookup(vmo, range, |_, _, _| found += 1).unwrap();
        assert_placed_eq!(found, seen);
    }
    s.commit(&mut w, vmo, 0..16).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(16, 0, 16 * PAGE));
    assert_placed_eq!(s.in_place(vmo).len(), 16);
    end(s, &[vmo]);
}

#[test]
fn vmo_lookup_clone_test() {
    if not_under_random_compression("it says where pages are") {
        return;
    }
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    s.commit(&mut w, vmo, 0..4).unwrap();
    let child = snapshot(s, vmo);
    let all = |own: [bool; 4]| Vec::from_iter((0..4).zip(own));
    assert_placed_eq!(
        s.in_place(vmo),
        all([false; 4]),
        "nobody owns what is shared"
    );
    assert_placed_eq!(s.in_place(child), all([false; 4]));
    s.write_page(&mut w, vmo, 1, &text(1));
    s.write_page(&mut w, child, 2, &text(2));
    assert_placed_eq!(s.in_place(vmo), all([false, true, false, false]));
    assert_placed_eq!(s.in_place(child), all([false, false, true, false]));
    assert_ne!(place(s, vmo, 1), place(s, child, 1));
    assert_eq!(place(s, vmo, 0), place(s, child, 0), "one page");
    // What is committed to a snapshot is its own.
    s.commit(&mut w, child, 0..1).unwrap();
    s.commit(&mut w, child, 3..4).unwrap();
    assert_placed_eq!(s.in_place(child), all([true, false, true, true]));
    assert_ne!(place(s, vmo, 0), place(s, child, 0));
    end(s, &[vmo, child]);
}

/// A look finds nothing where content is away, and leaves it there.
#[test]
fn vmo_lookup_compressed_pages_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    assert_placed_eq!(s.send_away(&mut r), 2);
    assert_eq!(s.in_place(vmo), []);
    assert_eq!((forms(s, vmo).as_str(), decompressed(s)), ("CC", 0));
    // Who accesses the pages, by reading or writing, has them.
    assert_eq!(s.touch(&mut w, (1, 0), (vmo, 0), 8, None), text(1)[8]);
    assert_placed_eq!((forms(s, vmo).as_str(), decompressed(s)), ("PC", 1));
    assert_eq!(s.touch(&mut w, (1, 1), (vmo, 1), 8, Some(77)), 77);
    assert_placed_eq!((forms(s, vmo).as_str(), decompressed(s)), ("PP", 2));
    assert_eq!(s.read_page(&mut w, vmo, 0), text(1));
    assert_eq!(s.read_page(&mut w, vmo, 1)[8], 77);
    assert_eq!(s.read_page(&mut w, vmo, 1)[9..], text(2)[9..]);
    end(s, &[vmo]);
}

#[test]
fn vmo_write_does_not_commit_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let child = snapshot(s, vmo);
    // To look is not to touch, whatever is to be done with what is found.
    assert_placed_eq!(s.in_place(child), [(0, false)]);
    assert_placed_eq!(place(s, child, 0), place(s, vmo, 0));
    assert_placed_eq!(s.machine.pages_in_place(), 1);
    s.touch(&mut w, (1, 0), (child, 0), 0, Some(1));
    assert_placed_eq!(s.in_place(child), [(0, true)]);
    assert_placed_eq!(s.machine.pages_in_place(), 2);
    end(s, &[vmo, child]);
}

/// Rust only.
#[test]
fn vmo_lookup_readable_simple_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(5);
    s.commit(&mut w, vmo, 0..5).unwrap();
    let mut seen = Vec::new();
    s.vmos
        .lookup(vmo, 0..5, |page, place, _| seen.push((page, place)))
        .unwrap();
    assert_placed_eq!(
        Vec::from_iter(seen.iter().map(|&(page, _)| page)),
        [0, 1, 2, 3, 4]
    );
    seen.dedup_by_key(|&mut (_, place)| place);
    assert_placed_eq!(seen.len(), 5, "each a page of its own");
    end(s, &[vmo]);
}

/// Rust only.
#[test]
fn vmo_lookup_readable_clone_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(6);
    fill(s, &mut w, vmo, 0..4, 1);
    let child = snapshot(s, vmo);
    fill(s, &mut w, child, 3..5, 100);
    let pages = [(0, false), (1, false), (2, false), (3, true), (4, true)];
    assert_placed_eq!(s.in_place(child), pages, "its parent's and its own");
    assert_filled(s, &mut w, child, 0..3, 1);
    assert_filled(s, &mut w, child, 3..5, 100);
    end(s, &[vmo, child]);
}

/// Rust only.
#[test]
fn vmo_get_page_offset_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    for page in (0..16).rev() {
        assert_eq!(place(s, vmo, page), None);
        s.touch(&mut w, (1, page), (vmo, page), 0, Some(page as u8));
        assert!(place(s, vmo, page).is_some());
        assert_placed_eq!(s.machine.pages_in_place() as u64, 16 - page);
    }
    for page in 0..16 {
        assert_eq!(s.read_page(&mut w, vmo, page)[0], page as u8);
    }
    end(s, &[vmo]);
}
