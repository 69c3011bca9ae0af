//! Page lists behave as tables of pages, whatever is done to them: also where there is no memory for
//! what an operation needs, which must leave every page as it was.

use super::common::*;
#[allow(dead_code, reason = "each test file uses what it needs")]
use coldpress_engine::interval::{Bound, DirtyState};
use coldpress_engine::vmo::VmoError;
use coldpress_engine::vmo::pages::{List, Piece, Places, Splice};
use coldpress_engine::{Entry, Place};
use proptest::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

/// The list is looked at as far as this: four leaves and a bit, over the bound of two segments.
const FIRST: u64 = SEGMENT - 2 * LEAF;
const PAGES: u64 = 4 * LEAF + 10;

/// A list that finds no memory for new leaves while `refuses` is set.
struct Stingy {
    list: Alone,
    refuses: Rc<Cell<bool>>,
}

impl Places for Stingy {
    fn find(&self, at: u64) -> Option<Place> {
        self.list.find(at)
    }

    fn next(&self, from: u64) -> Option<(u64, Entry)> {
        self.list.next(from)
    }

    fn make(&self, at: u64) -> Result<Place, VmoError> {
        match self.refuses.get() {
            true => self.find(at).ok_or(VmoError::NoMemory),
            false => self.list.make(at),
        }
    }

    fn get(&self, place: Place) -> Entry {
        self.list.get(place)
    }

    fn put(&self, place: Place, entry: Entry) {
        self.list.put(place, entry);
    }

    fn free(&self, place: Place) {
        self.list.free(place);
    }

    fn prune(&self, positions: Range<u64>) {
        self.list.prune(positions);
    }

    fn may_have_intervals(&self) -> bool {
        self.list.may_have_intervals()
    }

    fn has_intervals(&self) {
        self.list.has_intervals();
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    Nothing,
    Held(Entry),
    Zeros(DirtyState),
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64),
    Batch(Vec<u64>),
    Remove(Range<u64>),
    Free(Range<u64>),
    Take(Range<u64>),
    AddInterval(Range<u64>, DirtyState),
    SetState(Range<u64>, DirtyState),
    Populate(Range<u64>),
    Return(u64),
    ClipStart(u64, u64),
    ClipEnd(u64, u64),
}

fn at() -> impl Strategy<Value = u64> {
    let bounds = [
        0,
        LEAF - 1,
        LEAF,
        2 * LEAF - 1,
        2 * LEAF,
        3 * LEAF,
        PAGES - 1,
    ];
    prop_oneof![0..PAGES, prop::sample::select(bounds.to_vec())].prop_map(|at| FIRST + at)
}

fn range() -> impl Strategy<Value = Range<u64>> {
    let len = prop_oneof![0..5u64, 0..PAGES];
    (at(), len).prop_map(|(at, len)| at..(at + len).min(FIRST + PAGES))
}

fn state() -> impl Strategy<Value = DirtyState> {
    prop::sample::select(vec![
        DirtyState::Untracked,
        DirtyState::Clean,
        DirtyState::Dirty,
        DirtyState::AwaitingClean,
    ])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => at().prop_map(Step::Insert),
        1 => prop::collection::vec(at(), 0..6).prop_map(Step::Batch),
        1 => range().prop_map(Step::Remove),
        1 => range().prop_map(Step::Free),
        1 => range().prop_map(Step::Take),
        6 => (range(), state()).prop_map(|(range, state)| Step::AddInterval(range, state)),
        4 => (range(), state()).prop_map(|(range, state)| Step::SetState(range, state)),
        2 => range().prop_map(Step::Populate),
        2 => at().prop_map(Step::Return),
        2 => (at(), 0..40u64).prop_map(|(at, pages)| Step::ClipStart(at, pages)),
        2 => (at(), 0..40u64).prop_map(|(at, pages)| Step::ClipEnd(at, pages)),
    ]
}

struct Run {
    list: List<Stingy>,
    refuses: Rc<Cell<bool>>,
    freed: Freed,
    model: Vec<Page>,
    inserted: u64,
}

impl Run {
    fn model(&mut self, range: &Range<u64>) -> &mut [Page] {
        &mut self.model[(range.start - FIRST) as usize..(range.end - FIRST) as usize]
    }

