//! Promise: while pages come and go, their queues can be rotated, harvested, switched and rearranged by
//! other threads, and no page and no record is lost.

use crate::machine::*;
use coldpress_codec::Page;
use coldpress_engine::harvest::Harvest;
use coldpress_engine::queues::random::RandomPick;
use coldpress_engine::queues::standing::{Mark, Marking, Queue};
use coldpress_engine::{Trigger, Tunables};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGES: u32 = 256;

/// Unless the environment says `COLDPRESS_STRESS_SECONDS`.
const RUNS_FOR_SECONDS: u64 = 3;

/// Longer than any page takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }
}

/// Acts on a page once it is in place. Another worker may be about to put it there and not have a
/// processor for a while.
fn touch<R>(s: &System, w: &mut TestWorker, index: u32, act: impl FnOnce(&mut Page) -> R) -> R {
    let end = Instant::now() + PATIENCE;
    for tries in 1_u64.. {
        {
            let mut place = s.machine.place(1, index);
            place.accessed = true;
            if let Some(page) = &mut place.page {
                return act(page);
            }
        }
        s.fault(w, 1, index);
        if tries % 64 == 0 {
            assert!(Instant::now() < end, "page {index} is never in place");
            std::thread::yield_now();
        }
    }
    unreachable!()
}

/// Writes a page of its own half and reads it back, over and over.
fn program(s: &System, id: u16, stop: &AtomicBool, done: &AtomicU64) {
    let (mut w, mut random) = (worker(id), Random(id.into()));
    let mut versions = [0u64; PAGES as usize / 2];
    while !stop.load(Relaxed) {
        let at = random.below(PAGES / 2);
        let index = at * 2 + u32::from(id % 2);
        let version = &mut versions[at as usize];
        let expected = match *version {
            0 => [0; 4096],
            v => content(Kind::ALL[v as usize % 3], v),
        };
        let found = touch(s, &mut w, index, |page| *page);
        assert!(found == expected, "page {index}");
        match random.below(20) {
            0 => {
                *version = 0;
                s.decommit(1, index, index + 1);
            }
            _ => {
                *version = done.fetch_add(1, Relaxed) * 2 + 1;
                let kind = Kind::ALL[*version as usize % 3];
                let new = content(kind, *version);
                touch(s, &mut w, index, |page| *page = new);
            }
        }
    }
}

/// Rearranges the queues.
fn keeper(s: &System, stop: &AtomicBool) {
    let (mut random, mut harvest, mut pick) = (Random(9), Harvest::new(), RandomPick::new(9));
    let queues = [
        Queue::Reclaim,
        Queue::DontNeed,
        Queue::Failed,
        Queue::ZeroFork,
        Queue::HighPriority,
        Queue::Wired,
        Queue::Dirty,
    ];
    while !stop.load(Relaxed) {
        let index = random.below(PAGES);
        match random.below(10) {
            0 | 1 => s.engine.rotate(&s.machine),
            2 => {
                s.engine.harvest(&s.machine, &mut harvest, 2);
            }
            // Most are made reclaimable again.
            3 | 4 => {
                let to = queues[random.below(queues.len() as u32) as usize];
                s.engine.move_page(1, index, to);
            }
            5 => {
                for index in 0..PAGES {
                    s.engine.move_page(1, index, Queue::Reclaim);
                    s.engine
                        .mark_page(1, index, Mark::PagerBacked, Marking::Clear);
                }
            }
            6 => {
                let mark = [Mark::PagerBacked, Mark::AlwaysNeed][random.below(2) as usize];
                let marking = [Marking::Set, Marking::Clear][random.below(2) as usize];
                s.engine.mark_page(1, index, mark, marking);
            }
            7 => {
                s.engine.mark_accessed(1, index);
            }
            8 => {
                s.engine.pick_random(&mut pick, 20);
            }
            _ => {
                let anonymous = random.below(2) == 0;
                let tunables = Tunables {
                    reclaim_anonymous: anonymous,
                    reclaim_zero_forks: anonymous && random.below(2) == 0,
                    ..Tunables::DEFAULT
                };
                s.engine.configure(&tunables).unwrap();
            }
        }
        s.machine.advance(1000);
        s.engine.check_queues();
        assert!(s.engine.queue_counts().pages() <= PAGES);
    }
}

#[test]
fn queues_are_rearranged_while_pages_come_and_go() {
    let seconds = std::env::var("COLDPRESS_STRESS_SECONDS");
    let seconds = seconds.map_or(RUNS_FOR_SECONDS, |text| text.parse().unwrap());
    let s = system(1, PAGES as usize);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        scope.spawn(move || program(s, 2, stop, done));
        scope.spawn(move || program(s, 3, stop, done));
        scope.spawn(move || keeper(s, stop));
        for mut r in reclaimers([4, 5]) {
            scope.spawn(move || {
                let triggers = [Trigger::Eager, Trigger::Pressure, Trigger::Critical];
                for trigger in triggers.into_iter().cycle() {
                    if stop.load(Relaxed) {
                        break;
                    }
                    s.engine
                        .reclaim_batch(&s.machine, &mut r, 32, u64::MAX, trigger);
                }
            });
        }
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end && !stop.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Relaxed);
    });
    let c = s.engine.counters();
    println!(
        "{} writes, {} pages taken, {} decompressed, {} picked, {} found accessed",
        value(&done),
        value(&c.evictions),
        value(&c.faults_decompressed),
        value(&c.picked),
        value(&c.accessed)
    );
    assert!(value(&c.evictions) > 0 && value(&c.accessed) > 0);
    s.engine.check_queues();
    s.decommit(1, 0, PAGES);
    assert_eq!(s.engine.queue_counts().pages(), 0);
    s.assert_nothing_is_held();
    s.assert_no_record_is_lost();
}
