//! Taking pages out of a VMO and supplying them to another, without copying them.
//!
//! ```text
//!   V ── take ──▶ splice list ── supply ──▶ W
//!        V's lock   (a member of V's family      V's lock, then W's lock: never both
//!                    that only its holder knows)
//! ```
//!
//! What is taken stands in a node of its own, in V's family and at the positions that it had, so taking
//! moves entries as they are under one lock: pages, markers, compressed ones, even those in flight.
//! Supplying to a VMO of another family goes entry by entry: it is *in hand* between the two locks, its
//! record in no queue, its frame still at a place that nobody else can reach, its compressed object kept
//! from being moved. What cannot be supplied goes back into the list. Entries in flight are brought
//! into place first.

use super::family::Family;
use super::lookup::Found;
use super::object::{Kind, NodeId};
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::page::PAGER_BACKED;
use crate::pages::tables::Growth;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Pages taken out of a VMO. They belong to the holder, who supplies them, or has them
/// [discarded](Vmos::discard).
#[derive(Debug)]
#[must_use = "supply it or have it discarded"]
pub struct SpliceList {
    node: VmoId,
    pages: u64,
    /// How many of them are supplied already.
    supplied: u64,
}

impl SpliceList {
    /// How many pages were taken, counting those that hold nothing.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// How many of them, from the first on, are supplied.
    pub fn supplied(&self) -> u64 {
        self.supplied
    }
}

/// An entry between two VMOs.
struct InHand {
    entry: Entry,
    /// Where its frame is, if it has one.
    from: Place,
}

/// What becomes of an entry that is where another is supplied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Present {
    Stays,
    Goes,
}

/// Why an entry could not be supplied.
enum Unplaced {
    /// There is no room in tables.
    NoTables,
    Refused(VmoError),
}

