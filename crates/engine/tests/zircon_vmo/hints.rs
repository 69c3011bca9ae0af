//! What an owner says of its pages, and reclaim that heeds it.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::Trigger;
use coldpress_engine::evictor::{EngineSource, Evictor, Level, Target};
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::{Hint, VmoError, VmoId};

/// Says it of one page that is in place.
fn hint(s: &System, id: VmoId, page: u64, hint: Hint) {
    assert_placed_eq!(s.vmos.hint(id, page..page + 1, hint), Ok(1));
}

fn dont_need(s: &System, id: VmoId, page: u64) {
    hint(s, id, page, Hint::DontNeed);
}

fn always_need(s: &System, id: VmoId, page: u64) {
    hint(s, id, page, Hint::AlwaysNeed);
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
    // A page that is not needed goes first, however young it is.
    dont_need(s, vmo, 1);
    assert_placed_eq!(standing(s, vmo, 1), Standing::In(Queue::DontNeed));
    assert_placed_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 1);
    assert_placed_eq!(forms(s, vmo), "PCP");
    assert_filled(s, &mut w, vmo, 1..2, 1);
    // Who touches it needs it after all.
    dont_need(s, vmo, 1);
    read_byte(s, &mut w, vmo, 1);
    assert_placed_eq!(standing(s, vmo, 1), Standing::Generation(0));
    assert_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 0);
    // One that is always needed does not go, as long as memory is not critical, and the word stays.
    always_need(s, vmo, 0);
    for _ in 0..3 {
        rotate(s, 9);
        reclaim(s, &mut r, 3, Trigger::Eager);
        reclaim(s, &mut r, 3, Trigger::Pressure);
        assert_placed_eq!(forms(s, vmo), "PCC");
    }
    rotate(s, 9);
    assert_placed_eq!(reclaim(s, &mut r, 3, Trigger::Critical), 1);
    assert_eq!(forms(s, vmo), "CCC");
    // Of what is not in place nothing can be said.
    assert_eq!(s.vmos.hint(vmo, 0..3, Hint::AlwaysNeed), Ok(0));
    let beyond = s.vmos.hint(vmo, 0..4, Hint::DontNeed);
    assert_eq!(beyond, Err(VmoError::OutOfRange));
    assert_placed_eq!(decompressed(s), 1);
    // The later word counts.
    assert_filled(s, &mut w, vmo, 0..3, 1);
    always_need(s, vmo, 2);
    dont_need(s, vmo, 2);
    assert_placed_eq!(reclaim(s, &mut r, 3, Trigger::Pressure), 1);
    assert_placed_eq!(forms(s, vmo), "PPC");
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
    dont_need(s, grandchild, 0);
    assert_placed_eq!(standing(s, vmo, 0), Standing::In(Queue::DontNeed));
    assert_placed_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 1);
    assert_placed_eq!(forms(s, vmo), "CP");
    always_need(s, child, 1);
    rotate(s, 9);
    assert_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 0);
    assert_placed_eq!(forms(s, vmo), "CP");
    // Nobody got a copy by that. Who has one says it of the copy alone.
    assert_placed_eq!(s.machine.pages_in_place(), 1);
    s.vmos
        .write(&s.machine, &mut w, grandchild, PAGE, &[1])
        .unwrap();
    dont_need(s, grandchild, 1);
    assert_placed_eq!(reclaim(s, &mut r, 2, Trigger::Pressure), 1);
    assert_placed_eq!(
        (forms(s, grandchild), forms(s, child)),
        ("CC".into(), "CP".into())
    );
    assert_filled(s, &mut w, vmo, 0..2, 1);
    // Where one between has a copy, those made before see the page still, and those made after the copy.
    let before = snapshot(s, child);
    s.vmos.write(&s.machine, &mut w, child, 0, &[1]).unwrap();
    let after = snapshot(s, child);
    let isolated = |id, page| standing(s, id, page) == Standing::In(Queue::DontNeed);
    dont_need(s, vmo, 0);
    for copied in [child, after] {
        always_need(s, copied, 0);
        assert_placed!(isolated(vmo, 0) && !isolated(copied, 0));
    }
    always_need(s, before, 0);
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    // The other page is shared by all of them.
    dont_need(s, after, 1);
    assert_placed!([vmo, child, before].iter().all(|&id| isolated(id, 1)));
    end(s, &[vmo, grandchild, child, after, before]);
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
    assert_placed_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 3);
    assert_eq!(s.machine.pages_in_place(), 0);
    assert_eq!((forms(s, one), forms(s, two)), ("CC".into(), "C".into()));
    assert_filled(s, &mut w, one, 0..2, 1);
    assert_filled(s, &mut w, two, 0..1, 50);
    assert_placed_eq!(s.vmos.engine().storage_usage().objects, 0);
    end(s, &[one, two]);
}

