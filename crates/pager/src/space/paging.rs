//! Linux as the engine's host: pages leave by `UFFDIO_MOVE` and come back by `UFFDIO_COPY`.
//!
//! # Why the gate
//!
//! The kernel tells of `munmap`, `mremap` and `madvise` by events, and lets the caller go on as
//! soon as the event was *read*. From then on the memory may be something else, although nobody
//! has acted on the event yet. Therefore reading a message, and acting on it when it is an event,
//! happens with the [gate](crate::machine::futex::Gate) closed; whatever relies on the page lists being
//! in step with the kernel (moving pages out, copying pages in) happens inside the gate. While
//! someone is inside, an event can only be unread, and the kernel answers `EAGAIN` to every move
//! and copy on a userfaultfd with an unread event. Staging is registered with the *same*
//! userfaultfd as the program's memory for this reason: a move asks the destination's
//! userfaultfd only.
//!
//! # Why the pager is the host
//!
//! [`Space`] is the machine, and knows nothing of the engine. What the engine is handed as its host is the [`Pager`],
//! which has both: memory is registered in the middle of `take`, and the engine has to track what is populated there;
//! and while the engine waits for the machine to change (`let_changes_in`) it is the engine that has to be told of the
//! change. So neither keeps a way to the other.
//!
//! Invariants:
//! * I1 A page is moved out only if it is tracked, lies in a registered range, and one is inside
//!   the gate.
//! * I2 A page that the program has dropped, but whose memory the kernel has not zapped yet, is never moved out: it is
//!   not tracked before it was seen missing (`Window::is_dropping`). Pages of a registered range are tracked only if they
//!   were there when it was registered or were put there by us.
//! * I3 Staging is unregistered while it is dropped, so that no event arises from our own call. Otherwise it is registered
//!   as the destination of moves, not for missing pages: nobody waits for what is missing there.
//! * I4 Only memory that a probe has told to be registered is marked (`MADV_DONTFORK`), and a probe behind the mark tells
//!   the same, or the memory is *unproven* until one does (`unproven.rs`).

use crate::Pager;
use crate::machine::fault_trace;
use crate::machine::futex::{FutexLock, Gate, Inside};
use crate::machine::late::Late;
use crate::machine::linux::Linux;
use crate::machine::os::{self, Os, PopulatedPages, Userfaults};
use crate::memory::own::Memory;
use crate::space::exclusions::{ARENA_BYTES, Exclusions};
use crate::space::mapping_count::Width;
use crate::space::not_inherited::NotInherited;
use crate::space::shared::Refused;
use crate::space::windows::{WINDOW_BYTES, Windows};
use coldpress_arena::ChunkSource;
use coldpress_codec::Page;
use coldpress_engine::{
    Access, Doubt, Growth, Host, Installed, LEAF_PAGES, PageIndex, SegmentId, StagingSlot, Taken,
};
use coldpress_interface::statistics::{Failure, Statistics};
use coldpress_uffd::{AddressRange, Errno, PAGE_SIZE, Region};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};

/// This machine and process.
pub struct Space<O: Os = Linux> {
    /// The pager's own memory.
    pub memory: Memory<O>,
    /// From address to segment.
    pub windows: Windows,
    /// Keeps events apart from what relies on there being none.
    pub gate: Gate<O>,
    /// The program's ranges and staging are registered with it.
    pub uffd: Late<O::Userfaultfd>,
    /// Which pages are populated.
    pub pagemap: Late<O::Pagemap>,
    /// The memory groups, where their limits bound the program. Their descriptors are in the table of the pager's threads.
    pub groups: Late<O::MemoryGroups>,
    /// What is never evicted.
    pub exclusions: Exclusions<O>,
    /// What the program keeps from its children itself.
    pub not_inherited: NotInherited<O>,
    /// It is told of every fork (`fork::unannounced`): nothing has to be kept from children.
    pub hears_of_forks: AtomicBool,
    /// Some page is `unproven` (`windows`).
    pub(crate) left_unproven: AtomicBool,
    /// Memory has moved, and what lay where it came to may be told of later.
    pub(crate) has_arrivals: AtomicBool,
    /// Staging is registered: from the first registration of memory of the program on.
    pub(crate) staging_is_registered: AtomicBool,
    /// A touch of what is missing in staging waits for a handler: the kernel cannot register it otherwise.
    staging_waits: AtomicBool,
    /// Pages in staging now.
    pub staged_pages: AtomicU64,
    /// What the kernel refused to move in the batch under way.
    pub(crate) refused: Refused,
    statistics: AtomicPtr<Statistics>,
    /// Where it goes while there is no page.
    no_statistics: Statistics,
}

