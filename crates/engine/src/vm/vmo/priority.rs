//! Latency-sensitive VMOs: RFC-0219 "Disabling compression".
//!
//! A VMO that is marked, once or several times, has no page compressed: its pages stand among those
//! of high priority, whatever their age. What was compressed already is brought back when the mark is
//! set, not when it is touched: the point of the mark is that no touch waits for a codec.
//!
//! A marked VMO may see pages of hidden nodes, so these are marked too, each as often as the VMOs below
//! it: also pages that only an unmarked VMO still sees, until the mark or the marked VMO goes. Which
//! queue a page enters is written in its segment.

use super::family::Family;
use super::object::NodeId;
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use crate::pages::queues::standing::{Queue, Standing};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Marks a VMO as latency-sensitive, once more, and brings back what is compressed of it. With an
    /// error the mark is not set.
    pub fn mark_latency_sensitive(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
    ) -> Result<(), VmoError> {
        let pages = {
            let (family, node) = self.lock(id)?;
            family.mark(node, 1, u32::wrapping_add);
            family.object(node).pages.get()
        };
        let done = self.bring_all_back(host, worker, id, 0..pages);
        if done.is_err() {
            self.unmark_latency_sensitive(id)?;
        }
        done
    }

    /// Takes one mark away. [`VmoError::BadState`] where there is none.
    pub fn unmark_latency_sensitive(&self, id: VmoId) -> Result<(), VmoError> {
        let (family, node) = self.lock(id)?;
        if family.object(node).marks.get() == 0 {
            return Err(VmoError::BadState);
        }
        family.mark(node, 1, u32::wrapping_sub);
        Ok(())
    }

    /// Whether a VMO is marked.
    pub fn is_latency_sensitive(&self, id: VmoId) -> Result<bool, VmoError> {
        let (family, node) = self.lock(id)?;
        Ok(family.object(node).marks.get() > 0)
    }
}

/// Where pages of a VMO stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// Where nothing is reclaimed: somebody is sensitive to latency.
    High,
    /// In the queues that are reclaimed from.
    Usual,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Changes the marks of `node` and of all above it by so many.
    pub(super) fn mark(&self, node: NodeId, marks: u32, change: fn(u32, u32) -> u32) {
        let mut node = node;
        while node != 0 {
            let object = self.object(node);
            let before = object.marks.get();
            object.marks.set(change(before, marks));
            match (before, object.marks.get()) {
                (0, 1..) => self.rank(node, Rank::High),
                (1.., 0) => self.rank(node, Rank::Usual),
                _ => {}
            }
            node = object.parent.get();
        }
    }

    /// Has the pages of `node` stand where pages of its rank do.
    fn rank(&self, node: NodeId, rank: Rank) {
        let engine = self.engine();
        let mut number = 0;
        while let Some((at, segment)) = self.directory(node).at_or_after(number) {
            let flag = &engine.tables.segment(segment).latency_sensitive;
            flag.set((rank == Rank::High).into());
            let entries = self.entries(segment);
            let mut next = 0;
            while let Some((index, entry)) = entries.next(next) {
                if let Entry::Page(record) = entry {
                    self.rank_page(record, rank);
                }
                next = index + 1;
            }
            match at.checked_add(1) {
                Some(next) => number = next,
                None => return,
            }
        }
    }

    fn rank_page(&self, record: u32, rank: Rank) {
        let engine = self.engine();
        let mut queues = engine.queues.lock();
        let standing = queues.standing(record);
        let stays = matches!(standing, Standing::In(Queue::Wired | Queue::Dirty));
        let is_high = standing == Standing::In(Queue::HighPriority);
        if !stays && is_high != (rank == Rank::High) {
            let queue = match rank {
                Rank::High => Queue::HighPriority,
                Rank::Usual => Queue::Reclaim,
            };
            queues.move_to(record, queue);
        }
    }
}
