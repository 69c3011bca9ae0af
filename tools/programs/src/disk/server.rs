//! A disk that is served over NBD on a Unix socket: by `coldpress disk serve`, or by nbdkit.

use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::install::{Package, find_program, program};
use coldpress_harness::process::{resident, stat_field};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// nbdkit, with its plugins for memory and files.
pub const NBDKIT: Package = program("nbdkit", "nbdkit");

/// How long a server may take to serve.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server; dropped, it is killed.
pub struct Server {
    running: Running,
    socket: PathBuf,
    control: Option<Control>,
}

/// How a disk of ours is asked.
struct Control {
    coldpress: PathBuf,
    /// Where its socket is.
    run_files: PathBuf,
    /// Another disk on the machine, of the same user, has another.
    name: String,
}

impl Server {
    /// `coldpress disk serve` with these options; `name` is that of its files in `dir`.
    pub fn ours(coldpress: &Path, dir: &Path, name: &str, options: &[&str]) -> Result<Server> {
        let run_files = dir.join(format!("{name}.run"));
        // It is there when a server is started again.
        let _ = fs::create_dir(&run_files);
        let socket = dir.join(format!("{name}.sock"));
        let control = Control {
            coldpress: coldpress.to_owned(),
            run_files,
            name: format!("{name}-{}", std::process::id()),
        };
        let mut command = Command::new(coldpress);
        command
            .args(["disk", "serve", "--name", &control.name, "--socket"])
            .arg(&socket)
            .args(options)
            .env("COLDPRESS_STATISTICS_DIR", &control.run_files);
        Server::start(command, dir, name, socket, Some(control))
    }

    /// nbdkit with a plugin and its parameters.
    pub fn nbdkit(dir: &Path, name: &str, plugin: &[&str]) -> Result<Server> {
        let socket = dir.join(format!("{name}.sock"));
        let program = find_program("nbdkit").context("no nbdkit here")?;
        let mut command = Command::new(program);
        command
            .args(["--foreground", "--unix"])
            .arg(&socket)
            .args(plugin);
        Server::start(command, dir, name, socket, None)
    }

    fn start(
        mut command: Command,
        dir: &Path,
        name: &str,
        socket: PathBuf,
        control: Option<Control>,
    ) -> Result<Server> {
        let log = dir.join(format!("{name}.log"));
        let said = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(said.try_clone()?);
        command.stderr(said);
        let running = Running::start(&mut command, name)?;
        let since = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let ended = running.ended()?;
            if ended.is_some() || since.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} serves nothing ({ended:?}): {}", said.trim());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Server {
            running,
            socket,
            control,
        })
    }

    /// Where clients find it.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.running.id()
    }

    /// Kills it by SIGKILL, and waits for its end.
    pub fn kill(self) {
        drop(self);
    }

    /// Has it end by itself, within `limit`.
    pub fn stop(self, limit: Duration) -> Result<()> {
        let pid = self.pid() as libc::pid_t;
        // SAFETY: kill touches no memory of ours; the child was not waited for, so the id is its own.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let status = self.running.wait_for(limit)?;
        match status.success() {
            true => Ok(()),
            false => bail!("the server ended with {status}"),
        }
    }

    /// Private anonymous memory of its process, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        resident(self.pid()).map_or(0, |resident| resident.anonymous)
    }

    /// Processor time of its process, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let ticks = [14, 15].map(|field| stat_field(self.pid(), field).unwrap_or(0));
        // SAFETY: sysconf reads nothing of ours.
        let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        ticks.iter().sum::<u64>() as f64 / a_second as f64
    }

    /// Has a disk of ours carry out an order, `idle`, and gives what it tells.
    pub fn order(&self, order: &[&str]) -> Result<Value> {
        let control = self.control.as_ref().context("it takes no orders")?;
        let output = Command::new(&control.coldpress)
            .arg("disk")
            .args(order)
            .args(["--json", "--disk", &control.name])
            .env("COLDPRESS_STATISTICS_DIR", &control.run_files)
            .output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("coldpress disk {}: {}", order.join(" "), said.trim());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// All figures of a disk of ours.
    pub fn figures(&self) -> Result<Value> {
        self.order(&["status"])
    }
}
