//! Writing whole pages, without a look at what they hold.
//!
//! [`Vmos::write`] has a page in place before it writes to it, which means decompressing what is about to be
//! overwritten, and no page whose content is in doubt can be written at all. Here the new content gets a frame first,
//! and then what was remembered is given up: with an error nothing has changed.

use super::family::Family;
use super::lookup::Found;
use super::object::NodeId;
use super::resolve::{Look, Missing};
use super::{VmoError, VmoId, Vmos};
use crate::compression::track::Holds;
use crate::machine::host::{Access, Installed};
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use coldpress_codec::{Page, PageCodec};
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Has page `page` hold `content`, whatever it held before. Not for VMOs with a user pager.
    pub fn overwrite(
        &self,
        host: &M,
        id: VmoId,
        page: u64,
        content: &Page,
    ) -> Result<(), VmoError> {
        loop {
            let Look {
                family,
                node,
                at,
                found,
            } = self.look(id, page)?;
            if family.is_pager_backed(node) {
                return Err(VmoError::NotSupported);
            }
            match family.overwrite(host, node, at, found, content) {
                Ok(()) => return Ok(()),
                Err(Missing::Frame) => return Err(VmoError::NoMemory),
                Err(Missing::Tables) => {
                    drop(family);
                    self.grow(host)?;
                }
            }
        }
    }
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Family<'_, M, C, S> {
    fn overwrite(
        &self,
        host: &M,
        node: NodeId,
        at: u64,
        found: Option<Found>,
        content: &Page,
    ) -> Result<(), Missing> {
        match found {
            Some(own) if own.node == node => self.overwrite_own(host, own, content),
            other => {
                let engine = self.engine();
                let place = self.make_place(host, node, at).ok_or(Missing::Tables)?;
                let record = engine.take_record().ok_or(Missing::Tables)?;
                // A machine may have frames for what it holds already, and none for more.
                if host.install_zero(place.0, place.1, Access::Write) != Installed::Done {
                    engine.give_record(record);
                    return Err(Missing::Frame);
                }
                host.write(place, 0, content);
                engine.attach(&self.entries(place.0), place, record, Holds::Content);
                if let Some(other) = other {
                    self.let_go(host, other);
                }
                Ok(())
            }
        }
    }

    fn overwrite_own(&self, host: &M, own: Found, content: &Page) -> Result<(), Missing> {
        let (engine, place) = (self.engine(), own.place);
        if let Entry::Page(record) = own.entry {
            engine.queues.lock().touch(record);
            host.write(place, 0, content);
            return Ok(());
        }
        if host.install(place.0, place.1, content) != Installed::Done {
            return Err(Missing::Frame);
        }
        let entries = self.entries(place.0);
        if !engine.blank(host, &entries, place.1) {
            host.drop_page(place);
            return Err(Missing::Tables);
        }
        let record = engine.take_record_of_marker();
        let record = record.expect("one is reserved for each marker");
        engine.attach(&entries, place, record, Holds::Content);
        if let Entry::Request(_) = own.entry {
            // Its worker will find that its page is not wanted any more.
            host.wake(place.0, place.1);
        }
        Ok(())
    }
}
