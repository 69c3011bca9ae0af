//! What many cases do.
#![allow(dead_code, reason = "each test file uses what it needs")]

use crate::kernel::*;
use coldpress_engine::queues::standing::Standing;
use coldpress_engine::vmo::{Attribution, Shares, VmoId};
use coldpress_engine::{Entry, Place};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// A snapshot of all of a VMO.
pub fn snapshot(s: &System, id: VmoId) -> VmoId {
    let pages = s.vmos.pages(id).unwrap();
    slice(s, id, 0..pages)
}

/// A snapshot of a part.
pub fn slice(s: &System, id: VmoId, pages: Range<u64>) -> VmoId {
    let child = s.vmos.snapshot(&s.machine, id, pages).unwrap();
    s.vmos.check_invariants();
    child
}

/// Where the page is that a VMO sees, if it is in place.
pub fn place(s: &System, id: VmoId, page: u64) -> Option<Place> {
    let mut at = None;
    let show = |_, place, _| at = Some(place);
    s.vmos.lookup(id, page..page + 1, show).unwrap();
    at
}

/// In which queue the page stands that a VMO sees.
pub fn standing(s: &System, id: VmoId, page: u64) -> Standing {
    s.vmos.engine().check_queues();
    let stands = |(segment, index)| s.vmos.engine().standing(segment, index);
    match place(s, id, page).and_then(stands) {
        Some(standing) => standing,
        None => {
            assert!(under_random_compression(), "in place");
            Standing::Leaving
        }
    }
}

/// Opens so many generations.
pub fn rotate(s: &System, times: u32) {
    (0..times).for_each(|_| s.vmos.engine().rotate(&s.machine));
}

/// A VMO whose pager supplies `text(page)` when it is asked.
pub fn paged(s: &'static System, pages: u64) -> VmoId {
    let vmo = s.vmos.create_pager_backed(&s.machine, pages).unwrap();
    let supply = move |id, page: u64| {
        let (mut w, from) = (worker(201), s.create(1));
        s.write_page(&mut w, from, 0, &text(page));
        let mut list = s.vmos.take(&s.machine, &mut w, from, 0..1).unwrap();
        let supplied = s.vmos.supply(&s.machine, &mut w, id, page, &mut list);
        supplied.unwrap();
        s.vmos.discard(&s.machine, list);
        s.destroy(from);
    };
    *s.machine.pager.lock().unwrap() = Pager::Supplies(Box::new(supply));
    vmo
}

/// The pages that a VMO sees, in place or not, by what their entries are.
pub fn forms(s: &System, id: VmoId) -> String {
    let pages = s.vmos.pages(id).unwrap();
    (0..pages)
        .map(|page| match s.entry(id, page) {
            Entry::Empty => '-',
            Entry::Page(_) => 'P',
            Entry::Zero | Entry::ZeroInterval(..) => '0',
            Entry::Compressed(_) => 'C',
            Entry::SameFilled(_) => 'S',
            Entry::Temporary(_) => 'T',
            Entry::Request(_) => 'R',
            Entry::Poisoned => '!',
        })
        .collect()
}

/// Sends everything away, also what was accessed a moment ago.
pub fn all_away(s: &System, r: &mut TestReclaimer) {
    for _ in 0..4 {
        s.send_away(r);
    }
    assert_eq!(s.machine.pages_in_place(), 0);
}

/// Pages that were decompressed so far.
pub fn decompressed(s: &System) -> u64 {
    s.codec.decompressed.load(Relaxed)
}

/// So many pages that one VMO alone sees, and that it shares with others; and what its part is.
pub fn pages(private: u64, shared: u64, scaled_bytes: u64) -> Shares {
    Shares {
        private_bytes: private * PAGE,
        shared_bytes: shared * PAGE,
        scaled_bytes,
    }
}

fn attribution(s: &System, id: VmoId) -> Attribution {
    let pages = s.vmos.pages(id).unwrap();
    s.vmos.attribution(id, 0..pages).unwrap()
}

/// What a VMO sees of what is held in pages.
pub fn committed(s: &System, id: VmoId) -> Shares {
    attribution(s, id).committed
}

/// What a VMO sees of what is remembered in any form.
pub fn content(s: &System, id: VmoId) -> Shares {
    attribution(s, id).content
}

/// Writes `text(seed)` into each of the pages, whose seed is its number plus `seed`.
pub fn fill(s: &System, w: &mut TestWorker, id: VmoId, pages: Range<u64>, seed: u64) {
    pages.for_each(|page| s.write_page(w, id, page, &text(seed + page)));
}

/// The pages are as [`fill`] has left them.
pub fn assert_filled(s: &System, w: &mut TestWorker, id: VmoId, pages: Range<u64>, seed: u64) {
    for page in pages {
        assert!(s.read_page(w, id, page) == text(seed + page), "page {page}");
    }
}

/// Ends VMOs one by one, and nothing is held afterwards.
pub fn end(s: &System, vmos: &[VmoId]) {
    for &vmo in vmos {
        s.destroy(vmo);
        s.vmos.check_invariants();
    }
    s.assert_nothing_is_held();
}
