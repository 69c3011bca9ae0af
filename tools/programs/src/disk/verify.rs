//! `cargo xtask verify --disk`: fio writes blocks with a CRC each at random, and finds them again.
//!
//! * On `--writeback`: four clients write through a memory limit of a quarter of the disk, and read back what they
//!   wrote; then all of it is read once more, most of it from the file.
//! * On `--backing FILE`: clients write a half of the disk and flush, others write the other half meanwhile; then the
//!   server is killed by SIGKILL. What was flushed is read from the file itself, and by the next server. The halves
//!   change places, so what was torn is written again.
//!
//! Each round has a seed, from which fio makes blocks and their order, so that a later run knows what an earlier one
//! has written (`verify_only`). A block says where it belongs and whether it is whole, but not how old it is. So each
//! round begins without what the last one has left: the disk is reset, the part of the file zeroed.

use super::fio::{FIO, Fio, Told};
use super::server::Server;
use anyhow::{Context, Result, bail};
use coldpress_harness::text::{Table, thousands};
use coldpress_harness::{install, workspace};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients at a time, each with a part of its own.
const CLIENTS: u64 = 4;
/// Bytes of the disk.
const DISK_BYTES: u64 = 128 << 20;
/// Bytes of memory.
const LIMIT_BYTES: u64 = DISK_BYTES / 4;
/// Blocks that are written before some are read back.
const BACKLOG: u64 = 256;
/// How long a server may take to write everything back when it is told to end.
const ENDING: Duration = Duration::from_secs(60);

/// What was done on one disk.
#[derive(Default)]
struct Done {
    rounds: u64,
    written_bytes: u64,
    verified_bytes: u64,
    kills: u64,
    seconds: f64,
    /// What went wrong.
    wrong: Option<String>,
}

/// What a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// It writes blocks, and reads them.
    Writes,
    /// It only reads them.
    Reads,
}

impl Done {
    /// Takes a run that must be a good one: no block was other than it must be, and nothing failed. Whether it was.
    fn take(&mut self, what: &str, told: &Told, run: Run) -> bool {
        for job in &told.jobs {
            // A run that only reads tells the writes that it has gone through as its own.
            self.written_bytes += if run == Run::Writes {
                job.write.bytes
            } else {
                0
            };
            self.verified_bytes += job.read.bytes;
        }
        let failed = !told.success || told.jobs.iter().any(|job| job.error != 0);
        if failed || told.jobs.is_empty() {
            self.wrong = Some(format!("{what}: {}", told.said.trim()));
        }
        self.wrong.is_none()
    }
}

/// What is behind a disk that is verified.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// A file for what memory shall not hold.
    Writeback,
    /// A file that the disk is a cache of; the server is killed.
    Backing,
}

/// Verifies both for so long each, or one of them; 1 if something was wrong.
pub fn run(time: Duration, seed: u64, only: Option<Behind>) -> Result<u8> {
    install::packages(&[FIO])?;
    let coldpress = workspace::coldpress()?;
    let (dir, _guard) = workspace::temporary_dir("verify-disk")?;
    let parts: [(Behind, &str, Part); 2] = [
        (Behind::Writeback, "--writeback", write_back),
        (Behind::Backing, "--backing, killed", backing),
    ];
    let mut table = Table::new(&[
        "disk", "rounds", "written", "verified", "kills", "s", "wrong",
    ]);
    let mut code = 0;
    let parts = parts.into_iter();
    for (_, name, part) in parts.filter(|part| only.is_none_or(|only| only == part.0)) {
        let since = Instant::now();
        let mut done = Done::default();
        part(&coldpress, &dir, (since, time), seed, &mut done).context(name)?;
        done.seconds = since.elapsed().as_secs_f64();
        let mib = |bytes: u64| format!("{} MiB", thousands(bytes >> 20));
        table.row(&[
            name.to_owned(),
            thousands(done.rounds),
            mib(done.written_bytes),
            mib(done.verified_bytes),
            thousands(done.kills),
            format!("{:.0}", done.seconds),
            u8::from(done.wrong.is_some()).to_string(),
        ]);
        if let Some(wrong) = done.wrong {
            println!("WRONG: {name}, seed {}: {wrong}", seed + done.rounds);
            code = 1;
        }
    }
    print!("{table}");
    Ok(code)
}

/// One of the two, until so much time has passed since then.
type Part = fn(&Path, &Path, (Instant, Duration), u64, &mut Done) -> Result<()>;

/// Blocks that know what they must hold, in so many bytes from `at` on, by several clients.
fn blocks(fio: Fio, (at, bytes): (u64, u64), seed: u64) -> Fio {
    let share = bytes / CLIENTS;
    fio.with(&["rw=randwrite", "bs=4k", "verify=crc32c", "verify_fatal=1"])
        .with(&["group_reporting=1", "buffer_compress_percentage=60"])
        .set("offset", at)
        .set("offset_increment", share)
        .set("size", share)
        .set("numjobs", CLIENTS)
        .set("randseed", seed)
        .job("blocks")
}

fn client(server: &Server) -> Fio {
    let fio = Fio::new().with(&["ioengine=nbd", "iodepth=8"]);
    fio.set("uri", server.uri())
}

