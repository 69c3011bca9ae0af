//! The machine as the runtime's Linux is: another kernel owns the pages.
//!
//! ```text
//!  places[segment][page]   frame │ poisoned │ gone │ registered │ pins     the page tables
//!  messages                faults that wait for a handler                  the userfaultfd's queue
//!  events                  changes that wait to be read                    the same
//!  changing                changes that were announced and are not over: nothing is
//!                          put in place or moved while it is not 0
//!  gate                    inside: page lists are in step with the kernel
//! ```
//!
//! Like the kernel it wakes who waits for a page when it puts one there, and at once: the driver
//! checks that nobody sleeps whose page is there. What a host may rely on is less: a wake may be
//! lost, doubled, or come for nothing, and whoever sleeps looks again after some time.

use super::Sabotage;
use super::gate::{Gate, Inside};
use crate::failure::fail;
use crate::inject::Kind;
use crate::lock::SimLock;
use crate::machine::{Chunks, Clock, FrameNumber, Ram, Staging, StorageFrames};
use crate::schedule::{self, doze, fires, note, random, simulation, step};
use crate::trace::What;
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::{Doubt, Host, Installed, PageIndex, Place, SegmentId, StagingSlot, Taken};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// What the kernel knows of a page.
#[derive(Default)]
pub struct PageTableEntry {
    /// What is in place, or 0.
    pub frame: Cell<FrameNumber>,
    /// A touch raises an error.
    pub poisoned: Cell<bool>,
    /// There is no such memory.
    pub gone: Cell<bool>,
    /// Faults are the pager's, and changes are told.
    pub registered: Cell<bool>,
    /// What is remembered of it was damaged, or it cannot be put in place: it may be poisoned.
    pub doubtful: Cell<bool>,
    /// How many hold it in place.
    pub pins: Cell<u32>,
    /// Threads to whom a wake-up for this page was lost.
    pub lost: Cell<u64>,
}

/// A touch that waits for a handler.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The page.
    pub place: Place,
    /// Touched by a write.
    pub written: bool,
}

/// A change of the address space, of pages of one segment.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Pages are dropped.
    Remove(SegmentId, PageIndex, PageIndex),
    /// Memory is unmapped.
    Unmap(SegmentId, PageIndex, PageIndex),
    /// Pages have moved from the first place to the second.
    Remap(Place, Place, u32),
}

/// A change that waits to be read, and who waits for that.
pub struct Event {
    /// What changes.
    pub change: Change,
    /// Waits for `was_read`.
    pub key: u64,
}

/// Who acts on changes of the address space.
pub trait Deliver {
    /// Reads a change, if there is one, and acts on it. Whether there was one.
    fn deliver_one(&self) -> bool;
}

/// The machine.
pub struct Linux {
    /// Pages of a segment that are memory.
    pub pages: u32,
    places: Vec<PageTableEntry>,
    /// Page frames.
    pub ram: Ram,
    /// Frames of storage.
    pub frames: StorageFrames,
    /// Staging slots.
    pub staging: Staging,
    /// Memory for tables.
    pub chunks: Chunks,
    /// The clock.
    pub clock: Clock,
    /// Keeps changes apart from what relies on there being none.
    pub gate: Gate,
    /// Changes announced and not over.
    pub changing: Cell<u32>,
    /// Faults that nobody has taken yet.
    pub messages: RefCell<VecDeque<Message>>,
    /// Changes that nobody has read yet.
    pub events: RefCell<VecDeque<Event>>,
    /// The runs of pages that are being taken out.
    taking: RefCell<Vec<(SegmentId, PageIndex, u32)>>,
    /// Pages to be woken once more, later.
    pub second_wakes: RefCell<Vec<Place>>,
    /// What is wrong with the machine on purpose.
    pub sabotage: Sabotage,
    /// Who acts on changes.
    pub world: OnceCell<&'static dyn Deliver>,
}

// SAFETY: a simulation is one thread of the system; nothing of it is given to another.
unsafe impl Sync for Linux {}

const PAGE_KEY: u64 = 1 << 63;

/// Handlers wait for messages and events here.
pub const HANDLERS: u64 = 1 << 63 | 1 << 61;

/// Those wait here whose page is to come.
pub fn key_of((segment, index): Place) -> u64 {
    PAGE_KEY | u64::from(segment) << 32 | u64::from(index)
}

