//! The compressed tier: entries that are evicted stay, compressed, up to a budget.
//!
//! It is part of what the room lock guards: one page is compressed or decompressed at a time. Who
//! evicts does so in steps of [`STEP_PAGES`], so that others wait for no more than these.
//!
//! * T1 A key is in a page or in the tier, never in both: it comes here as its page is forgotten, and
//!   goes from here before it gets a page.
//! * T2 An entry is given out only if its checksum is right; otherwise it is a miss.
//! * T3 Frames lent to the storage are never more than the budget.
//!
//! What goes when the budget is used up is what came first; what is asked for leaves the tier and, if it is
//! not asked for again, comes anew. Entries that do not compress to
//! [`DEFAULT_TARGET_BYTES`] are lost, as without a tier.

use crate::PAGE_BYTES;
use crate::error::Error;
use crate::region::{Advice, Region};
use coldpress_arena::{CHUNK_BYTES, ChunkSource, Zeroable};
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, DEFAULT_TARGET_BYTES, Page, PageCodec,
    checksum,
};
use coldpress_storage::{
    AnyStorage, CompressedStorage, FrameIndex, FrameSource, Gather, Reference, StorageKind, data,
    write,
};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::Mutex;

/// Pages evicted under one hold of the room lock, where evicting is compressing: a third of a
/// millisecond at 5 µs a page.
pub(crate) const STEP_PAGES: u32 = 64;

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
    /// Keys as they came, with their numbers; what is not the entry's number any more does not count.
    order: VecDeque<(u64, u64)>,
    number: u64,
    /// Counters, see [`Stats`](crate::Stats).
    pub compressed: u64,
    pub restored: u64,
    pub discarded: u64,
    pub incompressible: u64,
}

struct Kept {
    content: Content,
    number: u64,
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
            codec: AnyCodec::of(CodecKind::best(), true),
            state: zeroed(),
            scratch: zeroed(),
            gather: zeroed(),
            output: Box::new([0; PAGE_BYTES]),
            storage: AnyStorage::new(StorageKind::default()),
            frames: Frames::new(budget_bytes)?,
            tables: Tables(Mutex::default()),
            entries: HashMap::new(),
            order: VecDeque::new(),
            number: 0,
            compressed: 0,
            restored: 0,
            discarded: 0,
            incompressible: 0,
        })
    }

    /// Keeps `page` under `key`, which is not here. False if it is lost.
    pub fn keep(&mut self, key: u64, page: &Page) -> bool {
        let target = &mut self.output[..DEFAULT_TARGET_BYTES];
        let content = match self.codec.compress(&mut self.state, page, target) {
            Compressed::SameFilled(word) => Content::SameFilled(word),
            Compressed::Stored(bytes) => {
                let Some(reference) = self.place(bytes) else {
                    self.discarded += 1;
                    return false;
                };
                // SAFETY: allocated just now, known to nobody else.
                unsafe { write(&self.frames, reference, &[&self.output[..bytes]]) };
                Content::Stored {
                    reference,
                    sum: checksum(page),
                }
            }
            Compressed::Incompressible => {
                self.incompressible += 1;
                return false;
            }
        };
        self.number += 1;
        let number = self.number;
        self.entries.insert(key, Kept { content, number });
        self.order.push_back((key, number));
        self.compressed += 1;
        // Keys that left by being asked for stay in the order until it is mostly these.
        if self.order.len() > 2 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.order.retain(|(key, number)| {
                entries.get(key).is_some_and(|kept| kept.number == *number)
            });
        }
        true
    }

    fn place(&mut self, bytes: usize) -> Option<Reference> {
        for _ in 0..MOST_DISCARDED {
            if !self.storage.reserve(&self.tables, 1) {
                return None;
            }
            if let Some(reference) = self.storage.allocate(&self.frames, bytes) {
                return Some(reference);
            }
            self.discard_oldest()?;
        }
        None
    }

    fn discard_oldest(&mut self) -> Option<()> {
        loop {
            let (key, number) = self.order.pop_front()?;
            if self
                .entries
                .get(&key)
                .is_some_and(|kept| kept.number == number)
            {
                self.forget(key);
                self.discarded += 1;
                return Some(());
            }
        }
    }

    /// Forgets `key`. Whether it was here.
    pub fn forget(&mut self, key: u64) -> bool {
        let Some(kept) = self.entries.remove(&key) else {
            return false;
        };
        if let Content::Stored { reference, .. } = kept.content {
            self.storage.free(&self.frames, reference);
        }
        true
    }

    /// Takes `key` out, to `page`. Whether it was here, and whole (T2).
    pub fn take(&mut self, key: u64, page: &mut Page) -> bool {
        let whole = match self.entries.get(&key).map(|kept| &kept.content) {
            None => return false,
            Some(Content::SameFilled(word)) => {
                for bytes in page.chunks_exact_mut(8) {
                    bytes.copy_from_slice(&word.to_ne_bytes());
                }
                true
            }
            Some(Content::Stored { reference, sum }) => {
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
        self.forget(key);
        self.restored += u64::from(whole);
        whole
    }

    /// Entries kept.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of frames in use.
    pub fn bytes(&self) -> usize {
        self.storage.usage().storage_bytes
    }
}

/// Frames in a region as large as the budget (T3).
struct Frames {
    region: Region,
    /// Guards which frames are free. Leaf under the room lock, held for a few stores.
    free: Mutex<FreeFrames>,
}

struct FreeFrames {
    list: Vec<u32>,
    used_up_to: u32,
    most: u32,
}

impl Frames {
    fn new(budget_bytes: usize) -> Result<Frames, Error> {
        let most = u32::try_from(budget_bytes / PAGE_BYTES).unwrap_or(u32::MAX >> 1);
        if most == 0 {
            return Err(Error::NoCapacity {
                bytes: budget_bytes,
            });
        }
        let region = Region::reserve(most as usize * PAGE_BYTES)?;
        region.small_pages();
        Ok(Frames {
            region,
            free: Mutex::new(FreeFrames {
                list: Vec::new(),
                used_up_to: 0,
                most,
            }),
        })
    }
}

// SAFETY: each index is a page of the region of its own, which only its borrower uses and which is
// zero at first; it is lent again only after it was given back.
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(frame) = free.list.pop() {
            return Some(FrameIndex(frame));
        }
        if free.used_up_to == free.most {
            return None;
        }
        free.used_up_to += 1;
        Some(FrameIndex(free.used_up_to))
    }

    fn free(&self, frame: FrameIndex) {
        self.region.advise(frame.0 - 1, 1, Advice::DontNeed);
        let mut free = self.free.lock().unwrap_or_else(|e| e.into_inner());
        free.list.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // A frame that is not lent has a meaningless address, but one.
        let page = self.region.page(frame.0.saturating_sub(1));
        NonNull::new(page).unwrap_or(NonNull::dangling())
    }
}

