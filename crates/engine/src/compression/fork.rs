//! What a fork needs: an engine that changes nothing for a moment, and its revival in the child.
//!
//! While the host forks its process it keeps the engine *still*: no reclaim runs, no fault
//! changes an entry, no change is delivered. Faults that come in are answered through
//! [`Engine::peek`], which only reads. So the copy of the engine that the child inherits is
//! whole. In the child, and in the parent afterwards, pages that were restored meanwhile are
//! in place although their entries say otherwise: [`Engine::acknowledge_present`] mends that.

use crate::compression::worker::Worker;
use crate::figures::counters::add;
use crate::machine::host::Host;
use crate::pages::entry::Entry;
use crate::pages::tables::Growth;
use crate::{Engine, PageIndex, SegmentId};
use coldpress_codec::{Page, PageCodec, same_filled};
use coldpress_storage::CompressedStorage;

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

    /// The page is in place, whatever its entry says: what was remembered besides is freed.
    /// Called while no stable section is open.
    pub fn acknowledge_present(&self, host: &H, segment: SegmentId, index: PageIndex) {
        let list = self.page_list(segment);
        match list.get(index) {
            Entry::Compressed(reference) => self.free_stored(host, reference, true),
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
