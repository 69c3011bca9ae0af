//! One test for each rule of our own storage: placement, freeing, compaction, S3, refusals.

use crate::common::model::{Model, Returned};
use crate::common::{Chunks, Host, with_host};
use coldpress_storage::{CompressedStorage, FRAME_BYTES, Press, Reference, Usage, parts};

const SMALL: bool = cfg!(miri);

fn store(host: &Host, storage: &mut Press, len: usize) -> Reference {
    let reference = storage.allocate(host, len).unwrap();
    storage.check_invariants();
    storage.check_frames(host);
    reference
}

fn free(host: &Host, storage: &mut Press, reference: Reference) {
    storage.free(host, reference);
    storage.check_invariants();
    storage.check_frames(host);
}

/// The frames in which an object has bytes.
fn frames_of(host: &Host, reference: Reference) -> Vec<u32> {
    // SAFETY: the object is stored, and nobody writes to it.
    let parts = unsafe { parts(host, reference) }.unwrap();
    let with_bytes = parts.into_iter().filter(|(_, range)| !range.is_empty());
    with_bytes.map(|(frame, _)| frame.0).collect()
}

/// A storage and a model with objects of pseudo-random lengths.
fn filled(count: usize, lens: std::ops::RangeInclusive<usize>) -> (Host, Box<Press>, Model) {
    let (host, mut storage) = with_host(Press::new(), count + 8);
    let mut model = Model::default();
    let mut seed = 5_u64;
    for _ in 0..count {
        assert!(model.store(&host, &mut *storage, random_len(&mut seed, &lens)));
    }
    (host, storage, model)
}

fn random(seed: &mut u64) -> usize {
    *seed = seed
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*seed >> 33) as usize
}

fn random_len(seed: &mut u64, lens: &std::ops::RangeInclusive<usize>) -> usize {
    lens.start() + random(seed) % (lens.end() - lens.start() + 1)
}

fn density(storage: &Press) -> f64 {
    let usage = storage.usage();
    usage.payload_bytes as f64 / (usage.storage_bytes + usage.metadata_bytes) as f64
}

#[test]
fn a_frame_is_filled_to_the_brim_and_the_last_object_goes_on_in_the_next() {
    let (host, mut storage) = with_host(Press::new(), 4);
    for _ in 0..4 {
        assert!(!store(&host, &mut storage, 900).is_split());
    }
    let fifth = store(&host, &mut storage, 900);
    assert!(fifth.is_split());
    assert_eq!((frames_of(&host, fifth), host.lent()), (vec![1, 2], 2));
    let sixth = store(&host, &mut storage, 900);
    assert_eq!(frames_of(&host, sixth), [2]);
}

#[test]
fn the_hole_that_fits_best_takes_an_object_whole() {
    let (host, mut storage) = with_host(Press::new(), 8);
    let all = [500, 64, 700, 64, 600, 64].map(|len| store(&host, &mut storage, len));
    for hole in [0, 2, 4] {
        free(&host, &mut storage, all[hole]);
    }
    let found = store(&host, &mut storage, 590);
    assert_eq!(found.offset(), all[4].offset(), "600 bytes, not 700");
    let found = store(&host, &mut storage, 500);
    assert_eq!(found, all[0], "an exact fit");
}

#[test]
fn two_holes_take_what_none_takes_before_a_frame_is_taken() {
    let (host, mut storage) = with_host(Press::new(), 8);
    let all: Vec<_> = (0..8).map(|_| store(&host, &mut storage, 1000)).collect();
    assert_eq!(host.lent(), 2);
    free(&host, &mut storage, all[0]);
    free(&host, &mut storage, all[2]);
    let split = store(&host, &mut storage, 1500);
    assert!(split.is_split());
    assert_eq!(host.lent(), 2);
}

#[test]
fn an_object_is_split_only_if_it_must_be() {
    let (host, mut storage) = with_host(Press::new(), 8);
    let all = [1000, 64, 1000, 64, 1900].map(|len| store(&host, &mut storage, len));
    for hole in [0, 2] {
        free(&host, &mut storage, all[hole]);
    }
    for len in [1000, 990] {
        assert!(!store(&host, &mut storage, len).is_split());
    }
}

#[test]
fn small_objects_are_never_split() {
    let (host, mut storage) = with_host(Press::new(), 100);
    for _ in 0..if SMALL { 80 } else { 2000 } {
        assert!(!storage.allocate(&host, 127).unwrap().is_split());
    }
    storage.check_frames(&host);
}

#[test]
fn holes_side_by_side_become_one() {
    for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
        let (host, mut storage) = with_host(Press::new(), 4);
        let all = [500, 500, 500, 64].map(|len| store(&host, &mut storage, len));
        for index in order {
            free(&host, &mut storage, all[index]);
        }
        let large = store(&host, &mut storage, 1500);
        assert_eq!((large.offset(), large.is_split()), (all[0].offset(), false));
    }
}

