//! Stubs: what stands in storage for a page whose payload was taken below memory by the host ([`Host::write_back`]).
//!
//! A stub is an object like others, a header and four bytes that name the host's record. So page lists, compaction,
//! transfers and snapshots do with it what they do with any object, and nothing but bringing its content back waits for
//! a device. The record belongs to the object: it is given up when the object is freed.
//!
//! Invariants:
//! * W1 A record is named by one object, and that object by one entry, or it is unpublished and its maker's.
//! * W2 A record is read by a worker whose request stands for its object, so it is not given up meanwhile
//!   (`restore`, I1).
//! * W3 A record is made and read without any lock.

use crate::Engine;
use crate::compression::stored::{HEADER_BYTES, Header, RECORD_BYTES};
use crate::figures::counters::{add, sub};
use crate::machine::host::Host;
use crate::pages::entry::Entry;
use crate::{PageIndex, SegmentId};
use coldpress_codec::{PAGE_SIZE, Page, PageCodec};
use coldpress_storage::{CompressedStorage, Reference, read_at};

/// Bytes of a stub.
const STUB_BYTES: usize = HEADER_BYTES + RECORD_BYTES;

/// Whether an object may be a stub, as its length tells.
pub(crate) fn may_be_stub(reference: Reference) -> bool {
    reference.len() == STUB_BYTES
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Whether the content of a page is below memory.
    pub fn is_written_back(&self, segment: SegmentId, index: PageIndex) -> bool {
        matches!(self.entry(segment, index), Entry::Compressed(reference) if may_be_stub(reference))
    }

    /// Has the host take a payload below memory. The number of its record.
    pub(crate) fn make_record(&self, host: &H, checksum: u32, payload: &[u8]) -> Option<u32> {
        let record = host.write_back(checksum.into(), payload)?;
        add(&self.counters.written_back_pages, 1);
        add(&self.counters.write_backs, 1);
        Some(record)
    }

    /// A record is not needed any more.
    pub(crate) fn give_up_record(&self, host: &H, checksum: u32, record: u32) {
        host.give_up_record(record, checksum.into());
        sub(&self.counters.written_back_pages, 1);
    }

    /// Brings the page of a record into `page`; `room` is free to use. Whether that could be done.
    pub(crate) fn fetch(
        &self,
        host: &H,
        (header, record): (&Header, u32),
        room: &mut Page,
        scratch: &mut C::Scratch,
        page: &mut Page,
    ) -> bool {
        let length = host.read_back(record, header.checksum.into(), room);
        let fetched = length.is_some_and(|length| match room.get(..length) {
            Some(whole) if length == PAGE_SIZE => {
                page.copy_from_slice(whole);
                true
            }
            Some(payload) => self.codec.decompress(scratch, payload, page).is_ok(),
            None => false,
        });
        let counter = match fetched {
            true => &self.counters.read_backs,
            false => &self.counters.failed_read_backs,
        };
        add(counter, 1);
        fetched
    }

    /// Frees an object that no entry names any more, and the record that it names, if it is a stub.
    pub(crate) fn free_object(&self, host: &H, reference: Reference) {
        if may_be_stub(reference) {
            let mut stub = [0; STUB_BYTES];
            // SAFETY: not freed yet, and written once, before any entry named it; the owner, which may be written
            // again, is not looked at.
            let whole = unsafe { read_at(host.frames(), reference, 0, &mut stub) };
            let read = Header::read(&stub).filter(|_| whole);
            if let Some((header, payload)) = read
                && let Some(record) = header.record(payload)
            {
                self.give_up_record(host, header.checksum, record);
            }
        }
        self.storage.lock().free(host.frames(), reference);
    }
}
