//! Whose memory it is.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::Trigger;
use coldpress_engine::vmo::{Hint, VmoId};

#[test]
fn vmo_attribution_clones_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(3);
    assert_eq!(committed(s, vmo), pages(0, 0, 0));
    fill(s, &mut w, vmo, 0..2, 1);
    assert_placed_eq!(committed(s, vmo), pages(2, 0, 2 * PAGE));
    let child = snapshot(s, vmo);
    for id in [vmo, child] {
        assert_placed_eq!(committed(s, id), pages(0, 2, PAGE), "half of each");
    }
    // A part, of a snapshot: the second page is three VMOs' now.
    let part = slice(s, child, 1..3);
    assert_placed_eq!(committed(s, part), pages(0, 1, PAGE / 3));
    for id in [vmo, child] {
        assert_placed_eq!(committed(s, id), pages(0, 2, PAGE / 2 + PAGE / 3));
    }
    // What one writes is its own, and the others have more of what was shared.
    s.write_page(&mut w, child, 1, &text(9));
    assert_placed_eq!(committed(s, child), pages(1, 1, PAGE + PAGE / 2));
    assert_placed_eq!(committed(s, part), pages(0, 1, PAGE / 2));
    assert_placed_eq!(committed(s, vmo), pages(0, 2, PAGE));
    s.write_page(&mut w, part, 1, &text(8));
    assert_placed_eq!(committed(s, part), pages(1, 1, PAGE + PAGE / 2));
    // Whoever ends leaves its part to the others.
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_placed_eq!(committed(s, child), pages(2, 0, 2 * PAGE));
    assert_placed_eq!(committed(s, part), pages(2, 0, 2 * PAGE));
    let sum = s.machine.pages_in_place() as u64 * PAGE;
    assert_eq!(
        committed(s, child).scaled_bytes + committed(s, part).scaled_bytes,
        sum
    );
    end(s, &[part, child]);
    // A part that sees one page that is there, and one that is nowhere; both are committed to it.
    let vmo = s.create(4);
    s.commit(&mut w, vmo, 0..2).unwrap();
    let part = slice(s, vmo, 1..3);
    assert_placed_eq!(committed(s, vmo), pages(1, 1, PAGE + PAGE / 2));
    assert_placed_eq!(committed(s, part), pages(0, 1, PAGE / 2));
    s.commit(&mut w, part, 0..2).unwrap();
    for id in [vmo, part] {
        assert_placed_eq!(committed(s, id), pages(2, 0, 2 * PAGE));
    }
    s.commit(&mut w, vmo, 3..4).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(3, 0, 3 * PAGE));
    assert_placed_eq!(committed(s, part), pages(2, 0, 2 * PAGE));
    s.destroy(part);
    assert_placed_eq!(committed(s, vmo), pages(3, 0, 3 * PAGE));
    end(s, &[vmo]);
}

#[test]
fn vmo_attribution_ops_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(10);
    let check = |pages_held: u64, why: &str| {
        s.vmos.check_invariants();
        assert_placed_eq!(
            committed(s, vmo),
            pages(pages_held, 0, pages_held * PAGE),
            "{why}"
        );
        assert_placed_eq!(
            content(s, vmo),
            pages(pages_held, 0, pages_held * PAGE),
            "{why}"
        );
        assert_placed_eq!(s.machine.pages_in_place() as u64, pages_held, "{why}");
    };
    s.commit(&mut w, vmo, 0..10).unwrap();
    check(10, "commit");
    s.commit(&mut w, vmo, 0..10).unwrap();
    check(10, "commit again");
    s.decommit(vmo, 2..7).unwrap();
    check(5, "decommit");
    s.commit(&mut w, vmo, 0..5).unwrap();
    check(8, "commit of what is there in part");
    s.decommit(vmo, 0..10).unwrap();
    check(0, "decommit of what is there in part");
    let mut read = vec![1; 3 * PAGE as usize];
    s.vmos
        .read(&s.machine, &mut w, vmo, PAGE / 2, &mut read)
        .unwrap();
    check(0, "reading");
    s.vmos
        .write(&s.machine, &mut w, vmo, PAGE / 2, &read)
        .unwrap();
    check(4, "writing");
    s.resize(vmo, 3).unwrap();
    check(3, "smaller");
    s.resize(vmo, 10).unwrap();
    check(3, "larger");
    s.zero(vmo, 1..2).unwrap();
    check(2, "zeroing");
    s.zero(vmo, 0..10).unwrap();
    check(0, "zeroing it all");
    end(s, &[vmo]);
}

