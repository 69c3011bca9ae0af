//! Promise: VMOs under mappings behave as the cases of Zircon's address space tests ask (suite `aspace`),
//! each written anew. Mappings are the machine's business: an address space of the tests has them, as
//! ranges of VMOs (`zircon_vmo/space.rs`). `vmaspace_accessed_test_untagged` is in `zircon_queues.rs`.

use crate::kernel::*;
use crate::zircon_vmo::kit::*;
use crate::zircon_vmo::space::*;
use coldpress_engine::Access;
use coldpress_engine::harvest::Harvest;
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::{MAX_PAGES, Shares};
use std::sync::atomic::Ordering::Relaxed;

fn is_marked(s: &System, vmo: &Handle) -> bool {
    s.vmos.check_invariants();
    s.vmos.is_latency_sensitive(vmo.id).unwrap()
}

fn stands_high(s: &System, vmo: &Handle, page: u64) -> bool {
    standing(s, vmo.id, page) == Standing::In(Queue::HighPriority)
}

/// A VMO of pages that are in place.
fn filled(s: &'static System, w: &mut TestWorker, pages: u64) -> Handle {
    let vmo = handle(s, s.create(pages));
    s.commit(w, vmo.id, 0..pages).unwrap();
    vmo
}

#[test]
fn vmaspace_priority_propagation_test() {
    let s = system(100);
    let mut w = worker(0);
    let [before, after, below] = [(); 3].map(|()| filled(s, &mut w, 2));
    let mut space = Space::new(s);
    let region = space.add_region();
    space.map(1000, &before, 0..2);
    assert!(!is_marked(s, &before));
    space.set_latency_sensitive(true);
    assert_placed!(is_marked(s, &before) && stands_high(s, &before, 0));
    // What is mapped later, also in a region that was there or that is made now.
    space.map(2000, &after, 0..2);
    space.regions[region].map(1, &below, 0..1);
    assert!(is_marked(s, &after) && is_marked(s, &below));
    let new = space.add_region();
    let deep = space.regions[new].add_region();
    space.regions[new].regions[deep].map(1, &below, 1..2);
    space.regions.remove(region);
    assert!(is_marked(s, &below), "the other mapping still has it");
    space.regions.clear();
    assert!(!is_marked(s, &below));
    assert_placed_eq!(standing(s, below.id, 0), Standing::Generation(0));
    space.set_latency_sensitive(false);
    for vmo in [&before, &after] {
        assert!(!is_marked(s, vmo) && !stands_high(s, vmo, 1));
    }
    drop((before, after, below, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmaspace_priority_unmap_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = filled(s, &mut w, 8);
    let mut space = Space::new(s);
    space.set_latency_sensitive(true);
    space.map(1000, &vmo, 0..8);
    // From its middle, its beginning, its end: the VMO is marked while anything of it is mapped.
    for range in [1003..1005, 1000..1001, 1007..1008, 1005..1007, 1001..1002] {
        space.unmap(range);
        assert!(is_marked(s, &vmo));
        assert_placed!(
            (0..8).all(|page| stands_high(s, &vmo, page)),
            "whole VMOs are"
        );
    }
    space.unmap(1002..1003);
    assert!(!is_marked(s, &vmo));
    assert!(!(0..8).any(|page| stands_high(s, &vmo, page)));
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmaspace_priority_mapping_overwrite_test() {
    let s = system(100);
    let mut w = worker(0);
    let [old, new] = [(); 2].map(|()| filled(s, &mut w, 2));
    let mut space = Space::new(s);
    space.set_latency_sensitive(true);
    space.map(1000, &old, 0..2);
    assert!(is_marked(s, &old) && !is_marked(s, &new));
    space.map(1000, &new, 0..1);
    assert!(is_marked(s, &old) && is_marked(s, &new), "half of it");
    space.map(1000, &new, 0..2);
    assert!(!is_marked(s, &old) && is_marked(s, &new));
    assert_placed!(!stands_high(s, &old, 0) && stands_high(s, &new, 0));
    drop((old, new, space));
    s.assert_nothing_is_held();
}

#[test]
fn vmaspace_priority_bidir_clone_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = filled(s, &mut w, 3);
    let child = handle(s, snapshot(s, vmo.id));
    s.write_page(&mut w, vmo.id, 0, &text(1));
    s.write_page(&mut w, child.id, 1, &text(2));
    let mut space = Space::new(s);
    for (sensitive, other, own) in [(&vmo, &child, 0), (&child, &vmo, 1)] {
        space.map(1000, sensitive, 0..3);
        assert!(!is_marked(s, sensitive));
        space.set_latency_sensitive(true);
        assert!(is_marked(s, sensitive) && !is_marked(s, other));
        assert!(stands_high(s, sensitive, own), "its own page");
        assert_placed!(stands_high(s, sensitive, 2), "and one that it sees");
        assert!(
            !stands_high(s, other, 1 - own),
            "but none that it does not see"
        );
        // A snapshot taken now is not marked, and neither is it when it has a page of its own.
        let late = handle(s, snapshot(s, sensitive.id));
        s.write_page(&mut w, late.id, 2, &text(3));
        assert!(!is_marked(s, &late) && !stands_high(s, &late, 2));
        drop(late);
        space.set_latency_sensitive(false);
        assert!(!is_marked(s, sensitive) && !stands_high(s, sensitive, 2));
    }
    // Both at a time, and one goes.
    space.set_latency_sensitive(true);
    space.map(2000, &vmo, 0..3);
    assert!(is_marked(s, &vmo) && is_marked(s, &child));
    space.unmap(1000..1003);
    assert!(is_marked(s, &vmo) && !is_marked(s, &child));
    assert_placed!(stands_high(s, &child, 2), "the other still sees it");
    drop((vmo, child, space));
    s.assert_nothing_is_held();
}

/// Bytes of the mappings here and in the regions below: committed, content.
fn bytes(s: &System, space: &Space) -> (u64, u64) {
    let own = space.mappings.iter().map(|mapping| {
        let seen = s.vmos.attribution(mapping.vmo.id, mapping.range()).unwrap();
        let all = |shares: Shares| shares.private_bytes + shares.shared_bytes;
        (all(seen.committed), all(seen.content))
    });
    let below = space.regions.iter().map(|region| bytes(s, region));
    own.chain(below)
        .fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
}

fn page_counts(s: &System, space: &Space) -> (u64, u64) {
    let (committed, content) = bytes(s, space);
    assert_eq!((committed % PAGE, content % PAGE), (0, 0));
    (committed / PAGE, content / PAGE)
}

#[test]
fn vmaspace_nested_attribution_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let mut space = Space::new(s);
    let middle = space.add_region();
    let deep = space.regions[middle].add_region();
    let vmo = handle(s, s.create(8));
    space.regions[middle].regions[deep].map(1000, &vmo, 0..4);
    let levels = |space: &Space| {
        let region = &space.regions[middle];
        [space, region, &region.regions[deep]].map(|space| page_counts(s, space))
    };
    assert_eq!(levels(&space), [(0, 0); 3]);
    fill(s, &mut w, vmo.id, 0..8, 1);
    assert_placed_eq!(levels(&space), [(4, 4); 3], "seen in everything around it");
    let other = handle(s, s.create(2));
    s.write_page(&mut w, other.id, 1, &text(9));
    space.regions[middle].map(5000, &other, 0..2);
    assert_placed_eq!(levels(&space), [(5, 5), (5, 5), (4, 4)]);
    all_away(s, &mut r);
    assert_eq!(levels(&space), [(0, 5), (0, 5), (0, 4)]);
    space.regions[middle].regions[deep].read(&mut w, 1001, 0);
    assert_placed_eq!(levels(&space), [(1, 5), (1, 5), (1, 4)]);
    space.regions[middle].regions[deep].unmap(1000..1002);
    assert_eq!(levels(&space), [(0, 3), (0, 3), (0, 2)]);
    drop((vmo, other, space));
    s.assert_nothing_is_held();
}

#[test]
fn vm_mapping_attribution_commit_decommit_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(32));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 8..16);
    s.commit(&mut w, vmo.id, 0..32).unwrap();
    assert_placed_eq!(page_counts(s, &space), (8, 8));
    for (range, left) in [(0..8, 8), (4..10, 6), (15..20, 5), (20..32, 5), (0..32, 0)] {
        s.decommit(vmo.id, range).unwrap();
        assert_placed_eq!(page_counts(s, &space), (left, left));
    }
    for (range, left) in [(0..8, 0), (6..11, 3), (15..32, 4), (0..32, 8)] {
        s.commit(&mut w, vmo.id, range).unwrap();
        assert_placed_eq!(page_counts(s, &space), (left, left));
    }
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vm_mapping_attribution_map_unmap_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(8));
    fill(s, &mut w, vmo.id, 0..6, 1);
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..8);
    assert_placed_eq!(page_counts(s, &space), (6, 6));
    for (range, left) in [
        (1000..1001, 5),
        (1003..1004, 4),
        (1007..1008, 4),
        (1005..1007, 3),
    ] {
        space.unmap(range);
        assert_placed_eq!(page_counts(s, &space), (left, left));
        assert_placed_eq!(
            committed(s, vmo.id),
            pages(6, 0, 6 * PAGE),
            "the VMO's are the same"
        );
    }
    space.map(1000, &vmo, 0..8);
    assert_placed_eq!(page_counts(s, &space), (6, 6));
    space.map(2000, &vmo, 5..8);
    assert_placed_eq!(
        page_counts(s, &space),
        (7, 7),
        "mapped twice, counted twice"
    );
    space.unmap(0..9999);
    assert_eq!(page_counts(s, &space), (0, 0));
    assert_placed_eq!(committed(s, vmo.id), pages(6, 0, 6 * PAGE));
    drop((vmo, space));
    s.assert_nothing_is_held();
}

