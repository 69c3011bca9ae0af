//! The machine as a kernel is: it owns the pages, and takes and installs them under the VMO's lock.
//!
//! ```text
//!  places     (segment, index) ──▶ frame │ accessed │ how often woken
//!  mappings   address ──▶ place, writable
//!  staging    slot ──▶ frame, and one frame more that is reserved for who touches the page
//! ```
//!
//! What VMOs ask of it besides stands in `memory.rs`, what it keeps for user pagers in `requests.rs`.
//! Frames are limited: `install` may say that there is none, `take` that none can be reserved.

use super::mappings::{Address, Mappings};
use super::requests::Requests;
use crate::damage;
use crate::failure::fail;
use crate::inject::Kind;
use crate::lock::SimLock;
use crate::machine::{Chunks, Clock, FrameNumber, Limit, Ram, Staging, StorageFrames};
use crate::sabotage::KernelSabotage;
use crate::schedule::{self, doze, fires, note, random, simulation, step};
use crate::trace::What;
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::lock::{HeldRanks, rank};
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{
    Access, Doubt, Entry, Host, Installed, PageIndex, Place, Protocol, SegmentId, StagingSlot,
    Taken,
};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

/// What the machine knows of a place.
#[derive(Clone, Copy, Default)]
struct AtPlace {
    frame: FrameNumber,
    accessed: bool,
    wakes: u32,
    pins: u32,
}

/// Looks at entries of the engine.
pub trait Looker {
    /// The entry of a page, without a lock.
    fn entry(&self, place: Place) -> Entry;

    /// What a VMO sees as its page, with a lock. `None`: there is no such page.
    fn seen(&self, vmo: VmoId, page: u64) -> Option<Entry>;
}

/// The machine.
pub struct Kernel {
    places: RefCell<BTreeMap<Place, AtPlace>>,
    /// What programs have mapped.
    pub mappings: Mappings,
    /// Page frames.
    pub ram: Ram,
    /// How many frames of any kind there may be.
    pub limit: Rc<Limit>,
    /// Frames of storage.
    pub frames: StorageFrames,
    /// Staging slots.
    pub staging: Staging,
    /// Slots whose reserved frame was not used yet.
    reserved: Vec<Cell<bool>>,
    /// What user pagers are asked for.
    pub requests: Requests,
    /// Memory for tables.
    pub chunks: Chunks,
    /// The clock.
    pub clock: Clock,
    /// Accessed bits that the processor has not written yet.
    late_bits: RefCell<Vec<Place>>,
    /// Pages to be woken once more, later.
    pub second_wakes: RefCell<Vec<Place>>,
    /// Whether bits of stored objects are flipped; and how many were.
    pub damages: bool,
    flips: Cell<u64>,
    links: Cell<usize>,
    /// The engine's entries.
    pub looker: OnceCell<&'static dyn Looker>,
    /// What is wrong with the machine on purpose.
    pub sabotage: KernelSabotage,
}

// SAFETY: a simulation is one thread of the system; nothing of it is given to another.
unsafe impl Sync for Kernel {}

const PAGE_KEY: u64 = 1 << 63;

pub(super) fn key_of((segment, index): Place) -> u64 {
    PAGE_KEY | u64::from(segment) << 32 | u64::from(index)
}

impl Kernel {
    /// A machine with so many frames at most.
    pub fn new(
        limit: Rc<Limit>,
        (pages, storage): (usize, StorageFrames),
        chunks: Chunks,
        clock: Clock,
        damages: bool,
        sabotage: KernelSabotage,
    ) -> Self {
        let staging = Staging::new();
        Self {
            places: RefCell::default(),
            mappings: Mappings::new(),
            ram: Ram::new(pages),
            limit,
            frames: storage,
            reserved: (0..staging.slots()).map(|_| Cell::new(false)).collect(),
            staging,
            requests: Requests::default(),
            chunks,
            clock,
            late_bits: RefCell::default(),
            second_wakes: RefCell::default(),
            damages,
            flips: Cell::new(0),
            links: Cell::new(0),
            looker: OnceCell::new(),
            sabotage,
        }
    }

    fn at(&self, place: Place) -> AtPlace {
        self.places
            .borrow()
            .get(&place)
            .copied()
            .unwrap_or_default()
    }

    fn set(&self, place: Place, act: impl FnOnce(&mut AtPlace)) {
        act(self.places.borrow_mut().entry(place).or_default());
    }

    /// The frame in place; there is one.
    pub(super) fn frame(&self, place: Place) -> FrameNumber {
        match self.at(place).frame {
            0 => fail(place, "there is no page"),
            frame => frame,
        }
    }

