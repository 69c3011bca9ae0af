//! A bit for each segment.

/// Bits, none of which is set at first.
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub fn new(count: usize) -> Self {
        Self {
            words: vec![0; count.div_ceil(64)],
        }
    }

    pub fn get(&self, at: u32) -> bool {
        self.words[at as usize / 64] >> (at % 64) & 1 == 1
    }

    pub fn set(&mut self, at: u32, to: bool) {
        let bit = 1 << (at % 64);
        match to {
            true => self.words[at as usize / 64] |= bit,
            false => self.words[at as usize / 64] &= !bit,
        }
    }

    /// The set ones, in their order.
    pub fn all(&self) -> Vec<u32> {
        let count = 64 * self.words.len() as u32;
        (0..count).filter(|at| self.get(*at)).collect()
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_set_and_cleared() {
        let mut bits = Bits::new(130);
        for at in [0, 63, 64, 129] {
            bits.set(at, true);
        }
        bits.set(63, false);
        assert_eq!(bits.all(), [0, 64, 129]);
        assert!(!bits.get(63) && bits.get(129));
        assert_eq!(bits.bytes(), 24);
    }
}
