//! Promise: a disk answers queries of RFC-0219 while clients write and read, every figure of
//! `zx_info_kmem_stats_compression` and the times of its task, and they add up.

use crate::common::{stderr, stdout};
use crate::disk::{Served, has, wait_until};
use crate::nbd_client::{Client, Command};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const COMPRESSION: &str = "zx_info_kmem_stats_compression";

/// A page that compresses to a third, and is no word repeated.
fn page(seed: u64) -> Vec<u8> {
    let byte = |n: usize| match n % 3 {
        0 => (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (n % 57)) as u8 ^ n as u8,
        _ => b'x',
    };
    (0..PAGE).map(byte).collect()
}

/// Asks over the control socket, as any program can.
fn info(served: &Served) -> Value {
    let path = served.directory.path("run").join("disk-disk.sock");
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(b"{\"command\":\"info\"}\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    serde_json::from_str::<Value>(&answer).unwrap()["done"].take()
}

fn figure(told: &Value, record: &str, name: &str) -> u64 {
    let value = told[record][name].as_u64();
    value.unwrap_or_else(|| panic!("{record}.{name}: {told}"))
}

/// What holds at any moment.
fn check(told: &Value) {
    let of = |name| figure(told, COMPRESSION, name);
    let kept = of("eager_page_compressions")
        + of("memory_pressure_page_compressions")
        + of("critical_memory_page_compressions");
    let attempts = of("total_page_compression_attempts");
    let outcomes = kept + of("failed_page_compression_attempts");
    assert!(attempts >= outcomes, "{told}");
    let within = told[COMPRESSION]["pages_decompressed_within_log_time"].as_array();
    let within = within.unwrap().iter().map(|n| n.as_u64().unwrap());
    assert!(
        within.sum::<u64>() <= of("total_page_decompressions"),
        "{told}"
    );
    assert!(
        of("compressed_fragmentation_bytes") <= of("compressed_storage_bytes"),
        "{told}"
    );
    let time = |name| figure(told, "task_runtime", name);
    assert!(
        time("page_fault_decompress_time") <= time("page_fault_time"),
        "{told}"
    );
}

/// What holds besides while nobody is at work.
fn check_at_rest(told: &Value, status: &Value) {
    check(told);
    let of = |name| figure(told, COMPRESSION, name);
    let kept = of("eager_page_compressions")
        + of("memory_pressure_page_compressions")
        + of("critical_memory_page_compressions");
    let attempts = of("total_page_compression_attempts");
    assert_eq!(
        attempts,
        kept + of("failed_page_compression_attempts"),
        "{told}"
    );
    let held = of("uncompressed_content_bytes") / PAGE as u64;
    let left = of("total_page_decompressions") + of("compressed_page_evictions");
    assert_eq!(
        kept,
        held + left,
        "what was kept is there or has left: {told}"
    );
    assert_eq!(status["compressed_pages"], held);
    assert_eq!(status["compressions"], attempts);
    assert!(of("compressed_storage_bytes") <= status["mem_used_total"].as_u64().unwrap());
    let task = figure(told, "task_runtime", "page_fault_decompress_time");
    assert_eq!(
        task,
        of("decompression_time"),
        "nobody else decompresses: {told}"
    );
}

/// Writes whole pages and parts of pages, and reads, from a part of the disk that is its own.
fn work(served: &Served, part: u64, stop: &AtomicBool) {
    let mut client = Client::connect(&served.directory.path("nbd.sock"));
    let (first, mut read) = (part * 2048 * PAGE as u64, vec![0; PAGE]);
    let write = Command::Write { fua: false };
    for step in 0_u64.. {
        let at = first + step * 7919 % 2048 * PAGE as u64;
        match step % 8 {
            0..4 => client.ask(write, at, &page(step), 0).unwrap(),
            4 => client.ask(write, at + 100, &page(step)[..200], 0).unwrap(),
            5 => client.ask(Command::Trim, at, &[], PAGE as u32).unwrap(),
            _ => client.read(at, &mut read).unwrap(),
        }
        if stop.load(Relaxed) {
            break;
        }
    }
}

#[test]
fn figures_add_up_while_clients_write() {
    let options = [
        "--size",
        "32M",
        "--mem-limit",
        "16M",
        "--cold-after",
        "20ms",
    ];
    let served = Served::start("disk-info", &options);
    let stop = AtomicBool::new(false);
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        for part in 0..3 {
            let (served, stop) = (&served, &stop);
            scope.spawn(move || work(served, part, stop));
        }
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(2) {
            all.push(info(&served));
            std::thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Relaxed);
    });
    all.iter().for_each(check);
    let counters = [
        "total_page_compression_attempts",
        "total_page_decompressions",
        "compressed_page_evictions",
        "compression_time",
        "decompression_time",
    ];
    for name in counters {
        let values: Vec<u64> = all
            .iter()
            .map(|told| figure(told, COMPRESSION, name))
            .collect();
        assert!(values.is_sorted(), "{name}: {values:?}");
        assert!(
            values.last() > values.first(),
            "{name}: nothing was counted meanwhile"
        );
    }
    wait_until("gone", || served.figure("clients") == 0);
    served.done("idle");
    let told: Value = serde_json::from_str(&served.done("info --json")).unwrap();
    check_at_rest(&told, &served.figures());
    served.stop();
}

