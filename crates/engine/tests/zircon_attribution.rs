//! Promise: continuous attribution behaves as Zircon's cases ask (suite `continuous_attribution`), each
//! written anew. Zircon's counter is one of populated pages; ours are committed and content, with a peak
//! each, kept by a VMO for what it holds itself. What is shared a hidden node holds, and those who see it
//! find it in [`attribution`](coldpress_engine::vmo::Vmos::attribution).

use crate::kernel::*;
use crate::zircon_vmo::kit::*;
use coldpress_engine::Trigger;
use coldpress_engine::metrics::tracker::PageTracker;
use coldpress_engine::vmo::{Usage, VmoId};

fn usage(s: &System, id: VmoId) -> (u64, u64) {
    s.vmos.check_invariants();
    numbers(s.vmos.usage(id).unwrap())
}

fn peak(s: &System, id: VmoId) -> (u64, u64) {
    numbers(s.vmos.peak(id).unwrap())
}

fn numbers(usage: Usage) -> (u64, u64) {
    (usage.committed_pages, usage.content_pages)
}

#[test]
fn continuous_attribution_tracker_create() {
    let s = system(10);
    let vmo = s.create(4);
    assert_eq!((usage(s, vmo), peak(s, vmo)), ((0, 0), (0, 0)));
    // A record that was used before is as new.
    let mut w = worker(0);
    s.commit(&mut w, vmo, 0..4).unwrap();
    s.destroy(vmo);
    let vmo = s.create(4);
    assert_eq!((usage(s, vmo), peak(s, vmo)), ((0, 0), (0, 0)));
    end(s, &[vmo]);
}

/// A snapshot hands what the VMO holds to a hidden node, with the counts; and back, when it ends.
#[test]
fn continuous_attribution_tracker_transfer() {
    let s = system(10);
    let mut w = worker(0);
    let vmo = s.create(4);
    s.commit(&mut w, vmo, 0..4).unwrap();
    s.decommit(vmo, 3..4).unwrap();
    let child = snapshot(s, vmo);
    assert_eq!(
        (usage(s, vmo), peak(s, vmo)),
        ((0, 0), (0, 0)),
        "all is gone here"
    );
    assert_eq!((usage(s, child), peak(s, child)), ((0, 0), (0, 0)));
    s.destroy(child);
    assert_placed_eq!((usage(s, vmo), peak(s, vmo)), ((3, 3), (3, 3)));
    // The counter by itself: value and peak move.
    let (from, to) = (PageTracker::new(), PageTracker::new());
    from.add(5);
    from.remove(2);
    to.take_over(&from);
    assert_eq!((from.pages(), from.take_peak()), (0, 0));
    assert_eq!((to.pages(), to.take_peak()), (3, 5));
    end(s, &[vmo]);
}

#[test]
fn continuous_attribution_tracker_high_water_mark() {
    let s = system(10);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(8);
    fill(s, &mut w, vmo, 0..5, 1);
    s.decommit(vmo, 2..5).unwrap();
    assert_placed_eq!((usage(s, vmo), peak(s, vmo)), ((2, 2), (5, 5)));
    assert_placed_eq!(peak(s, vmo), (2, 2), "since it was read");
    s.commit(&mut w, vmo, 4..8).unwrap();
    assert_placed_eq!(s.send_away(&mut r), 6);
    assert_placed_eq!((usage(s, vmo), peak(s, vmo)), ((0, 2), (6, 6)));
    assert_eq!(peak(s, vmo), (0, 2));
    end(s, &[vmo]);
}

/// No VMO has so many pages: the counter by itself, which is of 64 bits.
#[test]
fn continuous_attribution_tracker_extreme() {
    let tracker = PageTracker::new();
    tracker.add(u32::MAX.into());
    tracker.add(u64::MAX - u64::from(u32::MAX));
    assert_eq!((tracker.pages(), tracker.take_peak()), (u64::MAX, u64::MAX));
    tracker.remove(u64::MAX);
    assert_eq!((tracker.pages(), tracker.take_peak()), (0, u64::MAX));
    assert_eq!(tracker.take_peak(), 0);
}

#[test]
fn continuous_attribution_tracker_populate_vmo() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(16);
    for page in 0..16 {
        s.write_page(&mut w, vmo, 15 - page, &text(page));
        assert_placed_eq!(usage(s, vmo), (page + 1, page + 1));
    }
    fill(s, &mut w, vmo, 0..16, 9);
    assert_placed_eq!((usage(s, vmo), peak(s, vmo)), ((16, 16), (16, 16)));
    end(s, &[vmo]);
}

