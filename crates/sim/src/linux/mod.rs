//! The mode of the runtime: another kernel owns the pages, changes are told by events, and the
//! pager's handlers, reclaimers and fork do as `crates/runtime` does.
//!
//! | file | holds |
//! |---|---|
//! | `gate.rs`, `host.rs` | the machine |
//! | `program.rs` | threads of the program: they read, write, drop and move memory |
//! | `changes.rs` | what the kernel does for them, and the events it tells of |
//! | `pager.rs` | handlers, reclaimers, discovery |
//! | `fork.rs` | stillness, and a look at everything meanwhile |
//! | `weather.rs` | what disturbs the machine |
//! | `check.rs` | entries, memory, gauges and content agree |

mod changes;
mod check;
mod fork;
mod gate;
mod host;
mod pager;
mod program;
mod weather;

use crate::codec::{SimCodec, Watcher};
use crate::inject::Kind;
use crate::lifetime::Held;
use crate::machine::{Chunks, Clock, Limit, Stage, StorageFrames, Table};
use crate::model::Expected;
use crate::schedule::{Body, Simulation, note, random};
use crate::settings::Settings;
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_engine::{Engine, Entry, Place};
use coldpress_storage::AnyStorage;
use host::{Change, Linux, Message};
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// What is wrong with the machine on purpose, to show that it is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sabotage {
    /// Nothing.
    #[default]
    None,
    /// A write that comes while a page is taken out is lost.
    TakeLosesWrites,
    /// What is put in place replaces what is there.
    InstallReplaces,
    /// Pages are put in place although a change was announced.
    InstallsWhileChanging,
    /// Changes are delivered although somebody relies on there being none.
    GateBroken,
    /// Who waits for a page is never woken.
    NeverWakes,
    /// Staging is written to while the compressor owns it.
    StagingOverwritten,
}

type SimEngine = Engine<Linux, SimCodec, AnyStorage>;

/// A machine, an engine on it, what its memory must hold, and what its threads share.
struct World {
    machine: &'static Linux,
    engine: &'static SimEngine,
    expected: Vec<Expected>,
    limit: Rc<Limit>,
    /// One change of the address space at a time.
    changing: Cell<bool>,
    programs: Cell<u32>,
    reclaimers: u32,
    /// Handlers take nothing new.
    hold: Cell<bool>,
    /// Reclaim, discovery and compaction rest.
    rest: Cell<bool>,
    /// Who rests.
    resting: Cell<u32>,
    /// The engine is still.
    still: Cell<bool>,
    /// Pages restored while it is.
    restored: RefCell<Vec<Place>>,
    /// What the handlers are busy with.
    busy: [Cell<Option<Message>>; HANDLERS],
    /// Links of stored objects that were damaged: their place may stay in use for ever.
    links_damaged: Cell<usize>,
}

const TOUCHES: [Kind; 5] = [
    Kind::TouchTaken,
    Kind::TouchStaged,
    Kind::TouchInCodec,
    Kind::TouchStoring,
    Kind::TouchRestoring,
];

const HANDLERS: usize = 3;
const PROGRAMS: usize = 6;

/// Threads that rest while a fork is under way, besides the reclaimers: discovery and weather.
const OTHERS_RESTING: u32 = 2;

