//! Second chances by page, for hosts that do not see accesses.
//!
//! Where no accessed bit tells that a page is used, taking it out is the test: it comes back if it
//! was wanted. Queues alone would take a hot page as often as a cold one, each time its generation has
//! become the oldest. So a page that comes back sooner than others are even looked at (it was away for
//! less than the time that pages now spend in place, the *turnover*: Linux calls that its refault
//! distance) gains patience: so many times it is passed over when its turn has come, and grows young
//! instead. One that stayed away for longer loses half of what it had.
//!
//! A page that does not compress is one that comes back at once.
//!
//! A page has four bits for it, in its record while it is in place and in the header of what is stored
//! while it is away. A marker has no header: same-filled pages have no patience.

/// What a page can gain at most: passed over so many times.
pub(crate) const MOST: u8 = 15;

/// A page on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Returning {
    /// What it left with.
    pub patience: u8,
    /// How long it was away.
    pub away_ms: u32,
    /// Somebody has touched it; if not, nothing is known that tells for it or against it.
    pub touched: bool,
}

impl Returning {
    /// A page that did not compress: it comes back in the moment in which it went, and is to be tried the less
    /// often the more often it was tried in vain.
    pub(crate) fn at_once(patience: u8) -> Self {
        Self {
            patience,
            away_ms: 0,
            touched: true,
        }
    }

    /// The patience with which it begins, where pages spend so long in place and gain so much at `most`
    /// ([`second_chances`](crate::Tunables::second_chances)).
    pub(crate) fn patience(self, turnover_ns: u64, most: u8) -> u8 {
        let soon = u64::from(self.away_ms) * 1_000_000 < turnover_ns;
        let patience = match (self.touched, soon) {
            (true, true) => 2 * self.patience + 1,
            (true, false) => self.patience / 2,
            (false, _) => self.patience,
        };
        patience.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_back_soon_is_left_alone_ever_longer() {
        let soon = |patience| {
            Returning {
                patience,
                away_ms: 9,
                touched: true,
            }
            .patience(10_000_000, MOST)
        };
        assert_eq!([0, 1, 3, 7, 15].map(soon), [1, 3, 7, 15, 15]);
        assert_eq!(
            Returning {
                patience: 9,
                away_ms: 0,
                touched: true,
            }
            .patience(10_000_000, 0),
            0
        );
        let late = |patience| {
            Returning {
                patience,
                away_ms: 10,
                touched: true,
            }
            .patience(10_000_000, MOST)
        };
        assert_eq!([0, 1, 2, 7, 15].map(late), [0, 0, 1, 3, 7]);
        let untouched = |away_ms| {
            let returning = Returning {
                patience: 3,
                away_ms,
                touched: false,
            };
            returning.patience(10_000_000, MOST)
        };
        assert_eq!([0, 9, 10, 99].map(untouched), [3; 4]);
    }
}
