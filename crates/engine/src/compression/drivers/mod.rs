//! The drivers of the two [protocols](Protocol), and the one place that chooses between them.
//!
//! Compression and restoring are one state machine, named as Zircon's compressor names its steps:
//!
//! ```text
//!  out   Arm ─────▶ Start ────▶ Compress ──▶ Take ─────▶ Finalize          (`compress`)
//!        room for   temporary   no lock      allocate,   compressed
//!        the run    reference                write       reference, or back
//!  back  Request ─▶ Load ─────▶ Commit                                     (`restore`)
//!        under the  no lock     memory, then
//!        VMO lock               the entry
//! ```
//!
//! Where memory changes (Start, Commit, a harvest of accessed bits) a host follows one of two protocols. Each has a
//! driver; everything else of the state machine is one code for both. The choice is a constant of the host, so nothing
//! of the other driver is left in the program.

mod content;
mod run;
mod stable_sections;
mod under_lock;

pub(crate) use content::{Committed, Into, Source};
pub(crate) use run::Run;

use crate::machine::host::{Host, StagingSlot, Taken};
use crate::machine::memory::Place;
use crate::machine::protocol::Protocol;
use crate::pages::entry::Entry;
use crate::pages::page_list::PageList;
use crate::{Engine, SegmentId};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// What the page list remembers of a page that was poisoned: nothing, where the kernel below remembers it.
pub(crate) const fn poisoned<H: Host>() -> Entry {
    match H::PROTOCOL {
        Protocol::UnderLock => Entry::Poisoned,
        Protocol::StableSections => Entry::Empty,
    }
}

/// Start: has the host take a run out. In a stable section, with the list locked before and after.
pub(crate) fn take<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    list: PageList<'e, H>,
    segment: SegmentId,
    run: &Run,
    slot: StagingSlot,
) -> (Taken, PageList<'e, H>) {
    match H::PROTOCOL {
        Protocol::UnderLock => (under_lock::take(host, segment, run, slot), list),
        Protocol::StableSections => stable_sections::take(engine, host, list, segment, run, slot),
    }
}

/// Which of `pages` (a set, of the leaf at `first`) were accessed since the host was asked last.
pub(crate) fn harvest<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    list: PageList<'e, H>,
    (segment, first): Place,
    pages: u64,
) -> (u64, PageList<'e, H>) {
    match H::PROTOCOL {
        Protocol::UnderLock => (host.harvest_accessed(segment, first, pages), list),
        Protocol::StableSections => {
            stable_sections::harvest(engine, host, list, (segment, first), pages)
        }
    }
}

/// Commit: puts `source` in place where the worker's target says, and writes the entry there. Where nothing can be
/// put in place, the page is poisoned. No lock is held.
pub(crate) fn commit<H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &Engine<H, C, S>,
    host: &H,
    worker: u16,
    source: Source<'_>,
    into: Into,
) -> Committed {
    match H::PROTOCOL {
        Protocol::UnderLock => under_lock::commit(engine, host, worker, source, into),
        Protocol::StableSections => stable_sections::commit(engine, host, worker, source, into),
    }
}

/// Commit of a copy of a page in staging, whose request was made under the lock that is still held.
pub(crate) fn commit_copy<'e, H: Host, C: PageCodec, S: CompressedStorage>(
    engine: &'e Engine<H, C, S>,
    host: &H,
    worker: u16,
    list: PageList<'e, H>,
    place: Place,
    source: Source<'_>,
) -> Committed {
    match H::PROTOCOL {
        Protocol::UnderLock => under_lock::commit_copy(engine, host, worker, list, place, source),
        Protocol::StableSections => {
            drop(list);
            stable_sections::commit(engine, host, worker, source, Into::Newest)
        }
    }
}