/// Nothing is written: what an earlier run of the seed has written is read.
fn only_read(blocks: Fio) -> Fio {
    blocks.with(&["verify_only=1"])
}

fn write_back(
    coldpress: &Path,
    dir: &Path,
    (since, time): (Instant, Duration),
    seed: u64,
    done: &mut Done,
) -> Result<()> {
    let (size, limit) = (DISK_BYTES.to_string(), LIMIT_BYTES.to_string());
    let tier = dir.join("tier").display().to_string();
    let options = [
        "--size",
        &size,
        "--mem-limit",
        &limit,
        "--cold-after",
        "50ms",
    ];
    let options = [&options[..], &["--writeback", &tier]].concat();
    let server = Server::ours(coldpress, dir, "writeback", &options)?;
    let whole = (0, DISK_BYTES);
    while since.elapsed() < time {
        let seed = seed + done.rounds;
        server.order(&["reset", "--force"])?;
        let written = blocks(client(&server), whole, seed).set("verify_backlog", BACKLOG);
        if !done.take("while it was written", &written.finish()?, Run::Writes) {
            return Ok(());
        }
        let again = only_read(blocks(client(&server), whole, seed));
        if !done.take("read once more", &again.finish()?, Run::Reads) {
            return Ok(());
        }
        done.rounds += 1;
        tell("--writeback", done, since, time);
    }
    let figures = server.figures()?;
    let figure = |name: &str| figures[name].as_u64().unwrap_or(0);
    if figure("bd_reads") == 0 || figure("mem_used_max") > LIMIT_BYTES + (1 << 20) {
        done.wrong = Some(format!("not what was to be verified: {figures}"));
    }
    server.stop(ENDING)
}

fn backing(
    coldpress: &Path,
    dir: &Path,
    (since, time): (Instant, Duration),
    seed: u64,
    done: &mut Done,
) -> Result<()> {
    let path = dir.join("backing");
    File::create(&path)?.set_len(DISK_BYTES)?;
    let (file, limit) = (path.display().to_string(), LIMIT_BYTES.to_string());
    let options = [
        "--backing",
        &file,
        "--mem-limit",
        &limit,
        "--cold-after",
        "50ms",
    ];
    let serve = || Server::ours(coldpress, dir, "backing", &options);
    let half = DISK_BYTES / 2;
    while since.elapsed() < time {
        let seed = seed + done.rounds;
        let flushed = (done.rounds % 2 * half, half);
        let other = (half - flushed.0, half);
        forget(&path, flushed)?;
        let server = serve()?;
        // It is ended by the kill, in the middle of something.
        let torn = client(&server).with(&["time_based=1", "runtime=600"]);
        let torn = blocks(torn, other, seed + 1_000_000).with(&["do_verify=0"]);
        let torn = torn.start()?;
        let written = blocks(client(&server), flushed, seed).with(&["end_fsync=1"]);
        let written = written.set("verify_backlog", BACKLOG).finish()?;
        if !done.take("while it was written", &written, Run::Writes) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(seed * 37 % 200));
        if torn.has_ended()? {
            bail!("the other client has ended: {}", torn.finish()?.said.trim());
        }
        server.kill();
        done.kills += 1;
        torn.finish()?;
        let in_file = Fio::new().with(&["ioengine=psync"]).set("filename", &file);
        let in_file = only_read(blocks(in_file, flushed, seed));
        if !done.take(
            "in the file, after the kill",
            &in_file.finish()?,
            Run::Reads,
        ) {
            return Ok(());
        }
        let server = serve()?;
        let by_next = only_read(blocks(client(&server), flushed, seed));
        if !done.take("read by the next server", &by_next.finish()?, Run::Reads) {
            return Ok(());
        }
        server.stop(ENDING)?;
        done.rounds += 1;
        tell("--backing, killed", done, since, time);
    }
    Ok(())
}

/// Has a part of a file be zeros.
fn forget(path: &Path, (at, bytes): (u64, u64)) -> Result<()> {
    let file = File::options().write(true).open(path)?;
    file.write_all_at(&vec![0; bytes as usize], at)?;
    Ok(file.sync_all()?)
}

/// A line a round on how far it is.
fn tell(name: &str, done: &Done, since: Instant, time: Duration) {
    eprintln!(
        "{name}: round {}, {} MiB verified, {:.0} of {} s",
        done.rounds,
        thousands(done.verified_bytes >> 20),
        since.elapsed().as_secs_f64(),
        time.as_secs()
    );
}

#[cfg(test)]
mod tests {
    use super::super::fio::{Direction, Job};
    use super::*;

    #[test]
    fn a_run_without_jobs_or_with_an_error_is_wrong() {
        let job = |error| Job {
            error,
            read: Direction {
                bytes: 4096,
                ..Direction::default()
            },
            ..Job::default()
        };
        let told = |jobs| Told {
            jobs,
            success: true,
            said: "crc32c: verify failed".into(),
        };
        let mut done = Done::default();
        assert!(done.take("a", &told(vec![job(0)]), Run::Writes) && done.verified_bytes == 4096);
        assert!(!done.take("b", &told(vec![job(84)]), Run::Writes));
        assert!(done.wrong.unwrap().contains("verify failed"));
        assert!(!Done::default().take("c", &told(Vec::new()), Run::Writes));
    }
}
