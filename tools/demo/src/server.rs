//! A redis server of our own, and what we do to it: fill it, read all of it back, end it.
//!
//! The server listens on a unix socket in a temporary directory and on nothing else, saves
//! nothing and reads no configuration file. Requests are pipelined in batches, two batches in
//! flight, so that client and server work at the same time.

use crate::comparison::Comparison;
use crate::records;
use crate::resp::Client;
use anyhow::{Context, Result, anyhow, bail};
use coldpress_harness::child::Running;
use coldpress_harness::managed::Wrapper;
use coldpress_harness::progress::Progress;
use coldpress_harness::text::{mib, thousands};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Requests to a batch.
pub const BATCH: u64 = 64;

/// Records to be stored: numbers `0..count` of the sequence `seed`.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Seed of the sequence.
    pub seed: u64,
    /// How many.
    pub count: u64,
}

/// What one phase did.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// Records written or read.
    pub records: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Time taken, in seconds.
    pub seconds: f64,
    /// Values that were not what was written.
    pub mismatches: u64,
}

impl Phase {
    /// Records a second.
    pub fn rate(&self) -> f64 {
        self.records as f64 / self.seconds
    }
}

/// A running redis server.
pub struct Server {
    running: Running,
    client: Client,
    /// Process id of redis itself.
    pub pid: u32,
    socket: PathBuf,
    log: PathBuf,
}

