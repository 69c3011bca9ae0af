//! Finding the page behind an access: what is read, and the page that can be written.
//!
//! Both look with the family's lock held, and give it back to restore content, to wait for somebody
//! who does, or to grow tables; then they look again. What they return, they return with the lock
//! held.

use super::family::Family;
use super::lookup::Found;
use super::object::NodeId;
use super::{VmoError, VmoId, Vmos};
use crate::compression::fault::FaultOutcome;
use crate::compression::track::Holds;
use crate::compression::worker::Worker;
use crate::machine::host::{Access, Installed};
use crate::machine::memory::{Memory, Place};
use crate::pages::entry::Entry;
use crate::pages::tables::Growth;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// What an access reads.
#[derive(Clone, Copy)]
pub(super) enum Readable {
    /// This word, again and again.
    Filled(u64),
    /// The page in place there; whether it is the VMO's own.
    Page(Place, bool),
}

/// What a VMO sees at one position, with its lock held.
pub(super) struct Look<'a, M: Memory, C: PageCodec, S: CompressedStorage> {
    pub(super) family: Family<'a, M, C, S>,
    pub(super) node: NodeId,
    pub(super) at: u64,
    pub(super) found: Option<Found>,
}

/// Why there is no page yet.
pub(super) enum Missing {
    /// There is no room in tables.
    Tables,
    /// The machine has no frame.
    Frame,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Locks a VMO and finds what it sees in page `page`.
    pub(super) fn look(&self, id: VmoId, page: u64) -> Result<Look<'_, M, C, S>, VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if page >= object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        let at = object.base.get() + page;
        let found = family.find(node, at);
        Ok(Look {
            family,
            node,
            at,
            found,
        })
    }

    /// What page `page` reads as: its content is in place afterwards, unless it is one word.
    pub(super) fn readable(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        page: u64,
    ) -> Result<(Family<'_, M, C, S>, Readable), VmoError> {
        loop {
            let Look {
                family,
                node,
                at,
                found,
            } = self.look(id, page)?;
            let Some(found) = found else {
                if family.is_absent(node, at) {
                    self.request(host, id, page, family)?;
                    continue;
                }
                return Ok((family, Readable::Filled(0)));
            };
            match found.entry {
                Entry::Zero => return Ok((family, Readable::Filled(0))),
                Entry::SameFilled(word) => return Ok((family, Readable::Filled(word))),
                Entry::Page(record) => {
                    let engine = family.engine();
                    engine.queues.lock().touch(record);
                    return Ok((family, Readable::Page(found.place, found.node == node)));
                }
                _ => self.bring_back(host, worker, family, found)?,
            }
        }
    }

    /// The page in place that `id` itself has as its page `page`.
    pub(super) fn writable(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        page: u64,
        growth: Growth,
    ) -> Result<(Family<'_, M, C, S>, Place), VmoError> {
        loop {
            let Look {
                family,
                node,
                at,
                found,
            } = self.look(id, page)?;
            let had = match found {
                Some(found) => match found.entry {
                    Entry::Page(record) if found.node == node => {
                        let engine = family.engine();
                        engine.queues.lock().touch(record);
                        family.written(found.place);
                        return Ok((family, found.place));
                    }
                    Entry::Page(_) => family.page_from(host, node, at, found),
                    Entry::Zero => family.page_of_zeros(host, node, at, Some(found)),
                    _ => {
                        self.bring_back(host, worker, family, found)?;
                        continue;
                    }
                },
                None if family.is_absent(node, at) => {
                    self.request(host, id, page, family)?;
                    continue;
                }
                None => family.page_of_zeros(host, node, at, None),
            };
            match had {
                Ok(place) => {
                    family.written(place);
                    return Ok((family, place));
                }
                Err(Missing::Frame) => return Err(VmoError::NoMemory),
                Err(Missing::Tables) if growth == Growth::Forbidden => {
                    return Err(VmoError::NoMemory);
                }
                Err(Missing::Tables) => {
                    drop(family);
                    self.grow(host)?;
                }
            }
        }
    }

    /// Has content that is away brought into place, by this worker or by the one that is at it. It
    /// may be somewhere else afterwards, or gone.
    pub(super) fn bring_back(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        family: Family<'_, M, C, S>,
        found: Found,
    ) -> Result<(), VmoError> {
        match found.entry {
            Entry::Poisoned => return Err(VmoError::Poisoned),
            Entry::Request(busy) => {
                let seen = host.wakes(found.place);
                drop(family);
                host.wait(found.place, busy, seen);
            }
            entry => {
                debug_assert!(!matches!(entry, Entry::Empty | Entry::Page(_)));
                let list = self.engine.list_of(family.into_held(), found.place.0);
                let outcome = self.engine.restore(host, worker, list, found.place, entry);
                if outcome == Some(FaultOutcome::NoMemory) {
                    return Err(VmoError::NoMemory);
                }
            }
        }
        Ok(())
    }

    /// Makes room in tables for one page more. No lock is held.
    pub(super) fn grow(&self, host: &M) -> Result<(), VmoError> {
        let engine = &self.engine;
        let grown = engine.tables.reserve_segments(host, 1)
            && engine.prepare_for(host, 1, 0)
            && engine.reserve_record(host);
        grown.then_some(()).ok_or(VmoError::NoMemory)
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    /// Gives `node` a page of zeros, where it sees nothing or a marker.
    pub(super) fn page_of_zeros(
        &self,
        host: &M,
        node: NodeId,
        at: u64,
        marker: Option<Found>,
    ) -> Result<Place, Missing> {
        let engine = self.engine();
        let own = marker.filter(|marker| marker.node == node);
        let (place, record) = match own {
            Some(own) => (own.place, engine.take_record_of_marker()),
            None => {
                let place = self.make_place(host, node, at).ok_or(Missing::Tables)?;
                (place, engine.take_record())
            }
        };
        let record = record.ok_or(Missing::Tables)?;
        match host.install_zero(place.0, place.1, Access::Write) {
            Installed::Done => {}
            _ => {
                match own {
                    Some(_) => engine.give_record_of_marker(record),
                    None => engine.give_record(record),
                }
                return Err(Missing::Frame);
            }
        }
        engine.attach(&self.entries(place.0), place, record, Holds::Zeros);
        if let (None, Some(marker)) = (own, marker) {
            self.let_go(host, marker);
        }
        Ok(place)
    }

    /// Gives `node` the page of a hidden node that it sees: itself, if nobody else sees it, else a
    /// copy.
    fn page_from(&self, host: &M, node: NodeId, at: u64, found: Found) -> Result<Place, Missing> {
        let place = self.make_place(host, node, at).ok_or(Missing::Tables)?;
        if self.count(found.place) == 0 {
            self.relocate(host, found.place, place);
            return Ok(place);
        }
        let record = self.engine().take_record().ok_or(Missing::Tables)?;
        if host.copy(found.place, place) != Installed::Done {
            self.engine().give_record(record);
            return Err(Missing::Frame);
        }
        self.engine()
            .attach(&self.entries(place.0), place, record, Holds::Content);
        self.let_go(host, found);
        Ok(place)
    }
}
