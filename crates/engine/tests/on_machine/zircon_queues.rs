//! Promise: the page queues behave as the cases of Zircon's page queue tests ask (suite `pq`), each
//! written anew for our queues. Where ours differ it is said: pages beyond the last generation are
//! *isolated* when room is needed for a new one, and inactive generations are reclaimable before that.

use crate::machine::*;
use coldpress_engine::Trigger;
use coldpress_engine::evictor::{EngineSource, Evictor, Level, Target};
use coldpress_engine::queues::counts::{ActiveInactive, QueueCounts};
use coldpress_engine::queues::standing::{Mark, Marking, Queue, Standing};
use coldpress_engine::queues::{ACTIVE_GENERATIONS, GENERATIONS};

/// Pages are a leaf apart, so that no reclaim takes them together.
const APART: u32 = 64;

/// Puts page number `n` in place.
fn page(s: &System, n: u32) -> (u32, u32) {
    s.write(&mut worker(1), 1, n * APART, &content(Kind::Text, n.into()));
    (1, n * APART)
}

fn pager_backed(s: &System, n: u32) -> (u32, u32) {
    let (segment, index) = page(s, n);
    assert!(
        s.engine
            .mark_page(segment, index, Mark::PagerBacked, Marking::Set)
    );
    (segment, index)
}

fn standing(s: &System, (segment, index): (u32, u32)) -> Standing {
    s.engine.check_queues();
    s.engine.standing(segment, index).unwrap()
}

fn move_to(s: &System, (segment, index): (u32, u32), to: Queue) {
    assert!(s.engine.move_page(segment, index, to));
    s.engine.check_queues();
}

fn generation(age: usize, pages: u32) -> QueueCounts {
    let mut counts = QueueCounts::default();
    counts.generations[age] = pages;
    counts
}

fn active_inactive(s: &System) -> (u32, u32) {
    let ActiveInactive { active, inactive } = s.engine.active_inactive();
    (active, inactive)
}

fn rotate(s: &System) {
    s.engine.rotate(&s.machine);
    s.engine.check_queues();
}

/// Which page reclaim takes next; it is compressed by that.
fn next_out(s: &System, candidates: &[(u32, u32)]) -> Option<(u32, u32)> {
    let resident = |at: &&(u32, u32)| s.is_resident(at.0, at.1);
    let before: Vec<_> = candidates.iter().filter(resident).collect();
    s.reclaim(&mut reclaimer(2), 1);
    let mut gone = before.into_iter().filter(|at| !resident(at));
    let out = gone.next().copied();
    assert_eq!(gone.next(), None, "one at a time");
    out
}

/// Which pager-backed pages reclaim asks to be evicted before it has freed one, in this order. None is
/// evicted; each is young afterwards.
fn asked_to_evict(s: &System) -> Vec<(u32, u32)> {
    let mut asked = Vec::new();
    let mut reclaimer = reclaimer(2);
    let mut source = EngineSource {
        engine: &s.engine,
        host: &s.machine,
        reclaimer: &mut reclaimer,
        trigger: Trigger::Pressure,
        evict: |place| {
            asked.push(place);
            false
        },
        free: || 0,
    };
    let target = Target {
        pending: true,
        min_pages: 1,
        level: Level::IncludeNewest,
        ..Target::default()
    };
    let evictor = Evictor::<<Machine as coldpress_engine::Host>::RawLock>::new();
    evictor.run_target(&mut source, &target);
    asked
}

fn drop_page(s: &System, (segment, index): (u32, u32)) {
    s.decommit(segment, index, index + 1);
}

#[test]
fn pq_add_remove() {
    let s = system(1, 128);
    let queues = [
        (Queue::Reclaim, generation(0, 1)),
        (
            Queue::DontNeed,
            QueueCounts {
                dont_need: 1,
                ..Default::default()
            },
        ),
        (
            Queue::Failed,
            QueueCounts {
                failed: 1,
                ..Default::default()
            },
        ),
        (
            Queue::HighPriority,
            QueueCounts {
                high_priority: 1,
                ..Default::default()
            },
        ),
        (
            Queue::Wired,
            QueueCounts {
                wired: 1,
                ..Default::default()
            },
        ),
        (
            Queue::Dirty,
            QueueCounts {
                dirty: 1,
                ..Default::default()
            },
        ),
    ];
    for make in [page, pager_backed] {
        for (queue, counts) in queues {
            let at = make(s, 0);
            assert_eq!(s.engine.queue_counts(), generation(0, 1));
            move_to(s, at, queue);
            assert_eq!(s.engine.queue_counts(), counts, "{queue:?}");
            drop_page(s, at);
            assert_eq!(s.engine.standing(at.0, at.1), None);
            assert_eq!(s.engine.queue_counts(), QueueCounts::default(), "{queue:?}");
        }
    }
    s.assert_no_record_is_lost();
}

