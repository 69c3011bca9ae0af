//! All frames of a disk, for pages and for what is stored: one pool, one limit.
//!
//! ```text
//!   chunks of 64 MiB, mapped as they are needed          lent   to a page in place, or to storage
//!   │ 1 │ 2 │ 3 │ … │ 16383 │   │ 16384 │ …              idle   given back, still backed by the kernel
//!                                                        away   given back to the kernel, too
//!   lowest idle first, then lowest away, then a fresh one
//! ```
//!
//! *Lent* frames and the tables are what the limit is about. Three kinds of borrowers come to the limit one after
//! the other, so that making room never fails for want of room:
//!
//! | borrower | is refused when so many are left, or fewer |
//! |---|---|
//! | a page where none was, or one that was shared | [`KEPT_FROM_NEW`] |
//! | a page that is stored, and is written again | [`KEPT_FOR_STORAGE`]: so a disk that is full can still be overwritten |
//! | storage, for what leaves a page | [`KEPT_FOR_STAGING`] below the ceiling |
//! | a page that is touched while it is compressed | never: its frame comes back at the end of that |
//!
//! The *ceiling* is the limit, but for the time after it was lowered: then it comes down with what is held, so that
//! pages can leave until it is reached.
//!
//! Invariants:
//! * F1 A number is lent, idle, away, being given back, or larger than any that was ever lent.
//! * F2 The frame of a number has one address as long as the pool lives.
//!
//! Idle frames beyond a small share are given back by [`Frames::give_back`], which the scanner calls, in
//! runs of neighbours, the uppermost first; meanwhile they are nobody's.

use crate::bits::Bits;
use crate::mapping::Mapping;
use coldpress_storage::FRAME_BYTES;
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Frames of a chunk: 64 MiB.
const CHUNK_FRAMES: usize = 1 << 14;

/// Chunks that there can be: 1 TiB.
const CHUNKS: usize = 1 << 14;

/// Frames that pages do not get, so that storage has some for what leaves pages: more than all contexts take at a
/// time, a chain of eight each.
const KEPT_FOR_STORAGE: u64 = 160;

/// Frames that new pages do not get, so that those that are stored can be overwritten.
const KEPT_FROM_NEW: u64 = KEPT_FOR_STORAGE + 64;

/// Frames that storage does not get: for pages that are touched in staging, one a context.
const KEPT_FOR_STAGING: u64 = 16;

/// So many idle frames, and one part in so many of all that are backed, are kept.
const IDLE_FRAMES: u64 = 256;
const IDLE_PART: u64 = 64;

/// Which idle frames are given back to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Those beyond what is worth keeping.
    TooMany,
    /// All of them.
    All,
}

/// What a frame is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A page that is new, or a copy of one that is shared.
    NewPage,
    /// A page that is stored and is wanted back.
    StoredPage,
    /// Storage.
    Storage,
    /// A copy of a page in staging.
    Staged,
}

#[derive(Default)]
struct State {
    idle: Bits,
    away: Bits,
    /// Numbers up to this one were lent before.
    used: u32,
    lent: u64,
    /// Frames that storage may reach.
    ceiling: u64,
    /// Being given back to the kernel.
    leaving: u64,
    chunks: Vec<Mapping>,
}

pub(crate) struct Frames {
    /// Addresses of the chunks in `state`, or null; in memory of its own, since hardly any is used.
    directory: Mapping,
    /// Guards who has what; a leaf: taken below a VMO's or the storage's lock, held for a few words, and for mapping
    /// a chunk.
    state: Mutex<State>,
    /// Frames that may be lent, as long as there are no tables; `u64::MAX`: no limit.
    limit: AtomicU64,
    /// Memory of tables, in frames, as it was looked up last.
    tables: AtomicU64,
    /// The most frames that were backed, with tables.
    peak: AtomicU64,
    /// Lent now; written under the lock.
    lent: AtomicU64,
    /// Backed and idle now; written under the lock.
    idle: AtomicU64,
}

impl Frames {
    /// No frames yet, of which so many bytes may be used. `None`: no memory.
    pub(crate) fn new(limit_bytes: Option<u64>) -> Option<Self> {
        let frames = Self {
            directory: Mapping::new(CHUNKS * size_of::<AtomicPtr<u8>>())?,
            state: Mutex::default(),
            limit: AtomicU64::new(u64::MAX),
            tables: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            idle: AtomicU64::new(0),
        };
        frames.set_limit(limit_bytes);
        Some(frames)
    }

