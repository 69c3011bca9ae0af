//! The model on a screen, of whatever size.
//!
//! ```text
//! coldpress top  2 programs  …            what all together hold
//! held by …      faults of …              curves of the program that is chosen, where the screen is high enough
//! PID COMMAND …                           the programs, or the mappings of one
//! b budget  ? help  …                     keys, what is typed, or what is said
//! ```

use super::bottom;
use super::column::{self, Column, per_second, share_of_processor};
use super::input::KEYS;
use super::mappings_table;
use super::model::{Model, View};
use super::reading::saved_share;
use super::row::Row;
use super::theme::Theme;
use crate::size::format_short;
use crate::streams::visible;
use coldpress_interface::control::NO_BUDGET;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, RenderDirection, Sparkline, Table};

/// Lines of the curves with their heading.
const CURVES: u16 = 5;
/// A screen with fewer lines has no curves.
const HIGH: u16 = 16;

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    let curves = if frame.area().height >= HIGH {
        CURVES
    } else {
        0
    };
    let at_the_bottom = bottom::lines(model, frame.area().width, theme);
    let [top, middle, list, below] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(curves),
        Constraint::Fill(1),
        Constraint::Length(at_the_bottom.len() as u16),
    ])
    .areas(frame.area());
    draw_sums(frame, top, model, theme);
    if curves > 0 {
        draw_curves(frame, middle, model, theme);
    }
    match &model.view {
        View::Programs => draw_programs(frame, list, model, theme),
        View::Mappings(shown) => mappings_table::draw(frame, list, (model, shown), theme),
    }
    frame.render_widget(Paragraph::new(at_the_bottom), below);
    if let Some(typed) = &model.typed {
        let column = bottom::prompt(typed).chars().count() as u16;
        let last = below.right().saturating_sub(1);
        frame.set_cursor_position(((below.x + column).min(last), below.y));
    }
    if model.shows_help {
        draw_help(frame, theme);
    }
}

/// As many of the parts, from the left, as fit.
pub fn that_fit(parts: Vec<String>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let separator = if line.is_empty() { 0 } else { 2 };
        if line.chars().count() + separator + part.chars().count() > width {
            break;
        }
        line.push_str(&" ".repeat(separator));
        line.push_str(&part);
    }
    line
}

fn draw_sums(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let sum = |figure: fn(&Row) -> u64| model.rows.iter().map(figure).sum::<u64>();
    let held = sum(|row| row.reading.total_bytes);
    let content = sum(|row| row.reading.content_bytes);
    let faults: f64 = model
        .rows
        .iter()
        .filter_map(|row| row.faults_per_second)
        .sum::<f64>();
    let share: f64 = model.rows.iter().filter_map(|row| row.pager_share).sum();
    let mut parts = vec![match model.rows.len() {
        1 => "1 program".to_owned(),
        count => format!("{count} programs"),
    }];
    if !model.rows.is_empty() {
        let saved = column::per_cent(saved_share(held, content));
        parts.push(format!(
            "{} of {}",
            format_short(held),
            format_short(content)
        ));
        parts.push(format!("saved {saved} %"));
        parts.push(format!("{} faults/s", per_second(faults)));
        parts.push(format!("CPU {} %", share_of_processor(share * 100.0)));
    }
    let name = "coldpress";
    let width = usize::from(area.width).saturating_sub(name.len() + 2);
    let line = Line::from(vec![
        Span::styled(name, theme.title()),
        Span::raw("  "),
        Span::raw(that_fit(parts, width)),
    ]);
    frame.render_widget(line, area);
}

