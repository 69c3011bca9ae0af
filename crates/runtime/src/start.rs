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

use crate::futex::{set_and_wake, wait_for};
use crate::handler::MAX_HANDLERS;
use crate::{
    Codec, dormant, fork, handler, message, pager, reclaim, run_file, statistics, sys, trace,
    watchdog,
};
use coldpress_engine::Reclaimer;
use coldpress_interface::PAGE_SIZE;
use coldpress_uffd::{Errno, Features, Pagemap, Userfaultfd};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};

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

/// Says that what this process has become, or what was asked for in the first place but may wait, goes on
/// without a pager, and why.
pub fn say_unmanaged(error: StartError) {
    let name = sys::process_name();
    let name = printable(&name);
    let user = rustix::process::geteuid().as_raw();
    match error {
        StartError::Userfaultfd => message::say(format_args!(
            "{name} is not managed: it was started as user {user}, who may not use userfaultfd; it runs as without \
             Coldpress (to manage it, hand the device down: coldpress run … 9</dev/userfaultfd)"
        )),
        _ => say_unmanaged_because(error.explain()),
    }
}

/// The same, for any reason.
pub fn say_unmanaged_because(why: &str) {
    let name = sys::process_name();
    message::say(format_args!(
        "{} is not managed: {why}; it runs as without Coldpress",
        printable(&name)
    ));
}

fn printable(name: &[u8]) -> &str {
    let end = name.iter().position(|&byte| byte < b' ');
    core::str::from_utf8(&name[..end.unwrap_or(name.len())]).unwrap_or("the program")
}

/// The pager's threads.
pub struct Threads {
    ids: [AtomicU32; MAX_HANDLERS + 2],
    count: AtomicUsize,
    /// There is a watchdog.
    watched: AtomicBool,
    /// The first handler.
    handler: AtomicU32,
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
            watched: AtomicBool::new(false),
            handler: AtomicU32::new(0),
            ready: AtomicU32::new(0),
        }
    }

    /// Takes one down. By its maker: it may take its time to run at all, and is the pager's from its first moment.
    pub(crate) fn add(&self, thread: u32) {
        let n = self.count.load(Relaxed);
        if let Some(id) = self.ids.get(n) {
            id.store(thread, Relaxed);
        }
        self.count.store(n + 1, Release);
    }

    /// Their numbers.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        let count = self.count.load(Acquire).min(self.ids.len());
        self.ids[..count].iter().map(|id| id.load(Relaxed))
    }

    /// There are none: in the child of a fork.
    pub fn reset(&self) {
        self.count.store(0, Relaxed);
        self.watched.store(false, Relaxed);
        self.ready.store(0, Relaxed);
    }
}

/// How often a program that waits for its pager looks whether the pager's first thread is still there.
const STILL_THERE_NS: u64 = 100_000_000;

/// Starts the pager in the program. The configuration and the directory are set.
pub fn start() -> Result<(), StartError> {
    settle()?;
    reserve()?;
    launch(Start::First)
}

/// How the pager starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// In a program.
    First,
    /// In the child of a fork.
    Child,
    /// Where it had left, with a userfaultfd that was opened before.
    Again(i32),
}

impl Start {
    fn to_number(self) -> usize {
        match self {
            Self::First => 0,
            Self::Child => 1,
            Self::Again(fd) => 2 + fd as usize,
        }
    }

    fn from_number(number: usize) -> Self {
        match number {
            0 => Self::First,
            1 => Self::Child,
            fd => Self::Again(fd as i32 - 2),
        }
    }
}

/// A userfaultfd for a pager that leaves and wants to come back when it may not open one any more. In the table of
/// the calling thread, one of the program's.
pub(crate) fn open_ahead() -> Option<Userfaultfd> {
    open_userfaultfd(inherited_device()).ok()
}

/// Starts the pager again in a process that it has left a moment ago.
pub(crate) fn start_again(uffd: Userfaultfd) -> Result<(), StartError> {
    use rustix::fd::{AsFd, AsRawFd};
    let pager = pager();
    pager.threads.reset();
    pager.host.memory.reset_stacks();
    // SAFETY: the pager has no threads, and the program's are in no wrapper but this one's.
    unsafe { pager.deferred.reset() };
    pager.pressure.waiting.store(0, Relaxed);
    pager.fork.pause.store(0, Relaxed);
    pager.fork.paused.store(0, Relaxed);
    launch(Start::Again(uffd.as_fd().as_raw_fd()))
}

/// Starts the pager in the program, but not before it is worth it ([`dormant`]).
pub fn start_dormant() -> Result<(), StartError> {
    settle()?;
    dormant::begin()
}

fn settle() -> Result<(), StartError> {
    pager().host.exclusions.learn_layout();
    let settled = pager().host.memory.settle(memory_of_the_machine());
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
    launch(Start::Child)
}

/// In the child of a fork: traces and counters are the parent's.
pub(crate) fn forget_parent() {
    trace::stop();
    statistics::begin_in_child();
    crate::decisions::begin_in_child();
}

