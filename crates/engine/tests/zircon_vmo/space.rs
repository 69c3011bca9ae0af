//! Address spaces: what a kernel has above VMOs. A mapping shows a range of a VMO at an address; what it
//! shows in this moment the [machine](Machine) knows, which the engine tells to protect and unmap.
#![allow(dead_code, reason = "each test file uses what it needs")]

use crate::kernel::*;
use coldpress_engine::vmo::VmoId;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Pages that one fault shows at most.
pub const FAULT_AROUND: u64 = 16;

/// A handle of a VMO: it lives as long as one does, or a mapping.
pub type Handle = Rc<Owned>;

pub struct Owned {
    s: &'static System,
    pub id: VmoId,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.s.destroy(self.id);
    }
}

/// A mark of latency sensitivity, for as long as a part of the mapping is left that set it.
pub struct Mark(Handle);

impl Drop for Mark {
    fn drop(&mut self) {
        let vmos = &self.0.s.vmos;
        vmos.unmark_latency_sensitive(self.0.id).unwrap();
    }
}

pub fn handle(s: &'static System, id: VmoId) -> Handle {
    Rc::new(Owned { s, id })
}

/// A mapping; pages are counted, not bytes.
#[derive(Clone)]
pub struct Mapping {
    /// Where it begins.
    pub base: u64,
    pub pages: u64,
    pub vmo: Handle,
    /// The page of the VMO that it begins with.
    pub offset: u64,
    pub writable: bool,
    mark: Option<Rc<Mark>>,
    /// By what the machine knows it. No two mappings have the same, so that nothing of an old one is
    /// left in a new one.
    key: u32,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.base + self.pages
    }

    /// The pages of the VMO that it shows.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.pages
    }
}

/// Why an access ends the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    NotMapped,
    NotWritable,
}

/// A region of addresses, with mappings and regions in it.
pub struct Space {
    s: &'static System,
    w: TestWorker,
    pub mappings: Vec<Mapping>,
    pub regions: Vec<Space>,
    latency_sensitive: bool,
}

impl Space {
    pub fn new(s: &'static System) -> Self {
        Self {
            s,
            w: worker(200),
            mappings: Vec::new(),
            regions: Vec::new(),
            latency_sensitive: false,
        }
    }

    /// A region in it, which is as latency-sensitive as it is itself. Its number.
    pub fn add_region(&mut self) -> usize {
        let mut region = Self::new(self.s);
        region.latency_sensitive = self.latency_sensitive;
        self.regions.push(region);
        self.regions.len() - 1
    }

    /// Says whether everything mapped here, and in the regions below, is latency-sensitive.
    pub fn set_latency_sensitive(&mut self, on: bool) {
        self.latency_sensitive = on;
        for n in 0..self.mappings.len() {
            let mark = self.mark_for(&self.mappings[n].vmo.clone());
            self.mappings[n].mark = mark;
        }
        let regions = self.regions.iter_mut();
        regions.for_each(|region| region.set_latency_sensitive(on));
    }

    fn mark_for(&mut self, vmo: &Handle) -> Option<Rc<Mark>> {
        if !self.latency_sensitive {
            return None;
        }
        let Self { s, w, .. } = self;
        s.vmos
            .mark_latency_sensitive(&s.machine, w, vmo.id)
            .unwrap();
        Some(Rc::new(Mark(vmo.clone())))
    }

    /// Shows pages of a VMO at `base`, instead of what was there.
    pub fn map(&mut self, base: u64, vmo: &Handle, pages: Range<u64>) {
        self.map_with(base, vmo, pages, true);
    }

    pub fn map_with(&mut self, base: u64, vmo: &Handle, pages: Range<u64>, writable: bool) {
        static KEYS: AtomicU32 = AtomicU32::new(1);
        let (offset, pages) = (pages.start, pages.end - pages.start);
        assert!(offset + pages <= self.s.vmos.pages(vmo.id).unwrap());
        self.unmap(base..base + pages);
        let mark = self.mark_for(vmo);
        self.mappings.push(Mapping {
            base,
            pages,
            vmo: vmo.clone(),
            offset,
            writable,
            mark,
            key: KEYS.fetch_add(1, Relaxed),
        });
        self.mappings.sort_by_key(|mapping| mapping.base);
    }

