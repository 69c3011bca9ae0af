//! Promise: zero intervals behave as the cases of Zircon's page list tests ask (suite `vmpl`), each
//! written anew for our lists. Our leaves have 64 pages. Awaiting-clean lengths, which Zircon keeps for
//! an interval whose start is being written back, are not kept: an interval has one state.

use super::common::*;
#[allow(dead_code, reason = "each test file uses what it needs")]
use DirtyState::{Clean, Dirty, Untracked};
use coldpress_engine::Entry;
use coldpress_engine::interval::DirtyState;
use coldpress_engine::vmo::VmoError;
use coldpress_engine::vmo::pages::{List, POSITIONS, Piece, Splice, Walk};

/// What each page of the first leaves is towards its pager.
fn states(list: &List<Alone>, pages: u64) -> Vec<Option<DirtyState>> {
    (0..pages).map(|at| list.interval_at(at)).collect()
}

#[test]
fn vmpl_interval_single_node_test() {
    let list = with_interval(1..5, Dirty);
    assert_eq!(all(&list), [(1, start(Dirty)), (4, end(Dirty))]);
    let inside = Some(Dirty);
    let expected = [None, inside, inside, inside, inside, None, None];
    assert_eq!(states(&list, 7), expected);
    assert_eq!(gaps(&list, 0..7), [0..1, 5..7]);
    assert_eq!(list.0.committed_and_content(), (0, 0));
    assert_eq!(list.add_interval(4..6, Dirty), Err(VmoError::BadState));
    assert_eq!(list.add_interval(2..3, Dirty), Err(VmoError::BadState));
    assert_eq!(list.add_interval(9..9, Dirty), Ok(()));
    assert_eq!(all(&list).len(), 2);
}

#[test]
fn vmpl_interval_multiple_nodes_test() {
    // A leaf that does not exist lies between its ends; then a terabyte of them.
    for end_of in [2 * LEAF + 3, 1 << 28, POSITIONS] {
        let list = with_interval(LEAF - 2..end_of, Clean);
        assert_eq!(
            all(&list),
            [(LEAF - 2, start(Clean)), (end_of - 1, end(Clean))]
        );
        assert_eq!(list.interval_at(LEAF), Some(Clean));
        assert_eq!(list.get(LEAF), Entry::Empty);
        let (segments, leaves) = list.0.tables_in_use();
        assert!(
            segments <= 2 && leaves == 2,
            "two entries, whatever its length"
        );
        let before = 0..LEAF - 2;
        assert_eq!(gaps(&list, 0..end_of), std::slice::from_ref(&before));
        assert_eq!(list.interval_at(end_of), None);
    }
}

#[test]
fn vmpl_interval_traversal_test() {
    let list = with_interval(LEAF..3 * LEAF, Dirty);
    let (first, last) = (
        Piece::Entry(LEAF, start(Dirty)),
        Piece::Entry(3 * LEAF - 1, end(Dirty)),
    );
    // Begins before, ends inside; begins inside, ends behind; lies inside; all of it.
    let before = Piece::Gap(0..LEAF);
    let behind = Piece::Gap(3 * LEAF..4 * LEAF);
    let begins = pieces(&list, 0..2 * LEAF);
    assert_eq!(begins, [before.clone(), first.clone()]);
    let ends = pieces(&list, 2 * LEAF..4 * LEAF);
    assert_eq!(ends, [last.clone(), behind.clone()]);
    assert_eq!(pieces(&list, LEAF + 1..3 * LEAF - 1), []);
    assert_eq!(pieces(&list, LEAF + 1..LEAF + 2), []);
    assert_eq!(pieces(&list, 0..4 * LEAF), [before, first, last, behind]);
    assert_eq!(entries(&list, LEAF + 1..3 * LEAF - 1), []);
}

