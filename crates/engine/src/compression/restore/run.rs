//! Neighbours that nobody waits for, restored together.
//!
//! The steps are those of one page (`restore`), but locks are taken, the stable section is opened, and the host is
//! called once for all of them:
//!
//! ```text
//!  request   ▒▒▒▒▒ ▒▒▒     one hold of the VMO's lock; what is in place, claimed or below memory is left out
//!  load      ▒▒▒▒▒ ▒▒▒     no lock; each into a spare page of its own, and these lie beside each other
//!  commit    ═════ ═══     one stable section; one install for each stretch; one hold of VMO's and queue lock
//!  settle    ▒▒▒▒▒ ▒▒▒     what was stored is freed
//! ```
//!
//! Invariants:
//! * R1 Each page has a target and a spare page of its own, so that changes and forks find it as they find a page that
//!   is restored alone.
//! * R2 A page that a run claims on its way out is not requested; and a request is claimed by no run (`choose_run`).
//! * R3 Whatever is not as it was when it was requested, or does not go in place at the first attempt, is committed
//!   alone: what can go wrong has one path.

use super::{Damage, Demand, Fate};
use crate::compression::drivers::{self, Into, Source};
use crate::compression::fault::FaultOutcome;
use crate::compression::stub::may_be_stub;
use crate::compression::worker::Worker;
use crate::machine::host::Host;
use crate::machine::memory::Place;
use crate::machine::protocol::Protocol;
use crate::pages::entry::Entry;
use crate::pages::patience::Returning;
use crate::{Engine, LEAF_PAGES};
use coldpress_codec::PageCodec;
use coldpress_storage::{CompressedStorage, prefetch};
use core::sync::atomic::Ordering::Relaxed;

/// The most pages that are restored together. Whoever touches one of them waits for all, which take some 20 µs.
pub const RUN_PAGES: usize = 16;

/// The pages of a run: bit n stands for page `first + n`.
struct Pages {
    first: Place,
    requested: u32,
    entries: [Entry; RUN_PAGES],
    decoded: [Result<Option<Returning>, Damage>; RUN_PAGES],
}

impl Pages {
    fn place(&self, n: usize) -> Place {
        (self.first.0, self.first.1 + n as u32)
    }
}

/// The positions of a set.
fn each(mut set: u32) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let n = set.trailing_zeros() as usize;
        set &= set.checked_sub(1)?;
        Some(n)
    })
}

/// A set of `pages` neighbours from `at` on.
pub(crate) fn stretch(at: u32, pages: u32) -> u32 {
    ((1u32 << pages) - 1) << at
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Restores those pages of the set `wanted`, which are counted from `first`, that lie in storage or are markers.
    /// Nobody has touched them. How many were restored.
    pub(crate) fn restore_run(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        first: Place,
        wanted: u32,
    ) -> u32 {
        let mut pages = self.request_run(host, worker, first, wanted);
        let mut outcomes = [FaultOutcome::SameFilled; RUN_PAGES];
        for n in each(pages.requested) {
            let room = worker.workspace.room_of_run(n);
            let entry = pages.entries[n];
            let ns = &mut worker.decompression_ns;
            (outcomes[n], pages.decoded[n]) = self.decode(host, room, ns, entry, Demand::None);
        }
        let done = match H::PROTOCOL {
            Protocol::StableSections => self.commit_run(host, worker, &pages),
            Protocol::UnderLock => 0,
        };
        for n in each(done) {
            self.settle(host, pages.entries[n], Fate::Restored);
        }
        let mut restored = done.count_ones();
        for n in each(pages.requested & !done) {
            let source = match pages.decoded[n] {
                Ok(returning) => {
                    Source::Restored(&worker.workspace.run[n], pages.entries[n], returning)
                }
                Err(_) => Source::Damaged,
            };
            let id = worker.run_id(n);
            let committed = drivers::commit(self, host, id, source, Into::Newest);
            let (entry, decoded) = (pages.entries[n], pages.decoded[n]);
            let answer = self.conclude(
                host,
                id,
                pages.place(n),
                entry,
                (outcomes[n], decoded),
                committed,
            );
            restored += u32::from(matches!(
                answer,
                Some(FaultOutcome::Decompressed | FaultOutcome::SameFilled)
            ));
        }
        restored
    }

    /// Makes a request of each page that is away, and at rest there (R2).
    fn request_run(&self, host: &H, worker: &Worker<C>, first: Place, wanted: u32) -> Pages {
        debug_assert_eq!(wanted >> RUN_PAGES, 0);
        let mut pages = Pages {
            first,
            requested: 0,
            entries: [Entry::Empty; RUN_PAGES],
            decoded: [Ok(None); RUN_PAGES],
        };
        let Some(list) = self.page_list_if_there(first.0) else {
            return pages;
        };
        for n in each(wanted) {
            let place = pages.place(n);
            let entry = list.get(place.1);
            match entry {
                _ if list.claimed(place.1) & 1 << (place.1 % LEAF_PAGES) != 0 => continue,
                Entry::Compressed(reference) if !may_be_stub(reference) => {
                    prefetch(host.frames(), reference);
                }
                Entry::SameFilled(_) | Entry::Zero => {}
                _ => continue,
            }
            pages.requested |= 1 << n;
            pages.entries[n] = entry;
            let spare = (&raw const worker.workspace.run[n]).cast_mut();
            self.request_into(worker.run_id(n), spare, &list, place, entry);
        }
        pages
    }

    /// Puts in place what stands where it stood, stretch by stretch. Which pages are.
    fn commit_run(&self, host: &H, worker: &Worker<C>, pages: &Pages) -> u32 {
        let _stable = self.stable(host);
        let stands = |&n: &usize| {
            let target = &self.targets[worker.run_id(n) as usize];
            let place = pages.place(n);
            pages.decoded[n].is_ok()
                && !target.cancelled.load(Relaxed)
                && target.place.get() == place
                && !self.is_claimed(place.0, place.1)
        };
        let standing = each(pages.requested).filter(stands);
        let mut left = standing.fold(0u32, |set, n| set | 1 << n);
        let mut done = 0;
        while left != 0 {
            let at = left.trailing_zeros();
            let len = (left >> at).trailing_ones();
            let content = &worker.workspace.run[at as usize..(at + len) as usize];
            let (segment, index) = pages.place(at as usize);
            let installed = host.install_run(segment, index, content);
            debug_assert!(installed <= len);
            done |= stretch(at, installed);
            left &= !stretch(at, len);
        }
        if done == 0 {
            return 0;
        }
        let list = self.page_list(pages.first.0);
        let mut queues = self.queues.lock();
        for n in each(done) {
            let place = pages.place(n);
            debug_assert_eq!(list.get(place.1), Entry::Request(worker.run_id(n)));
            let returning = pages.decoded[n].unwrap_or(None);
            let record = self.record_in(&mut queues, &list, place, returning, Into::Newest);
            list.set(place.1, record.map_or(Entry::Empty, Entry::Page));
        }
        done
    }
}
