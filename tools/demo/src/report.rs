//! What the demo prints at its end: tables, bars, a curve of memory over time; and its JSON.

use crate::{Findings, Run};
use coldpress_harness::text::{Table, bar, mib, sparkline, thousands};
use serde_json::{Value, json};
use std::fmt::Write;

/// Cells of the longest bar and of the curve.
const WIDTH: usize = 60;

/// The report for people.
pub fn text(findings: &Findings) -> String {
    let mut out = String::new();
    let Findings {
        native, managed, ..
    } = findings;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "\n{}", memory(findings));
    let full = native.samples.peak().max(managed.samples.peak());
    for (name, bytes) in [
        ("native, filled", native.filled),
        ("budget", findings.budget),
        ("coldpress, peak", managed.samples.peak()),
        ("coldpress, end", managed.held),
    ] {
        let cells = bar(bytes as f64 / full as f64, WIDTH);
        let _ = writeln!(out, "{name:<16} {cells} {}", mib(bytes));
    }
    let _ = writeln!(out, "\nRssAnon over time (full height: {}):", mib(full));
    for (name, run) in [("native", native), ("coldpress", managed)] {
        let values: Vec<_> = run.samples.0.iter().map(|s| s.resident.anonymous).collect();
        let seconds = run.samples.0.last().map_or(0.0, |s| s.at.as_secs_f64());
        let curve = sparkline(&values, full, WIDTH);
        let _ = writeln!(out, "{name:<16} {curve} {seconds:.1} s");
    }
    let values = managed.samples.0.iter().map(|s| s.resident.anonymous);
    let above = values.filter(|&bytes| bytes > findings.budget).count();
    let _ = writeln!(
        out,
        "{} samples of the coldpress run, {above} of them above the budget, longest time without one {} ms; tolerance {} above {}",
        thousands(managed.samples.0.len() as u64),
        managed.samples.longest_gap().as_millis(),
        mib(findings.tolerance),
        mib(findings.budget)
    );
    let _ = writeln!(out, "\n{}", lz4(findings));
    out
}

fn memory(findings: &Findings) -> Table {
    let (native, managed) = (&findings.native, &findings.managed);
    let mut table = Table::new(&["redis with JSON", "native", "coldpress", "coldpress/native"]);
    let mut row = |name: &str, show: &dyn Fn(f64) -> String, value: &dyn Fn(&Run) -> f64| {
        let (n, m) = (value(native), value(managed));
        table.row(&[name, &show(n), &show(m), &format!("{:.1} %", 100.0 * m / n)]);
    };
    let bytes = |value: f64| mib(value as u64);
    let rate = |value: f64| thousands(value as u64);
    row("RssAnon after filling", &bytes, &|r| r.filled as f64);
    row("RssAnon peak, filling", &bytes, &|r| r.peaks().0 as f64);
    row("RssAnon peak, reading back", &bytes, &|r| {
        r.peaks().1 as f64
    });
    row("RssAnon at the end", &bytes, &|r| r.held as f64);
    row("used memory as redis counts", &bytes, &|r| r.used as f64);
    row("filling, records/s", &rate, &|r| r.fill.rate());
    row("reading back, records/s", &rate, &|r| r.read.rate());
    row("another client's writes meanwhile", &rate, &|r| {
        r.load.rate()
    });
    table.row(&[
        "RssShmem at its peak",
        &mib(native.samples.peak_shared()),
        &mib(managed.samples.peak_shared()),
    ]);
    table.row(&[
        "values compared",
        &thousands(native.read.records),
        &thousands(managed.read.records),
    ]);
    table.row(&[
        "values that differ",
        &(native.read.mismatches + native.load.mismatches).to_string(),
        &(managed.read.mismatches + managed.load.mismatches).to_string(),
    ]);
    for (name, field, is_bytes) in [
        ("pages evicted", "evictions", false),
        ("faults answered", "faults", false),
        ("faults on compressed pages", "faults_decompressed", false),
        ("compressed storage", "storage_bytes", true),
        ("pager besides storage", "overhead_bytes", true),
    ] {
        let value = findings.statistics.as_ref().and_then(|s| s.get(field));
        let shown = match value {
            None => "?".to_owned(),
            Some(value) if is_bytes => mib(value),
            Some(value) => thousands(value),
        };
        table.row(&[name, "", &shown]);
    }
    table
}

fn lz4(findings: &Findings) -> String {
    let ratio = &findings.lz4;
    if ratio.sampled == 0 {
        return "LZ4's own ratio: SKIPPED (the pages could not be read)".to_owned();
    }
    let share = |part: u64| 100.0 * part as f64 / ratio.sampled as f64;
    format!(
        "LZ4's own ratio on these pages: {:.2}:1 (acceleration 1, each page alone, {} of {} pages \
         sampled evenly,\n{:.1} % zero and left out, {:.1} % not compressible to 70 % and counted \
         whole; no packing, no metadata)",
        ratio.ratio(),
        thousands(ratio.sampled),
        thousands(ratio.present),
        share(ratio.zero),
        share(ratio.incompressible)
    )
}

/// The report for programs.
pub fn json(findings: &Findings) -> Value {
    let run = |run: &Run| {
        json!({
            "rss_anon_filled_bytes": run.filled,
            "rss_anon_peak_bytes": run.samples.peak(),
            "rss_anon_peak_filling_bytes": run.peaks().0,
            "rss_anon_peak_reading_bytes": run.peaks().1,
            "rss_anon_end_bytes": run.held,
            "rss_shmem_peak_bytes": run.samples.peak_shared(),
            "redis_used_memory_bytes": run.used,
            "records": run.fill.records,
            "value_bytes": run.fill.bytes,
            "fill_seconds": run.fill.seconds,
            "read_back_seconds": run.read.seconds,
            "values_compared": run.read.records,
            "mismatches": run.read.mismatches,
            "written_meanwhile": run.load.records,
            "mismatches_written_meanwhile": run.load.mismatches,
            "samples": run.samples.0.len(),
            "longest_sample_gap_ns": run.samples.longest_gap().as_nanos() as u64,
        })
    };
    json!({
        "native": run(&findings.native),
        "managed": run(&findings.managed),
        "budget_bytes": findings.budget,
        "tolerance_bytes": findings.tolerance,
        "lz4": {
            "present_pages": findings.lz4.present,
            "sampled_pages": findings.lz4.sampled,
            "zero_pages": findings.lz4.zero,
            "incompressible_pages": findings.lz4.incompressible,
            "compressed_bytes": findings.lz4.bytes,
        },
        "statistics": findings.statistics.as_ref().map(|s| s.0.clone()),
        "complaints": findings.complaints(),
    })
}