/// What is nowhere is stepped over, however much of it there is.
#[test]
fn vm_mapping_sparse_mapping_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(MAX_PAGES));
    let pages = [0, 1, 8191, 8192, 1 << 20, MAX_PAGES / 2, MAX_PAGES - 1];
    for (n, page) in (0..).zip(pages) {
        s.write_page(&mut w, vmo.id, page, &text(n));
    }
    let mut space = Space::new(s);
    space.map(1 << 40, &vmo, 0..MAX_PAGES);
    let started = std::time::Instant::now();
    let shown = space.show_in_place(1 << 40..(1 << 40) + MAX_PAGES);
    assert_placed_eq!(shown, pages.len() as u64);
    // A walk page by page would take minutes.
    assert!(started.elapsed().as_secs() < 5);
    for page in pages {
        assert_placed!(space.shown((1 << 40) + page).is_some(), "page {page}");
    }
    assert_eq!(space.shown((1 << 40) + 2), None);
    assert_placed_eq!(s.machine.pages_in_place(), pages.len());
    drop((vmo, space));
    s.assert_nothing_is_held();
}

/// What is shown around a fault is the address space's business, which is the test's: a VMO tells what is
/// in place, and brings nothing back for being near.
#[test]
fn what_is_in_place_can_be_shown_around_a_fault() {
    if not_under_random_compression("what is mapped must stay mapped") {
        return;
    }
    let s = system(200);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = handle(s, s.create(64));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..40);
    let shown = |space: &Space| {
        (1000..1064)
            .filter(|&page| space.shown(page).is_some())
            .count()
    };
    // Nothing around it is committed: one page, and it alone is allocated.
    assert_eq!(space.touch_around(&mut w, 1000, Some(1)), 1);
    assert_eq!((shown(&space), s.machine.pages_in_place()), (1, 1));
    // All are: up to the cap.
    s.commit(&mut w, vmo.id, 0..64).unwrap();
    assert_eq!(space.touch_around(&mut w, 1004, None), FAULT_AROUND);
    assert_placed_eq!(shown(&space), 17);
    assert!(space.shown(1000 + 4 + FAULT_AROUND).is_none());
    // Up to the end of the mapping, which is not that of the VMO.
    assert_placed_eq!(space.touch_around(&mut w, 1035, None), 5);
    assert!(space.shown(1040).is_none());
    // Content that is away is not brought back for being near.
    fill(s, &mut w, vmo.id, 0..40, 1);
    all_away(s, &mut r);
    assert_eq!(space.touch_around(&mut w, 1010, None), 1);
    assert_placed_eq!((shown(&space), decompressed(s)), (1, 1));
    // What a snapshot shares is shown, but not to be written.
    (11..14).for_each(|page| _ = s.read_page(&mut w, vmo.id, page));
    let child = snapshot(s, vmo.id);
    assert_placed_eq!(space.touch_around(&mut w, 1010, None), 4);
    assert!((1010..1014).all(|page| !space.shown(page).unwrap().writable));
    s.destroy(child);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

