//! zsmalloc: objects of like size in chains of frames.
//!
//! ```text
//!  SizeClass            zspages, 20 bytes each      frame records, 8 bytes each
//!  ┌──────────────┐    ┌──────────────────────┐    ┌────────────────────────────┐
//!  │ class 1,632: │    │ first frame ─────────┼──▶ │ [9] zspage, 0 · next frame │─▶ [4] ─▶ [7]
//!  │ group 90 % ──┼──▶ │ free slot, in use    │ ◀──┼────┘ freeing finds it      │
//!  │ group 80 %   │    │ next · previous      │    └────────────────────────────┘
//!  └──────────────┘    └──────────────────────┘
//!
//!  an object in its slot:   │ word │ bytes …          │     the word: its length
//!  one that straddles:      │ link │ first part ┆ rest │    at offset 0 of the next frame
//! ```
//!
//! An object takes the smallest class that holds it and the eight bytes that zsmalloc keeps for
//! its handle. Ours are the length, the link of a [split](crate::access) object, or where the
//! next free slot is; so what zsmalloc spends we spend. A chain is filled from the fullest
//! group. Objects of which a frame holds one have no word ("huge"), so a whole page is one frame.
//!
//! Compaction is zsmalloc's (`__zs_compact`): in each class, as long as a whole chain could be
//! saved, move objects out of the emptiest chain into the fullest. One call moves as many as its
//! budget allows, and the next goes on with the same class. A chain with an object that may
//! not move is set aside until its class is done with.
//!
//! It is here to be measured against, so it is as good as the original: the same classes
//! (`size_class/classes.rs`), less metadata (no `struct zspage` with a lock, no handles).
//! Frames are asked for one by one.
//!
//! S3 holds for chains: all frames of a chain are returned with its last object. In the worst
//! case one object keeps eight frames; compaction is what mends that.
//!
//! Invariants, besides S1, S2 and S4:
//! * Z1 The record of a frame names its chain and its place in it; that of a frame which is not
//!   held is 0.
//! * Z2 Slot `i` of a chain lies at `i × size`, counted through its frames. It is free if it is
//!   at or beyond `fresh`, or its word is tagged free; and then on the chain's list of free slots.
//! * Z3 The word of a slot in use is its object's length, below 2^48, or its link. (Not if huge.)
//! * Z4 A chain is on the list of its group, or set aside, or full and on none.
//! * Z5 The tally (N1), and each class's chains and objects, are the sums over all chains.
//!
//! Follows seed 002, "zsmalloc", and `mm/zsmalloc.c`.
#![forbid(unsafe_op_in_unsafe_fn)]

mod classes;
mod compaction;
mod zspage;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use coldpress_arena::{ChunkSource, Pool, Zeroable};

use crate::access::{LINK_BYTES, Link, read_word, write_link, write_word};
use crate::compressed_storage::{Compaction, CompressedStorage, Usage};
use crate::frame::{FRAME_BYTES, FrameIndex, FrameSource};
use crate::frame_table::FrameTable;
use crate::reference::Reference;
use crate::tally::Tally;
use classes::{CHAIN, CLASSES, Class, class_for};
use compaction::Pass;
use zspage::{GROUPS, Place, Zspage, push, remove};

/// The tag of a free slot's word; no link has a rest of so many bytes.
const FREE: u64 = 0xffff << 48;

/// The largest length that a word says; links lie above.
const LARGEST_LEN: u64 = FRAME_BYTES as u64;

/// What is known of one frame (Z1).
#[repr(C)]
struct Record {
    /// `8 × zspage + place in the chain`, or 0.
    zspage: AtomicU32,
    next_frame: AtomicU32,
}

// SAFETY: a record is made of atomics only; zero is a frame that is not held.
unsafe impl Zeroable for Record {}

/// Chains of one class.
struct ClassState {
    groups: [u32; GROUPS],
    chains: u32,
    objects: u32,
}

/// Storage by size classes, with chains of up to eight frames.
///
/// About 78 KiB by itself; meant to be a `static`, or part of one.
pub struct SizeClass {
    records: FrameTable<Record, 511>,
    zspages: Pool<Zspage>,
    classes: [ClassState; CLASSES],
    pass: Pass,
    tally: Tally,
}

