//! The Linux host of the engine: the pager that lives inside a program.
//!
//! It has no allocator, no libc and no standard library: nothing here *can* call the program's
//! malloc. Its memory is its own ([`memory`]), its threads are unknown to libc
//! ([`sys`]), its descriptors stand in a table of their own ([`start`]).
//!
//! The [`Pager`] is a value. The preload library has it in a static; whatever uses it is handed a reference, each
//! thread when it is made. A forked child finds it at the same address.
//!
//! | file | concept |
//! |---|---|
//! | `os`, `linux` | what the pager asks of the machine; the machine that it runs on |
//! | `host` | the pager as [`coldpress_engine::Host`]; why there is a gate, and why the pager is the host |
//! | `handler` | fault handlers, events |
//! | `reclaim`, `pressure` | measuring, budget, taking pages, holding faults back |
//! | `watermarks` | between which amounts of memory a budget is kept |
//! | `fence`, `hope`, `futility` | when fresh memory is made to pass through the handlers; when waiting is in vain, and reclaim |
//! | `account` | averages over time, time above the budget |
//! | `chaos` | taking pages at random |
//! | `compaction` | when storage is compacted |
//! | `recode` | when what stays compressed is stored anew, denser |
//! | `discovery`, `maps`, `exclusions` | which memory is managed, and which never |
//! | `mapping_count` | how much of a mapping is registered at once |
//! | `windows` | from an address to its segment |
//! | `fork`, `fork_child`, `not_inherited` | stillness, journal; the child's own pager; what the program keeps from it |
//! | `put_back` | content without a pager, in children that cannot have one |
//! | `requests` | what the program's threads ask of the pager's |
//! | `control` | what may be changed while the program runs |
//! | `trace` | how long locks are waited for and held |
//! | `decisions` | a trace of what reclaim decided when |
//! | `leave` | leaving a process, which goes on unmanaged |
//! | `filter` | seccomp filters of the program |
//! | `departure` | the end of a program whose threads leave one by one |
//! | `dormant` | waiting before starting, in children that are followed |
//! | `run_file` | this process's slot, and where its messages go |
//! | `start`, `config`, `statistics`, `watchdog`, `message`, `text` | as named |
//! | `workplace` | what its threads work with |
//! | `describe` | what is known of a page, in words |
//! | `areas`, `memory`, `frames`, `frame_counts` | address space that grows; tables, stacks, staging; what is stored |
//! | `futex`, `late`, `sys` | the ground all stand on |
#![no_std]
#![deny(missing_docs)]

pub mod account;
mod areas;
mod chaos;
mod cold_age;
mod compaction;
pub mod config;
pub mod control;
pub mod decisions;
pub mod departure;
pub mod describe;
pub mod discovery;
pub mod dormant;
pub mod duty;
pub mod exclusions;
mod fence;
pub mod filter;
pub mod fork;
mod fork_child;
mod frame_counts;
mod frames;
pub mod futex;
mod futility;
pub mod handler;
mod hope;
pub mod host;
pub mod late;
pub mod leave;
pub mod linux;
mod mapping_count;
pub mod maps;
pub mod memory;
pub mod message;
pub mod not_inherited;
pub mod os;
pub mod pressure;
mod put_back;
pub mod reclaim;
mod recode;
pub mod requests;
pub mod run_file;
mod shortage;
mod squeeze;
pub mod start;
pub mod statistics;
pub mod sys;
pub mod text;
pub mod trace;
pub mod watchdog;
mod watermarks;
pub mod windows;
pub mod workplace;

