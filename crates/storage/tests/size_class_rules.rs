//! One test for each rule of zsmalloc that the storage follows.

use crate::common::model::{Model, Returned};
use crate::common::{Chunks, Host, with_host};
use coldpress_storage::{CompressedStorage, FRAME_BYTES, LINK_BYTES, Reference, SizeClass};

fn fill(host: &Host, storage: &mut SizeClass, len: usize, count: usize) -> Vec<Reference> {
    let store = |_| storage.allocate(host, len).unwrap();
    let all = (0..count).map(store).collect();
    storage.check_invariants();
    all
}

#[test]
fn objects_of_a_class_share_a_chain_of_single_frames() {
    let (host, mut storage) = with_host(SizeClass::new(), 16);
    // Class 1,632: five objects in two frames.
    fill(&host, &mut storage, 1624, 5);
    assert_eq!(host.lent(), 2);
    fill(&host, &mut storage, 1624, 1);
    assert_eq!(host.lent(), 4);
}

#[test]
fn an_object_straddles_two_frames_of_its_chain() {
    let (host, mut storage) = with_host(SizeClass::new(), 16);
    let all = fill(&host, &mut storage, 1624, 5);
    let split = all.iter().map(|r| r.is_split());
    assert_eq!(
        split.collect::<Vec<_>>(),
        [false, false, true, false, false]
    );
    assert_eq!(all[2].offset(), 2 * 1632, "that is where the link is");
    assert_eq!(
        all[3].offset(),
        3 * 1632 - FRAME_BYTES + LINK_BYTES,
        "the first frame's share of the third object is left out"
    );
}

#[test]
fn an_object_that_ends_before_the_frame_is_whole_in_a_slot_that_straddles() {
    let (host, mut storage) = with_host(SizeClass::new(), 64);
    // Every length of every class that is merged: split exactly if it has to be.
    for len in (16..FRAME_BYTES).step_by(if cfg!(miri) { 488 } else { 8 }) {
        for reference in fill(&host, &mut storage, len, 4) {
            let end = reference.offset() + len;
            if reference.is_split() {
                assert!(end + LINK_BYTES > FRAME_BYTES, "{reference:?}");
            } else {
                assert!(end <= FRAME_BYTES, "{reference:?}");
            }
            storage.free(&host, reference);
        }
    }
}

#[test]
fn every_object_carries_a_word_but_whole_pages() {
    let (host, mut storage) = with_host(SizeClass::new(), 600);
    // 64 objects of 64 bytes in a frame, of which 8 are the word.
    fill(&host, &mut storage, 56, 64);
    assert_eq!(host.lent(), 1);
    fill(&host, &mut storage, 57, 1);
    assert!(host.lent() > 1, "another class");
    let page = storage.allocate(&host, FRAME_BYTES).unwrap();
    assert_eq!((page.offset(), page.is_split()), (0, false));
}

#[test]
fn the_fullest_chain_with_room_is_filled_first() {
    let (host, mut storage) = with_host(SizeClass::new(), 64);
    // Class 2,048: two in a frame; class 512: eight in a frame.
    let all = fill(&host, &mut storage, 504, 24);
    for index in [0, 8, 9, 10, 11, 12, 16, 17, 18] {
        storage.free(&host, all[index]);
    }
    let next = storage.allocate(&host, 504).unwrap();
    assert_eq!(next.frame(), all[0].frame(), "seven of eight are in use");
    let next = storage.allocate(&host, 504).unwrap();
    assert_eq!(next.frame(), all[16].frame(), "five of eight");
    storage.check_invariants();
}

#[test]
fn all_frames_of_a_chain_are_returned_with_its_last_object() {
    let (host, mut storage) = with_host(SizeClass::new(), 16);
    let all = fill(&host, &mut storage, 1624, 5);
    for (n, reference) in all.iter().enumerate() {
        assert_eq!(host.lent(), 2, "{n}");
        storage.free(&host, *reference);
        storage.check_invariants();
    }
    assert_eq!(host.lent(), 0);
}

