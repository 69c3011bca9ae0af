//! What a measurement ran on, and whether the machine was its own.

use serde_json::{Value, json};
use std::fmt;
use std::fs;

/// The machine, at one moment.
#[derive(Clone, Debug)]
pub struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
    huge_pages: String,
    load: String,
    available_bytes: u64,
}

/// The first line of a file that begins with `name`, without that.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(rest.trim_start_matches([' ', '\t', ':']).trim().to_owned())
}

/// Memory that could be had without taking it from anybody, in bytes.
pub fn available_bytes() -> u64 {
    let kib = field("/proc/meminfo", "MemAvailable").and_then(|text| {
        let number = text.split_whitespace().next()?;
        number.parse::<u64>().ok()
    });
    kib.unwrap_or(0) * 1024
}

impl Machine {
    /// As it is now.
    pub fn now() -> Machine {
        let unknown = || "?".to_owned();
        Machine {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: field("/proc/sys/kernel/osrelease", "").unwrap_or_else(unknown),
            huge_pages: field("/sys/kernel/mm/transparent_hugepage/enabled", "")
                .unwrap_or_else(unknown),
            load: field("/proc/loadavg", "").unwrap_or_else(unknown),
            available_bytes: available_bytes(),
        }
    }

    /// Processors that we may use.
    pub fn processors(&self) -> usize {
        self.processors
    }

    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "processor": self.processor, "processors": self.processors, "kernel": self.kernel,
            "transparent_huge_pages": self.huge_pages, "load_before": self.load,
            "available_bytes": self.available_bytes,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let load: Vec<_> = self.load.split_whitespace().take(3).collect();
        write!(
            f,
            "ran on {} × {}, Linux {}, huge pages {}; load before {}, memory available {}",
            self.processors,
            self.processor,
            self.kernel,
            self.huge_pages,
            load.join(" "),
            coldpress_harness::text::mib(self.available_bytes)
        )
    }
}