    /// Takes mappings out of a range, and parts of mappings.
    pub fn unmap(&mut self, range: Range<u64>) {
        let part = |mapping: &Mapping, base: u64, end: u64| {
            (base < end).then(|| Mapping {
                base,
                pages: end - base,
                offset: mapping.offset + (base - mapping.base),
                ..mapping.clone()
            })
        };
        let before = std::mem::take(&mut self.mappings);
        for mapping in before {
            let left = part(&mapping, mapping.base, mapping.end().min(range.start));
            let right = part(&mapping, mapping.base.max(range.end), mapping.end());
            self.mappings.extend(left.into_iter().chain(right));
        }
    }

    pub fn find(&self, page: u64) -> Option<&Mapping> {
        let holds = |mapping: &&Mapping| (mapping.base..mapping.end()).contains(&page);
        self.mappings.iter().find(holds)
    }

    /// What is shown at this moment, without a fault.
    pub fn shown(&self, page: u64) -> Option<Mapped> {
        self.s.machine.mapped((self.find(page)?.key, page))
    }

    /// The program reads a byte, or writes one.
    pub fn touch(
        &self,
        w: &mut TestWorker,
        page: u64,
        offset: usize,
        write: Option<u8>,
    ) -> Result<u8, Violation> {
        let mapping = self.find(page).ok_or(Violation::NotMapped)?;
        if write.is_some() && !mapping.writable {
            return Err(Violation::NotWritable);
        }
        let at = (mapping.vmo.id, mapping.offset + page - mapping.base);
        Ok(self.s.touch(w, (mapping.key, page), at, offset, write))
    }

    pub fn read(&self, w: &mut TestWorker, page: u64, offset: usize) -> u8 {
        self.touch(w, page, offset, None).unwrap()
    }

    pub fn write(&self, w: &mut TestWorker, page: u64, offset: usize, byte: u8) {
        self.touch(w, page, offset, Some(byte)).unwrap();
    }

    /// Shows whatever of a range is in place, without faults: what a kernel does for a mapping that is
    /// made ready beforehand, and around a fault. How many pages.
    pub fn show_in_place(&self, range: Range<u64>) -> u64 {
        let mut shown = 0;
        for mapping in &self.mappings {
            let (from, to) = (range.start.max(mapping.base), range.end.min(mapping.end()));
            if from >= to {
                continue;
            }
            let first = mapping.offset + (from - mapping.base);
            let show = |page: u64, place, own| {
                let address = page - mapping.offset + mapping.base;
                let writable = own && mapping.writable;
                self.s.machine.map((mapping.key, address), place, writable);
                shown += 1;
            };
            let pages = first..first + (to - from);
            self.s.vmos.lookup(mapping.vmo.id, pages, show).unwrap();
        }
        shown
    }

    /// A page is read or written, and up to `FAULT_AROUND` pages from it on that are in place are
    /// shown at once. How many.
    pub fn touch_around(&self, w: &mut TestWorker, page: u64, write: Option<u8>) -> u64 {
        self.touch(w, page, 0, write).unwrap();
        let end = self.find(page).unwrap().end();
        self.show_in_place(page..end.min(page + FAULT_AROUND))
    }

    /// Touches the first byte of each page of a range, as if they faulted together. How many could be,
    /// and why no more.
    pub fn touch_range(
        &self,
        w: &mut TestWorker,
        range: Range<u64>,
        write: Option<u8>,
    ) -> (u64, Option<Violation>) {
        for page in range.clone() {
            if let Err(why) = self.touch(w, page, 0, write) {
                return (page - range.start, Some(why));
            }
        }
        (range.end - range.start, None)
    }
}