    fn chunks(&self) -> &[AtomicPtr<u8>] {
        // SAFETY: the mapping is as large and aligned to a page, zero is a null pointer, and it stays.
        unsafe { std::slice::from_raw_parts(self.directory.start().as_ptr().cast(), CHUNKS) }
    }

    /// From now on so many bytes may be used. What is used already stays.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        let frames = bytes.map_or(u64::MAX, |bytes| bytes / FRAME_BYTES as u64);
        let mut state = self.state.lock();
        self.limit.store(frames, Relaxed);
        state.ceiling = frames.max(self.held(&state) + KEPT_FOR_STORAGE);
    }

    /// Frames that count.
    fn held(&self, state: &State) -> u64 {
        state.lent + self.tables.load(Relaxed)
    }

    pub(crate) fn limit_bytes(&self) -> Option<u64> {
        match self.limit.load(Relaxed) {
            u64::MAX => None,
            frames => Some(frames * FRAME_BYTES as u64),
        }
    }

    /// Tables take so many bytes.
    pub(crate) fn set_tables(&self, bytes: u64) {
        self.tables
            .store(bytes.div_ceil(FRAME_BYTES as u64), Relaxed);
        self.note_peak();
    }

    /// Frames that can still be had, for whatever.
    pub(crate) fn left(&self) -> u64 {
        let limit = self.limit.load(Relaxed);
        match limit {
            u64::MAX => u64::MAX,
            _ => limit.saturating_sub(self.held_frames()),
        }
    }

    /// Frames that are lent, and those of tables.
    pub(crate) fn held_frames(&self) -> u64 {
        self.lent() + self.tables.load(Relaxed)
    }

    /// What [`held_frames`](Self::held_frames) can be before new pages are refused.
    pub(crate) fn most_for_pages(&self) -> u64 {
        self.limit.load(Relaxed).saturating_sub(KEPT_FROM_NEW)
    }

    /// Frames that new pages can still have.
    pub(crate) fn left_for_pages(&self) -> u64 {
        self.left().saturating_sub(KEPT_FROM_NEW)
    }

    pub(crate) fn lent(&self) -> u64 {
        self.lent.load(Relaxed)
    }

    /// Bytes that the kernel backs, with the tables.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used() * FRAME_BYTES as u64
    }

    fn used(&self) -> u64 {
        self.lent() + self.idle.load(Relaxed) + self.tables.load(Relaxed)
    }

    /// The most of [`used_bytes`](Self::used_bytes) that there was since [`forget_peak`](Self::forget_peak).
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak.load(Relaxed) * FRAME_BYTES as u64
    }

    pub(crate) fn forget_peak(&self) {
        self.peak.store(self.used(), Relaxed);
    }

    fn note_peak(&self) {
        self.peak.fetch_max(self.used(), Relaxed);
    }

    fn publish(&self, state: &State) {
        self.lent.store(state.lent, Relaxed);
        self.idle.store(state.idle.count() + state.leaving, Relaxed);
    }

    /// Bytes of the sets of free frames.
    pub(crate) fn table_bytes(&self) -> usize {
        let state = self.state.lock();
        state.idle.bytes() + state.away.bytes()
    }

    /// Lends a frame. `None`: the limit is reached, or the kernel gives no memory.
    pub(crate) fn lend(&self, purpose: Purpose) -> Option<u32> {
        let mut state = self.state.lock();
        let is_refused = match purpose {
            Purpose::NewPage => self.left() <= KEPT_FROM_NEW,
            Purpose::StoredPage => self.left() <= KEPT_FOR_STORAGE,
            Purpose::Storage => self.held(&state) + KEPT_FOR_STAGING >= state.ceiling,
            Purpose::Staged => false,
        };
        if is_refused {
            return None;
        }
        let number = match state.idle.take_least().or_else(|| state.away.take_least()) {
            Some(number) => number,
            None => {
                let number = state.used + 1;
                let chunk = self.chunks().get(number as usize / CHUNK_FRAMES)?;
                if chunk.load(Relaxed).is_null() {
                    let memory = Mapping::new(CHUNK_FRAMES * FRAME_BYTES)?;
                    chunk.store(memory.start().as_ptr(), Release);
                    state.chunks.push(memory);
                }
                state.used = number;
                number
            }
        };
        state.lent += 1;
        self.publish(&state);
        drop(state);
        self.note_peak();
        Some(number)
    }

    /// Takes a frame back.
    pub(crate) fn take_back(&self, number: u32) {
        let mut state = self.state.lock();
        state.idle.insert(number, 1);
        state.lent -= 1;
        let limit = self.limit.load(Relaxed);
        if state.ceiling > limit {
            let comes_down = self.held(&state) + KEPT_FOR_STORAGE;
            state.ceiling = state.ceiling.min(comes_down).max(limit);
        }
        self.publish(&state);
    }

    /// Where a frame is that was lent before.
    pub(crate) fn address(&self, number: u32) -> NonNull<u8> {
        let number = number as usize;
        let chunk = self.chunks()[number / CHUNK_FRAMES].load(Acquire);
        let chunk = NonNull::new(chunk).expect("a number that was lent");
        // SAFETY: inside the chunk.
        unsafe { chunk.add(number % CHUNK_FRAMES * FRAME_BYTES) }
    }

    /// Whether more frames are idle than are worth keeping.
    pub(crate) fn has_too_many(&self) -> bool {
        let idle = self.idle.load(Relaxed);
        idle > IDLE_FRAMES + (self.lent() + idle) / IDLE_PART
    }

    /// Gives idle frames back to the kernel. With [`Idle::All`] those are away afterwards, too, that another thread is
    /// giving back.
    pub(crate) fn give_back(&self, idle: Idle) {
        let all = idle == Idle::All;
        while all || self.has_too_many() {
            let mut state = self.state.lock();
            let Some((first, count)) = state.idle.take_uppermost() else {
                if all && state.leaving > 0 {
                    drop(state);
                    std::thread::yield_now();
                    continue;
                }
                return;
            };
            state.leaving += u64::from(count);
            drop(state);
            // A row of bits lies in one word, and a chunk begins with a word: F1 makes them ours.
            // SAFETY: neighbours in one chunk, lent to nobody.
            unsafe { Mapping::give_back(self.address(first), count as usize * FRAME_BYTES) };
            let mut state = self.state.lock();
            state.leaving -= u64::from(count);
            state.away.insert(first, count);
            self.publish(&state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

    fn frames() -> Frames {
        Frames::new(Some(LIMIT * FRAME_BYTES as u64)).unwrap()
    }

    fn lend_all(frames: &Frames, purpose: Purpose) -> Vec<u32> {
        std::iter::from_fn(|| frames.lend(purpose)).collect()
    }

    #[test]
    fn borrowers_come_to_the_limit_one_after_the_other() {
        let frames = frames();
        let pages = lend_all(&frames, Purpose::NewPage);
        assert_eq!(pages.len() as u64, LIMIT - KEPT_FROM_NEW);
        assert_eq!(frames.left_for_pages(), 0);
        let again = lend_all(&frames, Purpose::StoredPage);
        assert_eq!(again.len() as u64, KEPT_FROM_NEW - KEPT_FOR_STORAGE);
        let stored = lend_all(&frames, Purpose::Storage);
        assert_eq!(stored.len() as u64, KEPT_FOR_STORAGE - KEPT_FOR_STAGING);
        assert!(frames.lend(Purpose::Staged).is_some());
        frames.take_back(pages[7]);
        assert_eq!(frames.lend(Purpose::StoredPage), None);
        frames.set_limit(Some(LIMIT / 2 * FRAME_BYTES as u64));
        assert!(
            frames.lend(Purpose::Storage).is_some(),
            "or nothing could leave"
        );
        frames.set_limit(None);
        assert!(frames.lend(Purpose::NewPage).is_some());
    }

    #[test]
    fn tables_count() {
        let frames = frames();
        frames.set_tables(100 * FRAME_BYTES as u64 - 1);
        let pages = lend_all(&frames, Purpose::NewPage);
        assert_eq!(pages.len() as u64, LIMIT - 100 - KEPT_FROM_NEW);
    }

    #[test]
    fn what_is_given_back_is_away_and_comes_again() {
        let frames = frames();
        let pages = lend_all(&frames, Purpose::NewPage);
        for &page in &pages {
            // SAFETY: lent to this test.
            unsafe { frames.address(page).write_bytes(7, FRAME_BYTES) };
        }
        let peak = frames.peak_bytes();
        pages.iter().for_each(|&page| frames.take_back(page));
        assert_eq!(frames.used_bytes(), peak);
        frames.give_back(Idle::TooMany);
        assert!(frames.used_bytes() <= (IDLE_FRAMES + IDLE_FRAMES / 32) * FRAME_BYTES as u64);
        frames.give_back(Idle::All);
        assert_eq!((frames.used_bytes(), frames.peak_bytes()), (0, peak));
        let again = frames.lend(Purpose::NewPage).unwrap();
        assert_eq!(again, 1);
        // SAFETY: lent to this test.
        assert_eq!(unsafe { frames.address(again).read() }, 0, "it was away");
    }
}
