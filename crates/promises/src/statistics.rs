//! The final statistics of a run: the JSON object that `coldpress run --stats FILE` writes.

use anyhow::{Context, Result};
use coldpress_interface::statistics::Failure;
use serde_json::Value;
use std::path::Path;

/// Statistics by name.
#[derive(Clone, Debug)]
pub struct Statistics(Value);

impl Statistics {
    /// Reads the file that `--stats` wrote.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("statistics file {}", path.display()))?;
        let value = serde_json::from_str(&text)
            .with_context(|| format!("{} is no JSON: {text:.200}", path.display()))?;
        Ok(Self(value))
    }

    /// Whether the pager was there at all.
    pub fn pager_started(&self) -> bool {
        self.0["evictions"].is_u64()
    }

    /// The counter or gauge of that name.
    ///
    /// # Panics
    /// When there is none: the interface promises every field.
    pub fn get(&self, name: &str) -> u64 {
        self.0[name]
            .as_u64()
            .unwrap_or_else(|| panic!("statistics have no number `{name}`: {}", self.0))
    }

    /// The share or factor of that name: `estimated_slowdown`.
    ///
    /// # Panics
    /// When there is none: the interface promises every field.
    pub fn real(&self, name: &str) -> f64 {
        self.0[name]
            .as_f64()
            .unwrap_or_else(|| panic!("statistics have no number `{name}`: {}", self.0))
    }

    /// The object of that name: `follow`, `summary`.
    pub fn part(&self, name: &str) -> Self {
        Self(self.0[name].clone())
    }

    /// The text of that name: `codec`, `storage`.
    ///
    /// # Panics
    /// When there is none: the interface promises every field.
    pub fn text(&self, name: &str) -> &str {
        self.0[name]
            .as_str()
            .unwrap_or_else(|| panic!("statistics have no text `{name}`: {}", self.0))
    }

    /// How often `reason` was counted.
    ///
    /// # Panics
    /// When the reason is absent.
    pub fn failed(&self, reason: Failure) -> u64 {
        self.0["failures"][reason.name()]
            .as_u64()
            .unwrap_or_else(|| panic!("statistics have no failure `{}`: {}", reason.name(), self.0))
    }

    /// Pages given back to the program with content: decompressed, copied or same-filled.
    pub fn restores(&self) -> u64 {
        self.get("decompressions") + self.get("faults_copied") + self.get("faults_same_filled")
    }

    /// The figures that show whether a test met what it was to meet.
    pub fn summary(&self) -> String {
        let failures: Vec<String> = Failure::ALL
            .into_iter()
            .filter(|&f| self.failed(f) > 0)
            .map(|f| format!("{} {}", f.name(), self.failed(f)))
            .collect();
        format!(
            "{} evictions, {} decompressions, {} copied, {} faults, {} events, peak {:.1} MiB of {:.1} [{}]",
            self.get("evictions"),
            self.get("decompressions"),
            self.get("faults_copied"),
            self.get("faults"),
            self.get("events"),
            self.get("peak_total_bytes") as f64 / f64::from(1 << 20),
            self.get("budget_bytes") as f64 / f64::from(1 << 20),
            failures.join(", ")
        )
    }

    /// Panics unless the field `name` is at least `least`.
    ///
    /// # Panics
    /// When it is less.
    #[track_caller]
    pub fn at_least(&self, name: &str, least: u64) {
        let found = self.get(name);
        assert!(
            found >= least,
            "{name} is {found}, at least {least} expected: {:#}",
            self.0
        );
    }
}
