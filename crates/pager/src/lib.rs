//! The Linux host of the engine: the pager that lives inside a program.
//!
//! It has no allocator, no libc and no standard library: nothing here *can* call the program's
//! malloc. Its memory is its own ([`memory`]), its threads are unknown to libc
//! ([`coldpress_linux::sys`]), its descriptors stand in a table of their own ([`life::start`]).
//!
//! The [`Pager`] is a value. The preload library has it in a static; whatever uses it is handed a reference, each
//! thread when it is made. A forked child finds it at the same address.
//!
//! Each room knows those above it in the table.
//!
//! | room | holds |
//! |---|---|
//! | [`machine`] | what the pager asks of the machine (`os`), and Linux as one (`linux`, `sys`, `maps`, `proc_stat`); locks and the gate (`futex`), how long they are held (`lock_trace`); this process's slot of the run file, messages; seccomp filters of the program (`filter`) |
//! | [`memory`] | address space that grows (`areas`); tables, stacks, staging (`own`); what is stored (`frames`) |
//! | [`settings`] | configuration, what of it may change while the program runs (`control`), between which amounts of memory a budget is kept (`watermarks`) |
//! | [`space`] | which memory is managed (`discovery`, `exclusions`, `not_inherited`), from an address to its segment (`windows`), how much is registered at once (`mapping_count`), what could not be told to be registered (`unproven`); the pager as [`coldpress_engine::Host`], and why there is a gate (`paging`); what threads work with (`workplace`); pages written back (`tier`) |
//! | [`report`] | figures, averages over time (`account`), a trace of decisions, a page in words (`describe`) |
//! | [`fork`] | stillness and journal (`protocol`), the child's own pager (`child`), content without one (`put_back`) |
//! | [`fault`] | fault handlers and which of them look (`handler`, `duty`, `deferred`), changes of the address space (`changes`), holding faults back (`back_pressure`), what the program's threads ask for (`requests`) |
//! | [`reclaim`] | measuring, budget, taking pages (`turns`); when fresh memory is made to pass through the handlers (`fence`), when waiting or reclaim is in vain (`hope`, `futility`), cold age, chaos, compaction, storing anew |
//! | [`life`] | starting (`start`, `dormant`), leaving a process that goes on (`leave`), the end of one whose threads leave one by one (`departure`), the watchdog |
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod fault;
pub mod fork;
pub mod life;
pub mod machine;
pub mod memory;
pub mod reclaim;
pub mod report;
pub mod settings;
pub mod space;

use coldpress_codec::press_dense::PressDense;
use coldpress_codec::{AnyCodec, CodecKind, SameFilled};
use coldpress_engine::Engine;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::{AnyStorage, StorageKind};
use coldpress_uffd::PAGE_SIZE;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use fault::deferred::DeferredFaults;
use fault::handler::HandlerState;
use life::start::Threads;
use lock_api::RawMutex;
use machine::linux::Linux;
use machine::os::{Os, SignalsBlocked};
use machine::ranked_lock::RankedLock;
use machine::ranks;
use settings::config::{Config, MAX_HANDLERS};
use space::paging::Space;

/// How often free frames are given back at a time, and with how many calls of the kernel each, some
/// microseconds long.
const RELEASE_STEPS: usize = 16;
const RELEASE_CALLS: usize = 8;

/// The codec: whichever was chosen.
pub type Codec = AnyCodec;
/// The denser one of what is stored anew.
pub(crate) type Dense = PressDense<'static>;
/// The storage: whichever was chosen.
pub type Storage = AnyStorage;
/// The engine as the pager runs it.
pub type PagerEngine<O = Linux> = Engine<Pager<O>, Codec, Storage>;

