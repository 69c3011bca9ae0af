//! Memory changes with the lock of its VMO held.

use super::{Committed, Into, Run, Source};
use crate::machine::host::{Host, StagingSlot, Taken};
use crate::machine::memory::Place;
use crate::pages::page_list::PageList;
use crate::{Engine, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

/// The lock keeps everybody else out; nothing is claimed.
pub(super) fn take<H: Host>(host: &H, segment: SegmentId, run: &Run, slot: StagingSlot) -> Taken {
    host.take(segment, run.first, run.wanted, slot)
}

/// Locks the VMO that the worker's target is in, wherever it has moved, and puts `source` there.
pub(super) fn commit<H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &Engine<H, C, S>,
    host: &H,
    worker: u16,
    source: Source<'_>,
    into: Into,
) -> Committed {
    let target = &engine.targets[worker as usize];
    loop {
        let stable = engine.stable(host);
        let place = target.place.get();
        let list = engine.page_list_if_there(place.0);
        if target.place.get() != place {
            continue;
        }
        // A segment is freed only after the content that was to come there was cancelled.
        if target.cancelled.load(Relaxed) {
            return Committed::Cancelled;
        }
        let committed = engine.put_in_place(host, worker, list, place, source, into);
        if let Some(committed) = committed {
            return committed;
        }
        drop(stable);
        engine.copy_again(host);
    }
}

/// The copy goes into the frame that is reserved for it while the slot is certain not to be released: with the lock
/// still held.
pub(super) fn commit_copy<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    worker: u16,
    list: PageList<'e, H>,
    place: Place,
    source: Source<'_>,
) -> Committed {
    engine
        .put_in_place(host, worker, Some(list), place, source, Into::Newest)
        .expect("nothing changes under the lock")
}
