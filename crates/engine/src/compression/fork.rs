//! What a fork needs: an engine that changes nothing for a moment, and its revival in the child.
//!
//! While the host forks its process it keeps the engine *still*: no reclaim runs, no fault
//! changes an entry, no change is delivered. Faults that come in are answered through
//! [`Engine::peek`], which only reads. So the copy of the engine that the child inherits is
//! whole. In the child, and in the parent afterwards, pages that were restored meanwhile are
//! in place although their entries say otherwise: [`Engine::acknowledge_present`] mends that.
//!
//! A host that hears of forks of which nobody has told before cannot keep the engine still: it keeps stable sections
//! closed, and asks [`Engine::recall`] for what each page held that is away.

use crate::compression::restore::Fate;
use crate::compression::worker::{Worker, Workspace};
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::pages::entry::Entry;
use crate::pages::tables::Growth;
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::{Page, PageCodec, same_filled};
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

/// What is remembered of a page.
#[derive(Debug)]
pub enum Content<'a> {
    /// It is in place.
    Present,
    /// Nothing: zeros.
    Nothing,
    /// These bytes.
    Bytes(&'a Page),
    /// Something that fails its checksum.
    Doubtful,
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// What is remembered of a page, without changing anything. The engine is still: no
    /// temporary reference and no request exists.
    pub fn peek<'w>(
        &self,
        host: &H,
        worker: &'w mut Worker<C>,
        segment: SegmentId,
        index: PageIndex,
    ) -> Content<'w> {
        match self.entry(segment, index) {
            Entry::Empty | Entry::ZeroInterval(..) => return Content::Nothing,
            Entry::Page(_) | Entry::Temporary(_) | Entry::Request(_) => return Content::Present,
            Entry::Poisoned => return Content::Doubtful,
            Entry::Zero => worker.workspace.spare.fill(0),
            Entry::SameFilled(word) => same_filled::fill(&mut worker.workspace.spare, word),
            Entry::Compressed(reference) => {
                if self.load(host, worker.workspace, reference).is_err() {
                    return Content::Doubtful;
                }
            }
        }
        Content::Bytes(&worker.workspace.spare)
    }

    /// What a page holds that is away, whatever is under way with it, without changing anything: what a process that
    /// was copied a moment ago must find there. Stable sections are closed, so that nothing is put in place or taken
    /// out; only what is between two of them goes on, and it keeps the content that it works on: of a request its
    /// entry's until the commit (`compression::restore`, I1), of a page in staging the slot.
    pub fn recall<'w>(
        &self,
        host: &H,
        workspace: &'w mut Workspace<C>,
        segment: SegmentId,
        index: PageIndex,
    ) -> Content<'w> {
        let Some(list) = self.page_list_if_there(segment) else {
            return Content::Nothing;
        };
        let mut entry = list.get(index);
        if let Entry::Request(worker) = entry {
            let target = &self.targets[worker as usize];
            let held = Entry::decode(target.held.load(Relaxed));
            if held == entry {
                // SAFETY: the page is the worker's, whose memory stays, and was written before its request stood in
                // the entry; the worker only reads it until the commit, which is in a stable section.
                let spare = unsafe { &*target.spare.load(Relaxed) };
                workspace.spare.copy_from_slice(spare);
                return Content::Bytes(&workspace.spare);
            }
            entry = held;
        }
        match entry {
            Entry::Empty | Entry::ZeroInterval(..) | Entry::Zero => return Content::Nothing,
            Entry::Page(_) | Entry::Request(_) => return Content::Present,
            Entry::Poisoned => return Content::Doubtful,
            Entry::SameFilled(word) => same_filled::fill(&mut workspace.spare, word),
            Entry::Temporary(slot) => {
                // SAFETY: an entry names the slot, or a request of the one who filled it; the lock keeps that so.
                let staged = unsafe { host.staging(slot) };
                workspace.spare.copy_from_slice(staged);
            }
            Entry::Compressed(reference) => {
                if self.load(host, workspace, reference).is_err() {
                    return Content::Doubtful;
                }
            }
        }
        Content::Bytes(&workspace.spare)
    }

    /// The page is in place, whatever its entry says: what was remembered besides is freed.
    /// Called while no stable section is open.
    pub fn acknowledge_present(&self, host: &H, segment: SegmentId, index: PageIndex) {
        let list = self.page_list(segment);
        match list.get(index) {
            Entry::Compressed(reference) => self.free_stored(host, reference, Fate::Restored),
            marker @ (Entry::Zero | Entry::SameFilled(_)) => self.counters.drop_marker(marker),
            Entry::Empty => {
                drop(list);
                self.track_known(host, segment, index, Growth::Allowed);
                return;
            }
            _ => return,
        }
        let mut queues = self.queues.lock();
        let entry = match queues.bring_back() {
            Some(record) => {
                self.queues.record(record).set_backlink(segment, index);
                queues.push_newest(record);
                Entry::Page(record)
            }
            None => {
                add(&self.counters.no_metadata, 1);
                Entry::Empty
            }
        };
        drop(queues);
        list.set(index, entry);
    }
}
