//! What the layers above tell of VMOs, mappings, processes and the system: RFC-0219 "Content vs
//! committed".
//!
//! These are plain structures without a layout. The newest record and the old ones are made from
//! them ([`layouts`](super::layouts)), so whoever fills them need not know what readers there are.
//!
//! * *Committed* is memory held in pages. *Content* is what is remembered in any form, so it is
//!   never less than committed. What a user pager could supply again is content as long as it is
//!   held; evicting it takes from both.
//! * A page shared by n VMOs through snapshots counts fully in each ([`Share::bytes`]) and by an
//!   n-th in each ([`Share::scaled`]), so that the scaled figures of all add up to what is held. It
//!   is *private* where n is 1.

use crate::pages::queues::counts::ReclaimBytes;
use crate::{Engine, Host};
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;

/// A number of bytes with an exact fraction, so that parts of a page add up to the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scaled {
    /// Whole bytes.
    pub bytes: u64,
    /// And so many parts of one, of [`Scaled::ONE`].
    pub fraction: u64,
}

impl Scaled {
    /// A whole byte in fractions.
    pub const ONE: u64 = 1 << 63;

    /// Adds an n-th of so many bytes. The error is below n/2^63 bytes, downwards; without `sharers`
    /// nothing is added.
    pub fn add_share(&mut self, bytes: u64, sharers: u32) {
        let Some(n) = core::num::NonZeroU64::new(sharers.into()) else {
            return;
        };
        let rest = u128::from(bytes % n) << 63;
        self.add(Self {
            bytes: bytes / n,
            fraction: (rest / u128::from(n.get())) as u64,
        });
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        let fraction = self.fraction + other.fraction;
        self.bytes += other.bytes + fraction / Self::ONE;
        self.fraction = fraction % Self::ONE;
    }
}

/// Bytes of a VMO, and to how many they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All that can be seen through the VMO, shared or not.
    pub bytes: u64,
    /// Of these: what nobody shares.
    pub private_bytes: u64,
    /// What is shared divided by how many share it, and what is private.
    pub scaled: Scaled,
}

impl Share {
    /// Adds a page that so many share.
    pub fn add_page(&mut self, sharers: u32) {
        let page = PAGE_SIZE as u64;
        self.bytes += page;
        if sharers == 1 {
            self.private_bytes += page;
        }
        self.scaled.add_share(page, sharers);
    }

    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.private_bytes += other.private_bytes;
        self.scaled.add(other.scaled);
    }

    /// What is shared, fully counted.
    pub fn shared_bytes(&self) -> u64 {
        self.bytes - self.private_bytes
    }

    /// What is shared, divided by how many share it, rounded down to bytes.
    pub fn scaled_shared_bytes(&self) -> u64 {
        self.scaled.bytes - self.private_bytes
    }
}

/// Bits of [`VmoFigures::flags`].
pub mod flags {
    /// Its size can change.
    pub const RESIZABLE: u32 = 1;
    /// It is a snapshot.
    pub const SNAPSHOT: u32 = 1 << 1;
    /// A user pager supplies it.
    pub const PAGER_BACKED: u32 = 1 << 2;
    /// It is latency-sensitive: never compressed nor evicted.
    pub const LATENCY_SENSITIVE: u32 = 1 << 3;
    /// Pages of it are pinned.
    pub const PINNED: u32 = 1 << 4;
}

/// A VMO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmoFigures {
    /// Its number, never given to another.
    pub koid: u64,
    /// That of the VMO it is a snapshot of, or 0.
    pub parent_koid: u64,
    /// Its size.
    pub size_bytes: u64,
    /// Snapshots of it.
    pub num_children: u64,
    /// Mappings of it.
    pub num_mappings: u64,
    /// Processes that have mapped it.
    pub share_count: u64,
    /// Bits of [`flags`].
    pub flags: u32,
    /// Held in pages.
    pub committed: Share,
    /// Remembered in any form.
    pub content: Share,
    /// Memory for its tables.
    pub metadata_bytes: u64,
    /// How often committed changed without anybody asking for it: reclamation.
    pub committed_change_events: u64,
}

