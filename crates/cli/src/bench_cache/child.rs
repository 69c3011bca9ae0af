//! The process that measures, and what becomes of it.

use super::group::Group;
use super::kind::Kind;
use super::plan::Plan;
use super::scenario::{self, Measured};
use crate::refusal::Refusal;
use crate::streams::{PREFIX, print};
use serde::{Deserialize, Serialize};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

/// One measurement, as it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The kind's name.
    pub kind: String,
    /// Memory taken.
    pub reclaim_bytes: u64,
    /// From 0.
    pub round: u64,
    /// `None`: it was killed for want of memory.
    pub measured: Option<Measured>,
}

/// Measures in a process of its own, in `group`.
pub fn run(
    plan: &Plan,
    kind: Kind,
    reclaim_bytes: u64,
    round: u64,
    group: &Group,
) -> Result<Run, Refusal> {
    let failed =
        |why: String| Refusal::new(format!("the measurement of {} failed: {why}", kind.name()));
    // Ourselves, also if the file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.args(["bench", "cache", "--kinds", kind.name()]);
    for (option, number) in [
        ("--capacity", plan.capacity_bytes),
        ("--hot", plan.hot_bytes),
        ("--cold", plan.cold_bytes),
        ("--limit", plan.limit_bytes),
        ("--compressed", plan.compressed_bytes),
        ("--reclaim", reclaim_bytes),
        ("--round", round),
    ] {
        command.arg(option).arg(number.to_string());
    }
    for file in &plan.files {
        command.arg("--pages").arg(file);
    }
    command.arg("--directory").arg(&plan.directory);
    command.arg("--measured-in").arg(group.directory());
    command.stdin(Stdio::null());
    // SAFETY: the call is async-signal-safe. Whoever kills us outright ends the measurement, too.
    unsafe {
        command.pre_exec(
            || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            },
        );
    }
    let output = command
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let measured = if output.status.success() {
        let measured = serde_json::from_slice(&output.stdout);
        Some(measured.map_err(|error| failed(format!("it said what cannot be read: {error}")))?)
    } else if output.status.signal() == Some(libc::SIGKILL) && group.has_killed() {
        None
    } else {
        let told = String::from_utf8_lossy(&output.stderr);
        let told = told.trim().trim_start_matches(PREFIX);
        return Err(failed(format!("{} ({})", told, output.status)));
    };
    Ok(Run {
        kind: kind.name().to_owned(),
        reclaim_bytes,
        round,
        measured,
    })
}

/// What that process does: it measures the one kind that it was given, and says so in JSON.
pub fn measure(plan: &Plan, group: &Path, round: u64) -> Result<u8, Refusal> {
    let ([kind], [reclaim]) = (plan.kinds.as_slice(), plan.reclaim_bytes.as_slice()) else {
        return Err(Refusal::new("one kind and one size are measured at a time"));
    };
    let measured = scenario::measure(plan, *kind, *reclaim, round, group)?;
    print(&format!("{}\n", serde_json::json!(measured)))?;
    Ok(0)
}