/// Fields of the structure in the header, by their names.
fn fields_in_c(header: &str) -> Vec<String> {
    let (_, from) = header
        .split_once(&format!("struct {COMPRESSION} {{"))
        .unwrap();
    let (body, _) = from.split_once("};").unwrap();
    let lines = body.lines().map(str::trim);
    let fields = lines.filter(|line| line.ends_with(';') && !line.starts_with("//"));
    let name = |line: &str| {
        let name = line.split_whitespace().nth(1).unwrap();
        name.trim_end_matches([';', ']', '8', '[']).to_owned()
    };
    fields.map(name).collect()
}

#[test]
fn every_field_is_shown_under_its_name_in_c() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/include/coldpress_info.h");
    let header = std::fs::read_to_string(header).unwrap();
    let served = Served::start("disk-info-fields", &["--size", "8M"]);
    let text = served.done("info");
    let shown: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let fields = fields_in_c(&header);
    assert_eq!(fields.len(), 14, "{fields:?}");
    assert_eq!(shown[..14], fields, "{text}");
    assert_eq!(shown[14], "cpu_time", "{text}");
    served.stop();
}

#[test]
fn a_program_in_c_asks_with_the_header() {
    if !has(&["gcc"], "a program in C that asks a disk") {
        return;
    }
    let options = ["--size", "16M", "--cold-after", "20ms"];
    let served = Served::start("disk-info-c", &options);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&served, 0, &stop));
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Relaxed);
    });
    wait_until("gone", || served.figure("clients") == 0);
    served.done("idle");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = served.directory.path("info_reader");
    let compiled = process::Command::new("gcc")
        .args([
            "-std=c11",
            "-D_GNU_SOURCE",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
        ])
        .arg(crates.join("../engine/include"))
        .arg(crates.join("tests/programs/info_reader.c"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    let asked = process::Command::new(&program)
        .arg(served.directory.path("run").join("disk-disk.sock"))
        .output()
        .unwrap();
    let text = stdout(&asked);
    assert_eq!(asked.status.code(), Some(0), "{text}{}", stderr(&asked));
    let told = info(&served);
    let mut compared = 0;
    for line in text.lines() {
        let (name, value) = line.split_once(' ').unwrap();
        let records = [COMPRESSION, "task_runtime"];
        let expected = records
            .iter()
            .find_map(|record| told[record][name].as_u64());
        if let Some(expected) = expected {
            assert_eq!(value.parse(), Ok(expected), "{name}: {told}");
            compared += 1;
        }
    }
    assert_eq!(compared, 15, "{text}");
    served.stop();
}
