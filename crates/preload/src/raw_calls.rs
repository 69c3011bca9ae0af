//! `syscall` and `prctl`: calls that have no function of their own in libc.
//!
//! Seccomp filters are installed by them: one that the pager cannot live with makes it leave before
//! ([`filter`](coldpress_linux::filter)). Futexes are used by them: where the kernel takes the word of a futex without
//! waiting for it (locks that lend priority, `FUTEX_WAKE_OP`), a word that is away gives EFAULT, and the call is made
//! again with the word in place. And what libc has functions for, which the library stands in for, is the same by number.
//!
//! All other calls are made as libc's own `syscall` makes them, without using the stack: `vfork` and `clone` by number
//! return twice.
//!
//! A program that has the instruction itself, without libc, passes all of this by.

use crate::the_pager::pager;
use crate::wrappers::answer;
use crate::{environment, libc_symbols};
use coldpress_linux::filter::{self, Instruction, Scope, Verdict};
use coldpress_linux::sys;
use coldpress_pager::machine::message;
use coldpress_pager::space::exclusions::Reason;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use linux_raw_sys::general as nr;

/// `syscall`. In C it takes any number of arguments; that is the same in registers and on the stack.
///
/// # Safety
/// As the call.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    core::arch::naked_asm!(
        "cmp rdi, {fork}",
        "je {copies}",
        "cmp rdi, {clone}",
        "je {copies}",
        "cmp rdi, {clone3}",
        "je {copies}",
        "cmp rdi, {futex}",
        "je {special}",
        "cmp rdi, {seccomp}",
        "je {special}",
        "cmp rdi, {madvise}",
        "je {special}",
        "cmp rdi, {process_madvise}",
        "je {special}",
        "cmp rdi, {ioctl}",
        "je {special}",
        "cmp rdi, {mremap}",
        "je {special}",
        "cmp rdi, {shmat}",
        "je {special}",
        "cmp rdi, {sigaltstack}",
        "je {special}",
        "cmp rdi, {set_tid_address}",
        "je {special}",
        "cmp rdi, {mlockall}",
        "je {special}",
        "cmp rdi, {unshare}",
        "je {special}",
        "cmp rdi, {setns}",
        "je {special}",
        "cmp rdi, {prctl}",
        "je {special}",
        "jmp {as_libc}",
        fork = const nr::__NR_fork,
        clone = const nr::__NR_clone,
        clone3 = const nr::__NR_clone3,
        futex = const nr::__NR_futex,
        seccomp = const nr::__NR_seccomp,
        madvise = const nr::__NR_madvise,
        process_madvise = const nr::__NR_process_madvise,
        ioctl = const nr::__NR_ioctl,
        mremap = const nr::__NR_mremap,
        shmat = const nr::__NR_shmat,
        sigaltstack = const nr::__NR_sigaltstack,
        set_tid_address = const nr::__NR_set_tid_address,
        mlockall = const nr::__NR_mlockall,
        unshare = const nr::__NR_unshare,
        setns = const nr::__NR_setns,
        prctl = const nr::__NR_prctl,
        special = sym special,
        copies = sym crate::clones::by_number,
        as_libc = sym crate::system_call::as_libc,
    )
}

/// The calls that are more than a call. The last argument lies on the stack, whether the program has given it or not.
unsafe extern "C" fn special(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: as libc's functions of these names; the arguments are the program's.
    unsafe {
        (match number as u32 {
            nr::__NR_futex => answer(futex([a, b, c, d, e, f])),
            nr::__NR_seccomp => answer(seccomp(a, b, c)),
            nr::__NR_prctl => prctl(a as c_int, b, c, d, e) as isize,
            nr::__NR_madvise => crate::wrappers::madvise(a as *mut c_void, b, c as c_int) as isize,
            nr::__NR_process_madvise => crate::wrappers::process_madvise(
                a as c_int,
                b as *const _,
                c,
                d as c_int,
                e as c_uint,
            ),
            nr::__NR_ioctl => {
                crate::wrappers::ioctl(a as c_int, b as c_ulong, c as *mut c_void) as isize
            }
            nr::__NR_mremap => {
                let (old, new) = (a as *mut c_void, e as *mut c_void);
                crate::wrappers::mremap(old, b, c, d as c_int, new) as isize
            }
            nr::__NR_shmat => {
                crate::shared_memory::shmat(a as c_int, b as *const c_void, c as c_int) as isize
            }
            nr::__NR_sigaltstack => {
                crate::wrappers::sigaltstack(a as *const _, b as *mut _) as isize
            }
            nr::__NR_set_tid_address => set_tid_address(a),
            nr::__NR_mlockall => crate::locking::mlockall(a as c_int) as isize,
            nr::__NR_unshare => crate::namespaces::unshare(a as c_int) as isize,
            _ => crate::namespaces::setns(a as c_int, b as c_int) as isize,
        }) as c_long
    }
}

/// The kernel clears the word when the thread ends, and does not wait for a page that is away then.
fn set_tid_address(word: usize) -> isize {
    pager().keep_in_place(
        AddressRange::new(word, size_of::<c_int>()),
        Reason::RobustMutex,
    );
    // SAFETY: the call keeps the address, and writes there when the thread ends, as the program asked for.
    unsafe { sys::syscall(nr::__NR_set_tid_address, [word, 0, 0, 0, 0, 0]) }
}