impl Default for SizeClass {
    fn default() -> Self {
        Self::new()
    }
}

impl SizeClass {
    /// Storage that holds nothing, and has no tables yet.
    pub const fn new() -> Self {
        Self {
            records: FrameTable::new(),
            zspages: Pool::new(),
            classes: [const {
                ClassState {
                    groups: [0; GROUPS],
                    chains: 0,
                    objects: 0,
                }
            }; CLASSES],
            pass: Pass::new(),
            tally: Tally::new(),
        }
    }

    /// Where `slot` of a chain begins (Z2).
    fn locate(&self, zspage: u32, slot: u16) -> (FrameIndex, usize) {
        let record = self.zspages.get(zspage);
        let position = usize::from(slot) * usize::from(record.class().bytes);
        let mut frame = record.first_frame.load(Relaxed);
        for _ in 0..position / FRAME_BYTES {
            frame = self.records.get(frame).next_frame.load(Relaxed);
        }
        (FrameIndex(frame), position % FRAME_BYTES)
    }

    /// Puts a chain on the list where it belongs (Z4).
    fn list(&mut self, zspage: u32) {
        let record = self.zspages.get(zspage);
        match record.place() {
            Place::Full => {}
            Place::Group(group) => push(
                &mut self.classes[record.class_number()].groups[group],
                zspage,
                &self.zspages,
            ),
            Place::Aside => push(&mut self.pass.aside, zspage, &self.zspages),
        }
    }

    /// Takes a chain from the list it is on.
    fn unlist(&mut self, zspage: u32) {
        let record = self.zspages.get(zspage);
        match record.place() {
            Place::Full => {}
            Place::Group(group) => remove(
                &mut self.classes[record.class_number()].groups[group],
                zspage,
                &self.zspages,
            ),
            Place::Aside => remove(&mut self.pass.aside, zspage, &self.zspages),
        }
    }

    /// A new chain, with all of its frames; on no list.
    fn begin_chain(&mut self, frames: &impl FrameSource, class: usize) -> Option<u32> {
        let mut chain = [0_u32; CHAIN];
        let count = usize::from(Class::get(class).frames);
        let mut obtained = 0;
        while obtained < count
            && let Some(frame) = self.records.borrow_frame(frames)
        {
            chain[obtained] = frame.0;
            obtained += 1;
        }
        let all = obtained == count;
        let Some(zspage) = all.then(|| self.zspages.take()).flatten() else {
            let chain = chain[..obtained].iter();
            chain.for_each(|frame| frames.free(FrameIndex(*frame)));
            return None;
        };
        for (place, frame) in chain[..count].iter().enumerate() {
            let record = self.records.get(*frame);
            let next = chain.get(place + 1).copied().unwrap_or(0);
            record.zspage.store(zspage << 3 | place as u32, Relaxed);
            record.next_frame.store(next, Relaxed);
        }
        self.zspages.get(zspage).begin(class, chain[0]);
        self.classes[class].chains += 1;
        self.tally.frames += count;
        Some(zspage)
    }

    /// Returns the frames of a chain that is empty and on no list.
    fn end_chain(&mut self, frames: &impl FrameSource, zspage: u32) {
        let record = self.zspages.get(zspage);
        let mut frame = record.first_frame.load(Relaxed);
        while frame != 0 {
            let record = self.records.get(frame);
            let next = record.next_frame.swap(0, Relaxed);
            record.zspage.store(0, Relaxed);
            frames.free(FrameIndex(frame));
            self.tally.frames -= 1;
            frame = next;
        }
        self.classes[record.class_number()].chains -= 1;
        self.zspages.give(zspage);
    }

