//! Promise: the evictor behaves as the cases of Zircon's evictor tests ask (suite `evictor`, and the
//! older cases that are no longer there), each written anew. Numbers are checked with a source that
//! frees page by page or in groups; that pages really go is checked with the engine.

use crate::machine::*;
use coldpress_engine::evictor::{EngineSource, Evictor, Freed, Level, Source, Target};
use coldpress_engine::queues::standing::{Mark, Marking, Queue, Standing};
use coldpress_engine::{Trigger, Tunables};
use coldpress_storage::FrameSource;
use std::cell::Cell;

type TestEvictor = Evictor<<Machine as coldpress_engine::Host>::RawLock>;

/// How a source frees.
#[derive(Clone, Copy)]
enum By {
    Eviction,
    /// Groups of so many pages, which go as a whole.
    Groups(u64),
}

/// Memory that is nothing but numbers.
struct Numbers {
    free: u64,
    /// Pages that can be had still.
    left: u64,
    by: By,
    /// Levels at which it was asked.
    levels: Vec<Level>,
}

impl Numbers {
    fn new(by: By) -> Self {
        Self {
            free: 0,
            left: u64::MAX,
            by,
            levels: Vec::new(),
        }
    }
}

impl Source for Numbers {
    fn free_pages(&self) -> u64 {
        self.free
    }

    fn reclaim(&mut self, level: Level, at_most: u64) -> Option<Freed> {
        assert!(at_most > 0, "asked for nothing");
        self.levels.push(level);
        let mut freed = Freed::default();
        match self.by {
            By::Eviction => freed.evicted = at_most.min(self.left),
            By::Groups(pages) => freed.discarded = pages.min(self.left),
        }
        self.left -= freed.pages();
        self.free += freed.pages();
        (freed.pages() > 0).then_some(freed)
    }
}

fn target(free_pages: u64, min_pages: u64) -> Target {
    Target {
        pending: true,
        free_pages,
        min_pages,
        level: Level::IncludeNewest,
    }
}

/// Combines a target and runs.
fn run(evictor: &TestEvictor, source: &mut Numbers, target: Target) -> u64 {
    evictor.combine(target);
    evictor.run(source).pages()
}

/// Small numbers without order.
fn numbers() -> impl Iterator<Item = u64> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1000
    })
}

#[test]
fn evictor_set_target_test() {
    for pending in [false, true] {
        for level in [Level::OnlyOldest, Level::IncludeNewest] {
            let evictor = TestEvictor::new();
            assert_eq!(evictor.target(), Target::default());
            let target = Target {
                pending,
                free_pages: 123,
                min_pages: 45,
                level,
            };
            evictor.combine(target);
            assert_eq!(evictor.target(), target);
        }
    }
}

#[test]
fn evictor_combine_targets_test() {
    let evictor = TestEvictor::new();
    let (mut numbers, mut expected) = (numbers(), Target::default());
    for n in 0..7 {
        let target = Target {
            pending: n == 3,
            free_pages: numbers.next().unwrap(),
            min_pages: numbers.next().unwrap(),
            level: match n {
                4 => Level::IncludeNewest,
                _ => Level::OnlyOldest,
            },
        };
        evictor.combine(target);
        expected.min_pages += target.min_pages;
        expected.free_pages = expected.free_pages.max(target.free_pages);
        expected.pending |= n == 3;
        if n == 4 {
            expected.level = Level::IncludeNewest;
        }
        assert_eq!(evictor.target(), expected);
    }
    evictor.combine(target(0, u64::MAX));
    assert_eq!(evictor.target().min_pages, u64::MAX, "does not overflow");
}

#[test]
fn evictor_pager_backed_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    assert_eq!(run(&evictor, &mut source, target(200, 100)), 200);
    assert_eq!(source.free, 200);
    assert_eq!(run(&evictor, &mut source, target(100, 200)), 200);
    assert_eq!(source.free, 400);
    assert_eq!(evictor.target(), Target::default(), "nothing is left of it");
}

#[test]
fn evictor_discardable_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Groups(7)));
    assert_eq!(run(&evictor, &mut source, target(20, 10)), 21);
    assert_eq!(run(&evictor, &mut source, target(10, 20)), 21);
    assert_eq!(source.free, 42);
    assert_eq!(run(&evictor, &mut source, target(43, 0)), 7);
}

#[test]
fn evictor_free_target_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    for (asked, freed, free) in [
        (target(20, 0), 20, 20),
        (target(20, 0), 0, 20),
        (target(30, 0), 10, 30),
        (target(40, 10), 10, 40),
        (target(40, 2), 2, 42),
        (target(0, 0), 0, 42),
    ] {
        assert_eq!(run(&evictor, &mut source, asked), freed, "{asked:?}");
        assert_eq!(source.free, free);
    }
}