#[test]
fn vm_mapping_page_fault_range_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = handle(s, s.create(16));
    let mut space = Space::new(s);
    space.map(1000, &vmo, 0..8);
    space.map_with(2000, &vmo, 0..8, false);
    // Reading shows what is there, and takes no page that is somebody's.
    s.commit(&mut w, vmo.id, 0..4).unwrap();
    let before = place(s, vmo.id, 2);
    assert_eq!(space.touch_range(&mut w, 1000..1004, None), (4, None));
    assert_placed_eq!(place(s, vmo.id, 2), before);
    assert_placed_eq!(s.machine.pages_in_place(), 4);
    // Writing takes new ones.
    assert_eq!(space.touch_range(&mut w, 1002..1008, Some(7)), (6, None));
    assert_placed_eq!(s.machine.pages_in_place(), 8);
    // The mapping ends before the VMO does.
    let past = space.touch_range(&mut w, 1006..1012, Some(7));
    assert_eq!(past, (2, Some(Violation::NotMapped)));
    assert_placed_eq!(s.machine.pages_in_place(), 8);
    // What may only be read is.
    assert_eq!(space.touch_range(&mut w, 2000..2008, None), (8, None));
    let written = space.touch_range(&mut w, 2000..2008, Some(9));
    assert_eq!(written, (0, Some(Violation::NotWritable)));
    // The VMO may become smaller than its mapping: there is nothing to be had beyond its end.
    s.resize(vmo.id, 6).unwrap();
    assert_eq!(space.touch_range(&mut w, 1000..1006, None), (6, None));
    let gone = s
        .vmos
        .fault(&s.machine, &mut w, vmo.id, 6, Access::Read, |_, _| {
            panic!("beyond")
        });
    assert_eq!(gone, Err(coldpress_engine::vmo::VmoError::OutOfRange));
    // After a snapshot reading shows the shared pages, and writing copies them, one by one.
    let child = snapshot(s, vmo.id);
    assert_eq!(space.touch_range(&mut w, 1000..1006, None), (6, None));
    assert_placed_eq!(s.machine.pages_in_place(), 6);
    assert_eq!(space.touch_range(&mut w, 1000..1003, Some(1)), (3, None));
    assert_placed_eq!(s.machine.pages_in_place(), 9);
    s.destroy(child);
    drop((vmo, space));
    s.assert_nothing_is_held();
}

