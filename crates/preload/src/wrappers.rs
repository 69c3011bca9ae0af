//! The libc functions by which a program tells the kernel what the pager must know too.
//!
//! Each makes the system call itself, as libc's does. A program that bypasses libc bypasses
//! these; what then still holds stands in `docs/adr/0003-fork.md` and HAZARDS' tests.

use crate::the_pager::pager;
use crate::{libc_symbols, piecewise, wrapped};
use coldpress_linux::sys;
use coldpress_pager::space::exclusions::{OldPlace, Reason};
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use core::ffi::{CStr, c_int, c_uint, c_ulong, c_void};
use core::ptr::NonNull;
use linux_raw_sys::general as nr;
use rustix::fs::{Mode, OFlags};

const EFAULT: isize = -14;
const ENOMEM: isize = -12;
const EBUSY: isize = -16;
const ENOENT: isize = -2;
const EINVAL: isize = -22;
const UFFDIO_REGISTER: c_ulong = 0xC020_AA00;
const UFFDIO_MOVE: c_ulong = 0xC028_AA05;
const MADV_GUARD_INSTALL: c_int = 102;

/// Turns a raw result into libc's: -1 and `errno`.
pub(crate) fn answer(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        libc_symbols::set_errno(-result as c_int);
        return -1;
    }
    result
}

/// `sigaltstack`, whose stacks are never evicted.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const Stack, old: *mut Stack) -> c_int {
    let mut previous = Stack {
        start: core::ptr::null_mut(),
        flags: DISABLE,
        bytes: 0,
    };
    let args = [new as usize, (&raw mut previous) as usize, 0, 0, 0, 0];
    // SAFETY: the program's own call; what it asks of the old stack is given to it below.
    let result = unsafe { sys::syscall(nr::__NR_sigaltstack, args) };
    if result != 0 {
        return answer(result) as c_int;
    }
    if !new.is_null() {
        // That of a thread which has only made a child of `vfork` stays its own.
        if previous.flags & DISABLE == 0 && pager().is_of_this_process() {
            let range = AddressRange::new(previous.start as usize, previous.bytes);
            pager().include(range, Reason::AlternateStack);
        }
        // SAFETY: the kernel has just read it.
        let stack = unsafe { &*new };
        if stack.flags & DISABLE == 0 {
            let range = AddressRange::new(stack.start as usize, stack.bytes);
            pager().keep_in_place(range, Reason::AlternateStack);
        }
    }
    if !old.is_null() {
        // SAFETY: the program's own place for it.
        unsafe { old.write(previous) };
    }
    0
}

const DISABLE: c_int = 2;

/// `stack_t`.
#[repr(C)]
pub struct Stack {
    start: *mut c_void,
    flags: c_int,
    bytes: usize,
}

/// `madvise`, which may say how memory passes through a fork.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    // SAFETY: the program's own call, or a part of what it was for.
    let advise = |part: AddressRange| unsafe { sys::madvise(part.start, part.len(), advice) };
    let range = AddressRange::new(address as usize, len);
    let result = match advice {
        MADV_GUARD_INSTALL => install_guards(range, advise),
        _ => advise(range),
    };
    if is_noted(advice) {
        was_advised(followed(range, result, advise), advice);
    }
    answer(result) as c_int
}

/// Has guards installed by `advise`, and forgets what they drop.
fn install_guards(range: AddressRange, advise: impl Fn(AddressRange) -> isize) -> isize {
    pager().drop_unannounced(range, |forget| {
        let result = advise(range);
        let guarded = followed(range, result, &advise);
        if !guarded.is_empty() {
            forget(guarded.whole_pages());
        }
        result
    })
}

/// Whether the kernel tells no userfaultfd of this advice, and it must be known.
fn is_noted(advice: c_int) -> bool {
    use sys::{MADV_DOFORK, MADV_DONTFORK, MADV_KEEPONFORK, MADV_WIPEONFORK};
    matches!(
        advice,
        MADV_DONTFORK | MADV_DOFORK | MADV_WIPEONFORK | MADV_KEEPONFORK
    )
}

/// As much of a range as the kernel has followed an advice in, to which this was its answer. A hole is passed over, and
/// told of at the end; at what cannot have the advice it stops, and what lies before has it. How far it came it does not
/// tell: `again` gives the advice to parts of the range once more, which changes nothing there.
fn followed(
    range: AddressRange,
    result: isize,
    again: impl Fn(AddressRange) -> isize,
) -> AddressRange {
    const MANY_PAGES: usize = 512 * PAGE_SIZE;
    if range.is_empty() || matches!(result, 0 | ENOMEM) {
        return range;
    }
    let mut done = AddressRange {
        end: range.start,
        ..range
    };
    for step in [MANY_PAGES, PAGE_SIZE] {
        while done.end < range.end {
            let part = AddressRange::new(done.end, step.min(range.end - done.end));
            if !matches!(again(part), 0 | ENOMEM) {
                break;
            }
            done.end = part.end;
        }
    }
    done
}

