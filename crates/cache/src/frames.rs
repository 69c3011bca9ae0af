//! What the tier's storage is made of: frames for compressed entries, and memory for its tables.

use crate::PAGE_BYTES;
use crate::error::Error;
use crate::region::{Advice, Region};
use coldpress_arena::{CHUNK_BYTES, ChunkSource};
use coldpress_storage::{FrameIndex, FrameSource};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

/// Frames in a region as large as the budget (T3).
pub(crate) struct Frames {
    region: Region,
    /// Guards which frames are free. Leaf under the room lock, held for a few stores.
    free: Mutex<FreeFrames>,
}

struct FreeFrames {
    list: Vec<u32>,
    used_up_to: u32,
    lent: u32,
    /// Frames that may be lent at a time, never more than the region has.
    most: u32,
}

impl Frames {
    pub fn new(budget_bytes: usize) -> Result<Frames, Error> {
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
                lent: 0,
                most,
            }),
        })
    }

    /// Bytes that the frames lent may have from now on. What is lent already stays so.
    pub fn limit(&self, bytes: usize) {
        let frames = (bytes / PAGE_BYTES).min(self.region.pages());
        self.lock().most = frames as u32;
    }

    /// Bytes of frames that are lent.
    pub fn bytes(&self) -> usize {
        self.lock().lent as usize * PAGE_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, FreeFrames> {
        self.free.lock().unwrap_or_else(|e| e.into_inner())
    }
}

// SAFETY: each index is a page of the region of its own, which only its borrower uses and which is
// zero at first; it is lent again only after it was given back.
unsafe impl FrameSource for Frames {
    fn allocate(&self) -> Option<FrameIndex> {
        let mut free = self.lock();
        if free.lent >= free.most {
            return None;
        }
        free.lent += 1;
        if let Some(frame) = free.list.pop() {
            return Some(FrameIndex(frame));
        }
        free.used_up_to += 1;
        Some(FrameIndex(free.used_up_to))
    }

    fn free(&self, frame: FrameIndex) {
        self.region.advise(frame.0 - 1, 1, Advice::DontNeed);
        let mut free = self.lock();
        free.lent -= 1;
        free.list.push(frame.0);
    }

    fn address(&self, frame: FrameIndex) -> NonNull<u8> {
        // A frame that is not lent has a meaningless address, but one.
        let page = self.region.page(frame.0.saturating_sub(1));
        NonNull::new(page).unwrap_or(NonNull::dangling())
    }
}

/// Memory for the storage's tables; kept until the tier ends.
#[derive(Default)]
pub(crate) struct Tables(Mutex<Vec<Region>>);

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
