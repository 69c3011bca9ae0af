//! Changes of the address space, as events tell of them: the page lists are brought in step.

use crate::Pager;
use crate::fork::protocol::Operation;
use crate::machine::message;
use crate::machine::os::{Os, PopulatedPages, Userfaults};
use crate::space::paging::Space;
use crate::space::windows::{Window, parts};
use coldpress_engine::{Entry, LEAF_PAGES, PageIndex, SEGMENT_PAGES};
use coldpress_uffd::{AddressRange, Message, PAGE_SIZE};
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// At most so far apart are the pages that are asked for after an event has told that memory is unmapped.
const LOOK_BYTES: usize = LEAF_PAGES as usize * PAGE_SIZE;
/// How often it is asked, where another event holds the answer up.
const PATIENCE: u32 = 50;

impl<O: Os> Pager<O> {
    /// Acts on an event. The gate is closed.
    pub(super) fn apply(&self, event: Message) {
        self.host.statistics().events.fetch_add(1, Relaxed);
        self.populating.goes_on();
        let operation = match event {
            Message::Unmap(range) => return self.unmapped(range),
            Message::Remove(range) => Operation::Remove(range),
            Message::Remap { from, to, len } => Operation::Remap { from, to, len },
            Message::Fork { descriptor } => return self.child_was_made(descriptor),
            // Anything else is no business of ours.
            _ => return,
        };
        self.deliver(operation);
    }

    /// An event has told that a range is unmapped. It may be there as before: the kernel tells of it before it looks whether
    /// the call that does it may, and where it may not takes back what it has done, but not the event (`mmap` over other
    /// memory beyond a limit or without enough memory, `munmap` of a range in which something is sealed; seen on 6.18). So
    /// what is still registered stays. It may also be what has been moved there since, of which the next event will tell;
    /// until that is read the kernel lets nothing be put in place there, nor be taken. Or it is what a mapping has grown by,
    /// which is unproven: it stays so.
    fn unmapped(&self, range: AddressRange) {
        let mut is_gone = true;
        self.host.for_each_maybe_registered_in(range, |run| {
            self.for_each_told_unmapped(run, |_, is_there| is_gone &= !is_there);
        });
        if is_gone {
            return self.deliver(Operation::Unmap(range));
        }
        // Of what is unproven and not registered nothing is away, and it may be as it was.
        self.host.for_each_registered_in(range, |_, run| {
            self.for_each_told_unmapped(run, |part, is_there| {
                if !is_there {
                    self.deliver(Operation::Unmap(part));
                }
            });
        });
    }

    /// Calls `with` for all of a run, which lies in one window, part by part, and with whether it is registered. What has
    /// moved there may have been told of before the unmapping of what lay there, and around it.
    fn for_each_told_unmapped(&self, run: AddressRange, mut with: impl FnMut(AddressRange, bool)) {
        let place = self.host.place_of(run.start);
        let (segment, mut index) = place.expect("a run of a window");
        let window = self.host.windows.get(segment);
        let end = window.index_of(run.end);
        let range = |first, end| AddressRange {
            start: window.address(first),
            end: window.address(end),
        };
        while index < end {
            let arrived = window.next_arrived(index, end);
            if arrived > index {
                self.look_here_and_there(range(index, arrived), &mut with);
            }
            index = window.next_not_arrived(arrived, end);
            if index > arrived {
                self.look_at_all(range(arrived, index), &mut with);
            }
        }
    }

    /// As [`for_each_told_unmapped`](Self::for_each_told_unmapped), of what has moved there.
    fn look_at_all(&self, run: AddressRange, with: &mut impl FnMut(AddressRange, bool)) {
        let pagemap = self.host.pagemap.get();
        let is_gone = pagemap.is_some_and(|map| map.first_mapped(run) == Ok(None));
        let is_there = !is_gone && self.is_still_registered(run);
        if is_gone || is_there || run.len() == PAGE_SIZE {
            return with(run, is_there);
        }
        let middle = run.start + (run.len() / 2).next_multiple_of(PAGE_SIZE);
        let (start, end) = (run.start, run.end);
        self.look_at_all(AddressRange { start, end: middle }, with);
        self.look_at_all(AddressRange { start: middle, end }, with);
    }