    /// Takes a slot of a chain with room for an object of `len` bytes.
    fn take_slot(&mut self, frames: &impl FrameSource, zspage: u32, len: usize) -> Reference {
        let record = self.zspages.get(zspage);
        let class = record.class();
        let (slot, was_used) = record.next_slot();
        let (frame, offset) = self.locate(zspage, slot);
        let next_free = (was_used && !class.is_huge()).then(|| {
            // SAFETY: Z2: a slot is a multiple of 16 bytes, so its word lies in its first frame,
            // which is held, and the slot is free.
            let word = unsafe { read_word(frames, frame, offset) };
            assert!(word & FREE == FREE, "a free slot was written to");
            word as u16
        });
        self.unlist(zspage);
        self.zspages.get(zspage).take(next_free);
        self.list(zspage);
        self.classes[self.zspages.get(zspage).class_number()].objects += 1;
        self.tally.store(len);
        if class.is_huge() {
            return Reference::new(frame, 0, len, 0);
        }
        let start = offset + LINK_BYTES;
        if start + len <= FRAME_BYTES {
            // SAFETY: as above; the slot is taken, and nobody knows of it yet.
            unsafe { write_word(frames, frame, offset, len as u64) };
            return Reference::new(frame, start, len, 0);
        }
        let next = self.records.get(frame.0).next_frame.load(Relaxed);
        let link = Link {
            rest_frame: FrameIndex(next),
            rest_offset: 0,
            rest_len: start + len - FRAME_BYTES,
        };
        let reference = Reference::new_split(frame, offset, len, 0);
        // SAFETY: the slot is taken, and nobody knows of it yet.
        unsafe { write_link(frames, reference, link) };
        reference
    }

    /// The chain and the slot of an object that is stored.
    ///
    /// # Panics
    /// If there is no such object, as far as can be told.
    fn slot_of(&self, frames: &impl FrameSource, reference: Reference) -> (u32, u16) {
        let frame = reference.frame();
        let record = self.records.find(frame);
        let chained = record.map_or(0, |record| record.zspage.load(Relaxed));
        assert!(chained != 0, "no such frame is held");
        let (zspage, place) = (chained >> 3, chained as usize & 7);
        let class = self.zspages.get(zspage).class();
        let head = if class.is_huge() || reference.is_split() {
            Some(reference.offset())
        } else {
            reference.offset().checked_sub(LINK_BYTES)
        };
        let slot = head
            .map(|head| place * FRAME_BYTES + head)
            .filter(|position| position.is_multiple_of(usize::from(class.bytes)))
            .map(|position| position / usize::from(class.bytes))
            .filter(|slot| *slot < usize::from(self.zspages.get(zspage).fresh()))
            .expect("no such object is stored");
        let found = if class.is_huge() {
            class_for(reference.len()) == class_for(FRAME_BYTES) && !reference.is_split()
        } else {
            let (frame, offset) = self.locate(zspage, slot as u16);
            // SAFETY: Z2: the word of a slot lies in a frame that is held.
            let word = unsafe { read_word(frames, frame, offset) };
            self.object_of(frame, offset, word) == Some(reference)
        };
        assert!(found, "no such object is stored");
        (zspage, slot as u16)
    }

    /// The object whose slot begins at `offset` of `frame`, with this word there (Z3); `None` if
    /// the slot is free. Not for huge objects.
    fn object_of(&self, frame: FrameIndex, offset: usize, word: u64) -> Option<Reference> {
        let start = offset + LINK_BYTES;
        if word & FREE == FREE {
            None
        } else if word <= LARGEST_LEN {
            Some(Reference::new(frame, start, word as usize, 0))
        } else {
            let len = FRAME_BYTES - start + Link::from_word(word).rest_len;
            Some(Reference::new_split(frame, offset, len, 0))
        }
    }

    /// Frees the slot of an object; returns whether that was the last of its chain.
    fn give_slot(&mut self, frames: &impl FrameSource, reference: Reference) -> bool {
        let (zspage, slot) = self.slot_of(frames, reference);
        self.unlist(zspage);
        let record = self.zspages.get(zspage);
        let class = record.class();
        let next_free = record.give(slot);
        let is_empty = record.in_use() == 0;
        self.classes[record.class_number()].objects -= 1;
        self.tally.free(reference.len());
        if is_empty {
            self.end_chain(frames, zspage);
            return true;
        }
        debug_assert!(!class.is_huge());
        let (frame, offset) = self.locate(zspage, slot);
        // SAFETY: Z2: the word of a slot lies in a frame that is held; the object was freed.
        unsafe { write_word(frames, frame, offset, FREE | u64::from(next_free)) };
        self.list(zspage);
        false
    }
}

impl CompressedStorage for SizeClass {
    const NAME: &'static str = "size-class";

