//! Whether the machine is short of memory, whatever this program's own budget: then its cold pages
//! are worth more compressed, however young they are among the cold.
//!
//! Two signs, looked at once a second. `MemAvailable` below a sixteenth of all memory, where the next
//! allocations are going to stall; and the kernel's own account of time lost to memory (PSI,
//! `/proc/pressure/memory`: some task stalled for more than [`STALLED`] of the last ten seconds) while less than
//! a quarter is available: with more, those who stall are groups at limits of their own, which nobody else can
//! help. Where a file is not there (PSI can be switched off) its sign is never given.
//!
//! A memory group's limit is no business of this module, but of [`group`](crate::reclaim::group).

use crate::machine::os::{Alarm, Os};

/// Per cent, times a hundred.
const STALLED: u64 = 500;
/// Memory is short below one of so many parts; or, while tasks stall, below one of so many.
const SHORT: u64 = 16;
const SHORT_WHILE_STALLED: u64 = 4;
const LOOK_NS: u64 = 1_000_000_000;

/// The files, and what they said.
pub(crate) struct Shortage<O: Os> {
    alarm: O::Alarm,
    looked_ns: u64,
    is_short: bool,
}

impl<O: Os> Shortage<O> {
    /// Opens the files that there are.
    pub(crate) fn open() -> Self {
        Self {
            alarm: O::Alarm::open(),
            looked_ns: 0,
            is_short: false,
        }
    }

    /// Whether memory was short when last looked at.
    pub(crate) fn is_short(&mut self) -> bool {
        let now = O::now_ns();
        if now - self.looked_ns < LOOK_NS {
            return self.is_short;
        }
        self.looked_ns = now;
        let mut text = [0u8; 1024];
        let told = self.alarm.pressure(&mut text);
        let stalls = told.and_then(|len| stalls(&text[..len])).unwrap_or(false);
        let part = match stalls {
            true => SHORT_WHILE_STALLED,
            false => SHORT,
        };
        let told = self.alarm.memory(&mut text);
        let scarce = told.and_then(|len| is_scarce(&text[..len], part));
        self.is_short = scarce.unwrap_or(false);
        self.is_short
    }
}

/// The digits after `name`, and those after a point.
fn number_after(text: &[u8], name: &[u8]) -> Option<(u64, u64)> {
    let at = text.windows(name.len()).position(|part| part == name)?;
    let rest = &text[at + name.len()..];
    let start = rest.iter().position(|c| *c != b' ')?;
    let digits = |from: &[u8]| {
        let len = from.iter().take_while(|c| c.is_ascii_digit()).count();
        let value = core::str::from_utf8(&from[..len]).ok()?.parse().ok();
        Some((value, len))
    };
    let (whole, len) = digits(&rest[start..])?;
    let fraction = match rest.get(start + len) {
        Some(b'.') => digits(&rest[start + len + 1..])?.0?,
        _ => 0,
    };
    Some((whole?, fraction))
}

/// Whether `/proc/pressure/memory` tells of stalls.
fn stalls(text: &[u8]) -> Option<bool> {
    let some = text.strip_prefix(b"some ")?;
    let (whole, hundredths) = number_after(some, b"avg10=")?;
    Some(whole * 100 + hundredths > STALLED)
}

/// Whether `/proc/meminfo` tells that less than one of `part` parts is available.
fn is_scarce(text: &[u8], part: u64) -> Option<bool> {
    let (total, _) = number_after(text, b"MemTotal:")?;
    let (available, _) = number_after(text, b"MemAvailable:")?;
    Some(available < total / part)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;

    #[test]
    fn pressure_is_read() {
        let text = |avg10: &str| {
            format!(
                "some avg10={avg10} avg60=99.00 avg300=0.00 total=123\n\
                 full avg10=50.00 avg60=0.00 avg300=0.00 total=0\n"
            )
        };
        assert_eq!(stalls(text("5.00").as_bytes()), Some(false));
        assert_eq!(stalls(text("5.01").as_bytes()), Some(true));
        assert_eq!(stalls(b"full avg10=50.00"), None);
        assert_eq!(stalls(b""), None);
    }

    #[test]
    fn what_is_available_is_read() {
        let text = |available: u64| {
            format!(
                "MemTotal:       16000000 kB\nMemFree:          100 kB\n\
                 MemAvailable:    {available} kB\n"
            )
        };
        assert_eq!(is_scarce(text(1_000_000).as_bytes(), 16), Some(false));
        assert_eq!(is_scarce(text(999_999).as_bytes(), 16), Some(true));
        assert_eq!(is_scarce(b"MemTotal: 5 kB", 16), None);
    }

    #[test]
    fn this_machine_is_looked_at() {
        let mut shortage = Shortage::<crate::machine::linux::Linux>::open();
        let text = std::fs::read("/proc/meminfo").unwrap();
        assert!(is_scarce(&text[..text.len().min(1024)], 16).is_some());
        shortage.is_short();
        assert!(shortage.looked_ns > 0);
    }
}
