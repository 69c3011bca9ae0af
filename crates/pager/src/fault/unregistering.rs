//! Memory that holds nothing of ours costs nothing: it is unregistered again.
//!
//! A page of registered memory that the program has dropped comes to a handler when it is touched again, which takes some
//! 10 µs; the kernel alone gives it a page in a fraction of one. So where first touches come to a handler again and again
//! ([`hysteresis`](crate::space::hysteresis)), it unregisters the memory around, after it has answered: those neighbours
//! of the page, within its 2 MiB, of which nothing is away. It is registered again when pages of it are taken that are
//! really there (`paging`).
//!
//! | what could go wrong | why it does not |
//! |---|---|
//! | something is away in unregistered memory, and reads as zeros | U1, U2 |
//! | a thread waits there | the kernel wakes it, and it faults again; what a handler has read already is answered `ENOENT`, and a wake |
//! | a change was told of and not read | nothing is done; of one that comes meanwhile see U3 |
//! | `madvise`, whose event came a moment before, stops where its mapping is split (before Linux 6.17) | there nothing is unregistered |
//! | a fork | U4 |
//! | a raw clone | `MADV_DONTFORK` is taken back behind the end of registration, and set before anything is taken |
//!
//! * U1: it is done with the gate closed, so nothing is being moved out, and no worker puts anything in place.
//! * U2: the engine says, under each list's lock, that nothing of it is away, on its way out or back, or poisoned. Pages
//!   that are remembered as zeros are forgotten: the kernel gives zeros.
//! * U3: an event that arose before and is read later finds memory that is not registered any more: what it tells is
//!   true all the same (`Window::is_dropping`, which is no matter of registration).
//! * U4: `registering` is held, so no fork is prepared, no memory is moved by a wrapper, and nothing is registered.
//! * U5: memory that is about to be dropped is left as it is, until it was seen missing.
//!
//! Close to the budget fresh memory shall be held back (`fence`): no more is unregistered at once than a sixteenth of the
//! room that is left, which counts as filled until memory is measured again; where less than a MiB is left, nothing.
//!
//! Ending the registration of a part splits a mapping: what does is counted, and where there are many mappings only whole
//! windows are unregistered, or nothing (`mapping_count`).

