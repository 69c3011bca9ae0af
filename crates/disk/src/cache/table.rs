//! Which pages a cache holds, whether they are in the backing store as well, and in which order they were used.
//!
//! ```text
//!              written                 write-back             sync
//!   absent ─────────────▶ dirty ──────────────────▶ written ───────▶ clean ──evicted──▶ absent
//!     │                     ▲ ◀──── sync failed ───────╯ │             ▲ │
//!     │                     ╰──────── written ───────────┴─────────────┼─╯
//!     ╰──────────────────────────── read ──────────────────────────────╯
//! ```
//!
//! A list of all pages, the least recently used first, threaded through a slab; found by page through a map. 20 bytes
//! a page, 10 to 20 of the map, and some 8 while it is dirty.
//!
//! Invariants:
//! * C1 A page that is not clean is never removed but by content that replaces it (a trim, a write to the store).
//! * C2 Each page that is [`State::Written`] stands in `written`, which a sync takes whole.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Whether the backing store has what the cache holds of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has it, and would have it after a power failure.
    Clean,
    /// It was written there, and no sync has ended since.
    Written,
    /// Only the cache has it.
    Dirty,
}

/// No node; the first one is that of the list's ends.
const ENDS: u32 = 0;

struct Node {
    page: u32,
    before: u32,
    after: u32,
    state: State,
}

