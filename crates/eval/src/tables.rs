//! The report as text.

use crate::grid::{Grid, wrapped};
use crate::report::{CodecRow, Report, StorageRow};
use crate::rows::POOLED;
use std::fmt::Write;

/// The tables, as they are printed, in lines of `width` at most; `None`: as wide as they are.
pub fn tables(report: &Report, width: Option<usize>) -> String {
    let method = &report.method;
    let cpu = method.cpu.map_or("not pinned".to_owned(), |cpu| {
        format!("pinned to CPU {cpu}")
    });
    let how = format!(
        "{}, {cpu}, press with {}; threshold {} bytes, {} rounds, seed {}",
        method.processor, method.simd, method.threshold_bytes, method.rounds, method.seed
    );
    let mut text = wrapped(&how, width) + "\n";
    for (title, grid) in sections(report) {
        let _ = writeln!(text, "\n{}\n{}", wrapped(title, width), grid.text(width));
    }
    let test = &report.same_filled_test;
    let test = format!(
        "the test, hot: a same-filled page {:.0} ns, all but the last word {:.0} ns, worst case (last but one) {:.0} ns; filling a page {:.0} ns",
        test.same_filled_ns, test.all_but_last_word_ns, test.worst_case_ns, test.fill_ns
    );
    text + &wrapped(&test, width) + "\n"
}

/// Every table, below its title.
fn sections(report: &Report) -> Vec<(&'static str, Grid)> {
    let (pooled, by_file): (Vec<_>, Vec<_>) =
        report.codecs.iter().partition(|row| row.corpus == POOLED);
    let mut all = vec![
        (
            "Codecs, pooled (total with failed pages as 4096 bytes, and tables)",
            codec_table(&pooled, Corpora::Pooled),
        ),
        ("Codecs by file", codec_table(&by_file, Corpora::Apart)),
    ];
    if !report.ratios.is_empty() {
        all.push((
            "Against a peer on the same pages (speeds: more is better; total, p99: less)",
            ratio_table(report),
        ));
    }
    all.push((
        "From a cold source, prefetched, into a hot page; pooled",
        cold_table(report),
    ));
    let is_trained = |row: &&CodecRow| row.table_bytes > 0;
    let trained: Vec<_> = report.codecs.iter().filter(is_trained).collect();
    if !trained.is_empty() {
        all.push((
            "Tables trained on pages that no codec is evaluated on: bytes a page",
            training_table(&trained),
        ));
    }
    all.push(("Made-up pages", synthetic_table(report)));
    all.push((
        "Storages (density: payload over frames and tables; ratio: pages over frames and tables)",
        storage_table(report),
    ));
    all.push(("Same-filled pages", same_filled_table(report)));
    all
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

/// What a row of codecs is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Corpora {
    /// All files together.
    Pooled,
    /// One file, which has a column.
    Apart,
}

fn codec_table(rows: &[&CodecRow], corpora: Corpora) -> Grid {
    const GROUPS: [&[&str]; 4] = [
        &["comp MiB/s", "decomp MiB/s"],
        &["comp mean ns", "p99", "worst"],
        &["decomp mean ns", "p99", "worst"],
        &["total MiB", "% of pages", "failed %"],
    ];
    let skip = usize::from(corpora == Corpora::Pooled);
    let mut table = Grid::new(&["corpus", "codec"][skip..], &GROUPS);
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
        table.add(&cells[skip..]);
    }
    table
}

