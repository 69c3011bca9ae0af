//! The storage against a plain model: a list of objects, each filled with its own pattern.

mod common;

use std::collections::HashMap;

use coldpress_storage::{
    CompressedStorage, FRAME_BYTES, Gather, Reference, ThreeSlot, data, write,
};
use common::{Host, three_slot};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Store(usize),
    /// Frees an object, counted around.
    Free(usize),
    /// Frees every so many-th object.
    FreeMany(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![
        4 => 1..=2867_usize,
        3 => 1000..=1500_usize,
        2 => 1..=80_usize,
        1 => 2868..=FRAME_BYTES,
        1 => (1..=64_usize).prop_map(|n| n * 64),
    ];
    let step = prop_oneof![
        30 => len.prop_map(Step::Store),
        20 => any::<usize>().prop_map(Step::Free),
        1 => (2..5_usize).prop_map(Step::FreeMany),
    ];
    prop::collection::vec(step, 1..400)
}

/// What must be stored.
#[derive(Default)]
struct Model {
    objects: Vec<(Reference, u64)>,
    next_pattern: u64,
}

fn pattern(seed: u64, position: usize) -> u8 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8 ^ (position as u8).wrapping_mul(31)
}

impl Model {
    fn store(&mut self, host: &Host, storage: &mut ThreeSlot, len: usize) {
        let Some(reference) = storage.allocate(host, len) else {
            assert_eq!(host.lent(), FRAMES, "refused though there are frames");
            return;
        };
        assert_eq!(reference.len(), len);
        self.next_pattern += 1;
        let pattern = |i| pattern(self.next_pattern, i);
        let bytes: Vec<u8> = (0..len).map(pattern).collect();
        // SAFETY: just allocated, and nobody else knows it.
        unsafe { write(host, reference, &[&bytes]) };
        self.objects.push((reference, self.next_pattern));
    }

    fn free(&mut self, host: &Host, storage: &mut ThreeSlot, index: usize) {
        let (reference, seed) = self.objects.swap_remove(index);
        verify(host, reference, seed);
        storage.free(host, reference);
    }

    fn check(&self, host: &Host, storage: &ThreeSlot) {
        storage.check_invariants();
        let mut frames: HashMap<u32, Vec<(usize, usize)>> = HashMap::new();
        for &(r, seed) in &self.objects {
            verify(host, r, seed);
            let objects = frames.entry(r.frame().0).or_default();
            objects.push((r.offset(), r.offset() + r.len()));
        }
        for objects in frames.values_mut() {
            objects.sort_unstable();
            assert!(objects.len() <= 3, "at most three objects a frame");
            assert!(objects.windows(2).all(|w| w[0].1 <= w[1].0), "S1");
        }
        let usage = storage.usage();
        let payload: usize = self.objects.iter().map(|(r, _)| r.len()).sum();
        assert_eq!(frames.len(), host.lent(), "S3");
        assert_eq!(usage.storage_bytes, host.lent() * FRAME_BYTES);
        assert_eq!(usage.payload_bytes, payload);
        assert_eq!(usage.fragmentation_bytes, usage.storage_bytes - payload);
        assert_eq!(usage.objects, self.objects.len());
    }
}

fn verify(host: &Host, reference: Reference, seed: u64) {
    let mut gather = Gather::new();
    // SAFETY: the model holds only objects that are allocated; nobody writes now.
    let bytes = unsafe { data(host, reference, &mut gather) }.unwrap();
    assert!(
        bytes
            .iter()
            .enumerate()
            .all(|(i, byte)| *byte == pattern(seed, i)),
        "{reference:?} has changed"
    );
}

const FRAMES: usize = 60;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn behaves_as_a_list_of_objects(steps in steps()) {
        let (host, mut storage) = three_slot(FRAMES);
        let mut model = Model::default();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Store(len) => model.store(&host, &mut storage, len),
                Step::Free(_) if model.objects.is_empty() => {}
                Step::Free(n) => {
                    let index = n % model.objects.len();
                    model.free(&host, &mut storage, index);
                }
                Step::FreeMany(every) => {
                    for index in (0..model.objects.len()).rev().step_by(every) {
                        model.free(&host, &mut storage, index);
                    }
                }
            }
            if i % 16 == 0 {
                model.check(&host, &storage);
            }
        }
        model.check(&host, &storage);
        while let Some(last) = model.objects.len().checked_sub(1) {
            model.free(&host, &mut storage, last);
        }
        model.check(&host, &storage);
        prop_assert_eq!(host.lent(), 0);
    }

    /// No bits, however they came about, make `from_bits` return a reference outside a frame.
    #[test]
    fn bits_are_references_or_refused(bits in any::<u64>(), shift in 0..16_u32) {
        let bits = bits >> shift;
        if let Some(r) = Reference::from_bits(bits) {
            prop_assert_eq!(r.to_bits(), bits);
            prop_assert!(r.frame().0 != 0);
            prop_assert!(r.is_split() || r.offset() + r.len() <= FRAME_BYTES);
            let make = if r.is_split() { Reference::new_split } else { Reference::new };
            prop_assert_eq!(make(r.frame(), r.offset(), r.len(), r.slot()), r);
        }
    }
}

/// Storing goes on working when the host has run out and gets frames back.
#[test]
fn recovers_when_frames_come_back() {
    let (host, mut storage) = three_slot(FRAMES);
    let mut model = Model::default();
    for round in 0..50 {
        for len in [4096, 1300, 700, 2500, 33] {
            for _ in 0..40 {
                model.store(&host, &mut storage, len - round % 7);
            }
        }
        assert_eq!(host.lent(), FRAMES);
        model.check(&host, &storage);
        while model.objects.len() > round {
            model.free(&host, &mut storage, (round * 7919) % model.objects.len());
        }
        model.check(&host, &storage);
    }
}
