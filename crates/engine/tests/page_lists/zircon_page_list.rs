//! Promise: page lists behave as the cases of Zircon's page list tests ask (suite `vmpl`), each
//! written anew for our lists. Zircon's nodes of 16 pages are our leaves of 64. The cases about zero
//! intervals are in `zircon_zero_intervals.rs`.

use super::common::*;
#[allow(dead_code, reason = "each test file uses what it needs")]
use coldpress_engine::Entry;
use coldpress_engine::vmo::VmoError;
use coldpress_engine::vmo::pages::{POSITIONS, Piece, Splice, Walk};
use coldpress_storage::{FrameIndex, Reference};
use std::ops::Range;

fn splice() -> (Splice<Alone>, Freed) {
    let freed = Freed::default();
    (Splice::new(alone_with(100, &freed)), freed)
}

fn popped(splice: &mut Splice<Alone>) -> Vec<Entry> {
    std::iter::from_fn(|| splice.pop()).collect()
}

/// A list with page n at each of these positions.
fn with_pages(
    positions: impl IntoIterator<Item = u64>,
) -> coldpress_engine::vmo::pages::List<Alone> {
    let list = list();
    for at in positions {
        list.insert(at, page(at)).unwrap();
    }
    list
}

#[test]
fn vmpl_append_to_splice_list_test() {
    let (mut splice, freed) = splice();
    let appended = [
        page(0),
        Entry::Zero,
        Entry::Empty,
        page(3),
        Entry::SameFilled(7),
    ];
    let many = (5..200).map(page);
    for entry in appended.into_iter().chain(many.clone()) {
        splice.append(entry).unwrap();
    }
    assert_eq!(splice.len(), 200);
    let out = popped(&mut splice);
    assert!(out.into_iter().eq(appended.into_iter().chain(many)));
    assert!(splice.is_empty() && splice.pop().is_none());
    drop(splice);
    assert!(freed.borrow().is_empty(), "who took them has them");
}

#[test]
fn vmpl_add_remove_page_test() {
    let list = list();
    assert_eq!(list.get(5), Entry::Empty);
    list.insert(5, page(1)).unwrap();
    assert_eq!(list.get(5), page(1));
    assert_eq!((list.get(4), list.get(6)), (Entry::Empty, Entry::Empty));
    assert_eq!(list.insert(5, page(2)), Err(VmoError::BadState), "occupied");
    assert_eq!(list.0.committed_and_content(), (1, 1));
    assert!(!list.is_empty());
    assert_eq!(list.remove(5), Ok(page(1)));
    assert_eq!(list.get(5), Entry::Empty);
    assert_eq!(list.remove(5), Ok(Entry::Empty));
    assert!(list.is_empty());
    assert_eq!(list.0.tables_in_use(), (0, 0), "nor are tables kept");
}

#[test]
fn vmpl_basic_marker_test() {
    let list = list();
    list.insert(0, Entry::Zero).unwrap();
    assert_eq!(list.get(0), Entry::Zero);
    assert_eq!(all(&list), [(0, Entry::Zero)], "neither page nor reference");
    assert_eq!(list.interval_at(0), None, "nor interval");
    assert_eq!(list.0.committed_and_content(), (0, 0));
    assert!(!list.is_empty());
    assert_eq!(list.remove(0), Ok(Entry::Zero));
    assert!(list.is_empty());
}

/// No reference of ours is 0 (storage R1): the least and the greatest take its part.
#[test]
fn vmpl_basic_reference_test() {
    let (list, freed) = list_and_freed();
    let least = Reference::new(FrameIndex(1), 0, 1, 0);
    let greatest = Reference::new_split(FrameIndex(u32::MAX), 4088, 4096, 127);
    list.insert(0, Entry::Compressed(least)).unwrap();
    list.insert(1, Entry::Compressed(greatest)).unwrap();
    list.insert(2, Entry::SameFilled(1)).unwrap();
    assert_eq!(list.get(0), Entry::Compressed(least));
    assert_eq!(list.get(1), Entry::Compressed(greatest));
    assert_eq!(list.0.committed_and_content(), (0, 3));
    assert_eq!(list.remove(0), Ok(Entry::Compressed(least)));
    assert!(freed.borrow().is_empty(), "given out, not freed");
    list.free_range(0..2).unwrap();
    assert_eq!(*freed.borrow(), [Entry::Compressed(greatest)]);
    assert_eq!(all(&list), [(2, Entry::SameFilled(1))]);
}

