//! Pager-backed VMOs: the half of Zircon's pager cases that an engine has to know. What a pager is, and how
//! it is spoken to, is the machine's.

use super::kit::*;
use crate::kernel::*;
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::{Dirtiness, VmoError};
use coldpress_engine::{Trigger, Tunables};

fn dirtiness(s: &System, id: coldpress_engine::vmo::VmoId, page: u64) -> Dirtiness {
    let mut found = Dirtiness::Clean;
    let show = |_, dirtiness| found = dirtiness;
    s.vmos.dirty_pages(id, page..page + 1, show).unwrap();
    s.vmos.check_invariants();
    found
}

const DIRTY: Standing = Standing::In(Queue::Dirty);

#[test]
fn vmo_dirty_pages_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 3);
    s.commit(&mut w, vmo, 0..3).unwrap();
    assert_eq!(dirtiness(s, vmo, 1), Dirtiness::Clean);
    assert_placed_eq!(standing(s, vmo, 1), Standing::Generation(0));
    s.vmos.write(&s.machine, &mut w, vmo, PAGE, &[7]).unwrap();
    assert_eq!(dirtiness(s, vmo, 1), Dirtiness::Dirty);
    assert_eq!(standing(s, vmo, 1), DIRTY);
    // Nor does reading it.
    assert_eq!(s.read_page(&mut w, vmo, 1)[0], 7);
    assert_eq!(standing(s, vmo, 1), DIRTY);
    // Neither age nor anybody's word makes it go.
    rotate(s, 9);
    assert_eq!(standing(s, vmo, 1), DIRTY);
    let (segment, index) = place(s, vmo, 1).unwrap();
    assert!(!s.vmos.evict(&s.machine, (segment, index)));
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..3), Ok(2));
    assert_eq!(forms(s, vmo), "-P-");
    assert_eq!(
        s.vmos.decommit(&s.machine, vmo, 1..2),
        Err(VmoError::NotSupported)
    );
    assert_eq!(s.read_page(&mut w, vmo, 1)[0], 7);
    end(s, &[vmo]);
}

#[test]
fn vmo_dirty_pages_writeback_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 2);
    let write = |w: &mut TestWorker, byte| s.vmos.write(&s.machine, w, vmo, 0, &[byte]).unwrap();
    let evicted = || s.vmos.evict_pages(&s.machine, vmo, 0..2).unwrap();
    write(&mut w, 1);
    s.vmos.writeback_begin(&s.machine, vmo, 0..2).unwrap();
    assert_eq!(dirtiness(s, vmo, 0), Dirtiness::AwaitingClean);
    assert_eq!((standing(s, vmo, 0), evicted()), (DIRTY, 0));
    // Written meanwhile: the end of that write-back does not clean it.
    write(&mut w, 2);
    s.vmos.writeback_end(vmo, 0..2).unwrap();
    assert_eq!(dirtiness(s, vmo, 0), Dirtiness::Dirty);
    assert_eq!((standing(s, vmo, 0), evicted()), (DIRTY, 0));
    s.vmos.writeback_begin(&s.machine, vmo, 0..2).unwrap();
    assert_eq!(s.read_page(&mut w, vmo, 0)[0], 2);
    assert_eq!(
        dirtiness(s, vmo, 0),
        Dirtiness::AwaitingClean,
        "reading is allowed"
    );
    assert_eq!((standing(s, vmo, 0), evicted()), (DIRTY, 0));
    s.vmos.writeback_end(vmo, 0..2).unwrap();
    assert_eq!(dirtiness(s, vmo, 0), Dirtiness::Clean);
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    // It ages as any other, until it is written again.
    rotate(s, 1);
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(1));
    write(&mut w, 3);
    assert_eq!((standing(s, vmo, 0), evicted()), (DIRTY, 0));
    s.vmos.writeback_begin(&s.machine, vmo, 0..2).unwrap();
    s.vmos.writeback_end(vmo, 0..2).unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    assert_eq!(evicted(), 1);
    assert_eq!(forms(s, vmo), "--");
    end(s, &[vmo]);
}

