//! Small entries: many in one page, evicted together.
//!
//! They have keys of their own: a small entry and a page of the same key are two entries. A page of
//! small entries is filled from its front to its end, and what stands in it never changes: a new
//! value of a key, or one that is larger, is a new place, and the old one is given up.
//!
//! ```text
//!  page:  │ key 8 │ length 2 │ bytes │ up to a granule of 8 │ key │ … │ free │ marker
//! ```
//!
//! * S1 A place is written once while the page's state is the same, and before a word names it.
//! * S2 All words that name a page are cleared after its state was closed and before it is opened
//!   again. So a reader that sees the state, **then** the word, and afterwards the same state, has a
//!   place of just that state, which begins with a key and a length.
//! * S3 No entry has length 0. A place whose length is 0 **after** its bytes were read was taken by
//!   the kernel, with all of its page.
//! * S4 Whoever appends to a page makes it dirty first and looks at the marker, as every writer
//!   does, under the room lock, under which chunks are sealed, too.
//!
//! A reader waits for nothing, and touches one line of the index, the page's state, and the entry.
//! Who writes does so under the room lock: it is a copy of at most 2 KiB.
//!
//! Places that were given up come back when the page goes. That is at once if nothing else is in it;
//! if it is less than half full, the rest moves to the page being filled when that has room.

use crate::cache::{ATTEMPTS, Cache, Copied};
use crate::error::Error;
use crate::index::matching;
use crate::racy;
use crate::room::Room;
use crate::slot::State;
use crate::small_index::Word;
use crate::{MOST_SMALL_BYTES, PAGE_BYTES};
use std::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

const GRANULE_BYTES: usize = 8;
const HEADER_BYTES: usize = 10;

/// Granules of a page; the marker has the last one.
const PAGE_GRANULES: u32 = (PAGE_BYTES / GRANULE_BYTES) as u32 - 1;

const _: () = assert!(2 * granules(MOST_SMALL_BYTES) <= PAGE_GRANULES);
const _: () = assert!(2 * granules(MOST_SMALL_BYTES + 1) > PAGE_GRANULES);

/// Granules that an entry of `bytes` bytes takes.
const fn granules(bytes: usize) -> u32 {
    (HEADER_BYTES + bytes).div_ceil(GRANULE_BYTES) as u32
}

/// What a page of small entries has, kept in the key of its record: first word of its list (and
/// one), and granules of entries that are still wanted.
#[derive(Clone, Copy)]
struct Census {
    head: u32,
    living: u32,
}

/// An entry as it lies in a page.
#[derive(Clone, Copy)]
struct Entry(*mut u8);

impl Entry {
    /// # Safety
    /// `granule` is below [`PAGE_GRANULES`]` - 1`, so that a header fits; the page outlives the use.
    unsafe fn at(page: *mut u8, granule: u32) -> Entry {
        // SAFETY: inside the page.
        Entry(unsafe { page.add(granule as usize * GRANULE_BYTES) })
    }

    fn key<'a>(self) -> &'a AtomicU64 {
        // SAFETY: inside the page, aligned; others reach it by atomics or by `racy::copy`.
        unsafe { AtomicU64::from_ptr(self.0.cast()) }
    }

    fn length<'a>(self) -> &'a AtomicU16 {
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.0.add(8).cast()) }
    }

    fn bytes(self) -> *mut u8 {
        self.0.wrapping_add(HEADER_BYTES)
    }
}

/// How an attempt ended.
enum Found {
    /// The entry's length.
    Whole(usize),
    /// Something moved meanwhile.
    Torn,
    Nothing,
}

impl Cache {
    /// Copies the small entry of `key` into `into`, as many bytes of it as fit, and returns its
    /// length. `None` if the cache does not have it, or no longer; `into` is then zero or as before.
    pub fn get_small(&self, key: u64, into: &mut [u8]) -> Option<usize> {
        // SAFETY: `into` is ours to write for its length.
        unsafe { self.get_small_raw(key, into.as_mut_ptr(), into.len()) }
    }

