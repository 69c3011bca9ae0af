//! Writing back: payloads of stored pages go below memory, and leave stubs (`stub.rs`).
//!
//! What to write back the host decides, by the search that recompression has ([`Engine::find_stored`]). A page that was
//! found was decoded and verified; from there on it is recompression with a stub for the new object:
//!
//! ```text
//!  no lock:  the host takes the payload, as it is · storage lock: a place for the stub · no lock: write it
//!  VMO lock: the entry still is that reference, and the object still these bytes?
//!            then the entry becomes the stub's reference
//!  storage lock: free the old object; or, if the entry is another now, the stub, with its record
//! ```
//!
//! A page that does not compress is written back whole on its way out of staging (`compress::slot`), if a page must go:
//! never for its age alone.

use crate::Engine;
use crate::compression::recode::Recoder;
use crate::compression::stored::{HEADER_BYTES, Header, RECORD_BYTES};
use crate::machine::host::Host;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// What became of a page that was to be written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBack {
    /// It is held by so many bytes less of storage.
    Done(usize),
    /// It takes fewer bytes than asked for.
    TooSmall,
    /// The host does not take it.
    Refused,
    /// There is no place for the stub.
    NoStorage,
    /// The page was touched, dropped or moved meanwhile.
    Overtaken,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Writes back the page that was found last, if its payload has at least so many bytes: of a small one, a stub and
    /// what the host has to know of the record are a good part.
    pub fn write_back<D: PageCodec>(
        &self,
        host: &H,
        recoder: &mut Recoder<C, D>,
        least_bytes: usize,
    ) -> WrittenBack {
        let Some((found, object, gather)) = recoder.take_found() else {
            return WrittenBack::Overtaken;
        };
        let (checksum, payload) = (found.header.checksum, &object[HEADER_BYTES..]);
        if payload.len() < least_bytes.max(RECORD_BYTES + 1) {
            return WrittenBack::TooSmall;
        }
        let saved = payload.len() - RECORD_BYTES;
        let Some(record) = self.make_record(host, checksum, payload) else {
            return WrittenBack::Refused;
        };
        let header = Header {
            same_filled: true,
            ..found.header
        };
        match self.replace_found(host, (found, object, gather), header, &record.to_le_bytes()) {
            Some(true) => WrittenBack::Done(saved),
            Some(false) => WrittenBack::Overtaken,
            None => {
                self.give_up_record(host, checksum, record);
                WrittenBack::NoStorage
            }
        }
    }
}
