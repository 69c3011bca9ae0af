//! The cache, and its simple calls: get, insert, remove.

use crate::budget::Budget;
use crate::counters::Counters;
use crate::error::Error;
use crate::index::Index;
use crate::options::{Backing, Options};
use crate::order::DEFAULT_COST;
use crate::pressure::Pressure;
use crate::region::{Region, Table};
use crate::room::{Chunk, ChunkState, Room};
use crate::slot::{Ending, Slot, State};
use crate::small_index::SmallIndex;
use crate::tier::Tier;
use crate::{PAGE_BYTES, racy};
use std::mem::MaybeUninit;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32,
    Ordering::{Acquire, Relaxed},
};
use std::sync::{Mutex, MutexGuard};

/// How often a read starts again because its page changed, before it is a miss.
pub(crate) const ATTEMPTS: usize = 8;

/// How an attempt to read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// What was copied is the entry.
    Whole,
    /// The kernel has taken the page.
    Taken,
    /// The page was written, dropped or evicted meanwhile: what was copied is nothing.
    Torn,
    /// Nothing was copied.
    Nothing,
}

/// A cache of pages of [`PAGE_BYTES`] bytes by 64-bit keys. See the [crate](crate) for how it works.
///
/// All calls take `&self` and may come from any thread.
///
/// ```
/// use coldpress_cache::{Backing, Cache, Options};
///
/// let cache = Cache::new(Options::new(1 << 20, Backing::LazyFree))?;
/// cache.insert(7, b"can be had again")?;
/// let mut bytes = [0; 16];
/// assert!(cache.get(7, &mut bytes)); // or not, if memory was short meanwhile
/// assert_eq!(&bytes, b"can be had again");
/// # Ok::<(), coldpress_cache::Error>(())
/// ```
pub struct Cache {
    pub(crate) region: Region,
    pub(crate) slots: Table<Slot>,
    /// Hits of each page, up to [`HOTTEST`](crate::room::HOTTEST). Readers write it without a lock and may lose a hit.
    pub(crate) heat: Table<AtomicU8>,
    /// What each page's entry costs to make again. Of no pages without a compressed tier.
    costs: Table<AtomicU32>,
    pub(crate) index: Index,
    pub(crate) small: SmallIndex,
    pub(crate) chunk_states: Box<[ChunkState]>,
    pub(crate) pages_a_chunk: u32,
    /// Pages kept from the kernel, roughly (counted when kept, forgotten when their chunk is sealed).
    pub(crate) kept: AtomicU32,
    pub(crate) most_kept: u32,
    pub(crate) counters: Counters,
    pub(crate) overcommit: bool,
    pub(crate) stub: bool,
    pub(crate) pressure: Pressure,
    /// Memory was short when last looked at.
    pub(crate) short: AtomicBool,
    /// Whether there is a compressed tier.
    pub(crate) has_tier: bool,
    /// The room lock: guards chunks, free pages, words of the index, and the closing of states. Leaf.
    /// May be held across `madvise`, `mincore` and a walk over all records, with a compressed tier
    /// also one decompression and a step of compressions; never while a page is filled.
    pub(crate) room: Mutex<Room>,
}

impl Cache {
    /// A cache as told by `options`.
    ///
    /// # Errors
    /// [`Error::NoCapacity`], [`Error::TooLarge`], [`Error::Chunks`], [`Error::PageSize`], and
    /// [`Error::Memory`] where there is not enough address space.
    pub fn new(options: Options) -> Result<Cache, Error> {
        // SAFETY: asks for a constant.
        check_page_size(unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize)?;
        let (pages_a_chunk, backings) = options.layout()?;
        let pages = pages_a_chunk as usize * backings.len();
        let region = Region::reserve(pages * PAGE_BYTES)?;
        region.small_pages();
        let mut chunks = Vec::with_capacity(backings.len());
        for (number, &backing) in backings.iter().enumerate() {
            let first = number as u32 * pages_a_chunk;
            if backing == Backing::Disk {
                region.map_file(first, pages_a_chunk, &options.directory)?;
            }
            chunks.push(Chunk::new(first, pages_a_chunk, backing));
        }
        let (hard, soft) = (options.hard_bytes, options.soft_bytes);
        let budget = Budget::new(pages, options.compressed_bytes, hard, soft);
        let tier = match options.compressed_bytes {
            0 => None,
            bytes => Some(Tier::new(bytes)?),
        };
        let lazy = options.lazyfree_chunks as u64 * u64::from(pages_a_chunk);
        Ok(Cache {
            slots: Table::new(pages)?,
            heat: Table::new(pages)?,
            costs: Table::new(if tier.is_some() { pages } else { 0 })?,
            index: Index::new(pages)?,
            small: SmallIndex::new(options.small_entries)?,
            chunk_states: backings.iter().map(|_| ChunkState::default()).collect(),
            pages_a_chunk,
            kept: AtomicU32::new(0),
            most_kept: (lazy * u64::from(options.keep_hot) / 256) as u32,
            counters: Counters::default(),
            overcommit: options.overcommit,
            stub: options.stub,
            pressure: Pressure(options.pressure),
            short: AtomicBool::new(false),
            has_tier: tier.is_some(),
            room: Mutex::new(Room::new(chunks, pages_a_chunk, tier, budget)),
            region,
        })
    }