/// Everything there is one of in a process.
pub struct Pager<O: Os = Linux> {
    /// The machine.
    pub host: Space<O>,
    /// VMOs, queues, protocol.
    pub engine: PagerEngine<O>,
    /// Which memory there is.
    pub discovery: space::discovery::Discovery<O>,
    /// The fork protocol.
    pub fork: fork::protocol::Fork<O>,
    /// The handlers' published state.
    pub handlers: [HandlerState; MAX_HANDLERS],
    /// How many handlers there are.
    pub handler_count: AtomicUsize,
    /// Which of them look for faults.
    pub duty: fault::duty::Duty<O>,
    /// Faults to be answered later.
    pub deferred: DeferredFaults<O>,
    /// The pager's threads.
    pub threads: Threads,
    /// Whether it waits with starting.
    pub dormant: life::dormant::Dormant,
    /// Guards making new windows; outermost of the leaves: taken with the gate in any state.
    pub new_windows: lock_api::Mutex<RankedLock<{ ranks::NEW_WINDOWS }, O>, ()>,
    /// Held while memory is registered (tried only, never waited for), and by a thread of the
    /// program while it moves memory.
    pub registering: lock_api::Mutex<RankedLock<{ ranks::REGISTERING }, O>, ()>,
    /// Whether threads were woken of which one may populate what it has grown.
    pub populating: fault::populating::Populating,
    /// Whether it leaves the process.
    pub leaving: life::leave::Leaving,
    /// Wakes the reclaim thread: changes whenever there is something for it.
    pub bell: AtomicU32,
    request: fault::requests::Request<O>,
    /// How much memory there is, and whether reclaim keeps up.
    pub pressure: fault::back_pressure::Pressure,
    /// What the run comes to so far.
    pub account: report::account::Account,
    /// Delay of the next fault, for the watchdog's test.
    pub stall_first_fault_ms: AtomicU64,
    running: AtomicBool,
    /// It has been true, in this process or in one that it is a copy of.
    has_run: AtomicBool,
    /// Whether this is the process whose pager it is.
    pub presence: fork::unannounced::Presence,
    /// What of the configuration may change.
    pub control: settings::control::Control,
    config: UnsafeCell<Config>,
    /// What the threads work with.
    pub workplace: space::workplace::Workplace,
    /// What is written back.
    pub tier: space::tier::Tier<O>,
    filtered: AtomicBool,
    /// [`coldpress_uffd::madvise_outlasts_splits`], which is asked once: a filter may come.
    madvise_outlasts_splits: AtomicBool,
    /// A trace of what reclaim decided, and when.
    pub decisions: report::decision_trace::Trace,
    figures: report::statistics::Figures,
    private_page: machine::run_file::Private,
}

// SAFETY: the cells are written once, before any other thread exists (`configure`).
unsafe impl<O: Os> Sync for Pager<O> {}

