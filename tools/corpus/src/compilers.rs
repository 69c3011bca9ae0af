//! Compilers, stopped near the peak of their memory.
//!
//! The first run tells how much memory the compiler comes to hold; the second is stopped
//! (SIGSTOP) as soon as it holds nine tenths of that, captured, and killed. If it never comes so
//! far (no two runs are quite alike), less will do.

use crate::{Capture, programs};
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::process::{Identity, children, resident};
use coldpress_harness::progress::Progress;
use coldpress_harness::{text, workspace};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Crate that rustc compiles: one of ours depends on it, and it is large.
const CRATE: &str = "clap_builder";

/// Shares of the peak at which to stop, the best first.
const SHARES: [f64; 4] = [0.9, 0.8, 0.6, 0.4];

/// cc1plus on a file of templates.
pub fn cc1plus(capture: &Capture) -> Result<()> {
    let ask = |option: &str| -> Result<String> {
        let output = Command::new("g++")
            .arg(option)
            .output()
            .context("cannot start g++")?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let (compiler, triplet) = (ask("-print-prog-name=cc1plus")?, ask("-print-multiarch")?);
    let start = |messages: Stdio| {
        let mut command = Command::new(&compiler);
        command.args(["-quiet", "-std=c++17", "-O2", "-D_GNU_SOURCE"]);
        if !triplet.is_empty() {
            command.args(["-imultiarch", &triplet]);
        }
        command
            .arg(programs().join("heavy.cpp"))
            .args(["-o", "/dev/null"]);
        Running::start(command.stdin(Stdio::null()).stderr(messages), "cc1plus")
    };
    at_peak(capture, "cc1plus", &start, &|running| Some(running.id()))
}

/// rustc on a crate of our dependencies, built apart.
pub fn rustc(capture: &Capture) -> Result<()> {
    let (target, _guard) = workspace::temporary_dir("corpus-rustc")?;
    let cargo = |arguments: &[&str]| {
        let mut command = workspace::cargo();
        command
            .args(arguments)
            .args(["--release", "--quiet", "-p", CRATE, "--target-dir"])
            .arg(&target)
            .stdin(Stdio::null());
        command
    };
    let start = |messages: Stdio| {
        let status = cargo(&["clean"]).status().context("cannot start cargo")?;
        if !status.success() {
            bail!("cargo clean ended with {status}");
        }
        Running::start(
            cargo(&["build", "--jobs", "1"]).stderr(messages),
            "cargo build",
        )
    };
    at_peak(capture, "rustc", &start, &|cargo| {
        child_that_compiles(cargo.id())
    })
}

/// The child of `parent` that compiles [`CRATE`] itself. Any of the parent's threads may have
/// started it.
fn child_that_compiles(parent: u32) -> Option<u32> {
    children(parent).into_iter().find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut arguments = line.split(|byte| *byte == 0);
        arguments.any(|argument| argument == b"--crate-name")
            && arguments.next() == Some(CRATE.as_bytes())
    })
}

fn at_peak(
    capture: &Capture,
    name: &str,
    start: &dyn Fn(Stdio) -> Result<Running>,
    find: &dyn Fn(&Running) -> Option<u32>,
) -> Result<()> {
    let mut progress = Progress::begin(format!("{name}: compiling"));
    let (mut peak, running) = (0, start(Stdio::inherit())?);
    let status = loop {
        if let Some(status) = running.ended()? {
            break status;
        }
        peak = peak.max(find(&running).map_or(0, anonymous_bytes));
        progress.update(|| format!("to learn its peak, {} so far", text::mib(peak)));
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() || peak == 0 {
        bail!("{name} ended with {status}");
    }
    for share in SHARES {
        // What it says of being killed is not worth showing.
        let running = start(Stdio::null())?;
        while running.ended()?.is_none() {
            let pid =
                find(&running).filter(|pid| anonymous_bytes(*pid) as f64 >= peak as f64 * share);
            let Some(pid) = pid else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let compiler = Identity::of(pid)?;
            running.program(pid)?;
            // SAFETY: kill touches no memory of ours; the process was just seen, and is a child
            // of ours or of cargo, which has not reaped it.
            unsafe { libc::kill(pid as libc::pid_t, libc::SIGSTOP) };
            progress.finish(&format!(
                "stopped at {:.0} % of {}",
                share * 100.0,
                text::mib(peak)
            ));
            let captured = capture.capture(pid);
            compiler.kill();
            return captured;
        }
    }
    bail!("{name} ended each time before it was stopped")
}

fn anonymous_bytes(pid: u32) -> u64 {
    resident(pid).map_or(0, |resident| resident.anonymous)
}