#[test]
fn vmpl_free_pages_test() {
    let list = list();
    let entry = |at: u64| {
        if at.is_multiple_of(2) {
            page(at)
        } else {
            Entry::Zero
        }
    };
    (0..3 * LEAF).for_each(|at| list.insert(at, entry(at)).unwrap());
    let mut removed = Vec::new();
    list.remove_range(2..3 * LEAF - 2, |at, entry| removed.push((at, entry)))
        .unwrap();
    let middle = (2..3 * LEAF - 2).map(|at| (at, entry(at)));
    assert!(removed.into_iter().eq(middle), "pages and markers");
    let left = [0, 1, 3 * LEAF - 2, 3 * LEAF - 1];
    assert!(all(&list).into_iter().eq(left.map(|at| (at, entry(at)))));
    assert_eq!(
        list.0.tables_in_use(),
        (1, 2),
        "the leaf between is given back"
    );
}

#[test]
fn vmpl_free_pages_last_page_test() {
    let list = with_pages([0]);
    let mut removed = Vec::new();
    list.remove_range(0..POSITIONS, |at, entry| removed.push((at, entry)))
        .unwrap();
    assert_eq!(removed, [(0, page(0))]);
    assert!(list.is_empty());
    assert_eq!(list.0.tables_in_use(), (0, 0));
}

#[test]
fn vmpl_near_last_offset_free() {
    for before in 1..2 * LEAF {
        let (list, freed) = list_and_freed();
        let at = POSITIONS - before;
        list.insert(at, page(before)).unwrap();
        assert_eq!(all(&list), [(at, page(before))]);
        assert_eq!(list.cursor(at).next(), Some((at, page(before))));
        assert_eq!(gaps(&list, at..POSITIONS), gaps(&list, at + 1..POSITIONS));
        list.free_range(at..POSITIONS).unwrap();
        assert_eq!(*freed.borrow(), [page(before)]);
        assert!(list.is_empty());
    }
    let list = list();
    for beyond in [POSITIONS, POSITIONS + 1, 2 * POSITIONS, u64::MAX] {
        assert_eq!(list.insert(beyond, page(0)), Err(VmoError::OutOfRange));
        assert_eq!(list.get(beyond), Entry::Empty);
        assert!(list.is_empty() && list.0.tables_in_use() == (0, 0));
    }
}

#[test]
fn vmpl_take_single_page_even_test() {
    let list = with_pages([0, 1]);
    let (mut splice, _) = splice();
    list.take(0..1, &mut splice).unwrap();
    assert_eq!(popped(&mut splice), [page(0)]);
    assert_eq!(all(&list), [(1, page(1))]);
}

#[test]
fn vmpl_take_single_page_odd_test() {
    let list = with_pages([0, 1]);
    let (mut splice, _) = splice();
    list.take(1..2, &mut splice).unwrap();
    assert_eq!(popped(&mut splice), [page(1)]);
    assert_eq!(all(&list), [(0, page(0))]);
}

#[test]
fn vmpl_take_all_pages_test() {
    let list = list();
    let entry = |at| if at % 3 == 2 { Entry::Zero } else { page(at) };
    (0..3 * LEAF).for_each(|at| list.insert(at, entry(at)).unwrap());
    let (mut splice, _) = splice();
    list.take(0..3 * LEAF, &mut splice).unwrap();
    assert!(list.is_empty());
    assert_eq!(list.0.committed_and_content(), (0, 0));
    assert!(popped(&mut splice).into_iter().eq((0..3 * LEAF).map(entry)));
}

#[test]
fn vmpl_take_middle_pages_test() {
    let list = with_pages(0..3 * LEAF);
    let (mut splice, _) = splice();
    let middle = 1..3 * LEAF - 1;
    list.take(middle.clone(), &mut splice).unwrap();
    assert!(popped(&mut splice).into_iter().eq(middle.map(page)));
    let left = [0, 3 * LEAF - 1];
    assert!(all(&list).into_iter().eq(left.map(|at| (at, page(at)))));
}

