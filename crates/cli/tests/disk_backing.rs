//! Promise: `coldpress disk serve --backing` is a cache of a file: what a flush or FUA has acknowledged is in the file,
//! whatever becomes of the server; and the file is used by one server.

use crate::common::{Directory, coldpress, stderr};
use crate::disk::{Served, has, wait_until};
use crate::nbd_client::{Client, Command};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: u64 = 4096;

/// A server of a file of so many bytes, and the directory in which it lies.
fn cached(name: &str, bytes: u64, options: &[&str]) -> (Served, Directory) {
    let files = Directory::new(&format!("{name}-files"));
    let file = files.path("file");
    fs::File::create(&file).unwrap().set_len(bytes).unwrap();
    let served = Served::start(name, &with_backing(&file, options));
    (served, files)
}

fn with_backing<'a>(file: &'a Path, options: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["--backing", file.to_str().unwrap()];
    all.extend(options);
    all
}

fn mix(seed: u64) -> u64 {
    let seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// A page that says which it is and which version; every third one does not compress.
fn page(number: u64, version: u64) -> Vec<u8> {
    let words = (0..PAGE as u64 / 8).map(|n| match n {
        0 => number,
        1 => version,
        _ if version.is_multiple_of(3) => mix(number << 32 ^ version << 12 ^ n),
        _ => number ^ version << 40,
    });
    words.flat_map(u64::to_le_bytes).collect()
}

/// The version in a page of the file; 0: it was never written.
fn version_of(number: u64, bytes: &[u8]) -> u64 {
    let word = |n: usize| u64::from_le_bytes(bytes[8 * n..][..8].try_into().unwrap());
    let version = word(1);
    match version {
        0 => assert!(bytes.iter().all(|&byte| byte == 0), "page {number} is torn"),
        _ => assert!(bytes == page(number, version), "page {number} is torn"),
    }
    version
}

/// What is written by a client until the server dies: of each page the version that was written last, and the one that
/// was acknowledged by a flush or FUA.
struct Written {
    last: Vec<u64>,
    durable: Vec<u64>,
    flushes: u64,
}

fn write_until_it_dies(socket: &Path, seed: u64) -> Written {
    let mut client = Client::connect(socket);
    let mut written = Written {
        last: vec![0; PAGES as usize],
        durable: vec![0; PAGES as usize],
        flushes: 0,
    };
    for step in 1.. {
        let chance = mix(seed << 32 | step);
        let number = chance % PAGES;
        let done = match (chance >> 32) % 100 {
            0 => client.ask(Command::Flush, 0, &[], 0).map(|()| {
                written.durable.copy_from_slice(&written.last);
                written.flushes += 1;
            }),
            how => {
                let fua = how < 4;
                // It may be in the file from now on, whether or not it is acknowledged.
                written.last[number as usize] = step;
                let command = Command::Write { fua };
                let asked = client.ask(command, number * PAGE as u64, &page(number, step), 0);
                asked.map(|()| {
                    if fua {
                        written.durable[number as usize] = step;
                    }
                })
            }
        };
        if done.is_err() {
            break;
        }
    }
    written
}

#[test]
fn what_a_flush_acknowledged_outlives_a_killed_server() {
    let options = ["--mem-limit", "4M", "--cold-after", "5ms"];
    let (mut served, files) = cached("backing-killed", PAGES * PAGE as u64, &options);
    let file = files.path("file");
    let mut not_there_yet = 0;
    for round in 0..6 {
        let socket = served.directory.path("nbd.sock");
        let client = std::thread::spawn(move || write_until_it_dies(&socket, round));
        std::thread::sleep(Duration::from_millis(600 + 250 * round));
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        let written = client.join().unwrap();
        assert!(written.flushes > 0, "nothing was flushed");
        let bytes = fs::read(&file).unwrap();
        for (number, bytes) in (0..).zip(bytes.chunks(PAGE)) {
            let version = version_of(number, bytes);
            let (durable, last) = (
                written.durable[number as usize],
                written.last[number as usize],
            );
            assert!(
                (durable..=last).contains(&version),
                "page {number}: {version} in the file, {durable} acknowledged, {last} written"
            );
            not_there_yet += u32::from(version < last);
        }
        fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .write_all_at(&vec![0; bytes.len()], 0)
            .unwrap();
        served.child = Served::serve(&served.directory, &with_backing(&file, &options));
    }
    assert!(not_there_yet > 0, "every write was in the file at once");
    served.stop();
}

#[test]
fn what_was_written_is_in_the_file_when_the_server_ends() {
    let (served, files) = cached("backing-ends", 16 << 20, &["--mem-limit", "4M"]);
    let mut client = Client::connect(&served.directory.path("nbd.sock"));
    let mut expected = vec![0; 16 << 20];
    let mut write = |at: usize, data: &[u8]| {
        let command = Command::Write { fua: false };
        client.ask(command, at as u64, data, 0).unwrap();
        expected[at..][..data.len()].copy_from_slice(data);
    };
    (0..3000).for_each(|n| write(n * PAGE, &page(n as u64, n as u64 * 2 + 1)));
    write(5000, b"parts of pages");
    write(3500 * PAGE - 7, b"across the bounds of two");
    client.ask(Command::Trim, 0, &[], 2 << 12).unwrap();
    expected[..2 * PAGE].fill(0);
    let mut read = vec![0; 1 << 20];
    client.read(4 << 20, &mut read).unwrap();
    assert!(read == expected[4 << 20..5 << 20]);
    drop(client);
    wait_until("gone", || served.figure("clients") == 0);
    let figures = served.figures();
    assert!(figures["dirty_pages"].as_u64().unwrap() > 0, "{figures}");
    assert!(
        served.figure("mem_used_max") <= 4 << 20 && served.figure("written_back_pages") > 0,
        "{figures}"
    );
    served.stop();
    assert!(fs::read(files.path("file")).unwrap() == expected);
}

#[test]
fn a_file_system_is_cached() {
    if !has(&["qemu-io"], "patterns on a cache") {
        return;
    }
    let (served, files) = cached("backing-patterns", 32 << 20, &["--mem-limit", "8M"]);
    served.io(
        "disk",
        &[
            "write -P 0x11 0 24M",
            "write -P 0x22 512k 512",
            "discard 128k 64k",
            "write -z 256k 10000",
            "write -f -P 0x44 30M 4k",
        ],
    );
    assert_eq!(fs::read(files.path("file")).unwrap()[30 << 20], 0x44, "FUA");
    assert!(served.done("flush").contains("pages written back"));
    let table = served.done("status");
    assert!(table.contains("DIRTY"), "{table}");
    served.io(
        "disk",
        &[
            "read -P 0x11 0 128k",
            "read -P 0 128k 64k",
            "read -P 0 256k 10000",
            "read -P 0x22 512k 512",
            "read -P 0x11 1M 23M",
            "read -P 0 24M 6M",
        ],
    );
    let figures = served.figures();
    assert_eq!(figures["dirty_pages"], 0);
    for name in [
        "stored_pages",
        "pool_total_size",
        "same_filled_pages",
        "written_back_pages",
        "pool_limit_hit",
        "reject_compress_poor",
        "reject_alloc_fail",
        "reject_reclaim_fail",
    ] {
        assert!(figures[name].is_u64(), "{name}: {figures}");
    }
    assert!(served.refused("snapshot x").contains("only a cache of"));
    assert!(served.refused("reset").contains("only a cache of"));
    served.stop();
}

#[test]
fn a_file_that_cannot_be_cached_is_refused_with_the_reason() {
    let (served, files) = cached("backing-refused", 8 << 20, &[]);
    let directory = &served.directory;
    let paths = ["file", "odd", "new"].map(|name| files.path(name));
    let [file, odd, new] = [0, 1, 2].map(|n: usize| paths[n].to_str().unwrap());
    fs::write(odd, "abc").unwrap();
    for (options, why) in [
        (vec!["--backing", file], "served already"),
        (vec!["--backing", odd], "truncate -s 4096"),
        (
            vec!["--backing", "/dev/null"],
            "neither a file nor a block device",
        ),
        (vec!["--backing", new], "--size 4G"),
        (
            vec!["--backing", file, "--accept-threshold", "0"],
            "1..=100",
        ),
        (
            vec!["--size", "8M", "--writeback", file],
            "would be overwritten",
        ),
        (
            vec!["--size", "8M", "--accept-threshold", "50"],
            "for a disk with a file behind it",
        ),
        (
            vec!["--size", "8M", "--backing", file, "--writeback", new],
            "contradict each other",
        ),
        (
            vec!["--size", "8M", "--writeback-limit", "1G"],
            "--writeback",
        ),
    ] {
        let mut command = coldpress();
        command.args(["disk", "serve", "--name", "other", "--socket"]);
        command.arg(directory.path("other.sock")).args(&options);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("run"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{options:?}");
        assert!(
            stderr(&output).contains(why),
            "{options:?}: {}",
            stderr(&output)
        );
    }
    assert!(!Path::new(new).exists());
    served.stop();
    let served = Served::start("backing-created", &["--backing", new, "--size", "8M"]);
    assert_eq!(served.figure("disksize"), 8 << 20);
    served.stop();
    assert_eq!(fs::metadata(new).unwrap().len(), 8 << 20);
}

/// Promise: with `--writeback` a disk holds more than its memory limit; what goes to the file can be read by nobody else.
#[test]
fn a_disk_with_a_write_back_file_holds_more_than_its_memory() {
    let files = Directory::new("writeback-files");
    let file = files.path("tier");
    let options = ["--size", "32M", "--mem-limit", "4M", "--writeback"];
    let options: Vec<&str> = options
        .into_iter()
        .chain([file.to_str().unwrap()])
        .collect();
    let served = Served::start("writeback", &options);
    assert!(!file.exists(), "it has no name");
    let mut client = Client::connect(&served.directory.path("nbd.sock"));
    let command = Command::Write { fua: true };
    for n in 0..3000 {
        let data = page(n, n * 3);
        client.ask(command, n * PAGE as u64, &data, 0).unwrap();
    }
    // What is on the medium, through the descriptor of the process.
    let pid = served.child.id();
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let of_tier = |path: &std::path::PathBuf| {
        let target = fs::read_link(path).unwrap_or_default();
        target.to_string_lossy().contains("/tier (deleted)")
    };
    let mut paths = descriptors.map(|entry| entry.path());
    let on_medium = fs::read(paths.find(of_tier).unwrap()).unwrap();
    assert!(on_medium.iter().filter(|&&byte| byte != 0).count() > 1 << 20);
    let noise = page(77, 77 * 3);
    let is_there = on_medium
        .windows(32)
        .any(|window| *window == noise[1024..1056]);
    assert!(!is_there, "a page can be read");
    let mut read = vec![0; PAGE];
    for n in (0..3000).rev() {
        client.read(n * PAGE as u64, &mut read).unwrap();
        assert!(read == page(n, n * 3), "page {n}");
    }
    drop(client);
    let figures = served.figures();
    for name in ["bd_count", "bd_reads", "bd_writes"] {
        assert!(figures[name].as_u64().unwrap() > 500, "{name}: {figures}");
    }
    assert!(served.figure("mem_used_max") <= 5 << 20, "{figures}");
    served.done("idle");
    assert!(served.done("writeback idle").contains("0 held"));
    let held = served.figure("mem_used_total");
    assert!(
        held < 2 << 20,
        "{held} bytes for pages that are held no longer"
    );
    assert!(
        served
            .done("writeback huge")
            .contains("0 pages written back")
    );
    assert!(served.done("status -v").contains("bd_stat"));
    assert!(served.refused("flush").contains("ends with it"));
    assert!(served.refused("snapshot x").contains("without --writeback"));
    served.done("reset --force");
    assert_eq!(served.figure("bd_count"), 0);
    served.stop();
    assert_eq!(fs::read_dir(files.path("")).unwrap().count(), 0);
    let plain = Served::start("writeback-none", &["--size", "8M"]);
    assert!(plain.refused("writeback all").contains("--writeback PATH"));
    plain.stop();
}
