//! The report as a picture: two panels, as SVG.
//!
//! ```text
//!  ┌ cold entries found over memory taken ┐ ┌ time over cold entries found, most taken ┐
//!  │ one line a kind, the bound dashed    │ │ one point a kind, upstream's hollow      │
//!  └──────────────────────────────────────┘ └──────────────────────────────────────────┘
//! ```

use super::summary::{Size, Summary};
use super::upstream::{self, PRINTED};
use crate::size::format_bytes;
use coldpress_eval::chart::{
    self, BLUE, Chart, Drawn, GREEN, GREY, INK, Names, ORANGE, Panel, RED, SKY, VIOLET, font, key,
    plain_axes,
};
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 560);
/// Lines that can be told apart, also by those who see few colours.
const LINES: [RGBColor; 9] = [
    RED,
    ORANGE,
    BLUE,
    GREEN,
    RGBColor(160, 160, 160),
    VIOLET,
    SKY,
    RGBColor(90, 60, 30),
    RGBColor(204, 121, 167),
];

/// Draws the summary.
pub fn svg(summary: &Summary) -> String {
    chart::svg(SIZE, |area| {
        let (left, right) = area.split_horizontally(SIZE.0 as i32 / 2);
        found_over_taken(summary, &left)?;
        match summary.sizes.iter().max_by_key(|size| size.reclaim_bytes) {
            Some(size) => time_over_found(summary, size, &right),
            None => Ok(()),
        }
    })
}

/// The unit of the axis of memory: its name, and its bytes.
fn unit(most_bytes: u64) -> (&'static str, f64) {
    match most_bytes {
        0..=0x8000_0000 => ("MiB", f64::from(1 << 20)),
        _ => ("GiB", f64::from(1 << 30)),
    }
}

fn found_over_taken(summary: &Summary, panel: &Panel<'_>) -> Drawn {
    let most = summary.sizes.iter().map(|size| size.reclaim_bytes).max();
    let (unit, unit_bytes) = unit(most.unwrap_or(0));
    let scaled = |bytes: u64| bytes as f64 / unit_bytes;
    let most = scaled(most.unwrap_or(0)) * 1.08;
    let mut chart = ChartBuilder::on(panel)
        .caption("Cold entries found after memory was taken", font(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..most, -2.0..104.0)?;
    plain_axes(
        chart
            .configure_mesh()
            .x_desc(format!(
                "{unit} taken, of a limit of {}, beside a cache of {}",
                scaled(summary.scale.limit_bytes),
                scaled(summary.scale.capacity_bytes)
            ))
            .y_desc("% of the cold set")
            .y_label_formatter(&|rate| format!("{rate:.0}")),
        14,
    )
    .draw()?;
    let mut sizes: Vec<&Size> = summary.sizes.iter().collect();
    sizes.sort_by_key(|size| size.reclaim_bytes);
    draw_bound(&mut chart, bound(summary, &sizes, unit_bytes))?;
    for (number, kind) in kinds(&sizes).into_iter().enumerate() {
        let colour = LINES[number % LINES.len()];
        draw_kind(&mut chart, kind, rates(&sizes, kind, unit_bytes), colour)?;
    }
    key(&mut chart, SeriesLabelPosition::LowerLeft, 13)
}

/// The bound: percent of the cold set over memory taken, in units of so many bytes.
fn bound(summary: &Summary, sizes: &[&Size], unit_bytes: f64) -> Vec<(f64, f64)> {
    let points = sizes.iter().filter_map(|size| {
        let rows = size.rows.iter();
        let rooms = rows.filter_map(|row| Some(row.median?.peak.room_bytes));
        let room = rooms.max()?;
        Some((
            size.reclaim_bytes as f64 / unit_bytes,
            100.0 * summary.scale.bound(room),
        ))
    });
    points.collect()
}

/// Percent of the cold set that a kind finds, over memory taken, in units of so many bytes.
fn rates(sizes: &[&Size], kind: &str, unit_bytes: f64) -> Vec<(f64, f64)> {
    let points = sizes.iter().filter_map(|size| {
        let row = size.rows.iter().find(|row| row.kind == kind)?;
        let rate = row.median.filter(|_| row.killed == 0)?.cold_after.rate();
        Some((size.reclaim_bytes as f64 / unit_bytes, 100.0 * rate))
    });
    points.collect()
}

fn draw_bound(chart: &mut Chart<'_, '_>, bound: Vec<(f64, f64)>) -> Drawn {
    // Of one size there is no line.
    chart.draw_series(
        bound
            .iter()
            .map(|&at| Cross::new(at, 6, INK.stroke_width(2))),
    )?;
    chart
        .draw_series(DashedLineSeries::new(bound, 6, 4, INK.stroke_width(2)))?
        .label("room for pages")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 10, y)], INK.stroke_width(2)));
    Ok(())
}

