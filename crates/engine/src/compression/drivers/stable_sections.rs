//! Memory changes in a stable section, without a lock: the host may wait for another kernel meanwhile.
//!
//! Invariant:
//! * S1 A page that is claimed is put in place by nobody: the run that claims it is between program and staging.

use super::{Committed, Into, Run, Source};
use crate::machine::host::{Host, StagingSlot, Taken};
use crate::machine::memory::Place;
use crate::pages::page_list::PageList;
use crate::{Engine, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

/// How often a worker looks at a claim before it leaves its processor to whoever holds it.
const CLAIM_SPINS: u32 = 500;

/// Claims the run (S1) and lets go of the lock while the host takes it.
pub(super) fn take<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    list: PageList<'e, H>,
    segment: SegmentId,
    run: &Run,
    slot: StagingSlot,
) -> (Taken, PageList<'e, H>) {
    list.claim(run.first, run.claimed);
    drop(list);
    let taken = host.take(segment, run.first, run.wanted, slot);
    let list = engine.page_list(segment);
    list.end_claim(run.first, run.claimed);
    (taken, list)
}

/// Asks without the lock; a page that goes meanwhile is passed over by the caller.
pub(super) fn harvest<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    list: PageList<'e, H>,
    (segment, first): Place,
    pages: u64,
) -> (u64, PageList<'e, H>) {
    drop(list);
    let stable = engine.stable(host);
    let accessed = host.harvest_accessed(segment, first, pages);
    drop(stable);
    (accessed, engine.page_list(segment))
}

/// Waits until the target is claimed by no run, and puts `source` there within the stable section in which that was
/// seen.
pub(super) fn commit<H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &Engine<H, C, S>,
    host: &H,
    worker: u16,
    source: Source<'_>,
    into: Into,
) -> Committed {
    let target = &engine.targets[worker as usize];
    let mut spins = 0;
    loop {
        let stable = engine.stable(host);
        if target.cancelled.load(Relaxed) {
            return Committed::Cancelled;
        }
        let place = target.place.get();
        if engine.is_claimed(place.0, place.1) {
            drop(stable);
            spins += 1;
            match spins < CLAIM_SPINS {
                true => core::hint::spin_loop(),
                false => engine.let_changes_in(host),
            }
            continue;
        }
        let committed = engine.put_in_place(host, worker, None, place, source, into);
        if let Some(committed) = committed {
            return committed;
        }
        drop(stable);
        engine.copy_again(host);
    }
}
