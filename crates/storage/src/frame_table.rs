//! What a storage remembers of each frame: a table by frame index that counts what it touches.
//!
//! ```text
//!  frame f ──▶ page f / N + 1, record f % N
//!
//!  page 1                        page 2                        page 3
//!  ┌─────────┬────┬────┬───┐     ┌─────────┬────┬────┬───┐     ┌───────────┬────┬───
//!  │ touched │ 0  │ 1  │ … │     │ touched │ N  │N+1 │ … │     │ untouched │    │
//!  └─────────┴────┴────┴───┘     └─────────┴────┴────┴───┘     └───────────┴────┴───
//!    4096 bytes, N records         counted                       costs nothing, not counted
//! ```
//!
//! Finding the record of a frame is a division by a constant, so freeing searches for nothing.
//! The price is that several storages over one source of frames (one for each security domain)
//! each have a table for the numbers that all of them use. Hosts back tables lazily, a page at a
//! time, so a storage pays for the pages in which it ever held a frame, and for no others; that
//! is what is counted. With records of four bytes a page serves 4 MiB of frames.
//!
//! Invariants:
//! * F1 A page is touched if and only if a frame in it was ever [borrowed](FrameTable::borrow_frame);
//!   `touched_pages` of them are. Records of pages that are not touched are all zero.
//! * F2 `largest_frame` is the largest index ever seen, and at least that of any frame borrowed.
//! * F3 Records of frames that are not held say so; that is the storage's affair.
//!
//! The records are atomics, since pools hand out shared references; all are read and written
//! under the storage lock only.
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::{ChunkSource, Link, Pool, Zeroable};

use crate::frame::{FrameIndex, FrameSource};

/// Bytes of a page of the table.
const PAGE_BYTES: usize = 4096;

/// Records of neighbouring frames, in one page of memory.
#[repr(C, align(4096))]
pub(crate) struct TablePage<R, const N: usize> {
    touched: AtomicU32,
    records: [R; N],
}

// SAFETY: an atomic and records, for which zero is valid.
unsafe impl<R: Zeroable, const N: usize> Zeroable for TablePage<R, N> {}

impl<R, const N: usize> Link for TablePage<R, N> {
    /// Never called: pages are addressed by number, and none is taken or given.
    fn link(&self) -> &AtomicU32 {
        &self.touched
    }
}

/// A record for each frame, `N` to a page.
pub(crate) struct FrameTable<R, const N: usize> {
    pages: Pool<TablePage<R, N>>,
    /// F1.
    touched_pages: u32,
    /// F2.
    largest_frame: u32,
}

impl<R: Zeroable + Sync, const N: usize> FrameTable<R, N> {
    /// No records yet.
    pub(crate) const fn new() -> Self {
        assert!(size_of::<TablePage<R, N>>() == PAGE_BYTES);
        Self {
            pages: Pool::new(),
            touched_pages: 0,
            largest_frame: 0,
        }
    }

    /// Makes sure of records for `count` frames beyond the largest one seen.
    pub(crate) fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        match self.largest_frame.checked_add(count) {
            Some(frame) => self.pages.reserve(source, page_of::<N>(frame)),
            None => false,
        }
    }

    /// A frame from the host, of which note is taken; `None` if the host has none, or if it lies
    /// beyond the table: then it goes back.
    pub(crate) fn borrow_frame(&mut self, frames: &impl FrameSource) -> Option<FrameIndex> {
        let frame = frames.allocate()?;
        if !self.adopt(frame) {
            frames.free(frame);
            return None;
        }
        Some(frame)
    }

    /// Takes note of a frame that the host has lent. `false`: it lies beyond the table.
    fn adopt(&mut self, frame: FrameIndex) -> bool {
        self.largest_frame = self.largest_frame.max(frame.0);
        let page = page_of::<N>(frame.0);
        // Items up to `available` exist, since no item is ever taken.
        if page > self.pages.available() {
            return false;
        }
        let page = self.pages.get(page);
        if page.touched.load(Relaxed) == 0 {
            page.touched.store(1, Relaxed);
            self.touched_pages += 1;
        }
        true
    }

    /// The record of a frame, or `None` where no frame of the page was ever held.
    #[inline]
    pub(crate) fn find(&self, frame: FrameIndex) -> Option<&R> {
        if frame.0 > self.largest_frame || page_of::<N>(frame.0) > self.pages.available() {
            return None;
        }
        let page = self.pages.get(page_of::<N>(frame.0));
        (page.touched.load(Relaxed) != 0).then(|| &page.records[frame.0 as usize % N])
    }

    /// The record of a frame that is, or once was, held.
    #[inline]
    pub(crate) fn get(&self, frame: u32) -> &R {
        &self.pages.get(page_of::<N>(frame)).records[frame as usize % N]
    }

    /// Bytes of the table that were touched.
    pub(crate) fn touched_bytes(&self) -> usize {
        self.touched_pages as usize * PAGE_BYTES
    }

    /// The smallest frame from `frame` on whose page is touched: for going through the records
    /// without looking at pages that are none of ours. Looks at `pages` pages at most, and
    /// returns the first frame of the next one then.
    pub(crate) fn next_touched(&self, frame: u32, pages: u32) -> Option<u32> {
        let mut frame = frame;
        for _ in 0..pages {
            if frame > self.largest_frame {
                return None;
            }
            if self.find(FrameIndex(frame)).is_some() {
                return Some(frame);
            }
            frame = page_of::<N>(frame).checked_mul(N as u32)?;
        }
        Some(frame)
    }

    /// Every record that can be in use, with its frame.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &R)> {
        (1..=self.largest_frame).filter_map(|frame| Some((frame, self.find(FrameIndex(frame))?)))
    }

    /// Panics if F1 does not hold.
    pub(crate) fn check_invariants(&self) {
        let pages = (1..=page_of::<N>(self.largest_frame).min(self.pages.available()))
            .filter(|page| self.pages.get(*page).touched.load(Relaxed) != 0);
        assert_eq!(pages.count(), self.touched_pages as usize, "F1");
    }
}

/// Pages are numbered from 1, as the items of a pool.
#[inline]
const fn page_of<const N: usize>(frame: u32) -> u32 {
    frame / N as u32 + 1
}