/// Takes note of it.
fn was_advised(range: AddressRange, advice: c_int) {
    if range.is_empty() {
        return;
    }
    match advice {
        sys::MADV_DONTFORK => pager().keep_from_children(range),
        sys::MADV_WIPEONFORK => pager().exclude(range, Reason::WipedInChild),
        sys::MADV_DOFORK => pager().let_children_inherit(range),
        sys::MADV_KEEPONFORK => pager().keep_in_children(range),
        _ => {}
    }
}

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    start: usize,
    len: usize,
}

/// `process_madvise`, which may be about the process itself.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn process_madvise(
    process: c_int,
    parts: *const Part,
    count: usize,
    advice: c_int,
    flags: c_uint,
) -> isize {
    let args = [
        process as usize,
        parts as usize,
        count,
        advice as usize,
        flags as usize,
        0,
    ];
    if advice == MADV_GUARD_INSTALL && is_this_process(process) {
        // SAFETY: as the caller promises.
        return answer(unsafe { guard_parts(args, parts, count) });
    }
    // SAFETY: the program's own call.
    let result = unsafe { sys::syscall(nr::__NR_process_madvise, args) };
    let has_read_list = result >= 0 || matches!(result, ENOMEM | EINVAL) && flags == 0;
    if is_noted(advice) && has_read_list && count <= MOST_PARTS && is_this_process(process) {
        let mut rest = result.max(0) as usize;
        for n in 0..count {
            // SAFETY: the kernel has read the list.
            let part = unsafe { parts.add(n).read() };
            let is_whole = part.len <= rest;
            let answered = if is_whole { 0 } else { EINVAL };
            // SAFETY: the program's own call, for a part of what it was for.
            let again = |part| unsafe { advise_part(args, part) };
            let range = AddressRange::new(part.start, part.len.min(isize::MAX as usize));
            was_advised(followed(range, answered, again), advice);
            if !is_whole {
                break;
            }
            rest -= part.len;
        }
    }
    answer(result)
}

/// `UIO_MAXIOV`.
const MOST_PARTS: usize = 1024;

/// `process_madvise` for a range of this process, otherwise with these arguments: 0 where it is followed.
///
/// # Safety
/// As `process_madvise`.
unsafe fn advise_part(mut args: [usize; 6], range: AddressRange) -> isize {
    let part = Part {
        start: range.start,
        len: range.len(),
    };
    (args[1], args[2]) = ((&raw const part) as usize, 1);
    // SAFETY: as the caller promises.
    match unsafe { sys::syscall(nr::__NR_process_madvise, args) } {
        followed if followed > 0 => 0,
        refused => refused,
    }
}

/// `process_madvise` of this process that installs guards, part by part: what the kernel reads with the gate closed must
/// not be away, as the program's own list may be.
///
/// # Safety
/// As `process_madvise`.
unsafe fn guard_parts(args: [usize; 6], parts: *const Part, count: usize) -> isize {
    let mut done = 0;
    for n in 0..count {
        // SAFETY: the program's list, as the caller promises.
        let part = unsafe { parts.add(n).read() };
        let range = AddressRange::new(part.start, part.len);
        // SAFETY: the program's own call, of one part, or a part of it.
        let advise = |part| unsafe { advise_part(args, part) };
        let result = install_guards(range, advise);
        if result < 0 {
            return if done > 0 { done } else { result };
        }
        done += part.len as isize;
    }
    done
}