impl Linux {
    /// A machine of `segments` segments, of which the first `pages` pages each are memory.
    pub fn new(
        segments: u32,
        pages: u32,
        frames: StorageFrames,
        chunks: Chunks,
        clock: Clock,
        sabotage: Sabotage,
    ) -> Self {
        let count = (segments * pages) as usize;
        Self {
            pages,
            places: (0..count).map(|_| PageTableEntry::default()).collect(),
            ram: Ram::new(2 * count),
            frames,
            staging: Staging::new(),
            chunks,
            clock,
            gate: Gate::default(),
            changing: Cell::new(0),
            messages: RefCell::default(),
            events: RefCell::default(),
            taking: RefCell::default(),
            second_wakes: RefCell::default(),
            sabotage,
            world: OnceCell::new(),
        }
    }

    /// What the kernel knows of a page.
    pub fn at(&self, (segment, index): Place) -> &PageTableEntry {
        assert!(index < self.pages, "beyond the segment's memory");
        &self.places[(segment as usize - 1) * self.pages as usize + index as usize]
    }

    /// Every place.
    pub fn all(&self) -> impl Iterator<Item = Place> + Clone + use<> {
        let pages = self.pages;
        let segments = (self.places.len() / pages as usize) as u32;
        (1..=segments).flat_map(move |segment| (0..pages).map(move |index| (segment, index)))
    }

    /// Puts content in place without being asked by the engine, and wakes who waits.
    pub fn put(&self, place: Place, content: &Page) {
        let entry = self.at(place);
        assert_eq!(entry.frame.get(), 0);
        entry.frame.set(self.ram.allocate_with(content));
        self.wake_sleepers(place);
    }

    /// The memory of a page is dropped.
    pub fn zap(&self, place: Place) {
        let entry = self.at(place);
        entry.poisoned.set(false);
        let frame = entry.frame.replace(0);
        if frame != 0 {
            self.ram.free(frame);
        }
    }

    /// Whether the page is in the run that is being taken.
    pub fn is_being_taken(&self, (segment, index): Place) -> bool {
        let taking = self.taking.borrow();
        let mut runs = taking.iter();
        runs.any(|&(of, first, count)| of == segment && (first..first + count).contains(&index))
    }

    /// A page that is being taken out, if any is.
    pub fn some_being_taken(&self, start: usize) -> Option<Place> {
        let taking = self.taking.borrow();
        let &(segment, first, count) = taking.get(start.checked_rem(taking.len())?)?;
        Some((segment, first + start as u32 % count))
    }

    /// Threads that wait for a page, a bit each.
    pub fn sleepers(&self, place: Place) -> u64 {
        simulation().who_waits(key_of(place))
    }

    /// Wakes who waits for a page, unless that goes wrong.
    pub fn wake_sleepers(&self, place: Place) {
        if self.sabotage == Sabotage::NeverWakes {
            return;
        }
        let sleepers = self.sleepers(place);
        if sleepers == 0 {
            return;
        }
        if fires(Kind::LostWake) {
            let lost = &self.at(place).lost;
            lost.set(lost.get() | sleepers);
            return;
        }
        if fires(Kind::DoubledWake) {
            self.second_wakes.borrow_mut().push(place);
        }
        schedule::wake(key_of(place));
    }

    fn assert_stable(&self) {
        assert!(
            simulation().stable_sections().get() > 0,
            "outside of a stable section"
        );
    }

    fn put_in_place(&self, place: Place, content: &Page) -> Installed {
        self.assert_stable();
        if fires(Kind::InstallChanging) {
            return Installed::Changing;
        }
        if self.changing.get() > 0 && self.sabotage != Sabotage::InstallsWhileChanging {
            note(Kind::InstallChanging);
            return Installed::Changing;
        }
        let entry = self.at(place);
        if entry.gone.get() || !entry.registered.get() {
            note(Kind::InstallGone);
            return Installed::Gone;
        }
        if fires(Kind::InstallRefused) {
            entry.doubtful.set(true);
            return Installed::Refused;
        }
        if entry.frame.get() != 0 || entry.poisoned.get() {
            note(Kind::InstallPresent);
            if self.sabotage != Sabotage::InstallReplaces || entry.poisoned.get() {
                self.wake_sleepers(place);
                return Installed::AlreadyPresent;
            }
            self.zap(place);
        }
        self.put(place, content);
        Installed::Done
    }