#[test]
fn vmpl_take_gap_test() {
    // A gap within a leaf, one of several leaves, and one at each end.
    let there = |at: u64| matches!(at, 3 | 5 | 6) || at == 5 * LEAF || at == SEGMENT;
    let end = SEGMENT + 10;
    let list = with_pages((0..end).filter(|&at| there(at)));
    let (mut splice, _) = splice();
    list.take(0..end, &mut splice).unwrap();
    assert_eq!(splice.len(), end);
    for at in 0..end {
        let entry = if there(at) { page(at) } else { Entry::Empty };
        assert_eq!(splice.pop(), Some(entry), "position {at}");
    }
    assert_eq!(splice.pop(), None);
    assert!(list.is_empty());
}

#[test]
fn vmpl_take_empty_test() {
    let list = list();
    let (mut splice, freed) = splice();
    list.take(0..1, &mut splice).unwrap();
    assert!(!splice.is_empty());
    assert_eq!(splice.pop(), Some(Entry::Empty));
    assert!(splice.is_empty());
    assert_eq!(splice.pop(), None);
    drop(splice);
    assert!(freed.borrow().is_empty());
}

#[test]
fn vmpl_take_cleanup_test() {
    let list = with_pages(0..3 * LEAF);
    let (mut splice, freed) = splice();
    list.take(1..2 * LEAF, &mut splice).unwrap();
    assert_eq!(splice.pop(), Some(page(1)));
    drop(splice);
    let rest = (2..2 * LEAF).map(page);
    assert!(
        freed.borrow().iter().copied().eq(rest),
        "all but what was popped"
    );
    assert_eq!(list.get(0), page(0));
    assert_eq!(list.get(2 * LEAF), page(2 * LEAF));
}

/// All layouts of four positions, at the beginning, across leaves and across segments; all ranges,
/// and every point at which the visitor stops.
#[test]
fn vmpl_page_gap_iter_test() {
    for base in [0, LEAF - 2, SEGMENT - 2] {
        for layout in 0..16u64 {
            let there = |at: u64| at >= base && at < base + 4 && layout >> (at - base) & 1 == 1;
            let list = with_pages((base..base + 4).filter(|&at| there(at)));
            for from in base..=base + 4 {
                for end in from..=base + 5 {
                    let expected = expected_pieces(from..end, there);
                    assert_eq!(pieces(&list, from..end), expected);
                    for stop in 0..expected.len() {
                        let mut seen = Vec::new();
                        let done = list.for_every_and_gap(from..end, |piece| {
                            seen.push(piece);
                            match (seen.len() == stop + 1, stop % 2) {
                                (true, 0) => Ok(Walk::Stop),
                                (true, _) => Err("enough"),
                                _ => Ok(Walk::On),
                            }
                        });
                        assert_eq!(seen, expected[..=stop]);
                        assert_eq!(done, if stop % 2 == 0 { Ok(()) } else { Err("enough") });
                    }
                }
            }
        }
    }
}

fn expected_pieces(range: Range<u64>, there: impl Fn(u64) -> bool) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for at in range {
        match pieces.last_mut() {
            _ if there(at) => pieces.push(Piece::Entry(at, page(at))),
            Some(Piece::Gap(gap)) => gap.end = at + 1,
            _ => pieces.push(Piece::Gap(at..at + 1)),
        }
    }
    pieces
}

#[test]
fn vmpl_for_every_page_test() {
    let list = with_pages([0, LEAF, SEGMENT + 3, 1 << 40]);
    list.insert(2 * LEAF - 1, Entry::Zero).unwrap();
    let expected = [
        (0, page(0)),
        (LEAF, page(LEAF)),
        (2 * LEAF - 1, Entry::Zero),
        (SEGMENT + 3, page(SEGMENT + 3)),
        (1 << 40, page(1 << 40)),
    ];
    assert_eq!(all(&list), expected);
    assert_eq!(entries(&list, 0..(1 << 40) + 1), expected);
    assert_eq!(entries(&list, 1..1 << 40), expected[1..4]);
    assert_eq!(entries(&list, LEAF..2 * LEAF - 1), expected[1..2]);
    assert_eq!(entries(&list, LEAF..LEAF), []);
    assert_eq!(entries(&list, SEGMENT + 4..1 << 39), []);

    let mut seen = 0;
    let stopped = list.for_every(0..POSITIONS, |_, _| {
        seen += 1;
        Ok::<_, ()>(if seen == 2 { Walk::Stop } else { Walk::On })
    });
    assert_eq!((stopped, seen), (Ok(()), 2));
    let failed = list.for_every(0..POSITIONS, |at, _| match at {
        LEAF => Err(at),
        _ => Ok(Walk::On),
    });
    assert_eq!(failed, Err(LEAF));
}

