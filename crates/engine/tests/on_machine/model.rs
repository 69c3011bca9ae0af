//! The engine against a plain model: a map from page to content. One thread; but steps also run
//! in the middle of others, where the codec is called or the address space is changing.

use crate::machine::*;
use coldpress_codec::Page;
use coldpress_engine::{Ageing, Entry, Pace, Trigger};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

const SEGMENTS: u32 = 2;
const PAGES: u32 = 160;

type At = (u32, u32);

#[derive(Clone, Debug)]
enum Step {
    Write(At, u32, Kind),
    Read(At),
    Decommit(At, u32),
    Transfer(At, At),
    Age {
        pace: Pace,
    },
    Advance(u64),
    Reclaim {
        pages: u32,
        before_now_ns: u64,
    },
    Pin(At, bool),
    Frames(bool),
    TakeLimit(u32),
    /// So many of the next installations find the address space changing.
    Changing(u32),
    /// The next compression is interrupted by this step.
    InCompress(Box<Step>),
    /// The next decompression is interrupted by this step.
    InDecompress(Box<Step>),
    /// The next wait for a change is.
    InWait(Box<Step>),
    ReadAll,
}

fn at() -> impl Strategy<Value = At> {
    // A few leaves' middles and ends, so that neighbours meet.
    let index = prop_oneof![0..12_u32, 58..70_u32, 120..PAGES];
    (1..=SEGMENTS, index)
}

