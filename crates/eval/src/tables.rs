//! The report as text.

use crate::report::{CodecRow, Report, StorageRow};
use crate::rows::POOLED;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// The tables, as they are printed.
pub fn tables(report: &Report) -> String {
    let mut text = String::new();
    let method = &report.method;
    let cpu = method.cpu.map_or("not pinned".to_owned(), |cpu| {
        format!("pinned to CPU {cpu}")
    });
    let _ = writeln!(
        text,
        "{}, {cpu}, press with {}; threshold {} bytes, {} rounds, seed {}",
        method.processor, method.simd, method.threshold_bytes, method.rounds, method.seed
    );
    section(
        &mut text,
        "Codecs, pooled (total with failed pages as 4096 bytes, and tables)",
    );
    let pooled = |row: &&CodecRow| row.corpus == POOLED;
    let _ = writeln!(
        text,
        "{}",
        codec_table(report.codecs.iter().filter(pooled), false)
    );
    section(&mut text, "Codecs by file");
    let by_file = report.codecs.iter().filter(|row| !pooled(row));
    let _ = writeln!(text, "{}", codec_table(by_file, true));
    if !report.ratios.is_empty() {
        section(
            &mut text,
            "Against a peer on the same pages (speeds: more is better; total, p99: less)",
        );
        let _ = writeln!(text, "{}", ratio_table(report));
    }
    section(
        &mut text,
        "From a cold source, prefetched, into a hot page; pooled",
    );
    let _ = writeln!(text, "{}", cold_table(report));
    let trained: Vec<_> = report
        .codecs
        .iter()
        .filter(|row| row.table_bytes > 0)
        .collect();
    if !trained.is_empty() {
        section(
            &mut text,
            "Tables trained on pages that no codec is evaluated on: bytes a page",
        );
        let _ = writeln!(text, "{}", training_table(&trained));
    }
    section(&mut text, "Made-up pages");
    let _ = writeln!(text, "{}", synthetic_table(report));
    section(
        &mut text,
        "Storages (density: payload over frames and tables; ratio: pages over frames and tables)",
    );
    let _ = writeln!(text, "{}", storage_table(report));
    section(&mut text, "Same-filled pages");
    let _ = writeln!(text, "{}", same_filled_table(report));
    let test = &report.same_filled_test;
    let _ = writeln!(
        text,
        "the test, hot: a same-filled page {:.0} ns, all but the last word {:.0} ns, worst case (last but one) {:.0} ns; filling a page {:.0} ns",
        test.same_filled_ns, test.all_but_last_word_ns, test.worst_case_ns, test.fill_ns
    );
    text
}

fn section(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n{title}");
}

/// A table whose first `left` columns are left-aligned, the others right-aligned.
pub(crate) fn table(headings: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(headings);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(crate) fn mib(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / (1 << 20) as f64)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), whole)
}

fn codec_table<'a>(rows: impl Iterator<Item = &'a CodecRow>, with_corpus: bool) -> Table {
    let headings = [
        "corpus",
        "codec",
        "comp MiB/s",
        "decomp MiB/s",
        "comp mean ns",
        "p99",
        "worst",
        "decomp mean ns",
        "p99",
        "worst",
        "total MiB",
        "% of pages",
        "failed %",
    ];
    let skip = usize::from(!with_corpus);
    let mut table = table(&headings[skip..], 2 - skip);
    for row in rows {
        let cells = [
            row.corpus.clone(),
            row.codec.clone(),
            whole(row.compress_mib_s),
            whole(row.decompress_mib_s),
            whole(row.compress_mean_ns),
            whole(row.compress_p99_ns),
            whole(row.compress_worst_ns),
            whole(row.decompress_mean_ns),
            whole(row.decompress_p99_ns),
            whole(row.decompress_worst_ns),
            mib(row.total_bytes),
            format!("{:.2}", 100.0 / row.ratio),
            format!("{:.2}", row.failed_percent),
        ];
        table.add_row(&cells[skip..]);
    }
    table
}

fn ratio_table(report: &Report) -> Table {
    let headings = [
        "codec",
        "against",
        "corpus",
        "comp ×",
        "decomp ×",
        "total ×",
        "decomp p99 ×",
    ];
    let mut table = table(&headings, 3);
    for row in &report.ratios {
        table.add_row([
            row.codec.clone(),
            row.against.clone(),
            row.corpus.clone(),
            format!("{:.2}", row.compress),
            format!("{:.2}", row.decompress),
            format!("{:.3}", row.total),
            format!("{:.2}", row.decompress_p99),
        ]);
    }
    table
}

