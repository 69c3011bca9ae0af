//! Promise: the figures are those of RFC-0219, and they add up.

use crate::machine::*;
use coldpress_engine::metrics::figure::{Kind as FigureKind, Unit};
use coldpress_engine::metrics::kmem::KmemStatsCompression;
use coldpress_engine::metrics::residency::Residency;
use coldpress_engine::metrics::task_times::{FaultTimes, TaskTimes};
use coldpress_engine::queues::standing::{Mark, Marking, Queue};
use coldpress_engine::{Access, Entry, FaultOutcome, SegmentId, Trigger};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

fn figures(s: &System) -> BTreeMap<&'static str, u64> {
    s.engine.figures().map(|f| (f.name, f.value)).collect()
}

/// The invariants of the table of counters, while nobody is at work.
fn check_sums(s: &System) {
    let f = figures(s);
    let sum = |names: &[&str]| -> u64 { names.iter().map(|name| f[name]).sum() };
    let kept = sum(&[
        "eager_compressions",
        "pressure_compressions",
        "critical_compressions",
    ]);
    assert_eq!(
        f["compression_attempts"],
        f["failed_compressions"] + kept,
        "I1"
    );
    let reasons = sum(&["incompressible", "no_storage", "raced"]);
    assert_eq!(f["failed_compressions"], reasons, "I2");
    let no_room = sum(&["no_frame", "no_storage_metadata"]);
    assert_eq!(f["no_storage"], no_room, "I2");
    let origins = sum(&["kept_anonymous", "kept_zero_fork", "kept_pager_backed"]);
    let forms = sum(&["kept_zero", "kept_same_filled", "kept_stored"]);
    assert_eq!((origins, forms), (kept, kept), "I3");
    let stats = s.engine.kmem_stats_compression();
    assert_eq!(f["decompressions"], stats.total_page_decompressions, "I4");
    let left = f["decompressions"] + f["freed_compressed"];
    assert_eq!(f["kept_stored"], f["compressed_pages"] + left, "I5");
    let stored = s.engine.storage_usage().objects as u64;
    assert_eq!(stats.uncompressed_content_bytes, stored * 4096);
}

/// One page each, by another trigger.
#[test]
fn kmem_stats_say_what_was_compressed_and_why() {
    let s = system(1, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let idle = s.engine.kmem_stats_compression();
    let unit = KmemStatsCompression {
        pages_decompressed_unit_ns: SECOND,
        compressed_storage_bytes: idle.compressed_storage_bytes,
        ..KmemStatsCompression::default()
    };
    assert_eq!(idle, unit, "nothing has happened");
    let triggers = [Trigger::Eager, Trigger::Pressure, Trigger::Critical];
    for (n, trigger) in triggers.into_iter().enumerate() {
        for m in 0..=n as u32 {
            s.write(&mut w, 1, n as u32 * 128 + m, &content(Kind::Text, 7));
        }
        s.cool();
        s.engine
            .reclaim_batch(&s.machine, &mut r, 64, u64::MAX, trigger);
    }
    s.write(&mut w, 1, 64, &content(Kind::Noise, 1));
    s.write(&mut w, 1, 65, &content(Kind::Zero, 1));
    s.write(&mut w, 1, 66, &content(Kind::Word(3), 1));
    s.send_away(&mut r);
    let usage = s.engine.storage_usage();
    let stats = s.engine.kmem_stats_compression();
    assert_eq!(stats.uncompressed_content_bytes, 6 * 4096, "no markers");
    assert_eq!(
        stats.compressed_storage_bytes as usize,
        usage.storage_bytes + usage.metadata_bytes
    );
    assert!(usage.metadata_bytes > 0);
    assert_eq!(
        stats.compressed_fragmentation_bytes as usize,
        usage.storage_bytes - usage.payload_bytes
    );
    assert_eq!(stats.total_page_compression_attempts, 9);
    assert_eq!(stats.failed_page_compression_attempts, 1);
    assert_eq!(
        (
            stats.eager_page_compressions,
            stats.memory_pressure_page_compressions,
            stats.critical_memory_page_compressions
        ),
        (1, 2 + 2, 3)
    );
    assert_eq!(
        (
            stats.total_page_decompressions,
            stats.compressed_page_evictions
        ),
        (0, 0)
    );
    check_sums(s);
    // Three are wanted again, one is dropped.
    for index in [0, 128, 129] {
        s.read(&mut w, 1, index);
    }
    s.decommit(1, 256, 257);
    let stats = s.engine.kmem_stats_compression();
    assert_eq!(
        (
            stats.total_page_decompressions,
            stats.compressed_page_evictions
        ),
        (3, 1)
    );
    assert_eq!(stats.uncompressed_content_bytes, 2 * 4096);
    check_sums(s);
}

/// What kinds of pages are compressed: by where they come from and by the form they take.
#[test]
fn kinds_of_pages_are_told_apart() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let mut tunables = s.engine.tunables().load();
    tunables.compress_pager_backed = true;
    s.engine.configure(&tunables).unwrap();
    for index in 0..6 {
        let kind = if index == 5 { Kind::Zero } else { Kind::Text };
        s.write(&mut w, 1, index, &content(kind, 1));
    }
    for index in [1, 2] {
        assert!(
            s.engine
                .mark_page(1, index, Mark::PagerBacked, Marking::Set)
        );
    }
    for index in [3, 4, 5] {
        assert!(s.engine.move_page(1, index, Queue::ZeroFork));
    }
    // The mark of a zero fork is lost with the page.
    s.send_away(&mut r);
    let f = figures(s);
    assert_eq!(f["kept_anonymous"], 1);
    assert_eq!(f["kept_pager_backed"], 2);
    assert_eq!(f["kept_zero_fork"], 3);
    assert_eq!((f["kept_zero"], f["kept_stored"]), (1, 5));
    s.read(&mut w, 1, 3);
    s.send_away(&mut r);
    let f = figures(s);
    assert_eq!((f["kept_zero_fork"], f["kept_anonymous"]), (3, 2));
    check_sums(s);
}