#[test]
fn evictor_external_target_test() {
    for stored_pending in [false, true] {
        let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
        let stored = Target {
            pending: stored_pending,
            level: Level::OnlyOldest,
            ..target(111, 33)
        };
        evictor.combine(stored);
        let freed = evictor.run_target(&mut source, &target(99, 22));
        assert_eq!((freed.pages(), source.free), (99, 99));
        assert!(source.levels.iter().all(|&l| l == Level::IncludeNewest));
        assert_eq!(evictor.target(), stored);
        let freed = evictor.run(&mut source).pages();
        assert_eq!(freed, if stored_pending { 33 } else { 0 });
    }
}

#[test]
fn evictor_min_target_carried_over_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    source.left = 5;
    assert_eq!(run(&evictor, &mut source, target(10, 15)), 5);
    source.left = u64::MAX;
    assert_eq!(evictor.run(&mut source).pages(), 0, "none is pending");
    assert_eq!(run(&evictor, &mut source, target(0, 0)), 10);
    assert_eq!(run(&evictor, &mut source, target(0, 0)), 0);
    assert_eq!(source.free, 15);
}

#[test]
fn a_disabled_evictor_keeps_its_targets() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    evictor.enable(false);
    evictor.enable_continuous(target(10, 0), 1, 0);
    assert_eq!(run(&evictor, &mut source, target(5, 3)), 0);
    assert_eq!(evictor.run_target(&mut source, &target(9, 9)).pages(), 0);
    assert_eq!(evictor.tick(&mut source, 5), None);
    evictor.enable(true);
    assert_eq!(evictor.run(&mut source).pages(), 5);
    assert_eq!(evictor.tick(&mut source, 5).unwrap().pages(), 5);
}

#[test]
fn a_source_that_frees_nothing_does_not_hold_a_run() {
    struct Vain(u32);
    impl Source for Vain {
        fn free_pages(&self) -> u64 {
            0
        }

        fn reclaim(&mut self, _: Level, _: u64) -> Option<Freed> {
            self.0 += 1;
            assert!(self.0 < 100, "asked for ever");
            Some(Freed::default())
        }
    }
    let evictor = TestEvictor::new();
    assert_eq!(evictor.run_target(&mut Vain(0), &target(1, 1)).pages(), 0);
}

#[test]
fn targets_may_be_combined_while_a_run_goes_on() {
    struct Combining<'a>(&'a TestEvictor, Numbers);
    impl Source for Combining<'_> {
        fn free_pages(&self) -> u64 {
            self.1.free
        }

        fn reclaim(&mut self, level: Level, at_most: u64) -> Option<Freed> {
            self.0.combine(target(0, 3));
            self.1.reclaim(level, at_most)
        }
    }
    let evictor = TestEvictor::new();
    evictor.combine(target(10, 0));
    let mut source = Combining(&evictor, Numbers::new(By::Eviction));
    assert_eq!(evictor.run(&mut source).pages(), 10);
    assert_eq!(evictor.target(), target(0, 3));
}

#[test]
fn evictor_continuous_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    evictor.enable_continuous(target(20, 10), SECOND, 0);
    assert!(evictor.is_continuous());
    assert_eq!(evictor.tick(&mut source, 0).unwrap().pages(), 20);
    // The program takes memory; it is given back at the next tick, and not before.
    source.free -= 8;
    assert_eq!(evictor.tick(&mut source, SECOND - 1), None);
    assert_eq!(evictor.tick(&mut source, SECOND).unwrap().pages(), 8);
    assert_eq!(evictor.tick(&mut source, 2 * SECOND).unwrap().pages(), 0);
    evictor.disable_continuous();
    source.free = 0;
    assert_eq!(evictor.tick(&mut source, 100 * SECOND), None);
    assert_eq!(source.free, 0);
}

#[test]
fn evictor_continuous_combine_targets_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    let mut sum = 0;
    for min in numbers().take(5) {
        evictor.enable_continuous(target(10, min), SECOND, 0);
        sum += min;
    }
    assert_eq!(evictor.tick(&mut source, 0).unwrap().pages(), sum);
    assert_eq!(
        evictor.tick(&mut source, SECOND).unwrap().pages(),
        0,
        "the minimum is met once"
    );
}

