//! Random numbers of the kernel, for names, and small ones for pauses.

use std::fs::File;
use std::io::{self, Read};

/// 64 random bits.
pub fn bits() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Numbers that spread pauses (xorshift), so that those who wait for one store do not come back at once.
pub struct Jitter(u64);

impl Jitter {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Between a half and all of so many.
    pub fn of(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        most - self.0 % (most / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_over_their_upper_half() {
        let mut jitter = Jitter::new(7);
        let all: Vec<u64> = (0..1000).map(|_| jitter.of(100)).collect();
        assert!(all.iter().all(|pause| (50..=100).contains(pause)));
        assert!(all.iter().any(|pause| *pause < 60) && all.iter().any(|pause| *pause > 90));
        assert_eq!(jitter.of(0), 0);
        assert_ne!(bits().unwrap(), bits().unwrap());
    }
}
