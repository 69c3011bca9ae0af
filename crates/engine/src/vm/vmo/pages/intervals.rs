//! Zero intervals in a page list: adding, splitting, expanding, changing their state, clipping.

use super::{Bound, DirtyState, List, POSITIONS, Places};
use crate::pages::entry::Entry::{self, Empty, ZeroInterval};
use crate::vm::vmo::VmoError;
use Bound::{End, One, Start};
use core::ops::Range;

impl<P: Places> List<P> {
    /// The state of the interval that a position is inside of.
    pub fn interval_at(&self, at: u64) -> Option<DirtyState> {
        if !self.0.may_have_intervals() {
            return None;
        }
        match self.0.next(at)? {
            (next, ZeroInterval(bound, state)) if next == at || bound == End => Some(state),
            _ => None,
        }
    }

    /// Makes the pages of a range, of which nothing is remembered, an interval. It joins those that
    /// it touches and that are in the same state.
    ///
    /// # Errors
    /// `BadState`: something is remembered of the range. `NoMemory`: no table for its ends.
    pub fn add_interval(&self, range: Range<u64>, state: DirtyState) -> Result<(), VmoError> {
        if range.end > POSITIONS || range.start > range.end {
            return Err(VmoError::OutOfRange);
        }
        if self.any_in(range.clone()) {
            return Err(VmoError::BadState);
        }
        if range.is_empty() {
            return Ok(());
        }
        let first = self.0.make(range.start)?;
        let last = self.0.make(range.end - 1)?;
        self.0.has_intervals();
        if first == last {
            self.0.put(first, ZeroInterval(One, state));
        } else {
            self.0.put(first, ZeroInterval(Start, state));
            self.0.put(last, ZeroInterval(End, state));
        }
        self.join(range.start);
        self.join(range.end);
        Ok(())
    }

    /// Makes each page of a range, which is inside intervals, a slot: a place that can take a page
    /// without needing memory. Doing so twice is the same as once.
    ///
    /// # Errors
    /// `BadState`: not all of it is inside intervals. `NoMemory`: some are slots already, which
    /// changes nothing of what they are.
    pub fn populate_slots(&self, range: Range<u64>) -> Result<(), VmoError> {
        self.check_inside(&range)?;
        (range.start..=range.end).try_for_each(|at| self.cut(at))
    }

    /// Has a slot, which was made one but took no page, join what it touches again.
    ///
    /// # Errors
    /// `BadState`: it is no slot.
    pub fn return_slot(&self, at: u64) -> Result<(), VmoError> {
        if !matches!(self.get(at), ZeroInterval(One, _)) {
            return Err(VmoError::BadState);
        }
        self.join(at);
        self.join(at + 1);
        Ok(())
    }

    /// Changes the state of the pages of a range, which is inside intervals.
    ///
    /// # Errors
    /// `BadState`: not all of it is inside intervals. `NoMemory`: nothing has changed.
    pub fn set_interval_state(&self, range: Range<u64>, state: DirtyState) -> Result<(), VmoError> {
        self.check_inside(&range)?;
        self.isolate(&range)?;
        self.each_place(&range, |_, place| {
            if let ZeroInterval(bound, _) = self.0.get(place) {
                self.0.put(place, ZeroInterval(bound, state));
            }
        });
        self.each_place(&range, |at, _| self.join(at));
        self.join(range.end);
        Ok(())
    }

    /// Takes the first pages of an interval, whose `Start` is at `start`, out of it: not all.
    ///
    /// # Errors
    /// `BadState`: there is no such interval, or it is not longer. `NoMemory`: nothing has changed.
    pub fn clip_start(&self, start: u64, pages: u64) -> Result<(), VmoError> {
        let (ZeroInterval(Start, state), Some((end, _))) =
            (self.get(start), self.0.next(start + 1))
        else {
            return Err(VmoError::BadState);
        };
        let new = start.saturating_add(pages);
        if new > end {
            return Err(VmoError::BadState);
        }
        if pages > 0 {
            self.put_at(new, if new == end { One } else { Start }, state)?;
            self.empty(start);
        }
        Ok(())
    }