/// Read while others are at work: nothing is ever negative (debug builds would panic), and what is
/// inferred is what was read.
#[test]
fn a_reading_taken_meanwhile_is_sound() {
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 300 };
    let s = system(2, 64);
    let done = AtomicBool::new(false);
    let times = TaskTimes::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut w, mut r) = (worker(1), reclaimer(2));
            for round in 0..ROUNDS {
                for index in 0..64 {
                    let kind = Kind::ALL[(round as usize + index as usize) % 8];
                    s.write(&mut w, 1, index, &content(kind, round));
                }
                s.send_away(&mut r);
                // Three in four rounds bring back what was compressed for long.
                s.machine.advance(round % 4 * 100 * SECOND);
                w.timed(&s.machine, &times, |w| {
                    for index in 0..48 {
                        s.read(w, 1, index);
                    }
                });
                s.decommit(1, 0, 64);
            }
            done.store(true, Relaxed);
        });
        let mut readings = 0u64;
        let mut last = KmemStatsCompression::default();
        while !done.load(Relaxed) {
            let stats = s.engine.kmem_stats_compression();
            let later = stats.pages_decompressed_later();
            assert!(later <= stats.total_page_decompressions);
            let settled = stats.failed_page_compression_attempts
                + stats.eager_page_compressions
                + stats.memory_pressure_page_compressions
                + stats.critical_memory_page_compressions;
            assert!(settled <= stats.total_page_compression_attempts);
            assert!(stats.uncompressed_content_bytes <= 2 * 64 * 4096);
            assert!(last.pages_decompressed_later() <= later, "it only grows");
            let fault = times.read();
            assert!(fault.page_fault_decompress_ns <= fault.page_fault_ns);
            last = stats;
            readings += 1;
        }
        println!(
            "{readings} readings, {} pages later",
            last.pages_decompressed_later()
        );
    });
    check_sums(s);
    assert!(s.engine.kmem_stats_compression().pages_decompressed_later() > 0);
}

/// The RFC: "How many pages are held compressed for longer than 128 units can be inferred by
/// subtracting from `total_page_decompressions`." With a last bucket that takes all that is longer
/// the difference would be zero.
#[test]
fn pages_compressed_for_long_are_told_by_subtraction() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    // How long, and in which bucket; 8 is what is longer.
    // The unit in which times are remembered.
    const UNIT: u64 = 8 * SECOND / 1000;
    let stays = [
        (0, 0),
        (SECOND - UNIT, 0),
        (SECOND, 1),
        (2 * SECOND - UNIT, 1),
        (2 * SECOND, 2),
        (4 * SECOND - UNIT, 2),
        (4 * SECOND, 3),
        (8 * SECOND, 4),
        (16 * SECOND, 5),
        (32 * SECOND, 6),
        (64 * SECOND, 7),
        (128 * SECOND - UNIT, 7),
        (128 * SECOND, 8),
        (129 * SECOND, 8),
        (10 * 3600 * SECOND, 8),
        (12 * 24 * 3600 * SECOND, 8),
    ];
    let mut expected = [0; 9];
    for (n, (stay, bucket)) in stays.into_iter().enumerate() {
        s.write(&mut w, 1, 5, &content(Kind::Text, n as u64));
        s.send_away(&mut r);
        assert!(s.is_compressed(1, 5));
        s.machine.advance(stay);
        s.read(&mut w, 1, 5);
        expected[bucket] += 1;
        let stats = s.engine.kmem_stats_compression();
        assert_eq!(
            stats.pages_decompressed_within_log_time,
            expected[..8],
            "{stay} ns"
        );
        let reported: u64 = stats.pages_decompressed_within_log_time.iter().sum();
        assert_eq!(
            stats.total_page_decompressions - reported,
            expected[8],
            "{stay} ns"
        );
        assert_eq!(stats.pages_decompressed_later(), expected[8]);
        assert_eq!(stats.pages_decompressed_unit_ns, SECOND);
    }
    assert_eq!(expected[8], 4);
    check_sums(s);
}

