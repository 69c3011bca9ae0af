//! A touch of a page that is not in place: RFC-0219 "Decompression algorithm".
//!
//! What is remembered of the page decides who answers it:
//!
//! * nothing: zeros, as fresh memory has (`fault_empty`);
//! * content that is away: a worker brings it back (`restore.rs`);
//! * a request: some worker is at it already, and its installation wakes all who wait;
//! * a page: it has come meanwhile, or was dropped without our being told.
//!
//! This is for hosts that use segments directly. VMOs decide for themselves what an absent page
//! means (`vmo`), and only have content restored.

use crate::compression::worker::Worker;
use crate::figures::counters::add;
use crate::machine::host::{Access, Doubt, Host, Installed};
use crate::pages::entry::Entry;
use crate::pages::tables::Growth;
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// How a fault was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultOutcome {
    /// With decompressed content.
    Decompressed,
    /// With a copy of a page that was being compressed.
    Copied,
    /// From a zero or same-filled marker.
    SameFilled,
    /// With a fresh zero page.
    Zero,
    /// The page was there already, or another worker is about to put it there.
    Present,
    /// There is no such memory any more; the toucher was woken to find out.
    Gone,
    /// The content was in doubt; the page is poisoned.
    Poisoned,
    /// The host has no frame for it now; what is remembered is still remembered.
    NoMemory,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// Answers a touch of page `index` of `segment`.
    pub fn fault(
        &self,
        host: &H,
        worker: &mut Worker<C>,
        segment: SegmentId,
        index: PageIndex,
        access: Access,
    ) -> FaultOutcome {
        loop {
            let list = self.page_list(segment);
            let entry = list.get(index);
            match entry {
                Entry::Poisoned => return FaultOutcome::Poisoned,
                Entry::Page(_) if H::PROTOCOL.entries_are_proof() => return self.is_present(),
                Entry::Page(_) => {
                    drop(list);
                    match self.fault_page(host, segment, index, access) {
                        Some(outcome) => return outcome,
                        None => continue,
                    }
                }
                Entry::Request(_) => return self.is_present(),
                Entry::Empty => {
                    drop(list);
                    match self.fault_empty(host, segment, index, access) {
                        Some(outcome) => return outcome,
                        None => continue,
                    }
                }
                _ => {}
            }
            if let Some(outcome) = self.restore(host, worker, list, (segment, index), entry) {
                return outcome;
            }
        }
    }

    /// The page is there, or on its way.
    fn is_present(&self) -> FaultOutcome {
        add(&self.counters.faults_present, 1);
        FaultOutcome::Present
    }

    /// A touch of a page that is in place as far as we know. Mostly another fault has brought it
    /// meanwhile. But memory that was not registered when it was tracked may have been dropped
    /// by the program without our being told: then it reads as zeros.
    ///
    /// The page must not be on its way out in this moment: the list's lock keeps a run from
    /// being chosen, and a run that was chosen already has its pages claimed.
    fn fault_page(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        access: Access,
    ) -> Option<FaultOutcome> {
        let stable = self.stable(host);
        let list = self.page_list(segment);
        if !matches!(list.get(index), Entry::Page(_)) {
            return None;
        }
        if self.is_claimed(segment, index) {
            drop(list);
            drop(stable);
            self.let_changes_in(host);
            return None;
        }
        let installed = self.install_zero(host, segment, index, access);
        drop(list);
        drop(stable);
        self.answer_zero(host, segment, index, installed)
    }

    /// A touch of memory of which nothing is remembered: zeros, as the kernel would give.
    /// `None`: look again.
    fn fault_empty(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        access: Access,
    ) -> Option<FaultOutcome> {
        let leaf = self
            .tables
            .ensure_leaf(host, segment, index, Growth::Forbidden);
        let stable = self.stable(host);
        // The list's lock is held until the zeros are in place: between looking and installing
        // another worker could install, the program write, and the page leave again.
        let list = self.page_list(segment);
        if list.get(index) != Entry::Empty {
            return None;
        }
        let installed = self.install_zero(host, segment, index, access);
        if installed == Ok(Installed::Done) {
            if leaf {
                self.track_in(host, &list, segment, index, Growth::Forbidden);
            } else {
                add(&self.counters.no_metadata, 1);
            }
        }
        drop(list);
        drop(stable);
        self.answer_zero(host, segment, index, installed)
    }

    /// Puts zeros in place, or poisons the page where the host cannot tell why it refuses: then
    /// the error says what became of that. In a stable section.
    fn install_zero(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        access: Access,
    ) -> Result<Installed, Installed> {
        match host.install_zero(segment, index, access) {
            Installed::Refused => Err(host.poison(segment, index, Doubt::Refused)),
            installed => Ok(installed),
        }
    }

    /// What an installation of zeros means to whoever touched the page. `None`: look again.
    /// Nothing is held.
    fn answer_zero(
        &self,
        host: &H,
        segment: SegmentId,
        index: PageIndex,
        installed: Result<Installed, Installed>,
    ) -> Option<FaultOutcome> {
        let c = &self.counters;
        match installed {
            Ok(Installed::Changing) | Err(Installed::Changing) => {
                add(&c.copy_again, 1);
                self.let_changes_in(host);
                None
            }
            Err(Installed::Done) => {
                add(&c.refused_installs, 1);
                Some(FaultOutcome::Poisoned)
            }
            Ok(Installed::Done) => {
                add(&c.faults_zero, 1);
                Some(FaultOutcome::Zero)
            }
            Ok(Installed::AlreadyPresent) | Err(Installed::AlreadyPresent) => {
                add(&c.faults_present, 1);
                Some(FaultOutcome::Present)
            }
            Ok(Installed::NoFrame) | Err(Installed::NoFrame) => {
                add(&c.faults_no_frame, 1);
                Some(FaultOutcome::NoMemory)
            }
            Ok(Installed::Gone | Installed::Refused)
            | Err(Installed::Gone | Installed::Refused) => {
                host.wake(segment, index);
                Some(FaultOutcome::Gone)
            }
        }
    }
}
