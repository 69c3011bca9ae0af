//! Promise: ranges of zeros in page lists are found, and the gaps between them, wherever one looks. What
//! Zircon's region list cases (suite `aspace`) ask is asked here of these; of regions the engine has no
//! list, so these are no tests of those cases.

use super::common::*;
#[allow(dead_code, reason = "each test file uses what it needs")]
use coldpress_engine::Entry;
use coldpress_engine::vmo::pages::{Bound, DirtyState, List, POSITIONS, Walk};
use std::convert::Infallible;
use std::ops::Range;

/// A list with these ranges, in the order given. Those that touch are in different states, or they
/// would be one.
fn list_of(ranges: &[Range<u64>]) -> List<Alone> {
    let list = list();
    for range in ranges {
        let before = range.start.checked_sub(1);
        let touched = [before, Some(range.end)].map(|at| at.and_then(|at| list.interval_at(at)));
        let states = [DirtyState::Clean, DirtyState::Dirty, DirtyState::Untracked];
        let state = states
            .into_iter()
            .find(|&state| !touched.contains(&Some(state)));
        list.add_interval(range.clone(), state.unwrap()).unwrap();
    }
    list
}

/// The first bound from `from` on that is one of these.
fn next_bound(list: &List<Alone>, from: u64, bounds: [Bound; 2]) -> Option<u64> {
    let mut found = None;
    let visit = |at, entry| match entry {
        Entry::ZeroInterval(bound, _) if bounds.contains(&bound) => {
            found = Some(at);
            Ok::<_, Infallible>(Walk::Stop)
        }
        _ => Ok(Walk::On),
    };
    list.for_every(from..POSITIONS, visit).unwrap();
    found
}

/// The last position of the range that holds one.
fn last_of(list: &List<Alone>, at: u64) -> Option<u64> {
    list.interval_at(at)?;
    next_bound(list, at, [Bound::End, Bound::One])
}

/// Where the first range begins that begins at `at` or behind.
fn first_from(list: &List<Alone>, at: u64) -> Option<u64> {
    next_bound(list, at, [Bound::Start, Bound::One])
}

/// Near, far apart, touching, of one page, at both ends of what there is; in no order.
const RANGES: [Range<u64>; 7] = [
    5000..5001,
    100..200,
    POSITIONS - 10..POSITIONS,
    0..1,
    200..1000,
    1 << 30..1 << 40,
    3000..4000,
];

fn sorted() -> Vec<Range<u64>> {
    let mut ranges = RANGES.to_vec();
    ranges.sort_by_key(|range| range.start);
    ranges
}

/// Positions at and around every bound.
fn probes() -> impl Iterator<Item = u64> {
    let bounds = RANGES
        .into_iter()
        .flat_map(|range| [range.start, range.end]);
    let near = bounds.flat_map(|at| at.saturating_sub(2)..=at.saturating_add(2));
    near.filter(|&at| at < POSITIONS)
}

#[test]
fn the_range_that_holds_a_page_is_found() {
    let list = list_of(&RANGES);
    assert_eq!(last_of(&list, 150), Some(199));
    assert_eq!(last_of(&list, 1 << 35), Some((1 << 40) - 1));
    for at in probes() {
        let holding = RANGES.into_iter().find(|range| range.contains(&at));
        let last = holding.map(|range| range.end - 1);
        assert_eq!(last_of(&list, at), last, "{at}");
    }
    assert_eq!(last_of(&list_of(&[]), 7), None);
}

#[test]
fn the_range_that_holds_a_page_or_the_next_is_found() {
    let list = list_of(&RANGES);
    for at in probes() {
        let expected = sorted().into_iter().find(|range| at < range.end);
        // The range that holds it ends where `last_of` says; else the next begins above.
        let found = match last_of(&list, at) {
            Some(last) => Some(last),
            None => first_from(&list, at).and_then(|first| last_of(&list, first)),
        };
        assert_eq!(found, expected.map(|range| range.end - 1), "{at}");
    }
    assert_eq!(
        first_from(&list_of(std::slice::from_ref(&(3..5))), 5),
        None,
        "nothing behind the last"
    );
}

#[test]
fn the_next_range_is_found() {
    let list = list_of(&RANGES);
    for at in probes() {
        let above = sorted().into_iter().find(|range| range.start > at);
        let found = first_from(&list, at + 1);
        assert_eq!(found, above.map(|range| range.start), "{at}");
    }
}

#[test]
fn where_nothing_is_there_is_room() {
    let list = list_of(&RANGES);
    for start in probes() {
        for end in probes().chain([start + 1]).filter(|&end| end > start) {
            let overlaps = |range: &Range<u64>| range.start < end && start < range.end;
            let taken = RANGES.iter().any(overlaps);
            assert_eq!(list.any_in(start..end), taken, "{start}..{end}");
            if taken {
                // And so it is refused, and nothing has changed.
                assert!(list.add_interval(start..end, DirtyState::Clean).is_err());
            }
        }
        assert!(!list.any_in(start..start), "nothing fits everywhere");
    }
    let bounds = all(&list).len();
    assert_eq!(
        bounds,
        2 * RANGES.len() - 2,
        "two entries each, one for a page"
    );
}
