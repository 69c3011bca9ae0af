//! Starting the pager: in the program that `coldpress run` started, and in its forked children.
//!
//! ```text
//!  program's thread                pager's first thread            others
//!  memory, statistics
//!  start_thread ─────────────────▶ own descriptor table,
//!  wait …                          the program's copies closed
//!                                  userfaultfd, pagemap, maps
//!                                  (child: register again)
//!                                  handlers, watchdog ────────────▶ run
//!  … go on ◀──────────────────────  ready
//!                                  becomes the reclaim thread
//! ```

use crate::futex::{set_and_wake, wait_while};
use crate::handler::MAX_HANDLERS;
use crate::{
    Codec, dormant, fork, handler, message, pager, reclaim, statistics, sys, trace, watchdog,
};
use coldpress_engine::Reclaimer;
use coldpress_interface::PAGE_SIZE;
use coldpress_interface::page::Page;
use coldpress_uffd::{Errno, Features, Pagemap, Userfaultfd};
use core::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};
use rustix::fd::{BorrowedFd, OwnedFd};

/// Why the pager did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum StartError {
    /// No address space or memory for the pager.
    Memory = 2,
    /// No thread could be made.
    Thread = 3,
    /// No userfaultfd of the full tier.
    Userfaultfd = 4,
    /// `/proc` cannot be read, or `PAGEMAP_SCAN` is missing.
    Proc = 5,
}

impl StartError {
    /// What it means, and what to do.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Memory => {
                "no address space for the pager; lift the limit on it (ulimit -v unlimited)"
            }
            Self::Thread => "no thread could be made; lift the limit on them (ulimit -u)",
            Self::Userfaultfd => {
                "userfaultfd was refused inside the program; run `coldpress doctor` as the same user"
            }
            Self::Proc => "/proc/self cannot be read; mount /proc where the program runs",
        }
    }
}