#[test]
fn vmpl_skip_last_gap_test() {
    let list = with_pages([1]);
    let mut seen = Vec::new();
    list.for_every_and_gap(0..LEAF, |piece| {
        let stop = matches!(piece, Piece::Entry(..));
        seen.push(piece);
        Ok::<_, ()>(if stop { Walk::Stop } else { Walk::On })
    })
    .unwrap();
    assert_eq!(seen, [Piece::Gap(0..1), Piece::Entry(1, page(1))]);
    let on = [seen[0].clone(), seen[1].clone(), Piece::Gap(2..LEAF)];
    assert_eq!(pieces(&list, 0..LEAF), on, "which is there otherwise");
}

#[test]
fn vmpl_contiguous_run_test() {
    // Alone; two in a row; three over the bound of a leaf; up to the bound of a segment.
    let there = [1, 3, 4, LEAF - 1, LEAF, LEAF + 1, SEGMENT - 1, SEGMENT];
    let list = with_pages(there);
    let (pages, found) = runs(&list, 0..POSITIONS, |_, _| true);
    assert_eq!(pages, there);
    let whole = [1..2, 3..5, LEAF - 1..LEAF + 2, SEGMENT - 1..SEGMENT + 1];
    assert_eq!(found, whole.map(run));
    let (pages, found) = runs(&list, 4..LEAF + 1, |_, _| true);
    assert_eq!(pages, [4, LEAF - 1, LEAF]);
    assert_eq!(found, [run(4..5), run(LEAF - 1..LEAF + 1)]);
    assert_eq!(runs(&list, 5..LEAF - 1, |_, _| true), (vec![], vec![]));
}

#[test]
fn vmpl_contiguous_run_compare_test() {
    let list = with_pages(0..6);
    list.insert(6, Entry::Zero).unwrap();
    list.insert(7, page(7)).unwrap();
    let (pages, found) = runs(&list, 0..10, |at, _| at % 5 != 2);
    assert_eq!(pages, [0, 1, 3, 4, 5, 6]);
    assert_eq!(found, [run(0..2), run(3..7)]);
    let (pages, found) = runs(&list, 0..10, |_, entry| matches!(entry, Entry::Page(_)));
    assert_eq!(pages, [0, 1, 2, 3, 4, 5, 7]);
    assert_eq!(found, [run(0..6), run(7..8)]);
    assert_eq!(runs(&list, 0..10, |_, _| false), (vec![], vec![]));
}

#[test]
fn vmpl_contiguous_traversal_end_test() {
    let list = with_pages([0, 1, 2, 5, 6, 9]);
    let (mut pages, mut found) = (Vec::new(), Vec::new());
    list.for_every_run(
        0..20,
        |_, _| true,
        |at, _| {
            pages.push(at);
            Ok::<_, ()>(if at == 5 { Walk::Stop } else { Walk::On })
        },
        |run| {
            found.push(run);
            Ok(Walk::On)
        },
    )
    .unwrap();
    assert_eq!(pages, [0, 1, 2, 5]);
    assert_eq!(found, [run(0..3), run(5..6)], "the page is its run's last");

    (pages, found) = (Vec::new(), Vec::new());
    list.for_every_run(
        0..20,
        |_, _| true,
        |at, _| {
            pages.push(at);
            Ok::<_, ()>(Walk::On)
        },
        |run| {
            found.push(run);
            Ok(Walk::Stop)
        },
    )
    .unwrap();
    assert_eq!((pages, found), (vec![0, 1, 2], vec![run(0..3)]));
}