/// A page that is dropped while it is decompressed was in the histogram, and not in the total: the
/// difference was negative. Neither counts it now; it is an eviction.
#[test]
fn what_is_overtaken_is_an_eviction_and_has_no_bucket() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 5, &content(Kind::Text, 1));
    s.write(&mut w, 1, 6, &content(Kind::Text, 2));
    s.send_away(&mut r);
    s.codec.on_decompress.set(|| s.decommit(1, 5, 6));
    assert_eq!(s.fault(&mut w, 1, 5), FaultOutcome::Zero);
    // Neither has one that is damaged.
    poke_in_storage(s, 1, 6, |bytes| bytes[0] ^= 1);
    assert_eq!(s.fault(&mut w, 1, 6), FaultOutcome::Poisoned);
    let stats = s.engine.kmem_stats_compression();
    assert_eq!(stats.total_page_decompressions, 0);
    assert_eq!(stats.pages_decompressed_within_log_time, [0; 8]);
    assert_eq!(stats.pages_decompressed_later(), 0);
    assert_eq!(stats.compressed_page_evictions, 2);
    let c = s.engine.counters();
    assert_eq!(
        c.decompression_latency.percentiles().count,
        2,
        "it took time"
    );
    check_sums(s);
}

/// Restored while the host was still (a fork), and acknowledged afterwards.
#[test]
fn what_came_in_during_a_fork_has_a_bucket() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 5, &content(Kind::Text, 1));
    s.send_away(&mut r);
    s.machine.advance(5 * SECOND);
    s.engine.peek(&s.machine, &mut w, 1, 5);
    s.machine.put(1, 5, &content(Kind::Text, 1));
    s.engine.acknowledge_present(&s.machine, 1, 5);
    let residency = Residency::read(&s.engine.counters().decompressed_within_log_seconds);
    assert_eq!(residency.0, [0, 0, 0, 1, 0, 0, 0, 0, 0]);
    check_sums(s);
}

#[test]
fn no_frame_and_no_table_are_told_apart() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    s.write(&mut w, 1, 0, &content(Kind::Text, 1));
    s.machine.chunks.store(0, Relaxed);
    s.send_away(&mut r);
    let f = figures(s);
    assert_eq!((f["no_frame"], f["no_storage_metadata"]), (0, 1));
    s.machine.chunks.store(10, Relaxed);
    s.machine.frames.refuse.store(true, Relaxed);
    s.write(&mut w, 1, 1, &content(Kind::Text, 2));
    s.send_away(&mut r);
    let f = figures(s);
    assert_eq!((f["no_frame"], f["no_storage_metadata"]), (1, 1));
    check_sums(s);
}

/// Somebody wants all that is on its way into storage.
fn touch_what_is_compressed(s: &System, segment: SegmentId) {
    let mut w = worker(3);
    for index in 0..512 {
        if let Entry::Temporary(_) = s.engine.entry(segment, index) {
            s.read(&mut w, segment, index);
        }
    }
}

#[test]
fn figures_add_up_whatever_happens() {
    let s = system(2, 512);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let mut state = 1u64;
    for step in 0..2000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        let at = (1 + (state >> 60 & 1) as u32, (state >> 33) as u32 % 512);
        match state >> 40 & 15 {
            0..=6 => {
                let kind = Kind::ALL[(state >> 50) as usize % 8];
                s.write(&mut w, at.0, at.1, &content(kind, step));
            }
            7..=9 => {
                s.read(&mut w, at.0, at.1);
            }
            10 => s.decommit(at.0, at.1 & !15, (at.1 & !15) + 16),
            11 => s.machine.place(at.0, at.1).pinned ^= true,
            12 => s
                .codec
                .on_compress
                .set(move || touch_what_is_compressed(s, at.0)),
            13 => {
                s.machine.frames.refuse.fetch_xor(true, Relaxed);
            }
            _ => s.send_away(&mut r),
        }
        check_sums(s);
    }
    let f = figures(s);
    for name in [
        "raced",
        "no_storage",
        "incompressible",
        "refused_by_host",
        "kept_zero",
        "kept_same_filled",
        "decompressions",
        "freed_compressed",
    ] {
        assert!(f[name] > 0, "{name} was never met");
    }
    assert!(f["refused"] >= f["refused_by_host"]);
}

