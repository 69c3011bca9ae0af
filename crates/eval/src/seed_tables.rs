//! The tables of RFC-0219 and of zswap's same-filled pages, as their authors computed them.
//!
//! | table | from |
//! |---|---|
//! | `rfc1` | RFC-0219, "Experimental evaluation": five codecs, a page at a time, on inactive pages |
//! | `rfc2` | the same, "Compressed storage": two and three slots with what lz4(11) makes, failed pages as 4 KiB |
//! | `same-filled` | "zswap: same-filled pages handling": kinds of such pages; storing and loading them with the test and without |

use crate::grid::{Grid, wrapped};
use crate::report::{CorpusRow, Report, SameFilledGain};
use crate::rows::POOLED;
use crate::tables::mib;
use crate::{Options, SameFilledRow};
use coldpress_codec::PAGE_SIZE;
use serde::Serialize;
use serde_json::{Value, json};

/// Which table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SeedTable {
    /// The RFC's table of codecs.
    Rfc1,
    /// The RFC's table of storages.
    Rfc2,
    /// zswap's same-filled pages.
    SameFilled,
}

/// The rows of the RFC's first table, and what they are called there.
const RFC1: [(&str, &str); 5] = [
    ("zstd:-7", "Zstd(-7)"),
    ("lzo", "minilzo"),
    ("lz4:1", "lz4(1)"),
    ("lz4:11", "lz4(11)"),
    ("wkdm", "WKdm"),
];
/// The codec of the second, and its rows.
const RFC2_CODEC: &str = "lz4:11";
const RFC2: [(&str, &str); 2] = [("two-slot", "Two-slot"), ("three-slot", "Three-slot")];

/// A row of the RFC's first table.
#[derive(Clone, Debug, Serialize)]
struct Rfc1Row {
    algorithm: &'static str,
    compress_mib_s: f64,
    decompress_mib_s: f64,
    decompress_worst_ns: f64,
    total_bytes: usize,
}

/// A row of the RFC's second table.
#[derive(Clone, Debug, Serialize)]
struct Rfc2Row {
    slots: &'static str,
    storage_pages: usize,
    total_bytes: usize,
    savings_bytes: i64,
    ratio: f64,
}

impl SeedTable {
    /// Every table.
    pub const ALL: [Self; 3] = [Self::Rfc1, Self::Rfc2, Self::SameFilled];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc1 => "rfc1",
            Self::Rfc2 => "rfc2",
            Self::SameFilled => "same-filled",
        }
    }

    /// What has to be measured for it.
    pub fn options(self, options: Options) -> Options {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let codecs = match self {
            Self::Rfc1 => owned(&RFC1.map(|(codec, _)| codec)),
            Self::Rfc2 => owned(&[RFC2_CODEC]),
            Self::SameFilled => owned(&["press"]),
        };
        Options {
            codecs,
            storages: owned(&RFC2.map(|(storage, _)| storage)),
            against: None,
            made_up: false,
            ..options
        }
    }

    /// The table as text, in lines of `width` at most; `None`: as wide as it is.
    pub fn text(self, report: &Report, width: Option<usize>) -> String {
        let pages = pooled_pages(report);
        let of = format!(
            "{} pages ({} MiB) {}",
            pages,
            mib(pages * PAGE_SIZE),
            age(&report.corpora)
        );
        let of = wrapped(&of, width);
        match self {
            Self::Rfc1 => format!("{of}\n\n{}\n", rfc1_text(report, width)),
            Self::Rfc2 => format!("{of}\n{}\n", rfc2_text(report, width)),
            Self::SameFilled => same_filled_text(report, width),
        }
    }

    /// The table as JSON: bytes and nanoseconds.
    pub fn json(self, report: &Report) -> Value {
        let rows = match self {
            Self::Rfc1 => json!(rfc1(report)),
            Self::Rfc2 => json!(rfc2(report)),
            Self::SameFilled => json!({
                "kinds": report.same_filled,
                "gain": report.same_filled_gain,
            }),
        };
        json!({
            "schema_version": 1,
            "table": self.name(),
            "method": report.method,
            "corpora": report.corpora,
            "pages": pooled_pages(report),
            "rows": rows,
        })
    }
}

fn pooled_pages(report: &Report) -> usize {
    let mut rows = report.codecs.iter().filter(|row| row.corpus == POOLED);
    rows.next().map_or(0, |row| row.pages)
}

/// For how long nobody had touched the pages, as far as that is known.
fn age(corpora: &[CorpusRow]) -> String {
    let shortest = corpora.iter().map(|corpus| corpus.inactive_ms).min();
    match shortest.flatten() {
        Some(ms) => format!("that nobody had touched for {} s", ms as f64 / 1000.0),
        None => "of any age: for the RFC's table of inactive pages capture them with --inactive"
            .to_owned(),
    }
}

fn rfc1(report: &Report) -> Vec<Rfc1Row> {
    let pooled = report.codecs.iter().filter(|row| row.corpus == POOLED);
    let row = |(codec, algorithm): (&str, &'static str)| {
        let row = pooled.clone().find(|row| row.codec == codec)?;
        Some(Rfc1Row {
            algorithm,
            compress_mib_s: row.compress_mib_s,
            decompress_mib_s: row.decompress_mib_s,
            decompress_worst_ns: row.decompress_worst_ns,
            total_bytes: row.total_bytes,
        })
    };
    RFC1.into_iter().filter_map(row).collect()
}