use crate::Pager;
use crate::machine::os::{Os, Userfaults};
use crate::settings::watermarks::Watermarks;
use crate::space::mapping_count::Width;
use coldpress_engine::{Entry, LEAF_PAGES, PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// As far as is looked for neighbours.
const BLOCK_PAGES: u32 = 512;
/// Fewer pages are not worth two mappings more.
const LEAST_PAGES: u32 = 16;
/// At most one of so many parts of the room below the budget at once.
const ROOM_PARTS: u64 = 16;

impl<O: Os> Pager<O> {
    /// A first touch of a page was answered with zeros, by a handler: now and then the memory around is unregistered, if
    /// nothing of it is away.
    pub(crate) fn note_zero_fault(&self, (segment, index): (SegmentId, PageIndex)) {
        let most = self.most_at_once();
        let hysteresis = self.host.windows.get(segment).hysteresis(index);
        if most >= LEAST_PAGES && hysteresis.note_zero_fault() {
            hysteresis.tried(self.unregister_around(segment, index, most));
        }
    }

    /// How many pages may come to life without a handler's being asked, in view of the budget.
    fn most_at_once(&self) -> u32 {
        let high = Watermarks::in_force(&self.config()).high;
        let room = high.saturating_sub(self.pressure.estimate()) / PAGE_SIZE as u64;
        (room / ROOM_PARTS).min(BLOCK_PAGES.into()) as u32
    }

    /// Whether anything was unregistered.
    fn unregister_around(&self, segment: SegmentId, index: PageIndex, most: u32) -> bool {
        if !self.madvise_outlasts_splits.load(Relaxed) {
            return false;
        }
        let Some(_registering) = self.registering.try_lock() else {
            return false;
        };
        let _closed = self.host.gate.close();
        let Some(uffd) = self.host.uffd.get() else {
            return false;
        };
        if uffd.is_registered(self.host.memory.staging()) != Ok(true) {
            return false;
        }
        let first = index - index % BLOCK_PAGES;
        let (block, least) = match self.discovery.count.width() {
            Width::Chunk => (first..first + BLOCK_PAGES, LEAST_PAGES),
            Width::Window if most == BLOCK_PAGES => (0..SEGMENT_PAGES, LEAF_PAGES),
            _ => return false,
        };
        let is_whole = block.end - block.start == SEGMENT_PAGES;
        let mut run = self.independent_run(segment, index, &block);
        if !is_whole && run.end - run.start > most {
            // What comes behind the page is likelier to be touched than what comes before it.
            let start = run.start.max(index.saturating_sub(most / 8));
            run = start..run.end.min(start + most);
        }
        if run.end - run.start < least {
            return false;
        }
        let window = self.host.windows.get(segment);
        let beside = |index: u32| index < SEGMENT_PAGES && window.is_registered(index);
        if beside(run.start.wrapping_sub(1)) || beside(run.end) {
            if is_whole {
                return false;
            }
            self.discovery.count.note_registration();
        }
        self.unregister_run(segment, run);
        true
    }

    /// The pages around `index`, within `block`, that are registered and of which nothing is away. With the gate closed.
    fn independent_run(
        &self,
        segment: SegmentId,
        index: PageIndex,
        block: &Range<u32>,
    ) -> Range<u32> {
        let chunk = index - index % LEAF_PAGES;
        let at = index % LEAF_PAGES;
        let around = self.independent_in_chunk(segment, chunk);
        if around & 1 << at == 0 {
            return index..index;
        }
        let before = (around << (LEAF_PAGES - 1 - at)).leading_ones();
        let (mut start, mut end) = (index + 1 - before, index + (around >> at).trailing_ones());
        while start > block.start && start % LEAF_PAGES == 0 {
            let pages = self.independent_in_chunk(segment, start - LEAF_PAGES);
            match pages.leading_ones() {
                0 => break,
                pages => start -= pages,
            }
        }
        while end < block.end && end % LEAF_PAGES == 0 {
            match self.independent_in_chunk(segment, end).trailing_ones() {
                0 => break,
                pages => end += pages,
            }
        }
        start..end
    }

    /// Which pages of a chunk are registered, and none of them away or about to be dropped.
    fn independent_in_chunk(&self, segment: SegmentId, chunk: PageIndex) -> u64 {
        let window = self.host.windows.get(segment);
        let mut registered = window.registered_in_chunk(chunk);
        let range = AddressRange::new(window.address(chunk), LEAF_PAGES as usize * PAGE_SIZE);
        // Not all that is registered is known as such: what a mapping grows by, for one.
        let uffd = self.host.uffd.get();
        if registered != !0 && uffd.is_some_and(|uffd| uffd.is_registered(range) == Ok(true)) {
            registered = !0;
        }
        if registered == 0 {
            return 0;
        }
        self.host.see_missing(segment, chunk, chunk + LEAF_PAGES);
        registered & !self.engine.depend_on_us(segment, chunk) & !window.dropping_in_chunk(chunk)
    }

    /// Unregisters pages that nothing is remembered of but what is in place. With the gate closed, and `registering` held.
    fn unregister_run(&self, segment: SegmentId, run: Range<u32>) {
        let window = self.host.windows.get(segment);
        let range = AddressRange {
            start: window.address(run.start),
            end: window.address(run.start) + (run.end - run.start) as usize * PAGE_SIZE,
        };
        let mut fresh = 0;
        for index in run.clone() {
            match self.engine.entry(segment, index) {
                // A page that is being restored was zeros when it was looked at: nothing else could be here.
                Entry::Zero | Entry::Request(_) => {
                    self.engine.decommit(self, segment, index, index + 1);
                }
                Entry::Empty => {}
                _ => continue,
            }
            fresh += 1;
        }
        // As if they were there: until it is measured again nobody sees them come.
        self.pressure.restored.fetch_add(fresh, Relaxed);
        let uffd = self.host.uffd.get();
        // SAFETY: U1, U2.
        let is_refused = uffd.is_some_and(|uffd| unsafe { uffd.unregister(range) }.is_err());
        window.clear_registered(run.start, run.end);
        if is_refused {
            // Some of it may be unregistered all the same. Nothing is taken of what is registered without being known as
            // such; the other way round it would be lost.
            self.host.leave_unproven(window, run.start, run.end);
        }
        self.host.inherit_range(range);
        for chunk in (run.start..run.end).step_by(LEAF_PAGES as usize) {
            window.hysteresis(chunk).unregistered();
        }
        let s = self.host.statistics();
        s.unregistrations.fetch_add(1, Relaxed);
        s.unregistered_pages
            .fetch_add(u64::from(run.end - run.start), Relaxed);
    }
}