    fn held(&mut self, range: &Range<u64>) -> Vec<Entry> {
        let held = |page: &Page| match page {
            Page::Held(entry) => Some(*entry),
            _ => None,
        };
        self.model(range).iter().filter_map(held).collect()
    }

    /// What a step shall do, if it finds memory: `None` where it is refused.
    fn expect(&mut self, range: &Range<u64>, fits: fn(&Page) -> bool, new: Page) -> bool {
        let fit = self.model(range).iter().all(fits);
        if fit {
            self.model(range).fill(new);
        }
        fit
    }

    fn insert(&mut self, at: u64, done: Result<(), VmoError>, entry: Entry) {
        let free = |page: &Page| !matches!(page, Page::Held(_));
        if done != Err(VmoError::NoMemory) {
            let fits = self.expect(&(at..at + 1), free, Page::Held(entry));
            assert_eq!(
                done,
                if fits {
                    Ok(())
                } else {
                    Err(VmoError::BadState)
                }
            );
        }
    }

    /// Does a step to the list, then to the model as far as it was done.
    fn apply(&mut self, step: &Step) {
        let is_zeros = |page: &Page| matches!(page, Page::Zeros(_));
        let is_nothing = |page: &Page| matches!(page, Page::Nothing);
        match step.clone() {
            Step::Insert(at) => {
                self.inserted += 1;
                let entry = page(self.inserted);
                let done = self.list.insert(at, entry);
                self.insert(at, done, entry);
            }
            Step::Batch(at) => {
                let mut done = Vec::new();
                let mut inserter = self.list.inserter();
                for at in at {
                    self.inserted += 1;
                    let entry = page(self.inserted);
                    done.push((at, inserter.insert(at, entry), entry));
                }
                for (at, done, entry) in done {
                    self.insert(at, done, entry);
                }
            }
            Step::Remove(range) => {
                let mut removed = Vec::new();
                let done = self.list.remove_range(range.clone(), |_, entry| {
                    if !matches!(entry, Entry::ZeroInterval(..)) {
                        removed.push(entry);
                    }
                });
                if self.done(done) {
                    assert_eq!(removed, self.held(&range));
                    self.model(&range).fill(Page::Nothing);
                }
            }
            Step::Free(range) => {
                self.freed.borrow_mut().clear();
                let done = self.list.free_range(range.clone());
                if self.done(done) {
                    let freed = self.freed.take().into_iter();
                    let held = freed.filter(|entry| !matches!(entry, Entry::ZeroInterval(..)));
                    assert!(held.eq(self.held(&range)));
                    self.model(&range).fill(Page::Nothing);
                }
            }
            Step::Take(range) => {
                let mut splice = Splice::new(Stingy {
                    list: alone_with(10, &Freed::default()),
                    refuses: Rc::default(),
                });
                let done = self.list.take(range.clone(), &mut splice);
                if self.done(done) {
                    for page in self.model(&range) {
                        let entry = match *page {
                            Page::Nothing => Entry::Empty,
                            Page::Held(entry) => entry,
                            Page::Zeros(_) => Entry::Zero,
                        };
                        assert_eq!(splice.pop(), Some(entry));
                    }
                    assert_eq!(splice.pop(), None);
                    self.model(&range).fill(Page::Nothing);
                }
            }
            Step::AddInterval(range, state) => {
                let done = self.list.add_interval(range.clone(), state);
                if self.done_if_fits(done) {
                    let fits = self.expect(&range, is_nothing, Page::Zeros(state));
                    assert_eq!(
                        done,
                        if fits {
                            Ok(())
                        } else {
                            Err(VmoError::BadState)
                        }
                    );
                }
            }
            Step::SetState(range, state) => {
                let done = self.list.set_interval_state(range.clone(), state);
                if self.done_if_fits(done) {
                    let fits = self.expect(&range, is_zeros, Page::Zeros(state));
                    assert_eq!(
                        done,
                        if fits {
                            Ok(())
                        } else {
                            Err(VmoError::BadState)
                        }
                    );
                }
            }
            Step::Populate(range) => {
                let done = self.list.populate_slots(range.clone());
                if self.done_if_fits(done) {
                    let fits = self.model(&range).iter().all(is_zeros);
                    assert_eq!(
                        done,
                        if fits {
                            Ok(())
                        } else {
                            Err(VmoError::BadState)
                        }
                    );
                    for at in range.filter(|_| fits) {
                        let one = matches!(self.list.get(at), Entry::ZeroInterval(Bound::One, _));
                        assert!(one, "position {at} is no slot");
                    }
                }
            }
            Step::Return(at) => {
                let one = matches!(self.list.get(at), Entry::ZeroInterval(Bound::One, _));
                assert_eq!(self.list.return_slot(at).is_ok(), one);
            }
            Step::ClipStart(at, pages) => {
                let done = self.list.clip_start(at, pages);
                if done.is_ok() {
                    let clipped = at..at + pages;
                    assert!(self.model(&clipped).iter().all(is_zeros));
                    self.model(&clipped).fill(Page::Nothing);
                }
            }
            Step::ClipEnd(at, pages) => {
                let done = self.list.clip_end(at, pages);
                if done.is_ok() {
                    let clipped = at + 1 - pages..at + 1;
                    assert!(self.model(&clipped).iter().all(is_zeros));
                    self.model(&clipped).fill(Page::Nothing);
                }
            }
        }
    }

