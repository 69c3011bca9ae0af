//! The command line of `coldpress run`, and the statistics it leaves.
//!
//! This is the only place where a managed run differs from a native one: everything else is
//! given a [`Wrapper`] and does not look into it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// As a budget: none is given.
pub const NO_BUDGET: u64 = u64::MAX;

/// How a program is started.
#[derive(Clone, Debug)]
pub enum Wrapper {
    /// As it is.
    Native,
    /// Under `coldpress run`.
    Managed {
        /// The `coldpress` command.
        binary: PathBuf,
        /// Budget in bytes; [`NO_BUDGET`]: none is given, so that age drives.
        budget_bytes: u64,
        /// File that receives the final statistics.
        statistics: PathBuf,
    },
}

impl Wrapper {
    /// A command that starts `program` this way; arguments can be added to it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Wrapper::Native => Command::new(program),
            Wrapper::Managed {
                binary,
                budget_bytes,
                statistics,
            } => {
                let mut command = Command::new(binary);
                command.args(["run", "-q"]);
                if *budget_bytes != NO_BUDGET {
                    command.arg("--budget");
                    command.arg(format!("{}K", budget_bytes / 1024));
                }
                command.arg("--stats").arg(statistics);
                command.arg("--").arg(program);
                command
            }
        }
    }
}

/// Statistics of a managed process, as the command prints them.
#[derive(Clone, Debug)]
pub struct Statistics(pub Value);

impl Statistics {
    /// Reads the file that `--stats` wrote.
    pub fn read(path: &Path) -> Result<Statistics> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("coldpress run left no {}", path.display()))?;
        Ok(Statistics(serde_json::from_str(&text).with_context(
            || format!("{} is no JSON", path.display()),
        )?))
    }

    /// Asks for the statistics of the running process `pid`.
    pub fn live(binary: &Path, pid: u32) -> Result<Statistics> {
        let output = Command::new(binary)
            .args(["status", &pid.to_string(), "--json"])
            .output()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        if !output.status.success() {
            bail!(
                "coldpress status {pid} --json failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(Statistics(
            serde_json::from_slice(&output.stdout).context("coldpress status printed no JSON")?,
        ))
    }

    /// A counter or gauge by its name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// By how much a counter grew since `before`; 0 where either does not know it.
    pub fn since(&self, before: &Statistics, name: &str) -> u64 {
        match (self.get(name), before.get(name)) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_managed_command_line_is_the_contract() {
        let wrapper = Wrapper::Managed {
            binary: "/x/coldpress".into(),
            budget_bytes: 3 << 20,
            statistics: "/t/s.json".into(),
        };
        let mut command = wrapper.command("redis-server");
        command.args(["--port", "0"]);
        let line: Vec<_> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(
            line.join(" "),
            "run -q --budget 3072K --stats /t/s.json -- redis-server --port 0"
        );
    }

    #[test]
    fn counters_are_differences() {
        let before = Statistics(serde_json::json!({"faults": 5}));
        let now = Statistics(serde_json::json!({"faults": 12, "evictions": 3}));
        assert_eq!(now.since(&before, "faults"), 7);
        assert_eq!(now.since(&before, "evictions"), 0);
        assert_eq!(now.get("nothing"), None);
    }
}
