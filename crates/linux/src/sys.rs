//! The few system calls that no library offers without libc, and threads without libc.
//!
//! The pager's threads are made by `clone` directly: they are unknown to libc, so they neither
//! count when a program's last thread leaves nor use its allocator, and they have a descriptor
//! table of their own, which no descriptor sweep of the program reaches. They own a stack and a
//! thread block from the pager's memory, run with every signal blocked, and never return.

use core::arch::asm;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use linux_raw_sys::general as nr;

/// Drops pages.
pub const MADV_DONTNEED: c_int = 4;
/// Keeps memory from children.
pub const MADV_DONTFORK: c_int = 10;
/// Has children inherit memory again.
pub const MADV_DOFORK: c_int = 11;
/// Faults in what can be read.
pub const MADV_POPULATE_READ: c_int = 22;
/// Puts every page in place, as writing to each would (Linux 5.14).
pub const MADV_POPULATE_WRITE: c_int = 23;
/// Drops pages that are locked, too (Linux 5.18).
pub const MADV_DONTNEED_LOCKED: c_int = 24;

/// A raw system call. The result is negative on error.
///
/// # Safety
/// As the call demands of its arguments.
#[inline]
pub unsafe fn syscall(number: u32, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel's calling convention; the caller answers for the effects.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Number of the calling thread.
pub fn thread_id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(nr::__NR_gettid, [0; 6]) as u32 }
}

/// Whether there is a thread `thread` in this process.
pub fn is_thread(thread: u32) -> bool {
    let args = [process_id() as usize, thread as usize, 0, 0, 0, 0];
    // SAFETY: signal 0 only asks.
    unsafe { syscall(nr::__NR_tgkill, args) == 0 }
}

/// Number of this process.
pub fn process_id() -> u32 {
    // SAFETY: no arguments, no effect.
    unsafe { syscall(nr::__NR_getpid, [0; 6]) as u32 }
}

/// Closes every descriptor from `first` to `last` in the table of the calling thread.
pub fn close_range(first: u32, last: u32) {
    if first > last {
        return;
    }
    // SAFETY: called by the pager's first thread on its own table only, before it opens anything.
    unsafe {
        syscall(
            nr::__NR_close_range,
            [first as usize, last as usize, 0, 0, 0, 0],
        )
    };
}

/// Gives the calling thread a copy of the descriptor table of its own. `false`: there is no memory for it.
pub fn unshare_descriptors() -> bool {
    // SAFETY: affects the calling pager thread alone.
    unsafe { syscall(nr::__NR_unshare, [nr::CLONE_FILES as usize, 0, 0, 0, 0, 0]) == 0 }
}

/// Name of the calling thread, which a new thread and a forked process have from their maker.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    const PR_GET_NAME: usize = 16;
    let args = [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes sixteen bytes.
    unsafe { syscall(nr::__NR_prctl, args) };
    name
}

/// Name of the process: that of its first thread.
pub fn process_name() -> [u8; 16] {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let mut name = [0u8; 16];
    let read = rustix::fs::open(c"/proc/self/comm", flags, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut name));
    match read {
        Ok(len) => {
            // The line's end.
            name[len.saturating_sub(1)..].fill(0);
            name
        }
        Err(_) => thread_name(),
    }
}

/// Where thread `thread` of this process keeps its list of robust futexes: inside its thread
/// control block. `None` where it has none, or is gone.
///
/// # Errors
/// Where the kernel does not tell: a seccomp filter may forbid the call.
pub fn robust_list(thread: u32) -> Result<Option<usize>, rustix::io::Errno> {
    match robust_list_of(thread) {
        Err(rustix::io::Errno::SRCH) => Ok(None),
        told => told,
    }
}

