//! Records of pages whose content is in place: the `vm_page_t` of RFC-0219 "Aging and tracking".
//!
//! A record carries the backlink (segment and index) and its place in the page queues. It exists
//! while its page is resident and tracked; the engine keeps enough free records for every page
//! that is compressed, so that a fault never has to find memory for one.

use crate::pages::patience::MOST;
use coldpress_arena::{Link, Zeroable};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A queue that a page's owner can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The newest generation; where anonymous pages are not reclaimed, that of those that are not.
    Reclaim,
    /// Offered before all that is merely old, until it is accessed.
    DontNeed,
    /// Not offered until it is accessed.
    Failed,
    /// A copy of the zero page that was not written to yet, as far as is known. The same as
    /// [`Reclaim`](Self::Reclaim) where such copies are reclaimed.
    ZeroFork,
    /// Of a latency-sensitive VMO: never reclaimed.
    HighPriority,
    /// Pinned: never reclaimed.
    Wired,
    /// Written, and its pager does not know yet: not reclaimed until it is cleaned.
    Dirty,
}

/// The number of no queue: the record's page is being taken out, or the record is free.
pub(crate) const NO_QUEUE: usize = 31;

/// The record of one resident page: 16 bytes.
#[repr(C)]
#[derive(Debug)]
pub struct PageRecord {
    /// Next younger record in the queue; the free list's word while unused.
    next: AtomicU32,
    /// Next older record in the queue.
    previous: AtomicU32,
    /// Segment in the low 24 bits, queue in the next 5, then [`PAGER_BACKED`], [`ALWAYS_NEED`] and
    /// [`FROM_ZERO`].
    segment_and_queue: AtomicU32,
    /// Index of the page in its segment in the low 16 bits; then four of [patience](crate::pages::patience)
    /// and four that count it down;
    /// in the highest two what the pager of its VMO knows of the content.
    index: AtomicU32,
}

// SAFETY: four atomics; zero is valid.
unsafe impl Zeroable for PageRecord {}

impl Link for PageRecord {
    fn link(&self) -> &AtomicU32 {
        &self.next
    }
}

const SEGMENT_BITS: u32 = 24;
const SEGMENT_MASK: u32 = (1 << SEGMENT_BITS) - 1;
const QUEUE_MASK: u32 = 0x1F << SEGMENT_BITS;

const INDEX_MASK: u32 = 0xFFFF;
const DIRTY: u32 = 1 << 31;
const AWAITING_CLEAN: u32 = 1 << 30;
const PATIENCE_AT: u32 = 16;
const PATIENCE: u32 = (MOST as u32) << PATIENCE_AT;
const CHANCES_AT: u32 = 20;
const CHANCES: u32 = (MOST as u32) << CHANCES_AT;

/// What the pager of a VMO knows of the content of a page. Pages of other VMOs are always clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dirtiness {
    /// It has the content.
    Clean,
    /// The page was written, and the pager does not have that.
    Dirty,
    /// The pager is writing it back, and the page was not written since that began.
    AwaitingClean,
}

/// A mark: the content can be had again from a pager, so the page can be evicted.
pub(crate) const PAGER_BACKED: u32 = 1 << 29;
/// A mark: the owner has said that it will need the page.
pub(crate) const ALWAYS_NEED: u32 = 1 << 30;
/// A mark: the page was forked from the zero page by a write.
pub(crate) const FROM_ZERO: u32 = 1 << 31;

impl PageRecord {
    /// Segment and index the page belongs to.
    pub fn backlink(&self) -> (u32, u32) {
        (
            self.segment_and_queue.load(Relaxed) & SEGMENT_MASK,
            self.index.load(Relaxed) & INDEX_MASK,
        )
    }

    /// Sets the backlink; under the lock of the VMO that has the page, and the queue lock.
    pub(crate) fn set_backlink(&self, segment: u32, index: u32) {
        debug_assert!(segment <= SEGMENT_MASK);
        let queue = self.segment_and_queue.load(Relaxed) & !SEGMENT_MASK;
        self.segment_and_queue.store(queue | segment, Relaxed);
        let rest = self.index.load(Relaxed) & !INDEX_MASK;
        self.index.store(rest | index, Relaxed);
    }

    /// What the pager knows of the page's content.
    pub(crate) fn dirtiness(&self) -> Dirtiness {
        match self.index.load(Relaxed) & (DIRTY | AWAITING_CLEAN) {
            0 => Dirtiness::Clean,
            DIRTY => Dirtiness::Dirty,
            _ => Dirtiness::AwaitingClean,
        }
    }

    /// Under the lock of the VMO that has the page, and the queue lock.
    pub(crate) fn set_dirtiness(&self, dirtiness: Dirtiness) {
        let bits = match dirtiness {
            Dirtiness::Clean => 0,
            Dirtiness::Dirty => DIRTY,
            Dirtiness::AwaitingClean => AWAITING_CLEAN,
        };
        let rest = self.index.load(Relaxed) & !(DIRTY | AWAITING_CLEAN);
        self.index.store(rest | bits, Relaxed);
    }

    /// How often the page is passed over from when it came back.
    pub(crate) fn patience(&self) -> u8 {
        ((self.index.load(Relaxed) & PATIENCE) >> PATIENCE_AT) as u8
    }

    /// How often it still is.
    pub(crate) fn chances(&self) -> u8 {
        ((self.index.load(Relaxed) & CHANCES) >> CHANCES_AT) as u8
    }

    /// It has come back: with so many chances. Under the queue lock.
    pub(crate) fn set_patience(&self, patience: u8) {
        debug_assert!(patience <= MOST);
        let rest = self.index.load(Relaxed) & !(PATIENCE | CHANCES);
        let patience = u32::from(patience);
        let bits = patience << PATIENCE_AT | patience << CHANCES_AT;
        self.index.store(rest | bits, Relaxed);
    }

    /// It has one chance less. Under the queue lock.
    pub(crate) fn use_chance(&self) {
        debug_assert!(self.chances() > 0);
        self.index
            .store(self.index.load(Relaxed) - (1 << CHANCES_AT), Relaxed);
    }

    /// Queue the page is in; [`NO_QUEUE`](NO_QUEUE) is none.
    pub(crate) fn queue(&self) -> usize {
        ((self.segment_and_queue.load(Relaxed) & QUEUE_MASK) >> SEGMENT_BITS) as usize
    }

    /// Under the queue lock, as all that follows.
    pub(crate) fn set_queue(&self, queue: usize) {
        let rest = self.segment_and_queue.load(Relaxed) & !QUEUE_MASK;
        self.segment_and_queue
            .store((queue as u32) << SEGMENT_BITS | rest, Relaxed);
    }

    /// Whether the record has a mark.
    pub(crate) fn has(&self, mark: u32) -> bool {
        self.segment_and_queue.load(Relaxed) & mark != 0
    }

    pub(crate) fn set_mark(&self, mark: u32, on: bool) {
        let word = self.segment_and_queue.load(Relaxed);
        let word = if on { word | mark } else { word & !mark };
        self.segment_and_queue.store(word, Relaxed);
    }

    /// As a page begins its life: without marks, clean, in no queue.
    pub(crate) fn begin(&self) {
        self.segment_and_queue
            .store((NO_QUEUE as u32) << SEGMENT_BITS, Relaxed);
        self.index.store(0, Relaxed);
    }

    pub(crate) fn next(&self) -> &AtomicU32 {
        &self.next
    }

    pub(crate) fn previous(&self) -> &AtomicU32 {
        &self.previous
    }
}
