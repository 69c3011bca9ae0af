//! Storage compaction while the engine runs.
//!
//! Storage knows its objects, not who holds their references. But every object names its owner in
//! its [header](crate::compression::stored), so that a moved one can be given its new reference:
//!
//! ```text
//!  storage lock: storage copies the object, then asks
//!                the copy's header names a leaf and a place · the leaf names its segment
//!                VMO lock, if it can be had without waiting:
//!                    entry is the compressed reference it was: it becomes the new one
//! ```
//!
//! Invariants:
//! * I1 An object is moved only while its entry is a compressed reference and the VMO's lock is
//!   held. Whoever reads an object has replaced that entry by a request before, under the lock.
//! * I2 Nothing is moved while an object is unpublished: it may be being written.
//! * I3 An owner that is wrong (the entry is on the move, the header is damaged) only keeps the
//!   object where it is.

use crate::Engine;
use crate::compression::stored::OWNER_AT;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::pages::entry::Entry;
use crate::pages::segment::Owner;
use coldpress_codec::PageCodec;
use coldpress_storage::{Compaction, CompressedStorage, Reference, read_at, write_at};
use core::sync::atomic::Ordering::Acquire;

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Moves stored objects together, so that frames become free: a step of at most
    /// `budget_bytes` copied, or one object. `None`: not now, since an object is being stored.
    ///
    /// The storage lock is held for the step: other threads that store or free wait for it. No
    /// thread that waits for a page does: it is woken before its object is freed.
    pub fn compact(&self, host: &H, budget_bytes: usize) -> Option<Compaction> {
        let mut storage = self.storage.lock();
        if self.unpublished.load(Acquire) != 0 {
            return None;
        }
        let started = host.now_ns();
        let done = storage.compact(host.frames(), budget_bytes, &mut |from, to| {
            self.relocate(host, from, to)
        });
        drop(storage);
        let c = &self.counters;
        add(&c.compaction_moves, done.objects as u64);
        add(&c.compaction_frames_freed, done.frames as u64);
        add(&c.compaction_frames_taken, done.frames_taken as u64);
        add(&c.compaction_time_ns, host.now_ns().saturating_sub(started));
        Some(done)
    }

    /// Has the owner of `from` hold `to`. `false`: it stays where it is. The storage lock is held.
    fn relocate(&self, host: &H, from: Reference, to: Reference) -> bool {
        let mut owner = [0; 4];
        // SAFETY: `to` was written a moment ago by this thread and nobody else knows it.
        if !unsafe { read_at(host.frames(), to, OWNER_AT, &mut owner) } {
            return false;
        }
        let Some((segment, index)) = self.tables.home_of(Owner(u32::from_le_bytes(owner))) else {
            return false;
        };
        let Some(list) = self.try_page_list(segment) else {
            return false;
        };
        let is_there = list.get(index) == Entry::Compressed(from);
        if is_there {
            list.set(index, Entry::Compressed(to));
        }
        is_there
    }

    /// Names another owner of a stored object, whose entry is on the move under the VMO's lock.
    pub(crate) fn write_owner(&self, host: &H, reference: Reference, owner: Owner) {
        let _storage = self.storage.lock();
        // SAFETY: the object is allocated; its reader, if any, does not look at the owner before
        // it has the VMO's lock, and compaction has the storage lock.
        unsafe { write_at(host.frames(), reference, OWNER_AT, &owner.0.to_le_bytes()) };
    }
}
