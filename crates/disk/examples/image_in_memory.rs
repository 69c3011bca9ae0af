//! Writes a file to a disk as `qemu-img convert` does, and says what the disk takes then, at its most and at rest.
//!
//! ```console
//! $ cargo run --release -p coldpress-disk --example image_in_memory -- FILE [NAME=VALUE]...
//! ```
//!
//! Names: `codec`, `storage`, `limit` and `backlog` (MiB), `cold` (ms), `target` (per cent), `rewrites` (how often some of
//! the pages are written again, every 10 ms).

use coldpress_codec::CodecKind;
use coldpress_disk::{Disk, Options, Statistics};
use coldpress_storage::StorageKind;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

const PIECE: usize = 2 << 20;

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

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut file = File::open(arguments.next().ok_or("which file?")?)?;
    let mut options = Options::new(file.metadata()?.len().next_multiple_of(4096));
    let mut rewrites = 0;
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
    disk.compact();
    show("compacted", &disk.statistics());
    Ok(())
}
