//! Taking fields out of bytes that a client sent: each call takes from the front, and is `None` where too little is
//! left.

/// Bytes of a message that were not looked at yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `length` bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes preceded by their length, of 32 bits.
    pub(crate) fn counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.bytes(length)
    }

    /// Whether everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Cursor;

    #[test]
    fn takes_fields_and_nothing_beyond_the_end() {
        let bytes = [0, 1, 0, 0, 0, 2, 7, 8, 9];
        let mut cursor = Cursor::new(&bytes);
        assert_eq!(cursor.u16(), Some(1));
        assert_eq!(cursor.counted(), Some(&[7, 8][..]));
        assert!(!cursor.is_empty());
        assert_eq!(cursor.u16(), None);
        assert_eq!(cursor.bytes(1), Some(&[9][..]));
        assert!(cursor.is_empty());
    }

    #[test]
    fn a_claim_beyond_the_end_is_refused() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff, 1]).counted(), None);
        assert_eq!(Cursor::new(&[0, 0, 0, 2, 1]).counted(), None);
        assert_eq!(Cursor::new(&[0; 7]).u64(), None);
    }
}