/// Pages of an anonymous VMO are compressed where Zircon's of a pager are evicted. What it has committed
/// changes without anybody asking for it: that is counted, and nothing else is.
#[test]
fn vmo_reclamation_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let vmo = s.create(4);
    fill(s, &mut w, vmo, 0..3, 1);
    s.commit(&mut w, vmo, 3..4).unwrap();
    let events = |id| s.vmos.reclaims(id).unwrap();
    assert_placed_eq!(events(vmo), 0);
    // Used just now, or pinned: it stays.
    assert_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 0);
    s.vmos.pin(&s.machine, &mut w, vmo, 2..3).unwrap();
    rotate(s, 9);
    read_byte(s, &mut w, vmo, 1);
    assert_placed_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 2);
    assert_placed_eq!(forms(s, vmo), "CPP0");
    assert_placed_eq!((committed(s, vmo), events(vmo)), (pages(2, 0, 2 * PAGE), 2));
    // What is asked for is no such event: neither bringing it back, nor decommitting, nor zeroing it.
    s.commit(&mut w, vmo, 0..4).unwrap();
    s.vmos.unpin(vmo, 2..3).unwrap();
    s.decommit(vmo, 3..4).unwrap();
    s.zero(vmo, 2..3).unwrap();
    assert_placed_eq!((committed(s, vmo), events(vmo)), (pages(2, 0, 2 * PAGE), 2));
    // A page that could not be compressed is back: nothing has changed.
    s.write_page(&mut w, vmo, 1, &noise(1));
    rotate(s, 9);
    assert_placed_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 1);
    assert_placed_eq!((committed(s, vmo), events(vmo)), (pages(1, 0, PAGE), 3));
    // Of a page that is shared all are told, and nobody's number ever goes back.
    s.commit(&mut w, vmo, 0..1).unwrap();
    let child = snapshot(s, vmo);
    rotate(s, 9);
    assert_placed_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 1);
    assert_placed_eq!((events(vmo), events(child)), (4, 4));
    s.write_page(&mut w, child, 1, &text(5));
    rotate(s, 9);
    assert_placed_eq!(reclaim(s, &mut r, 8, Trigger::Pressure), 1);
    assert_placed_eq!((events(vmo), events(child)), (4, 5), "of its own it alone");
    s.destroy(vmo);
    assert_placed_eq!(events(child), 5);
    // And where a pager has the page still, it is evicted.
    let paged = paged(s, 1);
    s.commit(&mut w, paged, 0..1).unwrap();
    assert!(s.vmos.evict(&s.machine, place(s, paged, 0).unwrap()));
    assert_eq!((content(s, paged), events(paged)), (pages(0, 0, 0), 1));
    end(s, &[child, paged]);
}

#[test]
fn vmo_dirty_pages_with_hints_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 2);
    for page in 0..2 {
        s.write_page(&mut w, vmo, page, &text(page));
    }
    let dirty = Standing::In(Queue::Dirty);
    // No word moves a dirty page.
    dont_need(s, vmo, 0);
    always_need(s, vmo, 1);
    assert_eq!([0, 1].map(|page| standing(s, vmo, page)), [dirty; 2]);
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..2), Ok(0));
    s.vmos.writeback_begin(&s.machine, vmo, 0..2).unwrap();
    dont_need(s, vmo, 0);
    assert_eq!([0, 1].map(|page| standing(s, vmo, page)), [dirty; 2]);
    s.vmos.writeback_end(vmo, 0..2).unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    // That a page is always needed is known still, when it is clean.
    rotate(s, 9);
    let mut none = reclaimer(1);
    let mut source = EngineSource {
        engine: s.vmos.engine(),
        host: &s.machine,
        reclaimer: &mut none,
        trigger: Trigger::Pressure,
        evict: |place| s.vmos.evict(&s.machine, place),
        free: || 0,
    };
    let target = Target {
        pending: true,
        min_pages: 2,
        level: Level::IncludeNewest,
        ..Target::default()
    };
    let evictor = Evictor::<SpinLock>::new();
    assert_eq!(evictor.run_target(&mut source, &target).evicted, 1);
    assert_eq!(forms(s, vmo), "-P");
    assert_eq!(standing(s, vmo, 1), Standing::Generation(0), "young again");
    // Where memory is critical nobody asks what was said.
    rotate(s, 9);
    source.trigger = Trigger::Critical;
    assert_eq!(evictor.run_target(&mut source, &target).evicted, 1);
    assert_eq!(forms(s, vmo), "--");
    // The other way round: what is not needed, and then written, is dirty.
    s.commit(&mut w, vmo, 0..1).unwrap();
    dont_need(s, vmo, 0);
    assert_placed_eq!(standing(s, vmo, 0), Standing::In(Queue::DontNeed));
    s.vmos.write(&s.machine, &mut w, vmo, 0, &[1]).unwrap();
    assert_eq!(standing(s, vmo, 0), dirty);
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..1), Ok(0));
    end(s, &[vmo]);
}
