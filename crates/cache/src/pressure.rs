//! Whether memory is short: the kernel's account of time lost to memory (PSI).
//!
//! Of a memory group (`memory.pressure`) the account alone counts: some task of the group was stalled for
//! more than [`STALLED`] of the last ten seconds. Of the whole machine (`/proc/pressure/memory`) it does not,
//! since those who stall may be groups at limits of their own, which nobody else can help: there
//! `MemAvailable` must be below a quarter of all memory as well, or below a sixteenth without any stall. The
//! pager of coldpress goes by the same marks.
//!
//! The averages are read, no trigger is set: a trigger needs privileges, and a file to write to. Where a
//! file is not there (PSI can be switched off) its sign is never given.

use std::path::{Path, PathBuf};

/// The account of the whole machine.
pub(crate) const MACHINE: &str = "/proc/pressure/memory";

/// Per cent, times a hundred.
const STALLED: u64 = 500;

/// Where to look.
pub(crate) struct Pressure(pub PathBuf);

impl Pressure {
    /// Whether memory is short now.
    pub fn is_short(&self) -> bool {
        let account = std::fs::read_to_string(&self.0).unwrap_or_default();
        let stalls = stalls(&account).unwrap_or(false);
        if self.0 != Path::new(MACHINE) {
            return stalls;
        }
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        is_scarce(&memory, if stalls { 4 } else { 16 }).unwrap_or(false)
    }
}

/// Whether the account tells of stalls.
fn stalls(account: &str) -> Option<bool> {
    let some = account.lines().find(|line| line.starts_with("some "))?;
    let fields = some.split_ascii_whitespace();
    let average = fields
        .filter_map(|field| field.strip_prefix("avg10="))
        .next()?;
    let (whole, hundredths) = average.split_once('.').unwrap_or((average, "0"));
    let whole: u64 = whole.parse().ok()?;
    let hundredths: u64 = hundredths.parse().ok()?;
    Some(whole * 100 + hundredths > STALLED)
}

/// Whether less than one of `part` parts of memory is available.
fn is_scarce(memory: &str, part: u64) -> Option<bool> {
    let kib = |name: &str| -> Option<u64> {
        let rest = memory.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some(kib("MemAvailable:")? < kib("MemTotal:")? / part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read() {
        let account = |avg10: &str| {
            format!(
                "some avg10={avg10} avg60=99.00 avg300=0.00 total=123\n\
                 full avg10=50.00 avg60=0.00 avg300=0.00 total=0\n"
            )
        };
        assert_eq!(stalls(&account("5.00")), Some(false));
        assert_eq!(stalls(&account("5.01")), Some(true));
        assert_eq!(stalls(&account("77.30")), Some(true));
        assert_eq!(stalls("full avg10=50.00"), None);
        assert_eq!(stalls(""), None);
        let memory = "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:    999999 kB\n";
        assert_eq!(is_scarce(memory, 16), Some(true));
        assert_eq!(is_scarce(memory, 17), Some(false));
        assert_eq!(is_scarce("MemTotal: 5 kB", 16), None);
    }

    #[test]
    fn a_file_that_is_not_there_gives_no_sign() {
        assert!(!Pressure("/does/not/exist".into()).is_short());
        let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
        assert!(is_scarce(&memory, 16).is_some());
    }
}