impl<O: Os> Pager<O> {
    /// One that has not started. It is big: a process has it in a static.
    #[expect(
        clippy::new_without_default,
        reason = "too big to be made anywhere but in a static"
    )]
    pub const fn new() -> Self {
        Self {
            host: Space::new(),
            engine: Engine::new(AnyCodec::new(), AnyStorage::new(StorageKind::ThreeSlot)),
            discovery: space::discovery::Discovery::new(),
            fork: fork::protocol::Fork::new(),
            handlers: [const { HandlerState::new() }; MAX_HANDLERS],
            handler_count: AtomicUsize::new(0),
            duty: fault::duty::Duty::new(),
            deferred: DeferredFaults::new(),
            threads: Threads::new(),
            dormant: life::dormant::Dormant::new(),
            new_windows: lock_api::Mutex::const_new(RawMutex::INIT, ()),
            registering: lock_api::Mutex::const_new(RawMutex::INIT, ()),
            leaving: life::leave::Leaving::new(),
            populating: fault::populating::Populating::new(),
            bell: AtomicU32::new(0),
            request: fault::requests::Request::new(),
            pressure: fault::back_pressure::Pressure::new(),
            account: report::account::Account::new(),
            stall_first_fault_ms: AtomicU64::new(0),
            running: AtomicBool::new(false),
            has_run: AtomicBool::new(false),
            presence: fork::unannounced::Presence::new(),
            control: settings::control::Control::new(),
            config: UnsafeCell::new(Config {
                budget_bytes: u64::MAX,
                asked_budget_bytes: u64::MAX,
                cold_after_ms: 0,
                triggers: Triggers::ALL,
                codec: CodecKind::THOROUGH_LZ4,
                storage: StorageKind::ThreeSlot,
                recode_after_ms: None,
                tunables: settings::config::TUNABLES,
                unknown_name: None,
                device: None,
                write_back: None,
                root_pid: 0,
                first: false,
                follow: false,
                raw_clones: false,
                chaos: None,
                chaos_rest_ns: 0,
                stall_first_fault_ms: 0,
            }),
            workplace: space::workplace::Workplace::new(),
            tier: space::tier::Tier::new(),
            filtered: AtomicBool::new(false),
            madvise_outlasts_splits: AtomicBool::new(true),
            decisions: report::decision_trace::Trace::new(core::ptr::null_mut()),
            figures: report::statistics::Figures::new(),
            private_page: machine::run_file::Private::new(),
        }
    }

    /// Sets the configuration. Before [`start`](Self::start).
    ///
    /// # Safety
    /// The program has one thread, and the pager has not started.
    pub unsafe fn configure(&self, config: Config) {
        // SAFETY: as the caller promises.
        unsafe { *self.config.get() = config };
        self.control.begin_with(&config);
        // Nothing was compressed or stored yet, so both are free to choose.
        let same_filled = if config.tunables.same_filled {
            SameFilled::Detect
        } else {
            SameFilled::Compress
        };
        let _ = self.engine.codec().select(config.codec, same_filled);
        self.engine
            .with_storage_locked(|storage| storage.select(config.storage));
        let _ = self.engine.configure(&config.tunables);
        self.stall_first_fault_ms
            .store(config.stall_first_fault_ms, Relaxed);
    }

    /// The configuration, with what is in force now of that which may change.
    pub fn config(&self) -> Config {
        // SAFETY: not written once threads exist.
        let mut config = unsafe { *self.config.get() };
        self.control.overlay(&self.engine, &mut config);
        config
    }

    /// Whether the pager manages this process.
    pub fn is_running(&self) -> bool {
        self.running.load(Acquire) && self.presence.is_here()
    }

    /// Whether the pager manages this process, or that which this one is a copy of.
    pub fn was_running(&self) -> bool {
        self.running.load(Acquire)
    }

    /// Whether the pager has ever managed this process, or one that it is a copy of: mappings may be split as it has left
    /// them.
    pub fn has_run(&self) -> bool {
        self.has_run.load(Relaxed)
    }

    /// Whether it manages this process, or may soon: what the program says of its memory counts.
    pub fn is_expected(&self) -> bool {
        // In this order: the pager runs before waiting is over.
        (self.dormant.is_waiting() && self.presence.is_here()) || self.is_running()
    }

    /// Whether a thread of the program has installed a filter: what the pager does in the program's threads without need it
    /// does no longer.
    pub fn is_filtered(&self) -> bool {
        self.filtered.load(Relaxed)
    }

    /// From now on it manages this process.
    pub fn set_running(&self) {
        self.has_run.store(true, Relaxed);
        self.running.store(true, Release);
        machine::futex::check_signals(true);
    }

    fn stop(&self) {
        machine::futex::check_signals(false);
        self.running.store(false, Release);
    }

    /// Memory the pager holds besides tables and storage: stacks, staging, buffers.
    fn fixed_overhead_bytes(&self) -> u64 {
        let threads = self.threads.ids().count() * 3 * PAGE_SIZE;
        let staging = self.host.staged_pages.load(Relaxed) as usize * PAGE_SIZE;
        let tier = self.tier.memory_bytes();
        (threads + staging + tier) as u64 + self.workplace.backed_bytes()
    }

    /// Gives free frames back to the kernel where there are too many, a few at a time: compression and the end of a
    /// restore wait for the lock meanwhile.
    fn release_idle_frames(&self) {
        let memory = &self.host.memory;
        for _ in 0..RELEASE_STEPS {
            if !memory.has_too_many() || self.bell_rung() {
                break;
            }
            self.engine
                .with_storage_locked(|_| memory.release_idle(RELEASE_CALLS));
        }
    }

    /// Brings the statistics page up to date, at the end of the program.
    pub fn publish_finally(&self) {
        // A young child has counted nothing yet.
        // Nor is anything opened that a filter may forbid: the figures are as young as the reclaim thread's last round.
        if self.is_running() && self.control.has_page() && !self.is_filtered() {
            let _signals = SignalsBlocked::<O>::new();
            let measured = reclaim::turns::measure_once::<O>();
            self.publish(measured.unwrap_or(self.pressure.total_bytes.load(Relaxed)));
            self.publish_slow_figures();
            self.publish_windows();
            self.publish_cpu_time();
            self.write_lock_trace();
            self.finish_decisions();
        }
    }
}
