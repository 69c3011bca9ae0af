//! A write-back tier behind a cache: what zram's backing device is to zram.
//!
//! Pages that are evicted go, compressed and sealed, to a file that nothing can be found in afterwards, and which has
//! no name any more. What has no record there is zeros. So the cache is a RAM disk, of which some is elsewhere.
//!
//! ```text
//!   record: 0, the page compressed by the disk's codec · 1, the word that fills it · 2, the page as it is
//! ```
//!
//! One lock, held across a codec and across input and output: those that evict and those that miss take turns.

use super::table::Spread;
use super::tier_device::{SEGMENT_BYTES, TierDevice};
use crate::backing::{Backing, BackingError, Zeroing};
use crate::mapping::Mapping;
use coldpress_arena::Zeroable;
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, PAGE_SIZE, Page, PageCodec, SameFilled,
};
use coldpress_tier::{
    Counts, DeviceError, Handle, Key, Memory, Refused, Segment, Slot, Tier, Unreadable,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest record: its kind, and a page as it is.
const RECORD_BYTES: usize = PAGE_SIZE + 1;

/// A page that does not become smaller by a tenth is written as it is.
const TARGET_BYTES: usize = PAGE_SIZE * 9 / 10;

const COMPRESSED: u8 = 0;
const FILLED: u8 = 1;
const PLAIN: u8 = 2;

struct Inner {
    // Before the memory that it refers to.
    tier: Tier<'static, TierDevice>,
    records: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    codec: AnyCodec,
    state: &'static mut AnyState,
    scratch: &'static mut AnyScratch,
    record: [u8; RECORD_BYTES],
    _memory: [Mapping; 6],
}

/// So long a question waits for an operation to end. One that waits for a device that does not answer takes longer.
const LONGEST_QUESTION: Duration = Duration::from_millis(200);

/// What questions are answered with.
#[derive(Clone, Copy, Default)]
struct Told {
    counts: Counts,
    budget_left: Option<u64>,
}

/// A tier as the store behind a cache.
pub struct TierStore {
    /// Guards all of it; below a range and the gate of the cache, above `told`.
    inner: Mutex<Inner>,
    /// What was so after the last operation; a leaf, below `inner` too.
    told: Mutex<Told>,
    size_bytes: u64,
    memory_bytes: AtomicU64,
    started: Instant,
}

/// The value in memory that was just mapped for it.
///
/// # Safety
/// Zeros are a value of T, the mapping is as large as `count` of them, this is called once for it, and the reference is
/// used no longer than the mapping lives.
unsafe fn zeroed<T>(memory: &Mapping, count: usize) -> &'static mut [T] {
    const { assert!(align_of::<T>() <= 4096) };
    // SAFETY: a mapping is aligned to a page; the rest is the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(memory.start().cast::<T>().as_ptr(), count) }
}

fn is_zeroable<T: Zeroable>() {}

impl TierStore {
    /// A store of so many bytes, all zeros, whose pages go to a file ([`TierFile`](crate::TierFile)) or another device,
    /// at most `daily_bytes` in a day.
    ///
    /// # Errors
    /// There is no memory, or the kernel gives no random numbers.
    pub fn new(
        device: impl Into<TierDevice>,
        size_bytes: u64,
        codec: CodecKind,
        daily_bytes: Option<u64>,
    ) -> io::Result<Self> {
        // That which is none, and one for a page that is replaced: its new record is taken before the old one goes.
        let slots = (size_bytes / PAGE_SIZE as u64) as usize + 2;
        let device = device.into();
        let segments = device.segments();
        let sizes = [
            slots * size_of::<Slot>(),
            segments * size_of::<Segment>(),
            SEGMENT_BYTES,
            RECORD_BYTES + Memory::SCRATCH_BYTES,
            size_of::<AnyState>(),
            size_of::<AnyScratch>(),
        ];
        let mut mapped = Vec::new();
        for bytes in sizes {
            mapped.push(Mapping::new(bytes).ok_or(io::ErrorKind::OutOfMemory)?);
        }
        let mapped: [Mapping; 6] = mapped.try_into().map_err(|_| io::ErrorKind::Other)?;
        is_zeroable::<AnyState>();
        is_zeroable::<AnyScratch>();
        // SAFETY: bytes; and rows of which zero bytes are the default, as `coldpress-tier` says. The mappings live as
        // long as the tier, which is dropped before them.
        let memory = unsafe {
            Memory {
                slots: zeroed(&mapped[0], slots),
                segments: zeroed(&mapped[1], segments),
                buffer: zeroed(&mapped[2], SEGMENT_BYTES),
                scratch: zeroed(&mapped[3], RECORD_BYTES + Memory::SCRATCH_BYTES),
            }
        };
        // SAFETY: both are `Zeroable`, and dropped before the mappings, which nobody else knows.
        let (state, scratch) = unsafe { (zeroed(&mapped[4], 1), zeroed(&mapped[5], 1)) };
        let mut random = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let key = Key::new(&random);
        random.fill(0);
        Ok(Self {
            inner: Mutex::new(Inner {
                tier: Tier::new(device, key, memory, daily_bytes, 0),
                records: HashMap::default(),
                codec: AnyCodec::of(codec, SameFilled::Detect),
                state: &mut state[0],
                scratch: &mut scratch[0],
                record: [0; RECORD_BYTES],
                _memory: mapped,
            }),
            told: Mutex::new(Told {
                counts: Counts::default(),
                budget_left: daily_bytes,
            }),
            size_bytes,
            memory_bytes: AtomicU64::new(0),
            started: Instant::now(),
        })
    }

