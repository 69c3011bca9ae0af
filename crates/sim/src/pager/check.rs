//! What a child would have, and whether the pager and the kernel agree.

use super::World;
use super::kernel::{Fault, place};
use super::os::SimOs;
use super::space::{Content, State, pages};
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{note, simulation};
use coldpress_engine::{Content as Remembered, Entry};
use coldpress_pager::machine::os::SignalsBlocked;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use std::sync::atomic::Ordering::Relaxed;

impl World {
    /// Between the hooks of a fork, by the forking thread: the kernel copies at once, so nobody else goes on meanwhile.
    pub(super) fn look_at_what_a_child_has(&self) {
        // An event was read, and is not noted yet: a known gap (docs/limits.md).
        if self.pager.host.gate.is_closed() {
            return;
        }
        note(Kind::ForkLookedAt);
        for page in self.kernel.space.all() {
            let (left_out, asked, away) = self
                .kernel
                .space
                .with(page, |state| {
                    (state.not_inherited, state.kept_by_program, state.is_away())
                })
                .expect("one of all");
            if left_out != asked && !self.kernel.is_claimed(page) {
                let what = format!("left out of a child: {left_out}; asked for: {asked}");
                fail(place(page), &what);
            }
            if away && !self.kernel.is_claimed(page) {
                self.compare_what_is_remembered(page, "a child would read");
            }
        }
    }

    /// At a `clone` by an instruction of the program's own, of which the kernel tells nobody: what is away is kept from
    /// the child, and nothing else but what the program keeps. (But between the hooks of a fork; and whoever is inside the
    /// gate may be in the middle of registering memory, which is marked before the holes in it are known.)
    pub(super) fn look_at_what_an_untold_child_has(&self) {
        let (kernel, pager) = (&self.kernel, self.pager);
        let _signals = SignalsBlocked::<SimOs>::new();
        if kernel.file.forks.get() > 0 || pager.host.gate.is_closed() {
            return;
        }
        note(Kind::Untold);
        for page in kernel.space.all() {
            let state = kernel.space.with(page, |state| state.clone());
            let state = state.expect("one of all");
            // What the program kept, and replaced untold: a known gap (ADR 0003).
            if kernel.is_claimed(page) || self.is_remembered_as_kept(page) {
                continue;
            }
            if state.is_away() && self.is_away(page) && !state.not_inherited {
                fail(place(page), "away, and not kept from a child of a clone");
            }
            let is_settled = !pager.host.gate.is_entered() && !self.is_unproven(page);
            if is_settled && state.not_inherited && !state.registered && !state.kept_by_program {
                fail(place(page), "kept from a child of a clone for no reason");
            }
        }
    }

    /// A range that was mapped whole could not be moved. What the program keeps from children lies in a mapping of its own;
    /// but what the pager registers and marks must not split what natively is one.
    pub(super) fn look_why_it_is_split(&self, range: AddressRange) {
        let Some(page) = self.kernel.space.split_by_the_pager(range) else {
            return;
        };
        // The pager knew, and has asked in vain for a while: its reclaim thread, or other calls, were in the way.
        let first = self.is_known_as_registered(range.start);
        let knows = pages(range).any(|page| self.is_known_as_registered(page) != first);
        // What the program kept, and replaced untold: a known gap (ADR 0003).
        if !knows && !pages(range).any(|page| self.is_remembered_as_kept(page)) {
            let what =
                "an mremap of it and its neighbours is refused, for what the pager did to them";
            fail(place(page), what);
        }
    }

    fn is_known_as_registered(&self, page: usize) -> bool {
        let host = &self.pager.host;
        let place = host.place_of(page);
        place.is_some_and(|(segment, index)| host.windows.get(segment).is_registered(index))
    }

    /// Whether the pager is going to ask for a page what it could not be told.
    fn is_unproven(&self, page: usize) -> bool {
        let host = &self.pager.host;
        let place = host.place_of(page);
        place.is_some_and(|(segment, index)| host.windows.get(segment).is_unproven(index))
    }

    fn is_remembered_as_kept(&self, page: usize) -> bool {
        let mut is_kept = true;
        let kept = &self.pager.host.not_inherited;
        let look =
            || kept.for_each_inherited(AddressRange::new(page, PAGE_SIZE), |_| is_kept = false);
        self.kernel.frozen(look);
        is_kept
    }

    /// No page is ever away in memory that is not registered: the kernel would fill it with zeros.
    pub(super) fn nothing_is_away(&self, page: usize) {
        let Some((segment, index)) = self.pager.host.place_of(page) else {
            return;
        };
        match self.pager.engine.entry(segment, index) {
            Entry::Empty | Entry::Page(_) => {}
            entry => fail(place(page), &format!("{entry:?}, and it is unregistered")),
        }
    }