    /// The same, of what was always there. A part of which both ends are registered, or are not, is looked at no closer.
    fn look_here_and_there(&self, run: AddressRange, with: &mut impl FnMut(AddressRange, bool)) {
        let page = |at| AddressRange::new(at, PAGE_SIZE);
        let is_there = |at| self.is_still_registered(page(at));
        let mut at = run.start;
        let mut starts = is_there(at);
        while at < run.end {
            let end = run.end.min(at + LOOK_BYTES);
            let next = is_there(end.min(run.end - PAGE_SIZE));
            if starts == next {
                with(AddressRange { start: at, end }, starts);
            } else {
                let pages = (at..end).step_by(PAGE_SIZE);
                pages.for_each(|at| with(page(at), is_there(at)));
            }
            (at, starts) = (end, next);
        }
    }

    /// Whether all of a range is registered in this moment; `false` where that cannot be known.
    fn is_still_registered(&self, range: AddressRange) -> bool {
        for _ in 0..PATIENCE {
            match self.host.uffd().is_registered_now(range) {
                Ok(is_registered) => return is_registered,
                // The thread that waited for this event to be read has to run first.
                Err(_) => O::sleep_ns(20_000),
            }
        }
        false
    }

    /// An event has told that memory has moved to a range. Where there is no window nothing is known of it.
    fn note_arrived(&self, range: AddressRange) {
        self.host.for_each_window_of(range, Window::set_arrived);
        self.host.has_arrivals.store(true, Relaxed);
    }

    /// Nothing has arrived any more once no change waits to be told: what lay there before is told of, too. By the reclaim
    /// thread, now and then.
    pub(crate) fn settle_arrivals(&self) {
        if !self.host.has_arrivals.load(Relaxed) {
            return;
        }
        let _inside = self.host.gate.enter_in_turn();
        if !self.host.is_changing() {
            self.host.has_arrivals.store(false, Relaxed);
            for (_, window) in self.host.windows.iter() {
                window.clear_arrived(0, SEGMENT_PAGES);
            }
        }
    }

    /// Carries a change out, or notes it while the pager is still. The gate is closed.
    pub(crate) fn deliver(&self, operation: Operation) {
        // At once in either case: when the fork is over the addresses may be mapped again and excluded anew.
        match operation {
            Operation::Unmap(range) => {
                self.host.exclusions.unmapped(range);
                self.host.for_each_window_of(range, Window::clear_arrived);
            }
            // What lay there has been unmapped, which was not to be seen any more.
            Operation::Remap { to, len, .. } => {
                let range = AddressRange::new(to, len);
                self.host.exclusions.unmapped(range);
                self.note_arrived(range);
            }
            _ => {}
        }
        if self.fork.still.load(Acquire) {
            if let Operation::Remap { to, len, .. } = operation {
                self.host.forget_restored(AddressRange::new(to, len));
            }
            self.fork.note(operation);
        } else {
            self.change(operation);
        }
    }