#[test]
fn vmpl_interval_merge_test() {
    let list = with_interval(5..10, Dirty);
    // To the right, to the left, another state, a gap, both sides at once, slots.
    list.add_interval(10..20, Dirty).unwrap();
    assert_eq!(all(&list), [(5, start(Dirty)), (19, end(Dirty))]);
    list.add_interval(2..5, Dirty).unwrap();
    assert_eq!(all(&list), [(2, start(Dirty)), (19, end(Dirty))]);
    list.add_interval(20..22, Clean).unwrap();
    let two = [
        (2, start(Dirty)),
        (19, end(Dirty)),
        (20, start(Clean)),
        (21, end(Clean)),
    ];
    assert_eq!(all(&list), two);
    list.add_interval(23..24, Clean).unwrap();
    assert_eq!(all(&list)[4..], [(23, slot(Clean))]);
    list.add_interval(22..23, Clean).unwrap();
    assert_eq!(all(&list)[2..], [(20, start(Clean)), (23, end(Clean))]);

    let list = with_interval(LEAF - 1..LEAF, Untracked);
    list.add_interval(LEAF..LEAF + 1, Untracked).unwrap();
    let joined = [(LEAF - 1, start(Untracked)), (LEAF, end(Untracked))];
    assert_eq!(all(&list), joined, "over the bound of a leaf");
    list.add_interval(LEAF + 1..3 * LEAF, Untracked).unwrap();
    assert_eq!(
        list.0.tables_in_use(),
        (1, 2),
        "leaves between are given back"
    );
}

#[test]
fn vmpl_interval_add_page_test() {
    let list = with_interval(0..3 * LEAF, Dirty);
    list.insert(LEAF + 5, page(7)).unwrap();
    let expected = [
        (0, start(Dirty)),
        (LEAF + 4, end(Dirty)),
        (LEAF + 5, page(7)),
        (LEAF + 6, start(Dirty)),
        (3 * LEAF - 1, end(Dirty)),
    ];
    assert_eq!(all(&list), expected);
    assert_eq!(list.interval_at(LEAF + 5), None);
    assert_eq!(list.insert(LEAF + 5, page(8)), Err(VmoError::BadState));
    let list = with_interval(0..3 * LEAF, Dirty);
    list.insert(LEAF, page(7)).unwrap();
    let edge = [
        (0, start(Dirty)),
        (LEAF - 1, end(Dirty)),
        (LEAF, page(7)),
        (LEAF + 1, start(Dirty)),
        (3 * LEAF - 1, end(Dirty)),
    ];
    assert_eq!(all(&list), edge, "its neighbours are in other leaves");
    let (first, second) = (interval(0..LEAF), interval(LEAF + 1..3 * LEAF));
    let found = runs(&list, 0..3 * LEAF, |_, _| true).1;
    assert_eq!(found, [first, run(LEAF..LEAF + 1), second]);
}

#[test]
fn vmpl_interval_add_page_slots_test() {
    let list = with_interval(4..7, Dirty);
    list.insert(5, page(1)).unwrap();
    assert_eq!(
        all(&list),
        [(4, slot(Dirty)), (5, page(1)), (6, slot(Dirty))]
    );
}

#[test]
fn vmpl_interval_add_page_start_test() {
    let list = with_interval(LEAF - 2..LEAF + 2, Dirty);
    for done in 1..4 {
        let at = LEAF - 3 + done;
        list.insert(at, page(at)).unwrap();
        let rest = &all(&list)[done as usize..];
        match done {
            3 => assert_eq!(rest, [(LEAF + 1, slot(Dirty))]),
            _ => assert_eq!(rest, [(at + 1, start(Dirty)), (LEAF + 1, end(Dirty))]),
        }
    }
    assert_eq!(list.get(LEAF - 2), page(LEAF - 2));
}

#[test]
fn vmpl_interval_add_page_end_test() {
    let list = with_interval(LEAF - 2..LEAF + 2, Dirty);
    for done in 1..4 {
        let at = LEAF + 2 - done;
        list.insert(at, page(at)).unwrap();
        let found = all(&list);
        let rest = &found[..found.len() - done as usize];
        match done {
            3 => assert_eq!(rest, [(LEAF - 2, slot(Dirty))]),
            _ => assert_eq!(rest, [(LEAF - 2, start(Dirty)), (at - 1, end(Dirty))]),
        }
    }
}

#[test]
fn vmpl_interval_replace_slot_test() {
    let list = with_interval(3..4, Clean);
    assert_eq!(all(&list), [(3, slot(Clean))]);
    list.insert(3, page(3)).unwrap();
    assert_eq!(all(&list), [(3, page(3))]);
    assert_eq!(gaps(&list, 0..10), [0..3, 4..10]);
}

