//! What the tests of kernel behaviour share.
//!
//! * [`begin`] lets one test of a file run at a time and ends the process with a message when it
//!   hangs: most of these facts, where they do not hold, show as a thread that sleeps for ever.
//! * [`Pages`] is memory that is never given back, so that no test waits for an event of its own
//!   unmapping.
//! * [`Task`] is a thread that may sleep in the kernel; [`Child`] a process that may die.
//!
//! A panic of a test drops its userfaultfd, which wakes every thread that sleeps on it.
#![allow(dead_code)] // every test uses its own part

use coldpress_uffd::{
    AddressRange, Errno, Features, Message, Moved, Pagemap, Region, Tier, Userfaultfd,
};
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{Error, Write};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// Bytes in a page.
pub const PAGE: usize = coldpress_uffd::PAGE_SIZE;
/// 64-bit words in a page.
pub const WORDS: usize = PAGE / 8;
/// A test that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// A message that takes longer does not come.
const MESSAGE_NS: u64 = 10_000_000_000;
/// A thread that has not gone on within this time is asleep.
const ASLEEP: Duration = Duration::from_millis(100);

static SERIAL: Mutex<()> = Mutex::new(());

/// A test under way: the only one of its process, and watched.
pub struct Begun {
    _serial: MutexGuard<'static, ()>,
    _done: Sender<()>,
}

/// Begins a test.
pub fn begin(name: &'static str) -> Begun {
    let serial = SERIAL.lock().unwrap_or_else(|broken| broken.into_inner());
    let (done, watched) = channel::<()>();
    // It allocates nothing once the test hangs: the allocator may be what hangs.
    let message = format!("\n{name}: HANGS (more than {LIMIT:?}); aborting\n");
    spawn(move || {
        if watched.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // SAFETY: the message is there for as long.
            unsafe { libc::write(2, message.as_ptr().cast(), message.len()) };
            std::process::abort();
        }
    });
    Begun {
        _serial: serial,
        _done: done,
    }
}

/// Writes a line to stderr that the test harness does not keep to itself.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "\n{line}");
}

/// Tells loudly that a test proves nothing here.
pub fn skipped(why: &str) {
    say(&format!("SKIPPED: {why}"));
}

/// Waits until something is so, for ten seconds at most.
pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}");
}

/// The error of the last libc call of this thread.
pub fn errno() -> c_int {
    Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Whether the running kernel is at least `major.minor`.
pub fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc");
    let mut numbers = release.split(['.', '-', '+', '\n']).map(str::parse::<u32>);
    let mut next = || {
        numbers
            .next()
            .and_then(Result::ok)
            .expect("a kernel version")
    };
    (next(), next()) >= (major, minor)
}

/// Opens a userfaultfd of the full tier, or says loudly why there is none.
pub fn open(wanted: Features) -> Option<Userfaultfd> {
    let through_device = || {
        let node = File::open("/dev/userfaultfd").map_err(|_| Errno::ACCESS)?;
        from_device(&node)
    };
    let uffd = match Userfaultfd::from_system_call(Tier::Full).or_else(|_| through_device()) {
        Ok(uffd) => uffd,
        Err(errno) => {
            skipped(&format!(
                "no userfaultfd of the full tier ({errno}); run as root"
            ));
            return None;
        }
    };
    match uffd.handshake(wanted) {
        Ok(_) => Some(uffd),
        Err(errno) => {
            skipped(&format!(
                "this kernel lacks a feature of {wanted:?} ({errno})"
            ));
            None
        }
    }
}

/// Opens a userfaultfd through an open device.
pub fn from_device(device: &File) -> Result<Userfaultfd, Errno> {
    // SAFETY: open as long as `device` is borrowed. (The crate knows no descriptors of std.)
    let device = unsafe { rustix::fd::BorrowedFd::borrow_raw(device.as_raw_fd()) };
    Userfaultfd::from_device(device)
}

/// Private anonymous pages, fenced by inaccessible ones, mapped until the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// First address.
    pub start: usize,
    /// How many.
    pub count: usize,
}