/// A mapping of a VMO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MappingFigures {
    /// Its address.
    pub base: u64,
    /// Its length.
    pub size_bytes: u64,
    /// What it may do: a host's own bits.
    pub mmu_flags: u32,
    /// The VMO.
    pub vmo_koid: u64,
    /// Where in the VMO it begins.
    pub vmo_offset: u64,
    /// Pages of the range that the VMO holds, whether or not they are mapped at this moment.
    pub committed_pages: u64,
    /// Pages of the range that are remembered in any form.
    pub content_pages: u64,
}

/// The memory of a process: the sum of its mappings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskMemory {
    /// All that is mapped, whether anything is there or not.
    pub mapped_bytes: u64,
    /// Held in pages.
    pub committed: Share,
    /// Remembered in any form.
    pub content: Share,
}

/// The times of a task. Times that a host does not know are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRuntimeFigures {
    /// On a processor.
    pub cpu_time_ns: u64,
    /// Ready to run, and waiting for one.
    pub queue_time_ns: u64,
    /// In page faults, and decompressing within it.
    pub faults: super::task_times::FaultTimes,
    /// Waiting for locks of the machine.
    pub lock_contention_time_ns: u64,
}

/// The memory of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KmemFigures {
    /// All there is.
    pub total_bytes: u64,
    /// Used by nobody.
    pub free_bytes: u64,
    /// The kernel itself.
    pub wired_bytes: u64,
    /// The kernel's heap.
    pub total_heap_bytes: u64,
    /// Of it: not in use.
    pub free_heap_bytes: u64,
    /// Held in pages by VMOs.
    pub vmo_committed_bytes: u64,
    /// Remembered by VMOs in any form.
    pub vmo_content_bytes: u64,
    /// What can be had back without asking its owner, evicted or compressed, by age. RFC-0219
    /// "ZX_INFO_KMEM_STATS_EXTENDED pager bytes": no longer that of pager-backed VMOs alone.
    pub reclaimable: ReclaimBytes,
    /// Not in it: what would be, but for latency-sensitive VMOs and pins.
    pub reclaim_disabled_bytes: u64,
    /// Page tables.
    pub mmu_overhead_bytes: u64,
    /// All else, compressed storage included.
    pub other_bytes: u64,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Fills in what the page queues know of the machine's memory.
    pub fn add_reclaimable(&self, kmem: &mut KmemFigures) {
        let counts = self.queue_counts();
        let disabled = u64::from(counts.high_priority) + u64::from(counts.wired);
        kmem.reclaimable = self.reclaim_bytes();
        kmem.reclaim_disabled_bytes = disabled * PAGE_SIZE as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three sharers of a page: their parts are the page, but for the last fraction of a byte.
    #[test]
    fn scaled_parts_add_up_to_what_is_shared() {
        for sharers in [1u32, 2, 3, 5, 7, 100, 4096, 4097] {
            let mut part = Scaled::default();
            part.add_share(4096, sharers);
            let mut sum = Scaled::default();
            (0..sharers).for_each(|_| sum.add(part));
            let exact = u128::from(Scaled::ONE) * 4096;
            let told = u128::from(sum.bytes) * u128::from(Scaled::ONE) + u128::from(sum.fraction);
            assert!(told <= exact && exact - told < sharers.into(), "{sharers}");
        }
        let mut nobody = Scaled::default();
        nobody.add_share(4096, 0);
        assert_eq!(nobody, Scaled::default());
    }

    #[test]
    fn shares_know_what_is_private() {
        let mut share = Share::default();
        share.add_page(1);
        share.add_page(2);
        share.add_page(4);
        assert_eq!((share.bytes, share.private_bytes), (3 * 4096, 4096));
        assert_eq!(share.shared_bytes(), 2 * 4096);
        assert_eq!(
            (share.scaled.bytes, share.scaled.fraction),
            (4096 + 2048 + 1024, 0)
        );
        let mut both = share;
        both.add(share);
        assert_eq!((both.bytes, both.scaled.bytes), (6 * 4096, 2 * 7168));
    }
}
