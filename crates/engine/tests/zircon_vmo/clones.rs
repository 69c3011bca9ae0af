//! Snapshots.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::queues::standing::Standing;

#[test]
fn vmo_clones_of_compressed_pages_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    assert_placed_eq!(s.send_away(&mut r), 2);
    let child = snapshot(s, vmo);
    assert_eq!((forms(s, vmo), forms(s, child)), ("CC".into(), "CC".into()));
    s.destroy(child);
    assert_eq!((forms(s, vmo).as_str(), decompressed(s)), ("CC", 0));
    let [one, two] = [snapshot(s, vmo), snapshot(s, vmo)];
    s.destroy(vmo);
    s.vmos.check_invariants();
    assert_eq!((forms(s, two).as_str(), decompressed(s)), ("CC", 0));
    // Half of each is either's, compressed or not.
    for id in [one, two] {
        assert_eq!(committed(s, id), pages(0, 0, 0));
        assert_eq!(content(s, id), pages(0, 2, PAGE));
    }
    // Only who writes needs the page, and the others still see what was.
    s.vmos.write(&s.machine, &mut w, one, 100, &[1]).unwrap();
    assert_eq!(decompressed(s), 1);
    assert_placed_eq!(s.in_place(one), [(0, true)]);
    assert_placed_eq!(forms(s, two), "PC");
    assert_filled(s, &mut w, two, 0..2, 1);
    assert_filled(s, &mut w, one, 1..2, 1);
    assert_eq!(s.read_page(&mut w, one, 0)[100], 1);
    // All is compressed once more; one ends, and nothing has to come back for that.
    s.send_away(&mut r);
    assert_eq!((forms(s, one), forms(s, two)), ("CC".into(), "CC".into()));
    for id in [one, two] {
        assert_eq!(content(s, id), pages(1, 1, PAGE + PAGE / 2));
    }
    let before = decompressed(s);
    s.destroy(one);
    s.vmos.check_invariants();
    assert_eq!((forms(s, two), decompressed(s)), ("CC".into(), before));
    assert_eq!(committed(s, two), pages(0, 0, 0));
    assert_eq!(content(s, two), pages(2, 0, 2 * PAGE));
    assert_filled(s, &mut w, two, 0..2, 1);
    end(s, &[two]);
}

#[test]
fn vmo_parent_merge_test() {
    let s = system(200);
    let mut w = worker(0);
    // In every order in which a chain of four can end.
    for order in 0..24 {
        let vmo = s.create(4);
        fill(s, &mut w, vmo, 0..4, 0);
        let mut chain = vec![(vmo, 0u64)];
        for n in 1..4 {
            let child = snapshot(s, chain[n as usize - 1].0);
            s.write_page(&mut w, child, n, &text(100 + n));
            chain.push((child, n));
        }
        assert_eq!(s.vmos.objects(), 4 + 3);
        let mut turn = order;
        while !chain.is_empty() {
            let (gone, _) = chain.remove(turn % chain.len());
            turn /= chain.len() + 1;
            s.destroy(gone);
            s.vmos.check_invariants();
            let hidden = chain.len().saturating_sub(1);
            assert_eq!(s.vmos.objects() as usize, chain.len() + hidden);
            for &(left, depth) in &chain {
                for page in 0..4 {
                    let written = page >= 1 && page <= depth;
                    let seed = if written { 100 + page } else { page };
                    assert_eq!(s.read_page(&mut w, left, page), text(seed));
                }
            }
        }
        s.assert_nothing_is_held();
    }
    // One in the middle with two snapshots: they go on below what was above it.
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    let middle = snapshot(s, vmo);
    s.write_page(&mut w, middle, 0, &text(2));
    let below = [snapshot(s, middle), snapshot(s, middle)];
    assert_eq!(s.vmos.objects(), 4 + 2);
    s.destroy(middle);
    s.vmos.check_invariants();
    assert_eq!(s.vmos.objects(), 3 + 2);
    assert_placed_eq!(committed(s, vmo), pages(1, 0, PAGE));
    assert!(s.read_page(&mut w, vmo, 0) == text(1));
    for id in below {
        assert_placed_eq!(committed(s, id), pages(0, 1, PAGE / 2));
        assert!(s.read_page(&mut w, id, 0) == text(2));
    }
    end(s, &[below[1], vmo, below[0]]);
}

/// Which of the VMOs below still sees a page is known by counting (older case).
#[test]
fn vmo_validate_page_splits_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(0));
    let [a, b] = [snapshot(s, vmo), snapshot(s, vmo)];
    let c = snapshot(s, a);
    let shared = place(s, vmo, 0);
    // Each write splits one off; the last gets the page.
    for (n, id) in (1..).zip([a, vmo, c]) {
        s.write_page(&mut w, id, 0, &text(n));
        s.vmos.check_invariants();
        assert_eq!(place(s, b, 0), shared);
        assert_placed_eq!(s.machine.pages_in_place() as u64, n + 1);
        assert_eq!(s.read_page(&mut w, b, 0), text(0));
    }
    s.write_page(&mut w, b, 0, &text(4));
    assert_placed_eq!(s.machine.pages_in_place(), 4, "moved and not copied");
    assert_placed_eq!(s.in_place(b), [(0, true)]);
    end(s, &[c, vmo, b, a]);
}

#[test]
fn vmo_move_pages_on_access_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = s.create(1);
    s.write_page(&mut w, vmo, 0, &text(1));
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    let mut byte = [0];
    rotate(s, 3);
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(3));
    s.vmos.read(&s.machine, &mut w, vmo, 0, &mut byte).unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    let child = snapshot(s, vmo);
    rotate(s, 2);
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(2));
    s.vmos
        .read(&s.machine, &mut w, child, 0, &mut byte)
        .unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    // To look without touching changes nothing.
    rotate(s, 1);
    assert_placed_eq!(s.in_place(child), [(0, false)]);
    assert_placed_eq!(standing(s, child, 0), Standing::Generation(1));
    end(s, &[vmo, child]);
}