    /// Takes the last pages of an interval, whose `End` is at `end`, out of it: not all.
    ///
    /// # Errors
    /// `BadState`: there is no such interval, or it is not longer. `NoMemory`: nothing has changed.
    pub fn clip_end(&self, end: u64, pages: u64) -> Result<(), VmoError> {
        let (ZeroInterval(End, state), Some(new)) = (self.get(end), end.checked_sub(pages)) else {
            return Err(VmoError::BadState);
        };
        if pages == 0 {
            return Ok(());
        }
        let bound = match self.0.next(new) {
            Some((at, ZeroInterval(End, _))) if at == end => End,
            Some((at, ZeroInterval(Start, _))) if at == new && self.ends_at(new + 1, end) => One,
            _ => return Err(VmoError::BadState),
        };
        self.put_at(new, bound, state)?;
        self.empty(end);
        Ok(())
    }

    /// Has no interval reach over the bounds of a range.
    pub(in crate::vm::vmo) fn isolate(&self, range: &Range<u64>) -> Result<(), VmoError> {
        self.cut(range.start)?;
        self.cut(range.end)
    }

    /// Makes the places that an interval over a range, which is not empty, needs.
    pub(in crate::vm::vmo) fn reserve(&self, range: &Range<u64>) -> Result<(), VmoError> {
        self.isolate(range)?;
        self.0.make(range.start)?;
        self.0.make(range.end - 1).map(|_| ())
    }

    /// Splits the interval that both `at` and the position before are inside of, if there is one.
    fn cut(&self, at: u64) -> Result<(), VmoError> {
        if at == 0 || !self.0.may_have_intervals() {
            return Ok(());
        }
        let Some((_, ZeroInterval(End, state))) = self.0.next(at) else {
            return Ok(());
        };
        let (before, here) = (self.0.make(at - 1)?, self.0.make(at)?);
        let whole = |entry: Entry, one: Bound, part: Bound| match entry {
            ZeroInterval(bound, _) if bound == one => ZeroInterval(One, state),
            _ => ZeroInterval(part, state),
        };
        self.0.put(before, whole(self.0.get(before), Start, End));
        self.0.put(here, whole(self.0.get(here), End, Start));
        Ok(())
    }

    /// Joins the intervals that end before `at` and begin there, if they are in the same state.
    pub(super) fn join(&self, at: u64) {
        if at == 0 || at >= POSITIONS {
            return;
        }
        let (Some(before), Some(here)) = (self.0.find(at - 1), self.0.find(at)) else {
            return;
        };
        match (self.0.get(before), self.0.get(here)) {
            (
                ZeroInterval(left @ (End | One), state),
                ZeroInterval(right @ (Start | One), same),
            ) if state == same => {
                let first = if left == One {
                    ZeroInterval(Start, state)
                } else {
                    Empty
                };
                let last = if right == One {
                    ZeroInterval(End, state)
                } else {
                    Empty
                };
                self.0.put(before, first);
                self.0.put(here, last);
                self.0.prune(at - 1..at + 1);
            }
            _ => {}
        }
    }

    /// All of a range is inside intervals.
    fn check_inside(&self, range: &Range<u64>) -> Result<(), VmoError> {
        let mut at = range.start;
        while at < range.end {
            at = match self.0.next(at) {
                Some((end, ZeroInterval(End, _))) => end + 1,
                Some((next, ZeroInterval(One, _))) if next == at => at + 1,
                Some((next, ZeroInterval(Start, _))) if next == at => at + 1,
                _ => return Err(VmoError::BadState),
            };
        }
        Ok(())
    }

    /// Whether the next entry from `from` on is at `end`.
    fn ends_at(&self, from: u64, end: u64) -> bool {
        self.0.next(from).is_some_and(|(at, _)| at == end)
    }

    fn put_at(&self, at: u64, bound: Bound, state: DirtyState) -> Result<(), VmoError> {
        let place = self.0.make(at)?;
        self.0.put(place, ZeroInterval(bound, state));
        Ok(())
    }

    fn empty(&self, at: u64) {
        if let Some(place) = self.0.find(at) {
            self.0.put(place, Empty);
            self.0.prune(at..at + 1);
        }
    }
}
