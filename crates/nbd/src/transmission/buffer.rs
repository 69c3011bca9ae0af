//! Memory that a worker uses again for each of its requests.
//!
//! Bytes past what was appended are what an earlier request of the same connection left there. They are zeroed once,
//! when the memory is new, and not for each request.

/// What is kept from request to request; more is given back.
const KEPT_BYTES: usize = 2 << 20;
/// It grows by multiples of this.
const STEP_BYTES: usize = 4096;

/// A buffer.
#[derive(Default)]
pub(crate) struct Buffer {
    /// All of it was written before.
    bytes: Vec<u8>,
    used: usize,
}

impl Buffer {
    /// What it holds.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Makes it empty.
    pub(crate) fn clear(&mut self) {
        self.used = 0;
        if self.bytes.len() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// Takes back all after the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// Appends.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.extend(bytes.len()).copy_from_slice(bytes);
    }

    /// Makes it longer by bytes of any value, for the caller to fill.
    pub(crate) fn extend(&mut self, length: usize) -> &mut [u8] {
        let begin = self.used;
        self.used += length;
        if self.bytes.len() < self.used {
            // Exactly: a payload's buffer doubles as it arrives, and must not do so twice.
            let bytes = self.used.next_multiple_of(STEP_BYTES);
            self.bytes.reserve_exact(bytes - self.bytes.len());
            self.bytes.resize(bytes, 0);
        }
        &mut self.bytes[begin..self.used]
    }
}
