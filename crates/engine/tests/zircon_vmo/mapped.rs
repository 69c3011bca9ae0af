//! VMOs in address spaces.

use super::kit::*;
use super::space::*;
use crate::kernel::*;
use coldpress_engine::Trigger;
use coldpress_engine::vmo::Hint;
use std::sync::atomic::Ordering::Relaxed;

const PAGES: u64 = 16;

/// A byte for each page, so that no page passes for another.
fn pattern(page: u64) -> u8 {
    (page * 7 + 3) as u8
}

fn write_pattern(space: &Space, w: &mut TestWorker, base: u64) {
    (0..PAGES).for_each(|page| space.write(w, base + page, 99, pattern(page)));
}

fn check_pattern(space: &Space, w: &mut TestWorker, base: u64, from: u64) {
    for page in from..PAGES {
        assert_eq!(space.read(w, base + page - from, 99), pattern(page));
    }
}

#[test]
fn vmo_precommitted_map_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(PAGES));
    s.commit(&mut w, vmo.id, 0..PAGES).unwrap();
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..PAGES);
    assert_placed_eq!(space.show_in_place(1000..1000 + PAGES), PAGES);
    // From here on nothing faults: the machine alone answers.
    for page in 1000..1000 + PAGES {
        assert_placed!(space.shown(page).is_some_and(|shown| shown.writable));
    }
    write_pattern(&space, &mut w, 1000);
    check_pattern(&space, &mut w, 1000, 0);
    assert_eq!(s.read_page(&mut w, vmo.id, 5)[99], pattern(5));
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmo_demand_paged_map_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(PAGES));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..PAGES);
    assert!(s.vmos.prepare_for(&s.machine, 1, 1, PAGES as u32));
    // No system call commits anything, and no fault asks for tables.
    s.machine.armed.store(true, Relaxed);
    for page in 0..PAGES {
        assert_eq!(space.shown(1000 + page), None);
        space.write(&mut w, 1000 + page, 99, pattern(page));
        assert_eq!(s.machine.pages_in_place() as u64, page + 1);
    }
    s.machine.armed.store(false, Relaxed);
    check_pattern(&space, &mut w, 1000, 0);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

/// Handles and mappings are the test's: whoever owns VMOs ends them when nothing refers to them.
#[test]
fn a_vmo_lives_as_long_as_its_mapping() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(PAGES));
    let id = vmo.id;
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..PAGES);
    write_pattern(&space, &mut w, 1000);
    drop(vmo);
    assert_eq!(s.vmos.pages(id), Ok(PAGES), "the mapping keeps it");
    check_pattern(&space, &mut w, 1000, 0);
    space.unmap(1000..1000 + PAGES);
    assert!(s.vmos.pages(id).is_err());
    s.assert_nothing_is_held();
}

#[test]
fn vmo_remap_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = handle(s, s.create(PAGES));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..PAGES);
    write_pattern(&space, &mut w, 1000);
    space.unmap(1000..1000 + PAGES);
    let touched = space.touch(&mut w, 1000, 99, None);
    assert_eq!(touched, Err(Violation::NotMapped));
    // Also if it was away meanwhile.
    all_away(s, &mut r);
    space.map(5000, &vmo, 0..PAGES);
    check_pattern(&space, &mut w, 5000, 0);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmo_double_remap_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = handle(s, s.create(PAGES));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..PAGES);
    space.map(2000, &vmo, 0..PAGES);
    space.map(3000, &vmo, 4..PAGES);
    write_pattern(&space, &mut w, 1000);
    for _ in 0..2 {
        check_pattern(&space, &mut w, 2000, 0);
        check_pattern(&space, &mut w, 3000, 4);
        all_away(s, &mut r);
        for page in [1000, 2000, 3000] {
            assert_eq!(space.shown(page), None, "gone from all of them");
        }
    }
    // What is written through one is read through the others.
    space.write(&mut w, 3000, 5, 42);
    assert_eq!(space.read(&mut w, 1004, 5), 42);
    assert_eq!(space.read(&mut w, 2004, 5), 42);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmo_clone_removes_write_test() {
    if not_under_random_compression("what is mapped must stay mapped") {
        return;
    }
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(2));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..2);
    space.write(&mut w, 1000, 1, 1);
    let before = space.shown(1000).unwrap();
    assert!(before.writable);
    let child = snapshot(s, vmo.id);
    let shown = space.shown(1000).expect("still shown");
    assert!(!shown.writable, "but not to be written");
    assert_eq!(shown.place, before.place, "still that page");
    assert_eq!(s.machine.pages_in_place(), 1);
    space.write(&mut w, 1000, 1, 2);
    assert_eq!(s.machine.pages_in_place(), 2);
    assert_eq!(s.read_page(&mut w, child, 0)[1], 1);
    assert_eq!(s.read_page(&mut w, vmo.id, 0)[1], 2);
    s.destroy(child);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