fn ratio_table(report: &Report) -> Grid {
    let mut table = Grid::new(
        &["codec", "against", "corpus"],
        &[&["comp ×", "decomp ×"], &["total ×"], &["decomp p99 ×"]],
    );
    for row in &report.ratios {
        table.add([
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

fn cold_table(report: &Report) -> Grid {
    let mut table = Grid::new(
        &["codec"],
        &[&["mean ns", "p99 ns", "memcpy's p99 ns", "×"]],
    );
    for row in report.codecs.iter().filter(|row| row.corpus == POOLED) {
        let (Some(p99), Some(memcpy)) = (row.cold_decompress_p99_ns, row.cold_memcpy_p99_ns) else {
            continue;
        };
        table.add([
            row.codec.clone(),
            optional(row.cold_decompress_mean_ns),
            whole(p99),
            whole(memcpy),
            format!("{:.2}", p99 / memcpy),
        ]);
    }
    table
}

fn training_table(rows: &[&CodecRow]) -> Grid {
    let mut table = Grid::new(
        &["codec", "corpus"],
        &[
            &["held out", "in sample"],
            &["in-sample pages"],
            &["table bytes"],
        ],
    );
    for row in rows {
        table.add([
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

fn synthetic_table(report: &Report) -> Grid {
    let mut table = Grid::new(
        &["pages", "codec"],
        &[
            &["comp mean ns", "p99"],
            &["decomp mean ns"],
            &["bytes", "failed %"],
        ],
    );
    for row in &report.synthetic {
        table.add([
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
fn storage_table(report: &Report) -> Grid {
    let mut table = Grid::new(
        &["corpus", "sizes of", "storage"],
        &[
            &["payload MiB"],
            &["density fill", "churned", "halved", "compacted"],
            &["ratio fill", "churned"],
            &["B/object"],
            &["store p99 ns", "free p99"],
            &["step p99", "worst", "moved %"],
        ],
    );
    for stages in report.storages.chunk_by(is_same_storage) {
        let stage = |name: &str| stages.iter().find(|row| row.stage == name);
        let number = |name: &str, of: fn(&StorageRow) -> f64, digits: usize| {
            stage(name).map_or("–".to_owned(), |row| format!("{:.digits$}", of(row)))
        };
        let time =
            |name: &str, of: fn(&StorageRow) -> Option<f64>| optional(stage(name).and_then(of));
        let first = &stages[0];
        table.add([
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

fn same_filled_table(report: &Report) -> Grid {
    let mut table = Grid::new(
        &["corpus"],
        &[
            &["pages", "zero", "other", "share %"],
            &["test mean ns", "p99", "% of press"],
        ],
    );
    for row in &report.same_filled {
        table.add([
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::grid::assert_fits;
    use crate::report::{
        CorpusRow, Method, RatioRow, SameFilledGain, SameFilledRow, SameFilledTest,
    };

    const CORPUS: &str = "/home/somebody/captured/postgres-sorts-and-joins.pages";

    fn codec_row(corpus: &str) -> CodecRow {
        CodecRow {
            codec: "press-dense".into(),
            corpus: corpus.into(),
            pages: 123_456,
            failed: 12_345,
            failed_percent: 12.34,
            compress_mib_s: 12_345.0,
            compress_mean_ns: 123_456.0,
            compress_p99_ns: 123_456.0,
            compress_worst_ns: 12_345_678.0,
            decompress_mib_s: 12_345.0,
            decompress_mean_ns: 123_456.0,
            decompress_p99_ns: 123_456.0,
            decompress_worst_ns: 12_345_678.0,
            cold_decompress_mean_ns: Some(123_456.0),
            cold_decompress_p99_ns: Some(123_456.0),
            cold_memcpy_p99_ns: Some(12_345.0),
            total_bytes: 1 << 34,
            table_bytes: 123_456,
            ratio: 3.21,
            in_sample_pages: 12_345,
            in_sample_bytes: 1 << 24,
            in_sample_bytes_per_page: 1_234.0,
            held_out_bytes_per_page: 1_234.0,
        }
    }

    fn storage_row(stage: &'static str) -> StorageRow {
        StorageRow {
            storage: "size-class".into(),
            codec: "press-dense".into(),
            corpus: CORPUS.into(),
            stage,
            objects: 123_456,
            frames: 12_345,
            payload_bytes: 1 << 34,
            metadata_bytes: 1 << 20,
            total_bytes: 1 << 34,
            ratio: 3.21,
            density: 0.9876,
            store_p99_ns: Some(123_456.0),
            free_p99_ns: Some(123_456.0),
            compact_step_p99_ns: Some(123_456.0),
            compact_step_worst_ns: Some(12_345_678.0),
            moved_bytes: 1 << 30,
        }
    }

    fn same_filled_row() -> SameFilledRow {
        SameFilledRow {
            corpus: CORPUS.into(),
            file_pages: 1_234_567,
            zero_pages: 123_456,
            same_filled_pages: 12_345,
            share_percent: 12.34,
            test_mean_ns: 123.4,
            test_p99_ns: 1_234.5,
            percent_of_press: Some(12.34),
        }
    }

    fn same_filled_gain() -> SameFilledGain {
        SameFilledGain {
            codec: "press-dense".into(),
            kind: "one word",
            stored_bytes: 12,
            store_without_ns: 12_345.0,
            store_with_ns: 1_234.0,
            store_gain_percent: 99.0,
            load_without_ns: 12_345.0,
            load_with_ns: 1_234.0,
            load_gain_percent: 99.0,
        }
    }

    /// A report with a row in every table, of long names and large numbers.
    pub(crate) fn report() -> Report {
        Report {
            method: Method {
                processor: "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz".into(),
                cpu: Some(1),
                simd: "AVX-512",
                threshold_bytes: 2867,
                rounds: 3,
                seed: 219,
                clock_overhead_ns: 12.0,
            },
            corpora: vec![CorpusRow {
                corpus: CORPUS.into(),
                pages: 123_456,
                evaluated_pages: 123_456,
                captured: false,
                inactive_ms: None,
            }],
            codecs: vec![
                codec_row(POOLED),
                codec_row(CORPUS),
                CodecRow {
                    codec: "lz4:11".into(),
                    ..codec_row(POOLED)
                },
            ],
            ratios: vec![RatioRow {
                codec: "press-dense".into(),
                against: "zstd:-7".into(),
                corpus: CORPUS.into(),
                compress: 12.34,
                decompress: 12.34,
                total: 1.234,
                decompress_p99: 12.34,
            }],
            synthetic: vec![codec_row("random")],
            storages: ["fill", "churned", "halved", "compacted"]
                .map(storage_row)
                .into(),
            same_filled: vec![same_filled_row()],
            same_filled_gain: vec![same_filled_gain()],
            same_filled_test: SameFilledTest {
                same_filled_ns: 123.0,
                all_but_last_word_ns: 123.0,
                worst_case_ns: 123.0,
                fill_ns: 123.0,
            },
        }
    }

    /// Tables had up to 190 columns in a terminal, which broke each line in three.
    #[test]
    fn every_table_fits_a_terminal_and_says_all_the_same() {
        let report = report();
        let whole = tables(&report, None);
        let fitted = tables(&report, Some(80));
        assert_fits(&fitted, 80);
        assert!(
            whole.lines().any(|line| line.chars().count() > 150),
            "{whole}"
        );
        let numbers = |text: &str| {
            let words = text.split_whitespace().map(str::to_owned);
            words.collect::<std::collections::BTreeSet<_>>()
        };
        let (whole, fitted) = (numbers(&whole), numbers(&fitted));
        let lost: Vec<_> = whole
            .difference(&fitted)
            .filter(|word| !CORPUS.contains(*word))
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
