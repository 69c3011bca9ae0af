//! Reading and writing by system call, committing and prefetching.

use super::resolve::Readable;
use super::{VmoError, VmoId, Vmos};
use crate::compression::worker::Worker;
use crate::machine::memory::Memory;
use crate::pages::entry::Entry;
use crate::pages::tables::Growth;
use coldpress_codec::{PAGE_SIZE, PageCodec};
use coldpress_storage::CompressedStorage;
use core::ops::Range;

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// Reads bytes from `offset` on. What is zeros is read without a page.
    pub fn read(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), VmoError> {
        self.check_bytes(id, offset, into.len())?;
        for (page, start, part) in pieces(offset, into.len()) {
            let into = &mut into[part];
            let (_family, readable) = self.readable(host, worker, id, page)?;
            match readable {
                Readable::Filled(word) => {
                    let word = word.to_le_bytes();
                    for (n, byte) in into.iter_mut().enumerate() {
                        *byte = word[(start + n) % word.len()];
                    }
                }
                Readable::Page(place, _) => host.read(place, start, into),
            }
        }
        Ok(())
    }

    /// Writes bytes from `offset` on.
    pub fn write(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), VmoError> {
        self.check_bytes(id, offset, bytes.len())?;
        for (page, start, part) in pieces(offset, bytes.len()) {
            let (_family, place) = self.writable(host, worker, id, page, Growth::Allowed)?;
            host.write(place, start, &bytes[part]);
        }
        Ok(())
    }

    /// Has every page of the range in place and the VMO's own: fresh ones, copies, decompressed ones,
    /// supplied ones.
    pub fn commit(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        let paged = self.is_pager_backed(id)?;
        for page in pages {
            match paged {
                true => self.commit_paged(host, worker, id, page)?,
                false => drop(self.writable(host, worker, id, page, Growth::Allowed)?),
            }
        }
        Ok(())
    }

    /// Has everything that is remembered of the range in place, without copying or committing what
    /// is zeros. The pager is asked for what it has.
    pub fn prefetch(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        self.check_pages(id, &pages)?;
        if !self.is_pager_backed(id)? {
            return self.bring_all_back(host, worker, id, pages);
        }
        for page in pages {
            self.readable(host, worker, id, page)?;
        }
        Ok(())
    }

    /// Has everything that the engine remembers of the range in place, as far as the VMO reaches.
    pub(super) fn bring_all_back(
        &self,
        host: &M,
        worker: &mut Worker<C>,
        id: VmoId,
        pages: Range<u64>,
    ) -> Result<(), VmoError> {
        let mut page = pages.start;
        loop {
            let (family, node) = self.lock(id)?;
            let object = family.object(node);
            let base = object.base.get();
            let end = pages.end.min(object.pages.get());
            let Some((at, found)) = family.next_seen(node, base + page, base + end) else {
                return Ok(());
            };
            match found.entry {
                Entry::Page(_) | Entry::Zero => page = at - base + 1,
                _ => {
                    page = at - base;
                    self.bring_back(host, worker, family, found)?;
                }
            }
        }
    }

    /// Shows the pages of the range that are in place, as the VMO sees them: their index, and whether
    /// they are its own. Brings nothing back. Under the lock: `show` is short.
    pub fn lookup(
        &self,
        id: VmoId,
        pages: Range<u64>,
        mut show: impl FnMut(u64, crate::Place, bool),
    ) -> Result<(), VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if pages.start > pages.end || pages.end > object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        let base = object.base.get();
        let (mut next, end) = (base + pages.start, base + pages.end);
        while let Some((at, found)) = family.next_seen(node, next, end) {
            if let Entry::Page(_) = found.entry {
                show(at - base, found.place, found.node == node);
            }
            next = at + 1;
        }
        Ok(())
    }

    /// The entry that a VMO sees as its page `page`.
    pub fn entry(&self, id: VmoId, page: u64) -> Result<Entry, VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if page >= object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        let found = family.find(node, object.base.get() + page);
        Ok(found.map_or(Entry::Empty, |found| found.entry))
    }

    pub(super) fn check_bytes(&self, id: VmoId, offset: u64, len: usize) -> Result<(), VmoError> {
        let bytes = self.pages(id)? * PAGE_SIZE as u64;
        match offset.checked_add(len as u64) {
            Some(end) if end <= bytes => Ok(()),
            _ => Err(VmoError::OutOfRange),
        }
    }

    pub(super) fn check_pages(&self, id: VmoId, pages: &Range<u64>) -> Result<(), VmoError> {
        match pages.start <= pages.end && pages.end <= self.pages(id)? {
            true => Ok(()),
            false => Err(VmoError::OutOfRange),
        }
    }
}

/// Cuts `len` bytes from `offset` on at the bounds of pages: the page, the offset in it, which bytes.
pub(super) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = (at % PAGE_SIZE as u64) as usize;
        let part = done..len.min(done + PAGE_SIZE - start);
        done = part.end;
        (!part.is_empty()).then_some((at / PAGE_SIZE as u64, start, part))
    })
}