#[test]
fn an_empty_frame_is_returned_at_once() {
    let (host, mut storage) = with_host(Press::new(), 4);
    let all: Vec<_> = (0..5).map(|_| store(&host, &mut storage, 900)).collect();
    let last = all[4];
    assert!(last.is_split());
    for reference in &all[..4] {
        free(&host, &mut storage, *reference);
        assert_eq!(host.lent(), 2, "a piece is left in the first frame");
    }
    free(&host, &mut storage, last);
    assert_eq!(host.lent(), 0);
    let metadata_bytes = storage.usage().metadata_bytes;
    let nothing = Usage {
        metadata_bytes,
        ..Usage::default()
    };
    assert_eq!(storage.usage(), nothing);
}

#[test]
fn an_object_of_a_page_or_nearly_has_a_frame_for_itself() {
    let (host, mut storage) = with_host(Press::new(), 16);
    store(&host, &mut storage, 100);
    for (n, len) in (4087..=FRAME_BYTES).enumerate() {
        let reference = store(&host, &mut storage, len);
        assert_eq!((reference.offset(), reference.is_split()), (0, false));
        assert_eq!(host.lent(), n + 2);
        if len % 2 == 0 {
            free(&host, &mut storage, reference);
            assert_eq!(host.lent(), n + 1);
            store(&host, &mut storage, len);
        }
    }
    // One byte less shares.
    let before = host.lent();
    assert!(store(&host, &mut storage, 4086).is_split());
    assert_eq!(host.lent(), before + 1);
}

#[test]
fn storing_never_holds_more_frames_than_objects() {
    for len in [1365, 2048, 2049, 2867, 3000, 4000, 4086, 4087, 4096] {
        let (host, mut storage) = with_host(Press::new(), 300);
        for objects in 1..=if SMALL { 20 } else { 300 } {
            storage.allocate(&host, len).unwrap();
            assert!(host.lent() <= objects, "{len}");
        }
        storage.check_frames(&host);
    }
}

#[test]
fn a_pass_mends_that_split_objects_keep_two_frames_each() {
    let count = if SMALL { 40 } else { 2000 };
    let (host, mut storage, mut model) = filled(count, 1800..=2600);
    for index in (0..model.objects.len()).rev() {
        // Every other split object stays, so that no two of them share a frame.
        if !model.objects[index].0.is_split() || index % 2 == 0 {
            model.free(&host, &mut *storage, index);
        }
    }
    let objects = model.objects.len();
    assert!(objects > 3 && host.lent() > objects);
    assert!(host.lent() <= 2 * objects, "never more than pieces");
    model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
    model.check(&host, &*storage, Returned::OneByOne);
    assert!(host.lent() <= objects, "{} of {objects}", host.lent());
}

#[test]
fn one_split_object_is_brought_home() {
    let (host, mut storage, mut model) = filled(2, 2500..=2500);
    assert!(model.objects[1].0.is_split());
    model.free(&host, &mut *storage, 0);
    assert_eq!(host.lent(), 2);
    let done = model.compact_pass(&host, &mut *storage, 1 << 20, usize::MAX);
    assert_eq!((done.objects, done.frames, done.frames_taken), (1, 2, 1));
    assert!(!model.objects[0].0.is_split());
    model.check(&host, &*storage, Returned::OneByOne);
}

/// The density that is promised: at first, after churn, and after one pass.
#[test]
#[cfg_attr(miri, ignore = "some 100,000 objects")]
fn is_dense_at_first_after_churn_and_after_one_pass() {
    for (lens, at_least) in [
        (50..=2300, [0.98, 0.98, 0.97]),
        (64..=512, [0.96, 0.94, 0.94]),
        (64..=2867, [0.98, 0.98, 0.98]),
        (2049..=2867, [0.98, 0.98, 0.97]),
    ] {
        let (host, mut storage, mut model) = filled(4000, lens.clone());
        let mut seed = 11;
        let fill = density(&storage);
        let half = |model: &mut Model, storage: &mut Press, seed: &mut u64| {
            for index in (0..model.objects.len()).rev() {
                if random(seed).is_multiple_of(2) {
                    model.free(&host, storage, index);
                }
            }
        };
        for _ in 0..10 {
            half(&mut model, &mut storage, &mut seed);
            while model.objects.len() < 4000 {
                assert!(model.store(&host, &mut *storage, random_len(&mut seed, &lens)));
            }
        }
        let churned = density(&storage);
        half(&mut model, &mut storage, &mut seed);
        let payload = storage.usage().payload_bytes;
        let done = model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
        model.check(&host, &*storage, Returned::OneByOne);
        let found = [fill, churned, density(&storage)];
        assert!(
            found.iter().zip(at_least).all(|(f, least)| *f >= least),
            "{lens:?}: {found:?}"
        );
        assert!(
            done.bytes * 2 < payload,
            "{} of {payload} moved",
            done.bytes
        );
        let again = model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
        assert!(
            again.bytes * 20 < payload,
            "a second pass moves {} of {payload}",
            again.bytes
        );
    }
}

