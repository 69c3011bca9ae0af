//! Reading without bringing anything into place.
//!
//! [`Vmos::read`] has content brought back, so that the next access finds it. A device whose readers have a cache in
//! front of it gains nothing by that, and must be readable when no frame is left: here what is compressed is decoded
//! into the worker's own page, and stays compressed.
//!
//! What is read is not made young by it: pages age from when they were written.

use super::access::pieces;
use super::resolve::Look;
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Reads bytes from `offset` on, and leaves everything as it is held. Takes no frame and grows no table, but
    /// where a user pager has to supply the page.
    pub fn read_stored(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), VmoError> {
        self.check_bytes(id, offset, into.len())?;
        for (page, start, part) in pieces(offset, into.len()) {
            self.read_page_stored(host, worker, id, (page, start), &mut into[part])?;
        }
        Ok(())
    }

    fn read_page_stored(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        (page, start): (u64, usize),
        into: &mut [u8],
    ) -> Result<(), VmoError> {
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
                into.fill(0);
                return Ok(());
            };
            match found.entry {
                Entry::Page(_) => host.read(found.place, start, into),
                Entry::SameFilled(word) => fill(into, start, word),
                Entry::Temporary(slot) => {
                    // SAFETY: while the entry names the slot, which the held lock keeps so, the
                    // compressor has not released it.
                    let staged = unsafe { host.staging(slot) };
                    into.copy_from_slice(&staged[start..][..into.len()]);
                }
                Entry::Compressed(reference) => {
                    let list = self.engine.list_of(family.into_held(), found.place.0);
                    let looked = self
                        .engine
                        .look_at(host, worker, list, found.place, reference);
                    let content = looked.ok_or(VmoError::Poisoned)?;
                    into.copy_from_slice(&content[start..][..into.len()]);
                }
                Entry::Request(_) | Entry::Poisoned => {
                    self.bring_back(host, worker, family, found)?;
                    continue;
                }
                Entry::Empty | Entry::Zero | Entry::ZeroInterval(..) => into.fill(0),
            }
            return Ok(());
        }
    }
}

/// The bytes from `start` on of a page that repeats a word.
fn fill(into: &mut [u8], start: usize, word: u64) {
    debug_assert!(start + into.len() <= PAGE_SIZE);
    let word = word.to_le_bytes();
    for (n, byte) in into.iter_mut().enumerate() {
        *byte = word[(start + n) % word.len()];
    }
}