static ZERO_PAGE: Page = [0; PAGE_SIZE];

impl<O: Os> Space<O> {
    /// A host that has not started.
    pub const fn new() -> Self {
        Self {
            memory: Memory::new(),
            windows: Windows::new(),
            gate: Gate::new(),
            uffd: Late::new(),
            pagemap: Late::new(),
            groups: Late::new(),
            exclusions: Exclusions::new(),
            not_inherited: NotInherited::new(),
            hears_of_forks: AtomicBool::new(false),
            left_unproven: AtomicBool::new(false),
            has_arrivals: AtomicBool::new(false),
            staging_is_registered: AtomicBool::new(false),
            staging_waits: AtomicBool::new(false),
            staged_pages: AtomicU64::new(0),
            refused: Refused::new(),
            statistics: AtomicPtr::new(core::ptr::null_mut()),
            no_statistics: Statistics::new(),
        }
    }

    /// The statistics page.
    pub fn statistics(&self) -> &Statistics {
        let page = self.statistics.load(Relaxed);
        // SAFETY: null, or a mapping that stays (see `set_statistics`).
        unsafe { page.as_ref() }.unwrap_or(&self.no_statistics)
    }

    /// Sets the statistics page.
    ///
    /// # Safety
    /// It is valid and stays mapped.
    pub unsafe fn set_statistics(&self, page: *mut Statistics) {
        self.statistics.store(page, Relaxed);
    }

    /// Segment and index of the page of an address, if there is a window.
    pub fn place_of(&self, address: usize) -> Option<(SegmentId, PageIndex)> {
        let segment = self.windows.find(&self.memory, address)?;
        Some((segment, self.windows.get(segment).index_of(address)))
    }

    /// Lets the threads that wait anywhere in `range` try again.
    pub(crate) fn wake_range(&self, range: AddressRange) {
        // There is none yet where the child of a fork carries its parent's journal out.
        if let Some(uffd) = self.uffd.get() {
            let _ = uffd.wake(range);
        }
    }

    pub(crate) fn uffd(&self) -> &O::Userfaultfd {
        self.uffd.get().expect("the engine runs after the start")
    }

    fn page_at(&self, segment: SegmentId, index: PageIndex) -> AddressRange {
        AddressRange::new(self.windows.get(segment).address(index), PAGE_SIZE)
    }

    fn slot(&self, slot: StagingSlot) -> usize {
        self.memory.staging().start + slot.0 as usize * PAGE_SIZE
    }

    fn installed(&self, result: Result<usize, Errno>, at: AddressRange) -> Installed {
        let installed = match outcome(result) {
            Installed::Gone if self.is_changing() => Installed::Changing,
            installed => installed,
        };
        match (installed, result) {
            (Installed::AlreadyPresent, _) => {
                let _ = self.uffd().wake(at);
            }
            (Installed::Refused, Err(errno)) => crate::machine::message::say(format_args!(
                "page {:#x} cannot be put in place: error {}",
                at.start,
                errno.raw_os_error()
            )),
            _ => {}
        }
        installed
    }

    /// Whether a change of the address space waits to be read. Inside the gate, where none is read
    /// meanwhile: asked after `ENOENT`, which the kernel answers also for memory that `mremap` moved away
    /// while the call waited for its mapping. Then it is not gone, but somewhere else.
    pub(crate) fn is_changing(&self) -> bool {
        self.uffd().is_registered(self.memory.staging()) == Err(Errno::AGAIN)
    }

    /// Marks a page so that every touch of it raises SIGBUS. Where the kernel refuses even that
    /// for a reason that we do not know, the program ends rather than read what it never wrote.
    pub(crate) fn poison_page(&self, at: AddressRange) -> Installed {
        match self.installed(self.uffd().poison(at), at) {
            Installed::Refused => {
                crate::machine::message::say(format_args!(
                    "page {:#x} is in doubt and cannot be poisoned; the program ends here",
                    at.start
                ));
                O::abort()
            }
            installed => installed,
        }
    }

    /// Counts a poisoned page, and tells the person.
    pub(crate) fn tell_of_doubt(&self, at: AddressRange, doubt: Doubt) {
        let (failure, why) = match doubt {
            Doubt::Damaged => (Failure::Corrupt, "its stored content fails its checksum"),
            Doubt::Refused => (
                Failure::InstallRefused,
                "the kernel refused to put it in place",
            ),
        };
        self.statistics().fail(failure);
        crate::machine::message::say(format_args!(
            "page {:#x}: {why}; it is poisoned (a touch raises SIGBUS)",
            at.start
        ));
    }