#[test]
fn evictor_continuous_repeated_test() {
    let (evictor, mut source) = (TestEvictor::new(), Numbers::new(By::Eviction));
    let mut now = 0;
    let mut tick = |source: &mut Numbers| {
        now += SECOND;
        evictor.tick(source, now).map(|freed| freed.pages())
    };
    evictor.enable_continuous(target(20, 0), SECOND, 0);
    assert_eq!(tick(&mut source), Some(20));
    // Another target, also a smaller one, replaces the first.
    evictor.enable_continuous(target(50, 0), SECOND, 0);
    assert_eq!(tick(&mut source), Some(30));
    evictor.enable_continuous(target(10, 7), SECOND, 0);
    assert_eq!(tick(&mut source), Some(7));
    // What is missing of a minimum stays, until it is taken back.
    source.left = 2;
    evictor.enable_continuous(target(0, 5), SECOND, 0);
    assert_eq!(tick(&mut source), Some(2));
    source.left = u64::MAX;
    assert_eq!(tick(&mut source), Some(3));
    source.left = 0;
    evictor.enable_continuous(target(0, 5), SECOND, 0);
    assert_eq!(tick(&mut source), Some(0));
    evictor.disable_continuous();
    source.left = u64::MAX;
    assert_eq!(tick(&mut source), None);
    evictor.enable_continuous(target(source.free + 1, 0), SECOND, 0);
    assert_eq!(tick(&mut source), Some(1));
}

// With the engine.

/// Runs a target on what the engine's queues offer. Of `total` pages those are free that nobody
/// holds, neither the program nor storage.
fn reach(s: &System, trigger: Trigger, total: u64, target: Target) -> Freed {
    let mut r = reclaimer(2);
    let evicted = Cell::new(0);
    let evictor = TestEvictor::new();
    let mut source = EngineSource {
        engine: &s.engine,
        host: &s.machine,
        reclaimer: &mut r,
        trigger,
        evict: |(segment, index)| {
            s.decommit(segment, index, index + 1);
            evicted.set(evicted.get() + 1);
            true
        },
        free: || free_pages(s, total),
    };
    evictor.combine(target);
    let freed = evictor.run(&mut source);
    assert_eq!(freed.evicted, evicted.get());
    s.engine.check_queues();
    freed
}

fn free_pages(s: &System, total: u64) -> u64 {
    total - u64::from(s.engine.resident_pages()) - s.machine.frames.lent() as u64
}

/// `pages` pages in place, a leaf apart; every second is pager-backed, if `mixed`.
fn pages_in_place(pages: u32, mixed: bool) -> &'static System {
    let s = system(1, 64 * pages as usize);
    let mut w = worker(1);
    for n in 0..pages {
        s.write(&mut w, 1, n * 64, &content(Kind::Text, n.into()));
        if mixed && n % 2 == 1 {
            assert!(
                s.engine
                    .mark_page(1, n * 64, Mark::PagerBacked, Marking::Set)
            );
        }
    }
    s
}

fn rotate(s: &System, times: u32) {
    for _ in 0..times {
        s.engine.rotate(&s.machine);
    }
}

#[test]
fn evictor_pager_backed_and_discardable_test() {
    // One target, met by pages that are compressed and pages that are evicted, oldest first.
    let s = pages_in_place(40, true);
    rotate(s, 2);
    let freed = reach(s, Trigger::Pressure, 40, target(0, 20));
    assert!(freed.pages() >= 20);
    assert!(freed.compressed > 0 && freed.evicted > 0, "{freed:?}");
    for n in 0..40 {
        let gone = !s.is_resident(1, n * 64);
        assert_eq!(gone, n < 20, "page {n}: the oldest go, of either kind");
        assert_eq!(s.is_compressed(1, n * 64), gone && n % 2 == 0, "page {n}");
    }
    let all = reach(s, Trigger::Pressure, 40, target(0, 1000));
    assert_eq!(all.pages() + freed.pages(), 40, "all there are");
    let both = [all, freed].map(|f| (f.compressed, f.evicted));
    assert_eq!(both[0].0 + both[1].0, 20);
}

#[test]
fn the_switches_of_each_kind_count_for_the_evictor() {
    use coldpress_engine::tunables::LruAction;
    for (action, compressed, evicted) in [
        (LruAction::None, 0, 0),
        (LruAction::EvictOnly, 0, 5),
        (LruAction::CompressOnly, 5, 0),
        (LruAction::EvictAndCompress, 5, 5),
    ] {
        let s = pages_in_place(10, true);
        rotate(s, 2);
        let tunables = Tunables {
            lru_action: action,
            ..Tunables::DEFAULT
        };
        s.engine.configure(&tunables).unwrap();
        let freed = reach(s, Trigger::Eager, 10, target(0, 1000));
        assert_eq!((freed.compressed, freed.evicted), (compressed, evicted));
    }
    // Compressing pager-backed pages first, until memory is critical.
    let s = pages_in_place(10, true);
    rotate(s, 2);
    let tunables = Tunables {
        compress_pager_backed: true,
        ..Tunables::DEFAULT
    };
    s.engine.configure(&tunables).unwrap();
    let freed = reach(s, Trigger::Pressure, 10, target(0, 6));
    assert_eq!((freed.compressed, freed.evicted), (6, 0));
    let freed = reach(s, Trigger::Critical, 10, target(0, 1000));
    assert_eq!((freed.compressed, freed.evicted), (2, 2));
}

