//! A trace of decisions as a picture: panels under each other over one axis of time.
//!
//! ```text
//!  ┌ memory: content, held, budget, storage ──────┐
//!  ├ pages a second: taken by each trigger, back ─┤
//!  ├ wanted again, % of those in place a minute ──┤
//!  ├ cold age (where there is one) ───────────────┤
//!  └ rule in force ───────────────────────────────┘
//! ```

use crate::rule::plain;
use crate::trace_file::{Record, Trace};
use coldpress_eval::chart::{
    self, BLUE, Drawn, GREEN, GREY, ORANGE, Panel, RED, VIOLET, font, plain_axes,
};
use coldpress_interface::statistics::Rule;
use plotters::prelude::*;
use std::ops::Range;

const WIDTH: u32 = 1200;
const LEFT: u32 = 84;
/// Room for the names of lines, right of the panels.
const RIGHT: u32 = 190;
/// Points of a line: more cannot be told apart.
const POINTS: usize = 600;
/// The share of pages in place that may come back in a minute for the cold age to stay.
const ALLOWED_PERCENT: f64 = 0.2;

type Line = (&'static str, RGBColor, Vec<(f64, f64)>);

/// Draws the trace as SVG.
pub fn plot(trace: &Trace) -> String {
    let records = thinned(&trace.records);
    let ages = records.iter().any(|r| r.get("cold_after_ms") > 0);
    let rules = rules(&records);
    let mut heights = vec![300, 220, 180];
    if ages {
        heights.push(160);
    }
    let strip = 70 + 20 * rules.len() as u32;
    let height = 50 + heights.iter().sum::<u32>() + strip;
    chart::svg((WIDTH, height), |area| {
        draw(area, trace, &records, &rules, &heights)
    })
}

fn draw(
    area: &Panel<'_>,
    trace: &Trace,
    records: &[Record],
    rules: &[&str],
    heights: &[u32],
) -> Drawn {
    let program = trace.head.get("program").and_then(|name| name.as_str());
    let title = format!("{}: what was decided when", program.unwrap_or("?"));
    let mut rest = area.titled(&title, font(20))?;
    let mut panels = Vec::new();
    for height in heights {
        let (panel, below) = rest.split_vertically(*height as i32);
        panels.push(panel);
        rest = below;
    }
    let end = records.last().map_or(1.0, Record::seconds).max(0.1);
    lines(&panels[0], "MiB", end, memory(records), None)?;
    lines(&panels[1], "pages a second", end, rates(records), None)?;
    let wanted = vec![("wanted again", RED, wanted_again(records))];
    let title = "% of those in place, a min";
    // Below a hundredth of the height it would only look like zero.
    let is_seen = wanted[0]
        .2
        .iter()
        .all(|point| point.1 < 100.0 * ALLOWED_PERCENT);
    let mark = (heights.len() > 3 && is_seen).then_some(ALLOWED_PERCENT);
    lines(&panels[2], title, end, wanted, mark)?;
    if let Some(panel) = panels.get(3) {
        let age = |r: &Record| (r.seconds(), r.get("cold_after_ms") as f64 / 1000.0);
        let line = ("cold age", VIOLET, records.iter().map(age).collect());
        lines(panel, "seconds", end, vec![line], None)?;
    }
    rule_strip(&rest, end, records, rules)
}

/// At most as many records as there are points, each the sum of what it stands for.
fn thinned(records: &[Record]) -> Vec<Record> {
    let each = records.len().div_ceil(POINTS).max(1);
    records.chunks(each).map(merged).collect()
}

fn merged(records: &[Record]) -> Record {
    const SUMS: [&str; 9] = [
        "eager_compressions",
        "pressure_compressions",
        "critical_compressions",
        "faults_decompressed",
        "faults_same_filled",
        "faults_copied",
        "read_ahead",
        "second_chances",
        "evictions",
    ];
    let mut last = records[records.len() - 1].clone();
    for name in SUMS {
        let sum: u64 = records.iter().map(|record| record.get(name)).sum();
        last.0.insert(name.to_owned(), sum.into());
    }
    let peak = records.iter().map(|record| record.get("peak_bytes")).max();
    last.0.insert("peak_bytes".to_owned(), peak.into());
    let mut rules = serde_json::Map::new();
    for (rule, ms) in records.iter().flat_map(Record::rules_ms) {
        let so_far = rules.get(rule).and_then(|ms| ms.as_u64()).unwrap_or(0);
        rules.insert(rule.to_owned(), (so_far + ms).into());
    }
    last.0.insert("rules_ms".to_owned(), rules.into());
    last
}

fn memory(records: &[Record]) -> Vec<Line> {
    let line = |of: &dyn Fn(&Record) -> u64| {
        let point = |r: &Record| (r.seconds(), of(r) as f64 / f64::from(1 << 20));
        records.iter().map(point).collect::<Vec<_>>()
    };
    let mut lines: Vec<Line> = vec![
        ("content", GREY, line(&|r| r.get("content_bytes"))),
        ("held, at most", BLUE, line(&|r| r.get("peak_bytes"))),
        ("storage", GREEN, line(&|r| r.get("storage_bytes"))),
    ];
    if records.iter().all(|r| r.budget_bytes().is_some()) {
        lines.push(("budget", RED, line(&|r| r.budget_bytes().unwrap_or(0))));
    }
    lines
}

/// What `of` says of each record and the seconds since the one before.
fn over_time(records: &[Record], of: impl Fn(&Record, f64) -> f64) -> Vec<(f64, f64)> {
    let mut before = 0.0;
    let point = |record: &Record| {
        let at = record.seconds();
        let since = (at - before).max(0.001);
        before = at;
        (at, of(record, since))
    };
    records.iter().map(point).collect()
}

fn rates(records: &[Record]) -> Vec<Line> {
    let rate = |of: &dyn Fn(&Record) -> u64| over_time(records, |r, since| of(r) as f64 / since);
    let taken = [
        ("taken: eager", VIOLET, "eager_compressions"),
        ("taken: pressure", ORANGE, "pressure_compressions"),
        ("taken: critical", RED, "critical_compressions"),
    ];
    let mut lines: Vec<Line> = Vec::new();
    for (name, colour, counter) in taken {
        if records.iter().any(|r| r.get(counter) > 0) {
            lines.push((name, colour, rate(&|r| r.get(counter))));
        }
    }
    lines.push(("wanted again", BLUE, rate(&Record::refaults)));
    if records.iter().any(|r| r.get("read_ahead") > 0) {
        lines.push(("restored ahead", GREEN, rate(&|r| r.get("read_ahead"))));
    }
    lines
}

fn wanted_again(records: &[Record]) -> Vec<(f64, f64)> {
    over_time(records, |r, since| {
        let pages = r.pages_in_place().max(1) as f64;
        r.refaults() as f64 / since * 60.0 * 100.0 / pages
    })
}

/// From 0 to somewhat more than the highest value.
fn heights(lines: &[Line], mark: Option<f64>) -> Range<f64> {
    let values = lines.iter().flat_map(|line| &line.2).map(|point| point.1);
    let highest = values.chain(mark).fold(0.0, f64::max);
    0.0..if highest > 0.0 { highest * 1.12 } else { 1.0 }
}

fn number(value: &f64) -> String {
    match *value {
        v if v >= 10_000.0 => format!("{:.0} k", v / 1000.0),
        v if v == v.trunc() => format!("{v:.0}"),
        v => format!("{v:.2}").trim_end_matches('0').to_owned(),
    }
}

/// A moment on the axis of time.
fn moment(at: &f64) -> String {
    let at = format!("{at:.2}");
    format!("{} s", at.trim_end_matches('0').trim_end_matches('.'))
}

fn lines(panel: &Panel<'_>, unit: &str, end: f64, lines: Vec<Line>, mark: Option<f64>) -> Drawn {
    let mut chart = ChartBuilder::on(panel)
        .margin(6)
        .margin_right(RIGHT)
        .x_label_area_size(26)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..end, heights(&lines, mark))?;
    plain_axes(
        chart
            .configure_mesh()
            .y_labels(6)
            .y_desc(unit)
            .x_label_formatter(&moment)
            .y_label_formatter(&number),
        13,
    )
    .draw()?;
    let mut names = Vec::new();
    if let Some(mark) = mark {
        let points = [(0.0, mark), (end, mark)];
        chart.draw_series(LineSeries::new(points, GREY.stroke_width(1)))?;
        names.push(("allowed for the cold age", GREY));
    }
    for (name, colour, points) in lines {
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        names.push((name, colour));
    }
    key(panel, &names)
}

