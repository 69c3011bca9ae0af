//! Sizes and budgets as users write them, and sizes as we print them.
//!
//! `K`, `M`, `G`, `T` (also `KiB` and so on, in either case) are powers of 1024. `MB` is refused:
//! it means 10^6 to some readers and 2^20 to others, and a budget should not be a guess.

use crate::decimal::Decimal;
use crate::refusal::Refusal;
use coldpress_interface::control::NO_BUDGET;
pub use coldpress_interface::control::SMALLEST_BUDGET_BYTES;

/// `64M` of `64MB`.
fn decimal_or_binary(text: &str) -> Option<&str> {
    let plain = text.strip_suffix(['B', 'b'])?;
    let number = plain.strip_suffix(|unit: char| "kmgtKMGT".contains(unit))?;
    Decimal::parse(number).map(|_| plain)
}

/// Why `64MB` is refused, if `text` is of that kind.
pub fn refuse_ambiguous(text: &str) -> Option<String> {
    decimal_or_binary(text).map(|plain| {
        format!(
            "cannot read {text:?} as a size, which means powers of 1000 to some and of 1024 to others: \
             write {plain} or {plain}iB, as in 64M, 1.5G or 512MiB, which are powers of 1024"
        )
    })
}

/// Reads `512M`, `4G` or `1048576`, as the value of an option.
pub fn parse_size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| {
        refuse_ambiguous(text).unwrap_or_else(|| {
            format!(
                "cannot read {text:?} as a size: write for example 512M, 4G or 1048576 (bytes); \
                 K, M, G and T are powers of 1024"
            )
        })
    })
}

/// A memory budget as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// So many bytes.
    Bytes(u64),
    /// A share of the memory this process may use.
    Percent(Decimal),
    /// None.
    Unlimited,
}

impl Budget {
    /// Reads `1G`, `1.5GiB`, `1048576`, `65%` or `none`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Budget::Unlimited);
        }
        let Some(number) = text.strip_suffix('%') else {
            return parse_bytes(text).map(Budget::Bytes).ok_or_else(|| {
                if let Some(refusal) = refuse_ambiguous(text) {
                    return refusal;
                }
                format!(
                    "cannot read {text:?} as a size: write for example 64M, 1.5G, 512MiB, \
                     1048576 (bytes) or 65%; K, M, G and T are powers of 1024"
                )
            });
        };
        Decimal::parse(number)
            .filter(|share| share.times(1).is_some_and(|whole| whole <= 100))
            .filter(|share| share.times(1_000_000).is_some_and(|part| part > 0))
            .filter(|share| share.times(1_000_000) <= Some(100_000_000))
            .map(Budget::Percent)
            .ok_or_else(|| {
                format!("cannot read {text:?} as a share of memory: write for example 65% (more than 0%, at most 100%)")
            })
    }

    /// The budget in bytes, where `memory_bytes` is what 100 % stands for; [`NO_BUDGET`] for none.
    pub fn resolve(
        self,
        memory_bytes: impl FnOnce() -> Result<u64, Refusal>,
    ) -> Result<u64, Refusal> {
        let (bytes, of) = match self {
            Budget::Unlimited => return Ok(NO_BUDGET),
            Budget::Bytes(bytes) => (bytes, String::new()),
            Budget::Percent(share) => {
                let memory = memory_bytes()?;
                let bytes = share.times(memory).unwrap_or(u64::MAX) / 100;
                (
                    bytes,
                    format!(", of {} that this process may use,", format_bytes(memory)),
                )
            }
        };
        if bytes < SMALLEST_BUDGET_BYTES {
            return Err(Refusal::new(format!(
                "a budget of {}{of} is too small: the pager itself needs a few MiB, so budgets start at {}",
                format_below(bytes, SMALLEST_BUDGET_BYTES),
                format_bytes(SMALLEST_BUDGET_BYTES)
            ))
            .mend("Give more, for example: --budget 64M; --budget none: no budget"));
        }
        Ok(bytes)
    }
}

/// Bytes meant by `text`, or `None` where it cannot be read or does not fit 64 bits.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit: u64 = match suffix.to_ascii_lowercase().as_str() {
        "" | "b" if !number.contains('.') => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return None,
    };
    Decimal::parse(number)?.times(unit)
}

/// `bytes` for people: one decimal and the unit in which it has at most four digits.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `bytes` for a narrow column, much as sizes are typed: `58.2M`; eight characters at most.
pub fn format_short(bytes: u64) -> String {
    let text = format_bytes(bytes).replace(' ', "");
    match text.strip_suffix("iB") {
        Some(short) => short.to_owned(),
        None => text,
    }
}