    /// Moves one page into a slot, as the kernel does: at once.
    fn take_one(&self, place: Place, slot: StagingSlot) {
        let entry = self.at(place);
        if self.sabotage == Sabotage::TakeLosesWrites {
            // Copies, is interrupted, and drops.
            let copy = self.ram.allocate();
            let from = self.ram.address(entry.frame.get());
            // SAFETY: two frames in use, of which one was just allocated.
            let content = unsafe { from.as_ref() };
            self.ram.with(copy, |page| page.copy_from_slice(content));
            step(What::Take, place.0, place.1, 1);
            if entry.frame.get() != 0 {
                self.ram.free(entry.frame.replace(0));
            }
            self.staging.fill(slot, copy, place);
            return;
        }
        self.staging.fill(slot, entry.frame.replace(0), place);
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, freed with the machine.
unsafe impl ChunkSource for Linux {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.chunks.chunk()
    }
}

// SAFETY: `take` moves frames between two steps; staged frames are written in `release` only.
unsafe impl Host for Linux {
    type RawLock = SimLock;
    type Frames = StorageFrames;
    type Stable<'a> = Inside<'a>;

    fn stable(&self) -> Inside<'_> {
        let in_turn = simulation().current_name() == "reclaimer";
        self.gate.enter(in_turn)
    }

    fn frames(&self) -> &StorageFrames {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        self.assert_stable();
        assert_eq!(wanted & 1, 1, "the lowest bit is set");
        let span = 64 - wanted.leading_zeros();
        let run = (segment, first, span);
        self.taking.borrow_mut().push(run);
        let stops_after = match fires(Kind::TakePart) {
            true => random().below(u64::from(span)) as u32,
            false => span,
        };
        let mut taken = Taken::default();
        for n in 0..span {
            let place = (segment, first + n);
            step(What::Take, place.0, place.1, slot.0.into());
            let (entry, bit) = (self.at(place), 1 << n);
            // As the runtime does: what is taken for the first time is registered before.
            entry
                .registered
                .set(entry.registered.get() || wanted & bit != 0);
            if wanted & bit == 0 {
                // Memory may have been moved here, of which nobody was told yet: it stays.
                if entry.frame.get() != 0 && self.changing.get() == 0 {
                    fail(place, "in the gap of a run");
                }
            } else if self.changing.get() > 0 {
                note(Kind::TakeChanging);
                break;
            } else if n >= stops_after {
                // Nothing is said of this page.
            } else if entry.pins.get() > 0 {
                note(Kind::TakeRefused);
                taken.refused |= bit;
            } else if entry.frame.get() != 0 {
                self.take_one(place, StagingSlot(slot.0 + n as u16));
                taken.moved |= bit;
            } else {
                note(Kind::TakeHole);
                taken.holes |= bit;
            }
        }
        self.taking.borrow_mut().retain(|other| *other != run);
        taken
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        let overwritten = self.sabotage == Sabotage::StagingOverwritten;
        self.staging.page(&self.ram, slot, overwritten)
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        assert_eq!(
            simulation().stable_sections().get(),
            0,
            "released in a stable section"
        );
        step(What::Release, 0, 0, count as u32);
        for n in 0..count as u16 {
            let frame = self.staging.empty(StagingSlot(slot.0 + n));
            if frame != 0 {
                self.ram.free(frame);
            }
        }
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        step(What::Install, segment, index, 0);
        self.put_in_place((segment, index), content)
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, written: bool) -> Installed {
        step(What::InstallZero, segment, index, written.into());
        self.put_in_place((segment, index), &[0; 4096])
    }

    fn wake(&self, segment: SegmentId, index: PageIndex) {
        step(What::Wake, segment, index, 0);
        self.wake_sleepers((segment, index));
    }

    fn poison(&self, segment: SegmentId, index: PageIndex, doubt: Doubt) -> Installed {
        self.assert_stable();
        step(What::Poison, segment, index, doubt as u32);
        if self.changing.get() > 0 || fires(Kind::InstallChanging) {
            return Installed::Changing;
        }
        let entry = self.at((segment, index));
        if entry.gone.get() || !entry.registered.get() {
            return Installed::Gone;
        }
        let present = entry.frame.get() != 0;
        if !present {
            entry.poisoned.set(true);
        }
        self.wake_sleepers((segment, index));
        match present {
            true => Installed::AlreadyPresent,
            false => Installed::Done,
        }
    }

    fn let_changes_in(&self) {
        assert_eq!(
            simulation().stable_sections().get(),
            0,
            "waits inside a stable section"
        );
        step(What::LetIn, 0, 0, self.changing.get());
        let handler = simulation().current_name() == "handler";
        if !(handler && self.world.get().is_some_and(|world| world.deliver_one())) {
            doze(20);
        }
    }
}
