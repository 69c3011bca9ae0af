//! Bytes that are taken from the front.

#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number of so many bytes.
    pub(super) fn number(&mut self, length: usize) -> Option<u64> {
        let bytes = self.take(length)?;
        let number = bytes
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some(number)
    }

    /// Bytes after their length.
    pub(super) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.number(4)?;
        self.take(length as usize)
    }

    /// A number that the server must have sent.
    pub(super) fn must(&mut self, length: usize) -> u64 {
        self.number(length)
            .expect("the server's message is cut off")
    }

    /// Asserts that these bytes come next.
    pub(super) fn expect(&mut self, bytes: &[u8], what: &str) {
        let taken = self.take(bytes.len());
        assert!(
            taken == Some(bytes),
            "{what}: {taken:02x?}, and not {bytes:02x?}"
        );
    }
}
