//! Memory of which the kernel could not tell whether it is registered.
//!
//! Registering accepts holes, so the pager asks afterwards what is registered. While an event is unread there is no
//! answer (`EAGAIN`); and nobody tells of what a mapping has grown by. After a fork what is known as registered is marked
//! again, and may be other memory by then, of which nobody has read. Such pages are *unproven*: they may be
//! registered, or have come to lie in a hole and be marked. Either would split a mapping of the program, and an
//! `mremap` of it be refused; and a child of a raw clone would lack what is marked. So the reclaim thread asks again
//! soon, and until then a thread that moves such memory has it registered first (`Pager::unsplit`).

use crate::Pager;
use crate::machine::os::{Os, Userfaults};
use crate::space::paging::Space;
use crate::space::windows::{Window, parts};
use coldpress_engine::{PageIndex, SEGMENT_PAGES, SegmentId};
use coldpress_uffd::AddressRange;
use core::sync::atomic::Ordering::Relaxed;

/// How long the reclaim thread rests at most while something is unproven.
const REST_NS: u64 = 1_000_000;

impl<O: Os> Space<O> {
    /// The kernel could not tell whether pages `first..end` of a window are registered.
    pub(crate) fn leave_unproven(&self, window: &Window, first: PageIndex, end: PageIndex) {
        window.set_unproven(first, end);
        self.left_unproven.store(true, Relaxed);
    }

    /// Like [`leave_unproven`](Self::leave_unproven), for a range within a window.
    pub(crate) fn leave_range_unproven(&self, segment: SegmentId, range: AddressRange) {
        let window = self.windows.get(segment);
        let (first, end) = (window.index_of(range.start), window.index_of(range.end));
        self.leave_unproven(window, first, end);
    }

    /// Calls `with` for every run of pages of `range` that are known to be registered, or may be: what is unproven, and what
    /// has moved there, which during a fork is not known as registered yet.
    pub(crate) fn for_each_maybe_registered_in(
        &self,
        range: AddressRange,
        mut with: impl FnMut(AddressRange),
    ) {
        for part in parts(range) {
            let Some(segment) = self.windows.find(&self.memory, part.base) else {
                continue;
            };
            let window = self.windows.get(segment);
            let mut index = part.first;
            loop {
                let registered = window.next_registered(index, part.end);
                let unproven = window.next_unproven(index, registered);
                let first = window.next_arrived(index, unproven);
                if first == part.end {
                    break;
                }
                index = match first {
                    first if first == registered => window.next_unregistered(first, part.end),
                    first if first == unproven => window.next_proven(first, registered),
                    first => window.next_not_arrived(first, unproven),
                };
                with(AddressRange {
                    start: window.address(first),
                    end: window.address(index),
                });
            }
        }
    }

    /// Keeps registered memory from raw clones. The program may have put other memory there, and its event is not acted
    /// on yet: then that is marked, and asked for again.
    pub(crate) fn keep_known_from_raw_clones(&self, segment: SegmentId, range: AddressRange) {
        self.keep_from_raw_clones(range);
        if self.uffd().is_registered(range) != Ok(true) {
            self.leave_range_unproven(segment, range);
        }
    }
}

impl<O: Os> Pager<O> {
    /// Asks again for what is unproven. By the reclaim thread, which is going to rest for so long; the rest that it may
    /// have.
    pub(crate) fn prove(&self, rest_ns: u64) -> u64 {
        self.settle_arrivals();
        if !self.host.left_unproven.swap(false, Relaxed) {
            return rest_ns;
        }
        for (segment, window) in self.host.windows.iter() {
            let mut end = 0;
            loop {
                let first = window.next_unproven(end, SEGMENT_PAGES);
                if first == SEGMENT_PAGES {
                    break;
                }
                end = window.next_proven(first, SEGMENT_PAGES);
                // Not while a thread moves memory, or a fork is prepared.
                let Some(_registering) = self.registering.try_lock() else {
                    self.host.left_unproven.store(true, Relaxed);
                    return rest_ns.min(REST_NS);
                };
                let _inside = self.host.gate.enter_in_turn();
                let range = AddressRange {
                    start: window.address(first),
                    end: window.address(end),
                };
                // Where the kernel still cannot tell, that is noted again.
                let _ = self.note_registered(segment, range);
            }
        }
        match self.host.left_unproven.load(Relaxed) {
            true => rest_ns.min(REST_NS),
            false => rest_ns,
        }
    }
}
