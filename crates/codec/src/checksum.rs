//! The checksum of a page's content.
//!
//! It is taken before the page is compressed, stored with it, and compared after it has been
//! decompressed: so it covers the codec, the storage and the memory in between. 32 bits are
//! enough to notice damage (one in 2^32 of the damaged pages would pass); they are no defence
//! against someone who can choose the bytes.
//!
//! The function is the low half of XXH3-64 with the default secret and seed 0. It is fixed: the
//! write-back tier keeps checksums in files.
#![forbid(unsafe_code)]

use xxhash_rust::xxh3::xxh3_64;

use crate::Page;

/// The low 32 bits of XXH3-64 of the page.
#[inline]
pub fn checksum(page: &Page) -> u32 {
    xxh3_64(page) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_SIZE;

    #[test]
    fn depends_on_every_byte() {
        let zero = checksum(&[0; PAGE_SIZE]);
        // An odd step: every place within a word is tried under Miri, too.
        for position in (0..PAGE_SIZE).step_by(if cfg!(miri) { 71 } else { 1 }) {
            let mut page = [0; PAGE_SIZE];
            page[position] = 1;
            assert_ne!(checksum(&page), zero, "byte {position}");
        }
    }

    /// The values are those of the reference implementation (xxHash, XXH3_64bits).
    #[test]
    fn is_the_fixed_function() {
        let mut page = [0; PAGE_SIZE];
        assert_eq!(checksum(&page), 0x48c6_89ba);
        for (i, byte) in page.iter_mut().enumerate() {
            *byte = i as u8;
        }
        assert_eq!(checksum(&page), 0x0787_9151);
    }
}
