//! What the engine asks of the machine it runs on.

use crate::machine::lock::HeldRanks;
use crate::machine::protocol::Protocol;
use crate::{PageIndex, SegmentId};
use coldpress_arena::{ChunkSource, Zeroable};
use coldpress_codec::Page;
use coldpress_storage::FrameSource;
use lock_api::RawMutex;

/// One of the pages that the compressor owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingSlot(pub u16);

/// What a touch does with the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads the page.
    Read,
    /// It writes the page, or is about to.
    Write,
}

/// What became of pages that were to be taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bit n: page `first + n` is now in slot `slot + n`, and missing in its place.
    pub moved: u64,
    /// Bit n: the page cannot be taken now (pinned, shared, unmovable); try it much later.
    pub refused: u64,
    /// Bit n: there was no page; nothing is remembered there.
    pub holes: u64,
}

/// What became of a page that was to be put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The content is in place; who waited for it is awake.
    Done,
    /// A page was in place already; who waited is awake.
    AlreadyPresent,
    /// The address space is changing: leave the stable section, let the change be delivered,
    /// look at the page list again.
    Changing,
    /// There is no such memory any more.
    Gone,
    /// There is no frame for it now. What is remembered stays as it is; the toucher waits for
    /// memory, or is told that there is none.
    NoFrame,
    /// The machine refused for a reason that it cannot name: whether there is such memory, and
    /// what a touch would find there, is in doubt. The engine poisons the page.
    Refused,
}

/// Why a page is poisoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// What is stored is not what was stored.
    Damaged,
    /// The machine refused to put the content in place ([`Installed::Refused`]).
    Refused,
}

/// A machine: memory, mappings, a clock.
///
/// # Safety
/// The implementation upholds what each method says; above all, [`take`](Host::take) moves
/// content without losing a concurrent write, and [`staging`](Host::staging) gives memory that
/// nothing else writes until [`release`](Host::release).
pub unsafe trait Host: ChunkSource + Sync {
    /// The host's lock. All-zero bytes are an unlocked one.
    type RawLock: RawMutex + HeldRanks + Zeroable + Send + Sync;

    /// Frames for compressed storage.
    type Frames: FrameSource;

    /// While it lives, no change of the address space is delivered to the engine
    /// (the methods of [`change`](crate::compression::change) are not called).
    type Stable<'a>
    where
        Self: 'a;

    /// How pages are taken and installed: with the lock of their VMO held, or in stable sections.
    const PROTOCOL: Protocol = Protocol::StableSections;

    /// The most pages that one run takes, at most [`LEAF_PAGES`](crate::LEAF_PAGES). A kernel
    /// takes one, and has one spare frame for each compressor.
    const MAX_RUN: u32 = crate::LEAF_PAGES;

    /// Opens a stable section. Many may be open at once. Short: faults may wait for its end.
    fn stable(&self) -> Self::Stable<'_>;

    /// Frames for compressed storage.
    fn frames(&self) -> &Self::Frames;

    /// A clock that never goes back, in nanoseconds.
    fn now_ns(&self) -> u64;

    /// Takes pages out of the program, at most 64 from `first`, those whose bit is set in
    /// `wanted` (its lowest bit is set), into the slots from `slot`. Pages between them whose
    /// bit is not set are missing; where one has come back in this moment it stays. Called in a stable section.
    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken;

    /// The page in a slot.
    ///
    /// # Safety
    /// The slot holds a page that was taken, and was not released since.
    unsafe fn staging(&self, slot: StagingSlot) -> &Page;

    /// A reclaimer is about to take the pages of a batch: it may go to where that disturbs least. It holds no lock, and is in
    /// no stable section.
    fn begin_taking(&self) {}

    /// It has taken them, and will compress. It holds no lock, and is in no stable section.
    fn end_taking(&self) {}

    /// Gives the memory of `count` slots from `slot` back. No stable section is open in the
    /// calling thread.
    fn release(&self, slot: StagingSlot, count: usize);