#[test]
fn latencies_are_what_the_clock_says() {
    let s = system(1, 256);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let machine = &s.machine;
    for index in 0..100 {
        let took = if index == 57 { 900_000 } else { 2_000 };
        s.codec.on_compress.set(move || machine.advance(took));
        s.write(&mut w, 1, index, &content(Kind::Text, 1));
        s.send_away(&mut r);
        let took = if index == 3 { 70_000 } else { 1_000 };
        s.codec.on_decompress.set(move || machine.advance(took));
        s.read(&mut w, 1, index);
        s.decommit(1, index, index + 1);
    }
    let c = s.engine.counters();
    let within = |told: u64, exact: u64| assert!((exact..=exact + exact / 16).contains(&told));
    let p = c.compression_latency.percentiles();
    assert_eq!((p.count, p.longest_ns), (100, 900_000));
    within(p.p50_ns, 2_000);
    within(p.p99_ns, 2_000);
    within(p.p999_ns, 900_000);
    let p = c.decompression_latency.percentiles();
    assert_eq!((p.count, p.longest_ns), (100, 70_000));
    within(p.p99_ns, 1_000);
    within(p.p999_ns, 70_000);
    let stats = s.engine.kmem_stats_compression();
    assert_eq!(stats.compression_time, 99 * 2_000 + 900_000);
    assert_eq!(stats.decompression_time, 99 * 1_000 + 70_000);
}

#[test]
fn a_task_knows_what_it_waited_for() {
    let s = system(1, 64);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    let machine = &s.machine;
    s.write(&mut w, 1, 0, &content(Kind::Text, 1));
    s.write(&mut w, 1, 1, &content(Kind::Zero, 1));
    s.send_away(&mut r);
    let (busy, idle) = (TaskTimes::new(), TaskTimes::new());
    s.codec.on_decompress.set(move || machine.advance(4_000));
    let outcome = s
        .engine
        .fault_of_task(machine, &mut w, 1, 0, Access::Read, &busy);
    assert_eq!(outcome, FaultOutcome::Decompressed);
    let expected = FaultTimes {
        page_fault_ns: 4_000,
        page_fault_decompress_ns: 4_000,
    };
    assert_eq!(busy.read(), expected);
    // A marker: no codec.
    s.engine
        .fault_of_task(machine, &mut w, 1, 1, Access::Read, &busy);
    // Fresh memory, which takes the machine a while.
    s.machine.on_install_zero.set(move || machine.advance(300));
    s.engine
        .fault_of_task(machine, &mut w, 1, 2, Access::Write, &busy);
    let expected = FaultTimes {
        page_fault_ns: 4_300,
        ..expected
    };
    assert_eq!(busy.read(), expected);
    assert_eq!(idle.read(), FaultTimes::default());
    // What nobody asked for is nobody's.
    s.send_away(&mut r);
    s.codec.on_decompress.set(move || machine.advance(9_000));
    s.fault(&mut w, 1, 0);
    assert_eq!(busy.read(), expected);
    // Several faults in one go, and a process that sums up its threads.
    let process = TaskTimes::new();
    process.add(busy.read());
    s.send_away(&mut r);
    s.codec.on_decompress.set(move || machine.advance(5_000));
    w.timed(machine, &idle, |w| {
        s.fault(w, 1, 0);
        s.fault(w, 1, 2);
    });
    process.add(idle.read());
    let times = process.read();
    assert_eq!(
        (times.page_fault_ns, times.page_fault_decompress_ns),
        (9_300, 9_000)
    );
}

#[test]
fn every_figure_has_a_name_a_unit_and_a_meaning() {
    let s = system(1, 64);
    let manual = include_str!("../../../../docs/metrics.md");
    let mut names = Vec::new();
    for figure in s.engine.figures() {
        let name = figure.name;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(!name.is_empty() && name.chars().all(plain), "{name}");
        assert!(figure.help.trim().ends_with('.'), "{name}: {}", figure.help);
        assert!(
            manual.contains(&format!("`{name}`")),
            "a row for {name} is missing in docs/metrics.md"
        );
        assert_eq!(
            name.ends_with("_ns"),
            figure.unit == Unit::Nanoseconds,
            "{name}"
        );
        assert_eq!(
            name.ends_with("_bytes"),
            figure.unit == Unit::Bytes,
            "{name}"
        );
        names.push(name);
    }
    let total = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), total, "two figures of one name");
    let gauges = s.engine.figures().filter(|f| f.kind == FigureKind::Gauge);
    assert!(gauges.count() < total);
}