#[test]
fn a_chain_that_cannot_be_had_whole_changes_nothing() {
    let (host, mut storage) = with_host(SizeClass::new(), 3);
    fill(&host, &mut storage, 1624, 5);
    let before = storage.usage();
    assert_eq!(storage.allocate(&host, 1624), None, "one frame is left");
    assert_eq!((storage.usage(), host.lent()), (before, 2));
    assert!(storage.allocate(&host, 4096).is_some());
    storage.check_invariants();
}

#[test]
fn without_tables_nothing_is_stored_and_the_frames_go_back() {
    let host = Host::new(16);
    let mut storage = Box::new(SizeClass::new());
    assert_eq!(storage.allocate(&host, 1624), None);
    assert_eq!(host.lent(), 0);
    assert!(!storage.reserve(&Chunks(0.into()), 1));
    assert!(storage.reserve(&Chunks(2.into()), 1));
    assert!(storage.allocate(&host, 1624).is_some());
}

#[test]
fn compaction_leaves_one_chain_with_room_in_a_class() {
    let (host, mut storage) = with_host(SizeClass::new(), 400);
    let mut model = Model::default();
    for _ in 0..200 {
        assert!(model.store(&host, &mut *storage, 1624));
    }
    for index in (0..200).rev().filter(|n| n % 3 != 0) {
        model.free(&host, &mut *storage, index);
    }
    let before = host.lent();
    let done = model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
    model.check(&host, &*storage, Returned::InChains);
    assert_eq!(host.lent(), 67_usize.div_ceil(5) * 2);
    assert_eq!(before - host.lent(), done.frames);
    let again = model.compact_pass(&host, &mut *storage, 64 << 10, usize::MAX);
    assert_eq!(again.objects, 0, "there is nothing more to do");
}

#[test]
fn compaction_goes_around_an_object_that_may_not_move() {
    let (host, mut storage) = with_host(SizeClass::new(), 400);
    let mut model = Model::default();
    for _ in 0..200 {
        assert!(model.store(&host, &mut *storage, 1624));
    }
    for index in (0..200).rev().filter(|n| n % 3 != 0) {
        model.free(&host, &mut *storage, index);
    }
    let done = model.compact_pass(&host, &mut *storage, 4096, 7);
    assert!(done.frames > 0 && done.objects > 0);
    model.check(&host, &*storage, Returned::InChains);
    let done = model.compact_pass(&host, &mut *storage, 4096, 1);
    assert_eq!((done.frames, done.objects), (0, 0), "all are declined");
    model.check(&host, &*storage, Returned::InChains);
}

#[test]
#[should_panic(expected = "no such object")]
fn freeing_twice_is_noticed() {
    let (host, mut storage) = with_host(SizeClass::new(), 4);
    let all = fill(&host, &mut storage, 1624, 2);
    storage.free(&host, all[0]);
    storage.free(&host, all[0]);
}

#[test]
#[should_panic(expected = "no such object")]
fn freeing_a_split_object_twice_is_noticed() {
    let (host, mut storage) = with_host(SizeClass::new(), 4);
    let all = fill(&host, &mut storage, 1624, 5);
    storage.free(&host, all[2]);
    storage.free(&host, all[2]);
}

#[test]
#[should_panic(expected = "no such object")]
fn another_length_is_noticed() {
    let (host, mut storage) = with_host(SizeClass::new(), 4);
    let all = fill(&host, &mut storage, 1624, 2);
    storage.free(
        &host,
        Reference::new(all[0].frame(), all[0].offset(), 1623, 0),
    );
}

#[test]
#[should_panic(expected = "no such object")]
fn an_offset_within_an_object_is_noticed() {
    let (host, mut storage) = with_host(SizeClass::new(), 4);
    let all = fill(&host, &mut storage, 1624, 2);
    storage.free(
        &host,
        Reference::new(all[0].frame(), all[0].offset() + 8, 1616, 0),
    );
}

#[test]
#[should_panic(expected = "no such frame")]
fn freeing_in_a_frame_that_went_back_is_noticed() {
    let (host, mut storage) = with_host(SizeClass::new(), 4);
    let page = storage.allocate(&host, FRAME_BYTES).unwrap();
    storage.free(&host, page);
    storage.free(&host, page);
}
