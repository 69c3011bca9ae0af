//! Pages of zeros that snapshots share.

use super::kit::*;
use crate::kernel::*;

/// A page of a hidden node turns out to be zeros, whatever its children do afterwards.
#[test]
fn vmo_dedup_hidden_zero_page_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    for what in 0..7 {
        let vmo = s.create(2);
        s.commit(&mut w, vmo, 0..1).unwrap();
        s.write_page(&mut w, vmo, 1, &text(1));
        let child = snapshot(s, vmo);
        for id in [vmo, child] {
            assert_placed_eq!(committed(s, id), pages(0, 2, PAGE), "shared");
        }
        assert_placed_eq!(s.send_away(&mut r), 2);
        s.vmos.check_invariants();
        assert_eq!((forms(s, vmo), forms(s, child)), ("0C".into(), "0C".into()));
        for id in [vmo, child] {
            assert_eq!(committed(s, id), pages(0, 0, 0));
            assert_eq!(content(s, id), pages(0, 1, PAGE / 2), "zeros are nobody's");
        }
        match what {
            0 => s.write_page(&mut w, child, 0, &text(2)),
            1 => s.commit(&mut w, child, 0..2).unwrap(),
            2 => s.zero(child, 0..1).unwrap(),
            3 => s.resize(child, 0).unwrap(),
            4 => s.destroy(vmo),
            5 => {
                // The original is written, and has a page of its own.
                s.zero(child, 0..1).unwrap();
                s.vmos.write(&s.machine, &mut w, vmo, 0, &[0]).unwrap();
                assert_placed_eq!(committed(s, vmo), pages(1, 0, PAGE));
                assert_eq!(committed(s, child), pages(0, 0, 0));
            }
            _ => _ = s.touch(&mut w, (1, 0), (child, 0), 7, None),
        }
        s.vmos.check_invariants();
        if what != 4 {
            assert_eq!(s.read_page(&mut w, vmo, 0), [0; 4096], "{what}");
            assert_eq!(s.read_page(&mut w, vmo, 1), text(1));
            s.destroy(vmo);
            s.vmos.check_invariants();
        }
        if what != 3 {
            let expected = if what == 0 { text(2) } else { [0; 4096] };
            assert_eq!(s.read_page(&mut w, child, 0), expected);
            assert_eq!(s.read_page(&mut w, child, 1), text(1));
        }
        end(s, &[child]);
    }
}

/// A marker in a hidden node is counted like a page, and gone with the last who sees it.
#[test]
fn vmo_compress_to_marker_anon_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(1);
    s.commit(&mut w, vmo, 0..1).unwrap();
    let [one, two] = [snapshot(s, vmo), snapshot(s, vmo)];
    assert_placed_eq!(s.send_away(&mut r), 1);
    let markers = || value(&s.vmos.engine().counters().same_filled_pages);
    assert_eq!((s.machine.pages_in_place(), markers()), (0, 1));
    s.vmos.check_invariants();
    for (n, id) in (1..).zip([one, vmo, two]) {
        assert_eq!(markers(), 1, "one for all");
        s.write_page(&mut w, id, 0, &text(n));
        s.vmos.check_invariants();
    }
    assert_eq!(markers(), 0, "nobody sees it");
    assert_placed_eq!(s.machine.pages_in_place(), 3);
    end(s, &[vmo, one, two]);
}