    /// What the tier holds, and what it has done. While its device does not answer: what was so before.
    pub fn counts(&self) -> Counts {
        self.told().counts
    }

    /// Bytes that may still be written today; `None`: as many as wanted. While its device does not answer: as many as
    /// before.
    pub fn budget_left(&self) -> Option<u64> {
        self.told().budget_left
    }

    fn told(&self) -> Told {
        if let Some(mut inner) = self.inner.try_lock_for(LONGEST_QUESTION) {
            inner.tier.tick(self.started.elapsed().as_secs());
            self.note_told(&inner);
        }
        *self.told.lock()
    }

    fn note_told(&self, inner: &Inner) {
        let (counts, budget_left) = (inner.tier.counts(), inner.tier.budget_left());
        *self.told.lock() = Told {
            counts,
            budget_left,
        };
    }

    /// Drops the device, with what it does at its end. What was there cannot be read any more.
    pub fn end(&self) {
        let device = self.inner.lock().tier.device().take();
        drop(device);
    }

    fn note_memory(&self, inner: &mut Inner) {
        let map = inner.records.capacity() / 7 * 8 * (size_of::<(u32, u32)>() + 1);
        let bytes = inner.tier.memory_bytes() + inner.tier.device().memory_bytes() + map;
        self.memory_bytes.store(bytes as u64, Relaxed);
    }
}

impl Inner {
    fn write_page(&mut self, page: u32, content: &Page) -> Result<(), Refused> {
        let out = &mut self.record[1..][..TARGET_BYTES];
        let (kind, length) = match self.codec.compress(self.state, content, out) {
            Compressed::SameFilled(0) => {
                self.forget(page);
                return Ok(());
            }
            Compressed::SameFilled(word) => {
                self.record[1..9].copy_from_slice(&word.to_ne_bytes());
                (FILLED, 8)
            }
            Compressed::Stored(length) => (COMPRESSED, length),
            Compressed::Incompressible => {
                self.record[1..].copy_from_slice(content);
                (PLAIN, PAGE_SIZE)
            }
        };
        self.record[0] = kind;
        let handle = self.tier.put(page.into(), &self.record[..length + 1])?;
        self.forget(page);
        self.records.insert(page, handle.number());
        Ok(())
    }

    fn forget(&mut self, page: u32) {
        if let Some(number) = self.records.remove(&page) {
            let was_there = self.tier.remove(Handle::of_number(number), page.into());
            debug_assert!(was_there, "a record that the tier does not know");
        }
    }

    fn read_page(&mut self, page: u32, into: &mut Page) -> Result<(), Unreadable> {
        let Some(&number) = self.records.get(&page) else {
            into.fill(0);
            return Ok(());
        };
        let handle = Handle::of_number(number);
        let length = self.tier.get(handle, page.into(), &mut self.record)?;
        let bytes = &self.record[1..length];
        match self.record[0] {
            COMPRESSED => {
                let decoded = self.codec.decompress(self.scratch, bytes, into);
                decoded.map_err(|_| Unreadable::Damaged)?;
            }
            FILLED => into.as_chunks_mut::<8>().0.iter_mut().for_each(|word| {
                word.copy_from_slice(bytes);
            }),
            _ => into.copy_from_slice(bytes),
        }
        Ok(())
    }
}

fn of_refused(refused: Refused) -> BackingError {
    match refused {
        Refused::Device(DeviceError::NoSpace) | Refused::Full | Refused::Budget => {
            BackingError::NoSpace
        }
        _ => BackingError::Io,
    }
}

impl Backing for TierStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError> {
        let mut inner = self.inner.lock();
        let (pages, _) = buffer.as_chunks_mut::<PAGE_SIZE>();
        for (page, into) in ((offset / PAGE_SIZE as u64) as u32..).zip(pages) {
            let read = inner.read_page(page, into);
            self.note_told(&inner);
            read.map_err(|_| BackingError::Io)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        let mut inner = self.inner.lock();
        inner.tier.tick(self.started.elapsed().as_secs());
        let (pages, _) = data.as_chunks::<PAGE_SIZE>();
        let mut written = Ok(());
        for (page, content) in ((offset / PAGE_SIZE as u64) as u32..).zip(pages) {
            written = written.and_then(|()| inner.write_page(page, content));
        }
        self.note_memory(&mut inner);
        self.note_told(&inner);
        written.map_err(of_refused)
    }

    fn zero(&self, offset: u64, length: u64, _zeroing: Zeroing) -> Result<(), BackingError> {
        self.overwritten(offset, length);
        Ok(())
    }

    /// Nothing outlives it.
    fn sync(&self) -> Result<(), BackingError> {
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        let inner = self.inner.lock();
        let first = (offset / PAGE_SIZE as u64) as u32;
        let pages = first..((offset + length) / PAGE_SIZE as u64) as u32;
        let is_hole = |page: &u32| !inner.records.contains_key(page);
        let hole = is_hole(&first);
        let other = pages.clone().find(|page| is_hole(page) != hole);
        let end = other.unwrap_or(pages.end);
        (u64::from(end - first) * PAGE_SIZE as u64, hole)
    }

    fn outlives(&self) -> bool {
        false
    }

    fn overwritten(&self, offset: u64, length: u64) {
        let mut inner = self.inner.lock();
        let first = (offset / PAGE_SIZE as u64) as u32;
        let end = ((offset + length) / PAGE_SIZE as u64) as u32;
        (first..end).for_each(|page| inner.forget(page));
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed)
    }
}
