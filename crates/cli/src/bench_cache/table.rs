//! The report as text.

use super::scenario::{Measured, Pass};
use super::summary::{Row, Scale, Size, Summary};
use super::upstream::{self, ANONYMOUS_FULL, PRINTED};
use crate::grid;
use crate::size::format_bytes;
use std::fmt::Write;

const HEADINGS: [(&str, bool); 15] = [
    ("KIND", true),
    ("HOT %", false),
    ("COLD %", false),
    ("HOT ms", false),
    ("COLD ms", false),
    ("| TAKING ms", false),
    ("| HOT %", false),
    ("COLD %", false),
    ("HOT ms", false),
    ("COLD ms", false),
    ("HIT p50 ns", false),
    ("p99 ns", false),
    ("| ROOM FOR %", false),
    ("PAGES MiB", false),
    ("COMPR MiB", false),
];

/// What is printed.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    let (machine, scale) = (&summary.machine, &summary.scale);
    let swap = match machine.swap_bytes {
        0 => "no swap".to_owned(),
        bytes => format!("{} of swap", format_bytes(bytes)),
    };
    let _ = writeln!(
        text,
        "{}, {} CPUs, Linux {}, {swap}; load {} at the end",
        machine.processor, machine.processors, machine.kernel, machine.load
    );
    let _ = writeln!(
        text,
        "cache {}, hot set {} asked for 8 times, cold set {} asked for twice; memory limit {}; {}",
        format_bytes(scale.capacity_bytes),
        format_bytes(scale.hot_bytes),
        format_bytes(scale.cold_bytes),
        format_bytes(scale.limit_bytes),
        match scale.rounds {
            1 => "one round".to_owned(),
            rounds => format!("medians of {rounds} interleaved rounds"),
        }
    );
    let _ = writeln!(text, "{}", summary.entries.sentence());
    let _ = writeln!(
        text,
        "ms: a whole set, once, in random order, in the cache's calls (what is missing is inserted); every hit was compared"
    );
    for size in &summary.sizes {
        let _ = writeln!(
            text,
            "\n{} taken: before | taking | after | when most was taken\n{}",
            format_bytes(size.reclaim_bytes),
            table(size, scale)
        );
        for verdict in &size.verdicts {
            let _ = writeln!(text, "{}", verdict.text);
        }
    }
    let _ = writeln!(
        text,
        "\nUpstream's figures, as the seed prints them (another machine; cache 4 GiB, {} taken, limit 4.5 GiB, entries of 8 bytes)\n{}{}",
        format_bytes(upstream::RECLAIM_BYTES),
        printed(),
        ANONYMOUS_FULL
    );
    text
}

fn table(size: &Size, scale: &Scale) -> String {
    let rows = size.rows.iter().map(|row| cells(row, scale)).collect();
    grid::aligned(&HEADINGS, true, rows)
}

fn percent(rate: f64) -> String {
    format!("{:.1}", 100.0 * rate)
}

fn milliseconds(ns: u64) -> String {
    format!("{:.0}", ns as f64 / 1e6)
}

fn mib(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / f64::from(1 << 20))
}

fn cells(row: &Row, scale: &Scale) -> Vec<String> {
    let mut cells = vec![row.kind.to_owned()];
    match &row.median {
        Some(measured) if row.killed == 0 => cells.extend(figures(measured, scale)),
        Some(measured) => {
            cells[0] = format!("{} (killed {} times)", row.kind, row.killed);
            cells.extend(figures(measured, scale));
        }
        None => {
            cells[0] = format!("{}: out of memory", row.kind);
            cells.resize(HEADINGS.len(), "–".to_owned());
        }
    }
    cells
}

fn figures(measured: &Measured, scale: &Scale) -> Vec<String> {
    let set = |pass: &Pass| percent(pass.rate());
    let peak = &measured.peak;
    vec![
        set(&measured.hot_before),
        set(&measured.cold_before),
        milliseconds(measured.hot_before.total_ns),
        milliseconds(measured.cold_before.total_ns),
        milliseconds(measured.reclaim_ns),
        set(&measured.hot_after),
        set(&measured.cold_after),
        milliseconds(measured.hot_after.total_ns),
        milliseconds(measured.cold_after.total_ns),
        hit_time(&measured.cold_after, |pass| pass.hit_p50_ns),
        hit_time(&measured.cold_after, |pass| pass.hit_p99_ns),
        percent(scale.bound(peak.room_bytes)),
        mib(peak.resident_bytes),
        mib(peak.compressed_bytes),
    ]
}

fn hit_time(pass: &Pass, of: impl Fn(&Pass) -> u64) -> String {
    match pass.hits {
        0 => "–".to_owned(),
        _ => of(pass).to_string(),
    }
}

fn printed() -> String {
    let row = |row: &upstream::Printed| {
        let set = |set: upstream::Set| [percent(set.rate), format!("{:.0}", set.total_ms)];
        let [hot_rate, hot_ms] = set(row.hot_before);
        let [cold_rate, cold_ms] = set(row.cold_before);
        let [hot_rate_after, hot_ms_after] = set(row.hot_after);
        let [cold_rate_after, cold_ms_after] = set(row.cold_after);
        vec![
            row.kind.to_owned(),
            hot_rate,
            cold_rate,
            hot_ms,
            cold_ms,
            format!("{:.0}", row.reclaim_ms),
            hot_rate_after,
            cold_rate_after,
            hot_ms_after,
            cold_ms_after,
        ]
    };
    grid::aligned(&HEADINGS[..10], true, PRINTED.iter().map(row).collect())
}
