//! Writes a file to a disk as `qemu-img convert` does, and says what the disk takes then, at its most and at rest.
//!
//! ```console
//! $ cargo run --release -p coldpress-disk --example image_in_memory -- FILE [NAME=VALUE]...
//! ```
//!
//! Names: `codec`, `storage`, `limit` and `backlog` (MiB), `cold` (ms), `target` (per cent), `rewrites` (how often some of
//! the pages are written again, every 10 ms), `recompress` (1: stores all anew, and compares it with the file).

use coldpress_codec::CodecKind;
use coldpress_disk::{Disk, IoError, Options, Statistics};
use coldpress_storage::StorageKind;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Seek};
use std::time::{Duration, Instant};

const PIECE: usize = 2 << 20;

/// Pages that are read at random places.
const READS: u32 = 20_000;

/// Pages that are written again: one in so many of the first 64 MiB.
const REWRITTEN_PART: u64 = 16;

fn show(when: &str, s: &Statistics) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{when:10} {:7.1} MiB of data in {:7.1} MiB (peak {:7.1}), {} compressions, {} pages plain",
        mib(s.orig_data_size),
        mib(s.mem_used_total),
        mib(s.mem_used_max),
        s.compressions,
        s.pages_in_place,
    );
}

/// Stores all anew, reads at random places before and after, and compares all of it with the file.
fn recompress(disk: &Disk, file: &mut File) -> Result<(), Box<dyn Error>> {
    let pages = disk.volume().size_bytes() / 4096;
    let mut random = 1u64;
    let mut read_some = || -> Result<f64, IoError> {
        let since = Instant::now();
        for _ in 0..READS {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            disk.volume()
                .read((random >> 33) % pages * 4096, &mut [0; 4096])?;
        }
        Ok(since.elapsed().as_secs_f64() * 1e6 / f64::from(READS))
    };
    let (before, since) = (read_some()?, Instant::now());
    println!("{}, after {:.1?}", disk.recompress(), since.elapsed());
    println!("a read: {before:.1} µs, now {:.1} µs", read_some()?);
    disk.compact();
    show("denser", &disk.statistics());
    file.rewind()?;
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    loop {
        let read = file.read(&mut buffer)?;
        let mut held = vec![0; read];
        disk.volume().read(at, &mut held)?;
        assert!(held == buffer[..read], "not what was written, behind {at}");
        at += read as u64;
        if read == 0 {
            return Ok(());
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut file = File::open(arguments.next().ok_or("which file?")?)?;
    let mut options = Options::new(file.metadata()?.len().next_multiple_of(4096));
    let (mut rewrites, mut recompresses) = (0, false);
    for argument in arguments {
        let (name, value) = argument.split_once('=').ok_or("NAME=VALUE")?;
        match name {
            "codec" => options.codec = CodecKind::from_name(value)?,
            "storage" => options.storage = StorageKind::from_name(value).ok_or("which storage?")?,
            "limit" => options.limit_bytes = Some(value.parse::<u64>()? << 20),
            "backlog" => options.backlog_bytes = value.parse::<u64>()? << 20,
            "cold" => options.cold_age = Duration::from_millis(value.parse()?),
            "target" => options.target_percent = value.parse()?,
            "rewrites" => rewrites = value.parse()?,
            "recompress" => recompresses = value == "1",
            _ => return Err(format!("there is no {name}").into()),
        }
    }
    let disk = Disk::new(&options)?;
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        disk.volume().write(at, &buffer[..read])?;
        at += read as u64;
    }
    show("written", &disk.statistics());
    for round in 0..rewrites {
        for page in (0..16384).step_by(REWRITTEN_PART as usize) {
            let mut bytes = [0; 4096];
            disk.volume().read(page * 4096, &mut bytes)?;
            bytes[8] = round;
            disk.volume().write(page * 4096, &bytes)?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(3 * options.cold_age + Duration::from_millis(500));
    show("at rest", &disk.statistics());
    if recompresses {
        disk.mark_idle();
        disk.settle();
    }
    disk.compact();
    show("compacted", &disk.statistics());
    if recompresses {
        recompress(&disk, &mut file)?;
    }
    Ok(())
}
