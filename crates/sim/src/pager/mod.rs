//! The pager of the product, on a simulated Linux: its own handlers, gate, reclaim, discovery and fork hooks run here, and
//! the kernel below them does what docs/kernel-behaviour.md says of the real one.
//!
//! | file | holds |
//! |---|---|
//! | `os.rs` | the kernel as the pager sees it |
//! | `kernel.rs`, `space.rs` | what the kernel knows: faults and events, page tables |
//! | `calls.rs` | what it does for the program, and what it tells of it |
//! | `file.rs`, `readers.rs` | the file of pages that are written back, and children that read it |
//! | `program.rs`, `mix.rs` | threads of the program, and what they do how often in a world |
//! | `child.rs` | a copy of the process that the pager fills |
//! | `check.rs`, `below.rs` | what a child would have, and whether all agrees; of the file |

mod below;
mod calls;
mod check;
mod child;
mod file;
mod kernel;
mod mix;
mod os;
mod program;
mod readers;
mod space;

use crate::inject::Kind;
use crate::schedule::{Body, Simulation, block, note, random, simulation, wake};
use crate::settings::Settings;
use coldpress_codec::CodecKind;
use coldpress_engine::Entry;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::triggers::Triggers;
use coldpress_pager::Pager;
use coldpress_pager::fault::handler;
use coldpress_pager::machine::os::Meter;
use coldpress_pager::reclaim::turns as reclaim;
use coldpress_pager::settings::config::{Config, TUNABLES};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use kernel::{Kernel, Over};
use mix::Mix;
use os::{Map, Measured, SimOs, Uffd};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

const PROGRAMS: u32 = 4;
const HANDLERS: usize = 3;
/// What storage may grow to.
const STORAGE_BYTES: usize = 64 << 20;

/// Handlers that are not let go yet.
const STARTED: u64 = 1 << 63 | 1 << 57;

/// A kernel, a program and its pager.
struct World {
    kernel: Kernel,
    pager: &'static Pager<SimOs>,
    mix: Mix,
    /// Where the program has memory.
    regions: Vec<AddressRange>,
    programs: Cell<u32>,
    handlers_started: Cell<bool>,
    most_mappings: Option<u32>,
    /// It shares the limit of a memory group with others.
    is_in_group: bool,
    /// Pages are written back.
    has_file: bool,
}

thread_local! {
    static WORLD: Cell<*const World> = const { Cell::new(null()) };
}

/// The world that the caller is part of.
fn world() -> &'static World {
    let world = WORLD.get();
    assert!(!world.is_null(), "outside of a world");
    // SAFETY: set by `run` to what lives until it is set back.
    unsafe { &*world }
}

/// What decides which pages go.
fn config(mix: &Mix, pages: u64, settings: &Settings) -> Config {
    let mut config = Config {
        budget_bytes: NO_BUDGET,
        asked_budget_bytes: NO_BUDGET,
        cold_after_ms: 0,
        triggers: Triggers::ALL,
        codec: random().pick(&[CodecKind::THOROUGH_LZ4, CodecKind::Press, CodecKind::best()]),
        storage: settings.storage(random()),
        recode_after_ms: None,
        tunables: TUNABLES,
        unknown_name: None,
        device: None,
        write_back: file::some_file(),
        root_pid: 0,
        first: true,
        follow: false,
        raw_clones: false,
        chaos: None,
        chaos_rest_ns: 0,
        stall_first_fault_ms: 0,
    };
    // A budget of little memory is never exceeded.
    match random().below(if mix.is_small { 2 } else { 4 }) {
        0 => {
            config.chaos = Some(random().next());
            config.tunables.second_chances = 0;
        }
        1 => config.cold_after_ms = random().between(1, 20),
        _ => {
            let bytes = pages * PAGE_SIZE as u64;
            config.budget_bytes = (1 << 20) + random().below(bytes) / 2 + (PAGE_SIZE as u64);
        }
    }
    if random().one_in(4) {
        config.cold_after_ms = random().between(1, 20);
    }
    if config.write_back.is_some() {
        // So that what is stored is too much of it.
        let bytes = pages * PAGE_SIZE as u64;
        let part = random().pick(&[2, 3, 5, 8]);
        config.budget_bytes = (1 << 17) + bytes / part;
        config.chaos = random().one_in(2).then(|| random().next());
    }
    // Where a limit was in the way of what was asked for.
    let is_less = random().one_in(4);
    config.asked_budget_bytes = if is_less {
        NO_BUDGET
    } else {
        config.budget_bytes
    };
    config
}

/// Runs one world of so many steps to its end.
///
/// # Errors
/// What was found.
pub(crate) fn run(simulation: &Simulation, settings: &Settings) -> Result<(), String> {
    // A pager reserves none of the addresses that it grows into: two in one process would meet.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mix = Mix::draw(&simulation.random);
    Mix::stir(&simulation.random, &simulation.injections);
    let regions = mix.regions();
    let pages = regions.iter().map(|r| (r.len() / PAGE_SIZE) as u64).sum();
    let config = config(&mix, pages, settings);
    let step_ns = match config.write_back {
        // What is written back was stored for seconds, and after an error nothing is written for one.
        Some(_) => simulation.random.pick(&[30_000, 100_000, 100_000, 500_000]),
        None => simulation.random.pick(&[2_000, 10_000, 50_000]),
    };
    let pager: &'static Pager<SimOs> = Box::leak(Box::new(Pager::new()));
    let world: &'static World = Box::leak(Box::new(World {
        kernel: Kernel::new(
            step_ns,
            simulation.random.between(1, 1 << 40),
            settings.pager_sabotage,
        ),
        pager,
        mix,
        regions,
        programs: Cell::new(PROGRAMS),
        handlers_started: Cell::new(false),
        most_mappings: simulation.random.one_in(4).then_some(8),
        is_in_group: simulation.random.one_in(3),
        has_file: config.write_back.is_some(),
    }));
    WORLD.set(world);
    let result = world.live(simulation, config);
    let home = pager.host.memory.range();
    // SAFETY: nobody uses the pager's memory any more: threads of a world that has failed do not go on. Where it lay the
    // next one with the same seed has its own.
    unsafe { rustix::mm::munmap(home.start as *mut _, home.len()) }
        .expect("the pager's own memory");
    if result.is_ok() {
        // SAFETY: nobody uses either any more; both were leaked above.
        unsafe {
            drop(Box::from_raw((&raw const *pager).cast_mut()));
            drop(Box::from_raw((&raw const *world).cast_mut()));
        }
    }
    WORLD.set(null());
    result
}

