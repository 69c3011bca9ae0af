//! A set of numbers, the least of which is found quickly.

/// Numbers from 0 on, one bit each.
#[derive(Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    /// No word before this one has a bit.
    hint: usize,
    count: u64,
}

impl Bits {
    /// Numbers in the set.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes that the set takes.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }

    /// Puts `count` numbers in a row in, which are not in it.
    pub(crate) fn insert(&mut self, first: u32, count: u32) {
        for number in first..first + count {
            let word = number as usize / 64;
            if word >= self.words.len() {
                self.words.resize(word + 1, 0);
            }
            debug_assert_eq!(self.words[word] >> (number % 64) & 1, 0, "twice");
            self.words[word] |= 1 << (number % 64);
            self.hint = self.hint.min(word);
        }
        self.count += u64::from(count);
    }

    /// Takes the least number out.
    pub(crate) fn take_least(&mut self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        while self.words[self.hint] == 0 {
            self.hint += 1;
        }
        let word = &mut self.words[self.hint];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        self.count -= 1;
        Some(self.hint as u32 * 64 + bit)
    }

    /// Takes the uppermost numbers in a row out, at most 64: the first of them, and how many.
    pub(crate) fn take_uppermost(&mut self) -> Option<(u32, u32)> {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        self.hint = self.hint.min(self.words.len());
        let at = self.words.len().checked_sub(1)?;
        let word = &mut self.words[at];
        let last = 63 - word.leading_zeros();
        let count = (*word << (63 - last)).leading_ones();
        let first = last + 1 - count;
        *word &= !((u64::MAX >> (64 - count)) << first);
        self.count -= u64::from(count);
        Some((at as u32 * 64 + first, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_comes_first_and_the_uppermost_in_rows() {
        let mut bits = Bits::default();
        bits.insert(60, 10);
        bits.insert(3, 1);
        bits.insert(1000, 1);
        assert_eq!(bits.count(), 12);
        assert_eq!(bits.take_least(), Some(3));
        assert_eq!(bits.take_least(), Some(60));
        assert_eq!(bits.take_uppermost(), Some((1000, 1)));
        assert_eq!(bits.take_uppermost(), Some((64, 6)));
        bits.insert(2, 1);
        assert_eq!(bits.take_least(), Some(2));
        assert_eq!(bits.take_uppermost(), Some((61, 3)));
        assert_eq!(bits.take_uppermost(), None);
        assert_eq!(bits.take_least(), None);
        bits.insert(0, 64);
        assert_eq!(bits.take_uppermost(), Some((0, 64)));
        assert_eq!(bits.count(), 0);
    }
}
