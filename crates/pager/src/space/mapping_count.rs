//! How many mappings the process has, and how many of them the pager may make.
//!
//! The kernel bounds them (`vm.max_map_count`, 65,530): beyond that neither memory nor a thread can be had. Registering a
//! part of a mapping splits it, in three at worst, and a heap that is used here and there has a page to take
//! in each of its chunks. Registering what lies between joins the pieces again; but what is registered costs a handler at
//! its first touch, so that is done only where it must be.
//!
//! | mappings | what is registered to take a page |
//! |---|---|
//! | few | its chunk of 64 pages |
//! | a quarter of what the kernel allows | its window of 32 MiB; windows that are registered in part are registered whole |
//! | three quarters | whole mappings, and nothing else |
//!
//! They are counted whenever they are read, and each registration since then counts as two.

use crate::machine::os::{Os, ProcessFiles};
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// What the kernel allows by default.
const USUAL_LIMIT: u32 = 65_530;
const WIDE_PART: u32 = 4;
/// Windows are joined again when there are more by this part of what is allowed.
const AGAIN_PART: u32 = 16;

/// How much is registered to take a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Its chunk.
    Chunk,
    /// Its window.
    Window,
    /// The whole mapping, or nothing.
    Mapping,
}

/// The count.
pub(crate) struct MappingCount {
    limit: AtomicU32,
    read: AtomicU32,
    /// Registrations since they were read.
    registrations: AtomicU32,
    /// There were many: windows are registered whole from then on.
    wide: AtomicBool,
    /// How many there were when windows were last joined.
    joined_at: AtomicU32,
}

impl MappingCount {
    /// Not counted yet.
    pub(crate) const fn new() -> Self {
        Self {
            limit: AtomicU32::new(USUAL_LIMIT),
            read: AtomicU32::new(0),
            registrations: AtomicU32::new(0),
            wide: AtomicBool::new(false),
            joined_at: AtomicU32::new(0),
        }
    }

    /// Asks the kernel how many it allows.
    pub(crate) fn look_up_limit<O: Os>(&self) {
        if let Some(limit) = O::ProcessFiles::most_mappings() {
            self.limit.store(limit, Relaxed);
        }
    }

    /// So many were read.
    pub(crate) fn note_read(&self, count: u32) {
        self.read.store(count, Relaxed);
        self.registrations.store(0, Release);
        self.width();
    }

    /// A part of a mapping was registered.
    pub(crate) fn note_registration(&self) {
        self.registrations.fetch_add(1, Relaxed);
    }

    /// At most so many there are now, as far as they are known.
    fn count(&self) -> u32 {
        let registrations = self.registrations.load(Acquire);
        self.read
            .load(Relaxed)
            .saturating_add(registrations.saturating_mul(2))
    }

    /// How much may be registered.
    pub(crate) fn width(&self) -> Width {
        let (count, limit) = (self.count(), self.limit.load(Relaxed));
        if count > limit / 4 * 3 {
            return Width::Mapping;
        }
        if count > limit / WIDE_PART {
            self.wide.store(true, Relaxed);
        }
        match self.wide.load(Relaxed) {
            true => Width::Window,
            false => Width::Chunk,
        }
    }

    /// Whether windows that are registered in part are to be registered whole now.
    pub(crate) fn is_joining_due(&self) -> bool {
        let (count, limit) = (self.read.load(Relaxed), self.limit.load(Relaxed));
        let again = self.joined_at.load(Relaxed) + limit / AGAIN_PART;
        let due = count > limit / WIDE_PART && count > again;
        if due || count < self.joined_at.load(Relaxed) {
            self.joined_at.store(count, Relaxed);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_mappings_the_more_is_registered_at_once() {
        let count = MappingCount::new();
        count.look_up_limit::<crate::machine::linux::Linux>();
        assert!(count.limit.load(Relaxed) > 0);
        count.limit.store(1000, Relaxed);
        assert_eq!(count.width(), Width::Chunk);
        count.note_read(200);
        assert!(!count.is_joining_due());
        for _ in 0..25 {
            assert_eq!(count.width(), Width::Chunk);
            count.note_registration();
        }
        count.note_registration();
        assert_eq!(count.width(), Width::Window);
        count.note_read(252);
        assert!(count.is_joining_due());
        assert!(!count.is_joining_due(), "once");
        count.note_read(40);
        assert!(!count.is_joining_due());
        assert_eq!(count.width(), Width::Window, "it has many by nature");
        count.note_read(251);
        assert!(count.is_joining_due(), "again");
        count.note_read(751);
        assert_eq!(count.width(), Width::Mapping);
        count.note_read(700);
        assert_eq!(count.width(), Width::Window);
    }
}