#[test]
fn vmpl_contiguous_traversal_error_test() {
    let list = with_pages([0, 1, 2, 5, 6, 9]);
    let mut found = Vec::new();
    let page = |at, _| if at == 6 { Err("page") } else { Ok(Walk::On) };
    let done = list.for_every_run(
        0..20,
        |_, _| true,
        page,
        |run| {
            found.push(run);
            Ok(Walk::On)
        },
    );
    // What was walked over before the page that failed is told.
    assert_eq!((done, found), (Err("page"), vec![run(0..3), run(5..6)]));
    let mut found = Vec::new();
    let done = list.for_every_run(
        0..20,
        |_, _| true,
        |_, _| Err("first"),
        |run| {
            found.push(run);
            Ok(Walk::On)
        },
    );
    assert_eq!(
        (done, found),
        (Err("first"), vec![]),
        "there is no such run"
    );

    let mut pages = Vec::new();
    let page = |at, _| {
        pages.push(at);
        Ok(Walk::On)
    };
    let done = list.for_every_run(0..20, |_, _| true, page, |_| Err("run"));
    assert_eq!((done, pages), (Err("run"), vec![0, 1, 2]));
}

#[test]
fn vmpl_cursor_test() {
    let list = with_pages([0, 2, LEAF, 3 * LEAF]);
    let seen: Vec<_> = list.cursor(0).collect();
    let expected = (0..2 * LEAF).map(|at| (at, list.get(at)));
    assert!(
        seen.into_iter().eq(expected),
        "two leaves side by side, empty places too"
    );
    assert_eq!(list.cursor(LEAF).next(), Some((LEAF, page(LEAF))));
    assert_eq!(list.cursor(LEAF + 5).count() as u64, LEAF - 5);
    assert_eq!(list.cursor(2 * LEAF).next(), None, "no leaf");
    assert_eq!(list.cursor(3 * LEAF).count() as u64, LEAF);
    assert_eq!(list.cursor(POSITIONS).next(), None);
    list.insert(2 * LEAF + 1, page(0)).unwrap();
    assert_eq!(list.cursor(0).count() as u64, 4 * LEAF);
    let list = with_pages([SEGMENT - 1, SEGMENT]);
    let over: Vec<_> = list.cursor(SEGMENT - 1).take(2).collect();
    assert_eq!(
        over,
        [(SEGMENT - 1, page(SEGMENT - 1)), (SEGMENT, page(SEGMENT))]
    );
}

#[test]
fn vmpl_batch_inserter_test() {
    let mut list = list();
    let ordered = 0..3 * LEAF;
    let unordered = [
        SEGMENT + 5,
        SEGMENT,
        4 * LEAF,
        SEGMENT + 6,
        5 * LEAF,
        4 * LEAF + 1,
    ];
    let mut inserter = list.inserter();
    for at in ordered.clone().chain(unordered) {
        inserter.insert(at, page(at)).unwrap();
    }
    assert_eq!(
        inserter.insert(4 * LEAF + 1, page(9)),
        Err(VmoError::BadState)
    );
    assert_eq!(inserter.insert(0, page(9)), Err(VmoError::BadState));
    assert_eq!(
        inserter.insert(POSITIONS, page(9)),
        Err(VmoError::OutOfRange)
    );
    let mut expected: Vec<_> = ordered.chain(unordered).collect();
    expected.sort_unstable();
    assert!(
        all(&list)
            .into_iter()
            .eq(expected.iter().map(|&at| (at, page(at))))
    );
    let count = expected.len() as u32;
    assert_eq!(list.0.committed_and_content(), (count, count));
}

#[test]
fn vmpl_any_pages_in_range_test() {
    let list = with_pages([5, LEAF]);
    list.insert(3 * LEAF, Entry::Zero).unwrap();
    for (range, any) in [
        (0..5, false),
        (0..6, true),
        (5..6, true),
        (6..LEAF, false),
        (6..LEAF + 1, true),
        (LEAF + 1..3 * LEAF, false),
        (LEAF + 1..3 * LEAF + 1, true),
        (3 * LEAF + 1..POSITIONS, false),
        (0..POSITIONS, true),
        (5..5, false),
    ] {
        assert_eq!(list.any_in(range.clone()), any, "{range:?}");
    }
    let list = with_interval(
        LEAF..3 * LEAF,
        coldpress_engine::interval::DirtyState::Clean,
    );
    assert!(list.any_in(LEAF + 1..LEAF + 2), "inside an interval");
    assert!(!list.any_in(LEAF + 1..LEAF + 1) && !list.any_in(0..LEAF));
    assert!(!list.any_in(3 * LEAF..POSITIONS));
}
