//! Programs that tell when they hold their data: they print `filled` and wait until their
//! standard input is closed.

use crate::{Capture, programs};
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::install::find_program;
use coldpress_harness::progress::Progress;
use coldpress_harness::workspace;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// Starts a program, waits until it is filled, captures it, has it end.
fn captured(capture: &Capture, name: &str, command: &mut Command) -> Result<()> {
    let filled = Filled::start(name, command)?;
    capture.capture(filled.pid)?;
    filled.end()
}

/// A program that holds its data.
struct Filled {
    running: Running,
    pid: u32,
    input: ChildStdin,
}

impl Filled {
    fn start(name: &str, command: &mut Command) -> Result<Self> {
        let mut progress = Progress::begin(format!("{name}: filling"));
        command
            .current_dir(programs())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let running = Running::start(command, name)?;
        let (input, output) = running.pipes().context("it was started with pipes")?;
        let pid = running.id();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.trim() != "filled" {
            bail!("{name} ended before it was filled");
        }
        progress.update(String::new);
        progress.finish("filled");
        Ok(Self {
            running,
            pid,
            input,
        })
    }

    /// Closes its input and waits; a program that does not end is killed when it is dropped.
    fn end(self) -> Result<()> {
        drop(self.input);
        self.running.wait_for(Duration::from_secs(20)).map(drop)
    }
}

/// A Python that has the module.
pub fn python(module: &str) -> Command {
    let has_it = |python: &&str| {
        let child = Command::new(python)
            .args(["-c", &format!("import {module}")])
            .stderr(Stdio::null())
            .spawn();
        child
            .and_then(|mut child: Child| child.wait())
            .is_ok_and(|status| status.success())
    };
    let found = ["/usr/bin/python3", "python3"].into_iter().find(has_it);
    Command::new(found.unwrap_or("python3"))
}

/// CPython objects.
pub fn cpython(capture: &Capture) -> Result<()> {
    let mut command = python("sys");
    captured(capture, "cpython", command.args(["objects.py", "60000"]))
}

/// pandas and NumPy columns.
pub fn pandas(capture: &Capture) -> Result<()> {
    let mut command = python("pandas");
    captured(capture, "pandas", command.args(["frames.py", "700000"]))
}

/// sqlite in memory.
pub fn sqlite(capture: &Capture) -> Result<()> {
    let mut command = python("sqlite3");
    captured(capture, "sqlite", command.args(["table.py", "150000"]))
}

/// A Java heap.
pub fn jvm(capture: &Capture) -> Result<()> {
    let mut command = Command::new("java");
    captured(
        capture,
        "jvm",
        command.args(["-Xmx256m", "Heap.java", "60000"]),
    )
}

/// A node heap.
pub fn node(capture: &Capture) -> Result<()> {
    let mut command = Command::new("node");
    captured(capture, "node", command.args(["heap.js", "250000"]))
}

/// A redis server with JSON values, hashes and a sorted set.
pub fn redis(capture: &Capture) -> Result<()> {
    let (directory, _guard) = workspace::temporary_dir("corpus-redis")?;
    let socket = directory.join("socket");
    let server = start_redis(&directory, &socket)?;
    let mut command = python("sys");
    command.arg("redis_load.py").arg(&socket).arg("100000");
    let loader = Filled::start("redis", &mut command)?;
    capture.capture(server.id())?;
    loader.end()
}

fn start_redis(directory: &Path, socket: &PathBuf) -> Result<Running> {
    let program = find_program("redis-server").context("there is no redis-server")?;
    let mut command = Command::new(program);
    command
        .args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
        ])
        .arg(socket)
        .arg("--dir")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let server = Running::start(&mut command, "redis-server")?;
    for _ in 0..1000 {
        if socket.exists() {
            return Ok(server);
        }
        if let Some(status) = server.ended()? {
            bail!("redis-server ended with {status}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    bail!("redis-server opens no socket")
}