#[test]
fn levels_bound_how_young_pages_may_be() {
    let s = pages_in_place(4, true);
    rotate(s, 2);
    let only_oldest = Target {
        level: Level::OnlyOldest,
        ..target(0, 10)
    };
    for _ in 2..6 {
        let freed = reach(s, Trigger::Pressure, 4, only_oldest);
        assert_eq!(freed, Freed::default());
        rotate(s, 1);
    }
    assert_eq!(reach(s, Trigger::Pressure, 4, only_oldest).pages(), 4);
    // Pages that cannot be taken do not lead on to younger ones.
    let s = pages_in_place(2, false);
    s.write(&mut worker(1), 1, 1, &content(Kind::Text, 1));
    (0..2).for_each(|index| s.machine.place(1, index).pinned = true);
    rotate(s, 4);
    s.engine.mark_accessed(1, 64);
    rotate(s, 3);
    let freed = reach(s, Trigger::Pressure, 4, only_oldest);
    assert_eq!((freed.pages(), s.engine.failed_pages()), (0, 2));
    assert_eq!(reach(s, Trigger::Pressure, 4, target(0, 9)).pages(), 1);
    let s = pages_in_place(4, true);
    rotate(s, 1);
    assert_eq!(reach(s, Trigger::Critical, 4, target(0, 9)).pages(), 0);
    rotate(s, 1);
    assert_eq!(reach(s, Trigger::Pressure, 4, target(0, 9)).pages(), 4);
}

#[test]
fn evictor_dont_need_pager_backed_test() {
    for mixed in [false, true] {
        let s = pages_in_place(4, mixed);
        let mut w = worker(1);
        rotate(s, 2);
        // Two pages are not needed; one of these is touched, which makes it the youngest.
        for n in [0, 1] {
            assert!(s.engine.move_page(1, n * 64, Queue::DontNeed));
        }
        s.read(&mut w, 1, 0);
        assert!(s.engine.mark_accessed(1, 0));
        let freed = reach(s, Trigger::Pressure, 4, target(0, 1000));
        assert_eq!(freed.pages(), 3);
        assert!(s.is_resident(1, 0), "touched, so it is spared");
        assert_eq!(s.engine.standing(1, 0), Some(Standing::Generation(0)));
        for n in 1..4 {
            assert!(!s.is_resident(1, n * 64), "page {n} goes, younger or not");
        }
    }
}

#[test]
fn pages_that_cannot_be_evicted_do_not_hold_the_others() {
    let s = pages_in_place(6, true);
    rotate(s, 2);
    let mut r = reclaimer(2);
    let mut source = EngineSource {
        engine: &s.engine,
        host: &s.machine,
        reclaimer: &mut r,
        trigger: Trigger::Pressure,
        evict: |_| false,
        free: || 0,
    };
    let evictor = TestEvictor::new();
    let freed = evictor.run_target(&mut source, &target(0, 100));
    assert_eq!((freed.compressed, freed.evicted), (3, 0));
    for n in [1, 3, 5] {
        assert_eq!(
            s.engine.standing(1, n * 64),
            Some(Standing::Generation(0)),
            "made young, and so out of the way"
        );
    }
}

#[test]
fn evictor_evicted_pages_are_freed_test() {
    let s = pages_in_place(30, true);
    rotate(s, 2);
    let total = 40;
    assert_eq!(free_pages(s, total), 10);
    // Frames that storage takes for what is compressed do not count as free.
    let freed = reach(s, Trigger::Pressure, total, target(30, 0));
    assert!(free_pages(s, total) >= 30);
    assert!(freed.pages() >= 20);
    let resident = (0..30).filter(|&n| s.machine.is_present(1, n * 64)).count() as u64;
    assert_eq!(resident, 30 - freed.pages(), "they have left their places");
    // What was free before is, frame by frame, memory that can be had.
    let frames: Vec<_> = (0..20).map(|_| s.machine.frames.allocate()).collect();
    assert!(frames.iter().all(Option::is_some));
    frames
        .into_iter()
        .flatten()
        .for_each(|f| s.machine.frames.free(f));
    let mut w = worker(1);
    for n in (0..30).step_by(2) {
        assert_eq!(s.read(&mut w, 1, n * 64), content(Kind::Text, n.into()));
    }
}