const EFAULT: isize = -14;

/// How often a word is brought back that is taken again before the kernel comes to it.
const ATTEMPTS: u32 = 100;

const WAKE_OP: usize = 5;
const LOCK_PI: usize = 6;
const UNLOCK_PI: usize = 7;
const TRYLOCK_PI: usize = 8;
const WAIT_REQUEUE_PI: usize = 11;
const CMP_REQUEUE_PI: usize = 12;
const LOCK_PI2: usize = 13;
/// `FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME`.
const FLAGS: usize = 128 | 256;

/// A futex call; again with its words in place, where the kernel has not waited for them. (It says EFAULT before
/// it has done anything.)
unsafe fn futex(arguments: [usize; 6]) -> isize {
    let [word, operation, .., second, _] = arguments;
    let second = match operation & !FLAGS {
        LOCK_PI | UNLOCK_PI | TRYLOCK_PI | LOCK_PI2 => word,
        WAKE_OP | WAIT_REQUEUE_PI | CMP_REQUEUE_PI => second,
        // SAFETY: the program's own call.
        _ => return unsafe { sys::syscall(nr::__NR_futex, arguments) },
    };
    let mut attempt = 0;
    loop {
        // What waits for one word and then takes another must not fail at that.
        if operation & !FLAGS == WAIT_REQUEUE_PI {
            bring(second);
        }
        // SAFETY: the program's own call.
        let result = unsafe { sys::syscall(nr::__NR_futex, arguments) };
        attempt += 1;
        if result != EFAULT || attempt > ATTEMPTS || !bring(word) || !bring(second) {
            return result;
        }
    }
}

const MADV_POPULATE_WRITE: c_int = 23;

/// Whether the page of this address is, or comes, in place to be written.
fn bring(address: usize) -> bool {
    let page = address & !(PAGE_SIZE - 1);
    // SAFETY: changes no content.
    unsafe { sys::madvise(page, PAGE_SIZE, MADV_POPULATE_WRITE) == 0 }
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    filter: *const Instruction,
}

const SET_MODE_FILTER: usize = 1;
const FLAG_TSYNC: usize = 1;
const FLAG_NEW_LISTENER: usize = 8;
const PR_SET_SECCOMP: c_int = 22;
const MODE_FILTER: usize = 2;
const PR_SET_TSC: c_int = 26;
const TSC_SIGSEGV: usize = 2;

/// `seccomp`, before which the pager leaves where the filter would harm it.
unsafe fn seccomp(operation: usize, flags: usize, program: usize) -> isize {
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::syscall(nr::__NR_seccomp, [operation, flags, program, 0, 0, 0]) }
    };
    let scope = if flags & FLAG_TSYNC != 0 {
        Scope::AllThreads
    } else {
        Scope::OneThread
    };
    match operation {
        // SAFETY: the program's own filter.
        SET_MODE_FILTER => unsafe { install(program, scope, flags & FLAG_NEW_LISTENER != 0, call) },
        _ => call(),
    }
}

/// `prctl`: for filters, and for what forbids the vDSO's clocks.
///
/// # Safety
/// As libc's. Arguments that the option does not have are not read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    let call = || {
        // SAFETY: the program's own call.
        unsafe { sys::syscall(nr::__NR_prctl, [option as usize, a, b, c, d, 0]) }
    };
    answer(match (option, a) {
        // SAFETY: the program's own filter.
        (PR_SET_SECCOMP, MODE_FILTER) => unsafe { install(b, Scope::OneThread, false, call) },
        (PR_SET_TSC, TSC_SIGSEGV) => {
            sys::leave_the_counter();
            call()
        }
        _ => call(),
    }) as c_int
}

/// Installs a filter; where it `listens` the kernel answers with a descriptor, otherwise with 0, or a thread that has
/// another filter.
unsafe fn install(
    program: usize,
    scope: Scope,
    listens: bool,
    call: impl FnOnce() -> isize,
) -> isize {
    if !pager().is_expected() || program < PAGE_SIZE {
        return call();
    }
    // SAFETY: what the program gives the kernel is readable, or the kernel would refuse it.
    let filter = unsafe {
        let program = &*(program as *const Program);
        let len = usize::from(program.len);
        if program.filter.is_null() || len == 0 || len > filter::LONGEST {
            return call();
        }
        core::slice::from_raw_parts(program.filter, len)
    };
    let block = libc_symbols::environment();
    if !block.is_null() && filter::kills_after_exec(filter, pager().tier.write_back()) {
        // SAFETY: the program is in this call. Where other threads of it look a variable up meanwhile they see each
        // entry or the one behind it.
        unsafe { environment::leave(block) };
    }
    // The filter of a child of `vfork` is that child's.
    if !pager().is_of_this_process() {
        return call();
    }
    match pager().judge_filter(filter, scope) {
        Verdict::Bearable => call(),
        Verdict::Forbids(number) => {
            message::say(format_args!(
                "the program goes on without compression: it installs a seccomp filter that forbids system call \
                 {number}, which the pager needs"
            ));
            let is_installed = |result| result == 0 || listens && result > 0;
            pager().absent_from_now_on(call, is_installed)
        }
    }
}
