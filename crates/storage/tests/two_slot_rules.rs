//! One test for each rule of zbud that seed 002 names, and for what differs from it.

use crate::common::{Host, with_host};
use coldpress_storage::{CompressedStorage, FRAME_BYTES, Reference, TwoSlot};

fn store(host: &Host, storage: &mut TwoSlot, len: usize) -> Reference {
    let reference = storage.allocate(host, len).unwrap();
    storage.check_invariants();
    reference
}

#[test]
fn one_buddy_begins_where_the_frame_begins_and_one_ends_where_it_ends() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    let first = store(&host, &mut storage, 100);
    let last = store(&host, &mut storage, 200);
    assert_eq!((first.offset(), host.lent()), (0, 1));
    assert_eq!(last.offset() + last.len(), FRAME_BYTES);
}

#[test]
fn a_frame_holds_two_objects_and_no_more() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    for _ in 0..3 {
        store(&host, &mut storage, 8);
    }
    assert_eq!(host.lent(), 2, "at best 2:1");
}

#[test]
fn either_buddy_can_be_stored_anew() {
    for freed in 0..2 {
        let (host, mut storage) = with_host(TwoSlot::new(), 4);
        let both = [1000, 2000].map(|len| store(&host, &mut storage, len));
        storage.free(&host, both[freed]);
        storage.check_invariants();
        let again = store(&host, &mut storage, both[freed].len());
        assert_eq!((again, host.lent()), (both[freed], 1));
    }
}

#[test]
fn the_smallest_free_space_that_is_sure_to_do_is_taken() {
    let (host, mut storage) = with_host(TwoSlot::new(), 16);
    let frames = [3000, 2000, 2500].map(|len| {
        let reference = store(&host, &mut storage, len);
        (reference, store(&host, &mut storage, 4096 - len))
    });
    for (_, partner) in frames {
        storage.free(&host, partner);
    }
    let found = store(&host, &mut storage, 1530);
    assert_eq!(found.frame(), frames[2].0.frame(), "1,592 bytes are free");
}

#[test]
fn a_whole_page_is_taken_which_zbud_refuses() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    for len in [FRAME_BYTES, FRAME_BYTES - 1, FRAME_BYTES - 64] {
        let reference = store(&host, &mut storage, len);
        assert_eq!((reference.offset(), reference.len()), (0, len));
    }
    assert_eq!(host.lent(), 3);
}

#[test]
fn an_empty_frame_is_returned_at_once() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    let both = [100, 100].map(|len| store(&host, &mut storage, len));
    storage.free(&host, both[0]);
    assert_eq!(host.lent(), 1);
    storage.free(&host, both[1]);
    assert_eq!(host.lent(), 0);
    storage.check_invariants();
}

#[test]
#[should_panic(expected = "no such object")]
fn freeing_twice_is_noticed() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    let both = [100, 100].map(|len| store(&host, &mut storage, len));
    storage.free(&host, both[0]);
    storage.free(&host, both[0]);
}

#[test]
#[should_panic(expected = "no such frame")]
fn a_reference_to_a_frame_never_held_is_noticed() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    let reference = store(&host, &mut storage, 100);
    let forged = Reference::from_bits(reference.to_bits() + (7 << 21)).unwrap();
    storage.free(&host, forged);
}

#[test]
#[should_panic(expected = "no such slot")]
fn a_split_reference_is_none_of_ours() {
    let (host, mut storage) = with_host(TwoSlot::new(), 4);
    let reference = store(&host, &mut storage, 100);
    let forged = Reference::new_split(reference.frame(), 0, 100, 0);
    storage.free(&host, forged);
}