impl Pages {
    /// Maps `count` pages that nobody has touched.
    pub fn map(count: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let len = (count + 2) * PAGE;
        // Far from where the kernel maps what has no place of its own: another thread's stack shall not come to lie
        // where a test has unmapped something.
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000_0000_0000);
        let hint = NEXT.fetch_add(len.next_multiple_of(2 << 20) + (2 << 20), Relaxed);
        let flags = flags | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a fresh mapping where nothing is, or the call fails; what is changed lies in it.
        let start = unsafe {
            let at = libc::mmap(hint as *mut _, len, libc::PROT_NONE, flags, -1, 0);
            assert_eq!(at as usize, hint, "mmap: {}", errno());
            at as usize + PAGE
        };
        let pages = Self { start, count };
        pages.protect(libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(pages.advise(libc::MADV_NOHUGEPAGE).unwrap_or(0), 0);
        pages
    }

    /// Maps `count` pages; page `n` is filled with the word `value + n`.
    pub fn filled(count: usize, value: u64) -> Self {
        let pages = Self::map(count);
        for n in 0..count {
            pages.fill(n, value + n as u64);
        }
        pages
    }

    /// Maps the pages again, where they were unmapped.
    pub fn map_again(self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: nothing is mapped there, or the call fails.
        let at = unsafe { libc::mmap(self.pointer(0), self.len(), rights, flags, -1, 0) };
        assert_eq!(at, self.pointer(0), "mmap: {}", errno());
    }

    /// Maps anew over the pages.
    pub fn map_over(self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: what is replaced is the test's own memory.
        let at = unsafe { libc::mmap(self.pointer(0), self.len(), rights, flags, -1, 0) };
        assert_eq!(at, self.pointer(0), "mmap: {}", errno());
    }

    /// Unmaps the pages.
    pub fn unmap(self) {
        // SAFETY: the test's own memory, which it does not touch again.
        let result = unsafe { libc::munmap(self.pointer(0), self.len()) };
        assert_eq!(result, 0, "munmap: {}", errno());
    }

    /// Moves the mapping to the beginning of `to`, which is replaced; `Err`: errno.
    pub fn remap(self, to: Pages, flags: c_int) -> Result<(), c_int> {
        let flags = flags | libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let place = to.pointer(0);
        // SAFETY: both are the test's own memory.
        let at = unsafe { libc::mremap(self.pointer(0), self.len(), to.len(), flags, place) };
        if at == libc::MAP_FAILED {
            return Err(errno());
        }
        assert_eq!(at, place);
        Ok(())
    }

    /// `count` pages from page `first` on.
    pub fn part(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.count);
        let start = self.start + first * PAGE;
        Self { start, count }
    }

    /// Page `n` alone.
    pub fn page(self, n: usize) -> Self {
        self.part(n, 1)
    }

    /// Address of page `n`.
    pub fn pointer(self, n: usize) -> *mut c_void {
        (self.start + n * PAGE) as *mut c_void
    }

    /// Bytes in them.
    pub fn len(self) -> usize {
        self.count * PAGE
    }

    /// As a range of addresses.
    pub fn range(self) -> AddressRange {
        AddressRange::new(self.start, self.len())
    }

    /// Writes `value` to every word of page `n`.
    pub fn fill(self, n: usize, value: u64) {
        assert!(n < self.count);
        for word in 0..WORDS {
            // SAFETY: a mapped page of the test.
            unsafe {
                self.pointer(n)
                    .cast::<u64>()
                    .add(word)
                    .write_volatile(value)
            };
        }
    }

    /// Reads the first word of page `n`.
    pub fn read(self, n: usize) -> u64 {
        assert!(n < self.count);
        // SAFETY: a mapped page of the test.
        unsafe { self.pointer(n).cast::<u64>().read_volatile() }
    }

    /// Whether every word of page `n` is `value`.
    pub fn holds(self, n: usize, value: u64) -> bool {
        assert!(n < self.count);
        // SAFETY: a mapped page of the test.
        let word = |w| unsafe { self.pointer(n).cast::<u64>().add(w).read_volatile() };
        (0..WORDS).all(|w| word(w) == value)
    }

    /// `madvise`; `Err`: errno.
    pub fn advise(self, advice: c_int) -> Result<c_int, c_int> {
        // SAFETY: the test's own memory, whose content it does not rely on after dropping it.
        match unsafe { libc::madvise(self.pointer(0), self.len(), advice) } {
            0 => Ok(0),
            _ => Err(errno()),
        }
    }

    /// `mprotect`.
    pub fn protect(self, rights: c_int) {
        // SAFETY: the test's own memory; it does not touch it in a way it has forbidden.
        let result = unsafe { libc::mprotect(self.pointer(0), self.len(), rights) };
        assert_eq!(result, 0, "mprotect: {}", errno());
    }

    /// Numbers of the pages that the page map calls populated.
    pub fn populated(self) -> Vec<usize> {
        let pagemap = Pagemap::open().expect("the page map opens");
        let mut regions = [Region::default(); 512];
        let (found, walked) = pagemap
            .populated(self.range(), &mut regions)
            .expect("PAGEMAP_SCAN");
        assert_eq!(walked, self.range().end);
        let runs = regions[..found].iter().map(|r| r.start..r.end);
        runs.flat_map(|run| run.step_by(PAGE))
            .map(|address| (address as usize - self.start) / PAGE)
            .collect()
    }
}

