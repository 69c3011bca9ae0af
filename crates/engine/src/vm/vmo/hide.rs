//! Zero intervals of VMOs: hiding what snapshots hold, whole stretches at a time.
//!
//! A VMO whose range was zeroed hides what it would see above by two entries, however many it hides and
//! however large the range is (`pages`). Only VMOs have intervals, hidden nodes never: a snapshot leaves
//! those of the VMO with it and gives the new one its own, cut to its part. So a count still says
//! who sees an entry, and what a hidden node holds still moves down as it is.

use super::family::Family;
use super::object::NodeId;
use super::pages::own::Own;
use super::pages::{List, POSITIONS};
use super::{VmoError, Vmos};
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use crate::pages::interval::{Bound, DirtyState};
use crate::pages::segment::Word;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// The intervals that a VMO and its snapshot are to have, in page lists of their own.
pub(super) struct Intervals {
    kept: Word,
    copied: Word,
}

/// A VMO's own page list.
type OwnList<'f, 'a, M, C, S> = List<Own<'f, 'a, M, C, S>>;

impl<'a, M: Memory, C: PageCodec, S: CompressedStorage> Family<'a, M, C, S> {
    /// The last position of the interval of `node` that a position is inside of.
    pub(super) fn interval_at(&self, node: NodeId, at: u64) -> Option<u64> {
        let object = self.object(node);
        if object.intervals.get() == 0 {
            return None;
        }
        let next = |at| self.next_in(node, &object.root, at, u64::MAX);
        match next(at).map(|(next, found)| (next, found.entry))? {
            (next, Entry::ZeroInterval(Bound::End, _)) => Some(next),
            (next, Entry::ZeroInterval(Bound::One, _)) if next == at => Some(at),
            (start, Entry::ZeroInterval(Bound::Start, _)) if start == at => {
                next(at + 1).map(|(end, _)| end)
            }
            _ => None,
        }
    }

    /// The page list of `node`.
    pub(super) fn list<'f>(&'f self, host: &'f M, node: NodeId) -> OwnList<'f, 'a, M, C, S> {
        let object = self.object(node);
        self.list_at(host, node, &object.root, &object.intervals)
    }

    fn list_at<'f>(
        &'f self,
        host: &'f M,
        node: NodeId,
        root: &'f Word,
        intervals: &'f Word,
    ) -> OwnList<'f, 'a, M, C, S> {
        List(Own {
            family: self,
            host,
            node,
            root,
            intervals,
        })
    }

    /// Has `node`, which has no pinned pages there, see zeros in a range that is not empty, by an
    /// interval. With an error nothing has changed.
    pub(super) fn zero_range(
        &self,
        host: &M,
        node: NodeId,
        range: Range<u64>,
    ) -> Result<(), VmoError> {
        let list = self.list(host, node);
        list.reserve(&range)?;
        self.let_go_inherited(host, node, range.start, range.end);
        self.free_entries(host, node, range.start, range.end);
        let added = list.add_interval(range, DirtyState::Untracked);
        debug_assert_eq!(added, Ok(()), "its places were made before");
        added
    }

    /// Frees the intervals of `node` in a range over whose bounds none reaches.
    pub(super) fn free_intervals(&self, node: NodeId, from: u64, end: u64) {
        let mut next = from;
        while let Some((at, place)) = self.next_bound(node, next, end) {
            self.entries(place.0).set(place.1, Entry::Empty);
            next = at + 1;
        }
    }

    /// `node` sees nothing above it any more: there is nothing to hide.
    pub(super) fn drop_intervals(&self, node: NodeId) {
        let intervals = &self.object(node).intervals;
        if intervals.get() != 0 {
            self.free_intervals(node, 0, POSITIONS);
            self.prune(node, 0, POSITIONS);
            intervals.set(0);
        }
    }

    /// The next part of an interval.
    fn next_bound(&self, node: NodeId, from: u64, end: u64) -> Option<(u64, crate::Place)> {
        let object = self.object(node);
        let mut from = from;
        while object.intervals.get() != 0
            && let Some((at, found)) = self.next_in(node, &object.root, from, end)
        {
            if let Entry::ZeroInterval(..) = found.entry {
                return Some((at, found.place));
            }
            from = at + 1;
        }
        None
    }

    /// Copies those of the intervals of `node` that are in `part`; with `whole` all of them, too. `Err`:
    /// so many tables have to be ready.
    pub(super) fn copy_intervals(
        &self,
        host: &M,
        node: NodeId,
        part: &Range<u64>,
        whole: bool,
    ) -> Result<Intervals, u32> {
        let copies = Intervals {
            kept: Word::default(),
            copied: Word::default(),
        };
        let flags = [Word::default(), Word::default()];
        let kept = self.list_at(host, node, &copies.kept, &flags[0]);
        let copied = self.list_at(host, node, &copies.copied, &flags[1]);
        let (mut next, mut wanted, mut failed) = (0, 4, false);
        while let Some((at, place)) = self.next_bound(node, next, POSITIONS) {
            let Entry::ZeroInterval(_, state) = self.get(place) else {
                break;
            };
            let end = self.interval_at(node, at).unwrap_or(at) + 1;
            let inside = at.max(part.start)..end.min(part.end);
            let mut copy = |to: &OwnList<'_, 'a, M, C, S>, range: Range<u64>| {
                failed = failed || (!range.is_empty() && to.add_interval(range, state).is_err());
            };
            copy(&copied, inside);
            if whole {
                copy(&kept, at..end);
            }
            (next, wanted) = (end, wanted + 4);
        }
        if failed {
            for list in [kept, copied] {
                let freed = list.free_range(0..POSITIONS);
                debug_assert_eq!(freed, Ok(()));
            }
            return Err(wanted);
        }
        Ok(copies)
    }

    /// Gives the copies to a VMO, whose page list a hidden node has taken over, and to its snapshot.
    pub(super) fn give_intervals(&self, copies: &Intervals, node: NodeId, child: NodeId) {
        let copies = [(node, &copies.kept), (child, &copies.copied)];
        for (to, root) in copies.into_iter().filter(|(_, root)| root.get() != 0) {
            let object = self.object(to);
            object.root.set(root.get());
            object.intervals.set(1);
            let mut next = 0;
            while let Some((number, segment)) = self.directory(to).at_or_after(next) {
                let segment = self.engine().tables.segment(segment);
                segment.account.set(object.account.get());
                let sensitive = object.marks.get() > 0;
                segment.latency_sensitive.set(sensitive.into());
                match number.checked_add(1) {
                    Some(number) => next = number,
                    None => break,
                }
            }
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Zero intervals that a VMO holds.
    pub fn zero_intervals(&self, id: super::VmoId) -> Result<u64, VmoError> {
        let (family, node) = self.lock(id)?;
        let (mut next, mut count) = (0, 0);
        while let Some((at, _)) = family.next_bound(node, next, POSITIONS) {
            next = family.interval_at(node, at).unwrap_or(at) + 1;
            count += 1;
        }
        Ok(count)
    }
}