    /// Pages in place.
    pub fn pages_in_place(&self) -> usize {
        self.places
            .borrow()
            .values()
            .filter(|at| at.frame != 0)
            .count()
    }

    /// Bits flipped so far, and of these in links.
    pub fn damaged(&self) -> (u64, usize) {
        (self.flips.get(), self.links.get())
    }

    pub(super) fn assert_locked(&self, place: Place) {
        let held = SimLock::held().expect("all are checked").load(Relaxed);
        if cfg!(debug_assertions) && held >> rank::VMO & 1 == 0 {
            fail(place, "acted upon without its VMO's lock");
        }
    }

    /// Acts on what an address shows. `None`: it faults.
    pub fn access<R>(
        &self,
        address: Address,
        access: Access,
        act: impl FnOnce(&mut Page) -> R,
    ) -> Option<R> {
        let (place, writable) = self.mappings.get(address)?;
        if access == Access::Write && !writable {
            return None;
        }
        if fires(Kind::AccessedLate) {
            self.late_bits.borrow_mut().push(place)
        } else {
            self.set(place, |at| at.accessed = true)
        }
        Some(self.ram.with(self.frame(place), act))
    }

    /// The processor writes accessed bits that it owes.
    pub fn write_late_bits(&self) {
        for place in self.late_bits.take() {
            if self.at(place).frame != 0 {
                self.set(place, |at| at.accessed = true);
            }
        }
    }

    /// A frame of those that are left.
    pub(super) fn take_frame(&self) -> bool {
        if fires(Kind::InstallNoFrame) {
            return false;
        }
        let had = self.limit.take();
        if !had {
            note(Kind::InstallLimit);
        }
        had
    }

    /// Puts content in place; its frame was taken from the limit.
    pub(super) fn put(&self, place: Place, content: &Page) -> Installed {
        let frame = self.ram.allocate_with(content);
        self.put_frame(place, frame);
        Installed::Done
    }

    pub(super) fn put_frame(&self, place: Place, frame: FrameNumber) {
        if self.at(place).frame != 0 {
            fail(place, "M1: two frames at one place");
        }
        self.set(place, |at| at.frame = frame);
        self.wake_sleepers(place);
    }

    /// A page must stay where it is.
    pub fn pin(&self, place: Place) {
        self.frame(place);
        self.set(place, |at| at.pins += 1);
    }

    /// It need not any more.
    pub fn unpin(&self, place: Place) {
        self.frame(place);
        self.set(place, |at| at.pins -= 1);
    }

    pub(super) fn remove(&self, place: Place) -> FrameNumber {
        let frame = self.frame(place);
        if self.at(place).pins > 0 {
            fail(place, "it is pinned, and goes");
        }
        self.mappings.unmap(place);
        self.set(place, |at| {
            at.frame = 0;
            at.accessed = false;
        });
        frame
    }

    fn wake_sleepers(&self, place: Place) {
        if self.sabotage == KernelSabotage::NeverWakes {
            return;
        }
        self.set(place, |at| at.wakes += 1);
        if simulation().who_waits(key_of(place)) == 0 {
            return;
        }
        if fires(Kind::LostWake) {
            return;
        }
        if fires(Kind::DoubledWake) {
            self.second_wakes.borrow_mut().push(place);
        }
        schedule::wake(key_of(place));
    }

    /// How often who waits for a page was woken.
    pub(super) fn wakes_of(&self, place: Place) -> u32 {
        self.at(place).wakes
    }

    /// Wakes somebody who sleeps, for nothing.
    pub fn wake_for_nothing(&self) {
        let second = self.second_wakes.borrow_mut().pop();
        let place = second.or_else(|| {
            let places = self.places.borrow();
            let mut all = places.keys();
            all.find(|&&place| simulation().who_waits(key_of(place)) != 0)
                .copied()
        });
        if random().one_in(2) && self.requests.wake_for_nothing() {
            note(Kind::SpuriousWake);
        } else if let Some(place) = place {
            if second.is_none() {
                note(Kind::SpuriousWake);
            }
            schedule::wake(key_of(place));
        }
    }

    /// Flips a bit of something stored of the same segment, whose lock is held: so the entry that
    /// names it does.
    fn damage_something(&self, segment: SegmentId, near: PageIndex) {
        let Some(looker) = self.looker.get() else {
            return;
        };
        let start = near & !31;
        for index in start..start + 32 {
            if let Entry::Compressed(reference) = looker.entry((segment, index)) {
                self.flips.set(self.flips.get() + 1);
                if damage::flip(&self.frames, reference) {
                    self.links.set(self.links.get() + 1);
                }
                return;
            }
        }
    }
}

