//! Copies of the process that libc's `fork` does not make: `clone` without `CLONE_VM`, and `fork`, `clone` and `clone3`
//! through libc's `syscall`. The hooks of a fork stand around them, too.
//!
//! The kernel is given no other stack for the child: the child's hook runs where the parent was, on the child's copy of
//! that stack, and only then does the child go where it was sent. (Without `CLONE_VM` there is nothing that
//! the two could disturb.)
//!
//! Everything else is handed on with its arguments, registers and stack as they came: a thread that
//! is made by `syscall(SYS_clone, …)` returns on a stack of its own. Two things are seen to before ([`sharing`]): a process
//! that shares the memory may outlive this one, whose threads the pager's are; and the word that the kernel clears when a thread
//! ends has to be in place then.
//!
//! An instruction of the program's own goes by all this. Where the kernel tells the pager of every fork the child is given
//! its content; elsewhere it gets SIGSEGV where content is away (`docs/adr/0003-fork.md`).

use crate::entry;
use crate::the_pager::pager;
use crate::wrapped;
use crate::wrappers::answer;
use coldpress_linux::sys;
use coldpress_pager::machine::message;
use coldpress_pager::space::exclusions::Reason;
use coldpress_uffd::AddressRange;
use core::arch::{asm, naked_asm};
use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use linux_raw_sys::general as nr;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

type Body = extern "C" fn(*mut c_void) -> c_int;
type Clone = unsafe extern "C" fn(
    Option<Body>,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut c_int,
    *mut c_void,
    *mut c_int,
) -> c_int;

const CLONE_VM: usize = nr::CLONE_VM as usize;
const EINVAL: isize = -22;
const VFORK: usize = nr::CLONE_VFORK as usize;

/// Runs `make`, a system call that copies the process and answers 0 in the copy, between the hooks. It is given the flags
/// that it shall have.
///
/// # Safety
/// As that call's. `child_tid` is null, or where the kernel is to write in the child: the page is brought in place
/// first, where the pager's child finds it.
///
/// What is made in a user namespace of its own, as sandboxes are, may want to be a process of one thread: the
/// pager leaves it at once. What it executes then may have one again.
///
/// With `CLONE_VFORK` the kernel would not answer before the child executes something or ends, and the pager would be still
/// for as long. So the child is made without, and waited for behind the hooks.
unsafe fn copy_process(
    flags: usize,
    child_tid: *const c_int,
    make: impl FnOnce(usize) -> isize,
) -> isize {
    // A filter may forbid what that needs.
    let is_waited_for = flags & VFORK != 0 && !pager().is_filtered();
    let line = is_waited_for.then(|| pipe_with(PipeFlags::CLOEXEC));
    let flags_of_child = if is_waited_for { flags & !VFORK } else { flags };
    entry::prepare_plain();
    if !child_tid.is_null() {
        // SAFETY: the program's own place for a number; nothing is taken out between the hooks.
        unsafe { child_tid.cast::<u8>().read_volatile() };
    }
    let result = make(flags_of_child);
    match result {
        0 => {
            entry::child_plain();
            if let Some(Ok((reads, writes))) = line {
                drop(reads);
                // It is closed when the child executes something, or ends.
                let _ = writes.into_raw_fd();
            }
            if flags & nr::CLONE_NEWUSER as usize != 0 {
                pager().leave();
            }
        }
        _ => {
            entry::parent_plain();
            if let Some(Ok((reads, writes))) = line {
                drop(writes);
                wait_for_child(&reads, result);
            }
        }
    }
    result
}

/// Waits until nobody has the other end of the pipe any more, or the child has ended (what it has made may have that end,
/// too). Returns at once where there is no child.
fn wait_for_child(reads: &OwnedFd, child: isize) {
    let child = Pid::from_raw(child.max(0) as i32);
    let Some(Ok(child)) = child.map(|child| pidfd_open(child, PidfdFlags::empty())) else {
        return;
    };
    let mut ends = [
        PollFd::new(reads, PollFlags::IN),
        PollFd::new(&child, PollFlags::IN),
    ];
    while poll(&mut ends, None) == Err(Errno::INTR) {}
}

