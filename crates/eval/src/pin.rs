//! Keeps the measuring thread on one processor.

use crate::Error;
use std::io;

/// Pins the calling thread to `cpu`, or to the processor that it runs on; returns which.
pub(crate) fn pin(cpu: Option<usize>) -> Result<usize, Error> {
    // SAFETY: takes nothing; -1 on failure.
    let here = unsafe { libc::sched_getcpu() };
    let cpu = cpu.unwrap_or(here.max(0) as usize);
    // SAFETY: zeros are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let pinned = cpu < 8 * size_of::<libc::cpu_set_t>() && {
        // SAFETY: the number is inside the set, as just checked; the set is valid.
        unsafe {
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
        }
    };
    match pinned {
        true => Ok(cpu),
        false => Err(Error::Pin {
            cpu,
            error: io::Error::last_os_error(),
        }),
    }
}