struct StageWatcher(OnceCell<&'static Linux>);

impl Watcher for StageWatcher {
    fn advance(&self, page: *const Page, stage: Stage) -> Option<Place> {
        let machine = self.0.get()?;
        machine.staging.advance(&machine.ram, page, stage)
    }
}

impl World {
    fn expected(&self, place: Place) -> &Expected {
        let pages = self.machine.pages as usize;
        &self.expected[(place.0 as usize - 1) * pages + place.1 as usize]
    }

    /// Whether threads of the program are there.
    fn is_over(&self) -> bool {
        self.programs.get() == 0
    }

    /// Compares a page with what it must be.
    fn compare(&self, place: Place, page: &Page, who: &str) {
        if let Some((at, expected, found)) = self.expected(place).differs(page, 0) {
            crate::failure::about(place);
            panic!("{who}: page {place:?}, byte {at} is {found:#x} and must be {expected:#x}");
        }
    }

    /// Counts that something met this page at whatever stage it stands.
    fn note_stage(&self, place: Place, [taken, staged, in_codec, storing, restoring]: [Kind; 5]) {
        if self.machine.is_being_taken(place) {
            note(taken);
        }
        match self.engine.entry(place.0, place.1) {
            Entry::Temporary(slot) => note(match self.machine.staging.stage(slot) {
                Stage::Waiting => staged,
                Stage::InCodec => in_codec,
                Stage::Storing => storing,
            }),
            Entry::Request(_) => note(restoring),
            _ => {}
        }
    }

    /// A page to act on: often one that is in the middle of something.
    fn target(&self) -> Place {
        let start = random().next() as usize >> 1;
        let chosen = match random().below(8) {
            0..=1 => self.machine.staging.some_page(start),
            2 => self.machine.some_being_taken(start),
            3 => self.busy[start % HANDLERS]
                .get()
                .map(|message| message.place),
            _ => None,
        };
        chosen.unwrap_or_else(|| self.any_place())
    }

    fn any_place(&self) -> Place {
        let pages = u64::from(self.machine.pages);
        let place = random().below(self.expected.len() as u64);
        ((place / pages) as u32 + 1, (place % pages) as u32)
    }
}

/// Runs one world of so many steps to its end.
///
/// # Errors
/// What was found.
pub fn run(simulation: &Simulation, settings: &Settings) -> Result<(), String> {
    let random = &simulation.random;
    let segments = random.between(1, 4) as u32;
    let pages = random.between(20, 220) as u32;
    let count = (segments * pages) as usize;
    let limit = Rc::new(Limit::new(usize::MAX >> 1));
    let frames = StorageFrames::new(count + 64, limit.clone());
    let refused = random.pick(&Table::CORE);
    let chunks = Chunks::new(refused, random.below(6) as u32);
    let clock = Clock::new(match random.one_in(4) {
        // The header's time is 31 bits of milliseconds: it ends during the run.
        true => ((1 << 31) - random.between(1, 1000)) * 1_000_000,
        false => random.between(1_000, 1 << 40),
    });
    let held = Held::default();
    let machine = held.keep(Linux::new(
        segments,
        pages,
        frames,
        chunks,
        clock,
        settings.sabotage,
    ));
    machine
        .gate
        .broken
        .set(settings.sabotage == Sabotage::GateBroken);
    let watcher = held.keep(StageWatcher(OnceCell::from(machine)));
    let storage = AnyStorage::new(settings.storage(random));
    let codec = SimCodec::new(settings.codec, watcher);
    let world = held.keep(World {
        machine,
        engine: held.keep(Engine::new(codec, storage)),
        expected: (0..count).map(|_| Expected::default()).collect(),
        limit,
        changing: Cell::new(false),
        programs: Cell::new(PROGRAMS as u32),
        reclaimers: random.between(1, 4) as u32,
        hold: Cell::new(false),
        rest: Cell::new(false),
        resting: Cell::new(0),
        still: Cell::new(false),
        restored: RefCell::default(),
        busy: Default::default(),
        links_damaged: Cell::new(0),
    });
    let _ = machine.world.set(world);
    world.prepare(segments, pages);
    let threads = world.threads(&held);
    held.run(simulation, threads, || world.check_to_the_end())
}

impl World {
    /// Segments and tables, however often the machine has no memory for them.
    fn prepare(&self, segments: u32, pages: u32) {
        let (machine, engine) = (self.machine, self.engine);
        let leaves = segments * pages.div_ceil(64);
        machine.chunks.growing(&[Table::Segments]);
        for id in 1..=segments {
            let created = (0..100).find_map(|_| engine.create_segment(machine));
            assert_eq!(created, Some(id), "a segment after enough tries");
        }
        // Some worlds begin without tables, and faults find none.
        if random().one_in(3) {
            return;
        }
        let prepare = |tables, leaves, records| {
            machine.chunks.growing(tables);
            let ready = (0..100).any(|_| engine.prepare_for(machine, leaves, records));
            assert!(ready, "tables after enough tries");
        };
        prepare(&[Table::Leaves], leaves, 0);
        prepare(&[Table::Records], 0, segments * pages);
        for place in machine.all() {
            // Registered from the start, as memory is that was fenced.
            machine.at(place).registered.set(random().one_in(2));
        }
    }

    fn threads(&'static self, held: &Held) -> Vec<(&'static str, Body)> {
        let mut threads: Vec<(&'static str, Body)> = Vec::new();
        let mut id = 0;
        for _ in 0..PROGRAMS {
            threads.push(("program", Box::new(|| self.program())));
        }
        for n in 0..HANDLERS {
            let worker = held.worker(id);
            id += 1;
            threads.push(("handler", Box::new(move || self.handler(n, worker))));
        }
        for n in 0..self.reclaimers as u16 {
            let reclaimer = held.reclaimer(id, n * 64..n * 64 + 64);
            id += 1;
            threads.push(("reclaimer", Box::new(|| self.reclaim(reclaimer))));
        }
        threads.push(("discovery", Box::new(|| self.discovery())));
        let recoder = held.recoder();
        threads.push(("weather", Box::new(|| self.weather(recoder))));
        let worker = held.worker(id);
        threads.push(("fork", Box::new(|| self.fork(worker))));
        threads
    }

    /// Rests while a fork is under way.
    fn rest_if_told(&self) {
        if self.rest.get() {
            self.resting.set(self.resting.get() + 1);
            while self.rest.get() {
                crate::schedule::doze(50);
            }
            self.resting.set(self.resting.get() - 1);
        }
    }

    /// The thread has done something, and goes on to the next.
    fn goes_on(&self) {
        crate::schedule::step(What::Idle, 0, 0, 0);
        crate::schedule::simulation().begins_anew();
    }
}

impl host::Deliver for World {
    fn deliver_one(&self) -> bool {
        self.read_change()
    }
}

fn range_of(change: &Change) -> (Place, u32) {
    match *change {
        Change::Remove(segment, first, end) | Change::Unmap(segment, first, end) => {
            ((segment, first), end - first)
        }
        Change::Remap(from, _, count) => (from, count),
    }
}
