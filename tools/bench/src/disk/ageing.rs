//! A file system that ages: filled until there is no space, emptied and used, again and again.
//!
//! The way is that of the talk on zsmalloc, zbud and z3fold (Vitaly Wool, Embedded Linux Conference Europe 2016): ext4
//! on the disk, half full, a flavour of fio's `enospc` job for a small device, and `tiobench`, iteration after
//! iteration. All disks have an iteration in turn, so that whatever else the machine does strikes each.

use super::files;
use super::holder::{Holder, Memory};
use super::mounted::Mounted;
use anyhow::Result;
use coldpress_harness::progress::Progress;
use coldpress_programs::disk::fio::{Direction, Fio};
use std::fs;
use std::path::Path;

/// Threads of `tiobench`.
const THREADS: u64 = 4;
/// A file of such a thread is this part of the disk.
const FILE_PART: u64 = 64;

/// What is done in an iteration, in its order.
pub const PHASES: [&str; 5] = ["fill", "write", "randwrite", "read", "randread"];

/// How a phase went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Phase {
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// How long a request took, on the mean, in nanoseconds.
    pub mean_ns: f64,
    /// What 99 of 100 took at most.
    pub p99_ns: f64,
}

impl Phase {
    fn of(direction: &Direction) -> Phase {
        Phase {
            bytes_per_second: direction.bytes_per_second,
            mean_ns: direction.mean_ns,
            p99_ns: direction.p99_ns,
        }
    }
}

/// An iteration.
pub type Iteration = [Phase; PHASES.len()];

/// A disk's iterations, and what it took at their end.
pub struct Aged {
    /// Its name.
    pub name: String,
    /// One after the other.
    pub iterations: Vec<Iteration>,
    /// At the end.
    pub memory: Memory,
}

impl Aged {
    /// A figure of a phase over all iterations.
    pub fn over(&self, phase: usize, figure: impl Fn(&Phase) -> f64) -> Vec<f64> {
        let phases = self.iterations.iter().map(|iteration| &iteration[phase]);
        phases.map(figure).collect()
    }
}

/// Ages file systems on all these disks of so many bytes.
pub fn age(holders: &[Holder], dir: &Path, bytes: u64, iterations: u64) -> Result<Vec<Aged>> {
    let mut mounts = Vec::new();
    for holder in holders {
        let progress = Progress::begin(format!("{}: ext4, half full", holder.kind.name()));
        let mounted = Mounted::make(holder, dir)?;
        files::copy(Path::new(files::FROM), &mounted.dir, bytes / 2)?;
        fs::create_dir(mounted.dir.join("jobs"))?;
        progress.finish("done");
        mounts.push(mounted);
    }
    let mut all: Vec<Aged> = holders
        .iter()
        .map(|holder| Aged {
            name: holder.kind.name(),
            iterations: Vec::new(),
            memory: Memory::default(),
        })
        .collect();
    for number in 1..=iterations {
        let mut progress = Progress::begin(format!("iteration {number} of {iterations}"));
        for (aged, mounted) in all.iter_mut().zip(&mounts) {
            progress.update(|| aged.name.clone());
            aged.iterations.push(iterate(&mounted.dir, bytes)?);
        }
        progress.finish("done");
    }
    drop(mounts);
    for (aged, holder) in all.iter_mut().zip(holders) {
        aged.memory = holder.memory()?;
    }
    Ok(all)
}

fn iterate(dir: &Path, bytes: u64) -> Result<Iteration> {
    let mut phases = Iteration::default();
    let filled = jobs(dir)
        .with(&["ioengine=libaio", "iodepth=32", "bs=64k", "rw=write"])
        .with(&["fill_fs=1"])
        .job("fill")
        .succeed()?;
    phases[0] = Phase::of(&filled[0].write);
    empty(dir)?;
    let mut tiobench = jobs(dir)
        .with(&["bs=4k", "group_reporting=1", "runtime=60"])
        .set("numjobs", THREADS)
        .set("size", bytes / FILE_PART)
        .set("filename_format", "f.$jobnum");
    for name in &PHASES[1..] {
        tiobench = tiobench.job(name).set("rw", name).with(&["stonewall"]);
    }
    let told = tiobench.succeed()?;
    for (number, name) in PHASES.iter().enumerate().skip(1) {
        let Some(job) = told.iter().find(|job| job.name == *name) else {
            continue;
        };
        phases[number] = Phase::of(match name.ends_with("read") {
            true => &job.read,
            false => &job.write,
        });
    }
    empty(dir)?;
    Ok(phases)
}

/// Options of all jobs. Half of what is written are random bytes, the other half zeros, in each block.
fn jobs(dir: &Path) -> Fio {
    let content = ["buffer_compress_percentage=50", "buffer_compress_chunk=4k"];
    let jobs = Fio::new().with(&["direct=1", "fallocate=none", "randrepeat=0"]);
    jobs.with(&content)
        .set("directory", dir.join("jobs").display())
        .with(&["create_serialize=0"])
}

/// Takes away what jobs have left.
fn empty(dir: &Path) -> Result<()> {
    let jobs = dir.join("jobs");
    fs::remove_dir_all(&jobs)?;
    Ok(fs::create_dir(&jobs)?)
}