/// Stores and frees go on between the steps of compaction, always.
#[test]
fn compaction_survives_churn() {
    let count = if SMALL { 30 } else { 3000 };
    let (host, mut storage, mut model) = filled(count, 50..=2300);
    let filled = host.lent();
    for index in (0..model.objects.len()).rev().step_by(2) {
        model.free(&host, &mut *storage, index);
    }
    let (mut seed, mut passes, mut moved) = (3, 0, 0);
    let live = model.objects.len();
    for step in 0..count * 3 {
        let index = random(&mut seed) % model.objects.len();
        model.free(&host, &mut *storage, index);
        assert!(model.store(&host, &mut *storage, random_len(&mut seed, &(50..=2300))));
        assert!(host.lent() <= filled);
        if step % 4 == 0 {
            let done = model.compact(&host, &mut *storage, 4096, usize::MAX);
            passes += usize::from(done.pass_ended);
            moved += done.objects;
        }
        if step % 512 == 0 {
            model.check(&host, &*storage, Returned::OneByOne);
        }
    }
    assert!(passes > 0 && moved > 0 && model.objects.len() == live);
    if !SMALL {
        assert!(density(&storage) > 0.94, "{}", density(&storage));
    }
}

/// A pass that nobody goes on with gives what it has set apart back to those who store.
#[test]
fn stores_take_back_what_an_unfinished_pass_has_marked() {
    let count = if SMALL { 40 } else { 2000 };
    let (host, mut storage, mut model) = filled(count, 900..=1100);
    for index in (0..model.objects.len()).rev().step_by(2) {
        model.free(&host, &mut *storage, index);
    }
    let held = host.lent();
    // Enough to mark every frame that will be, and to move a few objects.
    let budget = held * (512 + 8) + 8192;
    let done = model.compact(&host, &mut *storage, budget, usize::MAX);
    assert!(!done.pass_ended);
    while model.objects.len() < count * 9 / 10 {
        assert!(model.store(&host, &mut *storage, 1000));
    }
    model.check(&host, &*storage, Returned::OneByOne);
    assert!(
        host.lent() <= held + held / 50 + 1,
        "{} of {held}",
        host.lent()
    );
    model.compact_pass(&host, &mut *storage, 4096, usize::MAX);
    model.check(&host, &*storage, Returned::OneByOne);
}

#[test]
fn compaction_goes_around_objects_that_may_not_move() {
    for refuse_every in [1, 2, 5] {
        let count = if SMALL { 40 } else { 1000 };
        let (host, mut storage, mut model) = filled(count, 50..=2300);
        for index in (0..model.objects.len()).rev().step_by(2) {
            model.free(&host, &mut *storage, index);
        }
        let before = host.lent();
        let done = model.compact_pass(&host, &mut *storage, 10_000, refuse_every);
        model.check(&host, &*storage, Returned::OneByOne);
        assert!(
            host.lent() <= before + 1,
            "a pass is in debt by a frame at most"
        );
        assert_eq!(done.objects == 0, refuse_every == 1);
    }
}

#[test]
fn compaction_without_a_frame_from_the_host_uses_holes() {
    let count = if SMALL { 20 } else { 200 };
    let (host, mut storage) = with_host(Press::new(), count);
    let mut model = Model::default();
    let mut seed = 9;
    while model.store(&host, &mut *storage, random_len(&mut seed, &(50..=2300))) {}
    assert_eq!(host.lent(), count);
    for index in (0..model.objects.len()).rev().step_by(2) {
        model.free(&host, &mut *storage, index);
    }
    // Whoever else uses the host takes all that is left.
    let mut other = with_host(Press::new(), count).1;
    while other.allocate(&host, 4096).is_some() {}
    let (lent, held) = (host.lent(), storage.usage().storage_bytes);
    let done = model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
    assert_eq!(done.frames - done.frames_taken, lent - host.lent());
    assert!(storage.usage().storage_bytes < held * 8 / 10);
}

#[test]
fn an_object_is_moved_once_in_a_pass() {
    let count = if SMALL { 40 } else { 2000 };
    let (host, mut storage, mut model) = filled(count, 50..=2300);
    for index in (0..model.objects.len()).rev().step_by(2) {
        model.free(&host, &mut *storage, index);
    }
    let mut arrived = std::collections::HashSet::new();
    loop {
        let done = storage.compact(&host, 20_000, &mut |from, to| {
            assert!(!arrived.contains(&from), "moved twice");
            arrived.insert(to);
            true
        });
        if done.pass_ended {
            break;
        }
    }
    assert!(!arrived.is_empty());
    storage.check_frames(&host);
}