#[test]
fn vmpl_interval_contig_full_test() {
    let list = with_interval(3..2 * LEAF, Dirty);
    list.insert(2, page(2)).unwrap();
    list.insert(2 * LEAF, page(0)).unwrap();
    let (pages, found) = runs(&list, 0..3 * LEAF, |_, _| true);
    assert_eq!(
        pages,
        [2, 3, 2 * LEAF - 1, 2 * LEAF],
        "its ends stand for it"
    );
    let whole = interval(3..2 * LEAF);
    assert_eq!(found, [run(2..3), whole, run(2 * LEAF..2 * LEAF + 1)]);
    let list = with_interval(5..6, Dirty);
    assert_eq!(
        runs(&list, 0..9, |_, _| true),
        (vec![5], vec![interval(5..6)])
    );
}

#[test]
fn vmpl_interval_contig_partial_test() {
    let list = with_interval(LEAF..3 * LEAF, Dirty);
    let (first, last) = (LEAF, 3 * LEAF - 1);
    for (range, pages, part) in [
        (0..2 * LEAF, vec![first], LEAF..2 * LEAF),
        (2 * LEAF..4 * LEAF, vec![last], 2 * LEAF..3 * LEAF),
        (LEAF + 1..last, vec![], LEAF + 1..last),
        (LEAF..last, vec![first], LEAF..last),
        (LEAF + 1..last + 1, vec![last], LEAF + 1..last + 1),
    ] {
        assert_eq!(
            runs(&list, range, |_, _| true),
            (pages, vec![interval(part)])
        );
    }
    assert_eq!(runs(&list, 0..LEAF, |_, _| true), (vec![], vec![]));
    // A page that stops the walk is an end of the interval: the interval is still told.
    let mut found = Vec::new();
    let stop = |_, _| Ok::<_, ()>(Walk::Stop);
    list.for_every_run(
        0..4 * LEAF,
        |_, _| true,
        stop,
        |run| {
            found.push(run);
            Ok(Walk::On)
        },
    )
    .unwrap();
    assert_eq!(found, [interval(LEAF..3 * LEAF)]);
}

#[test]
fn vmpl_interval_contig_compare_test() {
    let list = with_interval(4..9, Dirty);
    list.insert(9, page(9)).unwrap();
    let after = run(9..10);
    let (pages, found) = runs(&list, 0..20, |at, _| at != 8);
    assert_eq!((pages, found), (vec![4, 9], vec![after.clone()]));
    let (pages, found) = runs(&list, 0..20, |at, _| at != 4);
    assert_eq!((pages, found), (vec![8, 9], vec![after]));
    let none = runs(&list, 0..9, |_, entry| matches!(entry, Entry::Page(_)));
    assert_eq!(none, (vec![], vec![]));
    let inside = runs(&list, 5..7, |_, entry| entry == end(Clean));
    assert_eq!(
        inside,
        (vec![], vec![]),
        "the end that the range does not reach is asked"
    );
}

#[test]
fn vmpl_interval_populate_full_test() {
    let list = with_interval(LEAF - 2..LEAF + 2, Dirty);
    list.populate_slots(LEAF - 2..LEAF + 2).unwrap();
    let slots: Vec<_> = (LEAF - 2..LEAF + 2).map(|at| (at, slot(Dirty))).collect();
    assert_eq!(all(&list), slots);
    assert_eq!(list.populate_slots(LEAF - 3..LEAF), Err(VmoError::BadState));
    assert_eq!(list.populate_slots(LEAF..LEAF + 3), Err(VmoError::BadState));
    assert_eq!(all(&list), slots, "and nothing was done");
}

#[test]
fn vmpl_interval_populate_partial_test() {
    let list = with_interval(0..10, Dirty);
    list.populate_slots(3..6).unwrap();
    let expected = [
        (0, start(Dirty)),
        (2, end(Dirty)),
        (3, slot(Dirty)),
        (4, slot(Dirty)),
        (5, slot(Dirty)),
        (6, start(Dirty)),
        (9, end(Dirty)),
    ];
    assert_eq!(all(&list), expected);
    assert_eq!(gaps(&list, 0..10), []);
}

