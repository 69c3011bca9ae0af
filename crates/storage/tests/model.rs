//! Every storage against a plain model that moves real bytes and verifies them.

use crate::common::model::{Model, Returned};
use crate::common::with_host;
use coldpress_storage::{
    CompressedStorage, FRAME_BYTES, FrameIndex, Press, Reference, SizeClass, ThreeSlot, TwoSlot,
};
use proptest::prelude::*;

const CASES: u32 = if cfg!(miri) { 1 } else { 100 };
const STEPS: std::ops::Range<usize> = if cfg!(miri) { 5..10 } else { 1..500 };
const FRAMES: usize = if cfg!(miri) { 12 } else { 60 };

#[derive(Clone, Debug)]
enum Step {
    Store(usize),
    /// Frees an object, counted around.
    Free(usize),
    /// Frees every so many-th object.
    FreeMany(usize),
    /// One step of compaction: budget, and which of the moves are refused.
    Compact(usize, usize),
    /// A whole pass in steps of so many bytes.
    CompactPass(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![
        4 => 1..=2867_usize,
        3 => 1000..=1500_usize,
        2 => 1..=80_usize,
        1 => 2868..=FRAME_BYTES,
        1 => FRAME_BYTES - 40..=FRAME_BYTES,
        1 => (1..=64_usize).prop_map(|n| n * 64),
    ];
    let step = prop_oneof![
        60 => len.prop_map(Step::Store),
        40 => any::<usize>().prop_map(Step::Free),
        2 => (2..5_usize).prop_map(Step::FreeMany),
        6 => (0..20_000_usize, 1..6_usize).prop_map(|(b, r)| Step::Compact(b, r)),
        1 => (1..10_000_usize).prop_map(Step::CompactPass),
    ];
    prop::collection::vec(step, STEPS)
}

/// Every kind once: under Miri there are too few steps for chance to see to that.
const EVERY_KIND: [Step; 8] = [
    Step::Store(2000),
    Step::Store(1100),
    Step::Store(FRAME_BYTES),
    Step::Store(900),
    Step::FreeMany(2),
    Step::Compact(8192, 2),
    Step::CompactPass(4096),
    Step::Free(1),
];

/// Frames of a chain: an object is refused if the host has fewer left.
fn behaves_as_a_list_of_objects<S: CompressedStorage>(storage: S, steps: Vec<Step>, chain: usize) {
    let (host, mut storage) = with_host(storage, FRAMES);
    let mut model = Model::default();
    let more = EVERY_KIND.into_iter().filter(|_| cfg!(miri));
    for (i, step) in steps.into_iter().chain(more).enumerate() {
        match step {
            Step::Store(len) => {
                if !model.store(&host, &mut *storage, len) {
                    assert!(
                        host.lent() + chain > FRAMES,
                        "refused though there are frames"
                    );
                }
            }
            Step::Free(_) | Step::FreeMany(_) if model.objects.is_empty() => {}
            Step::Free(n) => {
                let index = n % model.objects.len();
                model.free(&host, &mut *storage, index);
            }
            Step::FreeMany(every) => {
                for index in (0..model.objects.len()).rev().step_by(every) {
                    model.free(&host, &mut *storage, index);
                }
            }
            Step::Compact(budget, refuse) => {
                // Every move is declined for 1, none for the largest.
                let refuse = if refuse == 5 { usize::MAX } else { refuse };
                model.compact(&host, &mut *storage, budget, refuse);
            }
            Step::CompactPass(budget) => {
                model.compact_pass(&host, &mut *storage, budget, usize::MAX);
            }
        }
        if i % 16 == 0 {
            model.check(&host, &*storage, Returned::by(chain));
        }
    }
    model.check(&host, &*storage, Returned::by(chain));
    model.compact_pass(&host, &mut *storage, usize::MAX, usize::MAX);
    model.check(&host, &*storage, Returned::by(chain));
    while let Some(last) = model.objects.len().checked_sub(1) {
        model.free(&host, &mut *storage, last);
    }
    model.check(&host, &*storage, Returned::by(chain));
    assert_eq!(host.lent(), 0, "S3");
}

/// Storing goes on working when the host has run out and gets frames back.
fn recovers_when_frames_come_back<S: CompressedStorage>(storage: S, chain: usize) {
    let (host, mut storage) = with_host(storage, FRAMES);
    let mut model = Model::default();
    for round in 0..if cfg!(miri) { 1 } else { 50 } {
        for len in [4096, 1300, 700, 2500, 33] {
            for _ in 0..if cfg!(miri) { 12 } else { 40 } {
                model.store(&host, &mut *storage, len - round % 7);
            }
        }
        assert!(host.lent() + chain > FRAMES);
        model.check(&host, &*storage, Returned::by(chain));
        while model.objects.len() > round {
            let index = (round * 7919) % model.objects.len();
            model.free(&host, &mut *storage, index);
        }
        model.check(&host, &*storage, Returned::by(chain));
    }
}

macro_rules! storages {
    ($($name:ident: $storage:ty, $chain:expr;)*) => {$(
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig {
                    cases: CASES,
                    failure_persistence: None,
                    ..ProptestConfig::default()
                })]
                #[test]
                fn behaves_as_a_list_of_objects(steps in steps()) {
                    super::behaves_as_a_list_of_objects(
                        <$storage>::new(), steps, $chain,
                    );
                }
            }

            #[test]
            fn recovers_when_frames_come_back() {
                super::recovers_when_frames_come_back(<$storage>::new(), $chain);
            }
        }
    )*};
}

storages! {
    two_slot: TwoSlot, 1;
    three_slot: ThreeSlot, 1;
    size_class: SizeClass, 8;
    press: Press, 1;
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 10 } else { 5000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
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

/// A case that `bits_are_references_or_refused` once failed with: R2 is not for split objects.
#[test]
fn a_split_object_may_be_longer_than_what_is_left_of_its_frame() {
    let r = Reference::from_bits(2_305_843_009_217_888_256 >> 1).unwrap();
    assert!(r.is_split() && r.frame() != FrameIndex(0));
}
