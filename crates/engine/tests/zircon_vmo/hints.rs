//! What an owner says of its pages, and reclaim that heeds it.

use crate::kit::*;
use crate::system::*;
use coldpress_engine::queues::standing::{Mark, Queue, Standing};
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{Place, Trigger};

fn dont_need(s: &System, (segment, index): Place) {
    assert!(s.vmos.engine().move_page(segment, index, Queue::DontNeed));
}

fn always_need(s: &System, (segment, index): Place) {
    let (engine, mark) = (s.vmos.engine(), Mark::AlwaysNeed);
    assert!(engine.mark_page(segment, index, mark, true));
}

/// Compresses up to so many pages, for this reason. How many.
fn reclaim(s: &System, r: &mut TestReclaimer, pages: u32, trigger: Trigger) -> u32 {
    let engine = s.vmos.engine();
    engine
        .reclaim_batch(&s.machine, r, pages, u64::MAX, trigger)
        .kept
}

fn read_byte(s: &System, w: &mut TestWorker, id: VmoId, page: u64) {
    let mut byte = [0];
    s.vmos
        .read(&s.machine, w, id, page * PAGE, &mut byte)
        .unwrap();
}

#[test]
fn vmo_eviction_hints_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(3);
    fill(s, &mut w, vmo, 0..3, 1);
    let at = |page| place(s, vmo, page).unwrap();
    // A page that is not needed goes first, however young it is.
    dont_need(s, at(1));
    assert_eq!(standing(s, vmo, 1), Standing::In(Queue::DontNeed));
    assert_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 1);
    assert_eq!(forms(s, vmo), "PCP");
    assert_filled(s, &mut w, vmo, 1..2, 1);
    // Who touches it needs it after all.
    dont_need(s, at(1));
    read_byte(s, &mut w, vmo, 1);
    assert_eq!(standing(s, vmo, 1), Standing::Generation(0));
    assert_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 0);
    // One that is always needed does not go, as long as memory is not critical, and the word stays.
    always_need(s, at(0));
    for _ in 0..3 {
        rotate(s, 9);
        reclaim(s, &mut r, 3, Trigger::Eager);
        reclaim(s, &mut r, 3, Trigger::Pressure);
        assert_eq!(forms(s, vmo), "PCC");
    }
    rotate(s, 9);
    assert_eq!(reclaim(s, &mut r, 3, Trigger::Critical), 1);
    assert_eq!(forms(s, vmo), "CCC");
    // The later word counts.
    assert_filled(s, &mut w, vmo, 0..3, 1);
    always_need(s, at(2));
    dont_need(s, at(2));
    assert_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 1);
    assert_eq!(forms(s, vmo), "PPC");
    end(s, &[vmo]);
}

#[test]
fn vmo_eviction_hints_clone_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(2);
    fill(s, &mut w, vmo, 0..2, 1);
    let child = snapshot(s, vmo);
    let grandchild = snapshot(s, child);
    // What is said of the page that a snapshot sees is said of the one page there is.
    dont_need(s, place(s, grandchild, 0).unwrap());
    assert_eq!(standing(s, vmo, 0), Standing::In(Queue::DontNeed));
    assert_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 1);
    assert_eq!(forms(s, vmo), "CP");
    always_need(s, place(s, child, 1).unwrap());
    rotate(s, 9);
    assert_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 0);
    assert_eq!(forms(s, vmo), "CP");
    // Nobody got a copy by that. Who has one says it of the copy alone.
    assert_eq!(s.machine.pages_in_place(), 1);
    s.vmos
        .write(&s.machine, &mut w, grandchild, PAGE, &[1])
        .unwrap();
    dont_need(s, place(s, grandchild, 1).unwrap());
    assert_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 1);
    assert_eq!(
        (forms(s, grandchild), forms(s, child)),
        ("CC".into(), "CP".into())
    );
    assert_filled(s, &mut w, vmo, 0..2, 1);
    end(s, &[vmo, grandchild, child]);
}

/// Old pages go, in any order and from whatever VMO, and their content comes back (older case).
#[test]
fn vmo_eviction_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let [one, two] = [s.create(2), s.create(1)];
    fill(s, &mut w, one, 0..2, 1);
    fill(s, &mut w, two, 0..1, 50);
    assert_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 0, "too young");
    rotate(s, 9);
    assert_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 3);
    assert_eq!(s.machine.pages_in_place(), 0);
    assert_eq!((forms(s, one), forms(s, two)), ("CC".into(), "C".into()));
    assert_filled(s, &mut w, one, 0..2, 1);
    assert_filled(s, &mut w, two, 0..1, 50);
    assert_eq!(s.vmos.engine().storage_usage().objects, 0);
    end(s, &[one, two]);
}