fn launch(start: Start) -> Result<(), StartError> {
    let pager = pager();
    match start {
        Start::First => make_page(0),
        Start::Child => forget_parent(),
        Start::Again(_) => {}
    }
    let stack = pager.host.memory.stack().ok_or(StartError::Memory)?;
    // SAFETY: a stack that nobody else has.
    let thread = unsafe {
        sys::start_thread(
            stack,
            sys::Role::Reclaim,
            false,
            first_thread,
            start.to_number(),
        )
        .map_err(|_| StartError::Thread)?
    };
    while pager.threads.ready.load(Acquire) == 0 {
        wait_for(&pager.threads.ready, 0, STILL_THERE_NS);
        // A filter of system calls may have ended it.
        if pager.threads.ready.load(Acquire) == 0 && !sys::is_thread(thread) {
            return Err(StartError::Thread);
        }
    }
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

/// Makes the statistics page.
fn make_page(fork_child_mode: u64) {
    let pager = pager();
    // SAFETY: the pager that used an inherited one is not in this process, and a new one not yet.
    let page = unsafe { statistics::create() };
    // SAFETY: a mapping that nobody unmaps.
    unsafe {
        pager.host.set_statistics(page.cast());
        pager.control.set_page(page);
    }
    pager.account.begin();
    for handler in &pager.handlers {
        handler.forget_waits();
    }
    let s = pager.host.statistics();
    statistics::publish_settings();
    s.fork_child_mode.store(fork_child_mode, Relaxed);
    statistics::name(&s.codec, pager.config().codec);
    statistics::name(&s.storage, pager.config().storage);
}

/// Starts the pager in a thread that has waited with it, and is the first.
pub(crate) fn start_here(is_forked: bool) -> ! {
    let pager = pager();
    make_page(is_forked.into());
    sys::set_thread_name(c"coldpress/main");
    pager.threads.add(sys::thread_id());
    match reserve().and_then(|()| open_all(Start::First)) {
        Ok((reclaimer, statm, handlers_started)) => {
            pager.set_running();
            pager.dormant.end();
            reclaim::run(reclaimer, statm, handlers_started)
        }
        Err(error) => {
            run_file::release(pager.control.page_address());
            pager.dormant.end();
            if pager.config().root_pid == sys::process_id() {
                say_unmanaged(error);
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
extern "C" fn first_thread(start: usize) -> ! {
    sys::set_thread_name(c"coldpress/main");
    let pager = pager();
    pager.threads.add(sys::thread_id());
    let start = Start::from_number(start);
    if start == Start::Child {
        live_young()
    }
    match open_all(start) {
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

/// The first thread in the child of a fork where pages are away. Most children end soon, and all that a process has
/// opened of `/proc` costs when it has ended: so there is one handler at first, and no more than it needs. A child that lives
/// gets the rest.
fn live_young() -> ! {
    let pager = pager();
    if let Err(error) = open_young() {
        set_and_wake(&pager.threads.ready, error as u32);
        sys::exit_thread();
    }
    set_and_wake(&pager.threads.ready, 1);
    // SAFETY: this thread is the only reclaimer; its part of the workplace is its own.
    let mut reclaimer = unsafe { pager.workplace.reclaimer() };
    reclaim::stay_young(&mut reclaimer);
    loop {
        match grow_up() {
            Ok(statm) => reclaim::run(reclaimer, statm, true),
            // It has lost the right to that meanwhile, and goes on without.
            Err(_) if crate::leave::leave(reclaimer.worker()) => pager.leaving.thread_goes(),
            Err(_) => reclaim::stay_young(&mut reclaimer),
        }
    }
}

fn open_young() -> Result<(), StartError> {
    let pager = pager();
    stay_out_of_the_way();
    let device = inherited_device();
    close_descriptors(device);
    let uffd = open_userfaultfd(device).map_err(|_| StartError::Userfaultfd)?;
    if let Some(fd) = device {
        sys::close_range(fd as u32, fd as u32);
    }
    pager.handler_count.store(0, Relaxed);
    // SAFETY: this is the first thread of the pager, the others do not exist yet, and the program waits.
    unsafe {
        pager.leaving.reset();
        uffd.register(pager.host.memory.staging())
            .map_err(|_| StartError::Userfaultfd)?;
        pager.host.uffd.set(uffd);
    }
    // Nothing of the program's is registered yet: without a handler it goes on without a pager.
    if !start_handlers(1) {
        return Err(StartError::Thread);
    }
    fork::register_again();
    pager.fork.inherited.store(true, Relaxed);
    Ok(())
}

/// Opens the rest, and starts the other threads.
fn grow_up() -> Result<OwnedFd, StartError> {
    let pager = pager();
    let pagemap = Pagemap::open().map_err(|_| StartError::Proc)?;
    let statm = reclaim::open_statm().ok_or(StartError::Proc)?;
    // SAFETY: only this thread uses `discovery`; nobody has found the page map yet.
    unsafe {
        pager.discovery.open().map_err(|_| StartError::Proc)?;
        pager.host.pagemap.set(pagemap);
    }
    make_page(1);
    pager.engine.prepare_for(&pager.host, 1024, 65_536);
    // What is registered has a handler: the others, and the watchdog, are missed where they cannot be made.
    start_handlers(MAX_HANDLERS);
    watch();
    reclaim::take_turns();
    Ok(statm)
}

/// Starts the watchdog, if there is none. `false`: it cannot be made.
pub(crate) fn watch() -> bool {
    let watched = &pager().threads.watched;
    if !watched.load(Relaxed) {
        // A new thread has its maker's name.
        sys::set_thread_name(c"coldpress/watch");
        let started = start_thread(sys::Role::Watchdog, watchdog::run, 0);
        sys::set_thread_name(c"coldpress/main");
        watched.store(started.is_ok(), Relaxed);
    }
    watched.load(Relaxed)
}

fn open_all(start: Start) -> Result<(Reclaimer<Codec>, OwnedFd, bool), StartError> {
    let pager = pager();
    stay_out_of_the_way();
    let uffd = if let Start::Again(fd) = start {
        close_descriptors(Some(fd));
        // SAFETY: a userfaultfd, opened for this pager, in a table that is this thread's own.
        Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(fd) })
    } else {
        let device = inherited_device();
        close_descriptors(device);
        let uffd = open_userfaultfd(device).map_err(|_| StartError::Userfaultfd)?;
        if let Some(fd) = device {
            sys::close_range(fd as u32, fd as u32);
        }
        uffd
    };
    pager.handler_count.store(0, Relaxed);
    // SAFETY: this is the first thread of the pager.
    unsafe { pager.leaving.reset() };
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
    // Where there is none, none is registered until one can be made (`reclaim`).
    let handlers_started = start_handlers(MAX_HANDLERS);
    if !watch() {
        return Err(StartError::Thread);
    }
    reclaim::take_turns();
    // SAFETY: this thread is the only reclaimer; its part of the workplace is its own.
    let reclaimer = unsafe { pager.workplace.reclaimer() };
    Ok((reclaimer, statm, handlers_started))
}

/// The calling thread has a working directory of its own, so that the program may enter another mount namespace: not
/// one that somebody wants to unmount.
pub(crate) fn stay_out_of_the_way() {
    let _ = rustix::process::chdir(c"/");
}

fn open_userfaultfd(device: Option<i32>) -> Result<Userfaultfd, Errno> {
    let through_device = |fd| {
        // SAFETY: the number came from the command that opened the device; whatever it is now,
        // it stays open during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Userfaultfd::from_device(fd)
    };
    // A node that this user may open is as good as one that was handed down.
    let through_node = || {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let node = rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty())?;
        Userfaultfd::from_device(rustix::fd::AsFd::as_fd(&node))
    };
    let inherited = device.ok_or(Errno::BADF).and_then(through_device);
    let uffd = inherited
        .or_else(|_| Userfaultfd::from_system_call(false))
        .or_else(|errno| through_node().map_err(|_| errno))?;
    uffd.handshake(Features::PAGER)?;
    Ok(uffd)
}

fn start_thread(
    role: sys::Role,
    entry: extern "C" fn(usize) -> !,
    argument: usize,
) -> Result<u32, StartError> {
    let memory = &pager().host.memory;
    let stack = memory.stack().ok_or(StartError::Memory)?;
    // SAFETY: a stack that nobody else has.
    let started = unsafe { sys::start_thread(stack, role, true, entry, argument) };
    let thread = started.map_err(|_| {
        memory.take_back_stack();
        StartError::Thread
    })?;
    pager().threads.add(thread);
    Ok(thread)
}

/// Starts one handler for each processor that the process may use, or `most` of them; one of them may be there. Called by
/// a pager thread, whose descriptor table they share, before the first page is taken out. `false`: there is none, since no
/// thread could be made, and nothing may be registered.
pub fn start_handlers(most: usize) -> bool {
    let pager = pager();
    let allowed = rustix::thread::sched_getaffinity(None);
    // A new thread has its maker's name.
    sys::set_thread_name(c"coldpress/fault");
    let there = pager.handler_count.load(Relaxed);
    let mut number = 0;
    for cpu in 0..rustix::thread::CpuSet::MAX_CPU {
        let usable = allowed.as_ref().map_or(cpu == 0, |set| set.is_set(cpu));
        if !usable || number >= most.min(MAX_HANDLERS) {
            continue;
        }
        if !pager.workplace.has_room_for(number + 1) {
            break;
        }
        let thread = match number {
            0 if there > 0 => Ok(pager.threads.handler.load(Relaxed)),
            number => start_thread(sys::Role::Handler, handler::run, number),
        };
        let Ok(thread) = thread else { break };
        if number == 0 {
            pager.threads.handler.store(thread, Relaxed);
        }
        // A handler that is alone is wherever it is wanted.
        if most > 1 {
            sys::pin(thread, cpu);
        }
        number += 1;
    }
    sys::set_thread_name(c"coldpress/main");
    pager.handler_count.store(number, Relaxed);
    number > 0
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