    /// As [`get_small`](Cache::get_small), into memory that may be uninitialised.
    ///
    /// # Safety
    /// `into` is writable for `room` bytes and used by nobody else.
    #[inline]
    pub(crate) unsafe fn get_small_raw(
        &self,
        key: u64,
        into: *mut u8,
        room: usize,
    ) -> Option<usize> {
        let mut torn = false;
        if !self.small.is_empty() {
            for _ in 0..ATTEMPTS {
                // SAFETY: handed on.
                match unsafe { self.read_small(key, into, room) } {
                    Found::Whole(length) => {
                        self.counters.hit();
                        return Some(length);
                    }
                    Found::Torn => torn = true,
                    Found::Nothing => break,
                }
            }
        }
        if torn && room > 0 {
            // SAFETY: as the caller vouches.
            unsafe { into.write_bytes(0, room) };
        }
        self.counters.miss();
        None
    }

    /// # Safety
    /// As for [`get_small_raw`](Cache::get_small_raw).
    #[inline]
    unsafe fn read_small(&self, key: u64, into: *mut u8, room: usize) -> Found {
        let candidates = self.small.candidates(key);
        let mut outcome = Found::Nothing;
        for bucket in candidates.buckets {
            let cells = self.small.bucket(bucket);
            // All are compared before one is used: which one it is nobody could predict.
            let mut fit = matching(cells, |word| candidates.fit(word));
            while fit != 0 {
                let cell = &cells[fit.trailing_zeros() as usize];
                fit &= fit - 1;
                let seen = cell.load(Acquire);
                if !candidates.fit(seen) {
                    outcome = Found::Torn;
                    continue;
                }
                let word = Word(seen);
                let (slot, granule) = (word.slot(), word.granule());
                let state = State(self.slots[slot as usize].state.load(Acquire));
                // Only a word seen after the state is of that state (S2).
                if !state.is_small() || cell.load(Acquire) != seen {
                    outcome = Found::Torn;
                    continue;
                }
                // SAFETY: words name places inside pages of our region.
                let entry = unsafe { Entry::at(self.region.page(slot), granule) };
                let length = entry.length().load(Relaxed);
                let bytes = usize::from(length);
                if entry.key().load(Relaxed) == key && fits(granule, bytes) {
                    // SAFETY: inside the page and inside `into`.
                    unsafe { racy::copy(entry.bytes(), into, bytes.min(room)) };
                    // What was read before is read; what follows was not read ahead of it.
                    fence(Acquire);
                    if entry.length().load(Relaxed) == length && self.state(slot) == state {
                        self.touch(slot);
                        return Found::Whole(bytes);
                    }
                    outcome = Found::Torn;
                }
                fence(Acquire);
                if self.state(slot) != state {
                    outcome = Found::Torn;
                } else if entry.length().load(Relaxed) == 0 {
                    // The kernel's (S3); what key it had nobody knows.
                    self.counters.taken();
                    self.forget_taken_small(slot, state);
                }
            }
        }
        outcome
    }

    #[cold]
    fn forget_taken_small(&self, slot: u32, state: State) {
        let Ok(mut room) = self.room.try_lock() else {
            return;
        };
        if self.verdict(slot, state) == Copied::Taken {
            self.release(&mut room, slot);
        }
    }

    /// Keeps `bytes` as the small entry of `key`, instead of the one that was there.
    ///
    /// # Errors
    /// [`Error::SmallBytes`] unless there are 1 to [`MOST_SMALL_BYTES`] of them;
    /// [`Error::NoSmallEntries`] if the cache was made for none
    /// ([`Options::small_entries`](crate::Options::small_entries)); [`Error::NoRoom`] if every page
    /// is locked for write.
    pub fn insert_small(&self, key: u64, bytes: &[u8]) -> Result<(), Error> {
        if !(1..=MOST_SMALL_BYTES).contains(&bytes.len()) {
            return Err(Error::SmallBytes { bytes: bytes.len() });
        }
        if self.stub {
            return Ok(());
        }
        if self.small.is_empty() {
            return Err(Error::NoSmallEntries);
        }
        let mut room = self.lock_room();
        let room = &mut *room;
        let need = granules(bytes.len());
        let slot = self.page_with_space(room, need)?;
        let granule = room.small.used;
        // SAFETY: the space is free, inside the page, and under the room lock ours (S1, S4).
        unsafe {
            let entry = Entry::at(self.region.page(slot), granule);
            entry.key().store(key, Relaxed);
            entry.length().store(bytes.len() as u16, Relaxed);
            racy::copy(bytes.as_ptr(), entry.bytes(), bytes.len());
        }
        room.small.used += need;
        let candidates = self.small.candidates(key);
        let word = candidates.word(slot, granule);
        if let Some((cell, old, gone)) = self.find_small(room, key) {
            self.take_out(cell, old, gone);
            self.put_in(cell, word, need);
            self.tidy(room, old.slot());
            return Ok(());
        }
        let cell = match self.small.free_cell(candidates) {
            Some(cell) => cell,
            None => self.displace(room, candidates.cells(), slot),
        };
        self.put_in(cell, word, need);
        room.small.entries += 1;
        Ok(())
    }

