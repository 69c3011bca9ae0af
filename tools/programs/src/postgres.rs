//! postgres as an ordinary user: a server of our own, one session that sorts and joins in memory.
//!
//! The server runs as nobody, with an inherited descriptor of `/dev/userfaultfd`. Each process that
//! it forks has a pager and a budget of its own; what is measured is the process that serves the session,
//! with temporary tables and `work_mem` large enough for everything to stay in its own memory.

use crate::place::{NOBODY, Owner, Place, Start};
use crate::run::{self, Begun, Done, Program, Watch};
use anyhow::{Context, Result, bail};
use coldpress_harness::child::Running;
use coldpress_harness::install::find_program;
use coldpress_harness::managed::{Statistics, Wrapper};
use coldpress_promises::process::lines_of;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Rows of the larger table.
const ROWS: u64 = 700_000;
/// What `psql` prints when all is done.
const MARK: &str = "-- all done --";

/// A database directory and the programs to use it with.
pub struct Postgres {
    server: PathBuf,
    data: PathBuf,
    rows: u64,
}

impl Postgres {
    /// Makes a database directory that belongs to nobody.
    pub fn new(place: &Place) -> Result<Postgres> {
        let initdb = program("initdb")?;
        let dir = place.subdirectory("postgres", Owner::Nobody)?;
        let data = dir.join("data");
        let output = Command::new(&initdb)
            .args([
                "-A",
                "trust",
                "-U",
                "shop",
                "--no-sync",
                "--locale=C",
                "-E",
                "UTF8",
                "-D",
            ])
            .arg(&data)
            .current_dir(&dir)
            .uid(NOBODY)
            .gid(NOBODY)
            .output()
            .with_context(|| format!("cannot start {}", initdb.display()))?;
        if !output.status.success() {
            bail!(
                "initdb failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(Postgres {
            server: program("postgres")?,
            data,
            rows: place.scaled(ROWS),
        })
    }
}

/// A program of postgres; Debian keeps them apart, by version.
fn program(name: &str) -> Result<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter();
    let programs = versions
        .flatten()
        .flatten()
        .map(|v| v.path().join("bin").join(name));
    let found = programs.filter(|path| path.exists()).max();
    found.or_else(|| find_program(name)).with_context(|| {
        format!("there is no {name} in /usr/lib/postgresql (apt-get install postgresql)")
    })
}

impl Program for Postgres {
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let dir = self.data.with_file_name("");
        let log = start.place.dir.join("errors");
        let begun = Begun::now();
        let mut command = start.command_of_nobody(&self.server, &dir.join("statistics.json"))?;
        command.arg("-D").arg(&self.data).arg("-k").arg(&dir);
        for setting in [
            "listen_addresses=",
            "port=5432",
            "shared_buffers=16MB",
            "temp_buffers=512MB",
            "work_mem=1GB",
            "hash_mem_multiplier=2",
            "max_parallel_workers_per_gather=0",
            "autovacuum=off",
            "fsync=off",
            "jit=off",
        ] {
            command.args(["-c", setting]);
        }
        command
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?);
        let server = Running::start(&mut command, "postgres")?;
        let main = run::pid_of_program(&server, start.is_managed())?;
        let main = main.with_context(|| format!("postgres ended{}", run::tail(&log)))?;
        server.program(main)?;
        let until = Instant::now() + Duration::from_secs(60);
        while !self.answers()? {
            if server.ended()?.is_some() || Instant::now() > until {
                bail!("postgres does not answer{}", run::tail(&log));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut session = Session::start(self)?;
        let pid = session.ask(
            "select pg_backend_pid();\n\\echo pid\n",
            "pid",
            Duration::from_secs(60),
        );
        let pid = pid.with_context(|| format!("no session{}", run::tail(&log)))?;
        let pid: u32 = pid.trim().parse().context("psql told no process")?;
        watch(pid)?;
        let script = std::fs::read_to_string(Place::data("shop.postgres.sql"))?;
        let script = format!("{script}\n\\echo {MARK}\n");
        let output = session.ask(&script, MARK, start.place.limit);
        let output = output.map_err(|error| {
            let log = run::tail(&log);
            error.context(format!("postgres {}{log}", run::where_it_stands(pid)))
        })?;
        let statistics = match &start.wrapper {
            Wrapper::Native => None,
            Wrapper::Managed { binary, .. } => Some(Statistics::live(binary, pid)?),
        };
        session.end()?;
        // A fast shutdown.
        // SAFETY: kill touches no memory of ours; the server was just seen alive.
        unsafe { libc::kill(main as libc::pid_t, libc::SIGINT) };
        let status = server.wait_for(Duration::from_secs(60))?;
        if !status.success() {
            bail!("postgres ended with {status}{}", run::tail(&log));
        }
        Ok(begun.done(output.into_bytes(), statistics, Vec::new()))
    }
}

impl Postgres {
    /// A `psql` that connects to the server.
    fn client(&self) -> Result<Command> {
        let mut command = Command::new(program("psql")?);
        command
            .args(["-X", "-q", "-A", "-t", "-U", "shop", "-d", "postgres", "-h"])
            .arg(self.data.with_file_name(""))
            .current_dir("/");
        Ok(command)
    }

    /// Whether the server takes connections.
    fn answers(&self) -> Result<bool> {
        let output = self.client()?.args(["-c", "select 1"]).output()?;
        Ok(output.status.success())
    }
}

/// A `psql` that is fed and read.
struct Session {
    running: Running,
    input: std::process::ChildStdin,
    lines: Receiver<String>,
}

impl Session {
    fn start(postgres: &Postgres) -> Result<Session> {
        let mut command = postgres.client()?;
        command
            .args(["-v", "ON_ERROR_STOP=1"])
            .args(["-v", &format!("rows={}", postgres.rows)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let running = Running::start(&mut command, "psql")?;
        let (input, output) = running.pipes().expect("both were piped");
        let lines = lines_of(output);
        Ok(Session {
            running,
            input,
            lines,
        })
    }

    /// Sends commands and reads up to the line `mark`.
    fn ask(&mut self, commands: &str, mark: &str, limit: Duration) -> Result<String> {
        self.input
            .write_all(commands.as_bytes())
            .context("psql has ended")?;
        self.input.flush()?;
        let until = Instant::now() + limit;
        let mut text = String::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line == mark => return Ok(text),
                Ok(line) => text += &(line + "\n"),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!("HANGS or is too slow; so far:\n{text}")
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => bail!("psql ended; so far:\n{text}"),
            }
        }
    }

    fn end(self) -> Result<()> {
        drop(self.input);
        let status = self.running.wait_for(Duration::from_secs(20))?;
        if !status.success() {
            bail!("psql ended with {status}");
        }
        Ok(())
    }
}