    /// Which of the `count` slots from `slot` hold a page.
    fn filled_slots(&self, slot: StagingSlot, count: usize) -> u64 {
        let range = AddressRange::new(self.slot(slot), count * PAGE_SIZE);
        let mut filled = 0;
        let note = |address: usize| filled |= 1 << ((address - range.start) / PAGE_SIZE);
        if self.for_each_populated(range, || (), note) {
            filled
        } else {
            O::resident(range)
        }
    }

    /// Which of `pages`, counted from `start`, are not there: the page map knows of pages that are swapped out, the other look
    /// of the page of zeros.
    fn absent_among(&self, start: usize, pages: u64) -> u64 {
        if pages == 0 {
            return 0;
        }
        let run = AddressRange::new(start, LEAF_PAGES as usize * PAGE_SIZE);
        let missing = pages & !self.populated_among(run);
        missing & !self.resident_of(start, missing)
    }

    /// Writes to each of these pages in staging, counted from `slot`, as it is. The kernel may drop a page that the program
    /// gave up by `MADV_FREE` before it was registered, until something is written to it: it shall not vanish while it is
    /// compressed. One that has vanished by now reads zeros, as the program may expect.
    fn settle(&self, slot: StagingSlot, mut pages: u64) {
        if self.staging_waits.load(Relaxed) {
            return;
        }
        while pages != 0 {
            let at = self.slot(slot) + pages.trailing_zeros() as usize * PAGE_SIZE;
            // SAFETY: a page of staging, which only this thread uses until an entry names it. Where it is missing the
            // kernel fills it, and nobody waits (`register_as_destination`).
            let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
            let mut seen = word.load(Relaxed);
            while let Err(now) = word.compare_exchange(seen, seen, Relaxed, Relaxed) {
                seen = now;
            }
            pages &= pages - 1;
        }
    }

    /// Calls `with` for each populated page of `range`, in the order of their addresses. A guard
    /// from `around` is held over each look at the page map and the calls it leads to.
    /// `false`: the kernel refused to tell of all.
    pub(crate) fn for_each_populated<G>(
        &self,
        range: AddressRange,
        around: impl Fn() -> G,
        mut with: impl FnMut(usize),
    ) -> bool {
        let Some(pagemap) = self.pagemap.get() else {
            // In the young child of a fork, which has not opened it yet.
            for start in (range.start..range.end).step_by(64 * PAGE_SIZE) {
                let _around = around();
                let end = range.end.min(start + 64 * PAGE_SIZE);
                let mut resident = O::resident(AddressRange { start, end });
                while resident != 0 {
                    with(start + resident.trailing_zeros() as usize * PAGE_SIZE);
                    resident &= resident - 1;
                }
            }
            return true;
        };
        let mut regions = [Region::default(); LEAF_PAGES as usize];
        let mut rest = range;
        while !rest.is_empty() {
            let _around = around();
            let Ok((found, walked)) = pagemap.populated(rest, &mut regions) else {
                return false;
            };
            for region in &regions[..found] {
                for address in (region.start as usize..region.end as usize).step_by(PAGE_SIZE) {
                    with(address);
                }
            }
            if walked <= rest.start {
                return false;
            }
            rest.start = walked;
        }
        true
    }

    /// Registers staging, if that has not happened yet: pages are moved there. As long as nothing of the program's is
    /// registered it is not, so that no fork has to be told of.
    ///
    /// # Errors
    /// Those of the call.
    pub(crate) fn register_staging(&self) -> Result<(), Errno> {
        if !self.staging_is_registered.load(Relaxed) {
            self.register_staging_with(self.uffd())?;
            self.staging_is_registered.store(true, Relaxed);
        }
        Ok(())
    }

    /// Registers staging as the destination of moves. Where the kernel can register it for missing pages only, it is.
    pub(crate) fn register_staging_with(&self, uffd: &O::Userfaultfd) -> Result<(), Errno> {
        let staging = self.memory.staging();
        // SAFETY: memory of ours, where nothing is missing that is read; nothing is write-protected.
        unsafe {
            match uffd.register_as_destination(staging) {
                Err(Errno::INVAL) => {
                    self.staging_waits.store(true, Relaxed);
                    uffd.register(staging)
                }
                done => done,
            }
        }
    }

