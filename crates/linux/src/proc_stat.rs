//! Files of `/proc` that hold numbers: `stat` and `schedstat` of the process and its threads (`proc_pid_stat(5)`).

use crate::text::Text;
use core::fmt::Write;
use rustix::fs::{Mode, OFlags};

/// A numeric field (counted from 1) of a `stat` file.
pub fn stat_field(path: &core::ffi::CStr, field: usize) -> Option<u64> {
    let mut buffer = [0u8; 1024];
    let line = read_file(path, &mut buffer)?;
    // The command may hold anything; it ends with the last parenthesis, and is field 2.
    let after = line.iter().rposition(|&c| c == b')')? + 2;
    let mut fields = line.get(after..)?.split(|&c| c == b' ');
    let text = core::str::from_utf8(fields.nth(field - 3)?).ok()?;
    text.trim().parse().ok()
}

/// The system call that a thread sleeps in, with its arguments, by a `syscall` file (`proc_pid_syscall(5)`). `None` where it
/// runs or is in none.
pub fn call(path: &core::ffi::CStr) -> Option<(u64, [usize; 6])> {
    let mut buffer = [0u8; 256];
    let text = core::str::from_utf8(read_file(path, &mut buffer)?).ok()?;
    let mut fields = text.split_ascii_whitespace();
    let number = fields.next()?.parse().ok()?;
    let mut arguments = [0; 6];
    for argument in &mut arguments {
        let digits = fields.next()?.strip_prefix("0x")?;
        *argument = usize::from_str_radix(digits, 16).ok()?;
    }
    Some((number, arguments))
}

/// What the kernel counts processor time of threads in.
pub const TICK_NS: u64 = 10_000_000;

/// User time of the process, in nanoseconds, those of its threads included that have ended.
pub fn process_user_ns() -> u64 {
    stat_field(c"/proc/self/stat", 14).unwrap_or(0) * TICK_NS
}

/// For how long a thread was ready to run and had no processor, in nanoseconds, and how often it was given one. Nothing
/// where the kernel does not keep count (`CONFIG_SCHED_INFO`).
pub fn ready(thread: u32) -> Option<(u64, u64)> {
    let mut path = Text::<64>::default();
    let _ = write!(path, "/proc/self/task/{thread}/schedstat");
    let mut buffer = [0u8; 128];
    let text = read_file(path.as_c_str()?, &mut buffer)?;
    let mut fields = core::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let waited = fields.nth(1)?.parse().ok()?;
    Some((waited, fields.next()?.parse().ok()?))
}

/// Whether the calling thread has a tracer: a new thread has one where the tracer of its maker follows threads.
pub fn is_traced() -> bool {
    is_not_zero(b"TracerPid:\t")
}

/// Whether the calling thread has a seccomp filter.
pub fn is_filtered() -> bool {
    is_not_zero(b"Seccomp:\t")
}

/// Whether a line of the calling thread's `status` is there and has another value than 0.
fn is_not_zero(name: &[u8]) -> bool {
    let mut buffer = [0u8; 2048];
    let status = read_file(c"/proc/thread-self/status", &mut buffer);
    let mut lines = status
        .into_iter()
        .flat_map(|text| text.split(|&c| c == b'\n'));
    let value = lines.find_map(|line| line.strip_prefix(name));
    value.is_some_and(|value| value != b"0")
}

/// The beginning of a file, as far as there is room.
fn read_file<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let len = rustix::io::read(&file, &mut *buffer).ok()?;
    buffer.get(..len)
}