    fn reserve(&self, source: &impl ChunkSource, count: u32) -> bool {
        // Each allocation begins at most one chain.
        let frames = count.saturating_mul(CHAIN as u32);
        self.zspages.reserve(source, count) && self.records.reserve(source, frames)
    }

    fn allocate(&mut self, frames: &impl FrameSource, len: usize) -> Option<Reference> {
        if len == 0 || len > Self::MAX_OBJECT_BYTES {
            return None;
        }
        let class = class_for(len);
        let fullest = self.classes[class].groups.iter().rev().find(|z| **z != 0);
        let zspage = match fullest {
            Some(zspage) => *zspage,
            None => {
                let zspage = self.begin_chain(frames, class)?;
                self.list(zspage);
                zspage
            }
        };
        Some(self.take_slot(frames, zspage, len))
    }

    fn free(&mut self, frames: &impl FrameSource, reference: Reference) {
        self.give_slot(frames, reference);
    }

    fn usage(&self) -> Usage {
        // Item 0 of a pool is never used.
        let zspage_bytes = self.zspages.touched_bytes() - size_of::<Zspage>();
        self.tally
            .usage(self.records.touched_bytes() + zspage_bytes)
    }

    fn compact(
        &mut self,
        frames: &impl FrameSource,
        budget_bytes: usize,
        relocate: &mut impl FnMut(Reference, Reference) -> bool,
    ) -> Compaction {
        self.compact_classes(frames, budget_bytes, relocate)
    }

    fn check_invariants(&self) {
        self.records.check_invariants();
        let (mut held, mut chained) = (0, 0);
        let (mut objects, mut on_lists, mut partial) = (0, 0, 0);
        for (frame, record) in self.records.iter() {
            let zspage = record.zspage.load(Relaxed);
            held += usize::from(zspage != 0);
            if zspage == 0 || zspage & 7 != 0 {
                continue;
            }
            let chain = self.zspages.get(zspage >> 3);
            let class = chain.class();
            assert_eq!(chain.first_frame.load(Relaxed), frame, "Z1");
            let (mut place, mut next) = (0, frame);
            while next != 0 {
                let record = self.records.get(next);
                let expected = (zspage & !7) | place;
                assert_eq!(record.zspage.load(Relaxed), expected, "Z1: frame {next}");
                (place, next) = (place + 1, record.next_frame.load(Relaxed));
            }
            assert_eq!(place, u32::from(class.frames), "Z1");
            assert!(chain.in_use() != 0, "S3: a chain without an object");
            assert!(chain.fresh() <= class.objects, "Z2");
            chained += usize::from(class.frames);
            objects += usize::from(chain.in_use());
            partial += usize::from(chain.place() != Place::Full);
        }
        assert_eq!(
            (held, chained),
            (self.tally.frames, self.tally.frames),
            "Z1, Z5"
        );
        assert_eq!(objects, self.tally.objects, "Z5");
        let (mut chains, mut of_classes) = (0, 0);
        let aside = core::iter::once((self.pass.aside, CLASSES, Place::Aside));
        let groups = self.classes.iter().enumerate().flat_map(|(number, class)| {
            let groups = class.groups.iter().enumerate();
            groups.map(move |(group, head)| (*head, number, Place::Group(group)))
        });
        for (head, class, place) in groups.chain(aside) {
            let (mut previous, mut zspage) = (0, head);
            while zspage != 0 {
                let record = self.zspages.get(zspage);
                assert_eq!(record.links.previous.load(Relaxed), previous, "Z4");
                assert_eq!(record.place(), place, "Z4");
                assert!(class == CLASSES || record.class_number() == class, "Z4");
                on_lists += 1;
                assert!(on_lists <= partial, "Z4: a list is a cycle");
                (previous, zspage) = (zspage, record.links.next.load(Relaxed));
            }
        }
        assert_eq!(on_lists, partial, "Z4: a chain with room is on no list");
        for class in &self.classes {
            chains += class.chains as usize;
            of_classes += class.objects as usize;
        }
        assert_eq!(of_classes, self.tally.objects, "Z5");
        assert_eq!(chains, self.zspages.in_use() as usize, "Z5");
    }
}