/// The pager's threads.
pub struct Threads {
    ids: [AtomicU32; MAX_HANDLERS + 2],
    count: AtomicUsize,
    /// 0: starting, 1: ready, else a [`StartError`].
    ready: AtomicU32,
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl Threads {
    /// None.
    pub const fn new() -> Self {
        Self {
            ids: [const { AtomicU32::new(0) }; MAX_HANDLERS + 2],
            count: AtomicUsize::new(0),
            ready: AtomicU32::new(0),
        }
    }

    /// Called by each thread as it starts.
    pub fn started(&self) {
        let n = self.count.fetch_add(1, Relaxed);
        if let Some(id) = self.ids.get(n) {
            id.store(sys::thread_id(), Relaxed);
        }
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let count = self.count.load(Relaxed).min(self.ids.len());
        self.ids[..count].iter().map(|id| id.load(Relaxed))
    }

    /// There are none: in the child of a fork.
    pub fn reset(&self) {
        self.count.store(0, Relaxed);
        self.ready.store(0, Relaxed);
    }
}

/// Starts the pager in the program. The configuration and the directory are set.
pub fn start() -> Result<(), StartError> {
    settle()?;
    reserve()?;
    launch(0)
}

/// Starts the pager in the program, but not before it is worth it ([`dormant`]).
pub fn start_dormant() -> Result<(), StartError> {
    settle()?;
    dormant::begin()
}

fn settle() -> Result<(), StartError> {
    pager().host.exclusions.learn_layout();
    let settled = pager().host.memory.settle();
    settled.map_err(|_| StartError::Memory)
}

fn reserve() -> Result<(), StartError> {
    let pager = pager();
    let memory = memory_of_the_machine();
    pager
        .host
        .memory
        .reserve(memory)
        .map_err(|_| StartError::Memory)?;
    pager.fork.reserve().ok_or(StartError::Memory)?;
    let workplace = pager.workplace.reserve(&pager.host.memory);
    workplace.ok_or(StartError::Memory)
}

/// Starts the pager again in the child of a fork.
pub fn start_in_child() -> Result<(), StartError> {
    launch(1)
}

fn launch(is_child: usize) -> Result<(), StartError> {
    if is_child != 0 {
        trace::stop();
        crate::decisions::begin_in_child();
    }
    let pager = pager();
    let inherited = match is_child {
        0 => core::ptr::null_mut(),
        _ => pager.control.page_address(),
    };
    make_page(is_child as u64, inherited);
    let stack = pager.host.memory.stack().ok_or(StartError::Memory)?;
    // SAFETY: a stack that nobody else has.
    unsafe { sys::start_thread(stack, sys::Role::Reclaim, false, first_thread, is_child) }
        .map_err(|_| StartError::Thread)?;
    wait_while(&pager.threads.ready, 0);
    match pager.threads.ready.load(Acquire) {
        1 => {
            pager.set_running();
            Ok(())
        }
        2 => Err(StartError::Memory),
        3 => Err(StartError::Thread),
        4 => Err(StartError::Userfaultfd),
        _ => Err(StartError::Proc),
    }
}

/// Makes the statistics page, in the place of an inherited one or anywhere.
fn make_page(fork_child_mode: u64, inherited: *mut Page) {
    let pager = pager();
    // SAFETY: the pager that used it is not in this process, and a new one not yet.
    let page = unsafe { statistics::create(pager.statistics_directory(), inherited) };
    // SAFETY: a mapping that nobody unmaps.
    unsafe {
        pager.host.set_statistics(page.cast());
        pager.control.set_page(page);
    }
    let s = pager.host.statistics();
    statistics::publish_settings();
    s.fork_child_mode.store(fork_child_mode, Relaxed);
    statistics::name(&s.codec, pager.config().codec);
    statistics::name(&s.storage, pager.config().storage);
}

/// Starts the pager in a thread that has waited with it, and is the first.
pub(crate) fn start_here() -> ! {
    let pager = pager();
    make_page(0, core::ptr::null_mut());
    sys::set_thread_name(c"coldpress/main");
    pager.threads.started();
    match reserve().and_then(|()| open_all(false)) {
        Ok((reclaimer, statm, handlers_started)) => {
            pager.set_running();
            pager.dormant.end();
            reclaim::run(reclaimer, statm, handlers_started)
        }
        Err(error) => {
            statistics::remove(pager.statistics_directory());
            pager.dormant.end();
            if pager.config().root_pid == sys::process_id() {
                message::say(format_args!(
                    "the program goes on without compression: {}",
                    error.explain()
                ));
            }
            sys::exit_thread()
        }
    }
}

/// The device's descriptor, if the program has inherited it and has not closed it.
pub(crate) fn inherited_device() -> Option<i32> {
    const MISCELLANEOUS: u32 = 10;
    let fd = pager().config().device.filter(|&fd| fd >= 0)?;
    // SAFETY: whatever the number stands for now, it is only asked what it is.
    let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
    let device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
    (device && rustix::fs::major(stat.st_rdev) == MISCELLANEOUS).then_some(fd)
}

/// Closes all descriptors but that of the device, in a table of the calling thread's own: what the
/// program has open must not be kept open here.
pub(crate) fn close_descriptors(device: Option<i32>) {
    match device {
        Some(fd) => {
            if fd > 0 {
                sys::close_range(0, fd as u32 - 1);
            }
            sys::close_range(fd as u32 + 1, u32::MAX);
        }
        None => sys::close_range(0, u32::MAX),
    }
}

/// The pager's first thread: opens everything in a descriptor table of its own.
extern "C" fn first_thread(is_child: usize) -> ! {
    sys::set_thread_name(c"coldpress/main");
    let pager = pager();
    pager.threads.started();
    match open_all(is_child != 0) {
        Ok((reclaimer, statm, handlers_started)) => {
            set_and_wake(&pager.threads.ready, 1);
            reclaim::run(reclaimer, statm, handlers_started)
        }
        Err(error) => {
            set_and_wake(&pager.threads.ready, error as u32);
            sys::exit_thread()
        }
    }
}

fn open_all(is_child: bool) -> Result<(Reclaimer<Codec>, OwnedFd, bool), StartError> {
    let pager = pager();
    let device = pager.config().device.filter(|&fd| fd >= 0);
    close_descriptors(device);
    let uffd = open_userfaultfd(device).map_err(|_| StartError::Userfaultfd)?;
    if let Some(fd) = device {
        sys::close_range(fd as u32, fd as u32);
    }
    let pagemap = Pagemap::open().map_err(|_| StartError::Proc)?;
    let statm = reclaim::open_statm().ok_or(StartError::Proc)?;
    // SAFETY: the other pager threads do not exist yet, and the program waits.
    unsafe {
        pager.discovery.open().map_err(|_| StartError::Proc)?;
        uffd.register(pager.host.memory.staging())
            .map_err(|_| StartError::Userfaultfd)?;
        pager.host.uffd.set(uffd);
        pager.host.pagemap.set(pagemap);
    }
    pager.engine.prepare_for(&pager.host, 1024, 65_536);
    start_thread(sys::Role::Watchdog, watchdog::run, 0)?;
    let mut handlers_started = false;
    if is_child && pager.has_windows() {
        start_handlers();
        handlers_started = true;
        fork::register_again();
    }
    // SAFETY: this thread is the only reclaimer; its part of the workplace is its own.
    let reclaimer = unsafe { pager.workplace.reclaimer() };
    Ok((reclaimer, statm, handlers_started))
}

fn open_userfaultfd(device: Option<i32>) -> Result<Userfaultfd, Errno> {
    let through_device = |fd| {
        // SAFETY: the number came from the command that opened the device; whatever it is now,
        // it stays open during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Userfaultfd::from_device(fd)
    };
    let uffd = match device {
        Some(fd) => through_device(fd).or_else(|_| Userfaultfd::from_system_call(false))?,
        None => Userfaultfd::from_system_call(false)?,
    };
    uffd.handshake(Features::PAGER)?;
    Ok(uffd)
}

fn start_thread(
    role: sys::Role,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> Result<u32, StartError> {
    let stack = pager().host.memory.stack().ok_or(StartError::Memory)?;
    // SAFETY: a stack that nobody else has.
    unsafe { sys::start_thread(stack, role, true, entry, argument) }.map_err(|_| StartError::Thread)
}

/// Starts one handler for each processor that the process may use. Called by a pager thread,
/// whose descriptor table they share, before the first page is taken out.
pub fn start_handlers() {
    let allowed = rustix::thread::sched_getaffinity(None);
    let mut number = 0;
    for cpu in 0..rustix::thread::CpuSet::MAX_CPU {
        let usable = allowed.as_ref().map_or(cpu == 0, |set| set.is_set(cpu));
        if usable && number < MAX_HANDLERS {
            if !pager().workplace.has_room_for(number + 1) {
                break;
            }
            match start_thread(sys::Role::Handler, handler::run, number << 16 | cpu) {
                Ok(_) => number += 1,
                Err(_) => break,
            }
        }
    }
    if number == 0 {
        message::say(format_args!(
            "no thread could be made to answer faults; the process ends before memory is touched \
             that nobody would bring back (raise its limit: ulimit -u)"
        ));
        sys::exit_process(125);
    }
    pager().handler_count.store(number, Relaxed);
}

/// Memory of the machine in bytes: the bound for storage.
fn memory_of_the_machine() -> usize {
    use core::mem::MaybeUninit;
    use linux_raw_sys::general::__NR_sysinfo;
    let mut info = [MaybeUninit::<u64>::uninit(); 16];
    // SAFETY: the structure is 112 bytes; totalram is its fifth word, mem_unit a 32-bit word at
    // byte 104.
    unsafe {
        let result = sys::syscall(__NR_sysinfo, [info.as_mut_ptr() as usize, 0, 0, 0, 0, 0]);
        if result != 0 {
            return 4 << 30;
        }
        let unit = info[13].assume_init() as u32 as usize;
        (info[4].assume_init() as usize * unit.max(1)).next_multiple_of(64 * PAGE_SIZE)
    }
}
