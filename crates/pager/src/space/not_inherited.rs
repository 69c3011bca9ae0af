//! What the program keeps from its forked children (`MADV_DONTFORK`).
//!
//! All registered memory has that mark, so the mark alone does not tell whose wish it is
//! (see [`fork`](crate::fork::protocol)). Inside the ranges remembered here only the program sets it: the
//! pager neither marks what it registers there nor takes a mark back before a fork. A range that
//! is remembered for too long (the program unmapped it before any of it was registered, of which
//! nobody tells) therefore does no harm: what lies there now is inherited or not as the kernel has it.

use crate::machine::linux::Linux;
use crate::machine::os::Os;
use crate::machine::ranked_lock::RankedLock;
use crate::machine::ranks;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const CAPACITY: usize = 4096;

/// Ranges in the order of their addresses; none touches the next.
struct Ranges {
    ranges: [AddressRange; CAPACITY],
    len: usize,
}

impl Ranges {
    /// The first range that ends at `address` or behind it.
    fn first_ending_at(&self, address: usize) -> usize {
        self.ranges[..self.len].partition_point(|r| r.end < address)
    }

    /// Puts `new` in the place of `ranges[from..to]`. `false`: no room, and nothing is changed.
    fn replace(&mut self, from: usize, to: usize, new: &[AddressRange]) -> bool {
        let len = self.len - (to - from) + new.len();
        if len > CAPACITY {
            return false;
        }
        self.ranges.copy_within(to..self.len, from + new.len());
        self.ranges[from..from + new.len()].copy_from_slice(new);
        self.len = len;
        true
    }

    fn add(&mut self, range: AddressRange) -> bool {
        let from = self.first_ending_at(range.start);
        let touching = self.ranges[from..self.len]
            .iter()
            .take_while(|r| r.start <= range.end)
            .count();
        let whole = self.ranges[from..from + touching]
            .iter()
            .fold(range, |whole, r| AddressRange {
                start: whole.start.min(r.start),
                end: whole.end.max(r.end),
            });
        self.replace(from, from + touching, &[whole])
    }

    fn subtract(&mut self, range: AddressRange) -> bool {
        let from = self.first_ending_at(range.start + 1);
        let overlapping = self.ranges[from..self.len]
            .iter()
            .take_while(|r| r.start < range.end)
            .count();
        if overlapping == 0 {
            return true;
        }
        let to = from + overlapping;
        let before = AddressRange {
            end: range.start,
            ..self.ranges[from]
        };
        let behind = AddressRange {
            start: range.end,
            ..self.ranges[to - 1]
        };
        match (before.is_empty(), behind.is_empty()) {
            (true, true) => self.replace(from, to, &[]),
            (false, true) => self.replace(from, to, &[before]),
            (true, false) => self.replace(from, to, &[behind]),
            (false, false) => self.replace(from, to, &[before, behind]),
        }
    }
}

/// The ranges that the program keeps from its children.
pub struct NotInherited<O: Os = Linux> {
    ranges: lock_api::Mutex<RankedLock<{ ranks::LEAF }, O>, Ranges>,
    /// Ranges there are: most programs have none, and pay for a look at this.
    count: AtomicUsize,
}

impl<O: Os> Default for NotInherited<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> NotInherited<O> {
    /// Everything is inherited.
    pub const fn new() -> Self {
        Self {
            ranges: lock_api::Mutex::const_new(
                lock_api::RawMutex::INIT,
                Ranges {
                    ranges: [AddressRange { start: 0, end: 0 }; CAPACITY],
                    len: 0,
                },
            ),
            count: AtomicUsize::new(0),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Ranges) -> bool) -> bool {
        let mut ranges = self.ranges.lock();
        let done = change(&mut ranges);
        self.count.store(ranges.len, Relaxed);
        done
    }

    /// Whether nothing is kept from children, as in most programs.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// The program keeps `range`, rounded out to pages, from its children. `false`: there is no
    /// room to remember it.
    pub fn add(&self, range: AddressRange) -> bool {
        self.change(|ranges| ranges.add(range.whole_pages()))
    }

    /// `range` is inherited (again), or is no longer mapped. `false`: there is no room to remember
    /// what is left on both sides of it, and nothing has changed.
    pub fn subtract(&self, range: AddressRange) -> bool {
        self.is_empty() || self.change(|ranges| ranges.subtract(range.whole_pages()))
    }

    /// Memory was moved, and its mark with it. The old place keeps its own, as long as it is there.
    pub fn copied(&self, from: AddressRange, to: AddressRange) {
        if self.is_empty() {
            return;
        }
        self.subtract(to);
        let mut at = from.start;
        while let Some(part) = self.first_overlap(AddressRange { start: at, ..from }) {
            let start = part.start - from.start + to.start;
            self.add(AddressRange::new(start, part.len()));
            at = part.end;
        }
    }

    /// The same, and the old place is no longer mapped.
    pub fn moved(&self, from: AddressRange, to: AddressRange) {
        self.copied(from, to);
        self.subtract(from);
    }

