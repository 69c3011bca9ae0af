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

use crate::fault::handler;
use crate::fork::child::register_once_free;
use crate::life::watchdog;
use crate::machine::fault_trace;
use crate::machine::futex::{set_and_wake, wait_for};
use crate::machine::linux::{DESCRIPTORS, Linux, Statm};
use crate::machine::lock_trace as trace;
use crate::machine::message;
use crate::machine::os::{MemoryGroups, Meter, Os, Userfaults};
use crate::machine::run_file;
use crate::machine::together::{Call, disperse};
use crate::machine::visit;
use crate::reclaim::turns as reclaim;
use crate::report::statistics;
use crate::settings::config::{MAX_HANDLERS, WriteBackFile};
use crate::{Codec, Pager};
use coldpress_engine::Reclaimer;
use coldpress_interface::PAGE_SIZE;
use coldpress_linux::proc_stat;
use coldpress_linux::sys::{self, Processors};
use coldpress_uffd::{Errno, Features, Pagemap, Tier, Userfaultfd};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::process::{Resource, getrlimit};

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
    /// A tracer follows the process's threads.
    Traced = 6,
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
            Self::Traced => {
                "its threads are traced (strace -f, gdb), and a tracer that reads compressed memory would wait for the \
                 pager's threads, which it has stopped"
            }
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

impl<O: Os> Pager<O> {
    /// Maps what it needs to begin with. Storage may become as large as `storage_bytes`.
    ///
    /// # Errors
    /// There is no address space, or no memory.
    pub fn reserve_for(&self, storage_bytes: usize) -> Result<(), StartError> {
        let memory = &self.host.memory;
        let reserved = memory.reserve(storage_bytes);
        reserved.map_err(|_| StartError::Memory)?;
        self.fork.reserve(memory).ok_or(StartError::Memory)?;
        let workplace = self.workplace.reserve(memory);
        workplace.ok_or(StartError::Memory)
    }

    /// Has it all but its threads: they may be started, and then the program managed.
    ///
    /// # Safety
    /// No thread of the pager but the calling one exists, and the program waits.
    ///
    /// # Errors
    /// What could not be opened or registered.
    pub unsafe fn begin(
        &self,
        mut uffd: O::Userfaultfd,
        pagemap: O::Pagemap,
    ) -> Result<(), StartError> {
        self.handler_count.store(0, Relaxed);
        self.duty.reset();
        // SAFETY: as the caller promises.
        unsafe {
            self.discovery.open().map_err(|_| StartError::Proc)?;
            self.open_groups();
            // Tried only: as long as nothing of the program's is registered no fork need be told of.
            let staging = self.host.memory.staging();
            register_once_free::<O>(&uffd, staging).map_err(|_| StartError::Userfaultfd)?;
            uffd.check_witness(staging);
            let ended = uffd.unregister(staging);
            ended.map_err(|_| StartError::Userfaultfd)?;
            self.host.staging_is_registered.store(false, Relaxed);
            self.host.uffd.set(uffd);
            self.host.pagemap.set(pagemap);
        }
        self.engine.prepare_for(self, 1024, 65_536);
        Ok(())
    }

    /// Opens the memory groups, if there are any.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    unsafe fn open_groups(&self) {
        if let Some(groups) = O::MemoryGroups::open() {
            // SAFETY: as the caller promises.
            unsafe { self.host.groups.set(groups) };
        }
    }

    /// There is memory for so many handlers, which are about to run. `false`: there is not.
    pub fn expect_handlers(&self, count: usize) -> bool {
        let there = self.workplace.has_room_for(count, &self.host.memory);
        self.handler_count
            .store(if there { count } else { 0 }, Relaxed);
        there
    }
}

impl Pager {
    /// Starts the pager in the program. The configuration and the directory are set.
    pub fn start(&'static self) -> Result<(), StartError> {
        self.settle()?;
        self.reserve()?;
        self.launch(Start::First)
    }
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

impl Pager {
    /// A userfaultfd for a pager that leaves and wants to come back when it may not open one any more. In the table of
    /// the calling thread, one of the program's.
    pub(crate) fn open_ahead(&self) -> Option<Userfaultfd> {
        self.open_userfaultfd(self.inherited_device()).ok()
    }

