//! Rows of the report from measurements.

use crate::measure::{Measured, counted};
use crate::report::{CodecRow, RatioRow};
use crate::statistics::Spread;
use coldpress_codec::PAGE_SIZE;

/// The corpus of rows over all files.
pub(crate) const POOLED: &str = "pooled";

fn mib_per_second(pages: usize, ns: f64) -> f64 {
    match ns > 0.0 {
        true => (pages * PAGE_SIZE) as f64 / (1 << 20) as f64 / (ns / 1e9),
        false => 0.0,
    }
}

fn per(bytes: usize, pages: usize) -> f64 {
    bytes as f64 / pages.max(1) as f64
}

/// A row; orders the latencies anew.
pub(crate) fn codec_row(codec: &str, corpus: &str, measured: &mut Measured) -> CodecRow {
    let pages = measured.sizes.len();
    let failed = measured.sizes.iter().filter(|bytes| **bytes == 0).count();
    let bytes: usize = measured
        .sizes
        .iter()
        .map(|bytes| counted((*bytes).into()))
        .sum();
    let total_bytes = bytes + measured.table_bytes;
    let compress = Spread::of(&mut measured.compress_page_ns);
    let decompress = Spread::of(&mut measured.decompress_page_ns);
    let cold = (!measured.cold_ns.is_empty()).then(|| Spread::of(&mut measured.cold_ns));
    let cold_memcpy = cold.map(|_| Spread::of(&mut measured.cold_memcpy_ns));
    CodecRow {
        codec: codec.to_owned(),
        corpus: corpus.to_owned(),
        pages,
        failed,
        failed_percent: 100.0 * per(failed, pages),
        compress_mib_s: mib_per_second(pages, measured.compress_ns),
        compress_mean_ns: compress.mean,
        compress_p99_ns: compress.p99,
        compress_worst_ns: compress.worst,
        decompress_mib_s: mib_per_second(pages - failed, measured.decompress_ns),
        decompress_mean_ns: decompress.mean,
        decompress_p99_ns: decompress.p99,
        decompress_worst_ns: decompress.worst,
        cold_decompress_mean_ns: cold.map(|spread| spread.mean),
        cold_decompress_p99_ns: cold.map(|spread| spread.p99),
        cold_memcpy_p99_ns: cold_memcpy.map(|spread| spread.p99),
        total_bytes,
        table_bytes: measured.table_bytes,
        ratio: (pages * PAGE_SIZE) as f64 / total_bytes as f64,
        in_sample_pages: measured.training_pages,
        in_sample_bytes: measured.training_bytes,
        in_sample_bytes_per_page: per(measured.training_bytes, measured.training_pages),
        held_out_bytes_per_page: per(bytes, pages),
    }
}

/// Whom a codec is compared with, unless the caller says.
fn usual_peer(codec: &str) -> Option<&'static str> {
    match codec.split(':').next()? {
        "press-dense" => Some("zstd:1"),
        "press" => Some("lz4:1"),
        _ => None,
    }
}

/// Every codec of `rows` against its peer, where the peer was measured too.
pub(crate) fn ratio_rows(rows: &[CodecRow], against: Option<&str>) -> Vec<RatioRow> {
    let mut ratios = Vec::new();
    for row in rows {
        let peer_name = against.or_else(|| usual_peer(&row.codec));
        let is_peer =
            |peer: &&CodecRow| peer.corpus == row.corpus && Some(peer.codec.as_str()) == peer_name;
        let Some(peer) = rows.iter().find(is_peer) else {
            continue;
        };
        if peer.codec == row.codec || row.codec == crate::codecs::MEMCPY {
            continue;
        }
        ratios.push(RatioRow {
            codec: row.codec.clone(),
            against: peer.codec.clone(),
            corpus: row.corpus.clone(),
            compress: row.compress_mib_s / peer.compress_mib_s,
            decompress: row.decompress_mib_s / peer.decompress_mib_s,
            total: row.total_bytes as f64 / peer.total_bytes as f64,
            decompress_p99: row.decompress_p99_ns / peer.decompress_p99_ns,
        });
    }
    ratios
}