    /// Of what registered memory has grown by, and is not registered, nothing is away: it was left to the kernel.
    pub(super) fn nothing_is_away_unregistered(&self, new: AddressRange) {
        // What is forgotten during a fork is noted.
        if self.pager.fork.still.load(Relaxed) {
            return;
        }
        let unregistered = |page: &usize| self.kernel.space.is(*page, |state| !state.registered);
        for page in pages(new).filter(unregistered) {
            self.nothing_is_away(page);
        }
    }

    /// Whether nobody is going to wake a thread that waits for a page: its fault was read, no message waits, no handler
    /// is in the middle of one, and no worker restores the page.
    pub(super) fn is_forgotten(&self, page: usize, thread: usize) -> bool {
        let (pager, kernel) = (self.pager, &self.kernel);
        let is_told = |fault: &Fault| fault.thread == thread;
        let is_under_way = kernel.faults.borrow().iter().any(is_told)
            || kernel.changing.get() > 0
            || pager.host.gate.is_closed()
            || !pager.deferred.is_empty()
            || pager.handlers.iter().any(|h| h.busy.load(Relaxed));
        !is_under_way && !matches!(self.entry_of(page), Some(Entry::Request(_)))
    }

    /// What is away is remembered as it must be. The pager is still.
    fn compare_what_is_remembered(&self, page: usize, who: &str) {
        // SAFETY: no thread of the pager has this number.
        let mut worker = unsafe { self.pager.workplace.worker(super::HANDLERS + 1) };
        let content = self.pager.peek(&mut worker, page);
        // It may have been restored, or changed, meanwhile.
        if self.kernel.changing.get() > 0 || !self.kernel.space.is(page, State::is_away) {
            return;
        }
        match content {
            Remembered::Bytes(content) => self.kernel.compare(page, content, who),
            Remembered::Nothing | Remembered::Present => {
                self.kernel.compare(page, &[0; PAGE_SIZE], who);
            }
            Remembered::Doubtful if self.kernel.space.is(page, |state| state.doubtful) => {}
            Remembered::Doubtful => fail(place(page), "damaged, and nobody did it"),
        }
    }

    /// By the last thread of the program: everything is stopped, as for a fork, and stays so.
    pub(super) fn check_at_the_end(&self) {
        let pager = self.pager;
        pager.fork_prepare(|| ());
        let (mut present, mut stored, mut markers) = (0, 0, 0);
        for (segment, window) in pager.host.windows.iter() {
            for index in 0..coldpress_engine::SEGMENT_PAGES {
                if !pager.engine.has_leaf(segment, index) {
                    continue;
                }
                let page = window.address(index);
                match pager.engine.entry(segment, index) {
                    Entry::Empty => {}
                    Entry::Page(_) => present += 1,
                    Entry::Compressed(_) => stored += 1,
                    Entry::Zero | Entry::SameFilled(_) => markers += 1,
                    entry => fail(place(page), &format!("{entry:?}, and nothing is in flight")),
                }
                let known = window.is_registered(index);
                if known && !self.kernel.space.is(page, |state| state.registered) {
                    fail(place(page), "the pager takes it for registered");
                }
                if !self.kernel.space.is(page, |state| state.registered) {
                    self.nothing_is_away(page);
                }
            }
        }
        let counters = pager.engine.counters();
        assert_eq!(pager.engine.resident_pages(), present, "records");
        assert_eq!(counters.compressed_pages.load(Relaxed), stored, "stored");
        assert_eq!(counters.same_filled_pages.load(Relaxed), markers, "markers");
        for page in self.kernel.space.all() {
            let (away, content) = self
                .kernel
                .space
                .with(page, |state| (state.is_away(), state.content.clone()))
                .expect("one of all");
            match content {
                Content::Page(content) => self.kernel.compare(page, &content, "at the end"),
                _ if away => self.compare_what_is_remembered(page, "at the end"),
                // Where the poison is dropped it would come back.
                Content::Poisoned if self.is_away(page) => {
                    fail(place(page), "poisoned, and still remembered");
                }
                Content::Poisoned => {}
                _ => self.kernel.compare(page, &[0; PAGE_SIZE], "at the end"),
            }
        }
        self.check_file_at_the_end();
        let started = self.handlers_started.get();
        assert_eq!(started, pager.duty.count() > 0, "all handlers are parked");
        note_answers(pager);
    }
}

/// What the pager has met, from its own figures.
fn note_answers(pager: &coldpress_pager::Pager<super::SimOs>) {
    let s = pager.host.statistics();
    let counters = pager.engine.counters();
    for (kind, count) in [
        (Kind::Evictions, counters.evictions.load(Relaxed)),
        (
            Kind::FaultsDecompressed,
            counters.faults_decompressed.load(Relaxed),
        ),
        (Kind::FaultsCopied, counters.faults_copied.load(Relaxed)),
        (Kind::Forks, s.forks.load(Relaxed)),
        (Kind::EventsRead, s.events.load(Relaxed)),
        (Kind::HandlersCalled, s.handlers_called.load(Relaxed)),
        (Kind::Compaction, counters.compaction_moves.load(Relaxed)),
    ] {
        simulation().injections.add(kind, count);
    }
}
