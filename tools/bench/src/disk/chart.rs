//! The iterations as a picture: throughput and latency over them, a line a disk.
//!
//! ```text
//!  ┌ filling: MiB/s ────┐ ┌ filling: latency ───┐
//!  ├ tiobench: MiB/s ───┤ ├ tiobench: latency ──┤
//! ```

use super::ageing::{Aged, PHASES, Phase};
use coldpress_eval::chart::{
    self, BLUE, Drawn, GREEN, GREY, INK, ORANGE, Panel, RED, SKY, VIOLET, font, key, plain_axes,
};
use plotters::prelude::*;

const SIZE: (u32, u32) = (1280, 900);
const LINES: [RGBColor; 8] = [RED, ORANGE, VIOLET, BLUE, GREEN, SKY, GREY, INK];

/// A value of an iteration.
type Figure = fn(&[Phase; PHASES.len()]) -> f64;

const PANELS: [(&str, Figure); 4] = [
    ("Filling until there is no space: MiB/s", |phases| {
        mib_per_second(&phases[..1])
    }),
    ("Filling: mean latency of a request, µs", |phases| {
        microseconds(&phases[..1])
    }),
    ("tiobench, mean of its four jobs: MiB/s", |phases| {
        mib_per_second(&phases[1..])
    }),
    ("tiobench: mean latency of a request, µs", |phases| {
        microseconds(&phases[1..])
    }),
];

fn mib_per_second(phases: &[Phase]) -> f64 {
    let sum: f64 = phases.iter().map(|phase| phase.bytes_per_second).sum();
    sum / phases.len() as f64 / f64::from(1 << 20)
}

fn microseconds(phases: &[Phase]) -> f64 {
    let sum: f64 = phases.iter().map(|phase| phase.mean_ns).sum();
    sum / phases.len() as f64 / 1e3
}

/// Draws the iterations.
pub fn svg(all: &[Aged]) -> String {
    chart::svg(SIZE, |area| {
        let panels = area.split_evenly((2, 2));
        for (panel, (title, figure)) in panels.iter().zip(PANELS) {
            draw(all, panel, title, figure)?;
        }
        Ok(())
    })
}

fn draw(all: &[Aged], panel: &Panel<'_>, title: &str, figure: Figure) -> Drawn {
    let values = |aged: &Aged| aged.iterations.iter().map(figure).collect::<Vec<f64>>();
    let most = all.iter().flat_map(values).fold(1.0, f64::max);
    let length = all.iter().map(|aged| aged.iterations.len()).max();
    let last = length.unwrap_or(0).max(2) as f64;
    let mut chart = ChartBuilder::on(panel)
        .caption(title, font(18))
        .margin(14)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(1.0..last, 0.0..most * 1.25)?;
    plain_axes(&mut chart.configure_mesh(), 14)
        .x_desc("iteration")
        .draw()?;
    for (aged, colour) in all.iter().zip(LINES.into_iter().cycle()) {
        let points = values(aged).into_iter().enumerate();
        let points = points.map(|(number, value)| (number as f64 + 1.0, value));
        let line = LineSeries::new(points, colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(&aged.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    key(&mut chart, SeriesLabelPosition::UpperRight, 12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::holder::Memory;

    #[test]
    fn each_disk_has_a_line_and_a_name() {
        let phase = |rate: f64| Phase {
            bytes_per_second: rate,
            mean_ns: 1e5,
            p99_ns: 2e5,
        };
        let aged = |name: &str, rate: f64| Aged {
            name: name.to_owned(),
            iterations: vec![[phase(rate); PHASES.len()]; 4],
            memory: Memory::default(),
        };
        let picture = svg(&[aged("one", 1e8), aged("two", 2e8)]);
        assert!(picture.starts_with("<svg") && picture.contains("tiobench"));
        assert_eq!(picture.matches("\ntwo\n").count(), 4, "{picture}");
    }
}
