//! Walks over entries, and over the gaps between them.

use super::{Bound, List, Places};
use crate::pages::entry::Entry;
use core::ops::Range;

/// Whether a walk goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// To what comes next.
    On,
    /// It ends here, and nothing more is visited.
    Stop,
}

/// What a walk over a page list comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// An entry that is not empty, and its position.
    Entry(u64, Entry),
    /// Positions of which nothing is remembered, as many as there are in a row.
    Gap(Range<u64>),
}

impl<P: Places> List<P> {
    /// Visits the entries of a range, in order, until the visitor stops or fails.
    pub fn for_every<E>(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(u64, Entry) -> Result<Walk, E>,
    ) -> Result<(), E> {
        let mut next = range.start;
        while let Some((at, entry)) = self.0.next(next)
            && at < range.end
        {
            if visit(at, entry)? == Walk::Stop {
                return Ok(());
            }
            next = at + 1;
        }
        Ok(())
    }

    /// The same with what lies between them. The empty positions inside an interval are no gap, also
    /// where the interval begins before the range or ends behind it.
    pub fn for_every_and_gap<E>(
        &self,
        range: Range<u64>,
        mut visit: impl FnMut(Piece) -> Result<Walk, E>,
    ) -> Result<(), E> {
        let mut at = range.start;
        while at < range.end {
            let next = self.0.next(at);
            let inside = matches!(next, Some((_, Entry::ZeroInterval(Bound::End, _))));
            let end = next.map_or(range.end, |(next, _)| next.min(range.end));
            if at < end && !inside && visit(Piece::Gap(at..end))? == Walk::Stop {
                return Ok(());
            }
            match next {
                Some((next, entry)) if next < range.end => {
                    if visit(Piece::Entry(next, entry))? == Walk::Stop {
                        return Ok(());
                    }
                    at = next + 1;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}
