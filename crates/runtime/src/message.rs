//! Messages to the person, without stdio and without a descriptor: a small buffer on the stack, copied into
//! the ring of the run file, which `coldpress run` reads and prints ([`run_file`]).
//!
//! Descriptor 2 of the program is the program's: it may be its data file by now, or a pipe that nobody
//! reads. Saying something never waits and never fails, and what was said is said even if the process
//! ends with the next instruction.

use crate::run_file;
use coldpress_interface::run_file::TEXT_BYTES;
use core::fmt::{self, Write};

/// Text being put together; what does not fit is cut.
pub struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Text<N> {
    /// No text.
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
        }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What was written, as a C string. `None` where it was cut.
    pub fn as_c_str(&mut self) -> Option<&core::ffi::CStr> {
        if self.len >= N {
            return None;
        }
        self.bytes[self.len] = 0;
        core::ffi::CStr::from_bytes_until_nul(&self.bytes).ok()
    }

    /// Adds raw bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let n = bytes.len().min(N - self.len);
        self.bytes[self.len..self.len + n].copy_from_slice(&bytes[..n]);
        self.len += n;
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push(s.as_bytes());
        Ok(())
    }
}

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