fn robust_list_of(thread: u32) -> Result<Option<usize>, rustix::io::Errno> {
    let (mut head, mut len) = (0usize, 0usize);
    let args = [
        thread as usize,
        (&raw mut head) as usize,
        (&raw mut len) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes the two words.
    let result = unsafe { syscall(nr::__NR_get_robust_list, args) };
    match result {
        0 => Ok((head != 0).then_some(head)),
        _ => Err(rustix::io::Errno::from_raw_os_error(-result as i32)),
    }
}

/// Whether there is no thread of that number any more.
pub fn is_thread_gone(thread: u32) -> bool {
    robust_list_of(thread) == Err(rustix::io::Errno::SRCH)
}

/// Where the calling thread of the program has its control block: it begins with its own address.
pub fn thread_block() -> usize {
    let block: usize;
    // SAFETY: every thread has a thread block at `fs`, whose first word is its address.
    unsafe { asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly)) };
    block
}

/// Whether the word at `address` is there and is not `value`. The kernel looks, so that the address may be anything.
pub fn differs(address: usize, value: u32) -> bool {
    const EAGAIN: isize = -11;
    const WAIT: usize = (nr::FUTEX_WAIT | nr::FUTEX_PRIVATE_FLAG) as usize;
    let no_time = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let timeout = (&raw const no_time) as usize;
    // SAFETY: the kernel reads the word, and waits for no time where it is as expected.
    unsafe {
        syscall(
            nr::__NR_futex,
            [address, WAIT, value as usize, timeout, 0, 0],
        ) == EAGAIN
    }
}

