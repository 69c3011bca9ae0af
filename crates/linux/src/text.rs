//! Text in a buffer on the stack.

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