    /// Which of the 64 pages at most of a range hold something, as far as the kernel tells.
    pub(crate) fn populated_among(&self, range: AddressRange) -> u64 {
        let mut populated = 0;
        let note = |address: usize| populated |= 1 << ((address - range.start) / PAGE_SIZE);
        if self.for_each_populated(range, || (), note) {
            populated
        } else {
            !0
        }
    }

    /// Which of `pages`, counted from `start`, are resident. Behind a hole the kernel tells of none at once.
    fn resident_of(&self, start: usize, pages: u64) -> u64 {
        let chunk = AddressRange::new(start, LEAF_PAGES as usize * PAGE_SIZE);
        O::resident_if_mapped(chunk).unwrap_or_else(|_| {
            let of = |n: &u32| pages & 1 << n != 0;
            let is_resident = |n: &u32| O::is_resident(start + *n as usize * PAGE_SIZE);
            let resident = (0..LEAF_PAGES).filter(of).filter(is_resident);
            resident.fold(0, |all, n| all | 1 << n)
        })
    }

    /// Looks which of the pages that were about to be dropped are missing by now, in the chunks of pages `first..end` of a
    /// window. Inside the gate, or with the gate closed.
    pub(crate) fn see_missing(&self, segment: SegmentId, first: PageIndex, end: PageIndex) {
        let window = self.windows.get(segment);
        for chunk in (first - first % LEAF_PAGES..end).step_by(LEAF_PAGES as usize) {
            let dropping = window.dropping_in_chunk(chunk);
            if dropping == 0 {
                continue;
            }
            // The page of zeros may be written to before it is dropped.
            let mut missing = self.absent_among(window.address(chunk), dropping);
            while missing != 0 {
                let index = chunk + missing.trailing_zeros();
                window.clear_dropping(index, index + 1);
                missing &= missing - 1;
            }
        }
    }

    /// Moves `pages` neighbours, each of which holds something as far as is known, and tells what became of
    /// each. Inside the gate.
    fn move_run(&self, source: usize, destination: usize, pages: u32) -> MovedRun {
        let statistics = self.statistics();
        let len = pages as usize * PAGE_SIZE;
        let mut run = MovedRun::default();
        let (mut done, mut again) = (0, 0);
        while done < len {
            // SAFETY: I1; the content is given back by the fault handlers.
            let moved = unsafe {
                self.uffd()
                    .move_pages(destination + done, source + done, len - done)
            };
            for n in done / PAGE_SIZE..(done + moved.bytes) / PAGE_SIZE {
                run.reached |= 1 << n;
            }
            done += moved.bytes;
            let bit = 1u64 << ((done / PAGE_SIZE) & 63);
            match moved.stopped {
                None => break,
                Some(Errno::AGAIN) if moved.bytes > 0 => continue,
                Some(errno @ (Errno::AGAIN | Errno::NOENT))
                    if errno == Errno::AGAIN || self.is_changing() =>
                {
                    statistics.fail(Failure::MoveAgain);
                    again += 1;
                    if again > 2 {
                        run.gave_up = true;
                        break;
                    }
                    continue;
                }
                Some(Errno::BUSY) => {
                    statistics.fail(Failure::MoveBusy);
                    run.busy |= bit;
                }
                Some(Errno::NOENT) => run.holes |= bit,
                Some(Errno::INVAL) => {
                    statistics.fail(Failure::MoveInvalid);
                    run.refused |= bit;
                }
                // `EEXIST` among them: the kernel has moved the page and told nothing of it (`take` sees that), or the program
                // has populated all that is mapped, staging too.
                Some(_) => {
                    statistics.fail(Failure::MoveOther);
                    run.refused |= bit;
                }
            }
            done += PAGE_SIZE;
        }
        self.refused.note(source, run.busy);
        run.refused |= run.busy;
        run
    }

    /// A child made behind libc's back would read zeros where pages are away: it shall not have
    /// the memory, unless only the program decides that (`not_inherited`), or the kernel tells of every child.
    pub(crate) fn keep_from_raw_clones(&self, range: AddressRange) {
        if self.hears_of_forks.load(Relaxed) {
            return;
        }
        self.not_inherited.for_each_inherited(range, |r| {
            // SAFETY: no content changes.
            unsafe { O::madvise(r.start, r.len(), os::MADV_DONTFORK) };
        });
    }

    /// Keeps a range from raw clones if it is registered, and tells whether it is (I4).
    fn keep_if_registered(&self, range: AddressRange) -> Result<bool, Errno> {
        let registered = self.uffd().is_registered(range);
        if registered != Ok(true) || self.hears_of_forks.load(Relaxed) {
            return registered;
        }
        self.keep_from_raw_clones(range);
        // The program may have put other memory there before it was marked: then an event is unread.
        self.uffd().is_registered(range)
    }
}

