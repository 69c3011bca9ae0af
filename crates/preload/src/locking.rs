//! `mlockall`, which must not reach into the pager's own memory.
//!
//! The kernel would count it against the program's limit, back what is mapped ahead, and neither take it back nor move
//! pages to it as long as it is locked. So each mapping of the program is locked by a call of its own, and the kernel
//! is asked itself for what is mapped later. This holds from the pager's first mapping on, also while it waits with
//! starting. (An `mlockall` behind libc's back reaches the pager's memory; that notices, and unlocks it.)

use crate::the_pager::pager;
use crate::wrappers::answer;
use coldpress_linux::maps;
use coldpress_linux::sys;
use coldpress_pager::machine::run_file;
use coldpress_pager::space::windows::ADDRESS_LIMIT;
use coldpress_uffd::AddressRange;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use linux_raw_sys::general as nr;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

const CURRENT: c_int = 1;
const FUTURE: c_int = 2;
const ON_FAULT: c_int = 4;
const MLOCK_ON_FAULT: usize = 1;
const ASYNC: usize = 1;
const EPERM: isize = -1;
const EAGAIN: isize = -11;
const ENOMEM: isize = -12;

fn call(number: u32, args: [usize; 3]) -> isize {
    let [a, b, c] = args;
    // SAFETY: locking and unlocking memory changes none of its content.
    unsafe { sys::syscall(number, [a, b, c, 0, 0, 0]) }
}

/// `mlockall`, of the program's memory.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    let known = flags & !(CURRENT | FUTURE | ON_FAULT) == 0;
    let result = match known && flags & CURRENT != 0 && !pager().host.memory.range().is_empty() {
        true => lock_all(flags),
        false => {
            let result = call(nr::__NR_mlockall, [flags as usize, 0, 0]);
            if result == 0 && flags & FUTURE != 0 {
                SAID_OF_FUTURE.store(true, Relaxed);
            }
            result
        }
    };
    answer(result) as c_int
}

fn lock_all(flags: c_int) -> isize {
    // As the kernel does, before anything is changed.
    let mut bytes = 0;
    if let Err(error) = for_each_own(|range| bytes += range.len() as u64) {
        return error;
    }
    if bytes > limit() && !may_lock() {
        return if limit() == 0 { EPERM } else { ENOMEM };
    }
    let future = flags & !CURRENT;
    let was_said = SAID_OF_FUTURE.swap(flags & FUTURE != 0, Relaxed);
    let result = match flags & FUTURE {
        0 if !was_said => 0,
        // What was said of the future before counts no more. There is no other way to say so; what this
        // unlocks is locked again below.
        0 => call(nr::__NR_munlockall, [0; 3]),
        _ => call(nr::__NR_mlockall, [future as usize, 0, 0]),
    };
    if result != 0 {
        return result;
    }
    let mut refused = 0;
    let read = for_each_own(|range| {
        if refused == 0 {
            refused = lock(range, flags & ON_FAULT == 0);
        }
    });
    // What was locked on the way stays so, as the kernel leaves it.
    match (refused, read) {
        (0, Ok(())) => 0,
        (0, Err(error)) => error,
        _ => refused,
    }
}

/// `mlockall(MCL_FUTURE)` was called last.
static SAID_OF_FUTURE: AtomicBool = AtomicBool::new(false);

/// Calls `with` for each mapping that is not the pager's.
fn for_each_own(mut with: impl FnMut(AddressRange)) -> Result<(), isize> {
    let open = OFlags::RDONLY | OFlags::CLOEXEC;
    let maps = rustix::fs::open(maps::PATH, open, Mode::empty()).map_err(|_| EAGAIN)?;
    let own = pager().host.memory.range();
    let mut buffer = [0u8; maps::BUFFER_BYTES];
    let read = maps::for_each_line(maps.as_fd(), &mut buffer, |line| {
        let Some(mapping) = maps::parse(line) else {
            return;
        };
        let ours = [own, run_file::range()];
        let is_ours = ours
            .iter()
            .any(|own| !mapping.range.intersect(*own).is_empty());
        if mapping.range.end <= ADDRESS_LIMIT && !is_ours {
            with(mapping.range);
        }
    });
    read.map_err(|_| EAGAIN)
}

/// Bytes that a program without a right to more may lock.
fn limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Memlock)
        .current
        .unwrap_or(u64::MAX)
}

/// Whether the program may lock any amount (CAP_IPC_LOCK).
fn may_lock() -> bool {
    const VERSION: u32 = 0x2008_0522;
    const IPC_LOCK: u32 = 1 << 14;
    let mut header = [VERSION, 0];
    // Effective, permitted, inheritable; twice.
    let mut sets = [0u32; 6];
    let args = [
        (&raw mut header) as usize,
        (&raw mut sets) as usize,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads two words and writes six.
    let result = unsafe { sys::syscall(nr::__NR_capget, args) };
    result == 0 && sets[0] & IPC_LOCK != 0
}

/// Locks a mapping. Only the limit can be in the way of the first call, or that the mapping is no longer
/// there; what cannot be populated (memory that is closed to all) is passed over, as `mlockall` does.
fn lock(range: AddressRange, populate: bool) -> isize {
    let result = call(nr::__NR_mlock2, [range.start, range.len(), MLOCK_ON_FAULT]);
    if result == 0 && populate {
        call(nr::__NR_mlock, [range.start, range.len(), 0]);
    }
    let is_there = || call(nr::__NR_msync, [range.start, range.len(), ASYNC]) == 0;
    match result == ENOMEM && !is_there() {
        true => 0,
        false => result,
    }
}