    /// Pages the cache has.
    pub fn pages(&self) -> usize {
        self.slots.len()
    }

    /// Copies the first bytes of the entry of `key` into `into`, as many as it holds. False if the
    /// cache does not have the entry, or no longer; `into` is then zero or as before.
    ///
    /// # Panics
    /// If `into` is longer than a page.
    pub fn get(&self, key: u64, into: &mut [u8]) -> bool {
        self.get_at(key, 0, into)
    }

    /// Like [`get`](Cache::get), from `offset` on.
    ///
    /// # Panics
    /// If `into` reaches beyond the page.
    pub fn get_at(&self, key: u64, offset: usize, into: &mut [u8]) -> bool {
        check_range(offset, into.len()).unwrap_or_else(|e| panic!("{e}"));
        // SAFETY: `into` is ours to write for its length, and it was checked against the page.
        let got = unsafe { self.read_into(key, offset, into.as_mut_ptr(), into.len()) };
        if got == Copied::Torn {
            into.fill(0);
        }
        got == Copied::Whole
    }

    /// Calls `use_page` with a copy of the entry of `key`. `None` if the cache does not have it.
    pub fn with<R>(&self, key: u64, use_page: impl FnOnce(&[u8; PAGE_BYTES]) -> R) -> Option<R> {
        let mut page = MaybeUninit::<[u8; PAGE_BYTES]>::uninit();
        // SAFETY: `page` is ours and has a page's length.
        let got = unsafe { self.read_into(key, 0, page.as_mut_ptr().cast(), PAGE_BYTES) };
        // SAFETY: a whole page was copied into it.
        (got == Copied::Whole).then(|| use_page(unsafe { page.assume_init_ref() }))
    }

    /// `Whole`; `Nothing` (a miss, and `into` is as before); `Torn` (a miss, and it is not).
    ///
    /// # Safety
    /// `into` is writable for `bytes` bytes and used by nobody else; they fit into a page at `offset`.
    #[inline]
    unsafe fn read_into(&self, key: u64, offset: usize, into: *mut u8, bytes: usize) -> Copied {
        let mut outcome = Copied::Nothing;
        for _ in 0..ATTEMPTS {
            let Some((slot, state)) = self.look_up_anywhere(key) else {
                break;
            };
            // SAFETY: handed on.
            match unsafe { self.copy_out(slot, state, offset, into, bytes) } {
                Copied::Whole => {
                    self.touch(slot);
                    self.counters.hit();
                    return Copied::Whole;
                }
                Copied::Taken => {
                    outcome = Copied::Torn;
                    self.counters.taken();
                    self.forget_taken(slot, state);
                    break;
                }
                Copied::Nothing | Copied::Torn => outcome = Copied::Torn,
            }
        }
        self.counters.miss();
        outcome
    }

    /// Keeps `bytes`, and zeros up to a page, under `key`, instead of what was there.
    ///
    /// # Errors
    /// [`Error::TooLong`]; [`Error::Busy`] while somebody else writes this key; [`Error::NoRoom`]
    /// if every page is locked.
    pub fn insert(&self, key: u64, bytes: &[u8]) -> Result<(), Error> {
        self.insert_with_cost(key, bytes, DEFAULT_COST)
    }

    /// As [`insert`](Cache::insert), and says what the entry costs to make again. See
    /// [`set_cost`](Cache::set_cost).
    ///
    /// # Errors
    /// As [`insert`](Cache::insert).
    pub fn insert_with_cost(&self, key: u64, bytes: &[u8], cost: u32) -> Result<(), Error> {
        check_range(0, bytes.len())?;
        let writing = self.begin(key, None)?;
        self.set_cost_of_page(writing.slot, cost);
        let page = self.region.page(writing.slot);
        let rest = PAGE_BYTES - bytes.len();
        // SAFETY: the page is locked for us; readers bear with it (C4). Both lengths are inside it.
        unsafe {
            racy::copy(bytes.as_ptr(), page, bytes.len());
            racy::copy(ZEROS.as_ptr(), page.add(bytes.len()), rest);
        }
        self.finish(writing.slot, Ending::Readable);
        Ok(())
    }

