//! Lists of partially filled frames, by the size of their largest free slot.
//!
//! ```text
//!  filled  …0 0 1 0 1 0          one bit a bucket: its list is not empty
//!               │   │
//!  heads   … ───┘   └──▶ frame ⇄ frame ⇄ frame      bucket b: 64·b ≤ largest free < 64·(b+1)
//! ```
//!
//! Every frame in bucket `b` takes an object of up to `64·b` bytes, so a search is: mask the
//! buckets that are too small, count trailing zeroes, take the head. O(1), without a loop. It is
//! "nearly optimal" in RFC-0219's sense: the frame found is at most 64 bytes larger than the
//! best of those that were looked for. Objects whose length is not a multiple of 64 might also
//! fit a frame of the bucket below; of that one only the head is tried, which keeps the
//! search O(1).
//!
//! Frames with less than 64 bytes free are full, and on no list.
//!
//! Invariants:
//! * B1 Bit `b` of `filled` is set if and only if `heads[b]` is not 0; bit 0 is never set.
//! * B2 The links of a list agree: `next` and `previous` are each other's inverse, the head has
//!   no previous, the last has no next.
//!
//! The lists hold indices of records; they know of a record only its two links.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Difference between two neighbouring buckets.
pub(crate) const BUCKET_BYTES: usize = 64;

/// Number of buckets. A frame that is not empty has less than 4096 bytes free.
pub(crate) const BUCKETS: usize = 64;

/// A record's place in its list; 0 is "none".
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Links {
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
}

/// Heads of all lists.
#[derive(Debug)]
pub(crate) struct SearchLists {
    filled: u64,
    heads: [u32; BUCKETS],
}

/// The bucket of a frame with this largest free slot; `None` for a full frame.
pub(crate) fn bucket_of(free_bytes: usize) -> Option<usize> {
    debug_assert!(
        free_bytes < BUCKETS * BUCKET_BYTES,
        "an empty frame is returned"
    );
    match free_bytes / BUCKET_BYTES {
        0 => None,
        bucket => Some(bucket),
    }
}

impl SearchLists {
    pub(crate) const fn new() -> Self {
        Self {
            filled: 0,
            heads: [0; BUCKETS],
        }
    }

    /// A record whose frame is sure to take `len` bytes, in the smallest bucket that has one.
    pub(crate) fn find_sure(&self, len: usize) -> Option<u32> {
        let smallest = len.div_ceil(BUCKET_BYTES);
        if smallest >= BUCKETS {
            return None;
        }
        let candidates = self.filled >> smallest << smallest;
        if candidates == 0 {
            None
        } else {
            Some(self.heads[candidates.trailing_zeros() as usize])
        }
    }

    /// The head of the bucket whose frames may take `len` bytes or not.
    pub(crate) fn find_possible(&self, len: usize) -> Option<u32> {
        match self.heads.get(len / BUCKET_BYTES) {
            Some(&record) if record != 0 => Some(record),
            _ => None,
        }
    }

    /// Puts `record` at the head of a list.
    pub(crate) fn insert<'a>(
        &mut self,
        bucket: usize,
        record: u32,
        links: impl Fn(u32) -> &'a Links,
    ) {
        let head = self.heads[bucket];
        links(record).next.store(head, Relaxed);
        links(record).previous.store(0, Relaxed);
        if head != 0 {
            links(head).previous.store(record, Relaxed);
        }
        self.heads[bucket] = record;
        self.filled |= 1 << bucket;
    }

    /// Takes `record` out of the list it is on, that of `bucket`.
    pub(crate) fn remove<'a>(
        &mut self,
        bucket: usize,
        record: u32,
        links: impl Fn(u32) -> &'a Links,
    ) {
        let next = links(record).next.load(Relaxed);
        let previous = links(record).previous.load(Relaxed);
        if next != 0 {
            links(next).previous.store(previous, Relaxed);
        }
        if previous != 0 {
            links(previous).next.store(next, Relaxed);
        } else {
            debug_assert_eq!(self.heads[bucket], record, "B2");
            self.heads[bucket] = next;
            if next == 0 {
                self.filled &= !(1 << bucket);
            }
        }
    }

    /// Calls `visit` with bucket and record for every record on a list; panics if B1 or B2 does
    /// not hold, or if there are more than `limit` records.
    pub(crate) fn check_invariants<'a>(
        &self,
        limit: usize,
        links: impl Fn(u32) -> &'a Links,
        mut visit: impl FnMut(usize, u32),
    ) {
        assert_eq!(self.filled & 1, 0, "B1: full frames are on no list");
        let mut seen = 0;
        for (bucket, &head) in self.heads.iter().enumerate() {
            assert_eq!(self.filled >> bucket & 1 == 1, head != 0, "B1");
            let (mut previous, mut record) = (0, head);
            while record != 0 {
                assert_eq!(links(record).previous.load(Relaxed), previous, "B2");
                seen += 1;
                assert!(seen <= limit, "B2: a list is a cycle");
                visit(bucket, record);
                (previous, record) = (record, links(record).next.load(Relaxed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::vec::Vec;

    fn records(count: usize) -> Vec<Links> {
        let link = || AtomicU32::new(0);
        let links = || Links {
            next: link(),
            previous: link(),
        };
        (0..=count).map(|_| links()).collect()
    }

    #[test]
    fn finds_the_smallest_bucket_that_is_sure_to_fit() {
        let records = records(63);
        for filled in [0_u64, 1 << 1, 1 << 63, 0b1010_0100, !1] {
            let mut lists = SearchLists::new();
            for bucket in (1..BUCKETS).filter(|b| filled >> b & 1 == 1) {
                lists.insert(bucket, bucket as u32, |i| &records[i as usize]);
            }
            for len in (1..=4096).step_by(if cfg!(miri) { 31 } else { 1 }) {
                let sure = (1..BUCKETS).find(|b| filled >> b & 1 == 1 && b * BUCKET_BYTES >= len);
                assert_eq!(lists.find_sure(len), sure.map(|b| b as u32), "{len}");
                let possible = Some(len / BUCKET_BYTES)
                    .filter(|b| *b < BUCKETS && filled >> b & 1 == 1)
                    .map(|b| b as u32);
                assert_eq!(lists.find_possible(len), possible, "{len}");
            }
        }
    }

    #[test]
    fn frames_with_less_than_a_bucket_free_are_full() {
        assert_eq!(bucket_of(0), None);
        assert_eq!(bucket_of(63), None);
        assert_eq!(bucket_of(64), Some(1));
        assert_eq!(bucket_of(4095), Some(63));
    }

    /// Searching is given no access to records at all; changing a list touches its neighbours
    /// only, however long it is.
    #[test]
    fn a_change_touches_a_constant_number_of_records() {
        let count = if cfg!(miri) { 300 } else { 10_000 };
        let records = records(count as usize);
        let touched = Cell::new(0);
        let links = |i: u32| {
            touched.set(touched.get() + 1);
            &records[i as usize]
        };
        let mut lists = SearchLists::new();
        for record in 1..=count {
            touched.set(0);
            lists.insert(7, record, links);
            assert!(touched.get() <= 3);
        }
        for record in (1..=count).step_by(3).chain((2..=count).step_by(3)) {
            touched.set(0);
            lists.remove(7, record, links);
            assert!(touched.get() <= 4);
        }
        let mut left = Vec::new();
        lists.check_invariants(
            count as usize,
            |i| &records[i as usize],
            |_, record| left.push(record),
        );
        let expected: Vec<u32> = (1..=count / 3).rev().map(|i| 3 * i).collect();
        assert_eq!(left, expected);
    }
}