#[test]
fn pq_move_queues() {
    let s = system(1, 256);
    let in_queue = |count: fn(&mut QueueCounts) -> &mut u32| {
        let mut counts = QueueCounts::default();
        *count(&mut counts) = 1;
        counts
    };
    let wired = in_queue(|counts| &mut counts.wired);
    // An anonymous page: out of the wired ones among those that age.
    let anonymous = page(s, 0);
    move_to(s, anonymous, Queue::Wired);
    assert_eq!(standing(s, anonymous), Standing::In(Queue::Wired));
    assert_eq!(s.engine.queue_counts(), wired);
    move_to(s, anonymous, Queue::Reclaim);
    assert_eq!(standing(s, anonymous), Standing::Generation(0));
    assert_eq!(s.engine.queue_counts(), generation(0, 1));
    drop_page(s, anonymous);
    // A pager-backed one, through all of them.
    let at = pager_backed(s, 1);
    for (to, stands, counts) in [
        (Queue::Reclaim, Standing::Generation(0), generation(0, 1)),
        (
            Queue::Dirty,
            Standing::In(Queue::Dirty),
            in_queue(|counts| &mut counts.dirty),
        ),
        (Queue::Reclaim, Standing::Generation(0), generation(0, 1)),
        (
            Queue::DontNeed,
            Standing::In(Queue::DontNeed),
            in_queue(|counts| &mut counts.dont_need),
        ),
    ] {
        move_to(s, at, to);
        assert_eq!(standing(s, at), stands);
        assert_eq!(s.engine.queue_counts(), counts, "{to:?}");
    }
    assert_eq!(active_inactive(s), (0, 1));
    // It is the first to be evicted, though another has not been heard of for longest.
    let aged = pager_backed(s, 2);
    while standing(s, aged) != Standing::Isolated {
        rotate(s);
    }
    assert_eq!(standing(s, at), Standing::In(Queue::DontNeed));
    assert_eq!(asked_to_evict(s).first(), Some(&at));
    drop_page(s, aged);
    move_to(s, at, Queue::DontNeed);
    move_to(s, at, Queue::Wired);
    assert_eq!(standing(s, at), Standing::In(Queue::Wired));
    assert_eq!(s.engine.queue_counts(), wired);
    assert_eq!(active_inactive(s), (0, 0));
    assert_eq!(asked_to_evict(s), []);
    drop_page(s, at);
    assert_eq!(s.engine.queue_counts(), QueueCounts::default());
}

#[test]
fn pq_move_self_queue() {
    let s = system(1, 128);
    let at = page(s, 0);
    for queue in [
        Queue::Reclaim,
        Queue::DontNeed,
        Queue::Failed,
        Queue::HighPriority,
        Queue::Wired,
        Queue::Dirty,
    ] {
        move_to(s, at, queue);
        let (stands, counts) = (standing(s, at), s.engine.queue_counts());
        assert_eq!(counts.pages(), 1);
        move_to(s, at, queue);
        assert_eq!((standing(s, at), s.engine.queue_counts()), (stands, counts));
    }
}

#[test]
fn pq_rotate_queue() {
    let s = system(1, 256);
    let (wired, clean, dirty) = (page(s, 0), pager_backed(s, 1), pager_backed(s, 2));
    move_to(s, wired, Queue::Wired);
    move_to(s, dirty, Queue::Dirty);
    let with_the_others = |counts: QueueCounts| QueueCounts {
        wired: 1,
        dirty: 1,
        ..counts
    };
    for age in 0..GENERATIONS {
        assert_eq!(standing(s, clean), Standing::Generation(age));
        assert_eq!(s.engine.queue_counts(), with_the_others(generation(age, 1)));
        let is_active = age < ACTIVE_GENERATIONS;
        assert_eq!(
            active_inactive(s),
            (u32::from(is_active), u32::from(!is_active))
        );
        rotate(s);
    }
    let isolated = with_the_others(QueueCounts {
        isolated: 1,
        ..Default::default()
    });
    for _ in 0..3 {
        assert_eq!(standing(s, clean), Standing::Isolated);
        assert_eq!(s.engine.queue_counts(), isolated);
        assert_eq!(active_inactive(s), (0, 1));
        rotate(s);
    }
    assert_eq!(standing(s, wired), Standing::In(Queue::Wired));
    assert_eq!(standing(s, dirty), Standing::In(Queue::Dirty));
    // A touch brings it back among the newest, and it ages again.
    assert!(s.engine.mark_accessed(clean.0, clean.1));
    for age in 0..4 {
        assert_eq!(s.engine.queue_counts(), with_the_others(generation(age, 1)));
        rotate(s);
    }
    assert!(!s.engine.mark_accessed(wired.0, wired.1), "does not age");
}

