//! The compression and the page-request protocol under shuttle: a handful of threads, a few
//! steps each, and a scheduler that tries thousands of orders, at random and with a bounded
//! number of preemptions (Burckhardt et al., "A Randomized Scheduler with Probabilistic
//! Guarantees of Finding Bugs", ASPLOS 2010). Every lock, section, codec call and touch is a
//! point at which another thread may go on.
//!
//! A program of its own, for shuttle takes the process's panic hook.
//!
//! Every touch checks what it finds. A failure prints the schedule; `shuttle::replay` repeats it.
//! `COLDPRESS_SHUTTLE_ORDERS` sets the number of orders a test tries with each scheduler.

mod host;
mod restless;

use coldpress_codec::{Compressed, Corrupt, Page, PageCodec, same_filled};
use coldpress_engine::{
    Access, Ageing, Engine, FaultOutcome, Growth, Pace, PageIndex, Reclaimer, Trigger, Worker,
    Workspace,
};
use host::{Machine, PAGES, point};
use restless::Restless;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Pages whose words but the first are all alike.
struct TwoWords;

impl PageCodec for TwoWords {
    const NAME: &'static str = "two words";
    type State = ();
    type Scratch = ();

    fn compress(&self, (): &mut (), page: &Page, out: &mut [u8]) -> Compressed {
        point();
        if let Some(word) = same_filled::same_filled(page) {
            return Compressed::SameFilled(word);
        }
        let words = page.as_chunks::<8>().0;
        if words[2..].iter().any(|word| *word != words[1]) {
            return Compressed::Incompressible;
        }
        out[..16].copy_from_slice(&page[..16]);
        point();
        Compressed::Stored(16)
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        point();
        let (first, rest) = stored.split_at_checked(8).ok_or(Corrupt)?;
        let words = page.as_chunks_mut::<8>().0;
        words.fill(rest.try_into().map_err(|_| Corrupt)?);
        words[0] = first.try_into().map_err(|_| Corrupt)?;
        point();
        Ok(())
    }
}

/// What a page holds in a version, of which no two pages have the same: nothing, one word, two
/// words, or what does not compress.
fn content(version: u64) -> Page {
    let mut page = [0; 4096];
    if version == 0 {
        return page;
    }
    let word = (version << 8).to_le_bytes();
    page.as_chunks_mut::<8>().0.fill(word);
    match version % 4 {
        1 | 2 => page[..8].copy_from_slice(&(!version).to_le_bytes()),
        3 => page[80..88].copy_from_slice(&version.to_le_bytes()),
        _ => {}
    }
    page
}

const AGEING: Ageing = Ageing {
    interval_ns: 10,
    pressed_interval_ns: 1,
    retry_failed_ns: 100,
};

type TestEngine<const KERNEL: bool> = Engine<Machine<KERNEL>, TwoWords, Restless>;

/// An engine on a machine, and what the pages must read as. The engine goes first.
struct System<const KERNEL: bool> {
    engine: ManuallyDrop<Box<TestEngine<KERNEL>>>,
    machine: Machine<KERNEL>,
    versions: [AtomicU64; PAGES],
    next: AtomicU64,
}

impl<const KERNEL: bool> Drop for System<KERNEL> {
    fn drop(&mut self) {
        // SAFETY: dropped here once, before the machine whose chunks it uses.
        unsafe { ManuallyDrop::drop(&mut self.engine) };
    }
}

/// Memory of a worker, lent for as long as the threads of one order run, and used again.
struct Lent<T: 'static>(*mut T);

// SAFETY: plain memory, used by one thread at a time.
unsafe impl<T> Send for Lent<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Lent<T> {}

impl<T> Lent<T> {
    fn new() -> Self {
        let mut memory = Box::<T>::new_uninit();
        // SAFETY: only used for types of which zeroed memory is a value.
        Self(Box::into_raw(unsafe {
            memory.as_mut_ptr().write_bytes(0, 1);
            memory.assume_init()
        }))
    }