/// The walk that asks for accessed bits goes on where it stopped, though VMOs came and went meanwhile.
#[test]
fn address_region_enumerator_test() {
    if not_under_random_compression("what is mapped must stay mapped") {
        return;
    }
    let s = system(100);
    let mut w = worker(0);
    let vmos = [0, 1, 2, 3].map(|n| {
        let vmo = s.create(1);
        fill(s, &mut w, vmo, 0..1, n);
        vmo
    });
    let step = |harvest: &mut Harvest| s.vmos.engine().harvest(&s.machine, harvest, 64);
    let whole = |harvest: &mut Harvest| {
        let (rounds, mut asked) = (harvest.rounds, 0);
        while harvest.rounds == rounds {
            asked += step(harvest).asked;
        }
        asked
    };
    let mut harvest = Harvest::new();
    assert_placed_eq!(whole(&mut harvest), 4, "each once");
    rotate(s, 2);
    for (n, &vmo) in (0..).zip(&vmos) {
        s.touch(&mut w, (1, n), (vmo, 0), 0, None);
    }
    rotate(s, 2);
    // Stops after the first that it finds.
    while step(&mut harvest).asked == 0 {}
    let found = |id| standing(s, id, 0) == Standing::Generation(0);
    assert_eq!(vmos.map(found), [true, false, false, false]);
    // The one it has seen and the next go; a new one takes their place, and another comes.
    s.destroy(vmos[0]);
    s.destroy(vmos[1]);
    let new = [s.create(1), s.create(1), s.create(1)];
    for (n, vmo) in (10..).zip(new) {
        s.touch(&mut w, (1, n), (vmo, 0), 0, Some(1));
    }
    rotate(s, 1);
    whole(&mut harvest);
    assert!(
        found(vmos[2]) && found(vmos[3]),
        "those that stayed are reached"
    );
    assert_eq!(
        whole(&mut harvest),
        5,
        "and the next time, all that there are"
    );
    for vmo in [vmos[2], vmos[3], new[0], new[1], new[2]] {
        s.destroy(vmo);
    }
    assert_eq!(whole(&mut harvest), 0);
    assert_eq!(s.machine.free_frames.load(Relaxed), 100);
    s.assert_nothing_is_held();
}
