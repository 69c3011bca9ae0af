//! What a commit puts in place, and how it ends.

use crate::machine::host::StagingSlot;
use crate::pages::entry::Entry;
use crate::pages::patience::Returning;
use coldpress_codec::Page;

/// Queue that a restored page enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    Newest,
    Failed,
}

/// What is put in place.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// These bytes, restored from what the entry held.
    Restored(&'a Page, Entry, Option<Returning>),
    /// These bytes, copied from a slot in which the page is being compressed.
    Copied(&'a Page, StagingSlot),
    /// The page in a slot, which did not compress.
    Staged(StagingSlot, Returning),
    /// Nothing: what the entry held stays stored, and was only looked at.
    Stored(Entry),
    /// Nothing: what was stored is damaged.
    Damaged,
}

/// How a commit ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Committed {
    Done,
    /// The entry holds again what it held; nothing was put in place.
    NoFrame,
    Poisoned,
    Cancelled,
    Gone,
}
