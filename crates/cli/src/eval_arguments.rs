//! Arguments of `coldpress eval`.

use crate::decimal::Decimal;
use crate::size::parse_bytes;
use clap::Args;
use coldpress_eval::{Options, Pin, SeedTable, Simd};
use std::path::PathBuf;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// Arguments of `coldpress eval`.
#[derive(Debug, Args)]
pub struct EvalArguments {
    /// Files of pages, as made by coldpress capture
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Print JSON (raw bytes and nanoseconds)
    #[arg(long)]
    pub json: bool,
    /// Print one table as its authors computed it: rfc1 (codecs, RFC-0219), rfc2 (two and three
    /// slots, RFC-0219) or same-filled (kinds, and what the test for them gains: zswap)
    #[arg(long, value_name = "NAME", value_parser = parse_table, conflicts_with_all = ["codecs", "storages", "against", "plot"])]
    pub table: Option<SeedTable>,
    /// Evaluate this codec only (can be repeated)
    #[arg(long = "codec", value_name = "NAME")]
    pub codecs: Vec<String>,
    /// Evaluate this storage only (can be repeated)
    #[arg(long = "storage", value_name = "NAME")]
    pub storages: Vec<String>,
    /// Path that press takes: portable, avx2 or avx512; otherwise the best there is, with the others beside it
    #[arg(long, value_name = "PATH", value_parser = parse_simd)]
    pub simd: Option<Simd>,
    /// Most that a compressed page may take: 70%, 2867
    #[arg(long, allow_hyphen_values = true, value_name = "SIZE|PERCENT", value_parser = parse_threshold, default_value = "70%")]
    pub threshold: usize,
    /// Times that each page is measured; medians count
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = parse_count, default_value = "3")]
    pub rounds: usize,
    /// Evaluate this many pages of each file, evenly spread; otherwise all
    #[arg(long, allow_hyphen_values = true, value_name = "N", value_parser = parse_count)]
    pub sample: Option<usize>,
    /// Processor to run on, or none; otherwise the one it happens to be on
    #[arg(long, allow_hyphen_values = true, value_name = "CPU", value_parser = parse_pin)]
    pub pin: Option<Pin>,
    /// Where samples and orders come from; everything but times follows from it
    #[arg(
        long,
        allow_hyphen_values = true,
        value_name = "N",
        default_value = "1"
    )]
    pub seed: u64,
    /// Compare every codec with this one; otherwise press with lz4:1, press-dense with zstd:1
    #[arg(long, value_name = "NAME")]
    pub against: Option<String>,
    /// Draw speed against ratio, and density under churn, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

impl EvalArguments {
    /// What the evaluation is asked for.
    pub fn options(&self) -> Options {
        Options {
            codecs: self.codecs.iter().map(|name| spelled(name)).collect(),
            storages: self.storages.clone(),
            simd: self.simd,
            threshold_bytes: self.threshold,
            rounds: self.rounds,
            sample_pages: self.sample,
            made_up: true,
            pin: self.pin.unwrap_or(Pin::Here),
            seed: self.seed,
            against: self.against.as_deref().map(spelled),
        }
    }
}

fn parse_table(text: &str) -> Result<SeedTable, String> {
    let table = SeedTable::ALL
        .into_iter()
        .find(|table| table.name() == text);
    let names = SeedTable::ALL.map(SeedTable::name).join(", ");
    table.ok_or_else(|| format!("there is no table {text:?}: there are {names}"))
}

/// The name of a codec as the tables have it: what a name means to `run` it means here.
fn spelled(name: &str) -> String {
    match name {
        "lz4" => "lz4:1",
        "lz4-rust:1" => "lz4-rust",
        "zstd" => "zstd:1",
        _ => name,
    }
    .to_owned()
}

fn parse_simd(text: &str) -> Result<Simd, String> {
    let simd = Simd::ALL.into_iter().find(|simd| simd.name() == text);
    simd.ok_or_else(|| format!("there is no path {text:?}: write portable, avx2 or avx512"))
}

fn parse_threshold(text: &str) -> Result<usize, String> {
    let bytes = match text.strip_suffix('%') {
        Some(share) => Decimal::parse(share).and_then(|share| Some(share.times(PAGE_BYTES)? / 100)),
        None => parse_bytes(text),
    };
    let bytes = bytes.filter(|bytes| (1..=PAGE_BYTES).contains(bytes));
    bytes.map(|bytes| bytes as usize).ok_or_else(|| {
        format!("cannot read {text:?} as a threshold: write for example 70% or 2867, at most a page of 4096 bytes")
    })
}

fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("cannot read {text:?} as a count: write for example 3"))
}

fn parse_pin(text: &str) -> Result<Pin, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(Pin::No),
        (_, Ok(cpu)) => Ok(Pin::To(cpu)),
        _ => Err(format!(
            "cannot read {text:?} as a processor: write for example 0, or none"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_bytes_or_shares_of_a_page() {
        for (text, bytes) in [("70%", 2867), ("100%", 4096), ("2867", 2867), ("2K", 2048)] {
            assert_eq!(parse_threshold(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "0%", "101%", "4097", "5K", "-1", "much"] {
            assert!(parse_threshold(text).unwrap_err().contains("70%"), "{text}");
        }
    }

    /// `lz4-rust` was acceleration 11 to `run` and 1 here.
    #[test]
    fn names_mean_what_they_mean_to_run() {
        let tables = coldpress_eval::codec_names();
        for name in ["lz4", "lz4-rust", "lz4-rust:1", "zstd", "press"] {
            let spelled = spelled(name);
            assert!(tables.contains(&spelled), "{name}");
            let run = |name: &str| crate::choice::parse_codec(name).unwrap();
            assert_eq!(run(&spelled), run(name), "{name}");
        }
    }

    #[test]
    fn processors_are_numbers_or_none() {
        assert_eq!(parse_pin("none"), Ok(Pin::No));
        assert_eq!(parse_pin("1"), Ok(Pin::To(1)));
        assert!(parse_pin("first").is_err() && parse_count("0").is_err());
        assert!(parse_simd("sse").unwrap_err().contains("avx512"));
    }
}
