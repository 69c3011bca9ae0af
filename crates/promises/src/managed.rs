//! One call of `coldpress run`: who runs it, under which budget, with which test aids.

use crate::process::{self, Outcome};
use crate::skip::SETPRIV;
use crate::{Statistics, Workplace};
use coldpress_interface::config;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// The user and group that may do nothing special.
pub const NOBODY: u32 = 65534;

/// File name of the library that `run` injects, beside the binary.
pub const PRELOAD: &str = "libcoldpress_preload.so";

/// The `coldpress` binary: `COLDPRESS_BIN`, or `release/coldpress` in the target directory.
///
/// # Panics
/// When there is none.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("COLDPRESS_BIN") {
        let named = PathBuf::from(named);
        assert!(
            named.exists(),
            "COLDPRESS_BIN={} does not exist",
            named.display()
        );
        return named;
    }
    let here = std::env::current_exe().expect("path of the test");
    let beside = here.ancestors().nth(3).map(|t| t.join("release/coldpress"));
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/coldpress");
    beside
        .into_iter()
        .chain([workspace])
        .find(|p| p.exists())
        .expect("no coldpress binary: cargo build --release -p coldpress-cli -p coldpress-preload, or set COLDPRESS_BIN")
}

/// A prepared call of `coldpress run`.
#[derive(Debug)]
pub struct Managed<'a> {
    place: &'a Workplace,
    binary: PathBuf,
    budget: String,
    environment: Vec<(String, String)>,
    options: Vec<String>,
    wrapper: Vec<String>,
    nobody: bool,
    device: Option<File>,
    limit: Duration,
}

impl<'a> Managed<'a> {
    /// As the calling user, under 16 MiB, for at most 90 seconds.
    pub fn new(place: &'a Workplace) -> Self {
        Self::with_binary(place, &binary())
    }

    /// The same, by this `coldpress` command.
    pub fn with_binary(place: &'a Workplace, binary: &Path) -> Self {
        Self {
            place,
            binary: binary.into(),
            budget: "16M".into(),
            environment: vec![
                ("PROMISES_MANAGED".into(), "1".into()),
                // Not the settings of the machine and of the user.
                ("COLDPRESS_CONFIG".into(), "/dev/null".into()),
            ],
            options: Vec::new(),
            wrapper: Vec::new(),
            nobody: false,
            device: None,
            limit: Duration::from_secs(90),
        }
    }

    /// Sets the budget, as `--budget` takes it.
    pub fn budget(mut self, budget: impl Into<String>) -> Self {
        self.budget = budget.into();
        self
    }

    /// Gives `coldpress run` an option with a value.
    pub fn option(mut self, name: &str, value: &str) -> Self {
        self.options.extend([name.into(), value.into()]);
        self
    }

    /// Gives `coldpress run` an option without a value.
    pub fn flag(mut self, name: &str) -> Self {
        self.options.push(name.into());
        self
    }

    /// Sets a variable in the environment of `coldpress run`.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Makes the pager evict pages at random, whatever the budget.
    pub fn chaos(self) -> Self {
        self.environment(config::CHAOS, "1")
    }

    /// Children that no hook sees are filled.
    pub fn raw_clones(self) -> Self {
        self.flag("--raw-clones")
    }

    /// Sets the time limit.
    pub fn within(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Puts a command in front of `coldpress`, such as `prlimit ... --`.
    pub fn wrapped<S: Into<String>>(mut self, wrapper: impl IntoIterator<Item = S>) -> Self {
        self.wrapper = wrapper.into_iter().map(Into::into).collect();
        self
    }

    /// Runs as nobody, out of copies that nobody may read.
    pub fn as_nobody(mut self) -> Self {
        self.place.copy(&self.binary.with_file_name(PRELOAD));
        self.binary = self.place.copy(&self.binary);
        self.nobody = true;
        self
    }

    /// Hands down an open `/dev/userfaultfd`: the full tier for an ordinary user.
    ///
    /// # Errors
    /// When the device cannot be opened.
    pub fn with_device(mut self) -> std::io::Result<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/userfaultfd")?;
        // SAFETY: F_SETFD takes a number; the descriptor is owned by `device`. Without
        // close-on-exec it is inherited by the child, which is what is wanted.
        if unsafe { libc::fcntl(device.as_raw_fd(), libc::F_SETFD, 0) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
        self.device = Some(device);
        Ok(self)
    }

    fn command(&self) -> Command {
        let mut words = self
            .wrapper
            .iter()
            .map(OsStr::new)
            .chain([self.binary.as_os_str()]);
        let mut command = Command::new(words.next().expect("at least the binary"));
        command.args(words);
        command.envs(self.environment.iter().map(|(n, v)| (n, v)));
        if self.nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// Runs `coldpress` with other arguments than `run`'s.
    #[track_caller]
    pub fn call(&self, arguments: &[&str]) -> Outcome {
        let mut command = self.command();
        command.args(arguments);
        process::run(self.place, command, self.limit)
    }

    /// Runs the program without the right to lock memory: what it locks could not be evicted.
    /// Asks for util-linux, which [`skip::unlocking_or_skip`](crate::skip::unlocking_or_skip) looks for.
    pub fn without_locking(self) -> Self {
        self.wrapped([
            "/usr/bin/prlimit",
            "--memlock=0:0",
            SETPRIV,
            "--bounding-set=-ipc_lock",
            "--inh-caps=-ipc_lock",
            "--",
        ])
    }

    /// Runs `program` under `coldpress run`. The statistics are absent where none were written.
    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> (Outcome, Option<Statistics>) {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let file = self
            .place
            .path(&format!("statistics-{}.json", RUNS.fetch_add(1, Relaxed)));
        let mut command = self.command();
        command.args(["run", "--budget", &self.budget]);
        command.args(&self.options).arg("--stats");
        command.arg(&file).arg("--").arg(program).args(arguments);
        let outcome = process::run(self.place, command, self.limit);
        (outcome, Statistics::read(&file).ok())
    }

    /// Runs `program`, which must say `OK`, and must have had pages evicted. `None` where the
    /// program skipped.
    ///
    /// # Panics
    /// When anything was wrong.
    #[track_caller]
    pub fn survive<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Option<Statistics> {
        let (outcome, statistics) = self.run(program, arguments);
        let figures = outcome.verdict()?;
        let Some(statistics) = statistics.filter(Statistics::pager_started) else {
            panic!("the pager left no statistics: {outcome}");
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        eprintln!(
            "{name}: {figures} | {:.1} s, {}",
            outcome.wall.as_secs_f64(),
            statistics.summary()
        );
        statistics.at_least("evictions", 1);
        let corrupt = statistics.failed(coldpress_interface::statistics::Failure::Corrupt);
        assert_eq!(corrupt, 0, "pages failed their checksum: {outcome}");
        Some(statistics)
    }
}
