//! The compressed tier: entries that are evicted stay, compressed, up to a budget.
//!
//! It is part of what the room lock guards: one page is compressed or decompressed at a time. Who
//! evicts does so in steps of [`STEP_PAGES`], so that others wait for no more than these.
//!
//! * T1 A key is in a page or in the tier, never in both: it comes here as its page is forgotten, and
//!   goes from here before it gets a page.
//! * T2 An entry is given out only if its checksum is right; otherwise it is a miss.
//! * T3 Frames lent to the storage, and [`ENTRY_BYTES`] for each entry, are never more than the budget, nor,
//!   when an entry comes, than the limit of that moment.
//!
//! What goes when the budget is used up is decided by what it costs to make again, by what it takes and
//! by age (`order.rs`); what is asked for leaves the tier and, if it is not asked for again, comes anew.
//! Entries that do not compress to [`DEFAULT_TARGET_BYTES`] are lost, as without a tier.

use crate::PAGE_BYTES;
use crate::error::Error;
use crate::frames::{Frames, Tables};
use crate::order::{Order, Rank};
use coldpress_arena::Zeroable;
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, DEFAULT_TARGET_BYTES, Page, PageCodec,
    SameFilled, checksum,
};
use coldpress_storage::{
    AnyStorage, CompressedStorage, Gather, Reference, StorageKind, data, write,
};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::HashMap;

/// Pages evicted under one hold of the room lock, where evicting is compressing: a third of a
/// millisecond at 5 µs a page.
pub(crate) const STEP_PAGES: u32 = 64;

/// What is remembered of an entry beside its bytes, in a hash map and in the order: 100 bytes where both
/// are full, 200 where they have just grown.
pub(crate) const ENTRY_BYTES: usize = 160;

/// Objects that a full tier gives up for one entry at most.
const MOST_DISCARDED: usize = 64;

/// See the head of the file.
pub(crate) struct Tier {
    codec: AnyCodec,
    state: Box<AnyState>,
    scratch: Box<AnyScratch>,
    gather: Box<Gather>,
    output: Box<Page>,
    storage: AnyStorage,
    frames: Frames,
    tables: Tables,
    entries: HashMap<u64, Kept>,
    order: Order,
    budget_bytes: usize,
    /// Bytes that all may take now (T3): the budget, or less.
    limit_bytes: usize,
    /// Counters, see [`Stats`](crate::Stats).
    pub compressed: u64,
    pub restored: u64,
    pub discarded: u64,
    pub incompressible: u64,
}

struct Kept {
    content: Content,
    rank: Rank,
    cost: u32,
}

enum Content {
    SameFilled(u64),
    Stored { reference: Reference, sum: u32 },
}

fn zeroed<T: Zeroable>() -> Box<T> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0);
    // SAFETY: of a size; zero is a valid value of the type, which the box then owns.
    unsafe {
        let memory = alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}