#[test]
fn vmpl_interval_populate_start_test() {
    let list = with_interval(2..10, Dirty);
    list.populate_slots(2..4).unwrap();
    let rest = [(4, start(Dirty)), (9, end(Dirty))];
    assert_eq!(all(&list)[..2], [(2, slot(Dirty)), (3, slot(Dirty))]);
    assert_eq!(all(&list)[2..], rest);
}

#[test]
fn vmpl_interval_populate_end_test() {
    let list = with_interval(2..10, Dirty);
    list.populate_slots(8..10).unwrap();
    assert_eq!(all(&list)[..2], [(2, start(Dirty)), (7, end(Dirty))]);
    assert_eq!(all(&list)[2..], [(8, slot(Dirty)), (9, slot(Dirty))]);
}

#[test]
fn vmpl_interval_populate_slot_test() {
    for at in [2, 5, 9] {
        let list = with_interval(2..10, Dirty);
        let before = all(&list);
        list.populate_slots(at..at + 1).unwrap();
        assert_eq!(list.get(at), slot(Dirty));
        let once = all(&list);
        list.populate_slots(at..at + 1).unwrap();
        assert_eq!(all(&list), once, "twice is once");
        list.return_slot(at).unwrap();
        assert_eq!(all(&list), before);
        assert_eq!(list.return_slot(at + 10), Err(VmoError::BadState));
    }
    let list = with_interval(5..6, Dirty);
    list.populate_slots(5..6).unwrap();
    list.return_slot(5).unwrap();
    assert_eq!(all(&list), [(5, slot(Dirty))], "a slot by itself");
}

#[test]
fn vmpl_interval_overwrite_full_test() {
    let list = with_interval(LEAF - 3..2 * LEAF, Dirty);
    list.set_interval_state(LEAF - 3..2 * LEAF, Clean).unwrap();
    assert_eq!(
        all(&list),
        [(LEAF - 3, start(Clean)), (2 * LEAF - 1, end(Clean))]
    );
    assert_eq!(list.interval_at(LEAF), Some(Clean));
    assert_eq!(
        list.set_interval_state(0..LEAF, Dirty),
        Err(VmoError::BadState)
    );
    let beyond = list.set_interval_state(LEAF..2 * LEAF + 1, Dirty);
    assert_eq!(beyond, Err(VmoError::BadState));
    assert_eq!(all(&list).len(), 2, "and nothing was done");
}

#[test]
fn vmpl_interval_overwrite_start_test() {
    let list = with_interval(0..10, Dirty);
    list.set_interval_state(0..4, Clean).unwrap();
    let expected = [
        (0, start(Clean)),
        (3, end(Clean)),
        (4, start(Dirty)),
        (9, end(Dirty)),
    ];
    assert_eq!(all(&list), expected);
    list.set_interval_state(4..5, Untracked).unwrap();
    assert_eq!(
        all(&list)[2..],
        [(4, slot(Untracked)), (5, start(Dirty)), (9, end(Dirty))]
    );
}

#[test]
fn vmpl_interval_overwrite_end_test() {
    let list = with_interval(0..10, Dirty);
    list.set_interval_state(6..10, Clean).unwrap();
    let expected = [
        (0, start(Dirty)),
        (5, end(Dirty)),
        (6, start(Clean)),
        (9, end(Clean)),
    ];
    assert_eq!(all(&list), expected);
}

#[test]
fn vmpl_interval_overwrite_slot_test() {
    let list = with_interval(7..8, Dirty);
    list.set_interval_state(7..8, Clean).unwrap();
    assert_eq!(all(&list), [(7, slot(Clean))]);
    list.set_interval_state(7..8, Clean).unwrap();
    assert_eq!(all(&list), [(7, slot(Clean))]);
}

#[test]
fn vmpl_interval_overwrite_merge_left_test() {
    let list = with_interval(0..4, Clean);
    list.add_interval(4..10, Dirty).unwrap();
    list.set_interval_state(4..6, Clean).unwrap();
    let expected = [
        (0, start(Clean)),
        (5, end(Clean)),
        (6, start(Dirty)),
        (9, end(Dirty)),
    ];
    assert_eq!(all(&list), expected);
}

