//! The report as a picture.

use crate::report::Report;

/// Draws the report as SVG.
pub fn plot(report: &Report) -> String {
    let _ = report;
    String::new()
}