    /// Starts the pager again in a process that it has left a moment ago.
    pub(crate) fn start_again(&'static self, uffd: Userfaultfd) -> Result<(), StartError> {
        use rustix::fd::{AsFd, AsRawFd};
        self.threads.reset();
        self.host.memory.reset_stacks();
        // SAFETY: the pager has no threads, and the program's are in no wrapper but this one's.
        unsafe { self.deferred.reset() };
        self.pressure.waiting.store(0, Relaxed);
        self.fork.pause.store(0, Relaxed);
        self.fork.paused.store(0, Relaxed);
        self.launch(Start::Again(uffd.as_fd().as_raw_fd()))?;
        self.host.statistics().pager_left.store(0, Relaxed);
        Ok(())
    }

    /// Starts the pager in the program, but not before it is worth it ([`dormant`](crate::life::dormant)).
    pub fn start_dormant(&'static self) -> Result<(), StartError> {
        if !self.may_have_a_userfaultfd() {
            return Err(StartError::Userfaultfd);
        }
        self.settle()?;
        self.begin_to_wait()
    }

    /// Whether it is worth waiting. A thread that waits in vain is seen by sandboxes, which want a process of one
    /// thread. The call is not tried under a filter, which may kill at it.
    fn may_have_a_userfaultfd(&self) -> bool {
        self.inherited_device().is_some()
            || open_node().is_ok()
            || proc_stat::is_filtered()
            || Userfaultfd::from_system_call(Tier::Full).is_ok()
    }

    fn settle(&self) -> Result<(), StartError> {
        self.host.exclusions.learn_layout();
        let outlasts = coldpress_uffd::madvise_outlasts_splits();
        self.madvise_outlasts_splits.store(outlasts, Relaxed);
        let settled = self.host.memory.settle(memory_of_the_machine());
        trace::set_own(self.host.memory.range());
        settled.map_err(|_| StartError::Memory)
    }

    fn reserve(&self) -> Result<(), StartError> {
        self.reserve_for(memory_of_the_machine())?;
        if self.config().raw_clones
            && let Some(word) = self.workplace.page_that_is_wiped()
        {
            // SAFETY: in the pager's own memory, which stays.
            unsafe { self.presence.begin(word.as_ptr()) };
        }
        Ok(())
    }

    /// Starts the pager again in the child of a fork.
    pub fn start_in_child(&'static self) -> Result<(), StartError> {
        self.launch(Start::Child)
    }

    /// In the child of a fork: traces and counters are the parent's.
    pub(crate) fn forget_parent(&self) {
        trace::stop();
        fault_trace::stop();
        self.begin_figures_in_child();
        self.decisions.begin_in_child();
    }

    fn launch(&'static self, start: Start) -> Result<(), StartError> {
        match start {
            Start::First => self.make_page(0),
            Start::Child => self.forget_parent(),
            Start::Again(_) => {}
        }
        let stack = self.host.memory.stack().ok_or(StartError::Memory)?;
        let call = (start == Start::Child).then(Call::begin);
        // SAFETY: a stack that nobody else has.
        let thread = unsafe {
            sys::start_thread(
                stack,
                sys::Role::Reclaim,
                sys::Descriptors::Own,
                first_thread,
                self,
                start.to_number(),
            )
            .map_err(|_| StartError::Thread)?
        };
        if let Some(call) = call {
            call.thread(thread);
        }
        while self.threads.ready.load(Acquire) == 0 {
            wait_for::<Linux>(&self.threads.ready, 0, STILL_THERE_NS);
            // A filter of system calls may have ended it.
            if self.threads.ready.load(Acquire) == 0 && !sys::is_thread(thread) {
                return Err(StartError::Thread);
            }
        }
        match self.threads.ready.load(Acquire) {
            1 => {
                self.set_running();
                Ok(())
            }
            2 => Err(StartError::Memory),
            3 => Err(StartError::Thread),
            4 => Err(StartError::Userfaultfd),
            6 => Err(StartError::Traced),
            _ => Err(StartError::Proc),
        }
    }

    /// Makes the statistics page.
    fn make_page(&'static self, fork_child_mode: u64) {
        // SAFETY: the pager that used an inherited one is not in this process, and a new one not yet.
        let page = unsafe { self.create_page() };
        // SAFETY: a mapping that nobody unmaps.
        unsafe {
            self.host.set_statistics(page.cast());
            self.control.set_page(page);
        }
        let (total, content) = match fork_child_mode {
            0 => (0, 0),
            _ => self.account.last_bytes(),
        };
        self.account
            .begin(sys::process_cpu_ns(), proc_stat::process_user_ns());
        for handler in &self.handlers {
            handler.forget_waits();
        }
        let s = self.host.statistics();
        self.publish_settings();
        s.fork_child_mode.store(fork_child_mode, Relaxed);
        s.inherited_total_bytes.store(total, Relaxed);
        s.inherited_content_bytes.store(content, Relaxed);
        statistics::name(&s.codec, self.config().codec);
        statistics::name(&s.storage, self.config().storage);
    }

