//! Two threads that touch pages, one that reclaims, one that drops and moves: every read gives
//! what was last written to the page, and nobody waits for ever.
//!
//! Each page's version stands beside its place and changes under the same lock, so each read is
//! checked against exactly what the page must hold. A toucher waits as a thread of a program
//! does: until somebody wakes it.

use crate::machine::*;
use coldpress_codec::Page;
use coldpress_engine::{Pace, Trigger};
use coldpress_storage::StorageKind;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

const SEGMENTS: u32 = 2;
const PAGES: u32 = 192;
/// Unless the environment says `COLDPRESS_STRESS_SECONDS`.
const RUNS_FOR_SECONDS: u64 = 3;
/// Longer than any fault takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

type At = (u32, u32);

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % u64::from(limit)) as u32
    }

    fn at(&mut self) -> At {
        (1 + self.below(SEGMENTS), self.below(PAGES))
    }
}

struct Stress {
    system: &'static System,
    /// Version of each page; 0: zeros. Read and written under the lock of its place.
    versions: Vec<AtomicU64>,
    next_version: AtomicU64,
    stop: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    changes: AtomicU64,
    forgotten: AtomicU64,
    /// Objects moved by compaction.
    moved: AtomicU64,
}

impl Stress {
    fn version(&self, (segment, index): At) -> &AtomicU64 {
        &self.versions[((segment - 1) * PAGES + index) as usize]
    }