    fn done(&self, done: Result<(), VmoError>) -> bool {
        match done {
            Ok(()) => true,
            error => {
                assert_eq!(error, Err(VmoError::NoMemory));
                assert!(self.refuses.get());
                false
            }
        }
    }

    fn done_if_fits(&self, done: Result<(), VmoError>) -> bool {
        done == Err(VmoError::BadState) || self.done(done)
    }

    /// Each page is what the model says, walks tell the same, and Z1 holds.
    fn check(&self) {
        let mut gaps = Vec::new();
        let mut open = None;
        let mut held = 0;
        for (at, page) in (FIRST..).zip(&self.model) {
            let entry = self.list.get(at);
            match (*page, entry) {
                (Page::Nothing, Entry::Empty) => {
                    assert_eq!(self.list.interval_at(at), None, "position {at}");
                    match gaps.last_mut() {
                        Some(Piece::Gap(gap)) if gap.end == at => gap.end += 1,
                        _ => gaps.push(Piece::Gap(at..at + 1)),
                    }
                }
                (Page::Held(expected), found) => {
                    held += 1;
                    assert_eq!(found, expected);
                    assert_eq!(self.list.interval_at(at), None, "position {at}");
                }
                (Page::Zeros(state), Entry::Empty) => {
                    assert_eq!(self.list.interval_at(at), Some(state), "position {at}");
                    assert_eq!(open, Some(state), "Z1");
                }
                (Page::Zeros(state), Entry::ZeroInterval(bound, found)) => {
                    assert_eq!(found, state);
                    let before = open.take();
                    match bound {
                        Bound::Start => open = Some(state),
                        Bound::End => assert_eq!(before, Some(state), "Z1"),
                        Bound::One => {}
                    }
                    assert_eq!(before.is_some(), bound == Bound::End, "Z1");
                }
                (page, found) => panic!("position {at}: {found:?}, not {page:?}"),
            }
            assert_eq!(self.list.any_in(at..at + 1), *page != Page::Nothing);
            assert!(open.is_none() || matches!(page, Page::Zeros(_)), "Z1");
        }
        assert_eq!(open, None, "Z1");
        let mut found = pieces(&self.list, FIRST..FIRST + PAGES);
        found.retain(|piece| matches!(piece, Piece::Gap(_)));
        assert_eq!(found, gaps);
        assert_eq!(self.list.0.list.committed_and_content(), (held, held));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn page_lists_behave_as_tables_of_pages(
        steps in prop::collection::vec((step(), prop::bool::weighted(0.2)), 1..60)
    ) {
        let (refuses, freed) = (Rc::new(Cell::new(false)), Freed::default());
        let stingy = Stingy { list: alone_with(10, &freed), refuses: refuses.clone() };
        let mut run = Run {
            list: List(stingy),
            refuses,
            freed,
            model: vec![Page::Nothing; PAGES as usize],
            inserted: 0,
        };
        for (step, refuses) in steps {
            run.refuses.set(refuses);
            run.apply(&step);
            run.check();
        }
        run.refuses.set(true);
        run.list.free_range(0..u64::MAX).unwrap();
        prop_assert!(run.list.is_empty());
        prop_assert_eq!(run.list.0.list.tables_in_use(), (0, 0), "tables are given back");
    }
}
