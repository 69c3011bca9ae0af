//! Storing pages that stay cold a second time, denser: the second tier of compression.
//!
//! A page is compressed by a codec that is quick, since it may be wanted back at once. Most of those
//! that were not wanted for long never will be, and are worth a codec that is slower to decode. The
//! host looks for them when it has nothing better to do:
//!
//! ```text
//!  VMO lock: find a compressed reference that is old enough · copy the object
//!  no lock:  decode the copy and verify it · encode it denser
//!            decode that with the engine's codec, and compare the pages
//!  storage lock: allocate a place · no lock: write the object there
//!  VMO lock: the entry still is that reference, and the object still these bytes?
//!            then the entry becomes the new reference
//!  storage lock: free the old object; or the new one, if the entry is another now
//! ```
//!
//! The page stays what it is for everybody else all the time: a touch finds the old object or the
//! new one, and never waits for a codec that compresses.
//!
//! Invariants:
//! * I1 An object is looked at only under the lock of the VMO whose entry names it: whoever frees,
//!   moves or decodes it replaces that entry before, under the same lock, and nobody writes to an
//!   object that stands in an entry.
//! * I2 An entry is replaced only if its object is, byte for byte, the one that was copied. The same
//!   reference alone would not do: the page may have come back, been written, and been stored
//!   again in the same place. The same bytes are the same content, whatever happened meanwhile.
//! * I3 What is put in place of an object was decoded by the engine's own codec and found to be
//!   the page whose checksum the object names.
//!
//! The host brings the denser codec. The engine's own must decode what that encodes, so a stored page
//! must tell by its bytes which of the two made it.

use crate::compression::stored::{HEADER_BYTES, Header, OWNER_AT, milliseconds_since, stored_at};
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::machine::memory::Place;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::{Engine, SEGMENT_PAGES, SegmentId};
use coldpress_arena::Zeroable;
use coldpress_codec::{Compressed, PAGE_SIZE, Page, PageCodec, checksum};
use coldpress_storage::{CompressedStorage, Gather, Reference};
use core::ops::Range;

/// Entries that are looked at while a VMO lock is held: some microseconds.
const AT_ONCE: u32 = 32;

/// What a recoder works with. Zeroed memory is one.
#[repr(C, align(4096))]
pub struct RecoderRoom<C: PageCodec, D: PageCodec> {
    page: Page,
    /// The page as it is decoded from what shall be stored.
    again: Page,
    object: [u8; PAGE_SIZE],
    denser: [u8; PAGE_SIZE],
    gather: Gather,
    scratch: C::Scratch,
    state: D::State,
}

// SAFETY: plain bytes, and types that are themselves `Zeroable`; nothing to drop.
unsafe impl<C: PageCodec, D: PageCodec> Zeroable for RecoderRoom<C, D> {}

/// A thread that goes through what is stored, and what it has found there. `D` is the denser codec.
pub struct Recoder<C: PageCodec + 'static, D: PageCodec + 'static> {
    room: &'static mut RecoderRoom<C, D>,
    /// Where the search goes on.
    at: Place,
    found: Option<Found>,
}

/// A copied object.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    place: Place,
    reference: Reference,
    pub(crate) header: Header,
    len: usize,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The recoder has a page.
    Found,
    /// As many entries were looked at as was asked for.
    Unfinished,
    /// The last page list is looked through; the next search begins anew.
    PassEnded,
}

/// What became of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recoded {
    /// It is held by so many bytes less.
    Kept(usize),
    /// It would not be smaller by enough.
    NotWorthIt,
    /// There is no place for the object.
    NoStorage,
    /// The page was touched, dropped or moved meanwhile.
    Overtaken,
    /// What the denser codec made of it is not the page; nothing was changed.
    Wrong,
}

impl<C: PageCodec, D: PageCodec> Recoder<C, D> {
    /// A recoder that begins with the first page list.
    pub fn new(room: &'static mut RecoderRoom<C, D>) -> Self {
        Self {
            room,
            at: (1, 0),
            found: None,
        }
    }