fn cold_table(report: &Report) -> Table {
    let mut table = table(&["codec", "mean ns", "p99 ns", "memcpy's p99 ns", "×"], 1);
    for row in report.codecs.iter().filter(|row| row.corpus == POOLED) {
        let (Some(p99), Some(memcpy)) = (row.cold_decompress_p99_ns, row.cold_memcpy_p99_ns) else {
            continue;
        };
        table.add_row([
            row.codec.clone(),
            optional(row.cold_decompress_mean_ns),
            whole(p99),
            whole(memcpy),
            format!("{:.2}", p99 / memcpy),
        ]);
    }
    table
}

fn training_table(rows: &[&CodecRow]) -> Table {
    let headings = [
        "codec",
        "corpus",
        "held out",
        "in sample",
        "in-sample pages",
        "table bytes",
    ];
    let mut table = table(&headings, 2);
    for row in rows {
        table.add_row([
            row.codec.clone(),
            row.corpus.clone(),
            whole(row.held_out_bytes_per_page),
            whole(row.in_sample_bytes_per_page),
            row.in_sample_pages.to_string(),
            row.table_bytes.to_string(),
        ]);
    }
    table
}

fn synthetic_table(report: &Report) -> Table {
    let headings = [
        "pages",
        "codec",
        "comp mean ns",
        "p99",
        "decomp mean ns",
        "bytes",
        "failed %",
    ];
    let mut table = table(&headings, 2);
    for row in &report.synthetic {
        table.add_row([
            row.corpus.clone(),
            row.codec.clone(),
            whole(row.compress_mean_ns),
            whole(row.compress_p99_ns),
            whole(row.decompress_mean_ns),
            whole(row.held_out_bytes_per_page),
            format!("{:.0}", row.failed_percent),
        ]);
    }
    table
}

/// One line for the stages of one storage with one list of sizes.
fn storage_table(report: &Report) -> Table {
    let headings = [
        "corpus",
        "sizes of",
        "storage",
        "payload MiB",
        "density fill",
        "churned",
        "halved",
        "compacted",
        "ratio fill",
        "churned",
        "B/object",
        "store p99 ns",
        "free p99",
        "step p99",
        "worst",
        "moved %",
    ];
    let mut table = table(&headings, 3);
    for stages in report.storages.chunk_by(is_same_storage) {
        let stage = |name: &str| stages.iter().find(|row| row.stage == name);
        let number = |name: &str, of: fn(&StorageRow) -> f64, digits: usize| {
            stage(name).map_or("–".to_owned(), |row| format!("{:.digits$}", of(row)))
        };
        let time =
            |name: &str, of: fn(&StorageRow) -> Option<f64>| optional(stage(name).and_then(of));
        let first = &stages[0];
        table.add_row([
            first.corpus.clone(),
            first.codec.clone(),
            first.storage.clone(),
            mib(first.payload_bytes),
            number("fill", |row| row.density, 4),
            number("churned", |row| row.density, 4),
            number("halved", |row| row.density, 4),
            number("compacted", |row| row.density, 4),
            number("fill", |row| row.ratio, 2),
            number("churned", |row| row.ratio, 2),
            number(
                "fill",
                |row| row.metadata_bytes as f64 / row.objects.max(1) as f64,
                1,
            ),
            time("churned", |row| row.store_p99_ns),
            time("churned", |row| row.free_p99_ns),
            time("compacted", |row| row.compact_step_p99_ns),
            time("compacted", |row| row.compact_step_worst_ns),
            number(
                "compacted",
                |row| 100.0 * row.moved_bytes as f64 / row.payload_bytes.max(1) as f64,
                0,
            ),
        ]);
    }
    table
}

fn is_same_storage(one: &StorageRow, two: &StorageRow) -> bool {
    (&one.corpus, &one.codec, &one.storage) == (&two.corpus, &two.codec, &two.storage)
}

fn same_filled_table(report: &Report) -> Table {
    let headings = [
        "corpus",
        "pages",
        "zero",
        "other",
        "share %",
        "test mean ns",
        "p99",
        "% of press",
    ];
    let mut table = table(&headings, 1);
    for row in &report.same_filled {
        table.add_row([
            row.corpus.clone(),
            row.file_pages.to_string(),
            row.zero_pages.to_string(),
            row.same_filled_pages.to_string(),
            format!("{:.2}", row.share_percent),
            format!("{:.1}", row.test_mean_ns),
            format!("{:.1}", row.test_p99_ns),
            row.percent_of_press
                .map_or("–".to_owned(), |share| format!("{share:.2}")),
        ]);
    }
    table
}