impl Tier {
    /// A tier whose frames take at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Result<Tier, Error> {
        Ok(Tier {
            codec: AnyCodec::of(CodecKind::best(), SameFilled::Detect),
            state: zeroed(),
            scratch: zeroed(),
            gather: zeroed(),
            output: Box::new([0; PAGE_BYTES]),
            storage: AnyStorage::new(StorageKind::default()),
            frames: Frames::new(budget_bytes)?,
            tables: Tables::default(),
            entries: HashMap::new(),
            order: Order::default(),
            budget_bytes,
            limit_bytes: budget_bytes,
            compressed: 0,
            restored: 0,
            discarded: 0,
            incompressible: 0,
        })
    }

    /// Keeps `page` under `key`, which is not here. False if it is lost.
    pub fn keep(&mut self, key: u64, page: &Page, cost: u32) -> bool {
        let target = &mut self.output[..DEFAULT_TARGET_BYTES];
        let (content, rank) = match self.codec.compress(&mut self.state, page, target) {
            Compressed::SameFilled(word) => {
                let rank = self.order.rank(cost, ENTRY_BYTES);
                if !self.make_room(rank) {
                    return false;
                }
                (Content::SameFilled(word), rank)
            }
            Compressed::Stored(bytes) => {
                let rank = self.order.rank(cost, bytes + ENTRY_BYTES);
                let Some(reference) = self.place(bytes, rank) else {
                    return false;
                };
                // SAFETY: allocated just now, known to nobody else.
                unsafe { write(&self.frames, reference, &[&self.output[..bytes]]) };
                let sum = checksum(page);
                (Content::Stored { reference, sum }, rank)
            }
            Compressed::Incompressible => {
                self.incompressible += 1;
                return false;
            }
        };
        let kept = Kept {
            content,
            rank,
            cost,
        };
        self.entries.insert(key, kept);
        self.order.insert(rank, key);
        self.compressed += 1;
        true
    }

    /// A place for a newcomer, and room for what is remembered of it. `None` if it is worth less
    /// than what would have to go.
    fn place(&mut self, bytes: usize, newcomer: Rank) -> Option<Reference> {
        for _ in 0..MOST_DISCARDED {
            if !self.make_room(newcomer) {
                return None;
            }
            let remembered = (self.entries.len() + 1) * ENTRY_BYTES;
            self.frames.limit(self.limit_bytes - remembered);
            if !self.storage.reserve(&self.tables, 1) {
                break;
            }
            if let Some(reference) = self.storage.allocate(&self.frames, bytes) {
                return Some(reference);
            }
            if !self.discard(Some(newcomer)) {
                return None;
            }
        }
        self.discarded += 1;
        None
    }

    /// Gives entries up until one more can be remembered (T3). False if the newcomer is worth less.
    fn make_room(&mut self, newcomer: Rank) -> bool {
        while self.bytes() + ENTRY_BYTES > self.limit_bytes {
            if !self.discard(Some(newcomer)) {
                return false;
            }
        }
        true
    }

    /// Gives up the entry that goes first. False if that is the newcomer, or if there is none.
    fn discard(&mut self, newcomer: Option<Rank>) -> bool {
        let next = self.order.next(newcomer);
        self.discarded += u64::from(next.is_some() || newcomer.is_some());
        next.is_some_and(|key| self.forget(key).is_some())
    }

    /// Limits what is kept from now on to `bytes`, if that is less than the budget.
    pub fn limit(&mut self, bytes: usize) {
        self.limit_bytes = bytes.min(self.budget_bytes);
    }

    /// Gives up the entry that goes first. False if there is none.
    pub fn discard_next(&mut self) -> bool {
        self.discard(None)
    }

    /// Forgets `key`. Its cost, if it was here.
    pub fn forget(&mut self, key: u64) -> Option<u32> {
        let kept = self.entries.remove(&key)?;
        self.order.remove(kept.rank);
        if let Content::Stored { reference, .. } = kept.content {
            self.storage.free(&self.frames, reference);
        }
        Some(kept.cost)
    }

    /// Says what the entry of `key` costs to make again. Whether it is here. How old it is does not
    /// change: it counts from the next time it comes.
    pub fn set_cost(&mut self, key: u64, cost: u32) -> bool {
        let kept = self.entries.get_mut(&key);
        kept.map(|kept| kept.cost = cost).is_some()
    }

    /// Takes `key` out, to `page`. Its cost, if it was here, and whole (T2).
    pub fn take(&mut self, key: u64, page: &mut Page) -> Option<u32> {
        let whole = match &self.entries.get(&key)?.content {
            Content::SameFilled(word) => {
                for bytes in page.chunks_exact_mut(8) {
                    bytes.copy_from_slice(&word.to_ne_bytes());
                }
                true
            }
            Content::Stored { reference, sum } => {
                // SAFETY: allocated with these frames and freed below; under the room lock.
                let stored = unsafe { data(&self.frames, *reference, &mut self.gather) };
                stored.is_some_and(|stored| {
                    self.codec
                        .decompress(&mut self.scratch, stored, page)
                        .is_ok()
                        && checksum(page) == *sum
                })
            }
        };
        let cost = self.forget(key);
        self.restored += u64::from(whole);
        cost.filter(|_| whole)
    }

    /// Entries kept.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of frames in use, and of what is remembered of entries.
    pub fn bytes(&self) -> usize {
        self.frames.bytes() + self.entries.len() * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(key: u64) -> Page {
        let mut page = [0; PAGE_BYTES];
        for (number, word) in page.chunks_exact_mut(8).enumerate() {
            let value = key << 20 | (number as u64 * 7919 % 251);
            word.copy_from_slice(&value.to_ne_bytes());
        }
        page
    }

    #[test]
    fn what_is_kept_comes_back_once() {
        let mut tier = Tier::new(1 << 20).unwrap();
        for key in 0..100 {
            assert!(tier.keep(key, &page(key), 1));
        }
        assert!(tier.keep(200, &[9; PAGE_BYTES], 1));
        let mut got = [1; PAGE_BYTES];
        for key in (0..100).rev() {
            assert_eq!(tier.take(key, &mut got), Some(1));
            assert!(got == page(key));
            assert_eq!(tier.take(key, &mut got), None);
        }
        assert!(tier.take(200, &mut got).is_some() && got == [9; PAGE_BYTES]);
        assert_eq!((tier.entries(), tier.bytes()), (0, 0));
    }

    #[test]
    fn a_full_tier_gives_up_the_oldest_and_keeps_its_budget() {
        let budget = 64 * PAGE_BYTES;
        let mut tier = Tier::new(budget).unwrap();
        for key in 0..10_000 {
            assert!(tier.keep(key, &page(key), 1));
            assert!(tier.bytes() <= budget);
        }
        assert!(tier.discarded > 0 && tier.entries() > 64);
        let mut got = [0; PAGE_BYTES];
        assert_eq!(tier.take(0, &mut got), None);
        assert!(tier.take(9_999, &mut got).is_some() && got == page(9_999));
    }

    #[test]
    fn damage_is_a_miss() {
        let mut tier = Tier::new(1 << 20).unwrap();
        tier.keep(1, &page(1), 1);
        let Some(Content::Stored { sum, .. }) =
            tier.entries.get_mut(&1).map(|kept| &mut kept.content)
        else {
            panic!("is not stored")
        };
        *sum ^= 1;
        assert_eq!(tier.take(1, &mut [0; PAGE_BYTES]), None);
        assert_eq!(tier.entries(), 0);
    }

    #[test]
    fn what_does_not_compress_is_lost() {
        let mut random = 7u64;
        let mut page = [0; PAGE_BYTES];
        for byte in &mut page {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            *byte = (random >> 56) as u8;
        }
        let mut tier = Tier::new(1 << 20).unwrap();
        assert!(!tier.keep(1, &page, 1));
        assert_eq!((tier.incompressible, tier.bytes()), (1, 0));
    }

    #[test]
    fn same_filled_pages_are_counted_too() {
        let budget = 64 * PAGE_BYTES;
        let mut tier = Tier::new(budget).unwrap();
        for key in 0..10_000 {
            tier.keep(key, &[key as u8; PAGE_BYTES], 1);
            assert!(tier.bytes() <= budget);
        }
        assert_eq!(tier.entries(), budget / ENTRY_BYTES);
        // They are small, so what is larger goes first; in the end they are overtaken.
        for key in 10_000..30_000 {
            tier.keep(key, &page(key), 1);
            assert!(tier.bytes() <= budget);
        }
        assert!(tier.entries() < budget / ENTRY_BYTES / 2);
    }

    #[test]
    fn what_is_dear_outlives_what_is_cheap() {
        let mut tier = Tier::new(64 * PAGE_BYTES).unwrap();
        for key in 0..3000 {
            tier.keep(key, &page(key), if key < 50 { 100 } else { 1 });
        }
        let mut got = [0; PAGE_BYTES];
        for key in 0..50 {
            assert_eq!(tier.take(key, &mut got), Some(100), "{key}");
            assert!(got == page(key));
        }
        // Of the cheap only the latest are there, and not all that would fit without the dear.
        assert_eq!(tier.take(1000, &mut got), None);
        assert_eq!(tier.take(2999, &mut got), Some(1));
    }
}
