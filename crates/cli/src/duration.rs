//! Durations as users write them (`500ms`, `2s`, `1.5h`, `30`) and as we print them.

use crate::decimal::Decimal;
use coldpress_interface::control::{COLD_AFTER_AUTO, LONGEST_COLD_AFTER_MS};

/// Milliseconds meant by `text`; a number without a unit is seconds.
pub fn parse_milliseconds(text: &str) -> Result<u64, String> {
    parse(text, "")
}

/// Milliseconds meant by `text`; `instead` is what else may be written where it is too short.
fn parse(text: &str, instead: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit_ms = match suffix {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let milliseconds = unit_ms.and_then(|unit_ms| Decimal::parse(number)?.times(unit_ms));
    match milliseconds {
        Some(0) => Err(format!(
            "{text:?} is too short: write at least 1ms{instead}"
        )),
        Some(milliseconds) if milliseconds > LONGEST_COLD_AFTER_MS => {
            Err(format!("{text:?} is too long: at most ten years"))
        }
        Some(milliseconds) => Ok(milliseconds),
        None => Err(format!(
            "cannot read {text:?} as a duration: write for example 500ms, 2s, 1m, 1.5h or 30 (seconds)"
        )),
    }
}

/// A cold age: a duration in milliseconds, 0 for `none`, or `auto` for the pager's choice.
pub fn parse_cold_after(text: &str) -> Result<u64, String> {
    parse_age(text, ", or none to let only the budget drive compression")
}

/// The age from which pages are recompressed: as a cold age.
pub fn parse_recode_after(text: &str) -> Result<u64, String> {
    parse_age(text, ", or none to recompress nothing")
}

fn parse_age(text: &str, instead: &str) -> Result<u64, String> {
    match text {
        "none" => Ok(0),
        "auto" => Ok(COLD_AFTER_AUTO),
        _ => parse(text, instead),
    }
}

const UNITS_MS: [(u64, &str); 5] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "min"),
    (1_000, "s"),
    (1, "ms"),
];

/// A cold age for people, exactly.
pub fn format_cold_after(milliseconds: u64) -> String {
    match milliseconds {
        0 => "none".to_owned(),
        COLD_AFTER_AUTO => "auto".to_owned(),
        ms => UNITS_MS
            .into_iter()
            .find(|(unit, _)| ms % unit == 0)
            .map_or_else(String::new, |(unit, name)| format!("{} {name}", ms / unit)),
    }
}

/// `nanoseconds` for people: two significant digits below ten of a unit, whole units above.
pub fn format_nanoseconds(nanoseconds: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    for (unit, name) in UNITS {
        let value = nanoseconds as f64 / unit;
        if value >= 9.95 {
            return format!("{value:.0} {name}");
        }
        if value >= 0.9995 {
            return format!("{value:.1} {name}");
        }
    }
    format!("{nanoseconds} ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("1.5h", 5_400_000),
            ("30", 30_000),
            ("0.25", 250),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_milliseconds(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn bad_durations_name_the_text_and_an_example() {
        for text in [
            "",
            "s",
            "-1s",
            "1 s",
            "2S",
            "1.s",
            "1w",
            "999999999999999999d",
            "soon",
        ] {
            let error = parse_milliseconds(text).unwrap_err();
            assert!(
                error.contains(&format!("{text:?}")) && error.contains("500ms"),
                "{error}"
            );
        }
        assert!(parse_milliseconds("0").unwrap_err().contains("too short"));
        assert!(
            parse_milliseconds("4000d")
                .unwrap_err()
                .contains("too long")
        );
        assert_eq!(parse_cold_after("none"), Ok(0));
        assert_eq!(parse_cold_after("auto"), Ok(COLD_AFTER_AUTO));
        assert_eq!(format_cold_after(COLD_AFTER_AUTO), "auto");
        assert_eq!(parse_cold_after("2s"), Ok(2_000));
        assert_eq!(format_cold_after(0), "none");
        assert_eq!(format_cold_after(90_000), "90 s");
        assert_eq!(format_cold_after(1_500), "1500 ms");
        assert_eq!(format_cold_after(7_200_000), "2 h");
    }

    #[test]
    fn durations_are_printed_for_people() {
        for (ns, text) in [
            (0, "0 ns"),
            (640, "640 ns"),
            (3_200, "3.2 µs"),
            (14_336, "14 µs"),
            (999_950, "1.0 ms"),
            (1_900_000_000, "1.9 s"),
            (75_000_000_000, "75 s"),
        ] {
            assert_eq!(format_nanoseconds(ns), text);
        }
    }
}
