//! `coldpress status`: the processes under a pager, as a table, in detail, or as JSON.

use crate::duration::format_nanoseconds;
use crate::managed;
use crate::process;
use crate::refusal::Refusal;
use crate::report::{self, PERCENTILES};
use crate::rule;
use crate::size::{format_budget, format_bytes, format_count};
use crate::statistics_file::{Live, Unusable};
use coldpress_interface::statistics::{Failure, Statistics};
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Shows all managed processes, or one in detail.
pub fn status(pid: Option<u32>, as_json: bool) -> Result<u8, Refusal> {
    match pid {
        Some(pid) => one(&managed::find(pid)?, as_json)?,
        None => all(&managed::all(), as_json),
    }
    Ok(0)
}

/// The file's statistics, or why it has none.
fn statistics(file: &Live) -> Result<&Statistics, String> {
    let copy = file.copy.as_ref().map_err(Unusable::to_string)?;
    copy.statistics(file.pid).map_err(|error| error.to_string())
}

fn one(file: &Live, as_json: bool) -> Result<(), Refusal> {
    let pid = file.pid;
    let statistics = statistics(file)
        .map_err(|error| Refusal::new(format!("{}: not usable: {error}", file.path.display())))?;
    let program = process::name(pid);
    if as_json {
        println!("{:#}", Value::from(report::to_json(&program, statistics)));
    } else {
        print!("{}", detail(&program, statistics));
    }
    Ok(())
}

fn all(live: &[Live], as_json: bool) {
    let mut rows = Vec::new();
    for file in live {
        match statistics(file) {
            Ok(statistics) => rows.push((process::name(file.pid), statistics)),
            Err(error) => eprintln!("coldpress: {}: skipped: {error}", file.path.display()),
        }
    }
    if as_json {
        let objects: Vec<Value> = rows
            .iter()
            .map(|(program, statistics)| report::to_json(program, statistics).into())
            .collect();
        println!("{:#}", json!(objects));
    } else if rows.is_empty() {
        eprintln!(
            "coldpress: no program of yours runs under Coldpress; start one with: coldpress run --budget 1G -- PROGRAM"
        );
    } else {
        println!("{}", table(&rows));
    }
}

const HEADER: [&str; 16] = [
    "PID",
    "PROGRAM",
    "CODEC",
    "PACKED BY",
    "BUDGET",
    "TOTAL",
    "COMMITTED",
    "CONTENT",
    "STORED",
    "STORAGE",
    "OVERHEAD",
    "RATIO",
    "EVICTIONS",
    "FAULTS",
    "P50",
    "P99",
];

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

fn table(rows: &[(String, &Statistics)]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(HEADER);
    for (program, s) in rows {
        let (codec, storage) = report::names(s);
        table.add_row([
            get(&s.pid).to_string(),
            program.clone(),
            codec,
            storage,
            format_budget(get(&s.budget_bytes)),
            format_bytes(get(&s.total_bytes)),
            format_bytes(get(&s.committed_bytes)),
            format_bytes(get(&s.content_bytes)),
            format_bytes(get(&s.stored_content_bytes)),
            format_bytes(get(&s.storage_bytes)),
            format_bytes(get(&s.overhead_bytes)),
            ratio(s),
            format_count(get(&s.evictions)),
            format_count(get(&s.faults)),
            quantile(s, 0.5),
            quantile(s, 0.99),
        ]);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        let name = ["PROGRAM", "CODEC", "PACKED BY"].contains(&HEADER[index]);
        column.set_cell_alignment(if name {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    let text = table.to_string();
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Content stored by the memory that storage takes for it, fragmentation included.
fn ratio(statistics: &Statistics) -> String {
    match (
        get(&statistics.stored_content_bytes),
        get(&statistics.storage_bytes),
    ) {
        (0, _) | (_, 0) => "-".to_owned(),
        (content, storage) => format!("{:.2}", content as f64 / storage as f64),
    }
}

fn quantile(statistics: &Statistics, quantile: f64) -> String {
    statistics
        .fault_service
        .quantile_ns(quantile)
        .map_or("-".to_owned(), format_nanoseconds)
}

/// One line a field, with the raw number beside the one for people.
fn detail(program: &str, statistics: &Statistics) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<34} {value}");
    };
    row("pid", get(&statistics.pid).to_string());
    row("program", program.to_owned());
    let (codec, storage) = report::names(statistics);
    row("codec", codec);
    row("storage", storage);
    row(
        "in force",
        rule::explain(statistics).unwrap_or_else(|| "-".to_owned()),
    );
    for (name, value) in statistics.fields() {
        row(name, for_people(name, value));
    }
    row("ratio (stored content / storage)", ratio(statistics));
    row(
        "fault service time",
        format!("{} faults", format_count(statistics.fault_service.count())),
    );
    for (name, share) in PERCENTILES {
        row(
            &format!("  {}", name.trim_end_matches("_ns")),
            quantile(statistics, share),
        );
    }
    row("not evicted, by reason", String::new());
    for reason in Failure::ALL {
        row(
            &format!("  {}", reason.name()),
            format_count(statistics.failed(reason)),
        );
    }
    row("compressed for (until touched)", String::new());
    let last = statistics.decompressed_within_log_seconds.len() - 1;
    for (bucket, count) in statistics
        .decompressed_within_log_seconds
        .iter()
        .enumerate()
    {
        let name = match bucket {
            0 => "  below 1 s".to_owned(),
            bucket if bucket == last => format!("  {} s and more", 1 << (bucket - 1)),
            bucket => format!("  {} to {} s", 1 << (bucket - 1), 1 << bucket),
        };
        row(&name, format_count(get(count)));
    }
    text
}

fn for_people(name: &str, value: u64) -> String {
    if name.ends_with("_bytes") {
        format!("{} ({value})", format_bytes(value))
    } else if name == "stalled_address" {
        format!("{value:#x}")
    } else if name.ends_with("_at_ns") {
        value.to_string()
    } else if name.ends_with("_ns") {
        format_nanoseconds(value)
    } else {
        format_count(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Statistics {
        let statistics = Statistics::new();
        statistics.pid.store(4242, Relaxed);
        statistics.codec.set(b"press");
        statistics.storage.set(b"three-slot");
        statistics.budget_bytes.store(64 << 20, Relaxed);
        statistics.stored_content_bytes.store(90 << 20, Relaxed);
        statistics.storage_bytes.store(30 << 20, Relaxed);
        statistics.evictions.store(1_234_567, Relaxed);
        statistics.fail(Failure::MoveBusy);
        statistics.fault_service.record(3_000);
        statistics.decompressed_within_log_seconds[8].store(5, Relaxed);
        statistics
    }

    #[test]
    fn the_table_has_a_header_and_a_row_each() {
        let statistics = sample();
        let text = table(&[("prog".to_owned(), &statistics)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("COMMITTED"));
        for word in [
            "4242",
            "prog",
            "press",
            "three-slot",
            "64.0 MiB",
            "3.00",
            "1,234,567",
            "3.1 µs",
        ] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn the_detail_shows_every_field() {
        let statistics = sample();
        let text = detail("prog", &statistics);
        for (name, _) in statistics.fields() {
            assert!(text.contains(name), "{name}");
        }
        for line in [
            "budget_bytes                       64.0 MiB (67108864)",
            "128 s and more                   5",
        ] {
            assert!(text.contains(line), "{text}");
        }
        for reason in Failure::ALL {
            assert!(text.contains(reason.name()));
        }
    }
}