impl<O: Os> Space<O> {
    /// Takes the mark back that keeps a range from children, unless the program itself has asked for it.
    pub(crate) fn inherit_range(&self, range: AddressRange) {
        self.not_inherited.for_each_inherited(range, |r| {
            // SAFETY: no content changes; the range is the program's and stays mapped, or the call fails.
            unsafe { O::madvise(r.start, r.len(), os::MADV_DOFORK) };
        });
    }
}

impl<O: Os> Default for Space<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O: Os> Pager<O> {
    /// Registers the managed memory around pages `first..end` of a window, and tracks what is
    /// populated there. Inside the gate.
    fn register(&self, segment: SegmentId, first: PageIndex, end: PageIndex) -> Result<(), Errno> {
        let window = self.host.windows.get(segment);
        let run = AddressRange {
            start: window.address(first),
            end: window.address(end),
        };
        let chunk_first = first - first % LEAF_PAGES;
        let chunk = AddressRange {
            start: window.address(chunk_first),
            end: window.address(chunk_first + LEAF_PAGES),
        };
        // The chunk's part of the mapping that the run lies in, as last read. Where there is none any more, what is
        // tracked is of memory that is gone, and what lies there now may be a thread's stack.
        let mapping = self.discovery.evictable_around(run).ok_or(Errno::INVAL)?;
        let count = &self.discovery.count;
        let whole_window = AddressRange::new(window.base(), WINDOW_BYTES);
        let width = count.width();
        let known = match width {
            Width::Chunk => mapping.intersect(chunk),
            Width::Window | Width::Mapping => mapping.intersect(whole_window),
        };
        let clear = self.host.exclusions.clear_of(known, run);
        if width == Width::Mapping && clear != mapping {
            return Err(Errno::NOMEM);
        }
        count.note_registration();
        self.register_in_window(segment, clear)
    }

    /// Registers the memory of a run of which some is not registered. Which of the `wanted` pages are to be moved; what
    /// becomes of the others `taken` says. Inside the gate.
    fn register_what_is_there(
        &self,
        segment: SegmentId,
        (first, count): (PageIndex, u32),
        taken: &mut Taken,
        wanted: u64,
    ) -> u64 {
        let window = self.host.windows.get(segment);
        // The program may have dropped what is not registered, and nobody was told: no reason to register it.
        let known = (0..count).filter(|&n| window.is_registered(first + n));
        let known = known.fold(0, |known, n| known | 1u64 << n);
        let run = AddressRange::new(window.address(first), count as usize * PAGE_SIZE);
        let rest = wanted & (self.host.populated_among(run) | known);
        taken.holes = wanted & !rest;
        let for_age = self.pressure.takes_for_age.load(Relaxed);
        if rest == 0 || for_age && window.hysteresis(first).refuses(rest.count_ones()) {
            return 0;
        }
        let (lowest, behind) = (rest.trailing_zeros(), 64 - rest.leading_zeros());
        match self.register(segment, first + lowest, first + behind) {
            Ok(()) => return rest,
            Err(Errno::AGAIN | Errno::NOENT) => {}
            Err(_) => {
                self.host.statistics().fail(Failure::RegisterRefused);
                taken.refused |= rest;
            }
        }
        0
    }

    /// Registers `range`, which lies in one window. Inside the gate.
    pub(crate) fn register_in_window(
        &self,
        segment: SegmentId,
        range: AddressRange,
    ) -> Result<(), Errno> {
        // Not while a thread is about to move memory that must not be split (`requests`).
        let Some(_registering) = self.registering.try_lock() else {
            return Err(Errno::AGAIN);
        };
        // Not while an event waits to be read: the memory may be another's already.
        self.host.uffd().is_registered(self.host.memory.staging())?;
        self.host.register_staging()?;
        // SAFETY: the handlers answer the faults; they touch none of the program's memory.
        unsafe { self.host.uffd().register(range)? };
        self.note_registered(segment, range)
    }

