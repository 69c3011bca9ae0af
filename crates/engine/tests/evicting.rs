//! Promise: what becomes of a page between its choice and its eviction is what counts.

use crate::kernel::*;
use coldpress_engine::evictor::{EngineSource, Level, Source};
use coldpress_engine::queues::standing::{Queue, Standing};
use coldpress_engine::vmo::VmoId;
use coldpress_engine::{Place, Trigger};

/// A pager-backed VMO with one old page in place, and where that is.
fn old_page(s: &'static System) -> (VmoId, Place) {
    let (mut w, vmos) = (worker(0), &s.vmos);
    let vmo = vmos.create_pager_backed(&s.machine, 1).unwrap();
    let from = s.create(1);
    s.write_page(&mut w, from, 0, &text(1));
    let mut list = vmos.take(&s.machine, &mut w, from, 0..1).unwrap();
    vmos.supply(&s.machine, &mut w, vmo, 0, &mut list).unwrap();
    vmos.discard(&s.machine, list);
    s.destroy(from);
    (0..9).for_each(|_| vmos.engine().rotate(&s.machine));
    let mut place = None;
    let found = vmos.lookup(vmo, 0..1, |_, at, _| place = Some(at));
    assert_eq!(found, Ok(()));
    (vmo, place.expect("it is in place"))
}

/// Has the page chosen, and does this to it then: it is not evicted.
fn chosen(s: &'static System, meanwhile: impl FnMut(Place)) {
    let mut meanwhile = meanwhile;
    let mut source = EngineSource {
        engine: s.vmos.engine(),
        host: &s.machine,
        reclaimer: &mut reclaimer(1),
        trigger: Trigger::Pressure,
        evict: |place| {
            meanwhile(place);
            s.vmos.evict(&s.machine, place)
        },
        free: || 0,
    };
    let freed = source.reclaim(Level::IncludeNewest, 1).expect("a page");
    assert_eq!(freed.pages(), 0);
    s.vmos.check_invariants();
    s.vmos.engine().check_queues();
}

/// Found by the simulation: the page that was passed over was looked up in a segment that was gone.
#[test]
fn a_vmo_that_ends_when_its_page_was_chosen() {
    let s = system(100);
    let (vmo, _) = old_page(s);
    chosen(s, |_| s.destroy(vmo));
    s.assert_nothing_is_held();
}

/// A page that was passed over became young whatever it was: a pinned one was taken out later.
#[test]
fn a_page_that_is_pinned_when_it_was_chosen_stays_wired() {
    let s = system(100);
    let (vmo, place) = old_page(s);
    chosen(s, |_| {
        let pinned = s.vmos.pin(&s.machine, &mut worker(0), vmo, 0..1);
        assert_eq!(pinned, Ok(()));
    });
    let standing = s.vmos.engine().standing(place.0, place.1);
    assert_eq!(standing, Some(Standing::In(Queue::Wired)));
    s.vmos.unpin(vmo, 0..1).unwrap();
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

/// The same with a dirty one, which was compressed or evicted later, and what was written lost.
#[test]
fn a_page_that_is_written_when_it_was_chosen_stays_among_the_dirty() {
    let s = system(100);
    let (vmo, place) = old_page(s);
    chosen(s, |_| s.write_page(&mut worker(0), vmo, 0, &text(2)));
    let standing = s.vmos.engine().standing(place.0, place.1);
    assert_eq!(standing, Some(Standing::In(Queue::Dirty)));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}

/// A page that only could not be evicted now is young afterwards.
#[test]
fn a_page_that_cannot_be_evicted_does_not_stand_in_the_way() {
    let s = system(100);
    let (vmo, place) = old_page(s);
    let mut source = EngineSource {
        engine: s.vmos.engine(),
        host: &s.machine,
        reclaimer: &mut reclaimer(1),
        trigger: Trigger::Pressure,
        evict: |_| false,
        free: || 0,
    };
    let freed = source.reclaim(Level::IncludeNewest, 1).expect("a page");
    assert_eq!(freed.pages(), 0);
    let standing = s.vmos.engine().standing(place.0, place.1);
    assert_eq!(standing, Some(Standing::Generation(0)));
    s.destroy(vmo);
    s.assert_nothing_is_held();
}