/// Registers pages; the test answers their faults.
pub fn register(uffd: &Userfaultfd, pages: Pages) {
    assert_eq!(try_register(uffd, pages), Ok(()), "registering");
}

/// Registers pages, or tells why not.
pub fn try_register(uffd: &Userfaultfd, pages: Pages) -> Result<(), Errno> {
    // SAFETY: the test's own memory; faults are answered by the test or wait until it ends.
    unsafe { uffd.register(pages.range()) }
}

/// Ends the registration of pages.
pub fn unregister(uffd: &Userfaultfd, pages: Pages) {
    // SAFETY: what the test has taken out of its pages it does not expect there.
    assert_eq!(unsafe { uffd.unregister(pages.range()) }, Ok(()));
}

/// Copies a page full of the word `value` to page `n`.
pub fn copy(uffd: &Userfaultfd, pages: Pages, n: usize, value: u64) -> Result<usize, Errno> {
    let content = [value; WORDS];
    // SAFETY: the content lies on the stack, which is not registered.
    unsafe { uffd.copy(pages.page(n).start, content.as_ptr().cast(), PAGE) }
}

/// Moves all pages of `from` to `to`.
pub fn move_pages(uffd: &Userfaultfd, to: Pages, from: Pages) -> Moved {
    assert_eq!(to.count, from.count);
    // SAFETY: the test's own memory, whose content it looks for at its new place.
    unsafe { uffd.move_pages(to.start, from.start, from.len()) }
}

/// What a move of `pages` pages gives that did all it was asked for.
pub fn all_moved(pages: usize) -> Moved {
    Moved {
        bytes: pages * PAGE,
        stopped: None,
    }
}

/// What a move gives that did nothing.
pub fn refused(errno: Errno) -> Moved {
    Moved {
        bytes: 0,
        stopped: Some(errno),
    }
}

/// The next message; there must be one.
pub fn next(uffd: &Userfaultfd) -> Message {
    assert!(uffd.wait(Some(MESSAGE_NS)), "no message has come");
    let mut message = [Message::Unknown(0)];
    assert_eq!(uffd.read(&mut message), Ok(1), "a message was announced");
    message[0]
}

/// The next message can be read, but is not read.
pub fn await_unread(uffd: &Userfaultfd) {
    assert!(uffd.wait(Some(MESSAGE_NS)), "no message has come");
}

/// Whether no message comes for a while.
pub fn is_silent(uffd: &Userfaultfd) -> bool {
    !uffd.wait(Some(ASLEEP.as_nanos() as u64))
}

/// Number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: touches nothing.
    unsafe { libc::gettid() as u32 }
}

