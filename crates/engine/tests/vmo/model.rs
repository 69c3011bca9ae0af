//! VMOs behave as maps from pages to contents: snapshots are copies of maps.
//!
//! Whatever is done, in whatever order, also in the middle of a compression or a decompression:
//! every read gives what was last written, shares are counted right, and at the end nothing is held.

use crate::kernel::*;
use coldpress_codec::Page;
use coldpress_engine::Entry;
use coldpress_engine::vmo::{VmoError, VmoId};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Pages that steps are about: at the bounds of leaves and segments.
const HOT: [u64; 12] = [0, 1, 2, 62, 63, 64, 65, 8190, 8191, 8192, 8193, 8200];
const LARGEST: u64 = 8210;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Noise,
    Filled,
    Zeros,
}

fn content(kind: Kind, seed: u64) -> Page {
    match kind {
        Kind::Text => text(seed),
        Kind::Noise => noise(seed),
        Kind::Filled => [seed as u8; 4096],
        Kind::Zeros => [0; 4096],
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create(u64),
    Destroy(usize),
    /// Which VMO, from where, how many pages.
    Snapshot(usize, u64, u64),
    Write(usize, u64, Kind),
    /// A whole page, whatever it holds.
    Overwrite(usize, u64, Kind),
    /// Reads all pages that steps are about, and leaves them as they are held.
    ReadStored(usize),
    /// Writes all pages that steps are about.
    Fill(usize),
    /// A byte, through a mapping.
    Touch(usize, u64),
    Zero(usize, u64, u64),
    Decommit(usize, u64, u64),
    Resize(usize, u64),
    Commit(usize, u64),
    Pin(usize, u64),
    Unpin(usize),
    /// Sets the latency mark, or takes it off.
    Mark(usize),
    Prefetch(usize),
    /// From which page of which VMO how many pages go to which page of which other.
    Transfer((usize, u64), u64, (usize, u64)),
    Reclaim(u32),
    Rotate,
    Compact,
    ReadAll,
    InCompress(Box<Step>),
    InDecompress(Box<Step>),
}

fn page() -> impl Strategy<Value = u64> {
    prop::sample::select(&HOT[..])
}

fn act() -> impl Strategy<Value = Step> {
    let which = 0..6usize;
    let kind = prop::sample::select(&[Kind::Text, Kind::Noise, Kind::Filled, Kind::Zeros][..]);
    let len = prop::sample::select(&[1u64, 2, 3, 64, 8192, LARGEST][..]);
    prop_oneof![
        1 => page().prop_map(|page| Step::Create(page + 1)),
        3 => which.clone().prop_map(Step::Destroy),
        5 => (which.clone(), page(), len.clone()).prop_map(|(v, p, n)| Step::Snapshot(v, p, n)),
        4 => which.clone().prop_map(|v| Step::Snapshot(v, 0, LARGEST)),
        16 => (which.clone(), page(), kind.clone()).prop_map(|(v, p, k)| Step::Write(v, p, k)),
        8 => (which.clone(), page(), kind).prop_map(|(v, p, k)| Step::Overwrite(v, p, k)),
        3 => which.clone().prop_map(Step::ReadStored),
        4 => which.clone().prop_map(Step::Fill),
        4 => (which.clone(), page()).prop_map(|(v, p)| Step::Touch(v, p)),
        3 => (which.clone(), page(), len.clone()).prop_map(|(v, p, n)| Step::Zero(v, p, n)),
        // Large enough for intervals, where there are snapshots.
        4 => (which.clone(), 0..3usize).prop_map(|(v, p)| Step::Zero(v, HOT[p], LARGEST)),
        2 => (which.clone(), page(), len.clone()).prop_map(|(v, p, n)| Step::Decommit(v, p, n)),
        3 => (which.clone(), page()).prop_map(|(v, p)| Step::Resize(v, p)),
        2 => (which.clone(), page()).prop_map(|(v, p)| Step::Commit(v, p)),
        1 => which.clone().prop_map(Step::Prefetch),
        2 => (which.clone(), page()).prop_map(|(v, p)| Step::Pin(v, p)),
        3 => which.clone().prop_map(Step::Unpin),
        2 => which.clone().prop_map(Step::Mark),
        4 => ((which.clone(), page()), len.clone(), (which, page()))
            .prop_map(|(from, pages, to)| Step::Transfer(from, pages, to)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => act(),
        3 => (1..10u32).prop_map(Step::Reclaim),
        3 => Just(Step::Rotate),
        1 => Just(Step::Compact),
        1 => Just(Step::ReadAll),
        2 => act().prop_map(|step| Step::InCompress(Box::new(step))),
        1 => act().prop_map(|step| Step::InDecompress(Box::new(step))),
    ]
}

#[derive(Clone)]
struct Model {
    id: VmoId,
    /// Names it in mappings.
    name: u32,
    pages: u64,
    contents: BTreeMap<u64, Page>,
    pinned: Option<u64>,
    marked: bool,
}

impl Model {
    /// Whether a pinned page is in the way of a change of these pages.
    fn is_pinned(&self, pages: std::ops::Range<u64>) -> bool {
        self.pinned.is_some_and(|page| pages.contains(&page))
    }
}

#[derive(Default)]
struct Models {
    vmos: Vec<Model>,
    written: u64,
    /// Between these pages go one by one: nobody knows what a snapshot taken meanwhile has.
    moving: Vec<VmoId>,
}

#[derive(Clone)]
struct Run {
    system: &'static System,
    models: Arc<Mutex<Models>>,
    /// A worker for each level of steps within steps.
    workers: Arc<Mutex<Vec<TestWorker>>>,
}

impl Run {
    fn models(&self) -> MutexGuard<'_, Models> {
        self.models.lock().unwrap()
    }

    /// The VMO that a step means, if there is any, and a number for what it writes.
    fn pick(&self, which: usize) -> Option<(Model, u64)> {
        let mut models = self.models();
        models.written += 1;
        let written = models.written;
        let count = models.vmos.len();
        let model = models.vmos.get(which % count.max(1))?;
        Some((model.clone(), written))
    }

    /// Changes the model of a VMO that is still there.
    fn change(&self, id: VmoId, act: impl FnOnce(&mut Model)) {
        let mut models = self.models();
        if let Some(model) = models.vmos.iter_mut().find(|model| model.id == id) {
            act(model);
        }
    }

    fn with_worker<R>(&self, act: impl FnOnce(&mut TestWorker) -> R) -> R {
        let mut worker = self.workers.lock().unwrap().pop().expect("a free worker");
        let result = act(&mut worker);
        self.workers.lock().unwrap().push(worker);
        result
    }

    fn read(&self, id: VmoId, page: u64) {
        let s = self.system;
        let mut read = [0xA5; 4096];
        let done =
            self.with_worker(|worker| s.vmos.read(&s.machine, worker, id, page * PAGE, &mut read));
        // A step within may have ended it, or made it smaller.
        let models = self.models();
        let model = models.vmos.iter().find(|model| model.id == id);
        match (model, done) {
            (None, done) => assert_eq!(done, Err(VmoError::NoSuchVmo)),
            (Some(model), Err(error)) => {
                assert_eq!(error, VmoError::OutOfRange);
                assert!(page >= model.pages);
            }
            (Some(model), Ok(())) => {
                let zeros = [0; 4096];
                let expected = model.contents.get(&page).unwrap_or(&zeros);
                assert!(read == *expected, "page {page} of {id:?} is something else");
            }
        }
    }

    /// Reads a page as it is held: what it was when the read began, or what a step within has made of it.
    fn read_stored(&self, model: &Model, page: u64) {
        let s = self.system;
        let mut read = [0xA5; 4096];
        let frames = s.machine.pages_in_place();
        let is_awaited = s.codec.is_awaited();
        let done = self.with_worker(|worker| {
            let at = page * PAGE;
            s.vmos
                .read_stored(&s.machine, worker, model.id, at, &mut read)
        });
        if !is_awaited && !under_random_compression() {
            assert_eq!(s.machine.pages_in_place(), frames, "it takes no frame");
        }
        let models = self.models();
        let now = models.vmos.iter().find(|other| other.id == model.id);
        match done {
            Err(VmoError::NoSuchVmo) => assert!(now.is_none()),
            Err(VmoError::OutOfRange) => assert!(now.is_some_and(|now| page >= now.pages)),
            Err(error) => panic!("{error}"),
            Ok(()) => {
                let is = |model: &Model| read == *model.contents.get(&page).unwrap_or(&[0; 4096]);
                let is_right = is(model) || now.is_some_and(is);
                assert!(is_right, "page {page} of {:?} is something else", model.id);
            }
        }
    }

    fn overwrite(&self, model: &Model, page: u64, content: Page) {
        let s = self.system;
        let done = s.vmos.overwrite(&s.machine, model.id, page, &content);
        // Nothing comes between: no codec runs.
        assert_eq!(done, Ok(()));
        self.change(model.id, |model| {
            model.contents.insert(page, content);
        });
    }

    fn read_all(&self) {
        let models = self.models().vmos.clone();
        for model in models {
            let hot = HOT
                .iter()
                .flat_map(|&page| page.saturating_sub(2)..page + 3);
            let mut pages: Vec<u64> = model.contents.keys().copied().chain(hot).collect();
            pages.sort_unstable();
            pages.dedup();
            for page in pages {
                if page < model.pages {
                    self.read(model.id, page);
                }
            }
        }
    }

    fn apply(&self, step: &Step) {
        let s = self.system;
        let m = &s.machine;
        match *step {
            Step::Create(pages) => {
                if self.models().vmos.len() < 6 {
                    let id = s.create(pages);
                    self.add(id, pages, BTreeMap::new());
                }
            }
            Step::Destroy(which) => {
                if let Some((model, _)) = self.pick(which) {
                    let done = s.vmos.destroy(m, model.id);
                    if model.pinned.is_some() {
                        assert_eq!(done, Err(VmoError::BadState));
                    } else {
                        done.unwrap();
                        self.models().vmos.retain(|other| other.id != model.id);
                    }
                }
            }
            Step::Snapshot(which, first, pages) => {
                let Some((model, _)) = self.pick(which) else {
                    return;
                };
                if self.models().vmos.len() >= 6 {
                    return;
                }
                let child = s.vmos.snapshot(m, model.id, first..first + pages);
                if first > model.pages {
                    assert_eq!(child, Err(VmoError::OutOfRange));
                    return;
                }
                if model.pinned.is_some() {
                    assert_eq!(child, Err(VmoError::BadState));
                    return;
                }
                let part = model.contents.range(first..first + pages);
                let contents = part.map(|(page, content)| (page - first, *content));
                self.add(child.unwrap(), pages, contents.collect());
            }
            Step::Fill(which) => {
                for page in HOT {
                    self.apply(&Step::Write(which, page, Kind::Text));
                }
            }
            Step::Write(which, page, kind) => {
                let Some((model, written)) = self.pick(which) else {
                    return;
                };
                if page < model.pages {
                    let page_content = content(kind, written);
                    let half = written.is_multiple_of(5);
                    let bytes = &page_content[if half { 2048 } else { 0 }..];
                    let at = (page + 1) * PAGE - bytes.len() as u64;
                    let done = self.with_worker(|w| s.vmos.write(m, w, model.id, at, bytes));
                    if done.is_ok() {
                        self.change(model.id, |model| {
                            let old = model.contents.entry(page).or_insert([0; 4096]);
                            old[4096 - bytes.len()..].copy_from_slice(bytes);
                        });
                    }
                }
            }
            Step::Overwrite(which, page, kind) => {
                if let Some((model, written)) = self.pick(which)
                    && page < model.pages
                {
                    self.overwrite(&model, page, content(kind, written));
                }
            }
            Step::ReadStored(which) => {
                let Some((model, _)) = self.pick(which) else {
                    return;
                };
                // As it is now: a step within may have changed it.
                for page in HOT {
                    let now = self
                        .models()
                        .vmos
                        .iter()
                        .find(|now| now.id == model.id)
                        .cloned();
                    if let Some(now) = now.filter(|now| page < now.pages) {
                        self.read_stored(&now, page);
                    }
                }
            }
            Step::Touch(which, page) => {
                let Some((model, written)) = self.pick(which) else {
                    return;
                };
                if page < model.pages {
                    self.touch(&model, page, written);
                }
            }
            Step::Zero(which, first, pages) | Step::Decommit(which, first, pages) => {
                let Some((model, _)) = self.pick(which) else {
                    return;
                };
                let range = first..(first + pages).min(model.pages);
                let zero = matches!(step, Step::Zero(..));
                let done = match zero {
                    true => s.zero(model.id, range.clone()),
                    false => s.decommit(model.id, range.clone()),
                };
                if range.start > range.end {
                    assert_eq!(done, Err(VmoError::OutOfRange));
                } else if !zero && model.is_pinned(range.clone()) {
                    assert_eq!(done, Err(VmoError::BadState));
                } else {
                    done.unwrap();
                    self.change(model.id, |model| {
                        model.contents.retain(|page, _| !range.contains(page));
                    });
                }
            }
            Step::Resize(which, pages) => {
                if let Some((model, _)) = self.pick(which) {
                    let done = s.resize(model.id, pages);
                    if model.is_pinned(pages..u64::MAX) {
                        assert_eq!(done, Err(VmoError::BadState));
                        return;
                    }
                    done.unwrap();
                    self.change(model.id, |model| {
                        model.pages = pages;
                        model.contents.retain(|&page, _| page < pages);
                    });
                }
            }
            Step::Commit(which, first) => {
                if let Some((model, _)) = self.pick(which) {
                    let range = first.min(model.pages)..(first + 3).min(model.pages);
                    let done = self.with_worker(|w| s.commit(w, model.id, range));
                    self.check_done(model.id, done);
                }
            }
            Step::Prefetch(which) => {
                if let Some((model, _)) = self.pick(which) {
                    let all = 0..model.pages;
                    let done = self.with_worker(|w| s.vmos.prefetch(m, w, model.id, all));
                    self.check_done(model.id, done);
                }
            }
            Step::Transfer((from, first), pages, (to, to_first)) => {
                if let (Some((from, _)), Some((to, _))) = (self.pick(from), self.pick(to)) {
                    self.models().moving = vec![from.id, to.id];
                    self.transfer((&from, first), pages, (&to, to_first));
                    self.models().moving.clear();
                }
            }
            Step::Pin(which, page) => {
                let Some((model, _)) = self.pick(which) else {
                    return;
                };
                if model.pinned.is_none() && page < model.pages {
                    let range = page..page + 1;
                    let done = self.with_worker(|w| s.vmos.pin(m, w, model.id, range));
                    if done.is_ok() {
                        self.change(model.id, |model| model.pinned = Some(page));
                    }
                    self.check_done(model.id, done);
                }
            }
            Step::Unpin(which) => {
                if let Some((model, _)) = self.pick(which)
                    && let Some(page) = model.pinned
                {
                    s.vmos.unpin(model.id, page..page + 1).unwrap();
                    self.change(model.id, |model| model.pinned = None);
                }
            }
            Step::Mark(which) => {
                let Some((model, _)) = self.pick(which) else {
                    return;
                };
                if model.marked {
                    s.vmos.unmark_latency_sensitive(model.id).unwrap();
                    self.change(model.id, |model| model.marked = false);
                } else {
                    let done = self.with_worker(|w| s.vmos.mark_latency_sensitive(m, w, model.id));
                    if done.is_ok() {
                        self.change(model.id, |model| model.marked = true);
                    }
                    self.check_done(model.id, done);
                }
            }
            Step::Rotate => s.vmos.engine().rotate(m),
            Step::Compact => {
                s.vmos.engine().compact(m, 1 << 20);
            }
            Step::ReadAll => self.read_all(),
            Step::Reclaim(_) | Step::InCompress(_) | Step::InDecompress(_) => {}
        }
    }

    /// Whether a step, done in the middle of a decompression, would wait for that, which is done by the
    /// same thread; or what it does could not be told.
    fn waits(&self, step: &Step) -> bool {
        let requested = |model: &Model, page| {
            let entry = self.system.vmos.entry(model.id, page);
            matches!(entry, Ok(Entry::Request(_)))
        };
        match *step {
            Step::Write(which, page, _) => {
                let picked = self.pick(which);
                picked.is_some_and(|(model, _)| requested(&model, page))
            }
            Step::Snapshot(which, ..) => {
                let picked = self.pick(which);
                picked.is_some_and(|(model, _)| self.models().moving.contains(&model.id))
            }
            // A mapping that is touched could restore pages itself, with this hook in it.
            Step::Touch(..) => true,
            Step::Fill(_)
            | Step::ReadStored(_)
            | Step::Commit(..)
            | Step::Pin(..)
            | Step::Prefetch(_)
            | Step::Mark(_)
            | Step::Transfer(..) => {
                let models = self.models().vmos.clone();
                let any = |model: &Model| (0..model.pages).any(|page| requested(model, page));
                models.iter().any(any)
            }
            _ => false,
        }
    }

    /// An operation that a step within may have overtaken.
    fn check_done(&self, id: VmoId, done: Result<(), VmoError>) {
        if self.models().vmos.iter().any(|model| model.id == id) {
            assert!(matches!(done, Ok(()) | Err(VmoError::OutOfRange)));
        } else {
            assert_eq!(done, Err(VmoError::NoSuchVmo));
        }
    }

    /// Reads and writes a byte through a mapping, without steps within.
    fn touch(&self, model: &Model, page: u64, written: u64) {
        let s = self.system;
        let (offset, byte) = ((written * 97 % 4096) as usize, written as u8);
        let address = (model.name, page);
        let before = self.with_worker(|w| s.touch(w, address, (model.id, page), offset, None));
        self.change(model.id, |model| {
            let expected = model.contents.get(&page).map_or(0, |page| page[offset]);
            assert_eq!(before, expected, "through the mapping");
        });
        self.with_worker(|w| s.touch(w, address, (model.id, page), offset, Some(byte)));
        self.change(model.id, |model| {
            model.contents.entry(page).or_insert([0; 4096])[offset] = byte;
        });
    }

    fn transfer(&self, (from, first): (&Model, u64), pages: u64, (to, to_first): (&Model, u64)) {
        let s = self.system;
        let end = (first + pages).min(from.pages);
        let end = end.min((first + to.pages).saturating_sub(to_first));
        if first >= end || to_first >= to.pages {
            return;
        }
        let taken = self.with_worker(|w| s.vmos.take(&s.machine, w, from.id, first..end));
        s.vmos.check_invariants();
        let mut list = match taken {
            Ok(list) => list,
            Err(error) => {
                let gone = !self.models().vmos.iter().any(|model| model.id == from.id);
                assert!(gone || matches!(error, VmoError::BadState | VmoError::OutOfRange));
                return;
            }
        };
        // What steps within have written meanwhile may be in the list or not: such lists are not
        // supplied, and neither is compared.
        let taken = first..first + list.pages();
        let mut contents = BTreeMap::new();
        let unchanged = |model: &&mut Model| model.contents == from.contents;
        let mut models = self.models();
        let source = models.vmos.iter_mut().find(|model| model.id == from.id);
        let Some(source) = source.filter(unchanged) else {
            drop(models);
            s.vmos.discard(&s.machine, list);
            self.reread(from.id);
            return;
        };
        for page in taken {
            if let Some(content) = source.contents.remove(&page) {
                contents.insert(page - first, content);
            }
        }
        drop(models);
        let done = self.with_worker(|w| s.vmos.transfer(&s.machine, w, to.id, to_first, &mut list));
        let supplied = list.supplied();
        s.vmos.check_invariants();
        s.vmos.discard(&s.machine, list);
        match done {
            Ok(()) => self.change(to.id, |model| {
                let range = to_first..to_first + supplied;
                model.contents.retain(|page, _| !range.contains(page));
                let moved = contents.iter();
                let moved = moved.map(|(page, content)| (to_first + page, *content));
                model.contents.extend(moved);
                model.contents.retain(|&page, _| page < model.pages);
            }),
            Err(_) => self.reread(to.id),
        }
    }

    /// Takes over what a VMO holds: a step within was in the way of this one.
    fn reread(&self, id: VmoId) {
        let s = self.system;
        let mut contents = BTreeMap::new();
        let Ok(pages) = s.vmos.pages(id) else {
            return;
        };
        for page in (0..pages).filter(|&page| !matches!(s.entry(id, page), Entry::Empty)) {
            contents.insert(page, self.with_worker(|w| s.read_page(w, id, page)));
        }
        self.change(id, |model| model.contents = contents);
    }

    fn add(&self, id: VmoId, pages: u64, contents: BTreeMap<u64, Page>) {
        let mut models = self.models();
        models.written += 1;
        let name = models.written as u32;
        models.vmos.push(Model {
            id,
            name,
            pages,
            contents,
            pinned: None,
            marked: false,
        });
    }

    /// Every mapping shows what it should.
    fn check_mappings(&self) {
        for model in &self.models().vmos {
            for page in HOT {
                if let Some(byte) = self.system.machine.touch((model.name, page), 7, None) {
                    let expected = model.contents.get(&page).map_or(0, |page| page[7]);
                    assert_eq!(byte, expected, "page {page} of {:?}, mapped", model.id);
                }
            }
        }
    }
}

fn run(steps: &[Step]) {
    let run = Run {
        system: system(200),
        models: Arc::default(),
        workers: Arc::new(Mutex::new((1..6).map(worker).collect())),
    };
    let s = run.system;
    let mut reclaimer = reclaimer(0);
    run.apply(&Step::Create(LARGEST));
    for step in steps {
        let later = |step: &Step| {
            let (run, step) = (run.clone(), step.clone());
            move || {
                if !run.waits(&step) {
                    run.apply(&step);
                    run.system.vmos.check_invariants();
                }
            }
        };
        match step {
            Step::InCompress(step) => s.codec.on_compress.set(later(step)),
            Step::InDecompress(step) => s.codec.on_decompress.set(later(step)),
            Step::Touch(..) => {
                s.codec.on_decompress.run();
                run.apply(step);
            }
            Step::Reclaim(pages) => {
                s.reclaim(&mut reclaimer, *pages);
            }
            step => run.apply(step),
        }
        s.vmos.check_invariants();
        s.vmos.engine().check_queues();
        run.check_mappings();
    }
    s.codec.on_compress.run();
    s.codec.on_decompress.run();
    run.read_all();
    s.vmos.check_invariants();
    while !run.models().vmos.is_empty() {
        run.apply(&Step::Unpin(steps.len()));
        run.apply(&Step::Destroy(steps.len()));
        s.vmos.check_invariants();
        run.read_all();
    }
    s.assert_nothing_is_held();
    drop(run);
    // SAFETY: the system was leaked as a box, and all hooks that named it have run.
    drop(unsafe { Box::from_raw(std::ptr::from_ref(s).cast_mut()) });
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 32 } else { 256 },
        failure_persistence: None,
        max_shrink_iters: 1000,
        ..ProptestConfig::default()
    })]
    #[test]
    fn vmos_behave_as_maps_from_pages_to_contents(
        steps in prop::collection::vec(step(), 1..100)
    ) {
        run(&steps);
    }

    /// Begins with intervals: what a VMO and its snapshots hide, and those of other VMOs still see.
    #[test]
    fn so_they_do_where_large_ranges_were_zeroed(
        hidden in (0..2usize, page(), 0..2usize, page()),
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let (zeroed, from, again, first) = hidden;
        let mut all = vec![
            Step::Fill(0),
            Step::Snapshot(0, 0, LARGEST),
            Step::Zero(zeroed, from, LARGEST),
            Step::Write(zeroed, 64, Kind::Text),
            Step::Snapshot(again, first, LARGEST),
            Step::ReadAll,
        ];
        all.extend(steps);
        run(&all);
    }
}