/// Numbers of pages are spread by one multiplication.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, page: u32) {
        let mixed = (self.0 ^ u64::from(page)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// All pages of a cache.
pub(crate) struct Table {
    nodes: Vec<Node>,
    /// Nodes that are in no list.
    free: Vec<u32>,
    by_page: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    /// Pages that are [`State::Dirty`], in their order.
    unwritten: BTreeSet<u32>,
    /// Pages written back since the last sync began; some are dirty again, or gone.
    written: Vec<u32>,
    dirty: u64,
    /// The last node, in the order of the list, of those that were marked as idle and not used since.
    idle: u32,
}

impl Default for Table {
    fn default() -> Self {
        let ends = Node {
            page: 0,
            before: ENDS,
            after: ENDS,
            state: State::Clean,
        };
        Self {
            nodes: vec![ends],
            free: Vec::new(),
            by_page: HashMap::default(),
            unwritten: BTreeSet::new(),
            written: Vec::new(),
            dirty: 0,
            idle: ENDS,
        }
    }
}

impl Table {
    /// Pages that are held.
    pub(crate) fn pages(&self) -> u64 {
        self.by_page.len() as u64
    }

    /// Pages of which the store has an older content, or may have.
    pub(crate) fn dirty_pages(&self) -> u64 {
        self.dirty
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let map = self.by_page.capacity() / 7 * 8 * (size_of::<(u32, u32)>() + 1);
        let vectors = (self.free.capacity() + self.written.capacity()) * size_of::<u32>();
        // A tree's nodes are two thirds full.
        let tree = self.unwritten.len() * size_of::<u32>() * 2;
        (self.nodes.capacity() * size_of::<Node>() + map + vectors + tree) as u64
    }

    pub(crate) fn get(&self, page: u32) -> Option<State> {
        let node = *self.by_page.get(&page)?;
        Some(self.nodes[node as usize].state)
    }

    /// The state of a page that is used: it is the most recent one from now on.
    pub(crate) fn touch(&mut self, page: u32) -> Option<State> {
        let node = *self.by_page.get(&page)?;
        self.unlink(node);
        self.link(node);
        Some(self.nodes[node as usize].state)
    }

    /// The page is held, in this state, and was just used.
    pub(crate) fn hold(&mut self, page: u32, state: State) {
        if self.touch(page).is_none() {
            let new = Node {
                page,
                before: ENDS,
                after: ENDS,
                state: State::Clean,
            };
            let node = match self.free.pop() {
                Some(node) => {
                    self.nodes[node as usize] = new;
                    node
                }
                None => {
                    self.nodes.push(new);
                    (self.nodes.len() - 1) as u32
                }
            };
            self.link(node);
            self.by_page.insert(page, node);
        }
        self.become_(page, state);
    }

    /// The state of a page that is held becomes another. It is no use of it.
    pub(crate) fn become_(&mut self, page: u32, state: State) {
        let Some(&node) = self.by_page.get(&page) else {
            return;
        };
        let before = std::mem::replace(&mut self.nodes[node as usize].state, state);
        self.dirty -= u64::from(before != State::Clean);
        self.dirty += u64::from(state != State::Clean);
        if before == State::Dirty && state != State::Dirty {
            self.unwritten.remove(&page);
        }
        match state {
            State::Clean => {}
            State::Written => self.written.push(page),
            State::Dirty => _ = self.unwritten.insert(page),
        }
    }

    /// The page is not held any more.
    pub(crate) fn remove(&mut self, page: u32) {
        if let Some(node) = self.by_page.remove(&page) {
            self.dirty -= u64::from(self.nodes[node as usize].state != State::Clean);
            self.unwritten.remove(&page);
            self.unlink(node);
            self.free.push(node);
        }
    }

    /// The least recently used pages, so many at most.
    pub(crate) fn coldest(&self, most: usize) -> Vec<u32> {
        let mut node = self.nodes[ENDS as usize].after;
        let next = || {
            let this = (node != ENDS).then(|| &self.nodes[node as usize])?;
            node = this.after;
            Some(this.page)
        };
        std::iter::from_fn(next).take(most).collect()
    }

    /// All pages are idle until they are used.
    pub(crate) fn mark_idle(&mut self) {
        self.idle = self.nodes[ENDS as usize].before;
    }

    /// The pages that were not used since they were marked.
    pub(crate) fn idle(&self) -> Vec<u32> {
        let last = self.idle;
        let pages = self.coldest(if last == ENDS { 0 } else { usize::MAX });
        let end = pages
            .iter()
            .position(|page| self.by_page.get(page) == Some(&last));
        pages[..end.map_or(0, |end| end + 1)].to_vec()
    }

    /// Pages that must be written before a sync means anything, in their order.
    pub(crate) fn to_be_written(&self) -> Vec<u32> {
        self.unwritten.iter().copied().collect()
    }

    /// A sync has ended, during which nothing was written back: what it was about is clean, or dirty again.
    pub(crate) fn synced(&mut self, state: State) {
        debug_assert_ne!(state, State::Written);
        for page in std::mem::take(&mut self.written) {
            if self.get(page) == Some(State::Written) {
                self.become_(page, state);
            }
        }
    }

    fn unlink(&mut self, node: u32) {
        let Node { before, after, .. } = self.nodes[node as usize];
        if self.idle == node {
            self.idle = before;
        }
        self.nodes[before as usize].after = after;
        self.nodes[after as usize].before = before;
    }

    /// Puts a node at the end: the most recent.
    fn link(&mut self, node: u32) {
        let last = self.nodes[ENDS as usize].before;
        self.nodes[node as usize].before = last;
        self.nodes[node as usize].after = ENDS;
        self.nodes[last as usize].after = node;
        self.nodes[ENDS as usize].before = node;
    }

    /// Counts again what is counted: for tests.
    ///
    /// # Panics
    /// If an invariant is broken.
    pub(crate) fn check_invariants(&self) {
        let order = self.coldest(usize::MAX);
        assert_eq!(order.len(), self.by_page.len(), "the list");
        let is = |page: &&u32, state| self.get(**page) == Some(state);
        let dirty = order.iter().filter(|page| !is(page, State::Clean)).count();
        assert_eq!(dirty as u64, self.dirty, "dirty pages");
        let mut unwritten: Vec<u32> = order.clone();
        unwritten.retain(|page| is(&page, State::Dirty));
        unwritten.sort_unstable();
        assert_eq!(unwritten, self.to_be_written());
        for page in order.iter().filter(|page| is(page, State::Written)) {
            assert!(self.written.contains(page), "C2: page {page}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_stand_in_the_order_of_their_use() {
        let mut table = Table::default();
        for page in [5, 3, 9, 1] {
            table.hold(page, State::Clean);
        }
        table.touch(3);
        table.hold(5, State::Dirty);
        table.become_(9, State::Dirty);
        assert_eq!(table.coldest(10), [9, 1, 3, 5]);
        table.remove(1);
        table.hold(2, State::Clean);
        assert_eq!(table.coldest(3), [9, 3, 5]);
        assert_eq!(table.to_be_written(), [5, 9]);
        table.check_invariants();
    }

    #[test]
    fn pages_are_idle_until_they_are_used() {
        let mut table = Table::default();
        assert_eq!(table.idle(), []);
        (0..5).for_each(|page| table.hold(page, State::Clean));
        table.mark_idle();
        table.hold(9, State::Clean);
        table.touch(4);
        table.remove(3);
        table.touch(1);
        assert_eq!(table.idle(), [0, 2]);
        table.touch(2);
        table.touch(0);
        assert_eq!(table.idle(), []);
    }

    #[test]
    fn a_sync_is_about_what_was_written_before_and_not_since() {
        let mut table = Table::default();
        for page in 0..4 {
            table.hold(page, State::Dirty);
            table.become_(page, State::Written);
        }
        table.hold(1, State::Dirty);
        table.remove(2);
        table.synced(State::Clean);
        let states = [0, 1, 2, 3].map(|page| table.get(page));
        let (clean, dirty) = (Some(State::Clean), Some(State::Dirty));
        assert_eq!(states, [clean, dirty, None, clean]);
        table.become_(1, State::Written);
        table.synced(State::Dirty);
        assert_eq!((table.get(1), table.dirty_pages()), (dirty, 1));
        table.check_invariants();
    }
}