#[test]
#[cfg_attr(miri, ignore = "1,000 frames")]
fn tables_take_four_bytes_a_frame() {
    let (host, mut storage) = with_host(Press::new(), 1022);
    for _ in 0..1022 {
        storage.allocate(&host, 4096).unwrap();
    }
    assert_eq!(storage.usage().metadata_bytes, 4096);
}

#[test]
fn without_tables_nothing_is_stored_and_the_frame_goes_back() {
    let host = Host::new(4);
    let mut storage = Box::new(Press::new());
    for len in [100, 4096] {
        assert_eq!(storage.allocate(&host, len), None);
    }
    assert_eq!(host.lent(), 0);
    assert!(!storage.reserve(&Chunks(0.into()), 1));
    assert!(storage.reserve(&Chunks(1.into()), 4));
    assert!(storage.allocate(&host, 100).is_some());
}

#[test]
fn lengths_that_no_object_has_are_refused() {
    let (host, mut storage) = with_host(Press::new(), 4);
    for len in [0, FRAME_BYTES + 1, usize::MAX] {
        assert_eq!(storage.allocate(&host, len), None);
    }
    assert_eq!(host.lent(), 0);
}

fn panics(act: impl FnOnce()) -> String {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    let message = result.expect_err("nothing was noticed");
    match message.downcast::<String>() {
        Ok(message) => *message,
        Err(message) => (*message.downcast::<&str>().unwrap()).to_owned(),
    }
}

#[test]
fn freeing_twice_is_noticed() {
    // Whatever lies before and behind: objects, holes, the frame's ends.
    for others in 0..8 {
        for split in [false, true] {
            let (host, mut storage) = with_host(Press::new(), 4);
            let lens = if split { [3500, 900, 900] } else { [900; 3] };
            let all = lens.map(|len| store(&host, &mut storage, len));
            let keep = store(&host, &mut storage, 900);
            assert_eq!(all[1].is_split(), split);
            for (index, reference) in all.iter().enumerate() {
                if others >> index & 1 == 1 || index == 1 {
                    free(&host, &mut storage, *reference);
                }
            }
            let message = panics(|| storage.free(&host, all[1]));
            assert!(message.contains("no such"), "{message}");
            storage.check_frames(&host);
            storage.free(&host, keep);
        }
    }
}

#[test]
fn forged_references_are_noticed_and_change_nothing() {
    let (host, mut storage) = with_host(Press::new(), 16);
    let whole = store(&host, &mut storage, 900);
    let page = store(&host, &mut storage, 4096);
    let mut split = store(&host, &mut storage, 3500);
    while !split.is_split() {
        split = store(&host, &mut storage, 1500);
    }
    let frame =
        |r: Reference, by: i64| coldpress_storage::FrameIndex((i64::from(r.frame().0) + by) as u32);
    let before = storage.usage();
    for (forged, expected) in [
        (
            Reference::new(whole.frame(), whole.offset(), 899, 0),
            "object",
        ),
        (
            Reference::new(whole.frame(), whole.offset(), 900, 1),
            "object",
        ),
        (
            Reference::new(whole.frame(), whole.offset(), 900, 7),
            "object",
        ),
        (Reference::new(whole.frame(), 0, 900, 0), "object"),
        (
            Reference::new(frame(whole, 50), whole.offset(), 900, 0),
            "frame",
        ),
        (
            Reference::new(frame(whole, 1 << 30), whole.offset(), 900, 0),
            "frame",
        ),
        (
            Reference::new_split(whole.frame(), whole.offset(), 900, 0),
            "no such",
        ),
        (Reference::new_split(whole.frame(), 4088, 900, 0), "no such"),
        (Reference::new_split(whole.frame(), 0, 900, 0), "no such"),
        (Reference::new(page.frame(), 0, 4095, 0), "object"),
        (Reference::new(page.frame(), 8, 900, 0), "object"),
        (Reference::new(page.frame(), 0, 900, 1), "object"),
        (Reference::new_split(page.frame(), 0, 4096, 1), "object"),
        (
            Reference::new(split.frame(), split.offset(), 64, 0),
            "object",
        ),
        (
            Reference::new_split(split.frame(), split.offset(), split.len() - 1, 0),
            "object",
        ),
    ] {
        let message = panics(|| storage.free(&host, forged));
        assert!(message.contains(expected), "{forged:?}: {message}");
        assert_eq!(storage.usage(), before);
        storage.check_invariants();
        storage.check_frames(&host);
    }
}
