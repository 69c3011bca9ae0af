//! The tree of a family: hidden nodes inside, VMOs as leaves.
//!
//! ```text
//!   hidden ── first_child ──▶ node ⇄ node ⇄ node      siblings, in both directions: [before, after]
//!     ▲                        │
//!     └──────── parent ────────┘
//! ```
//!
//! A VMO that is snapshotted again and again without being written in between (a server that forks) has
//! its snapshots side by side below one hidden node, not in a chain of empty ones.

use super::family::Family;
use super::object::NodeId;
use crate::machine::memory::Memory;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Has `child`, which has no parent, stand below `parent`.
    pub(super) fn adopt(&self, parent: NodeId, child: NodeId) {
        let first = &self.object(parent).first_child;
        let object = self.object(child);
        object.parent.set(parent);
        object.siblings[BEFORE].set(0);
        object.siblings[AFTER].set(first.get());
        if first.get() != 0 {
            self.object(first.get()).siblings[BEFORE].set(child);
        }
        first.set(child);
    }

    /// Has `child` stand below nobody.
    pub(super) fn disown(&self, child: NodeId) {
        let object = self.object(child);
        let [before, after] = [BEFORE, AFTER].map(|side| object.siblings[side].get());
        self.join_siblings(object.parent.get(), before, after);
        object.parent.set(0);
    }

    /// Puts `new`, which stands below nobody, where `old` stands, which stands below nobody then.
    pub(super) fn replace(&self, old: NodeId, new: NodeId) {
        let (from, to) = (self.object(old), self.object(new));
        let parent = from.parent.get();
        to.parent.set(parent);
        from.parent.set(0);
        if parent == 0 {
            return;
        }
        let [before, after] = [BEFORE, AFTER].map(|side| from.siblings[side].get());
        self.join_siblings(parent, before, new);
        self.join_siblings(parent, new, after);
    }

    /// Has `before` and `after`, one of which may be 0, stand side by side below `parent`.
    fn join_siblings(&self, parent: NodeId, before: NodeId, after: NodeId) {
        match before {
            0 => self.object(parent).first_child.set(after),
            before => self.object(before).siblings[AFTER].set(after),
        }
        if after != 0 {
            self.object(after).siblings[BEFORE].set(before);
        }
    }

    /// The child of a hidden node that has only one.
    pub(super) fn only_child(&self, hidden: NodeId) -> Option<NodeId> {
        let first = self.object(hidden).first_child.get();
        let alone = self.object(first).siblings[AFTER].get() == 0;
        alone.then_some(first)
    }

    /// All children of a hidden node.
    pub(super) fn children(&self, hidden: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let first = self.object(hidden).first_child.get();
        let some = |node: NodeId| (node != 0).then_some(node);
        core::iter::successors(some(first), move |&child| {
            some(self.object(child).siblings[AFTER].get())
        })
    }
}
