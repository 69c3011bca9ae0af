//! The report for programs: raw bytes and nanoseconds.

use super::child::Run;
use super::summary::Summary;
use super::upstream::PRINTED;
use serde_json::{Value, json};

/// Summary, every run, and what upstream prints.
pub fn document(summary: &Summary, runs: &[Run]) -> Value {
    json!({
        "summary": summary,
        "runs": runs,
        "upstream_as_printed_in_the_seed": PRINTED,
    })
}
