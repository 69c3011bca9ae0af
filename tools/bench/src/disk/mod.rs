//! `cargo xtask bench disk`: the compressed RAM disk beside the kernel's zram, nbdkit and a plain file.
//!
//! Without more: a file system ages on each ([`ageing`]). With `--iops`: requests a second, and memory held for one
//! image of real files ([`iops`]). Disks are compared in turns.
//!
//! | module | holds |
//! |---|---|
//! | [`holder`] | the disks: ours by codec and storage, nbdkit's, zram's |
//! | [`files`] | real files, and an image full of them |
//! | [`mounted`] | ext4 on a disk, by nbdfuse and a loop device |
//! | [`ageing`] | fio's `enospc` and `tiobench`, iteration after iteration |
//! | [`iops`] | requests of 4 KiB at random places |
//! | [`report`], [`chart`] | tables, JSON, SVG |

mod ageing;
mod chart;
mod files;
mod holder;
mod iops;
mod mounted;
mod report;

use crate::machine::Machine;
use anyhow::{Context, Result};
use coldpress_harness::install::{self, program};
use coldpress_harness::progress::Progress;
use coldpress_harness::{output, workspace};
use coldpress_programs::disk::fio::FIO;
use coldpress_programs::disk::server::NBDKIT;
use coldpress_storage::StorageKind;
use holder::{Holder, Kind};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Options of the measurement.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Requests a second and memory held for one image, instead of a file system that ages
    #[arg(long)]
    iops: bool,
    /// How often each file system is filled and used
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Size of each disk in MiB [default: 256; with --iops 1024]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(64..))]
    mib: Option<u64>,
    /// Codec of ours, for each storage; with --iops several can be given [default: lz4, as zram's;
    /// with --iops the default one, and zstd:1]
    #[arg(long = "codec", value_name = "NAME")]
    codecs: Vec<String>,
    /// With --iops: how often each disk has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// With --iops: a directory whose files the image is made of [default: /usr]
    #[arg(long, value_name = "DIRECTORY", requires = "iops")]
    files: Option<PathBuf>,
    /// With --iops: seconds of each turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Write everything to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the iterations into this file
    #[arg(long, value_name = "FILE", conflicts_with = "iops")]
    svg: Option<PathBuf>,
}

/// Runs it.
pub fn run(options: &Options) -> Result<u8> {
    install::packages(&[
        FIO,
        NBDKIT,
        program("libnbd-bin", "nbdcopy"),
        program("fuse3", "fusermount3"),
        program("e2fsprogs", "mke2fs"),
    ])?;
    let machine = Machine::now();
    let coldpress = workspace::coldpress()?;
    let (dir, _guard) = workspace::temporary_dir("disk")?;
    match options.iops {
        true => requests(options, &coldpress, &dir, &machine),
        false => ageing(options, &coldpress, &dir, &machine),
    }?;
    Ok(0)
}

/// Starts them; zram where the kernel has the algorithm, else says what is missing.
fn start(kinds: &[Kind], coldpress: &Path, dir: &Path, bytes: u64) -> Result<Vec<Holder>> {
    let mut holders = Vec::new();
    for kind in kinds {
        match Holder::start(kind, coldpress, dir, bytes) {
            Ok(holder) => holders.push(holder),
            Err(error) if matches!(kind, Kind::Zram(_)) => {
                println!("SKIPPED: {}: {error:#}", kind.name());
            }
            Err(error) => return Err(error).with_context(|| kind.name()),
        }
    }
    Ok(holders)
}

fn ageing(options: &Options, coldpress: &Path, dir: &Path, machine: &Machine) -> Result<()> {
    let codec = options.codecs.first().map_or("lz4", String::as_str);
    let ours = StorageKind::ALL.map(|storage| Kind::Ours {
        codec: Some(codec.to_owned()),
        storage: Some(storage.name()),
        recompressed: false,
    });
    let others = [
        Kind::Zram("lz4"),
        Kind::Zram("lzo-rle"),
        Kind::NbdkitZstd,
        Kind::File,
    ];
    let bytes = options.mib.unwrap_or(256) << 20;
    let holders = start(&[&ours[..], &others].concat(), coldpress, dir, bytes)?;
    let all = ageing::age(&holders, dir, bytes, options.iterations)?;
    println!("\n{}", report::aged(&all));
    println!(
        "\next4 on disks of {} MiB, half full of files of this machine; medians of {} iterations, in turns. All but \
         zram stand on NBD, nbdfuse and a loop device. last third: filling, against the first third. {machine}",
        bytes >> 20,
        options.iterations
    );
    if let Some(path) = &options.svg {
        let written = std::fs::write(path, chart::svg(&all));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(path) = &options.json {
        let told = json!({
            "disk_bytes": bytes, "disks": report::aged_json(&all), "machine": machine.json(),
        });
        output::json(path, &told)?;
    }
    Ok(())
}

/// Whether a disk of this codec can be recompressed; none is the default one, press.
fn has_denser_form(codec: Option<&str>) -> bool {
    codec.is_none_or(|name| name == "press" || name == "zstd" || name.starts_with("zstd:"))
}

fn requests(options: &Options, coldpress: &Path, dir: &Path, machine: &Machine) -> Result<()> {
    let codecs = match options.codecs.is_empty() {
        true => vec![None, Some("zstd:1".to_owned())],
        false => options.codecs.iter().cloned().map(Some).collect(),
    };
    let ours = codecs.into_iter().flat_map(|codec| {
        let once_more = has_denser_form(codec.as_deref()).then_some(true);
        let codecs = std::iter::once(false).chain(once_more);
        codecs.map(move |recompressed| Kind::Ours {
            codec: codec.clone(),
            storage: None,
            recompressed,
        })
    });
    let others = [Kind::NbdkitZstd, Kind::Zram("lz4"), Kind::File];
    let kinds: Vec<Kind> = ours.chain(others).collect();
    let bytes = options.mib.unwrap_or(1024) << 20;
    let holders = start(&kinds, coldpress, dir, bytes)?;
    let from = options.files.as_deref().unwrap_or(Path::new(files::FROM));
    let progress = Progress::begin(format!("an ext4 image of files below {}", from.display()));
    let image = files::image(from, dir, bytes)?;
    progress.finish("done");
    let turns = (options.rounds, options.seconds);
    let all = iops::measure(&holders, &image, turns)?;
    println!("\n{}", report::iops(&all));
    let base = Kind::NbdkitZstd.name();
    let tables = [
        report::ratios(&all, &base),
        report::p99_ratios(&all, &base),
        Some(report::held(&all)),
    ];
    for table in tables.into_iter().flatten() {
        println!("{table}");
    }
    println!(
        "\nrequests of 4 KiB, clients × requests under way; medians of {} turns of {} s, all reads before the first \
         write. CPU: of the server, for a request of the last load. Memory: an ext4 image of {} MiB with files below \
         {}, before the requests; zram's own count leaves its table out. {machine}",
        options.rounds,
        options.seconds,
        bytes >> 20,
        from.display()
    );
    if let Some(path) = &options.json {
        let told = json!({
            "disk_bytes": bytes, "files": from, "disks": report::iops_json(&all),
            "machine": machine.json(),
        });
        output::json(path, &told)?;
    }
    Ok(())
}
