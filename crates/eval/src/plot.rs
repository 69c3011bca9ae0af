//! The report as a picture: two panels, as SVG.
//!
//! ```text
//!  ┌ compression speed over ratio ┐ ┌ density under churn ─────────┐
//!  │ one point a codec, pooled    │ │ one line a storage, fill …    │
//!  └──────────────────────────────┘ └──────────────────────────────┘
//! ```

use crate::chart::{
    self, BLUE, Drawn, GREEN, GREY, Names, ORANGE, Panel, RED, SKY, VIOLET, font, key, plain_axes,
};
use crate::codecs::MEMCPY;
use crate::report::{CodecRow, Report, StorageRow};
use crate::rows::POOLED;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);
/// Lines that can be told apart, also by those who see few colours.
const LINES: [RGBColor; 6] = [BLUE, ORANGE, GREEN, RED, VIOLET, SKY];
const STAGES: [&str; 4] = ["fill", "churned", "halved", "compacted"];

/// Draws the report as SVG.
pub fn plot(report: &Report) -> String {
    chart::svg(SIZE, |area| {
        let (left, right) = area.split_horizontally(SIZE.0 as i32 / 2);
        speed_over_ratio(report, &left)?;
        density(report, &right)
    })
}

fn is_ours(name: &str) -> bool {
    name.starts_with("press")
}

/// A range with some air above and below.
fn range(values: impl Iterator<Item = f64>, least: f64) -> std::ops::Range<f64> {
    let (low, high) = values.fold((f64::MAX, f64::MIN), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    match low <= high {
        true => (low - 0.08 * (high - low)).max(least)..high + 0.12 * (high - low) + 0.02,
        false => 0.0..1.0,
    }
}

fn speed_over_ratio(report: &Report, panel: &Panel<'_>) -> Drawn {
    let shown = |row: &&CodecRow| row.corpus == POOLED && row.codec != MEMCPY;
    let rows: Vec<&CodecRow> = report.codecs.iter().filter(shown).collect();
    let speeds = rows.iter().map(|row| row.compress_mib_s);
    let mut chart = ChartBuilder::on(panel)
        .caption("Codecs, all files: compression speed over ratio", font(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(
            range(rows.iter().map(|row| row.ratio), 0.0),
            0.0..range(speeds, 0.0).end,
        )?;
    plain_axes(
        chart
            .configure_mesh()
            .y_label_formatter(&|speed| format!("{speed:.0}"))
            .x_desc("ratio: uncompressed over total bytes")
            .y_desc("compression, MiB/s"),
        14,
    )
    .draw()?;
    let mut names = Names::new((90, 14), &[-14, 12, -28, 26, 40, -42, 54], 14);
    for row in rows {
        let colour = if is_ours(&row.codec) { RED } else { GREY };
        let point = (row.ratio, row.compress_mib_s);
        chart.draw_series([Circle::new(point, 5, colour.filled())])?;
        names.name(&mut chart, point, row.codec.clone(), colour)?;
    }
    Ok(())
}

fn density(report: &Report, panel: &Panel<'_>) -> Drawn {
    let rows = pooled_densities(report);
    let codec = rows.first().map_or("no", |row| row.codec.as_str());
    let mut chart = ChartBuilder::on(panel)
        .caption(
            format!("Storages, {codec} sizes of all files: density"),
            font(18),
        )
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(-0.3..3.3, 0.0..1.0)?;
    plain_axes(chart.configure_mesh()
        .disable_x_mesh()
        .x_labels(8)
        .x_label_formatter(&|x| match STAGES
            .iter()
            .enumerate()
            .find(|(at, _)| (*at as f64 - x).abs() < 0.01)
        {
            Some((_, stage)) => (*stage).to_owned(),
            None => String::new(),
        })
        .x_desc(
            "fill → ten rounds of freeing half and refilling → half freed → one compaction pass",
        )
        .y_desc("payload over frames and tables"), 14).draw()?;
    for (number, stages) in rows
        .chunk_by(|one, two| one.storage == two.storage)
        .enumerate()
    {
        let colour = LINES[number % LINES.len()];
        let at = |row: &&StorageRow| STAGES.iter().position(|stage| *stage == row.stage);
        let point = |row: &&StorageRow| Some((at(row)? as f64, row.density));
        let points: Vec<(f64, f64)> = stages.iter().filter_map(point).collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(stages[0].storage.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3)));
        chart.draw_series(
            points
                .into_iter()
                .map(|point| Circle::new(point, 4, colour.filled())),
        )?;
    }
    key(&mut chart, SeriesLabelPosition::LowerLeft, 14)
}

/// The pooled rows of one codec's sizes: of the densest codec of ours that was stored, or any.
fn pooled_densities(report: &Report) -> Vec<&StorageRow> {
    let pooled = |row: &&StorageRow| row.corpus == POOLED;
    let names = || report.storages.iter().filter(pooled).map(|row| &row.codec);
    let ours = ["press-dense", "press"];
    let chosen = ours
        .into_iter()
        .find(|name| names().any(|codec| codec == name));
    let chosen = chosen
        .map(str::to_owned)
        .or_else(|| names().next().cloned());
    let is_chosen = |row: &&StorageRow| pooled(row) && Some(&row.codec) == chosen.as_ref();
    report.storages.iter().filter(is_chosen).collect()
}
