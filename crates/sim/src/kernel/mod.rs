//! The mode of a kernel: VMOs over pages that the machine owns.
//!
//! | file | holds |
//! |---|---|
//! | `host.rs`, `memory.rs`, `mappings.rs`, `requests.rs` | the machine |
//! | `object.rs`, `store.rs` | a VMO as the driver knows it: what each page may hold, what its user pager has |
//! | `user.rs`, `changing.rs`, `moving.rs` | threads that use VMOs |
//! | `pager.rs` | user pagers |
//! | `policy.rs` | caretaker, evictor, tunables |
//! | `service.rs` | reclaimers, weather, checks |

mod changing;
mod host;
mod mappings;
mod memory;
mod moving;
mod object;
mod pager;
mod policy;
mod requests;
mod service;
mod store;
mod user;

use crate::codec::{SimCodec, Watcher};
use crate::inject::Kind;
use crate::lifetime::Held;
use crate::machine::{Chunks, Clock, Limit, Stage, StorageFrames, Table};
use crate::schedule::{Body, MAX_THREADS, Simulation, note, random, simulation};
use crate::settings::Settings;
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_engine::vmo::{VmoId, Vmos};
use coldpress_engine::{Entry, Place};
use coldpress_storage::AnyStorage;
use host::Kernel;
use object::Object;
use policy::Policy;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

type SimVmos = Vmos<Kernel, SimCodec, AnyStorage>;

/// Threads that use VMOs.
const USERS: usize = 7;

/// A machine, VMOs on it, and what each must hold.
struct World {
    machine: &'static Kernel,
    vmos: &'static SimVmos,
    objects: RefCell<Vec<Rc<Object>>>,
    /// Those with user pagers whose end has begun.
    ending: RefCell<BTreeMap<VmoId, Rc<Object>>>,
    /// Sleepers are woken for nothing. (Elsewhere a sleeper that nobody wakes is found.)
    spurious: bool,
    /// A page that is away, or was when somebody looked: where threads meet.
    spot: RefCell<Option<(Rc<Object>, u64)>>,
    /// VMOs ever made.
    made: Cell<u32>,
    users: Cell<u32>,
    frames: usize,
    policy: Policy,
    /// When each thread began what it does: reads since then may return what was true then.
    began: Vec<Cell<u64>>,
}

struct StageWatcher(OnceCell<&'static Kernel>);

impl Watcher for StageWatcher {
    fn advance(&self, page: *const Page, stage: Stage) -> Option<Place> {
        let machine = self.0.get()?;
        machine.staging.advance(&machine.ram, page, stage)
    }
}

impl host::Looker for World {
    fn entry(&self, (segment, index): Place) -> Entry {
        self.vmos.engine().entry(segment, index)
    }

    fn seen(&self, vmo: VmoId, page: u64) -> Option<Entry> {
        self.vmos.entry(vmo, page).ok()
    }
}

impl World {
    fn is_over(&self) -> bool {
        self.users.get() == 0
    }

    /// Now, as the model counts time.
    fn now(&self) -> u64 {
        simulation().steps()
    }

    /// The thread begins something; says when.
    fn begins(&self) -> u64 {
        crate::schedule::step(What::Idle, 0, 0, 0);
        simulation().begins_anew();
        let now = self.now();
        self.began[simulation().current()].set(now);
        now
    }

    /// A number for a VMO that is made.
    fn next_number(&self) -> u32 {
        self.made.set(self.made.get() + 1);
        self.made.get()
    }

    /// The thread has ended it.
    fn ends(&self) {
        self.began[simulation().current()].set(u64::MAX);
    }

    /// When the oldest thing began that is under way.
    fn oldest(&self) -> u64 {
        self.began.iter().map(Cell::get).min().unwrap_or(u64::MAX)
    }

    /// Counts at which stage a page is met.
    fn note_stage(&self, entry: Entry, [staged, in_codec, storing, restoring]: [Kind; 4]) {
        match entry {
            Entry::Temporary(slot) => note(match self.machine.staging.stage(slot) {
                Stage::Waiting => staged,
                Stage::InCodec => in_codec,
                Stage::Storing => storing,
            }),
            Entry::Request(_) => note(restoring),
            _ => {}
        }
    }
}

/// Runs one world of so many steps to its end.
///
/// # Errors
/// What was found.
pub fn run(simulation: &Simulation, settings: &Settings) -> Result<(), String> {
    let random = &simulation.random;
    let frames = match random.one_in(2) {
        true => random.between(40, 400),
        false => random.between(400, 1200),
    } as usize;
    let limit = Rc::new(Limit::new(frames));
    let storage_frames = StorageFrames::new(2 * frames, limit.clone());
    let refused = random.pick(&Table::ALL);
    let chunks = Chunks::new(refused, random.below(6) as u32);
    let clock = Clock::new(match random.one_in(4) {
        // The header's time is 31 bits of milliseconds: it ends during the run.
        true => ((1 << 31) - random.between(1, 1000)) * 1_000_000,
        false => random.between(1_000, 1 << 40),
    });
    let held = Held::default();
    let machine = held.keep(Kernel::new(
        limit,
        (2 * frames, storage_frames),
        chunks,
        clock,
        random.one_in(2),
        settings.kernel_sabotage,
    ));
    let watcher = held.keep(StageWatcher(OnceCell::from(machine)));
    let storage = AnyStorage::new(settings.storage(random));
    let vmos = held.keep(Vmos::new(SimCodec::new(settings.codec, watcher), storage));
    let world = held.keep(World {
        machine,
        vmos,
        objects: RefCell::default(),
        ending: RefCell::default(),
        spurious: random.one_in(2),
        spot: RefCell::default(),
        made: Cell::new(0),
        users: Cell::new(USERS as u32),
        frames,
        policy: Policy::new(),
        began: (0..=MAX_THREADS).map(|_| Cell::new(u64::MAX)).collect(),
    });
    let _ = machine.looker.set(world);
    world.tune();
    let threads = world.threads(&held);
    held.run(simulation, threads, || world.check_to_the_end())
}

impl World {
    fn threads(&'static self, held: &Held) -> Vec<(&'static str, Body)> {
        let mut threads: Vec<(&'static str, Body)> = Vec::new();
        let mut id = 0;
        for n in 0..USERS {
            let worker = held.worker(id);
            id += 1;
            threads.push(("user", Box::new(move || self.user(n, worker))));
        }
        for _ in 0..random().between(1, 3) {
            let worker = held.worker(id);
            id += 1;
            threads.push(("pager", Box::new(|| self.pager(worker))));
        }
        let (cares, evicts) = (random().one_in(2), random().one_in(2));
        let fewest = u64::from(!cares && !evicts || !random().one_in(3));
        for n in 0..random().between(fewest, 4) as u16 {
            let reclaimer = held.reclaimer(id, n * 4..n * 4 + 1 + n);
            id += 1;
            threads.push(("reclaimer", Box::new(|| self.reclaim(reclaimer))));
        }
        if cares {
            let reclaimer = held.reclaimer(id, 20..22);
            id += 1;
            threads.push(("caretaker", Box::new(|| self.caretaker(reclaimer))));
        }
        if evicts {
            let reclaimer = held.reclaimer(id, 24..27);
            threads.push(("evictor", Box::new(|| self.evictor(reclaimer))));
        }
        let recoder = held.recoder();
        threads.push(("weather", Box::new(|| self.weather(recoder))));
        threads.push(("checker", Box::new(|| self.checker())));
        threads
    }
}