#[test]
fn pq_toggle_dont_need_queue() {
    let s = system(1, 256);
    let (touched, untouched) = (page(s, 0), page(s, 1));
    assert_eq!(active_inactive(s), (2, 0));
    for at in [touched, untouched] {
        move_to(s, at, Queue::DontNeed);
    }
    for _ in 0..12 {
        assert_eq!(s.engine.queue_counts().dont_need, 2);
        assert_eq!(active_inactive(s), (0, 2));
        rotate(s);
    }
    assert!(s.engine.mark_accessed(touched.0, touched.1));
    for age in 0..4 {
        assert_eq!(standing(s, touched), Standing::Generation(age));
        assert_eq!(standing(s, untouched), Standing::In(Queue::DontNeed));
        let active = u32::from(age < ACTIVE_GENERATIONS);
        assert_eq!(active_inactive(s), (active, 2 - active));
        rotate(s);
    }
}

#[test]
fn pq_single_queue_fifo_order() {
    for rotations in [ACTIVE_GENERATIONS, GENERATIONS - 1, GENERATIONS, 20] {
        let s = system(1, 512);
        let order = [3, 0, 5, 1, 4].map(|n| page(s, n));
        for _ in 0..rotations {
            rotate(s);
        }
        let stands = standing(s, order[0]);
        assert!(order.iter().all(|&at| standing(s, at) == stands));
        assert_eq!(stands == Standing::Isolated, rotations >= GENERATIONS);
        for at in order {
            assert_eq!(next_out(s, &order), Some(at), "after {rotations} rotations");
        }
        assert_eq!(next_out(s, &order), None);
    }
}

#[test]
fn pq_multiple_queues_fifo_order() {
    let s = system(1, 256);
    let old = page(s, 1);
    rotate(s);
    let young = page(s, 0);
    let mut rotations = 0;
    while standing(s, young) != Standing::Isolated {
        rotate(s);
        rotations += 1;
    }
    assert_eq!(rotations, GENERATIONS);
    assert_eq!(standing(s, old), Standing::Isolated);
    assert_eq!(next_out(s, &[old, young]), Some(old));
    assert_eq!(next_out(s, &[old, young]), Some(young));
}

#[test]
fn pq_isolate_dont_need_fifo_order() {
    let s = system(1, 512);
    let order = [4, 2, 0, 1].map(|n| page(s, n));
    for at in order.into_iter().rev() {
        move_to(s, at, Queue::DontNeed);
    }
    for at in order.into_iter().rev() {
        assert_eq!(next_out(s, &order), Some(at));
    }
}

#[test]
fn pq_isolate_queues_priority() {
    let s = system(1, 256);
    let aged = page(s, 0);
    while standing(s, aged) != Standing::Isolated {
        rotate(s);
    }
    let not_needed = page(s, 1);
    move_to(s, not_needed, Queue::DontNeed);
    assert_eq!(next_out(s, &[aged, not_needed]), Some(not_needed));
    assert_eq!(next_out(s, &[aged, not_needed]), Some(aged));
}

#[test]
fn pq_is_page_reclaimable() {
    let s = system(1, 128);
    let at = page(s, 0);
    for _ in 0..2 {
        assert_eq!(active_inactive(s), (1, 0));
        assert_eq!(next_out(s, &[at]), None);
        move_to(s, at, Queue::DontNeed);
        assert_eq!(active_inactive(s), (0, 1));
        move_to(s, at, Queue::Reclaim);
    }
    assert_eq!(next_out(s, &[at]), None, "moving it back has ended it");
    for _ in 0..ACTIVE_GENERATIONS {
        rotate(s);
    }
    assert_eq!(next_out(s, &[at]), Some(at));
}

/// The case of the address space tests that concerns the queues: `vmaspace_accessed_test_untagged`.
#[test]
fn vmaspace_accessed_test_untagged() {
    use coldpress_engine::harvest::{Harvest, Harvested};
    let s = system(1, 256);
    let (mut w, mut harvest) = (worker(1), Harvest::default());
    let (ageing, wired) = (page(s, 0), page(s, 1));
    move_to(s, wired, Queue::Wired);
    rotate(s);
    let mut all = |s: &System| s.engine.harvest(&s.machine, &mut harvest, u32::MAX);
    // Both were written, so both were accessed.
    let (asked, accessed) = (2, 2);
    assert_eq!(all(s), Harvested { asked, accessed });
    assert_eq!(standing(s, ageing), Standing::Generation(0));
    assert_eq!(standing(s, wired), Standing::In(Queue::Wired));
    // Nobody has touched them since.
    rotate(s);
    let accessed = 0;
    assert_eq!(all(s), Harvested { asked, accessed });
    assert_eq!(standing(s, ageing), Standing::Generation(1));
    s.read(&mut w, ageing.0, ageing.1);
    let accessed = 1;
    assert_eq!(all(s), Harvested { asked, accessed });
    assert_eq!(standing(s, ageing), Standing::Generation(0));
}
