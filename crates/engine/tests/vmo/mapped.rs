//! Touches through mappings.

use crate::kernel::*;
use coldpress_engine::Access;
use coldpress_engine::vmo::VmoError;
use std::sync::atomic::Ordering::Relaxed;

#[test]
fn a_mapping_is_filled_by_its_faults() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    assert!(s.vmos.prepare_for(&s.machine, 1, 1, 16));
    s.machine.armed.store(true, Relaxed);
    for page in 0..16 {
        let byte = page as u8 + 1;
        s.touch(&mut w, (1, page), (vmo, page), 5, Some(byte));
    }
    s.machine.armed.store(false, Relaxed);
    for page in 0..16 {
        assert_eq!(
            s.touch(&mut w, (1, page), (vmo, page), 5, None),
            page as u8 + 1
        );
        // Another mapping, at an offset, shows the same.
        let elsewhere = (2, 100 + page);
        assert_eq!(
            s.touch(&mut w, elsewhere, (vmo, page), 5, None),
            page as u8 + 1
        );
    }
    s.destroy(vmo);
    assert_eq!(s.machine.mapped((1, 3)), None);
    s.assert_nothing_is_held();
}

#[test]
fn a_fault_asks_for_no_tables() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    s.machine.armed.store(true, Relaxed);
    let fault = s
        .vmos
        .fault(&s.machine, &mut w, vmo, 0, Access::Write, |_, _| panic!());
    assert_eq!(fault, Err(VmoError::NoMemory));
    let fault = s
        .vmos
        .fault(&s.machine, &mut w, vmo, 16, Access::Write, |_, _| panic!());
    assert_eq!(fault, Err(VmoError::OutOfRange));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn no_fault_asks_for_memory_for_tables_whatever_it_finds() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(6);
    (0..3).for_each(|page| s.write_page(&mut w, vmo, page, &text(page)));
    s.write_page(&mut w, vmo, 3, &[0; 4096]);
    s.write_page(&mut w, vmo, 4, &[4; 4096]);
    let child = s.vmos.snapshot(&s.machine, vmo, 0..6).unwrap();
    assert_placed_eq!(s.send_away(&mut r), 5);
    assert!(s.vmos.prepare_for(&s.machine, 2, 2, 20));
    s.machine.armed.store(true, Relaxed);
    // Compressed and shared, the last viewer's, markers, nothing; copies and moves.
    for (address, vmo) in [(1, vmo), (2, child)] {
        for page in 0..6 {
            let before = s.touch(&mut w, (address, page), (vmo, page), 9, None);
            let expected = [text(0)[9], text(1)[9], text(2)[9], 0, 4, 0];
            assert_eq!(before, expected[page as usize]);
            s.touch(&mut w, (address, page), (vmo, page), 9, Some(200));
        }
    }
    assert_eq!(s.send_away(&mut r), 12);
    assert_eq!(s.touch(&mut w, (1, 0), (vmo, 0), 9, None), 200);
    s.destroy(child);
    s.vmos.check_invariants();
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn a_page_that_goes_away_faults_and_comes_back() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(16);
    s.commit(&mut w, vmo, 0..16).unwrap();
    s.touch(&mut w, (1, 3), (vmo, 3), 77, Some(4));
    assert_placed_eq!(s.send_away(&mut r), 16);
    assert_eq!(s.machine.mapped((1, 3)), None);
    assert_eq!(s.touch(&mut w, (1, 3), (vmo, 3), 77, None), 4);
    assert_eq!(s.touch(&mut w, (1, 3), (vmo, 3), 77, Some(5)), 5);
    assert_eq!(s.read_page(&mut w, vmo, 3)[77], 5);
    s.zero(vmo, 0..16).unwrap();
    assert_eq!(s.touch(&mut w, (1, 3), (vmo, 3), 77, None), 0);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

#[test]
fn pages_that_are_used_stay() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(4);
    s.write_page(&mut w, vmo, 0, &text(0));
    s.write_page(&mut w, vmo, 1, &text(1));
    (0..9).for_each(|_| s.vmos.engine().rotate(&s.machine));
    s.read_page(&mut w, vmo, 1);
    let trigger = coldpress_engine::Trigger::Critical;
    let engine = s.vmos.engine();
    let batch = engine.reclaim_batch(&s.machine, &mut r, 4, u64::MAX, trigger);
    assert_placed_eq!(batch.kept, 1);
    assert_placed_eq!(s.in_place(vmo), [(1, true)]);
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
