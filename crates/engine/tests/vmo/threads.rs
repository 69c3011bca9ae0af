//! Many threads on the VMOs of one family, and of others, while everything is reclaimed.
//!
//! Nobody writes the base; each thread snapshots it and its own VMOs, writes them, moves pages between
//! them and ends them, and knows what each must hold. So every merge of hidden nodes, every move of an
//! entry happens while others read, restore and compress the same pages.

use crate::kernel::*;
use coldpress_codec::Page;
use coldpress_engine::Trigger;
use coldpress_engine::vmo::{VmoError, VmoId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const PAGES: u64 = 130;
const THREADS: u16 = 4;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((mixed ^ (mixed >> 27)) >> 33) % bound
    }
}

fn base_content(page: u64) -> Page {
    match page % 5 {
        0 => [0; 4096],
        1 => [page as u8; 4096],
        2 => noise(page),
        _ => text(page),
    }
}

struct Own {
    id: VmoId,
    pages: BTreeMap<u64, Page>,
}

struct Thread {
    system: &'static System,
    worker: TestWorker,
    random: Random,
    base: VmoId,
    own: Vec<Own>,
    written: u64,
}

impl Thread {
    fn step(&mut self) {
        let s = self.system;
        let which = self.random.below(8) as usize;
        let page = self.random.below(PAGES);
        let count = self.own.len();
        match self.random.below(20) {
            0 if count < 5 => {
                let id = s.vmos.snapshot(&s.machine, self.base, 0..PAGES).unwrap();
                let pages = (0..PAGES).map(|page| (page, base_content(page)));
                let pages = pages.collect();
                self.own.push(Own { id, pages });
            }
            1 if count < 5 => {
                let id = s.create(PAGES);
                let pages = BTreeMap::new();
                self.own.push(Own { id, pages });
            }
            2 | 3 if count < 5 && count > 0 => {
                let of = &self.own[which % count];
                let id = s.vmos.snapshot(&s.machine, of.id, 0..PAGES).unwrap();
                let pages = of.pages.clone();
                self.own.push(Own { id, pages });
            }
            4 if count > 0 => {
                let own = self.own.swap_remove(which % count);
                s.destroy(own.id);
                let gone = s.zero(own.id, 0..1);
                assert_eq!(gone, Err(VmoError::NoSuchVmo));
            }
            5 | 6 if count > 0 => {
                let own = &mut self.own[which % count];
                let end = (page + 1 + self.random.below(70)).min(PAGES);
                s.zero(own.id, page..end).unwrap();
                own.pages.retain(|at, _| !(page..end).contains(at));
            }
            7 if count > 1 => {
                let (from, to) = (which % count, (which + 1) % count);
                let end = (page + 1 + self.random.below(10)).min(PAGES);
                self.transfer(from, to, page..end);
            }
            8..13 if count > 0 => {
                self.written += 1;
                let content = match self.written % 4 {
                    0 => [0; 4096],
                    1 => noise(self.written),
                    _ => text(self.written),
                };
                let own = &mut self.own[which % count];
                s.write_page(&mut self.worker, own.id, page, &content);
                own.pages.insert(page, content);
            }
            13..19 if count > 0 => self.check(which % count, page),
            _ => {
                let read = s.read_page(&mut self.worker, self.base, page);
                assert!(read == base_content(page), "page {page} of the base");
            }
        }
    }

    fn check(&mut self, which: usize, page: u64) {
        let own = &self.own[which];
        let read = self.system.read_page(&mut self.worker, own.id, page);
        let expected = own.pages.get(&page).unwrap_or(&[0; 4096]);
        assert!(read == *expected, "page {page} of {:?}", own.id);
    }

    fn transfer(&mut self, from: usize, to: usize, pages: std::ops::Range<u64>) {
        let s = self.system;
        let (source, target) = (self.own[from].id, self.own[to].id);
        let worker = &mut self.worker;
        let taken = s.vmos.take(&s.machine, worker, source, pages.clone());
        let mut list = taken.unwrap();
        assert_eq!(list.pages(), pages.end - pages.start);
        s.vmos
            .transfer(&s.machine, worker, target, pages.start, &mut list)
            .unwrap();
        s.vmos.discard(&s.machine, list);
        for page in pages {
            match self.own[from].pages.remove(&page) {
                Some(content) => self.own[to].pages.insert(page, content),
                None => self.own[to].pages.remove(&page),
            };
        }
    }
}

#[test]
fn every_read_gives_what_was_written_whatever_others_do() {
    let steps = if cfg!(debug_assertions) { 1500 } else { 30_000 };
    let s = system(20_000);
    s.codec.slow.store(true, Relaxed);
    let mut w = worker(100);
    let base = s.create(PAGES);
    (0..PAGES).for_each(|page| s.write_page(&mut w, base, page, &base_content(page)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|id| {
                scope.spawn(move || {
                    let mut thread = Thread {
                        system: s,
                        worker: worker(id),
                        random: Random(id.into()),
                        base,
                        own: Vec::new(),
                        written: u64::from(id) << 32,
                    };
                    (0..steps).for_each(|_| thread.step());
                    for which in 0..thread.own.len() {
                        (0..PAGES).for_each(|page| thread.check(which, page));
                    }
                    thread.own.drain(..).for_each(|own| s.destroy(own.id));
                })
            })
            .collect();
        for (id, slots) in [(110, 0..300), (111, 300..600)] {
            let done = &done;
            scope.spawn(move || {
                let mut reclaimer = reclaimer_with(id, slots);
                let engine = s.vmos.engine();
                while !done.load(Relaxed) {
                    if id == 110 {
                        engine.rotate(&s.machine);
                        engine.compact(&s.machine, 1 << 14);
                    }
                    let trigger = Trigger::Critical;
                    engine.reclaim_batch(&s.machine, &mut reclaimer, 16, u64::MAX, trigger);
                }
            });
        }
        let checker = &done;
        scope.spawn(move || {
            while !checker.load(Relaxed) {
                s.vmos.check_invariants();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a thread has failed");
    });
    s.vmos.check_invariants();
    for page in 0..PAGES {
        assert!(s.read_page(&mut w, base, page) == base_content(page));
    }
    s.destroy(base);
    s.assert_nothing_is_held();
    let c = s.vmos.engine().counters();
    for (counter, what) in [
        (&c.faults_decompressed, "decompressed"),
        (&c.faults_copied, "copied from staging"),
        (&c.raced, "overtaken"),
        (&s.machine.waits, "waited"),
        (&c.compaction_moves, "compacted"),
    ] {
        println!("{what}: {}", value(counter));
    }
    assert!(value(&c.faults_decompressed) > 0 && value(&c.raced) > 0);
}