    /// The next search begins with the first page list.
    pub fn begin(&mut self) {
        self.at = (1, 0);
    }

    /// The next search passes over so many entries.
    pub fn skip(&mut self, entries: u32) {
        let (segment, index) = self.at;
        let index = index + entries;
        self.at = (segment + index / SEGMENT_PAGES, index % SEGMENT_PAGES);
    }

    /// Where the next search begins.
    pub fn position(&self) -> Place {
        self.at
    }

    /// The next search begins there.
    pub fn go_to(&mut self, at: Place) {
        self.at = at;
    }

    /// What was found last, the copy of it, and memory to work with.
    pub(crate) fn take_found(&mut self) -> Option<(Found, &[u8], &mut Gather)> {
        let found = self.found.take()?;
        let RecoderRoom { object, gather, .. } = &mut *self.room;
        Some((found, &object[..found.len], gather))
    }

    /// The page that was found last, and the denser codec's memory: to learn from.
    pub fn sample(&mut self) -> (&Page, &mut D::State) {
        (&self.room.page, &mut self.room.state)
    }
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Looks for the next stored page that has been away for so many milliseconds, past `entries`
    /// entries at most, and decodes it.
    pub fn find_stored<D: PageCodec>(
        &self,
        host: &H,
        recoder: &mut Recoder<C, D>,
        away_ms: Range<u32>,
        entries: u32,
    ) -> Search {
        recoder.found = None;
        let mut left = entries;
        while left > 0 {
            let segment = recoder.at.0;
            if segment > self.tables.last_segment() {
                recoder.at = (1, 0);
                return Search::PassEnded;
            }
            let looked_at = left.min(AT_ONCE);
            left -= looked_at;
            match self.page_list_if_there(segment) {
                Some(list) => self.search(host, recoder, (list, segment), &away_ms, looked_at),
                None => recoder.at = (segment + 1, 0),
            }
            if recoder.found.is_some() && self.decode_found(recoder) {
                return Search::Found;
            }
        }
        Search::Unfinished
    }

