//! What is known of a chain ("zspage"): its frames, which of its slots are free, its fullness.
//!
//! ```text
//!  chain of three frames, slots of 1,632 bytes, slot 2 straddles
//!  ├───────────── frame ─────────────┼───────────── frame ─────────────┼──── frame …
//!  │ slot 0      │ slot 1      │ slot 2      │ slot 3      │ slot 4   …
//!  free ──▶ 3 ──▶ 0 ──▶ none                  fresh = 4: slots from here on were never used
//! ```
//!
//! Free slots are linked through the words at their heads, as zsmalloc's are; those that were
//! never used are not linked yet, so that making a chain is no loop over its slots.
#![forbid(unsafe_op_in_unsafe_fn)]

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use coldpress_arena::{Link, Pool, Zeroable};

use super::classes::Class;
use crate::search_lists::Links;

/// Lists of partially filled chains, by tenths: `ZS_INUSE_RATIO_10` to `ZS_INUSE_RATIO_99`.
pub(super) const GROUPS: usize = 10;

/// "None" among slot numbers.
pub(super) const NO_SLOT: u16 = u16::MAX;

/// Where a chain is listed.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// Full: on no list.
    Full,
    /// On the list of this fullness group of its class.
    Group(usize),
    /// Set aside until compaction is through with the class: an object of it may not move.
    Aside,
}

/// One chain, 20 bytes.
#[repr(C)]
pub(super) struct Zspage {
    pub(super) links: Links,
    pub(super) first_frame: AtomicU32,
    /// First free slot that was used before.
    free: AtomicU16,
    /// First slot that was never used; so are all that follow.
    fresh: AtomicU16,
    in_use: AtomicU16,
    class: AtomicU8,
    aside: AtomicU8,
}

const _: () = assert!(size_of::<Zspage>() == 20);

// SAFETY: a record is made of atomics only; zero is valid, and means nothing.
unsafe impl Zeroable for Zspage {}

impl Link for Zspage {
    fn link(&self) -> &AtomicU32 {
        &self.links.next
    }
}

impl Zspage {
    /// Becomes an empty chain.
    pub(super) fn begin(&self, class: usize, first_frame: u32) {
        self.first_frame.store(first_frame, Relaxed);
        self.free.store(NO_SLOT, Relaxed);
        self.fresh.store(0, Relaxed);
        self.in_use.store(0, Relaxed);
        self.class.store(class as u8, Relaxed);
        self.aside.store(0, Relaxed);
    }

    pub(super) fn class_number(&self) -> usize {
        usize::from(self.class.load(Relaxed))
    }

    pub(super) fn class(&self) -> Class {
        Class::get(self.class_number())
    }

    pub(super) fn in_use(&self) -> u16 {
        self.in_use.load(Relaxed)
    }

    pub(super) fn fresh(&self) -> u16 {
        self.fresh.load(Relaxed)
    }

    /// The slot to take next, and whether a word at its head says which one follows it.
    pub(super) fn next_slot(&self) -> (u16, bool) {
        match self.free.load(Relaxed) {
            NO_SLOT => (self.fresh.load(Relaxed), false),
            slot => (slot, true),
        }
    }

    /// Takes the slot that [`next_slot`](Self::next_slot) gave; `next_free` follows it.
    pub(super) fn take(&self, next_free: Option<u16>) {
        match next_free {
            Some(next) => self.free.store(next, Relaxed),
            None => self.fresh.store(self.fresh() + 1, Relaxed),
        }
        self.in_use.store(self.in_use() + 1, Relaxed);
    }

    /// Gives `slot` back; returns the free slot that has to follow it.
    pub(super) fn give(&self, slot: u16) -> u16 {
        self.in_use.store(self.in_use() - 1, Relaxed);
        self.free.swap(slot, Relaxed)
    }

    pub(super) fn set_aside(&self, aside: bool) {
        self.aside.store(u8::from(aside), Relaxed);
    }

    /// Where the chain belongs (`get_fullness_group`).
    pub(super) fn place(&self) -> Place {
        let (in_use, objects) = (self.in_use(), self.class().objects);
        if self.aside.load(Relaxed) != 0 {
            Place::Aside
        } else if in_use == objects {
            Place::Full
        } else {
            Place::Group(100 * usize::from(in_use) / usize::from(objects) / 10)
        }
    }
}

/// Puts `zspage` at the head of a list.
pub(super) fn push(head: &mut u32, zspage: u32, zspages: &Pool<Zspage>) {
    let links = &zspages.get(zspage).links;
    links.next.store(*head, Relaxed);
    links.previous.store(0, Relaxed);
    if *head != 0 {
        zspages.get(*head).links.previous.store(zspage, Relaxed);
    }
    *head = zspage;
}

/// Takes `zspage` out of the list it is on.
pub(super) fn remove(head: &mut u32, zspage: u32, zspages: &Pool<Zspage>) {
    let links = &zspages.get(zspage).links;
    let (next, previous) = (links.next.load(Relaxed), links.previous.load(Relaxed));
    if next != 0 {
        zspages.get(next).links.previous.store(previous, Relaxed);
    }
    if previous != 0 {
        zspages.get(previous).links.next.store(next, Relaxed);
    } else {
        debug_assert_eq!(*head, zspage, "Z4");
        *head = next;
    }
}
