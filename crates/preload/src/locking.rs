//! `mlockall`, which must not reach into the pager's own memory.
//!
//! The pager's memory is one reservation, larger than the machine's memory, of which the kernel backs what is
//! touched. `mlockall` would back all of it: the machine would be out of memory. So each mapping of the
//! program is locked by a call of its own, and the kernel is asked itself for what is mapped later.

use crate::wrappers::answer;
use coldpress_runtime::windows::ADDRESS_LIMIT;
use coldpress_runtime::{maps, pager, sys};
use coldpress_uffd::AddressRange;
use core::ffi::c_int;
use linux_raw_sys::general as nr;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};

const CURRENT: c_int = 1;
const FUTURE: c_int = 2;
const ON_FAULT: c_int = 4;
const MLOCK_ON_FAULT: usize = 1;
const ASYNC: usize = 1;
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
    let result = match known && flags & CURRENT != 0 && pager().is_running() {
        true => lock_all(flags),
        false => call(nr::__NR_mlockall, [flags as usize, 0, 0]),
    };
    answer(result) as c_int
}

fn lock_all(flags: c_int) -> isize {
    let future = flags & !CURRENT;
    let result = match flags & FUTURE {
        // What was said of the future before counts no more.
        0 => call(nr::__NR_munlockall, [0; 3]),
        _ => call(nr::__NR_mlockall, [future as usize, 0, 0]),
    };
    if result != 0 {
        return result;
    }
    let open = OFlags::RDONLY | OFlags::CLOEXEC;
    let Ok(maps) = rustix::fs::open(c"/proc/self/maps", open, Mode::empty()) else {
        return EAGAIN;
    };
    let own = pager().host.memory.range();
    let mut buffer = [0u8; 8192];
    let mut refused = 0;
    let read = maps::for_each_line(maps.as_fd(), &mut buffer, |line| {
        let Some(mapping) = maps::parse(line) else {
            return;
        };
        let AddressRange { start, end } = mapping.range;
        if refused == 0 && end <= ADDRESS_LIMIT {
            // The kernel may have joined a mapping of the program to the reservation.
            let before = AddressRange {
                start,
                end: end.min(own.start),
            };
            let behind = AddressRange {
                start: start.max(own.end),
                end,
            };
            for part in [before, behind] {
                if part.start < part.end && refused == 0 {
                    refused = lock(part, flags & ON_FAULT == 0);
                }
            }
        }
    });
    if refused != 0 || read.is_err() {
        call(nr::__NR_munlockall, [0; 3]);
        return if refused != 0 { refused } else { EAGAIN };
    }
    0
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