/// The names of lines, right of the panel.
fn key(panel: &Panel<'_>, names: &[(&str, RGBColor)]) -> Drawn {
    let x = (WIDTH - RIGHT + 8) as i32;
    for (n, (name, colour)) in names.iter().enumerate() {
        let y = 18 + 20 * n as i32;
        panel.draw(&PathElement::new(
            [(x, y), (x + 18, y)],
            colour.stroke_width(3),
        ))?;
        panel.draw(&Text::new((*name).to_owned(), (x + 24, y - 7), font(13)))?;
    }
    Ok(())
}

/// The rules that were in force, in the order in which they stand in the interface.
fn rules(records: &[Record]) -> Vec<&'static str> {
    let was = |name: &str| {
        records
            .iter()
            .flat_map(Record::rules_ms)
            .any(|(rule, _)| rule == name)
    };
    let names = Rule::ALL.into_iter().map(Rule::name);
    names.filter(|name| was(name)).collect()
}

fn colour_of(rule: &str) -> RGBColor {
    match rule {
        "cold_age" => VIOLET,
        "guarded" => BLUE,
        "short_of_memory" => GREEN,
        "near_budget" | "memory_group" => ORANGE,
        "above_budget" | "out_of_reach" => RED,
        _ => GREY,
    }
}

