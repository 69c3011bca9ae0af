//! Messages to the person, without stdio and without a descriptor: a small buffer on the stack, copied into
//! the ring of the run file, which `coldpress run` reads and prints ([`run_file`]).
//!
//! Descriptor 2 of the program is the program's: it may be its data file by now, or a pipe that nobody
//! reads. Saying something never waits and never fails, and what was said is said even if the process
//! ends with the next instruction.

use crate::machine::run_file;
use coldpress_interface::run_file::TEXT_BYTES;
use coldpress_linux::text::Text;
use core::fmt::{self, Write};

/// Says one line, without `coldpress: ` and the end of the line. Can be called anywhere.
pub fn say(arguments: fmt::Arguments<'_>) {
    let mut text = Text::<TEXT_BYTES>::default();
    let _ = text.write_fmt(arguments);
    run_file::say(text.as_bytes());
}

/// Writes to standard output, where the process exists for nothing else.
pub fn answer(text: &[u8]) {
    // SAFETY: no other thread exists that could close it; where it is closed the call fails.
    let output = unsafe { rustix::fd::BorrowedFd::borrow_raw(1) };
    let _ = rustix::io::write(output, text);
}