fn draw_kind(
    chart: &mut Chart<'_, '_>,
    kind: &str,
    points: Vec<(f64, f64)>,
    colour: RGBColor,
) -> Drawn {
    let label = match points.is_empty() {
        true => format!("{kind}: out of memory"),
        false => kind.to_owned(),
    };
    chart
        .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
        .label(label)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3)));
    let circles = points
        .into_iter()
        .map(|at| Circle::new(at, 4, colour.filled()));
    chart.draw_series(circles)?;
    Ok(())
}

fn kinds(sizes: &[&Size]) -> Vec<&'static str> {
    let first = sizes.first().map(|size| size.rows.iter());
    first.into_iter().flatten().map(|row| row.kind).collect()
}

/// A point of the right panel.
struct Mark {
    name: String,
    at: (f64, f64),
    colour: RGBColor,
    theirs: bool,
}

fn marks(summary: &Summary, size: &Size) -> Vec<Mark> {
    let mut marks = Vec::new();
    for (number, row) in size.rows.iter().enumerate() {
        let Some(measured) = row.median.filter(|_| row.killed == 0) else {
            continue;
        };
        let pass = measured.cold_after;
        let each = pass.total_ns as f64 / 1000.0 / pass.entries.max(1) as f64;
        marks.push(Mark {
            name: row.kind.to_owned(),
            at: (100.0 * pass.rate(), each),
            colour: LINES[number % LINES.len()],
            theirs: false,
        });
    }
    // Theirs are of one size.
    if (size.reclaim_bytes, summary.scale.capacity_bytes) == (upstream::RECLAIM_BYTES, 4 << 30) {
        marks.extend(PRINTED.iter().map(|printed| Mark {
            name: format!("upstream's {}", printed.kind),
            at: (
                100.0 * printed.cold_after.rate,
                1000.0 * printed.cold_after.total_ms / upstream::COLD_ENTRIES,
            ),
            colour: GREY,
            theirs: true,
        }));
    }
    marks
}

fn time_over_found(summary: &Summary, size: &Size, panel: &Panel<'_>) -> Drawn {
    let marks = marks(summary, size);
    let slowest = marks.iter().map(|mark| mark.at.1).fold(0.1, f64::max);
    let title = format!(
        "{} taken: time and hits of the cold set",
        format_bytes(size.reclaim_bytes)
    );
    let mut chart = ChartBuilder::on(panel)
        .caption(title, font(18))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(56)
        .build_cartesian_2d(-20.0..118.0, -0.08 * slowest..slowest * 1.15)?;
    plain_axes(
        chart
            .configure_mesh()
            .x_desc("% of the cold set found")
            .y_desc("µs an entry, missing ones inserted")
            .x_label_formatter(&|rate| match (0.0..=100.0).contains(rate) {
                true => format!("{rate:.0}"),
                false => String::new(),
            })
            .y_label_formatter(&|time| match slowest {
                _ if *time < 0.0 => String::new(),
                10.0.. => format!("{time:.0}"),
                _ => format!("{time:.1}"),
            }),
        14,
    )
    .draw()?;
    let mut names = Names::new((110, 15), &[-14, 14, -29, 29, 44, -44, 59, -59, -74], 13);
    for mark in marks {
        let style = match mark.theirs {
            true => mark.colour.stroke_width(2),
            false => mark.colour.filled(),
        };
        chart.draw_series([Circle::new(mark.at, 5, style)])?;
        names.name(&mut chart, mark.at, mark.name, mark.colour)?;
    }
    Ok(())
}