    /// Starts the pager in a thread that has waited with it, and is the first.
    pub(crate) fn start_here(&'static self, is_forked: bool) -> ! {
        self.make_page(is_forked.into());
        sys::set_thread_name(c"coldpress/main");
        self.threads.add(sys::thread_id());
        match self.reserve().and_then(|()| self.open_all(Start::First)) {
            Ok((reclaimer, statm, handlers_started)) => {
                self.set_running();
                self.dormant.end();
                reclaim::run(self, reclaimer, statm, handlers_started)
            }
            Err(error) => {
                run_file::release(self.control.page_address());
                self.dormant.end();
                if self.config().root_pid == sys::process_id() {
                    say_unmanaged(error);
                }
                sys::exit_thread()
            }
        }
    }

    /// The device's descriptor, if the program has inherited it and has not closed it.
    pub(crate) fn inherited_device(&self) -> Option<i32> {
        const MISCELLANEOUS: u32 = 10;
        let fd = self.config().device.filter(|&fd| fd >= 0)?;
        // SAFETY: whatever the number stands for now, it is only asked what it is.
        let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) }).ok()?;
        let device = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device();
        (device && rustix::fs::major(stat.st_rdev) == MISCELLANEOUS).then_some(fd)
    }
}

/// Closes all descriptors but those that are kept, in a table of the calling thread's own: what the
/// program has open must not be kept open here.
pub(crate) fn close_descriptors(mut kept: [Option<i32>; 2]) {
    kept.sort_unstable();
    let mut from = 0;
    for fd in kept.into_iter().flatten().map(|fd| fd as u32) {
        if fd > from {
            sys::close_range(from, fd - 1);
        }
        from = fd + 1;
    }
    sys::close_range(from, u32::MAX);
}

extern "C" fn handler_thread(pager: &'static Pager, number: usize) -> ! {
    handler::run(pager, number)
}

/// The pager's first thread: opens everything in a descriptor table of its own.
extern "C" fn first_thread(pager: &'static Pager, start: usize) -> ! {
    sys::set_thread_name(c"coldpress/main");
    pager.threads.add(sys::thread_id());
    let start = Start::from_number(start);
    if start == Start::Child {
        pager.live_young()
    }
    match pager.open_all(start) {
        Ok((reclaimer, statm, handlers_started)) => {
            set_and_wake::<Linux>(&pager.threads.ready, 1);
            reclaim::run(pager, reclaimer, statm, handlers_started)
        }
        Err(error) => {
            set_and_wake::<Linux>(&pager.threads.ready, error as u32);
            sys::exit_thread()
        }
    }
}

impl Pager {
    /// The first thread in the child of a fork where pages are away. Most children end soon, and all that a process has
    /// opened of `/proc` costs when it has ended: so there is one handler at first, and no more than it needs. A child
    /// that lives gets the rest.
    fn live_young(&'static self) -> ! {
        if let Err(error) = self.open_young() {
            set_and_wake::<Linux>(&self.threads.ready, error as u32);
            sys::exit_thread();
        }
        set_and_wake::<Linux>(&self.threads.ready, 1);
        // SAFETY: this thread is the only reclaimer; its part of the workplace is its own.
        let mut reclaimer = unsafe { self.workplace.reclaimer() };
        self.stay_young(&mut reclaimer);
        loop {
            match self.grow_up() {
                Ok(statm) => reclaim::run(self, reclaimer, statm, true),
                // It has lost the right to that meanwhile, and goes on without.
                Err(_) if self.leave_now(reclaimer.worker()) => self.leaving.thread_goes::<Linux>(),
                Err(_) => self.stay_young(&mut reclaimer),
            }
        }
    }

    fn open_young(&'static self) -> Result<(), StartError> {
        stay_out_of_the_way();
        let device = self.inherited_device();
        close_descriptors([device, self.tier.descriptor()]);
        let mut uffd = self
            .open_userfaultfd(device)
            .map_err(|_| StartError::Userfaultfd)?;
        if let Some(fd) = device {
            sys::close_range(fd as u32, fd as u32);
        }
        self.handler_count.store(0, Relaxed);
        self.duty.reset();
        // SAFETY: this is the first thread of the pager, the others do not exist yet, and the program waits.
        unsafe {
            visit::start();
            self.leaving.reset();
            self.tier.begin_to_read();
            self.open_groups();
            let staging = self.host.memory.staging();
            register_once_free::<Linux>(&uffd, staging).map_err(|_| StartError::Userfaultfd)?;
            let again = self.host.register_staging_with(&uffd);
            again.map_err(|_| StartError::Userfaultfd)?;
            uffd.check_witness(staging);
            self.host.staging_is_registered.store(true, Relaxed);
            self.host.uffd.set(uffd);
        }
        // Nothing of the program's is registered yet: without a handler it goes on without a pager.
        if !self.start_pinned_handlers(1) {
            return Err(StartError::Thread);
        }
        self.register_again();
        self.fork.inherited.store(true, Relaxed);
        Ok(())
    }