    /// Looks on in one page list, and copies the first object that is wanted.
    fn search<D: PageCodec>(
        &self,
        host: &H,
        recoder: &mut Recoder<C, D>,
        (list, segment): (PageList<'_, H>, SegmentId),
        away_ms: &Range<u32>,
        entries: u32,
    ) {
        let now_ns = host.now_ns();
        for _ in 0..entries {
            let Some((index, entry)) = list.next(recoder.at.1) else {
                recoder.at = (segment + 1, 0);
                return;
            };
            recoder.at = (segment, index + 1);
            let Entry::Compressed(reference) = entry else {
                continue;
            };
            // SAFETY: I1, and the list is locked.
            let stored = unsafe { stored_at(host.frames(), reference) };
            let is_wanted = |stored| away_ms.contains(&milliseconds_since(stored, now_ns));
            if stored.is_some_and(is_wanted) {
                recoder.found = copy(host, recoder.room, (segment, index), reference);
                if recoder.found.is_some() {
                    return;
                }
            }
        }
    }

    /// Decodes what was copied. Not found is what is damaged: whoever touches it will learn so.
    fn decode_found<D: PageCodec>(&self, recoder: &mut Recoder<C, D>) -> bool {
        let RecoderRoom {
            page,
            object,
            scratch,
            ..
        } = &mut *recoder.room;
        let whole = recoder.found.is_some_and(|found| {
            let payload = &object[HEADER_BYTES..found.len];
            let decoded = self.codec.decompress(scratch, payload, page);
            decoded.is_ok() && checksum(page) == found.header.checksum
        });
        if !whole {
            recoder.found = None;
        }
        whole
    }

    /// Stores the page that was found last with `denser`, if its bytes become fewer by one part in
    /// `gain_part`, at least.
    pub fn recode<D: PageCodec>(
        &self,
        host: &H,
        recoder: &mut Recoder<C, D>,
        denser: &D,
        gain_part: usize,
    ) -> Recoded {
        let Some(found) = recoder.found.take() else {
            return Recoded::NotWorthIt;
        };
        if denser.has_made(&recoder.room.object[HEADER_BYTES..found.len]) {
            return Recoded::NotWorthIt;
        }
        let c = &self.counters;
        add(&c.recode_attempts, 1);
        let recoded = self.recode_found(host, recoder.room, found, denser, gain_part);
        match recoded {
            Recoded::Kept(saved) => {
                add(&c.recoded, 1);
                add(&c.recode_saved_bytes, saved as u64);
            }
            Recoded::NotWorthIt => {}
            Recoded::NoStorage | Recoded::Overtaken | Recoded::Wrong => {
                add(&c.recode_failures, 1);
            }
        }
        recoded
    }

    fn recode_found<D: PageCodec>(
        &self,
        host: &H,
        room: &mut RecoderRoom<C, D>,
        found: Found,
        denser: &D,
        gain_part: usize,
    ) -> Recoded {
        let RecoderRoom {
            page,
            again,
            object,
            denser: out,
            gather,
            scratch,
            state,
        } = room;
        let object = &object[..found.len];
        let payload_bytes = found.len - HEADER_BYTES;
        let most = payload_bytes - payload_bytes / gain_part;
        let Compressed::Stored(len) = denser.compress(state, page, &mut out[..most]) else {
            return Recoded::NotWorthIt;
        };
        let payload = &out[..len];
        if self.codec.decompress(scratch, payload, again).is_err() || again != page {
            return Recoded::Wrong;
        }
        match self.replace_found(host, (found, object, gather), found.header, payload) {
            Some(true) => Recoded::Kept(payload_bytes - len),
            Some(false) => Recoded::Overtaken,
            None => Recoded::NoStorage,
        }
    }

    /// Stores a payload in place of the object that was found and copied, if that still stands. Whether it does;
    /// `None`: there is no place.
    pub(crate) fn replace_found(
        &self,
        host: &H,
        (found, object, gather): (Found, &[u8], &mut Gather),
        header: Header,
        payload: &[u8],
    ) -> Option<bool> {
        let (segment, index) = found.place;
        let owner = self.tables.segment(segment).owner(index);
        let header = Header { owner, ..header };
        if !self.storage.lock().reserve(host, 1) {
            return None;
        }
        let reference = self.store_object(host, header, payload)?;
        let is_replaced = self.page_list_if_there(segment).is_some_and(|list| {
            let stands = list.get(index) == Entry::Compressed(found.reference)
                && is_same(host, gather, found.reference, object);
            if stands {
                if list.owner(index) != owner {
                    self.write_owner(host, reference, list.owner(index));
                }
                list.set(index, Entry::Compressed(reference));
            }
            stands
        });
        let useless = if is_replaced {
            found.reference
        } else {
            reference
        };
        self.free_object(host, useless);
        self.published(Entry::Compressed(reference));
        Some(is_replaced)
    }
}

/// Copies an object, whose entry's lock is held. `None`: it is damaged, or nothing for a codec, as a stub is.
fn copy<H: Host, C: PageCodec, D: PageCodec>(
    host: &H,
    room: &mut RecoderRoom<C, D>,
    place: Place,
    reference: Reference,
) -> Option<Found> {
    // SAFETY: I1.
    let bytes = unsafe { coldpress_storage::data(host.frames(), reference, &mut room.gather) }?;
    let (header, payload) = Header::read(bytes)?;
    if header.same_filled || payload.is_empty() {
        return None;
    }
    room.object.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(Found {
        place,
        reference,
        header,
        len: bytes.len(),
    })
}

/// Whether an object, whose entry's lock is held, is the one that was copied, wherever it belongs.
fn is_same<H: Host>(host: &H, gather: &mut Gather, reference: Reference, copied: &[u8]) -> bool {
    // SAFETY: I1.
    let bytes = unsafe { coldpress_storage::data(host.frames(), reference, gather) };
    bytes.is_some_and(|bytes| {
        bytes.len() == copied.len()
            && bytes[..OWNER_AT] == copied[..OWNER_AT]
            && bytes[HEADER_BYTES..] == copied[HEADER_BYTES..]
    })
}
