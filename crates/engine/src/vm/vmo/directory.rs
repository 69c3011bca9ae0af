//! The directory of a page list: from the number of a segment (position / 8192) to the segment.
//!
//! A treap whose nodes are the segments themselves: ordered by number from left to right, by a hash
//! of the segment's id from the root down, so that its depth is about twice the binary logarithm of
//! the number of segments, whatever their numbers are and in whatever order they came. It needs no
//! memory of its own, so adding a segment cannot fail; a VMO of 16 TiB with one page costs one segment.

use crate::SegmentId;
use crate::machine::lock::HeldRanks;
use crate::pages::segment::{Segment, Word};
use crate::pages::tables::Tables;
use lock_api::RawMutex;

/// The directory with this root, under the lock of its VMO.
pub(super) struct Directory<'a, R> {
    pub(super) tables: &'a Tables<R>,
    pub(super) root: &'a Word,
}

/// Who has more is nearer to the root. No two ids have the same: the factor is odd.
fn weight(id: SegmentId) -> u32 {
    id.wrapping_mul(0x9E37_79B9)
}

impl<'a, R: RawMutex + HeldRanks + Sync> Directory<'a, R> {
    fn get(&self, id: SegmentId) -> &'a Segment<R> {
        self.tables.segment(id)
    }

    /// The segment with this number.
    pub(super) fn find(&self, number: u32) -> Option<SegmentId> {
        let (at, id) = self.at_or_after(number)?;
        (at == number).then_some(id)
    }

    /// The first segment with this number or a higher one, and its number.
    pub(super) fn at_or_after(&self, number: u32) -> Option<(u32, SegmentId)> {
        let (mut id, mut found) = (self.root.get(), None);
        while id != 0 {
            let segment = self.get(id);
            let at = segment.number.get();
            if at < number {
                id = segment.right.get();
            } else {
                found = Some((at, id));
                id = if at == number { 0 } else { segment.left.get() };
            }
        }
        found
    }

    /// All segments, by their numbers.
    pub(super) fn segments(self) -> impl Iterator<Item = SegmentId> + use<'a, R> {
        let mut next = Some(0);
        core::iter::from_fn(move || {
            let (at, segment) = self.at_or_after(next?)?;
            next = at.checked_add(1);
            Some(segment)
        })
    }

    /// Adds a segment whose number no other has.
    pub(super) fn insert(&self, id: SegmentId) {
        let new = self.get(id);
        let number = new.number.get();
        let mut slot = self.root;
        while slot.get() != 0 && weight(slot.get()) > weight(id) {
            let segment = self.get(slot.get());
            slot = match number < segment.number.get() {
                true => &segment.left,
                false => &segment.right,
            };
        }
        // What hung there is split into the new segment's two sides.
        let (mut less, mut more) = (&new.left, &new.right);
        let mut rest = slot.get();
        while rest != 0 {
            let segment = self.get(rest);
            debug_assert_ne!(segment.number.get(), number, "two segments of one number");
            if segment.number.get() < number {
                less.set(rest);
                less = &segment.right;
                rest = less.get();
            } else {
                more.set(rest);
                more = &segment.left;
                rest = more.get();
            }
        }
        less.set(0);
        more.set(0);
        slot.set(id);
    }

    /// Takes the segment with this number out.
    pub(super) fn remove(&self, number: u32) -> Option<SegmentId> {
        let mut slot = self.root;
        let id = loop {
            let id = slot.get();
            if id == 0 {
                return None;
            }
            let segment = self.get(id);
            slot = match number.cmp(&segment.number.get()) {
                core::cmp::Ordering::Equal => break id,
                core::cmp::Ordering::Less => &segment.left,
                core::cmp::Ordering::Greater => &segment.right,
            };
        };
        // Its two sides are joined in its place.
        let (mut left, mut right) = (self.get(id).left.get(), self.get(id).right.get());
        while left != 0 && right != 0 {
            if weight(left) > weight(right) {
                slot.set(left);
                slot = &self.get(left).right;
                left = slot.get();
            } else {
                slot.set(right);
                slot = &self.get(right).left;
                right = slot.get();
            }
        }
        slot.set(left | right);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use coldpress_arena::{CHUNK_BYTES, ChunkSource};
    use core::ptr::NonNull;
    use std::alloc::{Layout, alloc_zeroed};
    use std::boxed::Box;
    use std::collections::BTreeMap;

    struct Raw;

    impl HeldRanks for Raw {}

    // SAFETY: nobody else is there to be kept out.
    unsafe impl RawMutex for Raw {
        const INIT: Self = Self;
        type GuardMarker = lock_api::GuardSend;

        fn lock(&self) {}

        fn try_lock(&self) -> bool {
            true
        }

        unsafe fn unlock(&self) {}
    }

    struct Source;

    // SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
    unsafe impl ChunkSource for Source {
        fn chunk(&self) -> Option<NonNull<u8>> {
            // SAFETY: the layout is not empty.
            NonNull::new(unsafe {
                alloc_zeroed(Layout::from_size_align(CHUNK_BYTES, 4096).unwrap())
            })
        }
    }

    fn depth(directory: &Directory<'_, Raw>, id: SegmentId) -> u32 {
        match id {
            0 => 0,
            id => {
                let segment = directory.get(id);
                1 + depth(directory, segment.left.get()).max(depth(directory, segment.right.get()))
            }
        }
    }

    #[test]
    fn holds_what_a_sorted_map_holds() {
        let tables: &Tables<Raw> = Box::leak(Box::new(Tables::new()));
        assert!(tables.reserve_segments(&Source, 2000));
        let root = Word::default();
        let directory = Directory {
            tables,
            root: &root,
        };
        let mut model = BTreeMap::new();
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let number = (random >> 33) as u32 % 997 * if step % 2 == 0 { 1 } else { 4_000_000 };
            if (random >> 20).is_multiple_of(3) {
                let removed = directory.remove(number);
                assert_eq!(removed, model.remove(&number));
                if let Some(id) = removed {
                    tables.segment(id).retire();
                    tables.give_segment(id);
                }
            } else if let std::collections::btree_map::Entry::Vacant(free) = model.entry(number)
                && let Some(id) = tables.take_segment(Some(1), number)
            {
                directory.insert(id);
                free.insert(id);
            }
            let from = (random >> 12) as u32;
            let next = model
                .range(from..)
                .next()
                .map(|(&number, &id)| (number, id));
            assert_eq!(directory.at_or_after(from), next);
            assert_eq!(directory.find(number), model.get(&number).copied());
        }
        assert!(model.len() > 500);
        let depth = depth(&directory, root.get());
        assert!(depth < 40, "as deep as {depth} with {}", model.len());
    }
}