/// Pages of a parent go, range by range: a child's mappings of them go with them, and those of what the
/// child has itself stay, wherever in the range they lie.
#[test]
fn vmo_skip_range_update_test() {
    if not_under_random_compression("what is mapped must stay mapped") {
        return;
    }
    const FORKED: [u64; 6] = [4, 5, 6, 10, 11, 12];
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = handle(s, s.create(PAGES));
    fill(s, &mut w, vmo.id, 0..PAGES, 1);
    let child = handle(s, snapshot(s, vmo.id));
    let mut space = Space::new(s);
    space.map(1000, &child, 0..PAGES);
    for page in FORKED {
        space.write(&mut w, 1000 + page, 0, 9);
    }
    for range in [
        // Not covered by the child; covered by it; in part, at either end; around a gap; across all.
        0..1,
        4..5,
        4..7,
        6..7,
        3..5,
        6..8,
        4..13,
        3..13,
        4..14,
        3..14,
    ] {
        (0..PAGES).for_each(|page| _ = space.read(&mut w, 1000 + page, 0));
        assert!((0..PAGES).all(|page| space.shown(1000 + page).is_some()));
        // The parent's pages of the range are compressed: those that both see, and those that the
        // child has instead.
        let before = s.machine.pages_in_place();
        for page in range.clone() {
            s.read_page(&mut w, vmo.id, page);
        }
        // The first time it is found that they were touched a moment ago.
        let mut gone = 0;
        for _ in 0..2 {
            s.vmos.hint(vmo.id, range.clone(), Hint::DontNeed).unwrap();
            let (engine, why) = (s.vmos.engine(), Trigger::Pressure);
            let batch = engine.reclaim_batch(&s.machine, &mut r, 64, u64::MAX, why);
            gone += u64::from(batch.kept);
        }
        assert_eq!(gone, range.end - range.start, "{range:?}");
        assert!(s.machine.pages_in_place() <= before);
        assert!(range.clone().all(|page| place(s, vmo.id, page).is_none()));
        for page in 0..PAGES {
            let gone = range.contains(&page) && !FORKED.contains(&page);
            let shown = space.shown(1000 + page);
            assert_eq!(shown.is_none(), gone, "page {page} of {range:?}");
        }
    }
    for page in 0..PAGES {
        let byte = if FORKED.contains(&page) {
            9
        } else {
            text(1 + page)[0]
        };
        assert_eq!(space.read(&mut w, 1000 + page, 0), byte);
    }
    assert_filled(s, &mut w, vmo.id, 0..PAGES, 1);
    // And where the parent forgets all of it, its own mappings alone go.
    space.map(2000, &vmo, 0..PAGES);
    (0..PAGES).for_each(|page| _ = space.read(&mut w, 2000 + page, 0));
    let before = (0..PAGES).map(|page| space.shown(1000 + page));
    let before: Vec<_> = before.collect();
    s.zero(vmo.id, 0..PAGES).unwrap();
    for page in 0..PAGES {
        assert_eq!(space.shown(2000 + page), None);
        if FORKED.contains(&page) {
            assert_eq!(space.shown(1000 + page), before[page as usize]);
        }
        assert_eq!(space.read(&mut w, 2000 + page, 0), 0);
    }
    drop((child, vmo, space));
    s.assert_nothing_is_held();
}