/// Whether a descriptor of a process stands for this one.
fn is_this_process(descriptor: c_int) -> bool {
    // PIDFD_SELF_THREAD, PIDFD_SELF_THREAD_GROUP
    if matches!(descriptor, -10000 | -10001) {
        return true;
    }
    let mut path = [0u8; 40];
    let mut text = [0u8; 512];
    let begin = b"/proc/self/fdinfo/";
    path[..begin.len()].copy_from_slice(begin);
    let digits = decimal(descriptor as u32, &mut path[begin.len()..]);
    let Ok(path) = CStr::from_bytes_until_nul(&path[..=begin.len() + digits]) else {
        return false;
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let told = rustix::fs::open(path, flags, Mode::empty())
        .and_then(|file| rustix::io::read(&file, &mut text));
    let Ok(len) = told else { return false };
    let pid = text[..len]
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Pid:\t"));
    let mut own = [0u8; 12];
    let digits = decimal(sys::process_id(), &mut own);
    pid == Some(&own[..digits])
}

/// Writes a number in decimal. Returns how many digits it has.
fn decimal(number: u32, into: &mut [u8]) -> usize {
    let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut rest = number;
    for digit in into[..digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

/// `ioctl`, for two requests: a program's own userfaultfd asks for memory that the pager has
/// registered, or moves pages of which some are away. It gets them; the memory is managed no longer.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    let args = [fd as usize, request as usize, argument as usize, 0, 0, 0];
    // SAFETY: the program's own call.
    let mut result = unsafe { sys::syscall(nr::__NR_ioctl, args) };
    // The kernel takes 32 bits; what has been an `int` on the way is extended by its sign.
    let wanted = match (c_ulong::from(request as u32), result) {
        // SAFETY: the kernel has read the range at the head of the structure.
        (UFFDIO_REGISTER, EBUSY) => unsafe {
            let [start, len] = argument.cast::<[usize; 2]>().read();
            Some(AddressRange::new(start, len))
        },
        // EINVAL: the source is not one mapping any more, since a part of it is registered.
        // SAFETY: the kernel has read destination, source and length at the head of the structure.
        (UFFDIO_MOVE, ENOENT | EINVAL) => unsafe {
            let [_, source, len] = argument.cast::<[usize; 3]>().read();
            let sound = source.checked_add(len).is_some() && source % PAGE_SIZE == 0;
            sound.then(|| AddressRange::new(source, len))
        },
        _ => None,
    };
    if let Some(range) = wanted
        && pager().surrender(range)
    {
        // SAFETY: again the program's own call.
        result = unsafe { sys::syscall(nr::__NR_ioctl, args) };
    }
    answer(result) as c_int
}

/// `mremap`, of memory that registration must not have split (see `Pager::unsplit`), or that is
/// moved in the pieces that it was split into.
///
/// # Safety
/// As libc's. The fifth argument is read only with the flags that make it count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    let args = [
        old as usize,
        old_len,
        new_len,
        flags as usize,
        new as usize,
        0,
    ];
    let range = AddressRange::new(old as usize, old_len);
    // SAFETY: the program's own call, or the same in pieces.
    let call = || unsafe {
        // A child that the pager is filling has parts of its memory registered, at which the kernel would stop halfway.
        let result = match pager().was_running() && !pager().is_running() {
            true => EFAULT,
            false => sys::syscall(nr::__NR_mremap, args),
        };
        match result {
            EFAULT if pager().has_run() && old_len > 0 => {
                piecewise::mremap(range.whole_pages(), new_len, flags, new as usize)
            }
            result => result,
        }
    };
    let moving = AddressRange::new(range.start, old_len.min(new_len)).whole_pages();
    let result = pager().unsplit(range, moving, || {
        let result = call();
        if result >= 0 && old_len > 0 {
            let to = AddressRange::new(result as usize, new_len).whole_pages();
            let old_place = match flags & DONT_UNMAP {
                0 => OldPlace::Unmapped,
                _ => OldPlace::Kept,
            };
            let from = range.whole_pages();
            pager().remapped(from, to, old_place);
        }
        result
    });
    answer(result) as *mut c_void
}

/// `MREMAP_DONTUNMAP`.
const DONT_UNMAP: c_int = 4;

type Thread = extern "C" fn(*mut c_void) -> *mut c_void;
type CreateThread =
    unsafe extern "C" fn(*mut usize, *const c_void, Option<Thread>, *mut c_void) -> c_int;

/// `pthread_create`: the control block of a thread, which libc keeps at the top of its stack, is
/// never evicted; nor after the thread has gone, since libc keeps stacks for the next and links
/// them in the child of a fork before any hook runs.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut usize,
    attributes: *const c_void,
    start: Option<Thread>,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = wrapped::PTHREAD_CREATE.find() else {
        return 11; // EAGAIN: as where there are no resources for a thread
    };
    // SAFETY: libc's function has this type; the arguments are the program's.
    let result = unsafe {
        core::mem::transmute::<NonNull<c_void>, CreateThread>(real)(
            thread, attributes, start, argument,
        )
    };
    if result == 0 {
        // SAFETY: libc has written the thread's handle.
        keep_control_block(unsafe { thread.read() });
    }
    result
}

/// A thread's handle is the address of its control block.
fn keep_control_block(handle: usize) {
    pager().keep_control_block(handle);
}

type StartC11 = extern "C" fn(*mut c_void) -> c_int;
type CreateC11 = unsafe extern "C" fn(*mut usize, Option<StartC11>, *mut c_void) -> c_int;

/// `thrd_create`, which libc does not make by way of [`pthread_create`].
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut usize,
    start: Option<StartC11>,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = wrapped::THRD_CREATE.find() else {
        return 2; // thrd_error
    };
    // SAFETY: libc's function has this type; the arguments are the program's.
    let result = unsafe {
        core::mem::transmute::<NonNull<c_void>, CreateC11>(real)(thread, start, argument)
    };
    if result == 0 {
        // SAFETY: libc has written the thread's handle.
        keep_control_block(unsafe { thread.read() });
    }
    result
}

/// `_Fork`, which libc's own hooks pass by.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> c_int {
    let Some(real) = wrapped::PLAIN_FORK.find() else {
        return answer(-38) as c_int;
    };
    crate::entry::prepare_plain();
    // SAFETY: libc's `_Fork` takes nothing and returns a process id.
    let child =
        unsafe { core::mem::transmute::<NonNull<c_void>, extern "C" fn() -> c_int>(real)() };
    match child {
        0 => crate::entry::child_plain(),
        _ => crate::entry::parent_plain(),
    }
    child
}