/// A thread that may sleep in the kernel.
pub struct Task<T> {
    /// Its number.
    pub id: u32,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Task<T> {
    /// Starts a thread. It begins when all is ready here: from then on nothing is allocated and nothing freed by the
    /// caller, whom a fork of the thread would hold up, the allocator being locked, until somebody answers the fork.
    pub fn start(work: impl FnOnce() -> T + Send + 'static) -> Self {
        let told: &AtomicU32 = Box::leak(Box::default());
        let ready: &AtomicBool = Box::leak(Box::default());
        let thread = spawn(move || {
            told.store(thread_id(), Release);
            while !ready.load(Acquire) {
                std::thread::yield_now();
            }
            work()
        });
        let mut id = 0;
        while id == 0 {
            std::thread::yield_now();
            id = told.load(Acquire);
        }
        let task = Self { id, thread };
        ready.store(true, Release);
        task
    }

    /// Whether the thread has done its work.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Whether the thread is still at its work after a while.
    pub fn is_blocked(&self) -> bool {
        sleep(ASLEEP);
        !self.thread.is_finished()
    }

    /// Waits until the thread sleeps in the kernel.
    pub fn await_sleep(&self) {
        let path = format!("/proc/self/task/{}/stat", self.id);
        loop {
            let stat = std::fs::read_to_string(&path).expect("the thread lives");
            let state = stat
                .rsplit(')')
                .next()
                .and_then(|s| s.trim().chars().next());
            if matches!(state, Some('S' | 'D')) {
                sleep(ASLEEP);
                return;
            }
            sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the thread has done its work.
    pub fn finish(self) -> T {
        self.thread.join().expect("the thread does not panic")
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exit(c_int),
    /// By a signal.
    Signal(c_int),
}

/// What a child gives whose work went through.
pub const WELL: Ended = Ended::Exit(0);
/// What a child gives whose test was skipped.
const NOTHING_PROVED: c_int = 77;

/// A forked child.
pub struct Child {
    process: libc::pid_t,
}

impl Child {
    /// Forks a child that does `work`. A panic there shows on stderr and as exit status 101.
    pub fn start(work: impl FnOnce()) -> Self {
        // SAFETY: the child goes on with this thread alone, and never returns from here.
        let process = unsafe { libc::fork() };
        assert!(process >= 0, "fork: {}", errno());
        if process > 0 {
            return Self { process };
        }
        let no_core = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: changes this process only, so that it dies of what kills it, soon and quietly.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            libc::alarm(30);
        }
        set_hook(Box::new(|info| say(&format!("in a forked child: {info}"))));
        let status = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(()) => 0,
            Err(_) => 101,
        };
        // SAFETY: ends the process without anything that belongs to the parent.
        unsafe { libc::_exit(status) }
    }

    /// Forks a child that only waits to be killed.
    pub fn idle() -> Self {
        Self::start(|| {
            loop {
                sleep(Duration::from_secs(1));
            }
        })
    }

    /// Waits for the end.
    pub fn end(self) -> Ended {
        let mut status = 0;
        // SAFETY: a child of ours that nobody else waits for; the kernel writes the status.
        let ended = unsafe { libc::waitpid(self.process, &mut status, 0) };
        assert_eq!(ended, self.process, "waitpid: {}", errno());
        if libc::WIFEXITED(status) {
            Ended::Exit(libc::WEXITSTATUS(status))
        } else {
            Ended::Signal(libc::WTERMSIG(status))
        }
    }

    /// Kills it.
    pub fn kill(self) {
        // SAFETY: a child of ours that was not waited for yet.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
        self.end();
    }
}

/// Does `work` in a forked child and tells how that ended.
pub fn in_child(work: impl FnOnce()) -> Ended {
    Child::start(work).end()
}

/// Asserts that a child's work went through or proved nothing (which it has said).
pub fn assert_well(ended: Ended) {
    assert!(
        matches!(ended, WELL | Ended::Exit(NOTHING_PROVED)),
        "the child: {ended:?}"
    );
}

/// Ends a child whose test proves nothing here, and has said so.
pub fn leave_child() -> ! {
    // SAFETY: ends the process without anything that belongs to the parent.
    unsafe { libc::_exit(NOTHING_PROVED) }
}

/// Makes the calling process, a forked child, an ordinary user's without any privilege.
pub fn become_nobody() {
    // SAFETY: changes this process only; it has one thread.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0, "{}", errno());
        assert_eq!(libc::setgid(65534), 0, "{}", errno());
        assert_eq!(libc::setuid(65534), 0, "{}", errno());
    }
}

/// Whether this process is root's; if not, says loudly what is not proved.
pub fn is_root() -> bool {
    // SAFETY: touches nothing.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        skipped("only root can become another user");
    }
    root
}

/// The two ends of a new pipe: read, write.
pub fn pipe() -> (c_int, c_int) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0, "{}", errno());
    (ends[0], ends[1])
}

/// Reads up to `len` bytes of a descriptor into page 0; `Err`: errno.
pub fn read_into(descriptor: c_int, pages: Pages, len: usize) -> Result<usize, c_int> {
    assert!(len <= pages.len());
    // SAFETY: mapped memory of the test.
    match unsafe { libc::read(descriptor, pages.pointer(0), len) } {
        done if done >= 0 => Ok(done as usize),
        _ => Err(errno()),
    }
}

/// Writes bytes to a descriptor.
pub fn write_all(descriptor: c_int, bytes: &[u8]) {
    // SAFETY: the bytes are readable.
    let done = unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(done, bytes.len() as isize, "write: {}", errno());
}
