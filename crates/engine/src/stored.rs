//! What stands in storage for one page: a header of eight bytes, then the codec's bytes.
//!
//! ```text
//!  0          4            8                     length
//! │ checksum │ stored, ms │ compressed bytes … │
//! ```
//!
//! The checksum is that of the whole uncompressed page (law L1: it covers storage, codec and
//! every copy between); the time is the host's clock in milliseconds, modulo 2^32.

/// Bytes before the compressed bytes.
pub(crate) const HEADER_BYTES: usize = 8;

/// The header of a stored page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub checksum: u32,
    pub stored_ms: u32,
}

impl Header {
    pub(crate) fn write(self, to: &mut [u8]) {
        to[..4].copy_from_slice(&self.checksum.to_le_bytes());
        to[4..8].copy_from_slice(&self.stored_ms.to_le_bytes());
    }

    pub(crate) fn read(from: &[u8]) -> Option<(Self, &[u8])> {
        let (checksum, rest) = from.split_first_chunk::<4>()?;
        let (stored, rest) = rest.split_first_chunk::<4>()?;
        let header = Self {
            checksum: u32::from_le_bytes(*checksum),
            stored_ms: u32::from_le_bytes(*stored),
        };
        Some((header, rest))
    }
}

/// The host's clock in the unit of the header.
pub(crate) fn milliseconds(now_ns: u64) -> u32 {
    (now_ns / 1_000_000) as u32
}

/// Bucket of the residency histogram for a page stored at `stored_ms` and wanted now.
pub(crate) fn residency_bucket(stored_ms: u32, now_ns: u64) -> usize {
    let seconds = milliseconds(now_ns).wrapping_sub(stored_ms) / 1000;
    match seconds {
        0 => 0,
        s => (s.ilog2() as usize + 1).min(8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residency_buckets_follow_the_rfc_and_tell_what_is_longer() {
        let at = |seconds: u64| residency_bucket(0, seconds * 1_000_000_000);
        assert_eq!(at(0), 0);
        assert_eq!(at(1), 1);
        assert_eq!((at(2), at(3)), (2, 2));
        assert_eq!((at(64), at(127)), (7, 7));
        assert_eq!((at(128), at(100_000)), (8, 8));
    }
}
