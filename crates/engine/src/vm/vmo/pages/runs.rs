//! Walks over runs: positions in a row whose entries are of a kind.

use super::{Bound, List, Places, Walk};
use crate::pages::entry::Entry::{self, ZeroInterval};
use core::ops::Range;

/// Positions in a row whose entries were accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The positions, of those that were walked over.
    pub pages: Range<u64>,
    /// They are an interval, or part of one. An interval is a run of its own.
    pub interval: bool,
}

impl<P: Places> List<P> {
    /// Visits every entry of a range that `accept` accepts, and every run of such entries when it
    /// has ended. A run of an interval needs both its ends to be accepted, as far as they are in the
    /// range. A page that stops the walk is the last of its run, which is still visited; where a page
    /// fails, the run before it is. After a run that stops the walk, or fails, nothing is.
    pub fn for_every_run<E>(
        &self,
        range: Range<u64>,
        accept: impl Fn(u64, Entry) -> bool,
        mut page: impl FnMut(u64, Entry) -> Result<Walk, E>,
        mut run: impl FnMut(Run) -> Result<Walk, E>,
    ) -> Result<(), E> {
        let run_of = |pages, interval| Run { pages, interval };
        // The run of pages that is not at its end yet.
        let mut open: Option<Range<u64>> = None;
        let mut at = range.start;
        while at < range.end
            && let Some((next, entry)) = self.0.next(at)
        {
            let interval = self.interval_from(at, next, entry, &range);
            let accepted = next < range.end && accept(next, entry);
            let goes_on = interval.is_none() && accepted && next == at;
            if !goes_on
                && let Some(pages) = open.take()
                && run(run_of(pages, false))? == Walk::Stop
            {
                return Ok(());
            }
            let Some(interval) = interval else {
                if next >= range.end {
                    return Ok(());
                }
                if accepted {
                    let start = open.as_ref().map_or(next, |pages| pages.start);
                    match page(next, entry) {
                        Ok(Walk::On) => open = Some(start..next + 1),
                        Ok(Walk::Stop) => {
                            open = Some(start..next + 1);
                            break;
                        }
                        Err(error) => {
                            if let Some(pages) = open {
                                run(run_of(pages, false))?;
                            }
                            return Err(error);
                        }
                    }
                }
                at = next + 1;
                continue;
            };
            let (mut whole, mut stop) = (next < range.end || accept(next, entry), false);
            // Its ends: one or two entries, as far as they are in the range.
            let mut end = interval.start;
            while let Some((place, entry)) = self.0.next(end)
                && place < interval.end
            {
                let accepted = accept(place, entry);
                whole &= accepted;
                stop = accepted && page(place, entry)? == Walk::Stop || stop;
                end = place + 1;
            }
            at = interval.end;
            if whole && run(run_of(interval, true))? == Walk::Stop || stop {
                return Ok(());
            }
        }
        match open {
            Some(pages) => run(run_of(pages, false)).map(|_| ()),
            None => Ok(()),
        }
    }

    /// The interval that `entry`, the next one from `at` on, belongs to, as far as it is in `range`.
    fn interval_from(
        &self,
        at: u64,
        next: u64,
        entry: Entry,
        range: &Range<u64>,
    ) -> Option<Range<u64>> {
        let pages = match entry {
            ZeroInterval(Bound::End, _) => at..next + 1,
            ZeroInterval(Bound::One, _) => next..next + 1,
            ZeroInterval(Bound::Start, _) => {
                let end = self.0.next(next + 1).map_or(next, |(end, _)| end);
                next..end + 1
            }
            _ => return None,
        };
        (pages.start < range.end).then(|| pages.start..pages.end.min(range.end))
    }
}
