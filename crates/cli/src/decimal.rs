//! Plain decimal numbers (`12`, `1.5`), kept exact until they are multiplied by their unit.

/// A non-negative decimal number with at most nine digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number times 10^9.
    billionths: u128,
}

const BILLION: u128 = 1_000_000_000;

impl Decimal {
    /// Reads digits with at most one point between them; no sign, no exponent.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !plain(whole) || !plain(fraction) || fraction.len() > 9 {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let fraction: u128 = format!("{fraction:0<9}").parse().ok()?;
        Some(Self {
            billionths: u128::from(whole) * BILLION + fraction,
        })
    }

    /// The number times `unit`, rounded down, or `None` beyond 64 bits.
    pub fn times(self, unit: u64) -> Option<u64> {
        let product = self.billionths.checked_mul(u128::from(unit))? / BILLION;
        product.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(Decimal::parse("0.1").unwrap().times(1000), Some(100));
        assert_eq!(Decimal::parse("1.999999999").unwrap().times(1), Some(1));
        assert_eq!(Decimal::parse("3").unwrap().times(u64::MAX), None);
        for text in [
            "",
            ".",
            "1.",
            ".1",
            "1.0000000001",
            "1e3",
            "+1",
            "99999999999999999999",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
