//! Promise: storages are instances. Two of them, for two security domains, over one source of
//! frames never share a frame, and each counts the tables that it has touched, and no others.

use std::collections::HashSet;

use crate::common::model::Model;
use crate::common::{Host, with_tables};
use coldpress_storage::parts;
use coldpress_storage::{CompressedStorage, Press, SizeClass, ThreeSlot, TwoSlot};

fn frames_of(host: &Host, model: &Model) -> HashSet<u32> {
    let parts = model.objects.iter().flat_map(|(reference, _)| {
        // SAFETY: the object is stored, and nobody writes to it.
        unsafe { parts(host, *reference) }.unwrap()
    });
    let with_bytes = parts.filter(|(_, range)| !range.is_empty());
    with_bytes.map(|(frame, _)| frame.0).collect()
}

fn never_share_a_frame<S: CompressedStorage>(make: fn() -> S) {
    let (rounds, compacts_every) = if cfg!(miri) { (4, 2) } else { (1500, 16) };
    let host = Host::new(rounds + 64);
    let mut domains = [(); 3].map(|()| (Box::new(make()), Model::default()));
    for (storage, _) in &mut domains {
        with_tables(&mut **storage, rounds + 64);
    }
    for round in 0..rounds {
        for (number, (storage, model)) in domains.iter_mut().enumerate() {
            let len = 1 + (round * 7919 + number * 4409) % 2867;
            model.store(&host, &mut **storage, len);
            if round % 3 != number {
                let index = (round * 31) % model.objects.len();
                model.free(&host, &mut **storage, index);
            }
            if round % compacts_every == 0 {
                model.compact(&host, &mut **storage, 8192, usize::MAX);
            }
        }
    }
    let frames = domains.each_ref().map(|(_, model)| frames_of(&host, model));
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        assert!(frames[a].is_disjoint(&frames[b]), "{}", S::NAME);
    }
    let held = domains.each_ref().map(|(storage, model)| {
        storage.check_invariants();
        storage.check_frames(&host);
        model
            .objects
            .iter()
            .for_each(|(r, seed)| crate::common::model::verify(&host, *r, *seed));
        storage.usage().storage_bytes / 4096
    });
    assert_eq!(held.iter().sum::<usize>(), host.lent(), "{}", S::NAME);
}

#[test]
fn domains_never_share_a_frame() {
    never_share_a_frame(TwoSlot::new);
    never_share_a_frame(ThreeSlot::new);
    never_share_a_frame(SizeClass::new);
    never_share_a_frame(Press::new);
}

/// A page of the table serves 1,023 frames. The first domain has frames of every page; the second
/// began when there were 3,000, and pays for the pages where its own are.
#[test]
#[cfg_attr(miri, ignore = "5,000 frames")]
fn a_domain_pays_for_the_tables_that_it_touched() {
    let host = Host::new(5000);
    let (mut early, mut late) = (Box::new(Press::new()), Box::new(Press::new()));
    with_tables(&mut *early, 5000);
    with_tables(&mut *late, 5000);
    for _ in 0..3000 {
        early.allocate(&host, 4096).unwrap();
    }
    assert_eq!(late.usage().metadata_bytes, 0);
    late.allocate(&host, 4096).unwrap();
    assert_eq!(late.usage().metadata_bytes, 4096);
    for _ in 0..500 {
        late.allocate(&host, 4096).unwrap();
        early.allocate(&host, 4096).unwrap();
    }
    assert_eq!(early.usage().metadata_bytes, 4 * 4096, "frames 1 to 4,000");
    assert_eq!(
        late.usage().metadata_bytes,
        2 * 4096,
        "frames 3,001 to 4,001"
    );
    late.check_invariants();
}

/// Compaction passes over the pages of the table where all frames are another domain's.
#[test]
#[cfg_attr(miri, ignore = "8,000 frames")]
fn compaction_goes_through_the_frames_of_its_own_domain() {
    let host = Host::new(8000);
    let (mut other, mut ours) = (Box::new(Press::new()), Box::new(Press::new()));
    with_tables(&mut *other, 8000);
    with_tables(&mut *ours, 8000);
    let mut model = Model::default();
    for part in 0..3 {
        for _ in 0..40 {
            assert!(model.store(&host, &mut *ours, 1500 + part));
        }
        for _ in 0..2500 {
            other.allocate(&host, 4096).unwrap();
        }
    }
    for index in (0..120).rev().step_by(2) {
        model.free(&host, &mut *ours, index);
    }
    let held = ours.usage().storage_bytes;
    let done = model.compact_pass(&host, &mut *ours, 3000, usize::MAX);
    assert!(done.pass_ended && ours.usage().storage_bytes < held * 6 / 10);
    ours.check_invariants();
    ours.check_frames(&host);
    assert_eq!(other.usage().objects, 7500);
    for (reference, seed) in &model.objects {
        crate::common::model::verify(&host, *reference, *seed);
    }
}