fn change_or_touch() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    prop_oneof![
        3 => (at(), 1..8_u32, kind).prop_map(|(at, run, kind)| Step::Write(at, run, kind)),
        2 => at().prop_map(Step::Read),
        2 => (at(), 1..40_u32).prop_map(|(at, run)| Step::Decommit(at, run)),
        2 => (at(), at()).prop_map(|(from, to)| Step::Transfer(from, to)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let reclaim = (
        1..100_u32,
        prop_oneof![Just(0), Just(SECOND), 0..3 * SECOND],
    );
    prop_oneof![
        12 => change_or_touch(),
        4 => prop_oneof![Just(Pace::Steady), Just(Pace::Pressed)].prop_map(|pace| Step::Age { pace }),
        4 => prop_oneof![Just(SECOND / 10), Just(SECOND), Just(70 * SECOND)].prop_map(Step::Advance),
        8 => reclaim.prop_map(|(pages, before_now_ns)| Step::Reclaim { pages, before_now_ns }),
        1 => (at(), any::<bool>()).prop_map(|(at, pin)| Step::Pin(at, pin)),
        1 => any::<bool>().prop_map(Step::Frames),
        1 => prop_oneof![Just(u32::MAX), 0..4_u32].prop_map(Step::TakeLimit),
        1 => (1..4_u32).prop_map(Step::Changing),
        3 => change_or_touch().prop_map(|step| Step::InCompress(Box::new(step))),
        3 => change_or_touch().prop_map(|step| Step::InDecompress(Box::new(step))),
        1 => change_or_touch().prop_map(|step| Step::InWait(Box::new(step))),
        1 => Just(Step::ReadAll),
    ]
}

/// What all pages hold; pages that are not here are zero.
type Contents = HashMap<At, (Kind, u64)>;

#[derive(Clone)]
struct Run {
    system: &'static System,
    contents: Arc<Mutex<Contents>>,
    workers: Arc<Mutex<Vec<TestWorker>>>,
    writes: Arc<Mutex<u64>>,
}

fn expected(contents: &Contents, at: At) -> Page {
    contents
        .get(&at)
        .map_or([0; 4096], |&(kind, seed)| content(kind, seed))
}

impl Run {
    fn touch(&self, at: At, act: impl FnOnce(&mut Page)) {
        // A step within a fault of the same page cannot wait for it.
        if matches!(self.system.engine.entry(at.0, at.1), Entry::Request(_)) {
            return;
        }
        let mut worker = self.workers.lock().unwrap().pop().unwrap();
        self.system.with(&mut worker, at, act);
        self.workers.lock().unwrap().push(worker);
    }

    fn read(&self, at: At) {
        self.touch(at, |page| {
            let expected = expected(&self.contents.lock().unwrap(), at);
            assert!(*page == expected, "page {at:?} holds something else");
        });
    }

    fn write(&self, at: At, kind: Kind) {
        let seed = {
            let mut writes = self.writes.lock().unwrap();
            *writes += 1;
            *writes
        };
        self.touch(at, |page| {
            let mut contents = self.contents.lock().unwrap();
            assert!(*page == expected(&contents, at), "before it is written to");
            *page = content(kind, seed);
            contents.insert(at, (kind, seed));
        });
    }

    fn apply(&self, reclaimer: &mut TestReclaimer, step: &Step) {
        let s = self.system;
        match step.clone() {
            Step::Age { pace } => {
                let ageing = Ageing {
                    retry_failed_ns: 3 * SECOND,
                    ..AGEING
                };
                s.engine.age(&s.machine, &ageing, pace);
            }
            Step::Reclaim {
                pages,
                before_now_ns,
            } => {
                let before = s.now_ns() - before_now_ns;
                let trigger = Trigger::Eager;
                let batch = s
                    .engine
                    .reclaim_batch(&s.machine, reclaimer, pages, before, trigger);
                assert!(batch.taken < pages + 64 && batch.kept <= batch.taken);
            }
            step => self.apply_anywhere(step),
        }
        self.run_leftover_hooks();
    }

    /// Runs the hooks that nothing has run, so that each step takes effect.
    fn run_leftover_hooks(&self) {
        let s = self.system;
        s.machine.changing.store(0, Relaxed);
        s.codec.on_compress.run();
        s.codec.on_decompress.run();
        s.machine.on_let_changes.run();
    }

    fn apply_anywhere(&self, step: Step) {
        let s = self.system;
        match step {
            Step::Write((segment, index), run, kind) => {
                (index..(index + run).min(PAGES))
                    .for_each(|index| self.write((segment, index), kind));
            }
            Step::Read(at) => self.read(at),
            Step::ReadAll => self.read_all(),
            Step::Decommit((segment, first), run) => {
                let end = (first + run).min(PAGES);
                s.decommit(segment, first, end);
                let mut contents = self.contents.lock().unwrap();
                contents.retain(|at, _| at.0 != segment || !(first..end).contains(&at.1));
            }
            Step::Transfer(from, to) if from != to => {
                assert!(s.transfer(from, to));
                let mut contents = self.contents.lock().unwrap();
                contents.remove(&to);
                if let Some(content) = contents.remove(&from) {
                    contents.insert(to, content);
                }
            }
            Step::Transfer(..) => {}
            Step::Advance(ns) => s.machine.advance(ns),
            Step::Pin((segment, index), pin) => s.machine.place(segment, index).pinned = pin,
            Step::Frames(refuse) => s.machine.frames.refuse.store(refuse, Relaxed),
            Step::TakeLimit(limit) => s.machine.take_limit.store(limit, Relaxed),
            Step::Changing(_)
            | Step::InCompress(_)
            | Step::InDecompress(_)
            | Step::InWait(_)
            | Step::Age { .. }
            | Step::Reclaim { .. } => {}
        }
    }

    fn read_all(&self) {
        for segment in 1..=SEGMENTS {
            (0..PAGES).for_each(|index| self.read((segment, index)));
        }
    }

    /// Gauges and entries tell the same, and entries and memory do.
    fn check(&self) {
        let s = self.system;
        let (mut resident, mut compressed, mut markers) = (0, 0, 0);
        for segment in 1..=SEGMENTS {
            for index in 0..PAGES {
                let present = s.machine.is_present(segment, index);
                match s.engine.entry(segment, index) {
                    Entry::Empty => assert!(!present, "all that is here is tracked"),
                    Entry::Page(_) => {
                        assert!(present);
                        resident += 1;
                    }
                    Entry::Compressed(_) => {
                        assert!(!present);
                        compressed += 1;
                    }
                    Entry::Zero | Entry::SameFilled(_) => {
                        assert!(!present);
                        markers += 1;
                    }
                    entry => panic!("{entry:?} between two steps"),
                }
            }
        }
        let c = s.engine.counters();
        let usage = s.engine.storage_usage();
        assert_eq!(s.engine.resident_pages(), resident);
        assert_eq!(value(&c.compressed_pages), compressed);
        assert_eq!(usage.objects as u64, compressed);
        assert_eq!(value(&c.same_filled_pages), markers);
        assert_eq!(usage.storage_bytes, s.machine.frames.lent() * 4096);
        assert_eq!(s.machine.filled_slots(), 0);
        assert_eq!(value(&c.corrupt) + value(&c.no_metadata), 0);
    }
}

fn run(steps: Vec<Step>) {
    let run = Run {
        system: system(SEGMENTS as usize, PAGES as usize),
        contents: Arc::default(),
        workers: Arc::new(Mutex::new((1..8).map(worker).collect())),
        writes: Arc::default(),
    };
    let s = run.system;
    let mut reclaimer = reclaimer(0);
    for step in &steps {
        let later = |step: &Step| {
            let (run, step) = (run.clone(), step.clone());
            move || run.apply_anywhere(step)
        };
        match step {
            // These wait for the next step.
            Step::InCompress(step) => s.codec.on_compress.set(later(step)),
            Step::InDecompress(step) => s.codec.on_decompress.set(later(step)),
            Step::InWait(step) => s.machine.on_let_changes.set(later(step)),
            Step::Changing(times) => s.machine.changing.store(*times, Relaxed),
            step => {
                run.apply(&mut reclaimer, step);
                run.check();
            }
        }
    }
    run.run_leftover_hooks();
    run.read_all();
    for segment in 1..=SEGMENTS {
        s.decommit(segment, 0, PAGES);
    }
    s.assert_nothing_is_held();
    assert_eq!(s.engine.resident_pages(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn behaves_as_a_map_from_pages_to_contents(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        run(steps);
    }
}