impl World {
    fn live(&'static self, simulation: &Simulation, config: Config) -> Result<(), String> {
        let pager = self.pager;
        for region in &self.regions {
            self.kernel.map(*region);
            if self.has_file {
                self.fill_some(*region);
            }
        }
        // SAFETY: no thread runs yet.
        unsafe {
            pager.configure(config);
            pager
                .host
                .memory
                .settle(STORAGE_BYTES)
                .expect("address space");
            pager.reserve_for(STORAGE_BYTES).expect("memory");
            pager.begin(Uffd::OWN, Map).expect("a userfaultfd");
            if let Some(file) = config.write_back {
                assert!(pager.tier.begin(file, &pager.host.memory), "memory");
            }
        }
        pager.host.hears_of_forks.store(random().one_in(2), Relaxed);
        // One more, for looking at what is remembered.
        assert!(pager.expect_handlers(HANDLERS + 1), "memory");
        pager.set_running();
        let mut threads: Vec<(&'static str, Body)> = Vec::new();
        for _ in 0..PROGRAMS {
            threads.push(("program", Box::new(|| self.program())));
        }
        for number in 0..HANDLERS {
            threads.push(("handler", until_over(move || self.handle(number))));
        }
        threads.push(("reclaim", until_over(move || self.reclaim())));
        simulation.run(threads)
    }

    /// Much content that compresses to half: there is something to write back.
    fn fill_some(&self, region: AddressRange) {
        for page in space::pages(region).filter(|_| random().below(4) > 0) {
            let mut content = Box::new([0; PAGE_SIZE]);
            crate::content::noise(random(), &mut content[..PAGE_SIZE / 2]);
            if let Some(expected) = self.kernel.expected(page) {
                expected.write(|to| *to = *content);
            }
            self.kernel.put(page, space::Content::Page(content));
        }
    }

    fn handle(&'static self, number: usize) {
        while !self.handlers_started.get() {
            block(STARTED, None);
            self.kernel.end_if_over();
        }
        handler::run(self.pager, number)
    }

    fn reclaim(&'static self) {
        // SAFETY: there is one.
        let reclaimer = unsafe { self.pager.workplace.reclaimer() };
        let meter = Measured::open().expect("always");
        reclaim::run(self.pager, reclaimer, meter, false)
    }

    /// Lets the handlers go.
    fn start_handlers(&self, pager: &Pager<SimOs>) -> bool {
        let ready = pager.expect_handlers(HANDLERS);
        for number in 0..HANDLERS {
            pager.duty.begins(number, Some(number as u32));
        }
        self.handlers_started.set(ready);
        wake(STARTED);
        ready
    }

    fn stored_frames(&self) -> u64 {
        self.pager.host.memory.backed_frames().into()
    }

    fn any_page(&self) -> usize {
        let region = random().pick(&self.regions);
        region.start + random().below((region.len() / PAGE_SIZE) as u64) as usize * PAGE_SIZE
    }

    fn is_in_bounds(&self, range: AddressRange) -> bool {
        let within = |r: &AddressRange| r.start <= range.start && range.end <= r.end;
        self.regions.iter().any(within)
    }

    /// Whether the pager has what is in a page.
    fn is_away(&self, page: usize) -> bool {
        self.pager
            .host
            .place_of(page)
            .is_some_and(|(segment, index)| {
                let entry = self.pager.engine.entry(segment, index);
                !matches!(entry, Entry::Empty | Entry::Page(_))
            })
    }

    /// A page to act on: often one that is in the middle of something.
    fn target(&self) -> usize {
        if random().one_in(3)
            && let Some(page) = self.kernel.some_page_in_change()
        {
            note(Kind::AimedChanging);
            return page;
        }
        for _ in 0..8 {
            let page = self.any_page();
            let Some((segment, index)) = self.pager.host.place_of(page) else {
                continue;
            };
            match self.pager.engine.entry(segment, index) {
                Entry::Temporary(_) => note(Kind::AimedStaged),
                Entry::Request(_) => note(Kind::AimedRestoring),
                Entry::Empty | Entry::Page(_) => continue,
                _ => {}
            }
            return page;
        }
        self.any_page()
    }

    /// A thread of the program has ended; the last one looks at everything.
    fn program_ends(&self) {
        self.programs.set(self.programs.get() - 1);
        if self.programs.get() == 0 {
            self.check_at_the_end();
            self.kernel.over.set(true);
            simulation().rouse(u64::MAX);
        }
    }
}

/// A thread of the pager: it goes on until the program has ended.
fn until_over(act: impl FnOnce() + 'static) -> Body {
    Box::new(move || {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(act))
            && !panic.is::<Over>()
        {
            resume_unwind(panic);
        }
    })
}