    /// The program's own `mremap` has made `to` of `from`, which is no longer mapped. No event tells of memory that was
    /// not registered, and none of what a mapping has grown by, to which its mark passes.
    pub fn remapped(&self, from: AddressRange, to: AddressRange) {
        if self.is_empty() {
            return;
        }
        let common = from.len().min(to.len());
        let part = |at| AddressRange::new(at, common);
        // Otherwise an event was told, and has done it.
        if to.start != from.start && self.first_overlap(from).is_some() {
            self.moved(part(from.start), part(to.start));
            self.subtract(from);
        }
        let last = AddressRange {
            start: (to.start + common).saturating_sub(PAGE_SIZE),
            end: to.start + common,
        };
        let grown = AddressRange {
            start: last.end,
            ..to
        };
        let cut = AddressRange {
            start: last.end,
            end: to.start + from.len(),
        };
        if !grown.is_empty() {
            // What is remembered of that place was remembered for too long.
            match self.first_overlap(last) {
                Some(_) => self.add(grown),
                None => self.subtract(grown),
            };
        } else if to.start == from.start && !cut.is_empty() {
            self.subtract(cut);
        }
    }

    /// The lowest part of `range` that is kept from children.
    fn first_overlap(&self, range: AddressRange) -> Option<AddressRange> {
        if self.is_empty() || range.is_empty() {
            return None;
        }
        let ranges = self.ranges.lock();
        let at = ranges.first_ending_at(range.start + 1);
        let first = ranges.ranges[..ranges.len].get(at)?.intersect(range);
        (!first.is_empty()).then_some(first)
    }

    /// Calls `with` for each part of `range` that children inherit.
    pub fn for_each_inherited(&self, range: AddressRange, mut with: impl FnMut(AddressRange)) {
        let mut rest = range;
        while !rest.is_empty() {
            let kept = self.first_overlap(rest);
            let end = kept.map_or(rest.end, |kept| kept.start);
            if end > rest.start {
                with(AddressRange { end, ..rest });
            }
            rest.start = kept.map_or(rest.end, |kept| kept.end);
        }
    }

    /// In the child of a fork, which has none of this memory: nothing is kept from its own children.
    ///
    /// # Safety
    /// No other thread exists that uses it.
    pub unsafe fn reset(&self) {
        // SAFETY: as the caller promises.
        unsafe { self.ranges.raw().reset() };
        self.change(|ranges| {
            ranges.len = 0;
            true
        });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn range(start: usize, end: usize) -> AddressRange {
        AddressRange {
            start: start * PAGE_SIZE,
            end: end * PAGE_SIZE,
        }
    }

    fn inherited(kept: &NotInherited, of: AddressRange) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        kept.for_each_inherited(of, |r| {
            parts.push((r.start / PAGE_SIZE, r.end / PAGE_SIZE));
        });
        parts
    }

    #[test]
    fn agrees_with_a_bit_a_page() {
        const PAGES: usize = 64;
        let kept = NotInherited::new();
        let mut model = [false; PAGES];
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..20_000 {
            let start = draw(PAGES);
            let len = 1 + draw((PAGES - start).min(16));
            let pages = start..start + len;
            match draw(3) {
                0 => {
                    assert!(kept.add(range(start, start + len)));
                    model[pages].fill(true);
                }
                1 => {
                    assert!(kept.subtract(range(start, start + len)));
                    model[pages].fill(false);
                }
                _ => {
                    let to = draw(PAGES - len + 1);
                    if to < start + len && start < to + len {
                        continue;
                    }
                    kept.moved(range(start, start + len), range(to, to + len));
                    model.copy_within(pages.clone(), to);
                    model[pages].fill(false);
                }
            }
            let mut expected: Vec<(usize, usize)> = Vec::new();
            for page in (0..PAGES).filter(|&page| !model[page]) {
                match expected.last_mut() {
                    Some((_, end)) if *end == page => *end += 1,
                    _ => expected.push((page, page + 1)),
                }
            }
            assert_eq!(inherited(&kept, range(0, PAGES)), expected);
            let ranges = kept.ranges.lock();
            let apart = ranges.ranges[..ranges.len].windows(2);
            assert!(apart.into_iter().all(|w| w[0].end < w[1].start));
        }
    }

    #[test]
    fn marks_follow_an_mremap() {
        let kept = NotInherited::new();
        kept.add(range(10, 20));
        kept.remapped(range(14, 18), range(30, 34));
        assert_eq!(
            inherited(&kept, range(10, 40)),
            [(14, 18), (20, 30), (34, 40)]
        );
        // An event has told of it before.
        kept.moved(range(30, 34), range(50, 54));
        kept.remapped(range(30, 34), range(50, 56));
        assert_eq!(inherited(&kept, range(30, 60)), [(30, 50), (56, 60)]);
        kept.remapped(range(50, 56), range(50, 52));
        assert_eq!(inherited(&kept, range(50, 60)), [(52, 60)]);
        kept.remapped(range(60, 64), range(52, 56));
        assert_eq!(inherited(&kept, range(50, 60)), [(52, 60)], "not its mark");
        // What lay there, and was kept, was unmapped before anybody was told of such things.
        kept.add(range(70, 74));
        kept.remapped(range(66, 70), range(66, 72));
        assert_eq!(inherited(&kept, range(66, 74)), [(66, 72)]);
    }

    #[test]
    fn a_full_table_refuses_and_stays_as_it_is() {
        let kept = NotInherited::new();
        for n in 0..CAPACITY {
            assert!(kept.add(range(4 * n, 4 * n + 3)));
        }
        assert!(!kept.add(range(4 * CAPACITY, 4 * CAPACITY + 1)));
        assert!(!kept.subtract(range(1, 2)), "two would be left of one");
        assert_eq!(inherited(&kept, range(0, 4)), [(3, 4)]);
        assert!(kept.add(range(3, 4)), "two become one");
        assert!(kept.subtract(range(1, 2)));
        assert_eq!(inherited(&kept, range(0, 4)), [(1, 2)]);
    }
}