#[test]
fn vmo_pinning_dirty_state_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 1);
    let wired = Standing::In(Queue::Wired);
    s.vmos.pin(&s.machine, &mut w, vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), wired);
    s.vmos.write(&s.machine, &mut w, vmo, 0, &[1]).unwrap();
    assert_eq!(
        (dirtiness(s, vmo, 0), standing(s, vmo, 0)),
        (Dirtiness::Dirty, wired)
    );
    s.vmos.writeback_begin(&s.machine, vmo, 0..1).unwrap();
    assert_eq!(dirtiness(s, vmo, 0), Dirtiness::AwaitingClean);
    assert_eq!(standing(s, vmo, 0), wired);
    s.vmos.writeback_end(vmo, 0..1).unwrap();
    assert_eq!(
        (dirtiness(s, vmo, 0), standing(s, vmo, 0)),
        (Dirtiness::Clean, wired)
    );
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..1), Ok(0), "pinned");
    // Unpinned while dirty it joins the dirty, and cleaned the others.
    s.vmos.write(&s.machine, &mut w, vmo, 0, &[2]).unwrap();
    s.vmos.unpin(vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), DIRTY);
    s.vmos.writeback_begin(&s.machine, vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), DIRTY);
    // Pinned while it is written back it may be written, and is dirty (Zircon can pin for reading only).
    s.vmos.pin(&s.machine, &mut w, vmo, 0..1).unwrap();
    s.vmos.writeback_end(vmo, 0..1).unwrap();
    assert_eq!(
        (dirtiness(s, vmo, 0), standing(s, vmo, 0)),
        (Dirtiness::Dirty, wired)
    );
    s.vmos.unpin(vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), DIRTY);
    s.vmos.writeback_begin(&s.machine, vmo, 0..1).unwrap();
    s.vmos.writeback_end(vmo, 0..1).unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    end(s, &[vmo]);
}

#[test]
fn vmo_high_priority_dirty_state_test() {
    let s = system(100);
    let mut w = worker(0);
    let vmo = paged(s, 1);
    s.commit(&mut w, vmo, 0..1).unwrap();
    s.vmos
        .mark_latency_sensitive(&s.machine, &mut w, vmo)
        .unwrap();
    let high = Standing::In(Queue::HighPriority);
    assert_eq!(standing(s, vmo, 0), high);
    s.vmos.write(&s.machine, &mut w, vmo, 0, &[1]).unwrap();
    assert_eq!(standing(s, vmo, 0), DIRTY);
    s.vmos.writeback_begin(&s.machine, vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), DIRTY);
    s.vmos.writeback_end(vmo, 0..1).unwrap();
    assert_eq!(standing(s, vmo, 0), high);
    assert_eq!(s.vmos.evict_pages(&s.machine, vmo, 0..1), Ok(0));
    s.vmos.unmark_latency_sensitive(vmo).unwrap();
    assert_placed_eq!(standing(s, vmo, 0), Standing::Generation(0));
    end(s, &[vmo]);
}

/// Where pager-backed pages are compressed before they are evicted.
#[test]
fn vmo_dedup_dirty_test() {
    let s = system(100);
    let (mut w, mut r) = (worker(0), reclaimer(1));
    let tunables = Tunables {
        compress_pager_backed: true,
        ..Tunables::DEFAULT
    };
    s.vmos.engine().configure(&tunables).unwrap();
    let vmo = paged(s, 2);
    for page in 0..2 {
        s.write_page(&mut w, vmo, page, &[0; 4096]);
    }
    // One of them is cleaned; both are zeros.
    s.vmos.writeback_begin(&s.machine, vmo, 1..2).unwrap();
    s.vmos.writeback_end(vmo, 1..2).unwrap();
    let engine = s.vmos.engine();
    rotate(s, 9);
    let batch = engine.reclaim_batch(&s.machine, &mut r, 8, u64::MAX, Trigger::Pressure);
    assert_eq!(batch.kept, 1);
    assert_eq!(forms(s, vmo), "P0");
    assert_eq!(dirtiness(s, vmo, 0), Dirtiness::Dirty);
    assert!((0..2).all(|page| s.read_page(&mut w, vmo, page) == [0; 4096]));
    end(s, &[vmo]);
}