    /// Opens the rest, and starts the other threads.
    fn grow_up(&'static self) -> Result<Statm, StartError> {
        let pagemap = Pagemap::open().map_err(|_| StartError::Proc)?;
        let statm = Statm::open().ok_or(StartError::Proc)?;
        disperse();
        // SAFETY: only this thread uses `discovery`; nobody has found the page map yet.
        unsafe {
            self.discovery.open().map_err(|_| StartError::Proc)?;
            self.host.pagemap.set(pagemap);
        }
        self.make_page(1);
        self.engine.prepare_for(self, 1024, 65_536);
        // What is registered has a handler: the others, and the watchdog, are missed where they cannot be made.
        self.start_pinned_handlers(MAX_HANDLERS);
        self.watch();
        reclaim::take_turns();
        Ok(statm)
    }

    /// Starts the watchdog, if there is none. `false`: it cannot be made.
    pub(crate) fn watch(&'static self) -> bool {
        let watched = &self.threads.watched;
        if !watched.load(Relaxed) {
            // A new thread has its maker's name.
            sys::set_thread_name(c"coldpress/watch");
            let started = self.start_thread(sys::Role::Watchdog, watchdog::run, 0);
            sys::set_thread_name(c"coldpress/main");
            if let Ok(thread) = started {
                visit::follow(thread);
            }
            watched.store(started.is_ok(), Relaxed);
        }
        watched.load(Relaxed)
    }

    fn open_all(
        &'static self,
        start: Start,
    ) -> Result<(Reclaimer<Codec>, Statm, bool), StartError> {
        stay_out_of_the_way();
        if start == Start::First && proc_stat::is_traced() {
            return Err(StartError::Traced);
        }
        let uffd = if let Start::Again(fd) = start {
            close_descriptors([Some(fd), self.write_back_descriptor()]);
            // SAFETY: a userfaultfd, opened for this pager, in a table that is this thread's own.
            let uffd = Userfaultfd::from(unsafe { OwnedFd::from_raw_fd(fd) });
            uffd.with_witness(new_witness(None))
        } else {
            let device = self.inherited_device();
            close_descriptors([device, self.write_back_descriptor()]);
            let uffd = self
                .open_userfaultfd(device)
                .map_err(|_| StartError::Userfaultfd)?;
            if let Some(fd) = device {
                sys::close_range(fd as u32, fd as u32);
            }
            uffd
        };
        // SAFETY: this is the first thread of the pager.
        unsafe {
            visit::start();
            self.leaving.reset();
            self.begin_to_write_back();
        }
        let pagemap = Pagemap::open().map_err(|_| StartError::Proc)?;
        let statm = Statm::open().ok_or(StartError::Proc)?;
        // SAFETY: the other pager threads do not exist yet, and the program waits.
        unsafe { self.begin(uffd, pagemap)? };
        // Where there is none, none is registered until one can be made (`reclaim`).
        let handlers_started = self.start_pinned_handlers(MAX_HANDLERS);
        if !self.watch() {
            return Err(StartError::Thread);
        }
        reclaim::take_turns();
        // SAFETY: this thread is the only reclaimer; its part of the workplace is its own.
        let reclaimer = unsafe { self.workplace.reclaimer() };
        Ok((reclaimer, statm, handlers_started))
    }
}

impl Pager {
    /// The file that this process writes pages back to: the first of a run, and what it becomes.
    fn write_back_file(&self) -> Option<WriteBackFile> {
        let config = self.config();
        let is_first = config.root_pid == sys::process_id();
        config.write_back.filter(|_| is_first)
    }

    /// Its descriptor, if the program has it still.
    fn write_back_descriptor(&self) -> Option<i32> {
        let file = self.write_back_file()?;
        let is_there = Linux::identity_of_file(file.descriptor) == Some(file.identity);
        is_there.then_some(file.descriptor)
    }