impl Server {
    /// Starts redis through `wrapper` with its files in `dir`, and connects to it.
    pub fn start(wrapper: &Wrapper, dir: &Path) -> Result<Server> {
        let (socket, log) = (dir.join("redis.sock"), dir.join("redis.log"));
        let _ = std::fs::remove_file(&socket);
        let _ = std::fs::remove_file(&log);
        let mut command = wrapper.command("redis-server");
        command
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .args(["--maxclients", "100", "--daemonize", "no"])
            .arg("--dir")
            .arg(dir)
            .arg("--logfile")
            .arg(&log)
            .arg("--unixsocket")
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        let running = Running::start(&mut command, "redis-server")?;
        let until = Instant::now() + Duration::from_secs(30);
        let mut client = loop {
            if let Some(status) = running.ended()? {
                bail!("redis-server ended at once ({status}){}", tail(&log));
            }
            match Client::connect(&socket) {
                Ok(client) => break client,
                Err(error) if Instant::now() > until => {
                    return Err(
                        error.context(format!("redis-server does not listen{}", tail(&log)))
                    );
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let pid = client.info("server", "process_id")? as u32;
        running.program(pid)?;
        Ok(Server {
            running,
            client,
            pid,
            socket,
            log,
        })
    }

    /// The connection, for requests of other kinds.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether SIGKILL has ended it, or ends it within a second.
    pub fn was_killed(&self) -> Result<bool> {
        let status = self.running.wait_for(Duration::from_secs(1));
        Ok(status.is_ok_and(|status| status.signal() == Some(libc::SIGKILL)))
    }

    /// Memory redis counts as its own, in bytes.
    pub fn used_memory(&mut self) -> Result<u64> {
        self.client.info("memory", "used_memory")
    }

    /// Stores records from number 0 on until their values have so many bytes.
    pub fn fill_to(&mut self, seed: u64, values: u64, what: &str) -> Result<Phase> {
        self.store(seed, what, |_, bytes| bytes >= values)
    }

    /// Stores the records of `plan`.
    pub fn fill(&mut self, plan: Plan, what: &str) -> Result<Phase> {
        self.store(plan.seed, what, |records, _| records >= plan.count)
    }

    /// Stores records from number 0 on until they, and the bytes of their values, are enough.
    fn store(&mut self, seed: u64, what: &str, enough: impl Fn(u64, u64) -> bool) -> Result<Phase> {
        let mut progress = Progress::begin(what);
        let begun = Instant::now();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let (mut sent, mut bytes, mut awaited) = (0, 0, 0);
        while !enough(sent, bytes) {
            for index in sent..sent + BATCH {
                records::key(index, &mut key);
                records::value(seed, index, &mut value);
                bytes += value.len() as u64;
                self.client.request(&[b"SET", &key, &value]);
            }
            self.client.send()?;
            sent += BATCH;
            // Of the batch before, while the server works on this one.
            let stored = self.client.stored(awaited);
            stored.map_err(|error| self.explained(error))?;
            awaited = BATCH;
            progress.update(|| format!("{} records, {}", thousands(sent), mib(bytes)));
        }
        let stored = self.client.stored(awaited);
        stored.map_err(|error| self.explained(error))?;
        let phase = Phase {
            records: sent,
            bytes,
            seconds: begun.elapsed().as_secs_f64(),
            mismatches: 0,
        };
        progress.finish(&describe(&phase));
        Ok(phase)
    }

    /// An error, with the last that the server wrote into its log.
    fn explained(&self, error: anyhow::Error) -> anyhow::Error {
        anyhow!("{error:#}{}", tail(&self.log))
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Reads every record of `plan` in an order that jumps all over it, and compares each with
    /// the value made again.
    pub fn read_back(&mut self, plan: Plan, what: &str) -> Result<Phase> {
        let mut progress = Progress::begin(what);
        let begun = Instant::now();
        let stride = stride(plan.count);
        let index_of = |position: u64| {
            (u128::from(position) * u128::from(stride) % u128::from(plan.count)) as u64
        };
        let (mut key, mut expected) = (Vec::new(), Vec::new());
        let (mut sent, mut read, mut bytes) = (0, 0, 0);
        let mut comparison = Comparison::new("MISMATCH");
        while read < plan.count {
            let window = plan.count.min(read + 2 * BATCH);
            while sent < window {
                records::key(index_of(sent), &mut key);
                self.client.request(&[b"GET", &key]);
                sent += 1;
            }
            self.client.send()?;
            for _ in 0..BATCH.min(plan.count - read) {
                let index = index_of(read);
                records::value(plan.seed, index, &mut expected);
                let reply = self.client.reply()?;
                let compared = comparison.add(&self.client, &reply, index, &expected);
                compared.map_err(|error| self.explained(error))?;
                bytes += expected.len() as u64;
                read += 1;
            }
            progress.update(|| {
                let percent = 100 * read / plan.count;
                format!("{percent:3} % of {} records", thousands(plan.count))
            });
        }
        let phase = Phase {
            records: read,
            bytes,
            seconds: begun.elapsed().as_secs_f64(),
            mismatches: comparison.mismatches,
        };
        progress.finish(&describe(&phase));
        Ok(phase)
    }

    /// Ends the server: by `SHUTDOWN NOSAVE`, and by its process id if that does not do it.
    pub fn end(mut self) -> Result<()> {
        self.client.request(&[b"SHUTDOWN", b"NOSAVE"]);
        if self.client.send().is_ok() {
            self.client.drain();
        }
        let status = self.running.wait_for(Duration::from_secs(20))?;
        if !status.success() {
            bail!("redis-server ended with {status}{}", tail(&self.log));
        }
        Ok(())
    }
}

/// A step that visits every number below `count` once: near the golden section of it, so that
/// neighbours in the order lie far apart, and without a common divisor.
fn stride(count: u64) -> u64 {
    let mut stride = (count as f64 * 0.618_034) as u64 | 1;
    while divisor(stride, count) != 1 {
        stride += 2;
    }
    stride
}

fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

fn describe(phase: &Phase) -> String {
    format!(
        "{} records, {} of values in {:.1} s, {} records/s",
        thousands(phase.records),
        mib(phase.bytes),
        phase.seconds,
        thousands(phase.rate() as u64)
    )
}

/// The last lines of the server's log, for messages.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).context("").unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    lines
        .iter()
        .rev()
        .fold(String::new(), |all, line| all + "\n  redis: " + line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_reading_visits_every_record_once() {
        for count in [1u64, 2, 3, 64, 1000, 4096] {
            let stride = stride(count);
            let mut seen = vec![false; count as usize];
            for position in 0..count {
                let index = (position * stride % count) as usize;
                assert!(!std::mem::replace(&mut seen[index], true));
            }
        }
    }
}