// SAFETY: fresh zeroed memory of the promised size and alignment, freed with the machine.
unsafe impl ChunkSource for Kernel {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.chunks.chunk()
    }
}

// SAFETY: pages change their place between two steps; staged frames are written in `release` only.
unsafe impl Host for Kernel {
    type RawLock = SimLock;
    type Frames = StorageFrames;
    type Stable<'a> = ();
    const PROTOCOL: Protocol = Protocol::UnderLock;
    const MAX_RUN: u32 = 1;

    fn stable(&self) {}

    fn frames(&self) -> &StorageFrames {
        &self.frames
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        let place = (segment, first);
        assert_eq!(wanted, 1, "one page at a time");
        step(What::Take, segment, first, slot.0.into());
        self.assert_locked(place);
        if self.damages && random().one_in(40) {
            self.damage_something(segment, first);
        }
        // A frame for who touches the page while it is compressed.
        if fires(Kind::TakeRefusedAtRandom) || !self.limit.take() {
            note(Kind::TakeRefused);
            return Taken {
                refused: 1,
                ..Taken::default()
            };
        }
        self.reserved[slot.0 as usize].set(true);
        let frame = match self.sabotage {
            KernelSabotage::TakeKeepsMappings => {
                let frame = self.frame(place);
                self.set(place, |at| at.frame = 0);
                frame
            }
            _ => self.remove(place),
        };
        self.staging.fill(slot, frame, place);
        Taken {
            moved: 1,
            ..Taken::default()
        }
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        let overwritten = self.sabotage == KernelSabotage::StagingOverwritten;
        self.staging.page(&self.ram, slot, overwritten)
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        step(What::Release, 0, 0, count as u32);
        for n in slot.0..slot.0 + count as u16 {
            let frame = self.staging.empty(StagingSlot(n));
            if frame != 0 {
                self.ram.free(frame);
                self.limit.give();
            }
            if self.reserved[n as usize].replace(false) {
                self.limit.give();
            }
        }
    }

    fn harvest_accessed(&self, segment: SegmentId, first: PageIndex, pages: u64) -> u64 {
        step(What::Harvest, segment, first, pages.count_ones());
        let mut accessed = 0;
        let mut places = self.places.borrow_mut();
        for (place, at) in places.range_mut((segment, first)..(segment, first + 64)) {
            let bit = 1 << (place.1 - first);
            if pages & bit != 0 && std::mem::take(&mut at.accessed) {
                accessed |= bit;
            }
        }
        accessed
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        step(What::Install, segment, index, 0);
        self.assert_locked((segment, index));
        if fires(Kind::InstallRefused) {
            self.flips.set(self.flips.get() + 1);
            return Installed::Refused;
        }
        if self.take_frame() {
            self.put((segment, index), content)
        } else {
            Installed::NoFrame
        }
    }

    fn install_copy(
        &self,
        segment: SegmentId,
        index: PageIndex,
        content: &Page,
        slot: StagingSlot,
    ) -> Installed {
        step(What::Install, segment, index, 1);
        self.assert_locked((segment, index));
        let reserved = self.reserved[slot.0 as usize].replace(false);
        assert!(reserved, "a copy comes after its slot was released");
        self.put((segment, index), content)
    }

    unsafe fn put_back(
        &self,
        segment: SegmentId,
        index: PageIndex,
        slot: StagingSlot,
    ) -> Installed {
        step(What::Install, segment, index, 2);
        self.assert_locked((segment, index));
        let frame = self.staging.empty(slot);
        assert!(frame != 0, "an empty slot is put back");
        self.put_frame((segment, index), frame);
        Installed::Done
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, access: Access) -> Installed {
        step(What::InstallZero, segment, index, access as u32);
        self.assert_locked((segment, index));
        if self.take_frame() {
            self.put((segment, index), &[0; 4096])
        } else {
            Installed::NoFrame
        }
    }

    fn wake(&self, segment: SegmentId, index: PageIndex) {
        step(What::Wake, segment, index, 0);
        self.wake_sleepers((segment, index));
    }

    fn poison(&self, segment: SegmentId, index: PageIndex, doubt: Doubt) -> Installed {
        step(What::Poison, segment, index, doubt as u32);
        if self.flips.get() == 0 {
            fail((segment, index), "poisoned, and nothing was damaged");
        }
        note(Kind::Poisoned);
        self.wake_sleepers((segment, index));
        Installed::Done
    }

    fn let_changes_in(&self) {
        step(What::LetIn, 0, 0, 0);
        doze(20);
    }
}