/// A row for each rule: how much of each moment it was in force.
fn rule_strip(panel: &Panel<'_>, end: f64, records: &[Record], rules: &[&str]) -> Drawn {
    let rows = rules.len().max(1) as f64;
    let mut chart = ChartBuilder::on(panel)
        .margin(6)
        .margin_right(RIGHT)
        .x_label_area_size(40)
        .y_label_area_size(LEFT)
        .build_cartesian_2d(0.0..end, 0.0..rows)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .disable_y_axis()
        .x_label_formatter(&moment)
        .x_desc("rule in force; the fuller a row, the longer it was")
        .label_style(font(13))
        .axis_desc_style(font(13))
        .draw()?;
    let mut before = 0.0;
    for record in records {
        let at = record.seconds();
        let all: u64 = record.rules_ms().map(|(_, ms)| ms).sum();
        for (rule, ms) in record.rules_ms() {
            let Some(n) = rules.iter().position(|name| *name == rule) else {
                continue;
            };
            let bottom = rows - 1.0 - n as f64;
            let top = bottom + 0.85 * ms as f64 / all.max(1) as f64;
            let bar = Rectangle::new([(before, bottom), (at, top)], colour_of(rule).filled());
            chart.draw_series([bar])?;
        }
        before = at;
    }
    let x = (WIDTH - RIGHT + 8) as i32;
    for (n, rule) in rules.iter().enumerate() {
        let (_, y) = chart.backend_coord(&(0.0, rows - 0.5 - n as f64));
        let y = y - panel.get_base_pixel().1;
        panel.draw(&Text::new(plain(rule), (x, y - 7), font(13)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_file::fixtures;

    #[test]
    fn every_panel_and_rule_is_drawn() {
        let svg = plot(&fixtures::trace());
        for text in [
            "p: what was decided when",
            "held, at most",
            "budget",
            "taken: pressure",
            "wanted again",
            "cold age",
            "near budget",
            "within budget",
        ] {
            assert!(svg.contains(text), "no {text}");
        }
        assert!(!svg.contains("taken: eager") && !svg.contains("restored ahead"));
        let times = ["0 s", "0.5 s", "10 s", "1.5 s"];
        let written = [0.0, 0.5, 10.0, 1.499_999_999_9].map(|at| moment(&at));
        assert_eq!(written, times);
        assert!(svg.trim_end().ends_with("</svg>"));
        let empty = Trace {
            head: Default::default(),
            records: Vec::new(),
        };
        assert!(plot(&empty).contains("</svg>"));
    }

    #[test]
    fn a_long_trace_is_drawn_in_few_points_of_the_same_sums() {
        let mut records = Vec::new();
        for n in 0..20 {
            records.extend(fixtures::trace().records);
            let first = records.len() - 100;
            for record in &mut records[first..] {
                let at = record.get("t_ms") + n * 10_000;
                record.0.insert("t_ms".to_owned(), at.into());
            }
        }
        let thin = thinned(&records);
        assert!(
            thin.len() <= POINTS && thin.len() > POINTS / 2,
            "{}",
            thin.len()
        );
        let taken = |records: &[Record]| -> u64 {
            records.iter().map(|r| r.get("pressure_compressions")).sum()
        };
        assert_eq!(taken(&thin), taken(&records));
        let time = |records: &[Record]| -> u64 {
            records
                .iter()
                .flat_map(Record::rules_ms)
                .map(|(_, ms)| ms)
                .sum()
        };
        assert_eq!(time(&thin), time(&records));
    }
}