fn rfc1_text(report: &Report, width: Option<usize>) -> String {
    let mut table = Grid::new(
        &["Algorithm"],
        &[
            &["Compression (MiB/s)"],
            &["Decompression (MiB/s)"],
            &["Decompression Worst latency (ns)"],
            &["Total Size (MiB)"],
        ],
    );
    for row in rfc1(report) {
        table.add([
            row.algorithm.to_owned(),
            format!("{:.1}", row.compress_mib_s),
            format!("{:.1}", row.decompress_mib_s),
            format!("{:.0}", row.decompress_worst_ns),
            format!("{:.2}", row.total_bytes as f64 / f64::from(1 << 20)),
        ]);
    }
    table.text(width)
}

/// Pages that lz4(11) left as they are.
fn left_uncompressed(report: &Report) -> usize {
    let mut rows = report.codecs.iter();
    rows.find(|row| row.corpus == POOLED && row.codec == RFC2_CODEC)
        .map_or(0, |row| row.failed)
}

fn rfc2(report: &Report) -> Vec<Rfc2Row> {
    let (pages, failed) = (pooled_pages(report), left_uncompressed(report));
    let row = |(storage, slots): (&str, &'static str)| {
        let filled = report.storages.iter().find(|row| {
            (row.corpus.as_str(), row.codec.as_str()) == (POOLED, RFC2_CODEC)
                && (row.storage.as_str(), row.stage) == (storage, "fill")
        })?;
        let total_bytes = (filled.frames + failed) * PAGE_SIZE;
        let all = pages * PAGE_SIZE;
        Some(Rfc2Row {
            slots,
            storage_pages: filled.frames,
            total_bytes,
            savings_bytes: all as i64 - total_bytes as i64,
            ratio: all as f64 / total_bytes.max(1) as f64,
        })
    };
    RFC2.into_iter().filter_map(row).collect()
}

fn rfc2_text(report: &Report, width: Option<usize>) -> String {
    let failed = left_uncompressed(report);
    let mut table = Grid::new(
        &["Slots"],
        &[
            &["Pages for storage"],
            &["Total MiB", "Savings MiB"],
            &["Compression ratio"],
        ],
    );
    for row in rfc2(report) {
        table.add([
            row.slots.to_owned(),
            row.storage_pages.to_string(),
            mib(row.total_bytes),
            format!("{:.1}", row.savings_bytes as f64 / f64::from(1 << 20)),
            format!("{:.2}", row.ratio),
        ]);
    }
    let stored = pooled_pages(report) - failed;
    let stored = format!("lz4(11): {stored} pages to be stored, {failed} left uncompressed");
    format!("{}\n\n{}", wrapped(&stored, width), table.text(width))
}

fn same_filled_text(report: &Report, width: Option<usize>) -> String {
    let mut kinds = Grid::new(
        &["corpus"],
        &[
            &["pages"],
            &["zero", "%"],
            &["same-filled non-zero", "%"],
            &["both %"],
        ],
    );
    let share = |part: usize, row: &SameFilledRow| {
        format!("{:.2}", 100.0 * part as f64 / row.file_pages.max(1) as f64)
    };
    for row in &report.same_filled {
        kinds.add([
            row.corpus.clone(),
            row.file_pages.to_string(),
            row.zero_pages.to_string(),
            share(row.zero_pages, row),
            row.same_filled_pages.to_string(),
            share(row.same_filled_pages, row),
            format!("{:.2}", row.share_percent),
        ]);
    }
    let mut gains = Grid::new(
        &["codec", "pages of"],
        &[
            &["store ns", "with the test", "gain %"],
            &["load ns", "with the test", "gain %"],
        ],
    );
    for row in &report.same_filled_gain {
        let SameFilledGain { codec, kind, .. } = row;
        gains.add([
            codec.clone(),
            (*kind).to_owned(),
            format!("{:.0}", row.store_without_ns),
            format!("{:.0}", row.store_with_ns),
            format!("{:.0}", row.store_gain_percent),
            format!("{:.0}", row.load_without_ns),
            format!("{:.0}", row.load_with_ns),
            format!("{:.0}", row.load_gain_percent),
        ]);
    }
    let test = &report.same_filled_test;
    let mut text = format!(
        "{}\n\nStoring and loading such a page, without the test for it and with it\n{}\n\n",
        kinds.text(width),
        gains.text(width)
    );
    let cost = format!(
        "The test on a page that differs in its last word only: {:.0} ns; in the last but one: {:.0} ns",
        test.all_but_last_word_ns, test.worst_case_ns
    );
    text += &(wrapped(&cost, width) + "\n");
    if report.corpora.iter().any(|corpus| !corpus.captured) {
        let unknown =
            "Files without the note of coldpress capture (FILE.json) were taken as they are";
        text += &(wrapped(unknown, width) + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::assert_fits;
    use crate::tables::tests::report;

    #[test]
    fn every_table_fits_a_terminal() {
        for table in SeedTable::ALL {
            assert_fits(&table.text(&report(), Some(80)), 80);
        }
    }
}
