//! Requests a second, of one client and of four, and memory held for one image of real files.

use super::files;
use super::holder::{Base, Holder, Memory};
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
    /// The same, after an order to recompress, where the codec knows one.
    pub recompressed: Option<Memory>,
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

/// Loads all disks with an image of real files, and has them answer in turn.
pub fn measure(
    holders: &[Holder],
    dir: &Path,
    bytes: u64,
    (rounds, seconds): (u64, u64),
) -> Result<Vec<Loaded>> {
    let progress = Progress::begin("an ext4 image of files of this machine");
    let image = files::image(dir, bytes)?;
    progress.finish("done");
    let mut all = Vec::new();
    for holder in holders {
        let progress = Progress::begin(format!("{}: loading", holder.kind.name()));
        holder.load(&image)?;
        all.push(Loaded {
            name: holder.kind.name(),
            memory: holder.memory()?,
            recompressed: None,
            runs: Default::default(),
        });
        progress.finish("done");
    }
    for round in 1..=rounds {
        for (kind, name) in KINDS.iter().enumerate() {
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
    for (loaded, holder) in all.iter_mut().zip(holders) {
        loaded.recompressed = recompressed(holder, &image)?;
    }
    Ok(all)
}

/// What a disk of ours takes with the image on it again, stored anew; none where its codec knows no denser form.
fn recompressed(holder: &Holder, image: &Path) -> Result<Option<Memory>> {
    let Base::Server(server) = &holder.base else {
        return Ok(None);
    };
    if !holder.kind.is_ours() {
        return Ok(None);
    }
    holder.load(image)?;
    server.order(&["idle"])?;
    match server.order(&["recompress"]) {
        Ok(_) => holder.memory().map(Some),
        Err(_) => Ok(None),
    }
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