    /// Which of the pages in place from `first`, those whose bit is set in `pages`, were accessed
    /// since this was asked last. A machine without accessed bits says none. Called in a stable
    /// section, or with the lock of the VMO held: where the [`PROTOCOL`](Host::PROTOCOL) says so, and,
    /// where [`MAX_RUN`](Host::MAX_RUN) is 1, before the page is taken.
    fn harvest_accessed(&self, segment: SegmentId, first: PageIndex, pages: u64) -> u64 {
        let _ = (segment, first, pages);
        0
    }

    /// Puts `content` in place of a missing page and wakes who waits. In a stable section.
    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed;

    /// Puts `content` in place of missing neighbours from `index` on, in order, until one does not go. How many are in
    /// place: who waits for them is awake. Of the next one nothing is said: it is installed alone. In a stable section,
    /// by hosts that have such.
    fn install_run(&self, segment: SegmentId, index: PageIndex, content: &[Page]) -> u32 {
        let pages = (index..).zip(content);
        let done = |&(index, page): &(PageIndex, &Page)| {
            self.install(segment, index, page) == Installed::Done
        };
        pages.take_while(done).count() as u32
    }

    /// The same for a copy of the page in `slot`, which is being compressed. Never answers
    /// [`Installed::NoFrame`]: a host that can run out of frames has reserved one when it took the
    /// page (RFC-0219: "pre-allocated at the start of a compression run").
    fn install_copy(
        &self,
        segment: SegmentId,
        index: PageIndex,
        content: &Page,
        slot: StagingSlot,
    ) -> Installed {
        let _ = slot;
        self.install(segment, index, content)
    }

    /// Puts the page in `slot` itself back in place, or a copy of it. Never answers
    /// [`Installed::NoFrame`].
    ///
    /// # Safety
    /// As for [`staging`](Host::staging); the slot is not read any more afterwards.
    unsafe fn put_back(
        &self,
        segment: SegmentId,
        index: PageIndex,
        slot: StagingSlot,
    ) -> Installed {
        // SAFETY: as the caller promises.
        self.install(segment, index, unsafe { self.staging(slot) })
    }

    /// Puts a page of zeros in place of a missing page and wakes who waits; `access`: what the
    /// toucher is about to do. In a stable section.
    fn install_zero(&self, segment: SegmentId, index: PageIndex, access: Access) -> Installed;

    /// Lets the threads that wait for a page try again.
    fn wake(&self, segment: SegmentId, index: PageIndex);

    /// The content of this page is lost or in doubt: every touch of it shall raise an error,
    /// none may return bytes. In a stable section. Never answers [`Installed::Refused`]: where
    /// not even that can be had, the host stops whoever could touch the page.
    fn poison(&self, segment: SegmentId, index: PageIndex, doubt: Doubt) -> Installed;

    /// Whether compressed pages may be written to a place below memory, in this moment.
    fn writes_back(&self) -> bool {
        false
    }

    /// Takes the payload of a page to a place below memory, for `owner`. The number of the record, by which it is
    /// [read back](Host::read_back); `None`: it is not taken. May wait for a device: no lock is held. One thread at a
    /// time.
    fn write_back(&self, owner: u64, payload: &[u8]) -> Option<u32> {
        let _ = (owner, payload);
        None
    }

    /// Reads a record back, as often as it is wanted. Its length; `None`: it cannot be read. May wait for a device: no
    /// lock is held but by a host that keeps stable sections closed (see [`fork`](crate::compression::fork)).
    fn read_back(&self, record: u32, owner: u64, into: &mut Page) -> Option<usize> {
        let _ = (record, owner, into);
        None
    }

    /// A record is not needed any more. The lock of a VMO may be held.
    fn give_up_record(&self, record: u32, owner: u64) {
        let _ = (record, owner);
    }

    /// The address space is changing and the worker cannot go on before the change is
    /// delivered: deliver what is pending or wait a little. No stable section is open in the
    /// calling thread.
    fn let_changes_in(&self);
}