fn draw_curves(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let Some(row) = model.chosen_row() else {
        return;
    };
    let [left, _, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Fill(1),
    ])
    .areas(area);
    let name = visible(&row.reading.program);
    let held = row.held.last(left.width.into());
    let most = held.iter().max().copied().unwrap_or(0);
    let title = vec![
        format!("held by {name}"),
        format_short(row.reading.total_bytes),
        format!("most {}", format_short(most)),
    ];
    draw_curve(frame, left, (title, held), theme);
    let faults = row.faults.last(right.width.into());
    let most = faults.iter().max().copied().unwrap_or(0);
    let now = row
        .faults_per_second
        .map_or_else(|| "-".to_owned(), per_second);
    let title = vec![
        format!("faults/s {now}"),
        format!("most {}", per_second(most as f64)),
    ];
    draw_curve(frame, right, (title, faults), theme);
}

/// A curve, the newest at the right, under its title. A line stays free below.
fn draw_curve(
    frame: &mut Frame<'_>,
    area: Rect,
    (title, newest_first): (Vec<String>, Vec<u64>),
    theme: Theme,
) {
    let [above, curve, _] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let title = Line::styled(that_fit(title, area.width.into()), theme.quiet());
    frame.render_widget(title, above);
    let most = newest_first.iter().max().copied().unwrap_or(0);
    let bars = Sparkline::default()
        .data(newest_first)
        .max(most.max(1))
        .direction(RenderDirection::RightToLeft)
        .style(theme.curve());
    frame.render_widget(bars, curve);
}

fn draw_programs(frame: &mut Frame<'_>, area: Rect, model: &Model, theme: Theme) {
    let columns = column::that_fit(area.width.into());
    let headings = columns.iter().map(|(column, _)| {
        let mut heading = column.heading().to_owned();
        let is_sorted_by = *column == model.sorted_by;
        if is_sorted_by {
            let downwards = column.largest_first() != model.is_reversed;
            heading.push(if downwards { '▾' } else { '▴' });
        }
        cell(*column, heading).style(theme.heading(is_sorted_by))
    });
    let headings = ratatui::widgets::Row::new(headings).style(theme.heading(false));
    let room = usize::from(area.height).saturating_sub(1).max(1);
    let place = model.place().unwrap_or(0);
    let first = (place + 1).saturating_sub(room);
    let rows = model.rows.iter().enumerate().skip(first).take(room);
    let rows = rows.map(|(index, row)| {
        let cells = columns
            .iter()
            .map(|(column, _)| cell(*column, visible(&column.cell(row))));
        let is_above = row.reading.budget_bytes != NO_BUDGET
            && row.reading.total_bytes > row.reading.budget_bytes;
        let style = theme.row(index == place, is_above);
        ratatui::widgets::Row::new(cells).style(style)
    });
    let widths = columns
        .iter()
        .map(|(_, width)| Constraint::Length(*width as u16));
    let table = Table::new(rows, widths).header(headings).column_spacing(1);
    frame.render_widget(table, area);
    if model.rows.is_empty() && area.height > 2 {
        let paragraph =
            Paragraph::new(visible(&model.nothing)).wrap(ratatui::widgets::Wrap { trim: true });
        let below = Rect {
            y: area.y + 2,
            height: area.height - 2,
            ..area
        };
        frame.render_widget(paragraph, below);
    }
}

fn cell(column: Column, text: String) -> Cell<'static> {
    let alignment = match column.is_text() {
        true => Alignment::Left,
        false => Alignment::Right,
    };
    Cell::from(Line::from(text).alignment(alignment))
}

fn draw_help(frame: &mut Frame<'_>, theme: Theme) {
    let mut lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(key, does)| Line::from(format!("{key:<10} {does}")))
        .collect();
    lines.push(Line::default());
    let columns = column::ALL.iter().skip(2);
    lines.extend(
        columns.map(|column| Line::from(format!("{:<10} {}", column.heading(), column.meaning()))),
    );
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 4;
    let height = lines.len() as u16 + 2;
    let area = frame.area();
    let width = width.min(area.width);
    let height = height.min(area.height);
    let middle = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, middle);
    let block = Block::bordered()
        .title(" coldpress top: keys and columns ")
        .border_style(theme.quiet());
    let block = block.padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).block(block), middle);
}
