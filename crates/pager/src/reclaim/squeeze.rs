//! Whether the budget is mostly spent on stored pages.
//!
//! Then hardly any room is left for pages in place, what leaves is wanted back soon, and in the end the budget
//! cannot be kept at all. A codec that is slower, and makes stored pages a quarter smaller, is the better one: what
//! leaves is compressed by press-dense at once, and what is stored is re-coded without waiting for its age
//! ([`recode`](crate::reclaim::recode), [ADR 0020](../../../docs/adr/0020-two-tiers.md)).
//!
//! How much is most depends on what the slower codec costs. With AVX2 alone, press-dense takes 6 µs longer than press to
//! decode a page (with AVX-512, 1.5), which fewer refaults pay back only where room is scarcer still.

use coldpress_codec::press::Simd;

/// A part of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    of: u64,
    parts: u64,
}

impl Part {
    fn bytes(self, budget: u64) -> u64 {
        budget / self.parts * self.of
    }
}

/// Whether it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Squeeze {
    is_squeezed: bool,
    /// Storage of more than this is most of the budget ...
    most: Part,
    /// ... until it is less than this: what was re-coded takes three quarters of what it took.
    little: Part,
}

impl Squeeze {
    /// Where a processor has these vectors.
    pub(crate) fn with(vectors: Simd) -> Self {
        let part = |of, parts| Part { of, parts };
        let (most, little) = match vectors {
            Simd::Avx512 => (part(1, 2), part(1, 4)),
            Simd::Avx2 | Simd::Portable => (part(2, 3), part(1, 3)),
        };
        Self {
            is_squeezed: false,
            most,
            little,
        }
    }

    /// Looks again. Whether it is so, now.
    pub(crate) fn look(&mut self, storage_bytes: u64, budget: u64) -> bool {
        let part = if self.is_squeezed {
            self.little
        } else {
            self.most
        };
        self.is_squeezed = storage_bytes > part.bytes(budget);
        self.is_squeezed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lasts_until_storage_is_far_less() {
        let mut squeeze = Squeeze::with(Simd::Avx512);
        let seen = [40, 50, 51, 38, 26, 25, 40, 50, 60].map(|storage| squeeze.look(storage, 100));
        let expected = [false, false, true, true, true, false, false, false, true];
        assert_eq!(seen, expected);
        assert!(!squeeze.look(1 << 40, u64::MAX), "no budget");
    }

    #[test]
    fn it_begins_later_where_decoding_is_slower() {
        for vectors in [Simd::Avx2, Simd::Portable] {
            let mut squeeze = Squeeze::with(vectors);
            let seen = [60, 80, 81, 61, 41, 40, 60].map(|storage| squeeze.look(storage, 120));
            assert_eq!(seen, [false, false, true, true, true, false, false]);
        }
    }

    #[test]
    fn what_recoding_saves_does_not_end_it() {
        for vectors in Simd::ALL {
            let mut squeeze = Squeeze::with(vectors);
            let begun = (1..1200).find(|&storage| squeeze.look(storage, 1200));
            let recoded = begun.expect("it begins") * 3 / 4;
            assert!(squeeze.look(recoded, 1200), "{vectors:?}");
        }
    }
}