    /// Touches the page and acts on it once it is in place.
    fn touch(&self, worker: &mut TestWorker, at: At, act: impl FnOnce(&mut Page)) {
        let s = self.system;
        loop {
            let before = {
                let mut place = s.machine.place(at.0, at.1);
                if let Some(page) = &mut place.page {
                    return act(page);
                }
                assert!(!place.poisoned, "{at:?}");
                place.wakes()
            };
            s.fault(worker, at.0, at.1);
            let since = Instant::now();
            while s.machine.wakes(at.0, at.1) == before && !s.machine.is_present(at.0, at.1) {
                if since.elapsed() > PATIENCE {
                    self.forgotten.fetch_add(1, Relaxed);
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    fn toucher(&self, id: u16) {
        let mut worker = worker(id);
        let mut random = Random(id.into());
        while !self.stop.load(Relaxed) {
            let at = random.at();
            let write = random.below(3) == 0;
            self.touch(&mut worker, at, |page| {
                let version = self.version(at);
                let now = version.load(Relaxed);
                assert!(
                    *page == content_of(now),
                    "{at:?}, version {now}: wrong bytes"
                );
                if write {
                    let next = self.next_version.fetch_add(1, Relaxed);
                    *page = content_of(next);
                    version.store(next, Relaxed);
                }
            });
            let counter = if write { &self.writes } else { &self.reads };
            counter.fetch_add(1, Relaxed);
        }
    }

    fn reclaimer(&self, mut reclaimer: TestReclaimer, seed: u64) {
        let s = self.system;
        let mut random = Random(seed);
        while !self.stop.load(Relaxed) {
            s.machine.advance(AGEING.interval_ns / 4);
            let pace = match random.below(4) {
                0 => Pace::Pressed,
                _ => Pace::Steady,
            };
            s.engine.age(&s.machine, &AGEING, pace);
            let pages = 1 + random.below(200);
            s.engine.reclaim_batch(
                &s.machine,
                &mut reclaimer,
                pages,
                u64::MAX,
                Trigger::Critical,
            );
            if random.below(4) == 0 {
                let step = s.engine.compact(&s.machine, 64 << 10);
                self.moved
                    .fetch_add(step.map_or(0, |step| step.objects as u64), Relaxed);
            }
            if random.below(50) == 0 {
                s.machine.changing.store(random.below(5), Relaxed);
            }
        }
    }

    fn changer(&self) {
        let mut random = Random(99);
        while !self.stop.load(Relaxed) {
            match random.below(3) {
                0 => {
                    let (segment, first) = random.at();
                    self.drop_pages(segment, first, (first + random.below(20)).min(PAGES));
                }
                _ => self.move_page(random.at(), random.at()),
            }
            self.changes.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn drop_pages(&self, segment: u32, first: u32, end: u32) {
        let s = self.system;
        s.machine.exclusively(|| {
            s.engine.decommit(&s.machine, segment, first, end);
            for index in first..end {
                let mut place = s.machine.place(segment, index);
                place.page = None;
                self.version((segment, index)).store(0, Relaxed);
            }
        });
    }

    fn move_page(&self, from: At, to: At) {
        if from == to {
            return;
        }
        let s = self.system;
        s.machine.exclusively(|| {
            s.engine.decommit(&s.machine, to.0, to.1, to.1 + 1);
            assert!(s.engine.transfer(&s.machine, from, to));
            // Both places at once, so that no toucher sees the page in both or in neither.
            let (mut one, mut other) = (
                s.machine.place(from.min(to).0, from.min(to).1),
                s.machine.place(from.max(to).0, from.max(to).1),
            );
            let (source, target) = if from < to {
                (&mut one, &mut other)
            } else {
                (&mut other, &mut one)
            };
            target.page = source.page.take();
            let version = self.version(from).swap(0, Relaxed);
            self.version(to).store(version, Relaxed);
        });
    }
}

/// What a page holds in a version.
fn content_of(version: u64) -> Page {
    match version {
        0 => [0; 4096],
        v => content(Kind::ALL[v as usize * 7 % 8], v),
    }
}

#[test]
fn every_read_gives_what_was_last_written() {
    let stress = Stress {
        system: system_with(StorageKind::Press, SEGMENTS as usize, PAGES as usize),
        versions: (0..SEGMENTS * PAGES).map(|_| AtomicU64::new(0)).collect(),
        next_version: AtomicU64::new(1),
        stop: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
        changes: AtomicU64::new(0),
        forgotten: AtomicU64::new(0),
        moved: AtomicU64::new(0),
    };
    let stress: &'static Stress = Box::leak(Box::new(stress));
    let s = stress.system;
    let [one, other] = reclaimers([0, 4]);
    let threads = [
        std::thread::spawn(|| stress.toucher(1)),
        std::thread::spawn(|| stress.toucher(2)),
        std::thread::spawn(|| stress.reclaimer(one, 77)),
        std::thread::spawn(|| stress.reclaimer(other, 78)),
        std::thread::spawn(|| stress.changer()),
    ];
    let since = Instant::now();
    let seconds = std::env::var("COLDPRESS_STRESS_SECONDS").ok();
    let seconds = seconds.map_or(RUNS_FOR_SECONDS, |s| s.parse().expect("a number"));
    while since.elapsed() < Duration::from_secs(seconds)
        && !threads.iter().any(|thread| thread.is_finished())
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    stress.stop.store(true, SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    let c = s.engine.counters();
    println!(
        "stress: {} reads, {} writes, {} changes in {:.1?}; {} pages taken, {} kept, {} raced, \
         {} decompressed, {} copied from staging, {} restores repeated, {} objects moved; \
         {} touchers forgotten",
        value(&stress.reads),
        value(&stress.writes),
        value(&stress.changes),
        since.elapsed(),
        value(&c.evictions),
        value(&c.critical_compressions),
        value(&c.raced),
        value(&c.faults_decompressed),
        value(&c.faults_copied),
        value(&c.copy_again),
        value(&stress.moved),
        value(&stress.forgotten),
    );
    s.machine.changing.store(0, Relaxed);
    let mut w = worker(3);
    for segment in 1..=SEGMENTS {
        for index in 0..PAGES {
            let expected = content_of(value(stress.version((segment, index))));
            assert!(s.read(&mut w, segment, index) == expected, "at the end");
        }
    }
    s.assert_nothing_is_held();
    for segment in 1..=SEGMENTS {
        s.decommit(segment, 0, PAGES);
    }
    assert_eq!(s.engine.resident_pages(), 0);
    assert_eq!(value(&c.corrupt) + value(&c.no_metadata), 0);
    assert!(value(&c.evictions) > 1000 && value(&c.faults_decompressed) > 100);
    s.assert_no_record_is_lost();
}
