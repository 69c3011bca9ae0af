//! What the owner of a VMO says of its pages, and what reclaim makes of it.
//!
//! A hint is about the page that the VMO sees, whoever else sees it; it brings nothing back and copies
//! nothing. It never overrules what keeps a page from being reclaimed: a pinned, a dirty, a
//! latency-sensitive page stands where it stood. That a page is always needed is remembered with it
//! meanwhile.

use super::{VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use crate::pages::page::ALWAYS_NEED;
use crate::pages::queues::standing::{Queue, Standing};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// What is said of a page. The later word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// It is not needed now: it goes before all that is merely old, until it is accessed.
    DontNeed,
    /// It will be needed: it is passed over, unless memory is critical.
    AlwaysNeed,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Says something of the pages of a range that are in place. How many.
    pub fn hint(&self, id: VmoId, pages: Range<u64>, hint: Hint) -> Result<u64, VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if pages.start > pages.end || pages.end > object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        let base = object.base.get();
        let (mut next, end) = (base + pages.start, base + pages.end);
        let mut hinted = 0;
        while let Some((at, found)) = family.next_seen(node, next, end) {
            if let Entry::Page(record) = found.entry {
                self.hint_page(record, hint);
                hinted += 1;
            }
            next = at + 1;
        }
        Ok(hinted)
    }

    fn hint_page(&self, record: u32, hint: Hint) {
        let mut queues = self.engine.queues.lock();
        queues
            .record(record)
            .set_mark(ALWAYS_NEED, hint == Hint::AlwaysNeed);
        let ages = matches!(
            queues.standing(record),
            Standing::Generation(_)
                | Standing::Isolated
                | Standing::Picked
                | Standing::In(Queue::Failed | Queue::DontNeed)
        );
        if ages {
            match hint {
                Hint::DontNeed => _ = queues.move_to(record, Queue::DontNeed),
                Hint::AlwaysNeed => _ = queues.touch(record),
            }
        }
    }
}