fn child_tid_of(flags: usize, address: usize) -> *const c_int {
    match flags & nr::CLONE_CHILD_SETTID as usize {
        0 => core::ptr::null(),
        _ => address as *const c_int,
    }
}

/// `clone`. Arguments behind the fourth may be missing; they are handed on as they are found.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    body: Option<Body>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_int,
    tls: *mut c_void,
    child_tid: *mut c_int,
) -> c_int {
    let bits = flags as u32 as usize;
    if bits & CLONE_VM != 0 {
        let Some(real) = wrapped::CLONE.find() else {
            return answer(-38) as c_int;
        };
        sharing(bits, child_tid as usize);
        // SAFETY: libc's function with the program's arguments; on x86_64 it finds those that it was given where
        // any function with seven arguments does.
        return unsafe {
            core::mem::transmute::<NonNull<c_void>, Clone>(real)(
                body, stack, flags, argument, parent_tid, tls, child_tid,
            )
        };
    }
    let (Some(body), false) = (body, stack.is_null()) else {
        return answer(EINVAL) as c_int;
    };
    let args = |bits| {
        let ids = [parent_tid as usize, child_tid as usize];
        [bits, 0, ids[0], ids[1], tls as usize, 0]
    };
    // SAFETY: the program's own call, but for the stack, to which the child goes below.
    let result = unsafe {
        copy_process(bits, child_tid_of(bits, child_tid as usize), |bits| {
            sys::syscall(nr::__NR_clone, args(bits))
        })
    };
    if result == 0 {
        // SAFETY: the child's stack and function, as the program has given them.
        unsafe { run_on(stack, body, argument) }
    }
    answer(result) as c_int
}

/// What shares the program's memory is about to be made.
extern "C" fn sharing(flags: usize, child_tid: usize) {
    const THREAD: usize = nr::CLONE_THREAD as usize;
    const WAITS: usize = nr::CLONE_VFORK as usize;
    const CLEARS: usize = nr::CLONE_CHILD_CLEARTID as usize;
    if flags & (THREAD | WAITS) == 0 && pager().is_expected() {
        let left = pager().leave();
        message::say(format_args!(
            "the program has made a process that shares its memory, and {}",
            match left {
                true => "goes on without compression: that process may outlive it",
                false => "the pager cannot leave: that process must not outlive it",
            }
        ));
    }
    if flags & CLEARS != 0 && child_tid != 0 {
        // The dead wait for no page.
        let word = AddressRange::new(child_tid, size_of::<c_int>());
        pager().keep_in_place(word, Reason::RobustMutex);
    }
}

/// Runs the child's function as libc does: its result is the status of the thread.
///
/// # Safety
/// `stack` is the upper end of memory for a stack.
unsafe fn run_on(stack: *mut c_void, body: Body, argument: *mut c_void) -> ! {
    // SAFETY: nothing of the old stack is used from here on.
    unsafe {
        asm!(
            "mov rsp, rcx",
            "and rsp, -16",
            "xor ebp, ebp",
            "call rdx",
            "mov edi, eax",
            "call {end}",
            "ud2",
            end = sym end,
            in("rcx") stack,
            in("rdx") body,
            in("rdi") argument,
            options(noreturn),
        )
    }
}

extern "C" fn end(status: c_int) -> ! {
    // Natively the process ends with its last thread; the pager's are none of its. (With another thread of its own it
    // ends when that has left, see `departure`.) Where nothing tells it has one: its status would be lost otherwise.
    match pager().threads_of_the_program() {
        Some(2..) => sys::exit_thread_with(status),
        _ => sys::exit_process(status),
    }
}

/// What `syscall` returns, and on which stack; 0: on that it was called on.
#[repr(C)]
struct Returned {
    result: isize,
    stack: usize,
}