    /// Forgets the small entry of `key`. True if the cache had it, as far as it knew.
    pub fn remove_small(&self, key: u64) -> bool {
        let mut room = self.lock_room();
        let Some((cell, word, gone)) = self.find_small(&mut room, key) else {
            return false;
        };
        self.take_out(cell, word, gone);
        self.small.clear(cell);
        room.small.entries -= 1;
        self.tidy(&mut room, word.slot());
        true
    }

    /// Takes the page that has the small entry of `key` as the kernel does when memory is short. For
    /// tests.
    #[doc(hidden)]
    pub fn take_small_as_the_kernel(&self, key: u64) -> bool {
        let mut room = self.lock_room();
        let Some((_, word, _)) = self.find_small(&mut room, key) else {
            return false;
        };
        let page = word.slot();
        self.region.advise(page, 1, crate::region::Advice::DontNeed)
    }

    /// A page with `need` free granules from `used` on, dirty (S4).
    fn page_with_space(&self, room: &mut Room, need: u32) -> Result<u32, Error> {
        if let Some(slot) = room.small.current {
            if room.small.used + need > PAGE_GRANULES {
                self.retire(room);
            // SAFETY: a page of our region.
            } else if unsafe { racy::hold(self.region.page(slot)) } {
                return Ok(slot);
            } else {
                self.counters.taken();
                self.release(room, slot);
            }
        }
        let slot = self.take_any(room).ok_or(Error::NoRoom)?;
        let record = &self.slots[slot as usize];
        record.key.store(0, Relaxed);
        // SAFETY: a page of our region, which nobody else uses.
        unsafe { racy::marker(self.region.page(slot)) }.store(1, Relaxed);
        let opened = self.state(slot).opened_small();
        record.state.store(opened.0, Release);
        let chunk = &self.chunk_states[self.chunk_of(slot)];
        chunk.written.fetch_add(1, Relaxed);
        room.small.current = Some(slot);
        room.small.used = 0;
        room.small.pages += 1;
        Ok(slot)
    }

    /// The page being filled is full.
    fn retire(&self, room: &mut Room) {
        let Some(slot) = room.small.current.take() else {
            return;
        };
        self.tidy(room, slot);
        let number = self.chunk_of(slot);
        let writers = &self.chunk_states[number].writers;
        if writers.load(Acquire) == 0 && self.seal_is_due(number) {
            self.seal(room, number);
        }
    }

    /// The word of `key`, and the granules of its entry. Pages that turn out to be taken are
    /// forgotten.
    fn find_small(&self, room: &mut Room, key: u64) -> Option<(u32, Word, u32)> {
        if self.small.is_empty() {
            return None;
        }
        let candidates = self.small.candidates(key);
        for cell in candidates.cells() {
            let Some(word) = self.small.word(cell) else {
                continue;
            };
            if !candidates.fit(word.0) {
                continue;
            }
            match self.entry(word) {
                None => self.release(room, word.slot()),
                Some((found, length)) if found == key => {
                    return Some((cell, word, granules(length)));
                }
                Some(_) => {}
            }
        }
        None
    }

    /// Key and length of what a word leads to; `None` if the kernel has taken it. Under the room
    /// lock.
    fn entry(&self, word: Word) -> Option<(u64, usize)> {
        // SAFETY: words name places inside pages of our region.
        let entry = unsafe { Entry::at(self.region.page(word.slot()), word.granule()) };
        let key = entry.key().load(Relaxed);
        fence(Acquire);
        let length = entry.length().load(Relaxed);
        (length != 0).then_some((key, usize::from(length)))
    }

    fn census(&self, slot: u32) -> Census {
        let word = self.slots[slot as usize].key.load(Relaxed);
        Census {
            head: word as u32,
            living: (word >> 32) as u32,
        }
    }

    fn set_census(&self, slot: u32, census: Census) {
        let word = u64::from(census.living) << 32 | u64::from(census.head);
        self.slots[slot as usize].key.store(word, Relaxed);
    }