    /// # Safety
    /// Used once, and no longer than `self` lives.
    unsafe fn get(&self) -> &'static mut T {
        // SAFETY: as the caller promises.
        unsafe { &mut *self.0 }
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`; its user is gone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

type Kit = (Lent<Workspace<TwoWords>>, Lent<[u8; 4096]>, Lent<()>);

fn kit() -> Kit {
    (Lent::new(), Lent::new(), Lent::new())
}

impl<const KERNEL: bool> System<KERNEL> {
    /// All pages in place, tracked and inactive.
    fn new() -> Arc<Self> {
        let system = Self {
            engine: ManuallyDrop::new(Box::new(Engine::new(TwoWords, Restless::default()))),
            machine: Machine::new(),
            versions: Default::default(),
            next: AtomicU64::new(1),
        };
        let (engine, machine) = (&system.engine, &system.machine);
        assert_eq!(engine.create_segment(machine), Some(1));
        assert!(engine.prepare_for(machine, 2, 64));
        for index in 0..PAGES as PageIndex {
            let version = system.next.fetch_add(1, Relaxed);
            machine.give(index, Some(Box::new(content(version))));
            system.versions[index as usize].store(version, Relaxed);
            assert!(engine.track_known(machine, 1, index, Growth::Allowed));
        }
        system.cool();
        Arc::new(system)
    }

    fn cool(&self) {
        for _ in 0..2 {
            self.machine.advance(AGEING.interval_ns);
            self.engine.age(&self.machine, &AGEING, Pace::Pressed);
        }
    }

    /// A program's thread: reads page `index`, checks it, and writes the next version.
    fn touch(&self, worker: &mut Worker<TwoWords>, index: PageIndex) {
        loop {
            let version = &self.versions[index as usize];
            let touched = self.machine.touch(index, |page| {
                let now = version.load(Relaxed);
                assert!(
                    *page == content(now),
                    "page {index}, version {now}: wrong bytes"
                );
                let next = self.next.fetch_add(1, Relaxed);
                *page = content(next);
                version.store(next, Relaxed);
            });
            if touched.is_some() {
                return;
            }
            let outcome = self
                .engine
                .fault(&self.machine, worker, 1, index, Access::Write);
            assert!(!matches!(
                outcome,
                FaultOutcome::Poisoned | FaultOutcome::NoMemory
            ));
            shuttle::thread::yield_now();
        }
    }

    fn reclaim(&self, reclaimer: &mut Reclaimer<TwoWords>) {
        let (engine, machine) = (&self.engine, &self.machine);
        engine.reclaim_batch(machine, reclaimer, 8, u64::MAX, Trigger::Pressure);
    }

    /// Everything reads back as it must, and nothing is held for anybody afterwards.
    fn check(&self, worker: &mut Worker<TwoWords>) {
        for index in 0..PAGES as PageIndex {
            self.touch(worker, index);
        }
        self.machine.exclusively(|| {
            self.engine
                .decommit(&self.machine, 1, 0, PAGES as PageIndex);
        });
        assert_eq!(self.engine.resident_pages(), 0);
        assert_eq!(self.engine.storage_usage().objects, 0);
        assert_eq!(self.machine.frames.lent(), 0);
        assert_eq!(self.engine.counters().corrupt.load(Relaxed), 0);
    }
}

/// What the threads of a scenario do.
#[derive(Clone, Copy)]
enum Role {
    /// Touches these pages, one after the other.
    Toucher(&'static [PageIndex]),
    /// Lets pages age and compresses them, so many times.
    Compressor(u32),
    /// Compacts storage.
    Compactor(u32),
    /// Drops a page.
    Dropper(PageIndex),
    /// Moves one page to another.
    Mover(PageIndex, PageIndex),
}

fn act<const KERNEL: bool>(system: &System<KERNEL>, role: Role, id: u16, kit: &Kit) {
    let (engine, machine) = (&system.engine, &system.machine);
    // SAFETY: the kit is this thread's alone, and lives as long as the order runs.
    let mut worker = Worker::new(id, unsafe { kit.0.get() });
    match role {
        Role::Toucher(pages) => pages
            .iter()
            .for_each(|&page| system.touch(&mut worker, page)),
        Role::Compressor(times) => {
            let first = id * 64;
            // SAFETY: as above.
            let (state, buffer) = unsafe { (kit.2.get(), kit.1.get()) };
            let mut reclaimer = Reclaimer::new(state, buffer, worker, first..first + 64);
            for _ in 0..times {
                system.reclaim(&mut reclaimer);
                system.cool();
            }
        }
        Role::Compactor(times) => {
            for _ in 0..times {
                engine.compact(machine, 4096);
            }
        }
        Role::Dropper(index) => machine.exclusively(|| {
            engine.decommit(machine, 1, index, index + 1);
            machine.take_away(index);
            system.versions[index as usize].store(0, Relaxed);
        }),
        Role::Mover(from, to) => machine.exclusively(|| {
            engine.decommit(machine, 1, to, to + 1);
            assert!(engine.transfer(machine, (1, from), (1, to)));
            machine.give(to, machine.take_away(from));
            let version = system.versions[from as usize].swap(0, Relaxed);
            system.versions[to as usize].store(version, Relaxed);
        }),
    }
}

fn orders() -> usize {
    let given = std::env::var("COLDPRESS_SHUTTLE_ORDERS").ok();
    given.map_or(200, |n| n.parse().expect("a number"))
}

/// Tries many orders of these threads, after `prepare` has run.
fn explore<const KERNEL: bool>(roles: &'static [Role], compressed_first: bool) {
    let one_order = move || {
        let system = System::<KERNEL>::new();
        let kits: Vec<Kit> = (0..roles.len() + 2).map(|_| kit()).collect();
        if compressed_first {
            act(&system, Role::Compressor(1), 3, &kits[roles.len() + 1]);
        }
        let kits = Arc::new(kits);
        let threads: Vec<_> = (0u16..)
            .zip(roles)
            .map(|(id, &role)| {
                let (system, kits) = (system.clone(), kits.clone());
                shuttle::thread::spawn(move || act(&system, role, id, &kits[id as usize]))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // SAFETY: this worker's alone.
        let workspace = unsafe { kits[roles.len()].0.get() };
        system.check(&mut Worker::new(roles.len() as u16, workspace));
    };
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = shuttle::Config::new();
        config.stack_size = 1 << 23;
        config.silence_warnings = true;
        shuttle::Runner::new(scheduler, config).run(one_order);
    };
    run(Box::new(RandomScheduler::new(orders())));
    run(Box::new(PctScheduler::new(3, orders())));
}

const TOUCHERS_OF_TWO: &[Role] = &[
    Role::Toucher(&[0, 1, 0]),
    Role::Toucher(&[1, 0, 1]),
    Role::Compressor(2),
];

#[test]
fn touchers_meet_a_page_that_is_being_compressed() {
    explore::<false>(TOUCHERS_OF_TWO, false);
    explore::<true>(TOUCHERS_OF_TWO, false);
}

const ONE_REQUEST: &[Role] = &[
    Role::Toucher(&[2]),
    Role::Toucher(&[2, 3]),
    Role::Toucher(&[3, 2]),
];

#[test]
fn touchers_of_one_compressed_page_share_a_request() {
    explore::<false>(ONE_REQUEST, true);
    explore::<true>(ONE_REQUEST, true);
}

const TWO_COMPRESSORS: &[Role] = &[
    Role::Compressor(2),
    Role::Compressor(2),
    Role::Toucher(&[0, 3]),
];

#[test]
fn compressors_keep_off_each_other() {
    explore::<false>(TWO_COMPRESSORS, false);
    explore::<true>(TWO_COMPRESSORS, false);
}

const COMPACTION: &[Role] = &[
    Role::Compactor(6),
    Role::Compressor(2),
    Role::Toucher(&[1, 2]),
];

#[test]
fn objects_move_between_touches() {
    explore::<false>(COMPACTION, true);
    explore::<true>(COMPACTION, true);
}

const CHANGES: &[Role] = &[
    Role::Dropper(0),
    Role::Toucher(&[0, 1]),
    Role::Compressor(2),
    Role::Dropper(1),
];

#[test]
fn pages_are_dropped_while_they_are_compressed_and_restored() {
    explore::<false>(CHANGES, false);
    explore::<false>(CHANGES, true);
}

const MOVES: &[Role] = &[
    Role::Mover(0, 1),
    Role::Toucher(&[2, 1]),
    Role::Compressor(2),
];

#[test]
fn pages_move_while_they_are_compressed_and_restored() {
    explore::<false>(MOVES, false);
    explore::<false>(MOVES, true);
}