/// `bytes`, which are fewer than `least`, so that they look fewer.
fn format_below(bytes: u64, least: u64) -> String {
    match format_bytes(bytes) {
        rounded if rounded == format_bytes(least) => format!("{} bytes", format_count(bytes)),
        rounded => rounded,
    }
}

/// A budget for people.
pub fn format_budget(bytes: u64) -> String {
    match bytes {
        NO_BUDGET => "none".to_owned(),
        bytes => format_bytes(bytes),
    }
}

/// `count` with commas between groups of three digits.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `count` for a narrow column: with commas below ten millions, else in millions or more; nine characters at most.
pub fn short_count(count: u64) -> String {
    match count {
        0..10_000_000 => format_count(count),
        10_000_000..1_000_000_000 => format!("{:.1}M", count as f64 / 1e6),
        _ => format!("{:.1}G", count as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("1048576", 1 << 20),
            ("64M", 64 << 20),
            ("64m", 64 << 20),
            ("512MiB", 512 << 20),
            ("1G", 1 << 30),
            ("1GiB", 1 << 30),
            ("1.5G", 3 << 29),
            ("0.5k", 512),
            ("2T", 2 << 40),
            ("7B", 7),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn short_sizes_fit_in_seven_characters() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0K"),
            (61_027_123, "58.2M"),
            (1023 << 20, "1023.0M"),
            (u64::MAX, "16384.0P"),
        ] {
            assert_eq!(format_short(bytes), text);
        }
    }

    #[test]
    fn where_two_powers_may_be_meant_it_says_so() {
        let told = |text| Budget::parse(text).unwrap_err();
        assert!(told("64MB").contains("write 64M or 64MiB"));
        for text in ["MB", "64BB", "64iB", "x"] {
            assert!(told(text).contains("or 65%"), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in [
            "",
            "M",
            "-1M",
            "+1M",
            "1 M",
            "1MB",
            "1.5",
            "1.",
            ".5G",
            "1..5G",
            "1.5.5G",
            "0x10",
            "1e9",
            "1G ",
            "18446744073709551616",
            "99999999999T",
            "1,5G",
            "١M",
            "inf",
            "nan",
        ] {
            assert_eq!(parse_bytes(text), None, "{text:?}");
            let error = Budget::parse(text).unwrap_err();
            assert!(
                error.contains(&format!("{text:?}")) && error.contains("1.5G"),
                "{error}"
            );
        }
    }

    #[test]
    fn percents_resolve_against_the_memory() {
        let resolve = |text: &str| Budget::parse(text).unwrap().resolve(|| Ok(1 << 30));
        assert_eq!(resolve("50%"), Ok(1 << 29));
        assert_eq!(resolve("12.5%"), Ok(1 << 27));
        assert_eq!(resolve("100%"), Ok(1 << 30));
        assert!(resolve("0.1%").unwrap_err().to_string().contains("1.0 GiB"));
        for text in ["0%", "101%", "100.1%", "%", "-5%", "0.0%", "5%%"] {
            assert!(Budget::parse(text).unwrap_err().contains("65%"), "{text}");
        }
    }

    #[test]
    fn tiny_budgets_are_refused_with_the_reason() {
        let resolve = |bytes| Budget::Bytes(bytes).resolve(|| unreachable!());
        assert_eq!(resolve(8 << 20), Ok(8 << 20));
        let refusal = resolve((8 << 20) - 1).unwrap_err();
        assert_eq!(refusal.code(), 125);
        let text = refusal.to_string();
        assert!(
            text.contains("of 8,388,607 bytes is") && text.contains("at 8.0 MiB"),
            "{text}"
        );
        assert!(
            resolve(7 << 20)
                .unwrap_err()
                .to_string()
                .contains("of 7.0 MiB is")
        );
    }

    #[test]
    fn numbers_are_printed_for_people() {
        assert_eq!(format_bytes(1023), "1023 B");
        assert_eq!(format_bytes(1024), "1.0 KiB");
        assert_eq!(format_bytes(851_863_142), "812.4 MiB");
        assert_eq!(format_bytes((1 << 30) - 1), "1.0 GiB");
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(182_331), "182,331");
        assert_eq!(format_count(1_000_000), "1,000,000");
        assert_eq!(short_count(9_999_999), "9,999,999");
        assert_eq!(short_count(12_345_678), "12.3M");
        assert_eq!(short_count(123_456_789_012), "123.5G");
    }
}