    fn put_in(&self, cell: u32, word: Word, granules: u32) {
        let Census { head, living } = self.census(word.slot());
        let census = Census {
            head: self.small.link(cell, word, head),
            living: living + granules,
        };
        self.set_census(word.slot(), census);
    }

    fn take_out(&self, cell: u32, word: Word, granules: u32) {
        let Census { head, living } = self.census(word.slot());
        let census = Census {
            head: self.small.unlink(cell, head),
            living: living - granules,
        };
        self.set_census(word.slot(), census);
    }

    /// Gives up an entry so that another has its word: of the coldest page, but not of `spared`.
    fn displace(&self, room: &mut Room, cells: impl Iterator<Item = u32>, spared: u32) -> u32 {
        let words = cells.filter_map(|cell| Some((cell, self.small.word(cell)?)));
        let heat = |word: Word| self.heat[word.slot() as usize].load(Relaxed);
        // Not empty: both buckets are full.
        let coldest = words.min_by_key(|&(_, word)| (word.slot() == spared, heat(word)));
        let (cell, word) = coldest.expect("both buckets are full");
        room.small.displaced += 1;
        match self.entry(word) {
            // Its whole page goes, and with it the word. The page being filled was looked at.
            None => self.release(room, word.slot()),
            Some((_, length)) => {
                self.take_out(cell, word, granules(length));
                self.small.clear(cell);
                room.small.entries -= 1;
                self.tidy(room, word.slot());
            }
        }
        cell
    }

    /// Frees a page that is not being filled if nothing in it is wanted, or moves what is left of it.
    fn tidy(&self, room: &mut Room, slot: u32) {
        if room.small.current == Some(slot) {
            return;
        }
        let living = self.census(slot).living;
        if living == 0 {
            self.release(room, slot);
        } else if living * 2 < PAGE_GRANULES
            && room.small.current.is_some()
            && room.small.used + living <= PAGE_GRANULES
        {
            self.move_living(room, slot);
        }
    }

    fn move_living(&self, room: &mut Room, slot: u32) {
        let mut page = [0u64; PAGE_BYTES / 8];
        let copy = page.as_mut_ptr().cast::<u8>();
        let state = self.state(slot);
        // SAFETY: `page` is ours and a page long.
        let copied = unsafe {
            racy::copy(self.region.page(slot), copy, PAGE_BYTES);
            self.verdict(slot, state)
        };
        if copied != Copied::Whole {
            self.counters.taken();
            self.release(room, slot);
            return;
        }
        let Some(current) = room.small.current else {
            return;
        };
        let target = self.region.page(current);
        // SAFETY: a page of our region.
        if !unsafe { racy::hold(target) } {
            return;
        }
        let mut cell = self.census(slot).head;
        while cell != 0 {
            let after = self.small.after(cell - 1);
            let word = self.small.word(cell - 1).expect("is in a list (Y1)");
            // SAFETY: words name places inside the page, of which this is a copy.
            let from = unsafe { Entry::at(copy, word.granule()) };
            let length = usize::from(from.length().load(Relaxed));
            let need = granules(length);
            // SAFETY: the space is free, inside the page, and under the room lock ours (S1, S4);
            // what is alive was counted to fit.
            unsafe {
                let to = Entry::at(target, room.small.used);
                racy::copy(from.0, to.0, HEADER_BYTES + length);
            }
            self.take_out(cell - 1, word, need);
            self.put_in(cell - 1, word.moved(current, room.small.used), need);
            room.small.used += need;
            room.small.moved += 1;
            cell = after;
        }
        self.release(room, slot);
    }

    /// Forgets all entries of a page whose state was just closed (S2).
    pub(crate) fn forget_small(&self, room: &mut Room, slot: u32) {
        let mut cell = self.census(slot).head;
        while cell != 0 {
            let after = self.small.after(cell - 1);
            self.small.clear(cell - 1);
            room.small.entries -= 1;
            cell = after;
        }
        room.small.pages -= 1;
        if room.small.current == Some(slot) {
            room.small.current = None;
        }
    }
}

/// Whether an entry of so many bytes can stand there.
#[inline]
fn fits(granule: u32, bytes: usize) -> bool {
    (1..=MOST_SMALL_BYTES).contains(&bytes) && granule + granules(bytes) <= PAGE_GRANULES
}