    /// Sets the registered bits of what really is registered of `range`, keeps that from raw clones, and tracks what is
    /// populated there. Registering accepts a range with holes (memory that the program has
    /// unmapped since its mappings were read), and what comes to lie in a hole is not registered:
    /// moving it out would lose it. `ENOENT`: there was a hole; `EAGAIN`: the kernel cannot tell.
    pub(crate) fn note_registered(
        &self,
        segment: SegmentId,
        range: AddressRange,
    ) -> Result<(), Errno> {
        let window = self.host.windows.get(segment);
        let (first, end) = (window.index_of(range.start), window.index_of(range.end));
        match self.host.keep_if_registered(range) {
            Ok(true) => {
                window.clear_unproven(first, end);
                self.note_fresh(segment, first, end);
                Ok(())
            }
            Ok(false) if range.len() > PAGE_SIZE => {
                let middle = range.start + (range.len() / 2).next_multiple_of(PAGE_SIZE);
                let (start, end) = (range.start, range.end);
                let lower = self.note_registered(segment, AddressRange { start, end: middle });
                let upper = self.note_registered(segment, AddressRange { start: middle, end });
                match (lower, upper) {
                    (Err(Errno::AGAIN), _) | (_, Err(Errno::AGAIN)) => Err(Errno::AGAIN),
                    _ => lower.and(upper),
                }
            }
            Ok(false) => {
                if window.is_registered(first) {
                    // The event that tells otherwise is not acted on yet.
                    self.host.leave_unproven(window, first, end);
                    return Err(Errno::AGAIN);
                }
                // What lies in a hole may have a mark from when that was not known. Nothing of it is away.
                self.host.inherit_range(range);
                window.clear_unproven(first, end);
                Err(Errno::NOENT)
            }
            Err(errno) => {
                self.host.leave_unproven(window, first, end);
                Err(errno)
            }
        }
    }

    /// Notes that pages are registered. What was registered before is tracked already.
    fn note_fresh(&self, segment: SegmentId, mut first: PageIndex, end: PageIndex) {
        let window = self.host.windows.get(segment);
        loop {
            let fresh = window.next_unregistered(first, end);
            if fresh == end {
                return;
            }
            first = window.next_registered(fresh, end);
            window.set_registered(fresh, first);
            let fresh = AddressRange {
                start: window.address(fresh),
                end: window.address(first),
            };
            self.track_registered(segment, fresh);
        }
    }

    /// Tracks every populated page of a range that was just registered. Inside the gate.
    fn track_registered(&self, segment: SegmentId, range: AddressRange) {
        let window = self.host.windows.get(segment);
        let (first, end) = (window.index_of(range.start), window.index_of(range.end));
        self.host.see_missing(segment, first, end);
        self.host.for_each_populated(
            range,
            || (),
            |address| {
                let index = window.index_of(address);
                if !window.is_dropping(index) {
                    self.engine
                        .track_known(self, segment, index, Growth::Allowed);
                }
            },
        );
    }
}

/// What the kernel's answer to `UFFDIO_COPY`, `ZEROPAGE` or `POISON` means. Only what is known to
/// mean that there is no such memory (any more) counts as that: `ENOENT`, no mapping registered
/// with us there; `ESRCH`, the process is ending. What is not known is a refusal.
pub(crate) fn outcome(result: Result<usize, Errno>) -> Installed {
    match result {
        Ok(_) => Installed::Done,
        Err(Errno::EXIST) => Installed::AlreadyPresent,
        Err(Errno::AGAIN | Errno::NOMEM) => Installed::Changing,
        Err(Errno::NOENT | Errno::SRCH) => Installed::Gone,
        Err(_) => Installed::Refused,
    }
}

/// What became of the pages of a run: bit n stands for its page n.
#[derive(Default)]
struct MovedRun {
    /// In its slot now, unless there was nothing but the page of zeros.
    reached: u64,
    holes: u64,
    refused: u64,
    /// Of these: pinned, or shared by a fork.
    busy: u64,
    /// The address space changes without end: what comes behind was not tried.
    gave_up: bool,
}

// SAFETY: see `Memory`.
unsafe impl<O: Os> ChunkSource for Pager<O> {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.host.memory.chunk()
    }
}

// SAFETY: `take` moves pages by UFFDIO_MOVE, which leaves no moment in which a write could go to
// a copy (tested in coldpress-uffd); staging memory is written by the kernel's moves only, and with what it holds.
unsafe impl<O: Os> Host for Pager<O> {
    type RawLock = FutexLock<O>;
    type Frames = Memory<O>;
    type Stable<'a> = Inside<'a, O>;