#[test]
fn vmpl_interval_overwrite_merge_right_test() {
    let list = with_interval(0..6, Dirty);
    list.add_interval(6..10, Clean).unwrap();
    list.set_interval_state(4..6, Clean).unwrap();
    let expected = [
        (0, start(Dirty)),
        (3, end(Dirty)),
        (4, start(Clean)),
        (9, end(Clean)),
    ];
    assert_eq!(all(&list), expected);
}

#[test]
fn vmpl_interval_overwrite_merge_slots_test() {
    let list = with_interval(4..5, Clean);
    list.add_interval(5..6, Dirty).unwrap();
    list.add_interval(6..7, Clean).unwrap();
    assert_eq!(
        all(&list),
        [(4, slot(Clean)), (5, slot(Dirty)), (6, slot(Clean))]
    );
    list.set_interval_state(5..6, Clean).unwrap();
    assert_eq!(all(&list), [(4, start(Clean)), (6, end(Clean))]);
}

#[test]
fn vmpl_interval_clip_start_test() {
    let list = with_interval(LEAF - 2..2 * LEAF, Dirty);
    list.clip_start(LEAF - 2, 4).unwrap();
    assert_eq!(
        all(&list),
        [(LEAF + 2, start(Dirty)), (2 * LEAF - 1, end(Dirty))]
    );
    assert_eq!(list.0.tables_in_use(), (1, 1));
    list.clip_start(LEAF + 2, 0).unwrap();
    assert_eq!(
        list.clip_start(LEAF + 2, LEAF - 2),
        Err(VmoError::BadState),
        "all of it"
    );
    assert_eq!(
        list.clip_start(LEAF + 3, 1),
        Err(VmoError::BadState),
        "not its start"
    );
    list.clip_start(LEAF + 2, LEAF - 3).unwrap();
    assert_eq!(all(&list), [(2 * LEAF - 1, slot(Dirty))]);
}

#[test]
fn vmpl_interval_clip_end_test() {
    let list = with_interval(LEAF - 2..2 * LEAF, Dirty);
    list.clip_end(2 * LEAF - 1, LEAF).unwrap();
    assert_eq!(
        all(&list),
        [(LEAF - 2, start(Dirty)), (LEAF - 1, end(Dirty))]
    );
    assert_eq!(
        list.clip_end(LEAF - 1, 2),
        Err(VmoError::BadState),
        "all of it"
    );
    assert_eq!(
        list.clip_end(LEAF - 2, 1),
        Err(VmoError::BadState),
        "not its end"
    );
    list.clip_end(LEAF - 1, 1).unwrap();
    assert_eq!(all(&list), [(LEAF - 2, slot(Dirty))]);
    let list = with_interval(0..3, Dirty);
    list.add_interval(5..9, Dirty).unwrap();
    assert_eq!(list.clip_end(8, 4), Err(VmoError::BadState));
    assert_eq!(list.clip_end(8, 7), Err(VmoError::BadState), "into another");
}

/// Not a case of Zircon's: an interval that is taken is an interval on its way, and zeros to who pops.
#[test]
fn an_interval_can_be_taken_in_part() {
    let list = with_interval(2..1 << 30, Dirty);
    let freed = Freed::default();
    let mut splice = Splice::new(alone_with(2, &freed));
    list.take(0..1 << 20, &mut splice).unwrap();
    assert_eq!(
        all(&list),
        [(1 << 20, start(Dirty)), ((1 << 30) - 1, end(Dirty))]
    );
    assert_eq!(splice.len(), 1 << 20);
    for expected in [Entry::Empty, Entry::Empty, Entry::Zero, Entry::Zero] {
        assert_eq!(splice.pop(), Some(expected));
    }
    list.free_range((1 << 20) + 5..1 << 30).unwrap();
    assert_eq!(
        all(&list),
        [(1 << 20, start(Dirty)), ((1 << 20) + 4, end(Dirty))]
    );
    assert_eq!(list.remove((1 << 20) + 1), Ok(slot(Dirty)));
    assert_eq!(list.interval_at((1 << 20) + 1), None);
}