/// Memory for the storage's tables; kept until the tier ends.
struct Tables(Mutex<Vec<Region>>);

// SAFETY: each chunk is a region of its own, fresh from the kernel, which lives as long as the tier.
unsafe impl ChunkSource for Tables {
    fn chunk(&self) -> Option<NonNull<u8>> {
        let region = Region::reserve(CHUNK_BYTES).ok()?;
        let chunk = NonNull::new(region.page(0));
        self.0
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .push(region);
        chunk
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
            assert!(tier.keep(key, &page(key)));
        }
        assert!(tier.keep(200, &[9; PAGE_BYTES]));
        let mut got = [1; PAGE_BYTES];
        for key in (0..100).rev() {
            assert!(tier.take(key, &mut got));
            assert!(got == page(key));
            assert!(!tier.take(key, &mut got));
        }
        assert!(tier.take(200, &mut got) && got == [9; PAGE_BYTES]);
        assert_eq!((tier.entries(), tier.bytes()), (0, 0));
    }

    #[test]
    fn a_full_tier_gives_up_the_oldest_and_keeps_its_budget() {
        let budget = 64 * PAGE_BYTES;
        let mut tier = Tier::new(budget).unwrap();
        for key in 0..10_000 {
            assert!(tier.keep(key, &page(key)));
            assert!(tier.bytes() <= budget);
        }
        assert!(tier.discarded > 0 && tier.entries() > 64);
        let mut got = [0; PAGE_BYTES];
        assert!(!tier.take(0, &mut got));
        assert!(tier.take(9_999, &mut got) && got == page(9_999));
        assert!(tier.order.len() <= 2 * tier.entries() + 64);
    }

    #[test]
    fn damage_is_a_miss() {
        let mut tier = Tier::new(1 << 20).unwrap();
        tier.keep(1, &page(1));
        let Some(Content::Stored { sum, .. }) =
            tier.entries.get_mut(&1).map(|kept| &mut kept.content)
        else {
            panic!("is not stored")
        };
        *sum ^= 1;
        assert!(!tier.take(1, &mut [0; PAGE_BYTES]));
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
        assert!(!tier.keep(1, &page));
        assert_eq!((tier.incompressible, tier.bytes()), (1, 0));
    }
}