/// The arguments of `clone3`, as far as they matter here.
#[repr(C)]
#[derive(Clone, Copy)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    rest: [u64; 3],
}

/// Largest size of the arguments that we know, and the least that the kernel takes.
const CLONE_ARGUMENTS: usize = size_of::<CloneArguments>();
const LEAST_CLONE_ARGUMENTS: usize = 64;

unsafe extern "C" fn copied(
    number: usize,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
) -> Returned {
    // SAFETY: the program's own calls, but for the stack, which `syscall` sets in the child.
    let (result, stack) = unsafe {
        match number as u32 {
            nr::__NR_clone => {
                let call = |a| sys::syscall(nr::__NR_clone, [a, 0, c, d, e, 0]);
                (copy_process(a, child_tid_of(a, d), call), b)
            }
            nr::__NR_clone3 => clone3(a as *const CloneArguments, b),
            number => (
                copy_process(0, core::ptr::null(), |_| sys::syscall(number, [0; 6])),
                0,
            ),
        }
    };
    Returned {
        result: answer(result),
        stack: if result == 0 { stack } else { 0 },
    }
}

unsafe fn clone3(arguments: *const CloneArguments, size: usize) -> (isize, usize) {
    let mut own = CloneArguments {
        flags: 0,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: 0,
        stack: 0,
        stack_size: 0,
        tls: 0,
        rest: [0; 3],
    };
    // SAFETY: `size` bytes of the program's; what is larger than we know is handed on as it is.
    unsafe {
        core::ptr::copy_nonoverlapping(
            arguments.cast::<u8>(),
            (&raw mut own).cast(),
            size.min(CLONE_ARGUMENTS),
        );
        // Fields of a later kernel: only a child that stays on its stack is known to be right. With one of these two alone
        // the kernel refuses.
        let known = size <= CLONE_ARGUMENTS && (own.stack == 0) == (own.stack_size == 0);
        let stack = (own.stack + own.stack_size) as usize;
        let flags = own.flags as usize;
        let child_tid = child_tid_of(flags, own.child_tid as usize);
        (own.stack, own.stack_size) = (0, 0);
        if !known {
            let call = |_| sys::syscall(nr::__NR_clone3, [arguments as usize, size, 0, 0, 0, 0]);
            return (copy_process(flags & !VFORK, child_tid, call), 0);
        }
        let call = |flags| {
            own.flags = flags as u64;
            let args = [(&raw const own) as usize, size, 0, 0, 0, 0];
            sys::syscall(nr::__NR_clone3, args)
        };
        (copy_process(flags, child_tid, call), stack)
    }
}

/// `syscall` with the number of `fork`, `clone` or `clone3`, jumped to from there.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn by_number() {
    naked_asm!(
        "cmp rdi, {clone}",
        "je 40f",
        "cmp rdi, {clone3}",
        "je 20f",
        "30:",
        "sub rsp, 8",
        "call {copied}",
        "add rsp, 8",
        "test rdx, rdx",
        "jz 70f",
        "mov rsp, rdx",
        "70:",
        "ret",
        "40:",
        "test rsi, {vm}",
        "jz 30b",
        "mov r10, r8",
        "mov rax, rsi",
        "50:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "mov rdi, rax",
        "mov rsi, r10",
        "call {sharing}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp {as_libc}",
        // The kernel refuses what is shorter, or nowhere.
        "20:",
        "cmp rdx, {least}",
        "jb {as_libc}",
        "test rsi, rsi",
        "jz {as_libc}",
        "test dword ptr [rsi], {vm}",
        "jz 30b",
        "mov rax, [rsi]",
        "mov r10, [rsi + 16]",
        "jmp 50b",
        clone = const nr::__NR_clone,
        clone3 = const nr::__NR_clone3,
        vm = const nr::CLONE_VM,
        least = const LEAST_CLONE_ARGUMENTS,
        as_libc = sym crate::system_call::as_libc,
        copied = sym copied,
        sharing = sym sharing,
    )
}