/// How far a hold of the lock has come.
enum Taken {
    All,
    /// There is no room in tables.
    NoTables,
    /// This page is a snapshot's, and has to be copied first.
    Shared(u64),
    Pinned,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Takes pages out of a VMO, which reads as zeros there afterwards. Where it ends early, at a pinned
    /// page or for want of memory, the list has fewer pages; an error, if it has none.
    pub fn take(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<SpliceList, VmoError> {
        self.check_pages(id, &pages)?;
        if self.is_pager_backed(id)? {
            return Err(VmoError::NotSupported);
        }
        let node = self.new_object(host).ok_or(VmoError::NoMemory)?;
        {
            let (family, from) = match self.lock(id) {
                Ok(locked) => locked,
                Err(error) => {
                    self.give_object(node);
                    return Err(error);
                }
            };
            let base = family.object(from).base.get() + pages.start;
            let object = self.objects.get(node);
            object.begin(Kind::Vmo, base, pages.end - pages.start, family.id());
            family.join(1);
        }
        let mut list = SpliceList {
            node: self.id_of(node),
            pages: 0,
            supplied: 0,
        };
        match self.take_into(host, worker, id, &pages, &mut list) {
            Err(error) if list.pages == 0 => {
                self.discard(host, list);
                Err(error)
            }
            _ => Ok(list),
        }
    }

    fn take_into(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: &Range<u64>,
        list: &mut SpliceList,
    ) -> Result<(), VmoError> {
        loop {
            let (family, node) = self.lock(id)?;
            let object = family.object(node);
            let base = object.base.get();
            let mut at = base + pages.start + list.pages;
            let end = base + pages.end.min(object.pages.get());
            let taken = family.take(host, node, list.node.node, &mut at, end);
            list.pages = at - base - pages.start;
            family.prune(node, base + pages.start, at);
            drop(family);
            match taken {
                Taken::All => {
                    list.pages = pages.end - pages.start;
                    return Ok(());
                }
                Taken::Pinned => return Err(VmoError::BadState),
                Taken::NoTables => self.grow(host)?,
                Taken::Shared(at) => {
                    self.writable(host, worker, id, at - base, Growth::Allowed)?;
                }
            }
        }
    }

    /// Frees what is left of a list.
    pub fn discard(&self, host: &M, list: SpliceList) {
        let ended = self.destroy(host, list.node);
        debug_assert_eq!(ended, Ok(()), "nobody else knows the list");
    }

    /// Supplies a list to a VMO, from page `first` on. What the VMO holds itself stays, and what would
    /// have come there is freed; what it sees of a snapshot is replaced. Pages that hold nothing change
    /// nothing. With an error, what was not supplied is still in the list.
    pub fn supply(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        first: u64,
        list: &mut SpliceList,
    ) -> Result<(), VmoError> {
        self.move_list(host, worker, id, first, list, Present::Stays)
    }

    /// The same, but the range holds what the list does afterwards, and nothing else. Refused where
    /// pages of it are pinned.
    pub fn transfer(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        first: u64,
        list: &mut SpliceList,
    ) -> Result<(), VmoError> {
        if self.is_pager_backed(id)? {
            return Err(VmoError::NotSupported);
        }
        let end = first.checked_add(list.pages).ok_or(VmoError::OutOfRange)?;
        self.decommit(host, id, first + list.supplied..end)?;
        self.move_list(host, worker, id, first, list, Present::Goes)
    }

    fn move_list(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        first: u64,
        list: &mut SpliceList,
        present: Present,
    ) -> Result<(), VmoError> {
        let end = first.checked_add(list.pages).ok_or(VmoError::OutOfRange)?;
        self.check_pages(id, &(first..end))?;
        while let Some((page, in_hand)) = self.take_in_hand(host, worker, list)? {
            if let Err(error) = self.place_in_hand(host, id, first + page, &in_hand, present) {
                self.put_into_list(list, page, &in_hand);
                match error {
                    Unplaced::NoTables => self.grow(host)?,
                    Unplaced::Refused(error) => return Err(error),
                }
                continue;
            }
            list.supplied = page + 1;
        }
        list.supplied = list.pages;
        Ok(())
    }

    /// Takes the next entry of a list in hand.
    fn take_in_hand(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        list: &SpliceList,
    ) -> Result<Option<(u64, InHand)>, VmoError> {
        loop {
            let (family, node) = self.lock(list.node)?;
            let base = family.object(node).base.get();
            let range = base + list.supplied..base + list.pages;
            let Some((at, found)) = family.next_own(node, range.start, range.end) else {
                return Ok(None);
            };
            if let Entry::Temporary(_) | Entry::Request(_) = found.entry {
                self.bring_back(host, worker, family, found)?;
                continue;
            }
            return Ok(Some((at - base, family.detach(found))));
        }
    }

    /// Puts an entry in hand back into its list.
    fn put_into_list(&self, list: &SpliceList, page: u64, in_hand: &InHand) {
        let (family, node) = self.lock(list.node).expect("nobody else knows the list");
        let at = family.object(node).base.get() + page;
        let place = family.place(node, at).expect("it has just been there");
        family.attach(place, in_hand);
    }

    /// Gives an entry in hand to a VMO.
    fn place_in_hand(
        &self,
        host: &M,
        id: VmoId,
        page: u64,
        in_hand: &InHand,
        present: Present,
    ) -> Result<(), Unplaced> {
        let (family, node) = self.lock(id).map_err(Unplaced::Refused)?;
        let object = family.object(node);
        if page >= object.pages.get() {
            return Err(Unplaced::Refused(VmoError::OutOfRange));
        }
        let at = object.base.get() + page;
        if family.is_pager_backed(node) && !family.is_absent(node, at) {
            // It would be lost when it is evicted.
            return Err(Unplaced::Refused(VmoError::OutOfRange));
        }
        let own = family.own(node, at);
        match own {
            Some(own) if present == Present::Goes => {
                if family.count(own.place) > 0 {
                    return Err(Unplaced::Refused(VmoError::BadState));
                }
                family.free(host, own.place, own.entry);
            }
            Some(_) => {
                family.drop_in_hand(host, in_hand);
                return Ok(());
            }
            None => {}
        }
        // Where it had an entry there is a place, so nothing fails from here on.
        let place = family
            .make_place(host, node, at)
            .ok_or(Unplaced::NoTables)?;
        let hidden = match own {
            None => family.inherited(node, at),
            Some(_) => None,
        };
        if let Entry::Page(_) = in_hand.entry {
            host.rename(in_hand.from, place);
        }
        if let Entry::Compressed(reference) = in_hand.entry {
            let owner = family.entries(place.0).owner(place.1);
            self.engine.write_owner(host, reference, owner);
        }
        family.attach(place, in_hand);
        if let Some(hidden) = hidden {
            family.let_go(host, hidden);
        }
        if family.is_pager_backed(node) {
            host.answered(id, page..page + 1);
        }
        Ok(())
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Moves what `node` holds from `*at` to `end` into the list, as far as it goes.
    fn take(&self, host: &M, node: NodeId, list: NodeId, at: &mut u64, end: u64) -> Taken {
        let engine = self.engine();
        while let Some((next, found)) = self.next_seen(node, *at, end) {
            *at = next;
            let above = self.find_above(node, next).is_some();
            match found.entry {
                // It hides, or is, nothing but zeros: the list needs to hold nothing.
                Entry::Zero if found.node != node || above => {}
                _ if found.node != node => return Taken::Shared(next),
                _ if self.count(found.place) > 0 => return Taken::Pinned,
                _ => {
                    let Some(place) = self.make_place(host, list, next) else {
                        return Taken::NoTables;
                    };
                    let record = if above { engine.take_record() } else { None };
                    if above && record.is_none() {
                        return Taken::NoTables;
                    }
                    self.relocate(host, found.place, place);
                    if let Some(record) = record {
                        let entries = self.entries(found.place.0);
                        engine.mark_zero(&entries, found.place.1, record);
                    }
                }
            }
            *at = next + 1;
        }
        Taken::All
    }

    /// Takes an entry out of its place: its frame stays there.
    fn detach(&self, found: Found) -> InHand {
        let engine = self.engine();
        match found.entry {
            Entry::Page(record) => engine.queues.lock().remove(record),
            Entry::Compressed(_) => {
                // So compaction leaves it where it is.
                let _storage = engine.storage.lock();
                engine.unpublished.fetch_add(1, Relaxed);
            }
            _ => {}
        }
        self.entries(found.place.0).set(found.place.1, Entry::Empty);
        InHand {
            entry: found.entry,
            from: found.place,
        }
    }

    /// Writes an entry in hand to an empty place, at which its frame is by now.
    fn attach(&self, place: Place, in_hand: &InHand) {
        let engine = self.engine();
        let entries = self.entries(place.0);
        match in_hand.entry {
            Entry::Page(record) => {
                let mut queues = engine.queues.lock();
                let page = engine.queues.record(record);
                page.set_backlink(place.0, place.1);
                page.set_mark(PAGER_BACKED, entries.is_pager_backed());
                queues.push_to(record, entries.queue());
            }
            Entry::Compressed(_) => {
                engine.unpublished.fetch_sub(1, Release);
            }
            _ => {}
        }
        entries.set(place.1, in_hand.entry);
    }

    /// Frees an entry in hand.
    fn drop_in_hand(&self, host: &M, in_hand: &InHand) {
        let engine = self.engine();
        match in_hand.entry {
            Entry::Page(record) => {
                host.drop_page(in_hand.from);
                engine.queues.lock().give(record);
            }
            entry => {
                engine.forget(host, entry);
                if let Entry::Compressed(_) = entry {
                    engine.unpublished.fetch_sub(1, Release);
                }
            }
        }
    }
}
