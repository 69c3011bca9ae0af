//! Memory by age as a picture: for each age a bar, what it holds natively and what it would take, were all of it compressed.

use crate::estimate::assemble::Estimate;
use crate::estimate::text::age_rows;
use crate::size::format_bytes;
use plotters::prelude::*;
use std::error::Error;

const SIZE: (u32, u32) = (960, 480);
const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(225, 228, 232);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const GREY: RGBColor = RGBColor(110, 120, 135);
const MIB: f64 = 1024.0 * 1024.0;

/// Draws the estimate as SVG.
pub fn plot(estimate: &Estimate) -> String {
    let mut svg = String::new();
    // Drawing into a string fails only on a mistake of ours; then the picture lacks a part.
    let drawn = draw(estimate, &mut svg);
    debug_assert!(drawn.is_ok(), "{drawn:?}");
    svg
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

fn draw(estimate: &Estimate, svg: &mut String) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let bars = bars(estimate);
    let highest = bars.iter().map(|bar| bar.1).fold(0.0, f64::max) / MIB;
    let font = |size: u32| ("sans-serif", size).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&area)
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
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(bars.len() * 2 + 1)
        .x_label_formatter(&name)
        .y_desc("MiB")
        .label_style(font(13))
        .axis_desc_style(font(14))
        .bold_line_style(FAINT)
        .light_line_style(WHITE)
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
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(font(14))
        .background_style(WHITE.mix(0.9))
        .border_style(FAINT)
        .draw()?;
    area.present()?;
    Ok(())
}
