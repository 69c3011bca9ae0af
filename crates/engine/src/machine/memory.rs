//! What the engine asks of a machine whose pages it manages by itself: a kernel, a library with
//! memory of its own, a simulated machine.
//!
//! A [`Host`] alone is enough where somebody else says what memory there is, as the Linux runtime,
//! in which the program owns its pages. VMOs with reading and writing, snapshots and pinning
//! need a machine that can also be told to copy a page, to give it another
//! owner and to take it away.
//!
//! ```text
//!  frame ── in place at (segment, index) ── mapped by any number of mappings
//!    │                  │
//!    │                  └ rename, copy, drop_page: with the VMO's lock held
//!    └ in a staging slot while it is compressed
//! ```
//!
//! Invariants that the machine keeps:
//! * M1 At most one frame is in place at one (segment, index).
//! * M2 What reads or writes through a mapping reaches the frame that is in place, or faults.

use crate::machine::host::{Host, Installed};
use crate::{PageIndex, SegmentId};
use core::ops::Range;

/// Names a VMO. A number is never used for two: one that has ended is no VMO any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VmoId {
    pub(crate) node: u32,
    pub(crate) generation: u32,
}

/// Where a page is in place.
pub type Place = (SegmentId, PageIndex);

/// A host that owns the pages. All methods but [`wait`](Memory::wait) and
/// [`request`](Memory::request) are called with the lock of
/// the page's VMO held: they are short and call nothing of the engine. So is
/// [`wake`](Host::wake), sometimes; it may name a place that is used no more. That a page is
/// [poisoned](Host::poison) stands in its entry, which moves with the page: the machine need not
/// remember it.
///
/// # Safety
/// The implementation upholds M1 and M2, and what each method says; a page keeps its bytes until
/// it is written through a mapping or by one of these methods.
pub unsafe trait Memory: Host {
    /// Reads bytes of the page in place.
    fn read(&self, place: Place, offset: usize, into: &mut [u8]);

    /// Writes bytes of the page in place.
    fn write(&self, place: Place, offset: usize, bytes: &[u8]);

    /// Fills the page in place with zeros.
    fn zero(&self, place: Place);

    /// Frees the page in place, after taking it from every mapping.
    fn drop_page(&self, place: Place);

    /// The page in place at `from` is in place at `to` from now on, where none is. It is taken
    /// from every mapping.
    fn rename(&self, from: Place, to: Place);

    /// Puts a copy of the page in place at `from` in place at `to`, where none is.
    /// [`Installed::Done`] or [`Installed::NoFrame`].
    fn copy(&self, from: Place, to: Place) -> Installed;

    /// Takes from every mapping the right to write the page in place: the next write faults.
    fn protect(&self, place: Place);

    /// Takes the page in place from every mapping: the next touch faults.
    fn unmap(&self, place: Place);

    /// Asks the user pager of a VMO for a page, and waits until [`answers`](Memory::answers) is no
    /// longer `seen`; may return early. `false`: it will not be supplied. No lock is held. A machine
    /// without pagers supplies none.
    fn request(&self, vmo: VmoId, page: u64, seen: u32) -> bool {
        let _ = (vmo, page, seen);
        false
    }

    /// How often [`answered`](Memory::answered) was called for this VMO, or for any.
    fn answers(&self, vmo: VmoId) -> u32 {
        let _ = vmo;
        0
    }

    /// Pages were supplied, or will never be: who waits for one shall look again.
    fn answered(&self, vmo: VmoId, pages: Range<u64>) {
        let _ = (vmo, pages);
    }

    /// How often those who wait for the page were [woken](Host::wake), by an installation too; the
    /// same number for several pages, or for all, will do.
    fn wakes(&self, place: Place) -> u32;

    /// Waits until [`wakes`](Memory::wakes) is no longer `seen`, which was read with the lock held
    /// under which the page was found missing: so no waking is lost. May return early. No lock is
    /// held. `worker` restores the page: it inherits the priority of the thread that waits, where
    /// the machine can do so.
    fn wait(&self, place: Place, worker: u16, seen: u32);
}
