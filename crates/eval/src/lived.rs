//! What a storage takes once its objects were stored anew: each gives way to a smaller one, and leaves a hole.
//!
//! After each 64th of them the storage is compacted where the pager would begin a pass
//! (`crates/pager/src/reclaim/compaction.rs`), so what is lost at the end is what the pager does not find worth a pass.
//!
//! What is not here: pages that come back, and pages that are unmapped.

use crate::churn::frames_for;
use crate::host::{Frames, Host};
use coldpress_storage::{AnyStorage, CompressedStorage, Reference, StorageKind, Usage};
use std::collections::HashMap;

/// What is lost is worth a pass where it is more than this, and than one part in [`WORTH_PART`] of the storage.
const WORTH_COMPACTING: f64 = (1 << 20) as f64;
/// See [`WORTH_COMPACTING`].
const WORTH_PART: usize = 8;
/// The storage is looked at so many times.
const LOOKS: usize = 64;
/// Bytes that a step of compaction may copy.
const STEP_BYTES: usize = 64 << 10;

/// What happens to objects after they were stored.
#[derive(Clone, Copy, Debug)]
pub struct Life<'a> {
    /// What each is stored as anew, in bytes; `None`: none is.
    pub anew: Option<&'a [u16]>,
    /// How many objects of the program each of them stands for.
    pub each: f64,
}

impl Life<'_> {
    /// Stored, and no more.
    pub const NONE: Self = Self {
        anew: None,
        each: 1.0,
    };
}

/// What is held in the end by a storage of objects of these lengths.
pub(crate) fn usage(kind: StorageKind, lengths: &[usize], life: &Life<'_>) -> Usage {
    let mut frames = Frames::new(frames_for(lengths.len()));
    let mut lived = Lived::new(kind, &mut frames, life.each);
    for &bytes in lengths {
        let reference = lived.store(bytes);
        lived.objects.extend(reference);
    }
    if let Some(anew) = life.anew {
        lived.store_anew(anew);
    }
    lived.storage.usage()
}

/// A storage with its objects.
struct Lived<'a> {
    // Dropped before the host whose memory it uses.
    storage: Box<AnyStorage>,
    host: Host<'a>,
    /// In the order in which they were stored.
    objects: Vec<Reference>,
    worth_bytes: usize,
}

impl<'a> Lived<'a> {
    fn new(kind: StorageKind, frames: &'a mut Frames, each: f64) -> Self {
        Self {
            storage: Box::new(AnyStorage::new(kind)),
            host: Host::new(frames),
            objects: Vec::new(),
            worth_bytes: (WORTH_COMPACTING / each.max(1.0)) as usize,
        }
    }

    fn store(&mut self, bytes: usize) -> Option<Reference> {
        let has_room = self.storage.reserve(&self.host, 1);
        let place = self.storage.allocate(&self.host, bytes);
        debug_assert!(has_room && place.is_some(), "the host has room for all");
        place
    }

    fn store_anew(&mut self, lengths: &[u16]) {
        let all: Vec<usize> = (0..self.objects.len().min(lengths.len())).collect();
        let part = all.len().div_ceil(LOOKS).max(1);
        for some in all.chunks(part) {
            for &at in some {
                let bytes = usize::from(lengths[at]);
                let before = self.objects[at];
                if bytes < before.len()
                    && let Some(denser) = self.store(bytes)
                {
                    self.storage.free(&self.host, before);
                    self.objects[at] = denser;
                }
            }
            self.compact();
        }
    }

    /// Passes of compaction, until none is worth while or one brings nothing.
    fn compact(&mut self) {
        let is_worth = |usage: &Usage, worth_bytes: usize| {
            usage.fragmentation_bytes > worth_bytes.max(usage.storage_bytes / WORTH_PART)
        };
        while is_worth(&self.storage.usage(), self.worth_bytes) && self.pass() > 0 {}
    }

    /// One pass; how many frames it gained.
    fn pass(&mut self) -> usize {
        let objects = &mut self.objects;
        let there = objects.iter().copied().zip(0..);
        let mut at: HashMap<Reference, usize> = there.collect();
        let mut relocate = |from: Reference, to: Reference| {
            let Some(number) = at.remove(&from) else {
                return false;
            };
            objects[number] = to;
            at.insert(to, number);
            true
        };
        let (mut given_back, mut taken) = (0, 0);
        loop {
            let done = self.storage.compact(&self.host, STEP_BYTES, &mut relocate);
            given_back += done.frames;
            taken += done.frames_taken;
            if done.pass_ended {
                return given_back.saturating_sub(taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn lengths(count: usize) -> Vec<usize> {
        let mut random = Random::new(9);
        (0..count).map(|_| 400 + random.below(2000)).collect()
    }

    fn lost(usage: &Usage) -> f64 {
        usage.fragmentation_bytes as f64 / usage.storage_bytes as f64
    }

    #[test]
    fn what_is_stored_anew_is_compacted() {
        let lengths = lengths(6000);
        let full = usage(StorageKind::Press, &lengths, &Life::NONE);
        assert!(lost(&full) < 0.03, "{full:?}");
        let anew: Vec<u16> = lengths.iter().map(|bytes| (bytes * 3 / 4) as u16).collect();
        let life = Life {
            anew: Some(&anew),
            each: 1000.0,
        };
        let usage = usage(StorageKind::Press, &lengths, &life);
        let payload: usize = anew.iter().map(|bytes| usize::from(*bytes)).sum();
        assert_eq!(usage.payload_bytes, payload);
        assert!(lost(&usage) <= 0.125, "{usage:?}");
        assert!(lost(&usage) > lost(&full), "holes: {usage:?}");
    }

    #[test]
    fn storages_that_move_nothing_end() {
        let lengths = lengths(500);
        let anew: Vec<u16> = lengths.iter().map(|bytes| (bytes / 2) as u16).collect();
        for kind in StorageKind::ALL {
            let life = Life {
                anew: Some(&anew),
                each: 1000.0,
            };
            assert_eq!(usage(kind, &lengths, &life).objects, 500, "{}", kind.name());
        }
        assert_eq!(usage(StorageKind::Press, &[], &Life::NONE).objects, 0);
    }
}
