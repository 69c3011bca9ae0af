//! A figure with its name, its unit and what it means, for whoever prints all of them.

use crate::Engine;
use crate::compression::stored::HEADER_BYTES;
use crate::figures::counters::Counters;
use crate::figures::latency::{LATENCIES, Latency};
use crate::figures::residency;
pub use crate::figures::{Figure, Kind, Unit};
use crate::machine::host::Host;
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;
use core::sync::atomic::Ordering::Relaxed;

impl Counters {
    /// All figures that are counted: the table, then the nine buckets of residency, then latency
    /// percentiles (zero where nothing was measured).
    pub fn figures(&self) -> impl Iterator<Item = Figure> {
        let residency = residency::NAMES
            .iter()
            .zip(&self.decompressed_within_log_seconds)
            .map(|(&(name, help), bucket)| Figure {
                name,
                kind: Kind::Counter,
                unit: Unit::Pages,
                help,
                value: bucket.load(Relaxed),
            });
        let latencies = [&self.compression_latency, &self.decompression_latency];
        let latencies = LATENCIES
            .iter()
            .zip(latencies)
            .flat_map(|(names, latency)| latency_figures(names, latency));
        self.rows().chain(residency).chain(latencies)
    }
}

fn latency_figures(
    names: &'static [(&'static str, &'static str); 5],
    latency: &Latency,
) -> impl Iterator<Item = Figure> {
    let p = latency.percentiles();
    let values = [p.p50_ns, p.p90_ns, p.p99_ns, p.p999_ns, p.longest_ns];
    names
        .iter()
        .zip(values)
        .map(|(&(name, help), value)| Figure {
            name,
            kind: Kind::Gauge,
            unit: Unit::Nanoseconds,
            help,
            value,
        })
}

/// What an engine holds.
const HELD: [(&str, Unit, &str); 7] = [
    (
        "storage_bytes",
        Unit::Bytes,
        "Frames held by compressed storage.",
    ),
    (
        "payload_bytes",
        Unit::Bytes,
        "Compressed data alone: bytes of stored objects without their headers.",
    ),
    (
        "object_header_bytes",
        Unit::Bytes,
        "Headers of stored objects.",
    ),
    (
        "fragmentation_bytes",
        Unit::Bytes,
        "Bytes of storage's frames that are in no object.",
    ),
    (
        "metadata_bytes",
        Unit::Bytes,
        "Tables of the engine and of storage.",
    ),
    (
        "resident_pages",
        Unit::Pages,
        "Pages that are tracked and resident.",
    ),
    (
        "failed_pages",
        Unit::Pages,
        "Pages that could not be compressed or evicted, and wait to be tried again.",
    ),
];

fn gauges(values: [usize; HELD.len()]) -> impl Iterator<Item = Figure> {
    let rows = HELD.into_iter().zip(values);
    rows.map(|((name, unit, help), value)| Figure {
        name,
        kind: Kind::Gauge,
        unit,
        help,
        value: value as u64,
    })
}

/// Every figure that an engine has, all zero: for readers that have the values from elsewhere.
pub fn every() -> impl Iterator<Item = Figure> {
    static NONE: Counters = Counters::new();
    NONE.figures().chain(gauges([0; HELD.len()]))
}

impl<H: Host, C: PageCodec, S: CompressedStorage> Engine<H, C, S> {
    /// All that can be said of this engine in numbers: what it counts, then what it holds.
    pub fn figures(&self) -> impl Iterator<Item = Figure> {
        let usage = self.storage_usage();
        let headers = usage.objects * HEADER_BYTES;
        let held = [
            usage.storage_bytes,
            usage.payload_bytes - headers,
            headers,
            usage.fragmentation_bytes,
            self.metadata_bytes(),
            self.resident_pages() as usize,
            self.failed_pages() as usize,
        ];
        self.counters().figures().chain(gauges(held))
    }
}