    fn stable(&self) -> Inside<'_, O> {
        if O::is_handler() {
            self.host.gate.enter()
        } else {
            self.host.gate.enter_in_turn()
        }
    }

    fn frames(&self) -> &Memory<O> {
        &self.host.memory
    }

    fn now_ns(&self) -> u64 {
        O::now_ns()
    }

    fn take(&self, segment: SegmentId, first: PageIndex, wanted: u64, slot: StagingSlot) -> Taken {
        let window = self.host.windows.get(segment);
        let count = 64 - wanted.leading_zeros();
        let mut taken = Taken::default();
        let run = AddressRange {
            start: window.address(first),
            end: window.address(first + count),
        };
        // A thread's stack, or something the program has told of, may have come to lie here.
        let excluded = self.host.exclusions.excluded_pages(run);
        taken.refused = wanted & excluded;
        let mut rest = wanted & !excluded;
        if rest != 0 && !window.are_registered(first, first + count) {
            // What is registered together overlaps no exclusion: what lies behind one waits for the next run.
            let at = rest.trailing_zeros();
            let behind = at + (excluded >> at).trailing_zeros();
            rest &= 1u64.checked_shl(behind).map_or(!0, |end| end - 1);
            rest = self.register_what_is_there(segment, (first, count), &mut taken, rest);
        }
        if rest & 1 != 0 && run.start.is_multiple_of(ARENA_BYTES) {
            // libc writes to the head of an arena in the child of a fork before any hook runs.
            taken.refused |= 1;
            rest &= !1;
        }
        let mut reached = 0;
        // One move for each stretch of neighbours: none passes over holes (see `Userfaultfd::move_pages`).
        while rest != 0 {
            let at = rest.trailing_zeros();
            let pages = (rest >> at).trailing_ones();
            let offset = at as usize * PAGE_SIZE;
            let moved =
                self.host
                    .move_run(run.start + offset, self.host.slot(slot) + offset, pages);
            reached |= moved.reached << at;
            taken.holes |= moved.holes << at;
            taken.refused |= moved.refused << at;
            if moved.gave_up {
                break;
            }
            rest &= rest.checked_add(1 << at).unwrap_or(0);
        }
        // What has only ever been read is the kernel's page of zeros: a hole in staging.
        let filled = self.host.filled_slots(slot, count as usize);
        // The kernel may tell nothing of what it has moved (ADR 0031), and the next call, which would meet it, be refused for
        // another reason first: a change that waits to be read, a protection that was changed meanwhile. What is not in its
        // place any more is in its slot: nobody else puts anything there, and what is claimed is put in place by nobody.
        let untold = wanted & filled & !reached;
        reached |= self.host.absent_among(run.start, untold);
        taken.moved = reached & filled;
        taken.refused &= !taken.moved;
        taken.holes = (taken.holes | reached & !filled) & !taken.moved;
        let slots = AddressRange::new(self.host.slot(slot), count as usize * PAGE_SIZE);
        // What is swapped out has no such mark, and would be read here, with the gate entered.
        self.host.settle(slot, taken.moved & O::resident(slots));
        self.host
            .staged_pages
            .fetch_add(u64::from(taken.moved.count_ones()), Relaxed);
        for n in 0..count {
            if taken.moved & 1 << n != 0 {
                window.count_eviction(first + n);
            }
        }
        taken
    }

    unsafe fn staging(&self, slot: StagingSlot) -> &Page {
        // SAFETY: the slot is filled, as the caller promises; the address is page-aligned memory
        // of ours that nothing writes any more (`settle`).
        unsafe { &*(self.host.slot(slot) as *const Page) }
    }

    fn begin_taking(&self) {
        let faults = self.host.statistics().faults.load(Relaxed);
        if let Some(processor) = self.duty.worth_a_visit(faults) {
            O::visit(processor);
        }
    }

    fn end_taking(&self) {
        O::end_visit();
    }

    fn release(&self, slot: StagingSlot, count: usize) {
        self.host.staged_pages.store(0, Relaxed);
        let staging = self.host.memory.staging();
        // SAFETY: I3: no slot is named by any entry (engine's compress I1); nobody touches
        // staging while it is not registered, and what is dropped is ours.
        unsafe {
            let _ = self.host.uffd().unregister(staging);
            self.host
                .memory
                .give_back(self.host.slot(slot), count * PAGE_SIZE);
            if self.host.register_staging_with(self.host.uffd()).is_err() {
                crate::machine::message::say(format_args!(
                    "staging could not be registered again; compression stops here"
                ));
            }
        }
    }

    fn install(&self, segment: SegmentId, index: PageIndex, content: &Page) -> Installed {
        let at = self.host.page_at(segment, index);
        let began_ns = fault_trace::now_ns();
        // SAFETY: a spare page or a filled slot, both readable and ours.
        let result = unsafe { self.host.uffd().copy(at.start, content.as_ptr(), PAGE_SIZE) };
        if began_ns != 0 {
            self.trace_copy(at.start, began_ns);
        }
        self.host.installed(result, at)
    }

    fn install_run(&self, segment: SegmentId, index: PageIndex, content: &[Page]) -> u32 {
        let start = self.host.windows.get(segment).address(index);
        let from = content.as_ptr().cast();
        // SAFETY: spare pages beside each other, readable and ours.
        let result = unsafe { self.host.uffd().copy(start, from, size_of_val(content)) };
        // Why it stopped is found out when the next page is installed alone.
        result.map_or(0, |done| (done / PAGE_SIZE) as u32)
    }

    fn install_zero(&self, segment: SegmentId, index: PageIndex, access: Access) -> Installed {
        let installed = if access == Access::Write {
            // A zero page mapping would fault once more on the write.
            self.install(segment, index, &ZERO_PAGE)
        } else {
            let at = self.host.page_at(segment, index);
            self.host.installed(self.host.uffd().zero(at), at)
        };
        if installed == Installed::Done {
            // It was missing.
            let window = self.host.windows.get(segment);
            window.clear_dropping(index, index + 1);
        }
        installed
    }

    fn wake(&self, segment: SegmentId, index: PageIndex) {
        let _ = self.host.uffd().wake(self.host.page_at(segment, index));
    }

    fn poison(&self, segment: SegmentId, index: PageIndex, doubt: Doubt) -> Installed {
        let at = self.host.page_at(segment, index);
        let installed = self.host.poison_page(at);
        if installed != Installed::Changing {
            self.host.tell_of_doubt(at, doubt);
        }
        installed
    }

    fn writes_back(&self) -> bool {
        self.tier.may_write()
    }

    fn write_back(&self, owner: u64, payload: &[u8]) -> Option<u32> {
        // SAFETY: only the reclaim thread compresses, recompresses and writes back.
        unsafe { self.tier.put(owner, payload) }
    }

    fn read_back(&self, record: u32, owner: u64, into: &mut Page) -> Option<usize> {
        self.tier.get(record, owner, into)
    }

    fn give_up_record(&self, record: u32, owner: u64) {
        self.tier.remove(record, owner);
    }

    fn let_changes_in(&self) {
        self.host.statistics().fail(Failure::CopyAgain);
        if O::is_handler() {
            self.read_changes();
        } else {
            O::sleep_ns(50_000);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Behind a hole `mincore` tells of nothing: a page that was about to be dropped was taken for missing, and tracked.
    #[test]
    fn resident_pages_behind_a_hole_are_seen() {
        static SPACE: Space<Linux> = Space::new();
        let len = LEAF_PAGES as usize * PAGE_SIZE;
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: fresh memory of the test's own, of which it unmaps one page and writes to another.
        let start = unsafe {
            let flags = rustix::mm::MapFlags::PRIVATE;
            let start = rustix::mm::mmap_anonymous(core::ptr::null_mut(), len, protection, flags);
            let start = start.expect("memory");
            rustix::mm::munmap(start.byte_add(3 * PAGE_SIZE), PAGE_SIZE).expect("a hole");
            start
                .byte_add(10 * PAGE_SIZE)
                .cast::<u8>()
                .write_volatile(1);
            start as usize
        };
        assert!(Linux::resident_if_mapped(AddressRange::new(start, len)).is_err());
        assert_eq!(SPACE.resident_of(start, 1 << 10 | 1 << 11), 1 << 10);
    }

    /// Every error that was not known counted as "there is no such memory": the content was
    /// forgotten, and the next touch found zeros.
    #[test]
    fn only_what_is_known_to_mean_gone_means_gone() {
        assert_eq!(outcome(Ok(PAGE_SIZE)), Installed::Done);
        for (errno, meaning) in [
            (Errno::EXIST, Installed::AlreadyPresent),
            (Errno::AGAIN, Installed::Changing),
            (Errno::NOMEM, Installed::Changing),
            (Errno::NOENT, Installed::Gone),
            (Errno::SRCH, Installed::Gone),
        ] {
            assert_eq!(outcome(Err(errno)), meaning, "{errno:?}");
        }
        let known = [
            Errno::EXIST,
            Errno::AGAIN,
            Errno::NOMEM,
            Errno::NOENT,
            Errno::SRCH,
        ];
        for raw in 1..134 {
            let errno = Errno::from_raw_os_error(raw);
            if !known.contains(&errno) {
                assert_eq!(outcome(Err(errno)), Installed::Refused, "{raw}");
            }
        }
    }
}