/// Locks a file for reading by its open file description: until nobody has it open or mapped any more.
pub fn lock_for_reading(file: c_int) {
    // As the kernel lays `struct flock` out: type and whence, from the start, to the end.
    let lock = [nr::F_RDLCK as u64, 0, 0, 0];
    let args = [
        file as usize,
        nr::F_OFD_SETLK as usize,
        (&raw const lock) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads the structure. Without the lock no more is lost than that the file is removed early.
    unsafe { syscall(nr::__NR_fcntl, args) };
}

/// Sleeps for about `ns` nanoseconds.
pub fn sleep_ns(ns: u64) {
    let request = rustix::time::Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    let _ = rustix::thread::nanosleep(&request);
}

/// Monotonic clock in nanoseconds.
pub fn now_ns() -> u64 {
    if ASKS_THE_KERNEL.load(Relaxed) {
        return by_call(nr::CLOCK_MONOTONIC as usize);
    }
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

static ASKS_THE_KERNEL: AtomicBool = AtomicBool::new(false);

/// From now on [`now_ns`] asks the kernel: the vDSO reads the processor's counter, and threads may be forbidden to
/// (`PR_SET_TSC`).
pub fn leave_the_counter() {
    ASKS_THE_KERNEL.store(true, Relaxed);
}

/// The time of a clock, by the system call; 0 where there is no such clock.
fn by_call(clock: usize) -> u64 {
    let mut t = [0u64; 2];
    // SAFETY: two words, which the kernel fills in.
    let result = unsafe {
        syscall(
            nr::__NR_clock_gettime,
            [clock, t.as_mut_ptr() as usize, 0, 0, 0, 0],
        )
    };
    match result {
        0 => t[0] * 1_000_000_000 + t[1],
        _ => 0,
    }
}

/// Processor time of the calling thread, in nanoseconds.
pub fn own_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Processor time of all threads of the process, in nanoseconds, those that have ended included.
pub fn process_cpu_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Processor time of a thread of this process, in nanoseconds; 0 where there is none of this number.
pub fn thread_cpu_ns(thread: u32) -> u64 {
    // The kernel's numbers of clocks: the thread's own number, inverted, above "of a thread" and "scheduled".
    let clock = (!(thread as i32) << 3) | 6;
    by_call(clock as isize as usize)
}

/// Ends the process at once with `status`.
pub fn exit_process(status: i32) -> ! {
    loop {
        // SAFETY: the process ends.
        unsafe { syscall(nr::__NR_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Ends the process by SIGABRT.
pub fn abort() -> ! {
    const SIGABRT: usize = 6;
    // SAFETY: signals this process. The thread unblocks the signal first; if the program catches
    // it, exit ends the process all the same.
    unsafe {
        let none: u64 = 0;
        syscall(
            nr::__NR_rt_sigprocmask,
            [2, (&raw const none) as usize, 0, 8, 0, 0],
        );
        let me = process_id() as usize;
        syscall(
            nr::__NR_tgkill,
            [me, thread_id() as usize, SIGABRT, 0, 0, 0],
        );
    }
    exit_process(134)
}

/// Ends the process by `signal`, whatever the program does with it.
pub fn die_by(signal: u32) -> ! {
    // SAFETY: the program has no thread left that would notice. Zeros say: the default.
    unsafe {
        let default = [0usize; 4];
        let (signal, at) = (signal as usize, default.as_ptr() as usize);
        syscall(nr::__NR_rt_sigaction, [signal, at, 0, 8, 0, 0]);
        set_signals(!(1 << (signal - 1)));
        syscall(nr::__NR_kill, [process_id() as usize, signal, 0, 0, 0, 0]);
    }
    // The first process of a namespace does not die by its own signals.
    exit_process(128 + signal as i32)
}

/// Ends the calling pager thread.
pub fn exit_thread() -> ! {
    exit_thread_with(0)
}

/// Ends the calling thread alone, with this status.
pub fn exit_thread_with(status: i32) -> ! {
    loop {
        // SAFETY: the thread ends, and nothing of it is used by others.
        unsafe { syscall(nr::__NR_exit, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// What a pager thread is for; stands in its thread block.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Role {
    /// Measures, discovers and reclaims.
    Reclaim = 0x636F_6C01,
    /// Answers faults.
    Handler = 0x636F_6C03,
    /// Watches the others.
    Watchdog = 0x636F_6C05,
}

fn role() -> usize {
    let role: usize;
    // SAFETY: every thread of this process has a thread block of more than 32 bytes at `fs`:
    // libc's (where this word is a pointer, thus even) or ours (where it is a role).
    unsafe { asm!("mov {}, fs:[24]", out(reg) role, options(nostack, readonly)) };
    role
}

/// Whether the calling thread is a fault handler.
pub fn is_handler() -> bool {
    role() == Role::Handler as usize
}

/// Ranks of the locks that the calling thread holds, for the check of debug builds. `None` in
/// threads of the program, whose thread blocks are libc's.
pub fn held_ranks() -> Option<&'static core::sync::atomic::AtomicU32> {
    const ROLES: [usize; 3] = [
        Role::Reclaim as usize,
        Role::Handler as usize,
        Role::Watchdog as usize,
    ];
    if !ROLES.contains(&role()) {
        return None;
    }
    let block: usize;
    // SAFETY: the thread block is ours: its first word is its own address, and the ninth is free
    // for this. The stack that it lies on is never given back.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) block, options(nostack, readonly));
        Some(&*((block as *const usize).add(HELD_RANKS).cast()))
    }
}

/// Word of the thread block that holds the ranks.
const HELD_RANKS: usize = 8;

/// Bytes of a pager thread's stack, its thread block included.
pub const STACK_BYTES: usize = 64 << 10;

/// More than glibc's `struct pthread` (2,304 bytes in 2.36): a debugger reads one there of each thread, through
/// libthread_db, and loses the program where there is no memory behind the block.
const THREAD_BLOCK_BYTES: usize = 3 << 10;

/// Whose table of descriptors a thread has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Descriptors {
    /// That of the thread that starts it.
    Shared,
    /// A copy, which it has for itself.
    Own,
}

/// Starts a pager thread that runs `entry(shared, argument)` and must never return.
///
/// # Safety
/// `stack` is the lowest address of [`STACK_BYTES`] bytes that belong to the thread from now on.
pub unsafe fn start_thread<T: Sync>(
    stack: *mut u8,
    role: Role,
    descriptors: Descriptors,
    entry: extern "C" fn(&'static T, usize) -> !,
    shared: &'static T,
    argument: usize,
) -> Result<u32, rustix::io::Errno> {
    // SAFETY: the block and the three words lie at the top of the stack the caller gives.
    let (block, top) = unsafe {
        let block = stack.add(STACK_BYTES - THREAD_BLOCK_BYTES).cast::<usize>();
        // x86_64 ABI: the first word points to the block itself; 0x28 is the stack protector's.
        block.write(block as usize);
        block.add(2).write(block as usize);
        block.add(3).write(role as usize);
        block.add(HELD_RANKS).write(0);
        let top = block.sub(3);
        top.write(entry as usize);
        top.add(1).write(shared as *const T as usize);
        top.add(2).write(argument);
        (block, top)
    };
    let mut flags =
        nr::CLONE_VM | nr::CLONE_SIGHAND | nr::CLONE_THREAD | nr::CLONE_SYSVSEM | nr::CLONE_SETTLS;
    if descriptors == Descriptors::Shared {
        flags |= nr::CLONE_FILES;
    }
    // The new thread starts, and stays, with all signals blocked.
    let signals = block_all_signals();
    let result: isize;
    // SAFETY: the child runs `entry` on its own stack and never comes back into this frame.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "pop rax",
            "pop rdi",
            "pop rsi",
            "call rax",
            "ud2",
            "2:",
            inlateout("rax") nr::__NR_clone as isize => result,
            in("rdi") flags as usize,
            in("rsi") top,
            in("rdx") 0usize,
            in("r10") 0usize,
            in("r8") block,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    set_signals(signals);
    match result {
        tid if tid > 0 => Ok(tid as u32),
        error => Err(rustix::io::Errno::from_raw_os_error(-error as i32)),
    }
}

/// Blocks all signals of the calling thread; returns the mask to [`set_signals`] afterwards.
pub fn block_signals() -> u64 {
    touch_stack();
    block_all_signals()
}

fn block_all_signals() -> u64 {
    let (all, mut before) = (!0u64, 0u64);
    let args = [
        SIG_SETMASK,
        (&raw const all) as usize,
        (&raw mut before) as usize,
        8,
        0,
        0,
    ];
    // SAFETY: the kernel reads one mask and writes the other.
    unsafe { syscall(nr::__NR_rt_sigprocmask, args) };
    before
}

/// The first signal that the calling thread does not block, of those that can be blocked.
#[cfg(debug_assertions)]
pub fn signal_that_may_come() -> Option<u32> {
    const KILL_AND_STOP: u64 = 1 << 8 | 1 << 18;
    let mut mask = 0u64;
    let args = [0, 0, (&raw mut mask) as usize, 8, 0, 0];
    // SAFETY: without a mask to set the kernel only writes the one in force.
    unsafe { syscall(nr::__NR_rt_sigprocmask, args) };
    let open = !(mask | KILL_AND_STOP);
    (open != 0).then(|| open.trailing_zeros() + 1)
}

/// Sets the signal mask of the calling thread.
pub fn set_signals(mask: u64) {
    let args = [SIG_SETMASK, (&raw const mask) as usize, 0, 8, 0, 0];
    // SAFETY: the kernel reads the mask.
    unsafe { syscall(nr::__NR_rt_sigprocmask, args) };
}

/// Brings the next pages of the calling thread's stack in place: where that is memory like any
/// other (coroutines), it could be missing at a moment when nobody answers.
///
/// No further than the pager goes itself while signals are blocked: a stack may be small, and have no guard page. The
/// promise `hostile_small_stacks` measures it.
#[inline(never)]
fn touch_stack() {
    let mut room = [0u8; TOUCHED_BYTES];
    core::hint::black_box(&mut room);
}

/// Frames of debug builds are several times as large.
const TOUCHED_BYTES: usize = if cfg!(debug_assertions) {
    12 << 10
} else {
    2 << 10
};

const SIG_SETMASK: usize = 2;

/// Names the calling thread.
pub fn set_thread_name(name: &core::ffi::CStr) {
    let _ = rustix::thread::set_name(name);
}

/// A set of processors, a bit each: as many as the C library's sets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processors(pub [u64; Processors::WORDS]);

impl Processors {
    /// Words of a set.
    pub const WORDS: usize = 1024 / 64;

    /// Every one.
    pub const ALL: Self = Self([u64::MAX; Self::WORDS]);

    /// One processor.
    pub fn only(processor: u32) -> Self {
        let mut words = [0; Self::WORDS];
        if let Some(word) = words.get_mut(processor as usize / 64) {
            *word = 1 << (processor % 64);
        }
        Self(words)
    }

    /// Whether it is one of them.
    pub fn contains(&self, processor: u32) -> bool {
        let word = self.0.get(processor as usize / 64);
        word.is_some_and(|word| word & 1 << (processor % 64) != 0)
    }

    /// All but one.
    pub fn without(mut self, processor: u32) -> Self {
        if let Some(word) = self.0.get_mut(processor as usize / 64) {
            *word &= !(1 << (processor % 64));
        }
        self
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64 * Self::WORDS as u32).filter(move |&processor| self.contains(processor))
    }

    /// How many they are.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// Where a thread of this process may run; 0: the calling thread. `None`: the kernel does not tell, or has more processors.
pub fn processors(thread: u32) -> Option<Processors> {
    let mut set = Processors([0; Processors::WORDS]);
    let at = &raw mut set.0 as usize;
    let args = [thread as usize, size_of::<Processors>(), at, 0, 0, 0];
    // SAFETY: the kernel writes so many bytes at most.
    let result = unsafe { syscall(nr::__NR_sched_getaffinity, args) };
    (result > 0).then_some(set)
}

/// Pins a thread of this process to one processor; 0: the calling thread. `false`: not allowed.
pub fn pin(thread: u32, processor: u32) -> bool {
    set_processors(thread, &Processors::only(processor))
}

/// Has a thread of this process run there only; 0: the calling thread. `false`: not allowed.
pub fn set_processors(thread: u32, set: &Processors) -> bool {
    let at = &raw const set.0 as usize;
    let args = [thread as usize, size_of::<Processors>(), at, 0, 0, 0];
    // SAFETY: the kernel reads so many bytes.
    unsafe { syscall(nr::__NR_sched_setaffinity, args) == 0 }
}

/// `struct sched_attr` of `sched_setattr`(2), in its first size.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The calling thread's way of being scheduled; `None` where the kernel does not tell.
fn scheduling() -> Option<SchedAttr> {
    let mut attr = SchedAttr::default();
    let (at, size) = (&raw mut attr as usize, size_of::<SchedAttr>());
    // SAFETY: the kernel writes so many bytes at most.
    let result = unsafe { syscall(nr::__NR_sched_getattr, [0, at, size, 0, 0, 0]) };
    (result == 0).then_some(attr)
}

/// Asks the scheduler to let the calling thread, if it is an ordinary one, run for so long at a time while others wait,
/// and not for its usual 3 ms. It has as much time in all as before. Kernels before 6.12 take no notice.
pub fn set_time_slice(ns: u64) {
    const ORDINARY: [u32; 2] = [0, 3]; // SCHED_OTHER, SCHED_BATCH
    if let Some(mut attr) = scheduling().filter(|attr| ORDINARY.contains(&attr.policy)) {
        attr.runtime_ns = ns;
        let at = &raw const attr as usize;
        // SAFETY: affects the calling thread alone.
        unsafe { syscall(nr::__NR_sched_setattr, [0, at, 0, 0, 0, 0]) };
    }
}

/// `madvise`, with any advice.
///
/// # Safety
/// As the advice demands.
pub unsafe fn madvise(address: usize, len: usize, advice: c_int) -> isize {
    // SAFETY: the caller answers for the effect.
    unsafe { syscall(nr::__NR_madvise, [address, len, advice as usize, 0, 0, 0]) }
}

/// Which of the first 64 pages of our own `range` are resident (`mincore`). `Err`: some of it is not mapped, and what lies
/// behind counts as not resident.
pub fn resident_if_mapped(range: coldpress_uffd::AddressRange) -> Result<u64, u64> {
    let mut pages = [0u8; 64];
    let len = range.len().min(64 * coldpress_uffd::PAGE_SIZE);
    // SAFETY: the kernel writes one byte a page into the array.
    let result = unsafe {
        syscall(
            nr::__NR_mincore,
            [range.start, len, pages.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    let bits = pages.iter().enumerate();
    let resident = bits.fold(0, |mask, (n, &page)| mask | u64::from(page & 1) << n);
    if result == 0 {
        Ok(resident)
    } else {
        Err(resident)
    }
}

/// Has the kernel read a byte of our own memory at `address` by `process_vm_readv`, which pins the page, as an access of
/// the program's would find it. A page that a fork has shared becomes this process's own by that (as a copy, where
/// another process has it). Nothing is written, whatever lies there. `false`: refused, or nothing can be read there.
pub fn pin_for_a_read(address: usize) -> bool {
    let mut byte = 0u8;
    let into = [(&raw mut byte) as usize, 1];
    let from = [address, 1];
    let args = [
        process_id() as usize,
        into.as_ptr() as usize,
        1,
        from.as_ptr() as usize,
        1,
        0,
    ];
    // SAFETY: the kernel writes one byte, into `byte`.
    unsafe { syscall(nr::__NR_process_vm_readv, args) == 1 }
}

/// Whether a page lies in any mapping.
pub fn is_mapped(address: usize) -> bool {
    let mut page = 0u8;
    let args = [
        address,
        coldpress_uffd::PAGE_SIZE,
        (&raw mut page) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes one byte.
    unsafe { syscall(nr::__NR_mincore, args) == 0 }
}

/// Keeps a range out of core files.
pub const MADV_DONTDUMP: c_int = 16;
/// Keeps huge pages out of a range.
pub const MADV_NOHUGEPAGE: c_int = 15;
/// Gives forked children zeros.
pub const MADV_WIPEONFORK: c_int = 18;
/// Gives forked children the content again.
pub const MADV_KEEPONFORK: c_int = 19;

/// Keeps huge pages out of the whole process, or no longer. `true`: that is new.
pub fn keep_huge_pages_out(out: bool) -> bool {
    const PR_SET_THP_DISABLE: usize = 41;
    const PR_GET_THP_DISABLE: usize = 42;
    // SAFETY: numbers alone; no content changes.
    unsafe {
        let is_out = syscall(nr::__NR_prctl, [PR_GET_THP_DISABLE, 0, 0, 0, 0, 0]);
        is_out == isize::from(!out)
            && syscall(nr::__NR_prctl, [PR_SET_THP_DISABLE, out.into(), 0, 0, 0, 0]) == 0
    }
}

/// A null pointer of the C type.
pub const NULL: *mut c_void = core::ptr::null_mut();

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn a_time_slice_is_taken_and_nothing_else_changes() {
        std::thread::spawn(|| {
            let before = scheduling().expect("sched_getattr");
            set_time_slice(300_000);
            let after = scheduling().expect("sched_getattr");
            // 0: a kernel before 6.12.
            assert!(after.runtime_ns == 300_000 || before.runtime_ns == 0);
            assert_eq!((after.policy, after.nice), (before.policy, before.nice));
        })
        .join()
        .unwrap();
    }
}
