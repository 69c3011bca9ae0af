//! Whose memory it is: RFC-0219 "Accounting", for VMOs.
//!
//! *Committed* is what is held in pages, *content* what is remembered in any form. Two views:
//!
//! * what a VMO holds **itself**, counted continuously with the highest value since it was last read,
//!   for nothing but a few additions at each change ([`usage`](Vmos::usage), [`peak`](Vmos::peak)). Of
//!   what is shared by snapshots the hidden node is the holder;
//! * what a VMO **sees**, split by who else sees it ([`attribution`](Vmos::attribution)): *private*,
//!   *shared*, and *scaled*: all that is private and, of what is shared, its part. The scaled figures of
//!   all VMOs add up to what there is, but for fractions of a byte. That walks the range, unless it is a
//!   whole VMO that has no snapshots.

use super::{VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use crate::pages::account::Usage;
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// Bytes, by who sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// Only the VMO sees them.
    pub private_bytes: u64,
    /// Others do, too; each of them counts them whole.
    pub shared_bytes: u64,
    /// The private ones, and of the shared ones a part as large as that of every other who sees them.
    pub scaled_bytes: u64,
}

/// What a VMO sees in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attribution {
    /// Held in pages.
    pub committed: Shares,
    /// Remembered in any form.
    pub content: Shares,
}

/// Shares, while they are added up. The fraction of a byte is counted in 2^-32.
#[derive(Clone, Copy, Default)]
struct Sum {
    private: u64,
    shared: u64,
    scaled: u128,
}

const BYTE: u128 = 1 << 32;

impl Sum {
    fn add(&mut self, viewers: u32) {
        let bytes = PAGE_SIZE as u64;
        match viewers {
            1 => self.private += bytes,
            _ => self.shared += bytes,
        }
        self.scaled += u128::from(bytes) * BYTE / u128::from(viewers);
    }

    fn shares(self) -> Shares {
        Shares {
            private_bytes: self.private,
            shared_bytes: self.shared,
            scaled_bytes: (self.scaled / BYTE) as u64,
        }
    }
}

/// So many pages that nobody else sees.
fn alone(pages: u64) -> Shares {
    let bytes = pages * PAGE_SIZE as u64;
    Shares {
        private_bytes: bytes,
        shared_bytes: 0,
        scaled_bytes: bytes,
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// What a VMO holds itself.
    pub fn usage(&self, id: VmoId) -> Result<Usage, VmoError> {
        let (family, node) = self.lock(id)?;
        Ok(self
            .engine
            .tables
            .account(family.object(node).account.get())
            .now())
    }

    /// The most that a VMO has held itself since this was asked last.
    pub fn peak(&self, id: VmoId) -> Result<Usage, VmoError> {
        let (family, node) = self.lock(id)?;
        let account = self
            .engine
            .tables
            .account(family.object(node).account.get());
        Ok(account.take_peak())
    }

    /// How often reclaim took a page away from what a VMO holds or stands below: compressed it, found
    /// that it is one word, or evicted it. So often did its committed bytes change, or could have, without
    /// anybody asking for it. Never falls.
    pub fn reclaims(&self, id: VmoId) -> Result<u64, VmoError> {
        let (family, mut node) = self.lock(id)?;
        let mut reclaims = 0;
        while node != 0 {
            let object = family.object(node);
            reclaims += self.engine.tables.account(object.account.get()).reclaims();
            node = object.parent.get();
        }
        Ok(reclaims)
    }

    /// What a VMO, a mapping of it, or any range sees, and who else sees it. A process is the sum of its
    /// mappings.
    pub fn attribution(&self, id: VmoId, pages: Range<u64>) -> Result<Attribution, VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if pages.start > pages.end || pages.end > object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        if pages == (0..object.pages.get()) && object.parent.get() == 0 {
            let usage = self.engine.tables.account(object.account.get()).now();
            return Ok(Attribution {
                committed: alone(usage.committed_pages),
                content: alone(usage.content_pages),
            });
        }
        let base = object.base.get();
        let (mut next, end) = (base + pages.start, base + pages.end);
        let (mut committed, mut content) = (Sum::default(), Sum::default());
        while let Some((at, found)) = family.next_seen(node, next, end) {
            let viewers = match found.node == node {
                true => 1,
                false => 1 + family.count(found.place),
            };
            if found.entry.is_committed() {
                committed.add(viewers);
            }
            if found.entry.is_content() {
                content.add(viewers);
            }
            next = at + 1;
        }
        Ok(Attribution {
            committed: committed.shares(),
            content: content.shares(),
        })
    }
}