#[test]
fn vmo_attribution_dedup_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    s.commit(&mut w, vmo, 0..2).unwrap();
    s.write_page(&mut w, vmo, 2, &text(1));
    assert_placed_eq!(committed(s, vmo), pages(3, 0, 3 * PAGE));
    // One after the other.
    for left in [2, 1] {
        let zeros = 2 - left;
        s.vmos.hint(vmo, zeros..zeros + 1, Hint::DontNeed).unwrap();
        let engine = s.vmos.engine();
        let batch = engine.reclaim_batch(&s.machine, &mut r, 1, u64::MAX, Trigger::Pressure);
        assert_placed_eq!(batch.kept, 1);
        assert_placed_eq!(committed(s, vmo), pages(left, 0, left * PAGE));
    }
    assert_placed_eq!(s.send_away(&mut r), 1);
    assert_eq!(forms(s, vmo), "00C");
    assert_eq!(committed(s, vmo), pages(0, 0, 0));
    assert_eq!(content(s, vmo), pages(1, 0, PAGE), "zeros are no content");
    s.commit(&mut w, vmo, 0..1).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(1, 0, PAGE));
    s.commit(&mut w, vmo, 0..3).unwrap();
    assert_placed_eq!(committed(s, vmo), pages(3, 0, 3 * PAGE));
    assert_placed_eq!(content(s, vmo), pages(3, 0, 3 * PAGE));
    end(s, &[vmo]);
}

/// Compression takes from what is committed and not from the content, also of what is shared.
#[test]
fn vmo_attribution_compression_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(4);
    fill(s, &mut w, vmo, 0..4, 1);
    let child = snapshot(s, vmo);
    s.write_page(&mut w, child, 0, &text(50));
    let all = [
        (vmo, pages(1, 3, PAGE + 3 * PAGE / 2)),
        (child, pages(1, 3, PAGE + 3 * PAGE / 2)),
    ];
    let events = || s.vmos.reclaims(vmo).unwrap();
    assert_placed_eq!(events(), 0, "writing and sharing are none");
    // What only the VMO sees is its own, though a hidden node still holds it.
    for (id, shares) in all {
        assert_placed_eq!((committed(s, id), content(s, id)), (shares, shares));
    }
    assert_placed_eq!(s.send_away(&mut r), 5);
    let after = events();
    assert!(after > 0);
    for (id, shares) in all {
        assert_eq!((committed(s, id), content(s, id)), (pages(0, 0, 0), shares));
    }
    s.read_page(&mut w, child, 3);
    for (id, shares) in all {
        assert_placed_eq!(
            (committed(s, id), content(s, id)),
            (pages(0, 1, PAGE / 2), shares)
        );
    }
    assert_placed_eq!(events(), after, "nor is bringing it back");
    // Part of a VMO, as a mapping of it.
    let part = s.vmos.attribution(vmo, 2..3).unwrap();
    assert_eq!(
        (part.committed, part.content),
        (pages(0, 0, 0), pages(0, 1, PAGE / 2))
    );
    end(s, &[vmo, child]);
}

/// As compression (older case).
#[test]
fn vmo_attribution_evict_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    rotate(s, 9);
    for left in [1, 0] {
        let engine = s.vmos.engine();
        let batch = engine.reclaim_batch(&s.machine, &mut r, 1, u64::MAX, Trigger::Pressure);
        assert_placed_eq!(batch.kept, 1);
        assert_placed_eq!(committed(s, vmo), pages(left, 0, left * PAGE));
    }
    assert_eq!(content(s, vmo), pages(2, 0, 2 * PAGE));
    end(s, &[vmo]);
}

/// Every snapshot is a full one: what is written to the original afterwards is not seen by any that were
/// taken before.
#[test]
fn snapshots_of_snapshots_and_of_parts_see_what_was() {
    let s = system(200);
    let mut w = worker(0);
    let vmo = s.create(4);
    fill(s, &mut w, vmo, 0..4, 0);
    let first = snapshot(s, vmo);
    s.write_page(&mut w, vmo, 0, &text(10));
    assert!(s.read_page(&mut w, first, 0) == text(0));
    assert_placed_eq!(committed(s, vmo), pages(1, 3, PAGE + 3 * PAGE / 2));
    assert_placed_eq!(committed(s, first), pages(1, 3, PAGE + 3 * PAGE / 2));
    // A chain: of the snapshot, of a part of that, of the original again.
    let second = snapshot(s, first);
    let part = slice(s, second, 1..3);
    let late = snapshot(s, vmo);
    s.write_page(&mut w, second, 2, &text(22));
    let expect = |w: &mut TestWorker, id: VmoId, seeds: &[u64]| {
        for (page, &seed) in (0..).zip(seeds) {
            assert!(s.read_page(w, id, page) == text(seed), "page {page}");
        }
    };
    s.write_page(&mut w, vmo, 1, &text(11));
    for _ in 0..2 {
        expect(&mut w, vmo, &[10, 11, 2, 3]);
        expect(&mut w, first, &[0, 1, 2, 3]);
        expect(&mut w, second, &[0, 1, 22, 3]);
        expect(&mut w, part, &[1, 2]);
        expect(&mut w, late, &[10, 1, 2, 3]);
        s.vmos.check_invariants();
        s.send_away(&mut reclaimer(1));
    }
    // Pages 1, 2 and 3 are four VMOs' each, page 0 two by two.
    s.vmos.prefetch(&s.machine, &mut w, part, 0..2).unwrap();
    assert_placed_eq!(committed(s, part), pages(0, 2, 2 * PAGE / 4));
    let all = [vmo, first, second, part, late];
    let scaled: u64 = all.iter().map(|&id| content(s, id).scaled_bytes).sum();
    // Pages 0 (twice), 1 (twice), 2 (twice), 3.
    assert_eq!(scaled, 7 * PAGE);
    end(s, &[first, vmo, second, late, part]);
}
