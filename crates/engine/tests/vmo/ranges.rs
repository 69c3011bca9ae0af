//! Zeroing, decommitting, resizing.

use crate::kernel::*;
use coldpress_engine::Entry;

/// A VMO whose first pages are in place, the next away, with something of every kind.
fn filled(s: &System, w: &mut TestWorker) -> coldpress_engine::vmo::VmoId {
    let vmo = s.create(1000);
    for page in 100..130 {
        s.write_page(w, vmo, page, &text(page));
    }
    s.write_page(w, vmo, 130, &[0; 4096]);
    s.write_page(w, vmo, 131, &[5; 4096]);
    s.send_away(&mut reclaimer(9));
    for page in 70..100 {
        s.write_page(w, vmo, page, &noise(page));
    }
    vmo
}

fn expected(page: u64) -> [u8; 4096] {
    match page {
        70..100 => noise(page),
        100..130 => text(page),
        130 => [0; 4096],
        131 => [5; 4096],
        _ => [0; 4096],
    }
}

#[test]
fn a_zeroed_range_is_zeros_and_nothing_else_is() {
    let s = system(200);
    let mut w = worker(0);
    for (from, end) in [
        (0, 1000),
        (80, 110),
        (99, 101),
        (100, 100),
        (128, 132),
        (0, 70),
    ] {
        let vmo = filled(s, &mut w);
        s.zero(vmo, from..end).unwrap();
        for page in (0..200).chain([999]) {
            let zeroed = (from..end).contains(&page);
            let content = if zeroed { [0; 4096] } else { expected(page) };
            assert_eq!(s.read_page(&mut w, vmo, page), content, "page {page}");
            if zeroed {
                assert_eq!(s.entry(vmo, page), Entry::Empty, "page {page}");
            }
        }
        s.destroy(vmo);
        s.assert_nothing_is_held();
    }
}

#[test]
fn decommitted_pages_are_given_back() {
    let s = system(200);
    let mut w = worker(0);
    let vmo = filled(s, &mut w);
    s.decommit(vmo, 72..131).unwrap();
    assert_eq!(s.machine.pages_in_place(), 2);
    assert_eq!(s.vmos.engine().storage_usage().objects, 0);
    s.decommit(vmo, 0..1000).unwrap();
    assert_eq!(s.machine.pages_in_place(), 0);
    assert_eq!(s.vmos.tables_in_use(), (1, 0, 0), "nor are tables kept");
    s.write_page(&mut w, vmo, 72, &text(4));
    assert_eq!(s.read_page(&mut w, vmo, 72), text(4));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn what_was_beyond_the_end_is_forgotten() {
    let s = system(200);
    let mut w = worker(0);
    let vmo = filled(s, &mut w);
    s.resize(vmo, 110).unwrap();
    assert_eq!(s.vmos.pages(vmo), Ok(110));
    let out = Err(coldpress_engine::vmo::VmoError::OutOfRange);
    assert_eq!(
        s.vmos.read(&s.machine, &mut w, vmo, 110 * PAGE, &mut [0]),
        out
    );
    assert_eq!(s.vmos.engine().storage_usage().objects, 10);
    s.resize(vmo, 2000).unwrap();
    for page in 60..140 {
        let content = if page < 110 {
            expected(page)
        } else {
            [0; 4096]
        };
        assert_eq!(s.read_page(&mut w, vmo, page), content, "page {page}");
    }
    s.resize(vmo, 0).unwrap();
    assert_eq!(s.vmos.tables_in_use(), (1, 0, 0));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