use coldpress_codec::press_dense::PressDense;
use coldpress_codec::{AnyCodec, CodecKind};
use coldpress_engine::Engine;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::{AnyStorage, StorageKind};
use coldpress_uffd::PAGE_SIZE;
use config::Config;
use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use futex::FutexLock;
use handler::{DeferredFaults, HandlerState, MAX_HANDLERS};
use host::Space;
use linux::Linux;
use lock_api::RawMutex;
use os::{Os, SignalsBlocked};
use start::Threads;

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
    pub discovery: discovery::Discovery<O>,
    /// The fork protocol.
    pub fork: fork::Fork<O>,
    /// The handlers' published state.
    pub handlers: [HandlerState; MAX_HANDLERS],
    /// How many handlers there are.
    pub handler_count: AtomicUsize,
    /// Which of them look for faults.
    pub duty: duty::Duty<O>,
    /// Faults to be answered later.
    pub deferred: DeferredFaults<O>,
    /// The pager's threads.
    pub threads: Threads,
    /// Whether it waits with starting.
    pub dormant: dormant::Dormant,
    /// Guards making new windows; outermost of the leaves: taken with the gate in any state.
    pub new_windows: lock_api::Mutex<FutexLock<O>, ()>,
    /// Held while memory is registered (tried only, never waited for), and by a thread of the
    /// program while it moves memory.
    pub registering: lock_api::Mutex<FutexLock<O>, ()>,
    /// Whether it leaves the process.
    pub leaving: leave::Leaving,
    /// Wakes the reclaim thread: changes whenever there is something for it.
    pub bell: AtomicU32,
    request: requests::Request<O>,
    /// How much memory there is, and whether reclaim keeps up.
    pub pressure: pressure::Pressure,
    /// What the run comes to so far.
    pub account: account::Account,
    /// Delay of the next fault, for the watchdog's test.
    pub stall_first_fault_ms: AtomicU64,
    running: AtomicBool,
    /// What of the configuration may change.
    pub control: control::Control,
    config: UnsafeCell<Config>,
    /// What the threads work with.
    pub workplace: workplace::Workplace,
    touch_before_fork: AtomicPtr<()>,
    /// A trace of what reclaim decided when.
    pub decisions: decisions::Trace,
    figures: statistics::Figures,
    private_page: run_file::Private,
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
            discovery: discovery::Discovery::new(),
            fork: fork::Fork::new(),
            handlers: [const { HandlerState::new() }; MAX_HANDLERS],
            handler_count: AtomicUsize::new(0),
            duty: duty::Duty::new(),
            deferred: DeferredFaults::new(),
            threads: Threads::new(),
            dormant: dormant::Dormant::new(),
            new_windows: lock_api::Mutex::const_new(FutexLock::INIT, ()),
            registering: lock_api::Mutex::const_new(FutexLock::INIT, ()),
            leaving: leave::Leaving::new(),
            bell: AtomicU32::new(0),
            request: requests::Request::new(),
            pressure: pressure::Pressure::new(),
            account: account::Account::new(),
            stall_first_fault_ms: AtomicU64::new(0),
            running: AtomicBool::new(false),
            control: control::Control::new(),
            config: UnsafeCell::new(Config {
                budget_bytes: u64::MAX,
                cold_after_ms: 0,
                triggers: Triggers::ALL,
                codec: CodecKind::THOROUGH_LZ4,
                storage: StorageKind::ThreeSlot,
                recode_after_ms: None,
                tunables: config::TUNABLES,
                unknown_name: None,
                device: None,
                root_pid: 0,
                first: false,
                follow: false,
                chaos: None,
                chaos_rest_ns: 0,
                stall_first_fault_ms: 0,
            }),
            workplace: workplace::Workplace::new(),
            touch_before_fork: AtomicPtr::new(core::ptr::null_mut()),
            decisions: decisions::Trace::new(core::ptr::null_mut()),
            figures: statistics::Figures::new(),
            private_page: run_file::Private::new(),
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
        let same_filled = config.tunables.same_filled;
        let _ = self.engine.codec().select(config.codec, same_filled);
        self.engine
            .with_storage_locked(|storage| storage.select(config.storage));
        let _ = self.engine.configure(&config.tunables);
        self.stall_first_fault_ms
            .store(config.stall_first_fault_ms, Relaxed);
    }

    /// Sets what is to be touched in a multi-threaded program before it forks (see [`fork`]).
    pub fn set_touch_before_fork(&self, touch: fn()) {
        self.touch_before_fork.store(touch as *mut (), Relaxed);
    }

    /// # Safety
    /// Only [`set_touch_before_fork`](Self::set_touch_before_fork) has set the pointer.
    unsafe fn touch_before_fork(&self) -> Option<fn()> {
        let touch = self.touch_before_fork.load(Relaxed);
        // SAFETY: null, or a function of that type.
        (!touch.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), fn()>(touch) })
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
        self.running.load(Acquire)
    }

    /// Whether it manages this process, or may soon: what the program says of its memory counts.
    pub fn is_expected(&self) -> bool {
        // In this order: the pager runs before waiting is over.
        self.dormant.is_waiting() || self.is_running()
    }

    /// From now on it manages this process.
    pub fn set_running(&self) {
        self.running.store(true, Release);
        futex::check_signals(true);
    }

    fn stop(&self) {
        futex::check_signals(false);
        self.running.store(false, Release);
    }

    /// Memory the pager holds besides tables and storage: stacks, staging, buffers.
    fn fixed_overhead_bytes(&self) -> u64 {
        let threads = self.threads.ids().count() * 3 * PAGE_SIZE;
        let staging = self.host.staged_pages.load(Relaxed) as usize * PAGE_SIZE;
        (threads + staging) as u64 + self.workplace.backed_bytes()
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
        if self.is_running() && self.control.has_page() {
            let _signals = SignalsBlocked::<O>::new();
            let measured = reclaim::measure_once::<O>();
            self.publish(measured.unwrap_or(self.pressure.total_bytes.load(Relaxed)));
            self.publish_slow_figures();
            self.publish_windows();
            self.publish_cpu_time();
            self.write_lock_trace();
            self.finish_decisions();
        }
    }
}
