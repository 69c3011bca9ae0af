//! What of the program's memory is in the file: what befalls it there, children that are to find it, and whether
//! records and pages agree at the end.

use super::World;
use super::file::{BLOCK_BYTES, overlap};
use super::os::SimOs;
use super::readers::{Kept, Moment};
use crate::damage::record_of;
use crate::inject::Kind;
use crate::schedule::{note, random, simulation};
use coldpress_engine::Entry;
use coldpress_pager::machine::os::SignalsBlocked;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

impl World {
    pub(super) fn entry_of(&self, page: usize) -> Option<Entry> {
        let (segment, index) = self.pager.host.place_of(page)?;
        Some(self.pager.engine.entry(segment, index))
    }

    /// Where in the file the record of a page lies.
    fn record_in_file(&self, page: usize) -> Option<Range<usize>> {
        let Some(Entry::Compressed(reference)) = self.entry_of(page) else {
            return None;
        };
        let record = record_of(&self.pager.host.memory, reference)?;
        let (at, length) = self.pager.tier.place(record)?;
        Some(at as usize..(at + length) as usize)
    }

    /// A page that has its record in the file, if there is one.
    pub(super) fn some_page_in_file(&self) -> Option<usize> {
        let _signals = SignalsBlocked::<SimOs>::new();
        let all = self.kernel.space.all();
        let first = random().below(all.len().max(1) as u64) as usize;
        let (before, behind) = all.split_at(first);
        let mut all = behind.iter().chain(before).copied();
        let is_in_file = |&page: &usize| self.record_in_file(page).is_some();
        self.kernel.frozen(|| all.find(is_in_file))
    }

    /// Something happens to the record of a page that is away, in the file. `false`: it is not there. Nothing changes,
    /// and nobody goes on meanwhile.
    pub(super) fn damage_record(&self, page: usize) -> bool {
        let Some(range) = self.record_in_file(page) else {
            return false;
        };
        let file = &self.kernel.file;
        let doubt = |page| {
            self.kernel.space.with(page, |state| state.doubtful = true);
        };
        match random().below(3) {
            0 => file.rot(range),
            1 => file.spoil(range),
            _ => {
                let at = range.start + random().below(range.len() as u64) as usize;
                let start = at - at % BLOCK_BYTES;
                let block = start..start + BLOCK_BYTES;
                let Some(pages) = self.pages_in(&block) else {
                    return true;
                };
                pages.into_iter().for_each(doubt);
                file.lose(block);
                return true;
            }
        }
        doubt(page);
        true
    }

    /// Pages that have something in a part of the file. `None`: some page is being read, from wherever it is.
    fn pages_in(&self, part: &Range<usize>) -> Option<Vec<usize>> {
        let all = self.kernel.space.all();
        let is_read = |&page: &usize| matches!(self.entry_of(page), Some(Entry::Request(_)));
        if all.iter().any(is_read) {
            return None;
        }
        let has_some = |&page: &usize| {
            let range = self.record_in_file(page);
            range.is_some_and(|range| overlap(&range, part))
        };
        Some(all.into_iter().filter(has_some).collect())
    }

    /// Between the hooks of a fork: a child is made, which may read what is in the file.
    pub(super) fn make_reader(&self) {
        let (pager, file) = (self.pager, &self.kernel.file);
        if !pager.tier.is_used() {
            return;
        }
        let written_back = &pager.engine.counters().written_back_pages;
        assert!(
            file.is_open() || written_back.load(Relaxed) == 0,
            "pages are written back that a child cannot read"
        );
        let record = |page| {
            let range = self.record_in_file(page)?;
            let content = file.content(range.clone()).into();
            Some(Kept {
                page,
                range,
                content,
            })
        };
        let pages = self.kernel.space.all().into_iter();
        file.readers.begin(pages.filter_map(record).collect());
    }

    /// The program closes all descriptors that it does not know.
    pub(super) fn close_file(&self) {
        let file = &self.kernel.file;
        if self.pager.tier.is_used() && file.forks.get() == 0 && file.close() {
            note(Kind::FileClosed);
        }
    }

    /// Everything is stopped: there are as many records as pages that have one.
    pub(super) fn check_file_at_the_end(&self) {
        self.kernel.file.children_go_on(Moment::AtTheEnd);
        let counters = self.pager.engine.counters();
        for (kind, count) in [
            (Kind::PagesWrittenBack, &counters.write_backs),
            (Kind::PagesReadBack, &counters.read_backs),
            (Kind::PagesUnreadable, &counters.failed_read_backs),
        ] {
            simulation().injections.add(kind, count.load(Relaxed));
        }
        let Some(counts) = self.pager.tier.counts() else {
            return;
        };
        self.pager.tier.check_invariants();
        let written_back = counters.written_back_pages.load(Relaxed);
        assert_eq!(counts.records, written_back, "records of pages");
        for (kind, count) in [
            (Kind::FileFull, counts.refused_full),
            (Kind::FileBudget, counts.refused_budget),
            (Kind::FileCleaned, counts.cleaned_segments),
            (Kind::RecordsMoved, counts.moved_records),
            (Kind::RecordsLost, counts.lost_records),
            (Kind::RecordsReread, counts.reread_records),
        ] {
            simulation().injections.add(kind, count);
        }
    }
}
