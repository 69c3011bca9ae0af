//! A plain model of any storage: a list of objects, each filled with its own pattern.

use std::collections::BTreeMap;

use coldpress_storage::{
    Compaction, CompressedStorage, FRAME_BYTES, Gather, Reference, data, parts, write,
};

use super::Host;

/// What must be stored.
#[derive(Default)]
pub struct Model {
    pub objects: Vec<(Reference, u64)>,
    next_pattern: u64,
}

/// How a storage gives frames back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    /// Each as soon as nothing lies in it.
    OneByOne,
    /// With all of its chain.
    InChains,
}

impl Returned {
    /// Of a storage whose chains have so many frames.
    pub fn by(chain: usize) -> Self {
        match chain {
            0 | 1 => Self::OneByOne,
            _ => Self::InChains,
        }
    }
}

fn pattern(seed: u64, position: usize) -> u8 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 ^ (position as u8).wrapping_mul(31)
}

/// The bytes of an object. Miri takes long for each, so it has runs of equal ones.
fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    if !cfg!(miri) {
        return (0..len).map(|i| pattern(seed, i)).collect();
    }
    let mut bytes = vec![pattern(seed, 0); len];
    for (i, run) in bytes.chunks_mut(64).enumerate() {
        run.fill(pattern(seed, i));
    }
    bytes
}

/// Panics if an object is not what was written to it.
pub fn verify(host: &Host, reference: Reference, seed: u64) {
    let mut gather = Box::new(Gather::new());
    // SAFETY: the model holds only objects that are allocated; nobody writes now.
    let bytes = unsafe { data(host, reference, &mut gather) }.expect("the link is damaged");
    assert!(
        bytes == bytes_of(seed, reference.len()),
        "{reference:?} has changed"
    );
}

impl Model {
    /// Stores an object of `len` bytes; `false` where the storage has no place for it.
    pub fn store(&mut self, host: &Host, storage: &mut impl CompressedStorage, len: usize) -> bool {
        let before = storage.usage();
        let Some(reference) = storage.allocate(host, len) else {
            assert_eq!(
                storage.usage(),
                before,
                "what is refused must change nothing"
            );
            return false;
        };
        assert_eq!(reference.len(), len);
        self.next_pattern += 1;
        let bytes = bytes_of(self.next_pattern, len);
        let (header, rest) = bytes.split_at(len.min(8));
        // SAFETY: just allocated, and nobody else knows it.
        unsafe { write(host, reference, &[header, rest]) };
        self.objects.push((reference, self.next_pattern));
        true
    }

    pub fn free(&mut self, host: &Host, storage: &mut impl CompressedStorage, index: usize) {
        let (reference, seed) = self.objects.swap_remove(index);
        verify(host, reference, seed);
        storage.free(host, reference);
    }

    /// One step of compaction; every `refuse_every`-th move is declined.
    pub fn compact(
        &mut self,
        host: &Host,
        storage: &mut impl CompressedStorage,
        budget_bytes: usize,
        refuse_every: usize,
    ) -> Compaction {
        let (lent, before) = (host.lent(), storage.usage());
        let (mut asked, mut moved, mut copied, mut last) = (0, 0, 0, 0);
        let done = storage.compact(host, budget_bytes, &mut |from, to| {
            let object = self.objects.iter_mut().find(|(r, _)| *r == from);
            let object = object.expect("what is not stored is not moved");
            assert_eq!(from.len(), to.len());
            verify(host, from, object.1);
            verify(host, to, object.1);
            last = from.len();
            copied += last;
            asked += 1;
            if asked % refuse_every == 0 {
                return false;
            }
            moved += 1;
            object.0 = to;
            true
        });
        assert_eq!(done.objects, moved);
        assert!(done.objects > 0 || done.bytes == 0);
        assert!(
            copied <= budget_bytes || copied == last,
            "{copied} of {budget_bytes} bytes: the pause is not bounded"
        );
        let after = storage.usage();
        assert_eq!(
            (after.objects, after.payload_bytes),
            (before.objects, before.payload_bytes)
        );
        assert_eq!(
            host.lent() + done.frames,
            lent + done.frames_taken,
            "frames given back and taken"
        );
        done
    }

    /// Steps of compaction until the pass has ended.
    pub fn compact_pass(
        &mut self,
        host: &Host,
        storage: &mut impl CompressedStorage,
        budget_bytes: usize,
        refuse_every: usize,
    ) -> Compaction {
        let mut total = Compaction::default();
        for _ in 0..10_000 {
            let done = self.compact(host, storage, budget_bytes, refuse_every);
            total.objects += done.objects;
            total.bytes += done.bytes;
            total.frames += done.frames;
            total.frames_taken += done.frames_taken;
            if done.pass_ended {
                total.pass_ended = true;
                return total;
            }
        }
        panic!("a pass does not end");
    }

    /// Checks bytes, S1 to S3 and usage.
    pub fn check(&self, host: &Host, storage: &impl CompressedStorage, returned: Returned) {
        storage.check_invariants();
        storage.check_frames(host);
        let mut frames: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
        for &(reference, seed) in &self.objects {
            verify(host, reference, seed);
            // SAFETY: the model holds only objects that are allocated; nobody writes now.
            for (frame, range) in unsafe { parts(host, reference) }.unwrap() {
                if !range.is_empty() {
                    let ranges = frames.entry(frame.0).or_default();
                    ranges.push((range.start, range.end));
                }
            }
        }
        for ranges in frames.values_mut() {
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|w| w[0].1 <= w[1].0), "S1");
        }
        let usage = storage.usage();
        let payload: usize = self.objects.iter().map(|(r, _)| r.len()).sum();
        if returned == Returned::OneByOne {
            assert_eq!(frames.len(), host.lent(), "S3");
        }
        assert_eq!(usage.storage_bytes, host.lent() * FRAME_BYTES);
        assert_eq!(usage.payload_bytes, payload);
        assert_eq!(usage.fragmentation_bytes, usage.storage_bytes - payload);
        assert_eq!(usage.objects, self.objects.len());
    }
}