    /// Brings the page lists in step with a change of the address space. The gate is closed, or
    /// nobody else is there.
    pub(crate) fn change(&self, operation: Operation) {
        let host = &self.host;
        match operation {
            Operation::Remove(range) => {
                self.forget(range);
                // What a mapping has grown by is registered, and may have no window yet; discovery would make one.
                for part in parts(range) {
                    let _ = self.window_for(part.base);
                }
                host.note_dropping(range);
            }
            Operation::Dropped(range) => self.forget(range),
            Operation::Poisoned(page) => self.forget(AddressRange::new(page, PAGE_SIZE)),
            Operation::Unmap(range) => {
                self.forget(range);
                host.unregister(range);
                host.note_other_memory(range);
                // Without room for what is left of it: it stays remembered, which does no harm.
                host.not_inherited.subtract(range);
            }
            Operation::Remap { from, to, len } => {
                let range = |at| AddressRange::new(at, len);
                self.forget(range(to));
                host.unregister(range(to));
                host.note_other_memory(range(to));
                for page in 0..len / PAGE_SIZE {
                    self.transfer(from + page * PAGE_SIZE, to + page * PAGE_SIZE);
                }
                // In windows that are new by now.
                self.note_arrived(range(to));
                host.not_inherited.copied(range(from), range(to));
                // A fault at the old place may have been left to a worker whose page was in place by
                // then, and moved on with the rest (`Engine::transfer`).
                host.wake_range(range(from));
                // The old place stays registered until its own unmap event: with MREMAP_DONTUNMAP
                // it stays for good.
            }
            Operation::Restored(_) => {}
        }
    }

    fn transfer(&self, from: usize, to: usize) {
        let host = &self.host;
        let Some(source) = host.windows.find(&host.memory, from) else {
            return;
        };
        let window = host.windows.get(source);
        let from = window.index_of(from);
        let registered = window.is_registered(from);
        let unproven = window.is_unproven(from);
        if !registered && !unproven && !self.engine.has_leaf(source, from) {
            return;
        }
        let Some(destination) = self.window_for(to) else {
            cannot_follow::<O>(to);
        };
        let target = host.windows.get(destination);
        let to = target.index_of(to);
        debug_assert!(
            !target.is_registered(to) && self.engine.entry(destination, to) == Entry::Empty,
            "what lay at {:#x} is remembered although other memory has moved there",
            target.address(to)
        );
        if registered {
            target.set_registered(to, to + 1);
        }
        if unproven {
            host.leave_unproven(target, to, to + 1);
        }
        let engine = &self.engine;
        if !engine.transfer(self, (source, from), (destination, to))
            && !matches!(engine.entry(source, from), Entry::Empty | Entry::Page(_))
        {
            cannot_follow::<O>(target.address(to));
        }
    }
}

/// No memory for the tables of memory that has moved: its content would be lost.
fn cannot_follow<O: Os>(address: usize) -> ! {
    message::say(format_args!(
        "no memory for the tables of {address:#x}, where compressed memory was moved; the program \
         ends here rather than lose it"
    ));
    O::abort()
}

impl<O: Os> Pager<O> {
    fn forget(&self, range: AddressRange) {
        let host = &self.host;
        for part in parts(range) {
            if let Some(segment) = host.windows.find(&host.memory, part.base) {
                self.engine.decommit(self, segment, part.first, part.end);
            }
        }
    }
}

impl<O: Os> Space<O> {
    /// Acts on each window's part of a range: from its first page on, up to the end.
    fn for_each_window_of(&self, range: AddressRange, act: impl Fn(&Window, PageIndex, PageIndex)) {
        for part in parts(range) {
            if let Some(id) = self.windows.find(&self.memory, part.base) {
                act(self.windows.get(id), part.first, part.end);
            }
        }
    }

    /// An event has told that these pages will be dropped: they are still in place, and must not be tracked, whether they
    /// are registered or not by the time that they are found. (Where a change came in between, what was registered was not
    /// noted, see `note_registered`; and what was registered when the event arose may be so no longer, see
    /// [`unregistering`](crate::fault::unregistering).)
    fn note_dropping(&self, range: AddressRange) {
        self.for_each_window_of(range, Window::set_dropping);
    }

    /// There is other memory now than that of which [`note_dropping`](Self::note_dropping) knows.
    fn note_other_memory(&self, range: AddressRange) {
        self.for_each_window_of(range, Window::clear_dropping);
    }

    /// What has moved here may be away, whatever was put in place here before.
    fn forget_restored(&self, range: AddressRange) {
        self.for_each_window_of(range, Window::forget_restored);
    }

    fn unregister(&self, range: AddressRange) {
        self.for_each_window_of(range, Window::clear_registered);
    }
}