    /// # Safety
    /// By the pager's first thread, which has a table of descriptors of its own, before there is another.
    unsafe fn begin_to_write_back(&self) {
        let Some(file) = self.write_back_file() else {
            return;
        };
        // SAFETY: as the caller promises.
        if !unsafe { self.tier.begin(file, &self.host.memory) } {
            message::say(format_args!(
                "no memory for the tables of --writeback: nothing is written back (a smaller --writeback-size \
                 takes less)"
            ));
        }
    }
}

/// The calling thread has a working directory of its own, so that the program may enter another mount namespace: not
/// one that somebody wants to unmount.
pub(crate) fn stay_out_of_the_way() {
    let _ = rustix::process::chdir(c"/");
}

fn open_node() -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(c"/dev/userfaultfd", flags, Mode::empty())
}

fn new_userfaultfd(device: Option<i32>) -> Result<Userfaultfd, Errno> {
    let through_device = |fd| {
        // SAFETY: the number came from the command that opened the device; whatever it is now,
        // it stays open during the call.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        Userfaultfd::from_device(fd)
    };
    // A node that this user may open is as good as one that was handed down.
    let through_node =
        || open_node().and_then(|node| Userfaultfd::from_device(rustix::fd::AsFd::as_fd(&node)));
    let inherited = device.ok_or(Errno::BADF).and_then(through_device);
    inherited
        .or_else(|_| Userfaultfd::from_system_call(Tier::Full))
        .or_else(|errno| through_node().map_err(|_| errno))
}

/// Another one, that tells what is registered while messages wait. `None`: it cannot be had.
fn new_witness(device: Option<i32>) -> Option<Userfaultfd> {
    let witness = new_userfaultfd(device).ok()?;
    witness.handshake(Features::NONE).ok()?;
    Some(witness)
}

impl Pager {
    /// Opens a userfaultfd. With the capability that the kernel wants for it, it tells of every fork.
    fn open_userfaultfd(&self, device: Option<i32>) -> Result<Userfaultfd, Errno> {
        let uffd = new_userfaultfd(device)?;
        let with_forks = Features::PAGER.with(Features::EVENT_FORK);
        let has_room = || {
            let limit = getrlimit(Resource::Nofile).maximum;
            limit.is_none_or(|most| most >= DESCRIPTORS)
        };
        // Only where it is asked for: a filter may refuse the call.
        let may_hear = self.presence.is_known() && has_room();
        let hears = may_hear && uffd.handshake(with_forks).is_ok();
        if !hears {
            uffd.handshake(Features::PAGER)?;
        }
        self.host.hears_of_forks.store(hears, Relaxed);
        Ok(uffd.with_witness(new_witness(device)))
    }

    fn start_thread(
        &'static self,
        role: sys::Role,
        entry: extern "C" fn(&'static Pager, usize) -> !,
        argument: usize,
    ) -> Result<u32, StartError> {
        let memory = &self.host.memory;
        let stack = memory.stack().ok_or(StartError::Memory)?;
        // SAFETY: a stack that nobody else has.
        let started = unsafe {
            sys::start_thread(stack, role, sys::Descriptors::Shared, entry, self, argument)
        };
        let thread = started.map_err(|_| {
            memory.take_back_stack();
            StartError::Thread
        })?;
        self.threads.add(thread);
        Ok(thread)
    }

    /// Starts one handler for each processor that the process may use, or `most` of them; one of them may be there. Called
    /// by a pager thread, whose descriptor table they share, before the first page is taken out. `false`: there is none,
    /// since no thread could be made, and nothing may be registered.
    pub(crate) fn start_pinned_handlers(&'static self, most: usize) -> bool {
        let allowed = sys::processors(0).unwrap_or(Processors::only(0));
        // A new thread has its maker's name.
        sys::set_thread_name(c"coldpress/fault");
        let there = self.handler_count.load(Relaxed);
        let mut number = 0;
        for cpu in allowed.iter().take(most.min(MAX_HANDLERS)) {
            if !self.workplace.has_room_for(number + 1, &self.host.memory) {
                break;
            }
            let thread = match number {
                0 if there > 0 => Ok(self.threads.handler.load(Relaxed)),
                number => self.start_thread(sys::Role::Handler, handler_thread, number),
            };
            let Ok(thread) = thread else { break };
            if number == 0 {
                self.threads.handler.store(thread, Relaxed);
            }
            // A handler that is alone is wherever it is wanted.
            if most > 1 {
                sys::pin(thread, cpu);
            }
            let processor = (most > 1).then_some(cpu);
            self.duty.begins(number, processor);
            number += 1;
        }
        sys::set_thread_name(c"coldpress/main");
        self.handler_count.store(number, Relaxed);
        number > 0
    }
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
