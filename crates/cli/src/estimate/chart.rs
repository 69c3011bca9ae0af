//! Memory by age as a picture: for each age a bar, what it holds natively and what it would take, were all of it compressed.

use crate::estimate::assemble::Estimate;
use crate::estimate::text::age_rows;
use crate::size::format_bytes;
use coldpress_eval::chart::{self, BLUE, Drawn, GREY, Panel, font, key, plain_axes};
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 480);
const MIB: f64 = 1024.0 * 1024.0;

/// Draws the estimate as SVG.
pub fn plot(estimate: &Estimate) -> String {
    chart::svg(SIZE, |area| draw(estimate, area))
}

/// Bars: what stands below each, its height now, and its height compressed.
fn bars(estimate: &Estimate) -> Vec<(String, f64, f64)> {
    let model = &estimate.model;
    let ratio = model.mean_page_bytes() / 4096.0;
    let mut bars = vec![("not managed".to_owned(), model.unmanaged_bytes, 0.0)];
    let rows = age_rows(estimate);
    if rows.is_empty() {
        let bytes = model.pages() * 4096.0;
        bars.push(("age not known".to_owned(), bytes, bytes * ratio));
    }
    bars.extend(
        rows.into_iter()
            .map(|(age, bytes, _)| (age, bytes, bytes * ratio)),
    );
    bars
}

fn draw(estimate: &Estimate, area: &Panel<'_>) -> Drawn {
    let bars = bars(estimate);
    let highest = bars.iter().map(|bar| bar.1).fold(0.0, f64::max) / MIB;
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!(
                "{} ({}): memory by the last touch",
                estimate.name, estimate.pid
            ),
            font(18),
        )
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..bars.len() as f64, 0.0..(highest * 1.15).max(1.0))?;
    let name = |x: &f64| {
        let at = (x - 0.5).round();
        let is_middle = (x - 0.5 - at).abs() < 0.01 && at >= 0.0;
        let bar = is_middle.then(|| bars.get(at as usize)).flatten();
        bar.map_or_else(String::new, |bar| bar.0.clone())
    };
    plain_axes(
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(bars.len() * 2 + 1)
            .x_label_formatter(&name)
            .y_desc("MiB"),
        14,
    )
    .draw()?;
    let rectangle = |at: usize, height: f64, colour: RGBColor| {
        let (left, right) = (at as f64 + 0.15, at as f64 + 0.85);
        Rectangle::new([(left, 0.0), (right, height / MIB)], colour.filled())
    };
    let native = bars.iter().enumerate();
    chart
        .draw_series(native.map(|(at, bar)| rectangle(at, bar.1, GREY)))?
        .label("natively")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], GREY.filled()));
    let compressed = bars.iter().enumerate();
    chart
        .draw_series(compressed.map(|(at, bar)| rectangle(at, bar.2, BLUE)))?
        .label("if compressed")
        .legend(|(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], BLUE.filled()));
    for (at, bar) in bars.iter().enumerate() {
        let place = (at as f64 + 0.2, bar.1 / MIB);
        let told = Text::new(format_bytes(bar.1 as u64), (0, -16), font(13));
        chart.draw_series([EmptyElement::at(place) + told])?;
    }
    key(&mut chart, SeriesLabelPosition::UpperLeft, 14)
}
