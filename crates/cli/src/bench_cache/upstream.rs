//! What seed 004 prints of its own benchmark: other machine, 4 GiB of cache, 3 GiB taken, hot set 256 MiB, cold
//! set 3.5 GiB, hard limit 4.5 GiB.

use serde::Serialize;

/// One of its reports.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Printed {
    pub kind: &'static str,
    /// Our kind that it is to be compared with.
    pub ours: &'static str,
    pub hot_before: Set,
    pub cold_before: Set,
    pub reclaim_ms: f64,
    pub hot_after: Set,
    pub cold_after: Set,
}

/// Hit rate and time of a set.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Set {
    pub rate: f64,
    pub total_ms: f64,
}

const fn set(rate: f64, total_ms: f64) -> Set {
    Set { rate, total_ms }
}

/// Its reports, in its order.
pub const PRINTED: [Printed; 4] = [
    Printed {
        kind: "LazyFree",
        ours: "lazyfree",
        hot_before: set(1.00, 23.0),
        cold_before: set(1.00, 484.0),
        reclaim_ms: 2078.05,
        hot_after: set(0.45, 72.0),
        cold_after: set(0.23, 2071.0),
    },
    Printed {
        kind: "Disk",
        ours: "disk",
        hot_before: set(1.00, 24.0),
        cold_before: set(0.00, 9924.0),
        reclaim_ms: 2112.23,
        hot_after: set(1.00, 428.0),
        cold_after: set(1.00, 4740.0),
    },
    Printed {
        kind: "Anon, 1 GiB",
        ours: "anonymous-small",
        hot_before: set(1.00, 18.0),
        cold_before: set(0.00, 2106.0),
        reclaim_ms: 1420.27,
        hot_after: set(0.00, 125.0),
        cold_after: set(0.08, 1889.0),
    },
    Printed {
        kind: "Stub",
        ours: "stub",
        hot_before: set(0.00, 1.0),
        cold_before: set(0.00, 19.0),
        reclaim_ms: 1349.56,
        hot_after: set(0.00, 1.0),
        cold_after: set(0.00, 19.0),
    },
];

/// What it says of anonymous memory as large as the cache.
pub const ANONYMOUS_FULL: &str = "Anon, 4 GiB: out of memory";
/// Memory that it took, and its sets.
pub const RECLAIM_BYTES: u64 = 3 << 30;
pub const COLD_ENTRIES: f64 = (3584u64 << 20) as f64 / 4096.0;
