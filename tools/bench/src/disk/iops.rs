//! Requests a second, of one client and of four, and memory held for one image of real files.
//!
//! All rounds of reads come before the first write: what is read is the image, as each disk holds it.

use super::holder::{Holder, Memory};
use anyhow::Result;
use coldpress_harness::figures::median;
use coldpress_harness::progress::Progress;
use std::path::Path;

/// Clients, and requests that each has under way.
pub const LOADS: [(u64, u64); 3] = [(1, 1), (1, 8), (4, 8)];
/// Kinds of requests.
pub const KINDS: [&str; 2] = ["randread", "randwrite"];

/// A run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Run {
    /// Requests a second.
    pub iops: f64,
    /// What 99 of 100 requests took at most, in nanoseconds.
    pub p99_ns: f64,
    /// Processor time of the server for a request, in nanoseconds.
    pub cpu_ns: Option<f64>,
}

/// A disk's runs: for each kind and load, one a round.
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// With the image on it, before the first run.
    pub memory: Memory,
    /// What it took after it was recompressed, if it was.
    pub recompressed: Option<Memory>,
    /// Seconds that this took.
    pub recompression_seconds: Option<f64>,
    /// By kind and load.
    pub runs: [[Vec<Run>; LOADS.len()]; KINDS.len()],
}

impl Loaded {
    /// The median of a figure over the rounds; 0 where there is none.
    pub fn median(&self, kind: usize, load: usize, figure: impl Fn(&Run) -> f64) -> f64 {
        let figures: Vec<f64> = self.runs[kind][load].iter().map(figure).collect();
        median(&figures)
    }
}

/// Loads all disks with an image, recompresses those that are to be, and has them answer in turn.
pub fn measure(
    holders: &[Holder],
    image: &Path,
    (rounds, seconds): (u64, u64),
) -> Result<Vec<Loaded>> {
    let loaded = holders.iter().map(|holder| load(holder, image));
    let mut all = loaded.collect::<Result<Vec<_>>>()?;
    for (kind, name) in KINDS.iter().enumerate() {
        for round in 1..=rounds {
            for (load, (clients, depth)) in LOADS.iter().enumerate() {
                let what = format!("round {round}: {name}, {clients} × {depth}");
                let mut progress = Progress::begin(what);
                for (loaded, holder) in all.iter_mut().zip(holders) {
                    progress.update(|| loaded.name.clone());
                    let run = run(holder, name, (*clients, *depth), seconds)?;
                    loaded.runs[kind][load].push(run);
                }
                progress.finish("done");
            }
        }
    }
    Ok(all)
}

/// Puts the image onto a disk, and recompresses it if it is to be.
fn load(holder: &Holder, image: &Path) -> Result<Loaded> {
    let progress = Progress::begin(format!("{}: loading", holder.kind.name()));
    holder.load(image)?;
    let mut loaded = Loaded {
        name: holder.kind.name(),
        memory: holder.memory()?,
        recompressed: None,
        recompression_seconds: None,
        runs: Default::default(),
    };
    if holder.kind.is_recompressed() {
        loaded.recompression_seconds = Some(holder.recompress()?);
        loaded.recompressed = Some(holder.memory()?);
    }
    progress.finish("done");
    Ok(loaded)
}

fn run(holder: &Holder, kind: &str, (clients, depth): (u64, u64), seconds: u64) -> Result<Run> {
    let before = holder.cpu_seconds();
    let jobs = holder
        .fio()
        .with(&["bs=4k", "time_based=1", "norandommap=1", "randrepeat=0"])
        .with(&["buffer_compress_percentage=50", "buffer_compress_chunk=4k"])
        .with(&["group_reporting=1"])
        .set("rw", kind)
        .set("runtime", seconds)
        .set("numjobs", clients)
        .set("iodepth", depth)
        .job(kind)
        .succeed()?;
    let cpu = before.zip(holder.cpu_seconds());
    let told = match kind.ends_with("read") {
        true => &jobs[0].read,
        false => &jobs[0].write,
    };
    Ok(Run {
        iops: told.iops,
        p99_ns: told.p99_ns,
        cpu_ns: cpu.map(|(before, after)| (after - before) * 1e9 / told.requests.max(1) as f64),
    })
}
