//! The plainest export: a disk in memory, as pages that were written, by number. What was never written, or was
//! trimmed, is a hole. For tests of clients, and to begin with.

use crate::export::{Export, Extent, Failure, Zeroing};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

type Page = Box<[u8; PAGE_BYTES]>;
type Pages = BTreeMap<u64, Page>;

/// A disk in plain memory.
pub struct Memory {
    pages: RwLock<Pages>,
    size_bytes: u64,
    read_only: bool,
}

/// The parts of a range that lie in one page each: number of the page, where in it, and how many bytes.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let (page_bytes, end) = (PAGE_BYTES as u64, offset + length);
    let mut at = offset;
    std::iter::from_fn(move || {
        let begin = at % page_bytes;
        let bytes = (page_bytes - begin).min(end - at);
        let part = (at / page_bytes, begin as usize, bytes as usize);
        at += bytes;
        (bytes > 0).then_some(part)
    })
}

impl Memory {
    /// An empty disk.
    pub fn new(size_bytes: u64) -> Self {
        Self {
            pages: RwLock::default(),
            size_bytes,
            read_only: false,
        }
    }

    /// The disk as it is, for readers only.
    pub fn read_only(self) -> Self {
        Self {
            read_only: true,
            ..self
        }
    }

    fn shared(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Export for Memory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn description(&self) -> String {
        format!("{} bytes of plain memory", self.size_bytes)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let pages = self.shared();
        let mut rest = buffer;
        for (number, begin, bytes) in parts(offset, rest.len() as u64) {
            let (part, after) = rest.split_at_mut(bytes);
            match pages.get(&number) {
                Some(page) => part.copy_from_slice(&page[begin..begin + bytes]),
                None => part.fill(0),
            }
            rest = after;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        let mut pages = self.exclusive();
        let mut rest = data;
        for (number, begin, bytes) in parts(offset, data.len() as u64) {
            let (part, after) = rest.split_at(bytes);
            let page = pages
                .entry(number)
                .or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[begin..begin + bytes].copy_from_slice(part);
            rest = after;
        }
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.write_zeroes(offset, length, Zeroing::MayPunch)
    }

    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure> {
        let may_punch = zeroing == Zeroing::MayPunch;
        let mut pages = self.exclusive();
        for (number, begin, bytes) in parts(offset, length) {
            if may_punch && bytes == PAGE_BYTES {
                pages.remove(&number);
            } else if may_punch {
                if let Some(page) = pages.get_mut(&number) {
                    page[begin..begin + bytes].fill(0);
                }
            } else {
                let page = pages
                    .entry(number)
                    .or_insert_with(|| Box::new([0; PAGE_BYTES]));
                page[begin..begin + bytes].fill(0);
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        let pages = self.shared();
        let state = |number: u64| match pages.get(&number) {
            None => Extent::Hole,
            Some(page) if page.iter().all(|byte| *byte == 0) => Extent::Zero,
            Some(_) => Extent::Data,
        };
        let first = state(offset / PAGE_BYTES as u64);
        let alike = parts(offset, length).take_while(|(number, ..)| state(*number) == first);
        Ok((alike.map(|(.., bytes)| bytes as u64).sum(), first))
    }
}
