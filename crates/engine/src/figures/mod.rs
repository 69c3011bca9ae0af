//! What a figure is: with a name, a unit and what it means; buckets, percentiles and peaks. What there is of them stands
//! in [`metrics`](crate::vm::metrics).

pub mod cause;
pub mod counters;
pub mod latency;
pub mod residency;
pub mod tracker;

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free-running: the difference of two readings is what happened between them.
    Counter,
    /// What is so now.
    Gauge,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// How often something happened.
    Times,
    /// Pages of 4 KiB.
    Pages,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// The unit's name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Times => "times",
            Unit::Pages => "pages",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "ns",
        }
    }
}

/// A figure, as it was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name: unique, of small letters, digits and `_`, and never changed.
    pub name: &'static str,
    /// Whether it only grows.
    pub kind: Kind,
    /// What it counts.
    pub unit: Unit,
    /// What it means, in a sentence or two.
    pub help: &'static str,
    /// Its value.
    pub value: u64,
}