#[test]
fn continuous_attribution_tracker_bidirectional_child() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    fill(s, &mut w, vmo, 0..4, 1);
    let child = snapshot(s, vmo);
    // Held by the hidden node, counted by both who see it.
    assert_eq!((usage(s, vmo), usage(s, child)), ((0, 0), (0, 0)));
    for id in [vmo, child] {
        assert_placed_eq!(
            (committed(s, id), content(s, id)),
            (pages(0, 4, 2 * PAGE), pages(0, 4, 2 * PAGE))
        );
    }
    s.write_page(&mut w, child, 0, &text(9));
    assert_placed_eq!((usage(s, vmo), usage(s, child)), ((0, 0), (1, 1)));
    s.destroy(vmo);
    assert_placed_eq!(usage(s, child), (4, 4));
    end(s, &[child]);
}

#[test]
fn continuous_attribution_tracker_zero_anonymous() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(4);
    s.commit(&mut w, vmo, 0..4).unwrap();
    for left in (0..4).rev() {
        s.zero(vmo, left..left + 1).unwrap();
        assert_placed_eq!(usage(s, vmo), (left, left));
    }
    assert_eq!(peak(s, vmo), (4, 4));
    end(s, &[vmo]);
}

#[test]
fn continuous_attribution_tracker_require_move_page() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    let child = snapshot(s, vmo);
    s.write_page(&mut w, child, 0, &text(9));
    assert_placed_eq!((usage(s, vmo), usage(s, child)), ((0, 0), (1, 1)));
    assert_placed_eq!(committed(s, vmo), pages(1, 1, PAGE + PAGE / 2));
    // The page that nobody else sees moves: one more here, one less there.
    s.write_page(&mut w, vmo, 0, &text(8));
    assert_placed_eq!((usage(s, vmo), usage(s, child)), ((1, 1), (1, 1)));
    assert_placed_eq!(committed(s, vmo), pages(1, 1, PAGE + PAGE / 2));
    assert_placed_eq!(s.machine.pages_in_place(), 3);
    s.destroy(child);
    assert_placed_eq!(usage(s, vmo), (2, 2), "and what is left follows");
    end(s, &[vmo]);
}

#[test]
fn continuous_attribution_tracker_hidden_no_parent_content() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(3);
    fill(s, &mut w, vmo, 0..3, 1);
    let child = snapshot(s, vmo);
    // A marker hides what is above; then a hidden node has it, below the first.
    s.zero(child, 0..1).unwrap();
    s.write_page(&mut w, child, 1, &text(9));
    assert_placed_eq!(usage(s, child), (1, 1));
    let grandchild = snapshot(s, child);
    assert_eq!(usage(s, child), (0, 0));
    for id in [child, grandchild] {
        assert_eq!(content(s, id), pages(0, 2, PAGE / 2 + PAGE / 3));
        assert!(s.read_page(&mut w, id, 0) == [0; 4096]);
    }
    s.destroy(vmo);
    s.vmos.check_invariants();
    // It holds its own page, and the one that only those below still see; no marker counts.
    s.destroy(child);
    assert_placed_eq!(usage(s, grandchild), (2, 2));
    assert_placed_eq!(s.machine.pages_in_place(), 2);
    end(s, &[grandchild]);
}

#[test]
fn continuous_attribution_tracker_reclaim_page() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 4);
    s.commit(&mut w, vmo, 0..3).unwrap();
    assert_eq!(usage(s, vmo), (3, 3));
    for (page, left) in [(1, 2), (0, 1), (0, 1), (2, 0)] {
        let at = place(s, vmo, page);
        let evicted = at.is_some_and(|at| s.vmos.evict(&s.machine, at));
        assert_eq!(evicted, at.is_some());
        assert_eq!(
            usage(s, vmo),
            (left, left),
            "from both: its pager has it still"
        );
    }
    assert!(s.read_page(&mut w, vmo, 1) == text(1));
    assert_eq!((usage(s, vmo), peak(s, vmo)), ((1, 1), (3, 3)));
    end(s, &[vmo]);
}

#[test]
fn continuous_attribution_tracker_zero_page_compression() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.commit(&mut w, vmo, 0..2).unwrap();
    s.write_page(&mut w, vmo, 2, &text(1));
    assert_placed_eq!(usage(s, vmo), (3, 3));
    assert_placed_eq!(s.send_away(&mut r), 3);
    assert_eq!(usage(s, vmo), (0, 1), "two were zeros");
    assert_placed_eq!(peak(s, vmo), (3, 3));
    end(s, &[vmo]);
}

/// There is no scanner of its own for pages of zeros: eager compression finds them.
#[test]
fn continuous_attribution_tracker_zero_page_deduplication() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.commit(&mut w, vmo, 0..3).unwrap();
    rotate(s, 9);
    let engine = s.vmos.engine();
    for left in [2, 1, 0] {
        let batch = engine.reclaim_batch(&s.machine, &mut r, 1, u64::MAX, Trigger::Eager);
        assert_placed_eq!(batch.kept, 1);
        assert_placed_eq!(usage(s, vmo), (left, left));
    }
    assert_eq!(engine.storage_usage().objects, 0);
    s.write_page(&mut w, vmo, 1, &text(1));
    assert_placed_eq!(usage(s, vmo), (1, 1));
    end(s, &[vmo]);
}