    /// Says what the entry of `key` costs to make again, in a unit of the caller's: time, money. When
    /// the compressed tier is full, what is cheap for the memory it takes goes before what is dear;
    /// without a tier it does nothing. 1 is what entries cost of which nothing is said; with 0 an
    /// entry goes first. False if the cache does not have the entry. A page locked for write may be
    /// told its cost before it is readable; rewriting it by a lock does not change the cost,
    /// [`insert`](Cache::insert) sets it to 1.
    pub fn set_cost(&self, key: u64, cost: u32) -> bool {
        let mut room = self.lock_room();
        if let Some(slot) = self.index.find(key, &self.slots) {
            self.set_cost_of_page(slot, cost);
            return true;
        }
        room.tier
            .as_mut()
            .is_some_and(|tier| tier.set_cost(key, cost))
    }

    /// By the page's writer, or under the room lock.
    pub(crate) fn set_cost_of_page(&self, slot: u32, cost: u32) {
        if let Some(known) = self.costs.get(slot as usize) {
            known.store(cost, Relaxed);
        }
    }

    pub(crate) fn cost(&self, slot: u32) -> u32 {
        let known = self.costs.get(slot as usize);
        known.map_or(DEFAULT_COST, |cost| cost.load(Relaxed))
    }

    /// Forgets `key`. True if the cache had an entry of it, as far as it knew; false while it is locked for write.
    pub fn remove(&self, key: u64) -> bool {
        let mut room = self.lock_room();
        let Some(slot) = self.index.find(key, &self.slots) else {
            let tier = room.tier.as_mut();
            return tier.and_then(|tier| tier.forget(key)).is_some();
        };
        if !self.state(slot).is_open() {
            return false;
        }
        // SAFETY: a page of our region.
        let there = unsafe { racy::marker(self.region.page(slot)) }.load(Relaxed) != 0;
        self.release(&mut room, slot);
        there
    }

    /// The page of `key` and its state, if it is open.
    #[inline]
    pub(crate) fn look_up(&self, key: u64) -> Option<(u32, State)> {
        let slot = self.index.find(key, &self.slots)?;
        let record = &self.slots[slot as usize];
        let state = State(record.state.load(Acquire));
        // The key was written before the state was opened, which orders this load after it.
        (state.is_open() && record.key.load(Relaxed) == key).then_some((slot, state))
    }

    /// As [`look_up`](Cache::look_up), after giving an entry of the compressed tier a page.
    #[inline]
    pub(crate) fn look_up_anywhere(&self, key: u64) -> Option<(u32, State)> {
        let found = self.look_up(key);
        if found.is_none() && self.has_tier && self.restore(key) {
            return self.look_up(key);
        }
        found
    }

    /// Gives the entry of `key` a page if it is in the compressed tier. Whether it was.
    #[cold]
    pub(crate) fn restore(&self, key: u64) -> bool {
        let mut page = [0; PAGE_BYTES];
        let mut room = self.lock_room();
        // Only what has no page is there (T1).
        let taken = room.tier.as_mut();
        let Some(cost) = taken.and_then(|tier| tier.take(key, &mut page)) else {
            return false;
        };
        let Ok(slot) = self.take_page(&mut room, key) else {
            return false;
        };
        self.set_cost_of_page(slot, cost);
        self.count_writer(slot);
        drop(room);
        // SAFETY: the page is locked for us; readers bear with it (C4).
        unsafe { racy::copy(page.as_ptr(), self.region.page(slot), PAGE_BYTES) };
        self.finish(slot, Ending::Readable);
        true
    }

    #[inline]
    pub(crate) fn state(&self, slot: u32) -> State {
        State(self.slots[slot as usize].state.load(Relaxed))
    }

    #[inline]
    pub(crate) fn chunk_of(&self, slot: u32) -> usize {
        (slot / self.pages_a_chunk) as usize
    }

    pub(crate) fn lock_room(&self) -> MutexGuard<'_, Room> {
        // Nothing panics with the room half changed.
        self.room.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A page of zeros.
pub(crate) static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

pub(crate) fn check_page_size(kernel: usize) -> Result<(), Error> {
    if kernel == PAGE_BYTES {
        return Ok(());
    }
    Err(Error::PageSize {
        kernel,
        built: PAGE_BYTES,
    })
}

pub(crate) fn check_range(offset: usize, bytes: usize) -> Result<(), Error> {
    match offset.checked_add(bytes) {
        Some(end) if end <= PAGE_BYTES => Ok(()),
        _ => Err(Error::TooLong { offset, bytes }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_page_sizes_are_refused() {
        assert!(check_page_size(4096).is_ok());
        let error = check_page_size(16384).unwrap_err();
        assert!(error.to_string().contains("16384"), "{error}");
    }
}
