//! The report as text.

use super::scenario::{Measured, Pass};
use super::summary::{Row, Scale, Size, Summary};
use super::upstream::{self, ANONYMOUS_FULL, PRINTED};
use crate::grid::{self, Heading, left, right};
use crate::size::format_bytes;
use std::fmt::Write;

/// Columns of figures of one moment: what is said above them, and where they stand in a row of [`figures`].
type Part = (&'static str, &'static [&'static str]);

/// All figures, in parts that fit a terminal of 80 columns.
const PARTS: [Part; 3] = [
    (
        "before",
        &["HOT %", "COLD %", "HOT ms", "COLD ms", "TAKING ms"],
    ),
    (
        "after",
        &[
            "HOT %",
            "COLD %",
            "HOT ms",
            "COLD ms",
            "HIT p50 ns",
            "p99 ns",
        ],
    ),
    (
        "when most was taken",
        &["ROOM FOR %", "PAGES MiB", "COMPR MiB"],
    ),
];

/// What is printed. `width`: that of the terminal, if there is one.
pub fn text(summary: &Summary, width: Option<usize>) -> String {
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
            "\n{} taken{}",
            format_bytes(size.reclaim_bytes),
            tables(size, scale, width)
        );
        for verdict in &size.verdicts {
            let _ = writeln!(text, "{}", verdict.text);
        }
    }
    let _ = writeln!(
        text,
        "\nUpstream's figures, as the seed prints them (another machine; cache 4 GiB, {} taken, limit 4.5 GiB, entries of 8 bytes)\n{}{}",
        format_bytes(upstream::RECLAIM_BYTES),
        printed(width),
        ANONYMOUS_FULL
    );
    text
}

fn tables(size: &Size, scale: &Scale, width: Option<usize>) -> String {
    let rows: Vec<Vec<String>> = size.rows.iter().map(|row| cells(row, scale)).collect();
    in_parts(&rows, &PARTS, width)
}

/// Tables of the same rows, one for each part, each row with its first cell. What is printed with a figure for each
/// column of all parts is in the order of them.
fn in_parts(rows: &[Vec<String>], parts: &[Part], width: Option<usize>) -> String {
    let mut text = String::new();
    let mut from = 1;
    for (title, columns) in parts {
        let to = from + columns.len();
        let cells = |row: &Vec<String>| [&row[..1], &row[from..to]].concat();
        let columns = columns.iter().map(|name| right(name));
        let headings: Vec<Heading<'_>> = [left("KIND").cut_end()]
            .into_iter()
            .chain(columns)
            .collect();
        let table = grid::fitted(&headings, rows.iter().map(cells).collect(), width);
        let _ = write!(text, "\n{title}\n{table}");
        from = to;
    }
    text
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
            cells.resize(
                1 + PARTS.iter().map(|part| part.1.len()).sum::<usize>(),
                "–".to_owned(),
            );
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

fn printed(width: Option<usize>) -> String {
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
    let rows: Vec<Vec<String>> = PRINTED.iter().map(row).collect();
    let parts = [PARTS[0], (PARTS[1].0, &PARTS[1].1[..4])];
    in_parts(&rows, &parts, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_a_terminal() {
        let mut row = vec!["lazyfree-plain (killed 12 times)".to_owned()];
        row.resize(15, "1234567890".to_owned());
        let text = in_parts(&[row], &PARTS, Some(80)) + &printed(Some(80));
        grid::assert_fits(&text, 80);
        assert_eq!(text.matches("1234567890").count(), 14, "{text}");
    }
}
