//! Where a VMO holds something, and where it is zeros.

use super::{VmoError, VmoId, Vmos};
use crate::machine::memory::Memory;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::ops::Range;

/// Entries that are looked at under one hold of the lock.
const AT_ONCE: u64 = 1024;

/// Pages in a row that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The page behind the last of them.
    pub end: u64,
    /// Whether anything but zeros is remembered of them.
    pub is_content: bool,
}

impl<M: Memory, C: PageCodec, S: CompressedStorage> Vmos<M, C, S> {
    /// How far pages from the first of `pages`, which is not empty, are alike. May end early.
    pub fn extent(&self, id: VmoId, pages: Range<u64>) -> Result<Extent, VmoError> {
        let (family, node) = self.lock(id)?;
        let object = family.object(node);
        if pages.start >= pages.end || pages.end > object.pages.get() {
            return Err(VmoError::OutOfRange);
        }
        let base = object.base.get();
        let (start, end) = (base + pages.start, base + pages.end);
        let extent = |end, is_content| Extent {
            end: end - base,
            is_content,
        };
        let is_content_at = |next| {
            let seen = family.next_seen(node, next, end);
            seen.map(|(at, found)| (at, found.entry.is_content()))
        };
        let mut next = start;
        for _ in 0..AT_ONCE {
            match is_content_at(next) {
                None => return Ok(extent(end, false)),
                Some((at, true)) if at > start => return Ok(extent(at, false)),
                Some((_, true)) => break,
                Some((at, false)) => next = at + 1,
            }
        }
        if next > start {
            return Ok(extent(next, false));
        }
        for _ in 0..AT_ONCE {
            match is_content_at(next) {
                Some((at, true)) if at == next => next = at + 1,
                _ => break,
            }
        }
        Ok(extent(next, true))
    }
}
