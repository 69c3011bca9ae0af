//! What is demanded of the kinds lazyfree and compressed, and whether it is met.
//!
//! The *bound* is the share of the cold set for which memory was left beside the hot set: of the limit,
//! what was neither taken nor needed for tables.

use super::kind::Kind;
use super::scenario::Measured;
use super::summary::{Row, Scale};
use serde::Serialize;

/// Of the hot set, and of the bound, that lazyfree has to have.
const LAZYFREE_HOT: f64 = 0.9;
const LAZYFREE_COLD: f64 = 0.95;
/// Times the bound that compressed has to have.
const COMPRESSED_COLD: f64 = 2.0;

/// A bar, and whether it is met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub kind: &'static str,
    pub met: bool,
    pub text: String,
}

/// The verdicts on `rows`, which are of one size. None for a bar that is more than all entries.
pub fn verdicts(rows: &[Row], scale: &Scale) -> Vec<Verdict> {
    let of = |kind: Kind| rows.iter().find(|row| row.kind == kind.name());
    let lazyfree = of(Kind::Lazyfree);
    // One bound for both: that of lazyfree if it was measured.
    let measured = |row: &Row| row.median;
    let bound = lazyfree
        .and_then(measured)
        .or(of(Kind::Compressed).and_then(measured))
        .map_or(0.0, |measured| scale.bound(measured.peak.room_bytes));
    let lazyfree = lazyfree.map(|row| judge(row, |measured| lazyfree_bar(measured, bound)));
    let compressed = of(Kind::Compressed)
        .filter(|_| COMPRESSED_COLD * bound <= 1.0)
        .map(|row| judge(row, |measured| compressed_bar(measured, bound)));
    lazyfree.into_iter().chain(compressed).collect()
}

fn judge(row: &Row, bar: impl FnOnce(&Measured) -> (bool, String)) -> Verdict {
    let killed = || (false, "killed for want of memory".to_owned());
    let (met, text) = match &row.median {
        Some(measured) if row.killed == 0 => bar(measured),
        _ => killed(),
    };
    Verdict {
        kind: row.kind,
        met,
        text: format!(
            "{}: {text}: {}",
            row.kind,
            if met { "met" } else { "NOT met" }
        ),
    }
}

fn lazyfree_bar(measured: &Measured, bound: f64) -> (bool, String) {
    let (hot, cold) = (measured.hot_after.rate(), measured.cold_after.rate());
    let met = hot >= LAZYFREE_HOT && cold >= LAZYFREE_COLD * bound;
    let text = format!(
        "hot {:.1} % (at least {:.0} %), cold {:.1} % (at least {LAZYFREE_COLD} of the {:.1} % that room was left for: {:.1} %)",
        100.0 * hot,
        100.0 * LAZYFREE_HOT,
        100.0 * cold,
        100.0 * bound,
        100.0 * LAZYFREE_COLD * bound
    );
    (met, text)
}

fn compressed_bar(measured: &Measured, bound: f64) -> (bool, String) {
    let (hot, cold) = (measured.hot_after, measured.cold_after.rate());
    let no_swap = measured.peak.swap_bytes == 0;
    let met = hot.hits == hot.entries && cold >= COMPRESSED_COLD * bound && no_swap;
    let text = format!(
        "hot {:.1} % (100 %), cold {:.1} % (at least {COMPRESSED_COLD:.0} times the {:.1} % that room was left for: {:.1} %), {}",
        100.0 * hot.rate(),
        100.0 * cold,
        100.0 * bound,
        100.0 * COMPRESSED_COLD * bound,
        if no_swap {
            "no disk, no swap"
        } else {
            "with swap"
        }
    );
    (met, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_cache::scenario::{Pass, Peak};

    const SCALE: Scale = Scale {
        capacity_bytes: 1600,
        hot_bytes: 100,
        cold_bytes: 1400,
        limit_bytes: 1800,
        compressed_bytes: 0,
        rounds: 1,
    };

    /// Room for 500 bytes of the 1,400: a bound of 35.7 %.
    fn row(kind: Kind, hot_hits: u64, cold_hits: u64, killed: usize) -> Row {
        let pass = |entries, hits| Pass {
            entries,
            hits,
            ..Pass::default()
        };
        Row {
            kind: kind.name(),
            killed,
            median: Some(Measured {
                hot_after: pass(100, hot_hits),
                cold_after: pass(1000, cold_hits),
                peak: Peak {
                    room_bytes: 600,
                    ..Peak::default()
                },
                ..Measured::default()
            }),
        }
    }

    fn met(rows: &[Row]) -> Vec<bool> {
        verdicts(rows, &SCALE).iter().map(|one| one.met).collect()
    }

    #[test]
    fn both_bars_have_two_sides_each() {
        use Kind::{Compressed, Lazyfree};
        // 0.95 × 35.7 % is 33.9 %, twice the bound is 71.4 %.
        assert_eq!(
            met(&[row(Lazyfree, 90, 340, 0), row(Compressed, 100, 715, 0)]),
            [true, true]
        );
        assert_eq!(
            met(&[row(Lazyfree, 89, 340, 0), row(Compressed, 99, 715, 0)]),
            [false, false]
        );
        assert_eq!(
            met(&[row(Lazyfree, 90, 339, 0), row(Compressed, 100, 714, 0)]),
            [false, false]
        );
        assert_eq!(met(&[row(Lazyfree, 100, 900, 1)]), [false]);
        assert!(met(&[row(Kind::Disk, 100, 900, 0)]).is_empty());
    }

    #[test]
    fn swap_is_no_compression_and_twice_more_than_half_is_no_bar() {
        let mut swapped = row(Kind::Compressed, 100, 900, 0);
        swapped.median.as_mut().unwrap().peak.swap_bytes = 1;
        assert_eq!(met(&[swapped]), [false]);
        let mut roomy = row(Kind::Compressed, 100, 900, 0);
        roomy.median.as_mut().unwrap().peak.room_bytes = 900;
        assert!(met(&[roomy]).is_empty());
    }
}
