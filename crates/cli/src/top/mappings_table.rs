//! The mappings of one program, as a table.

use super::model::{Mappings, Model};
use super::theme::Theme;
use crate::by_mapping::Line as Mapping;
use crate::size::format_short;
use crate::streams::visible;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

/// Width of a column of sizes.
const SIZE: u16 = 10;
/// Width of an address range of 48 bits.
const RANGE: u16 = 25;
/// A screen that is narrower has no addresses.
const WIDE: u16 = 100;

/// One that is narrower than this has no column of same-filled content, which is in CONTENT, too.
const NARROW: u16 = 70;

/// Draws them under a heading.
pub fn draw(frame: &mut Frame<'_>, area: Rect, (model, shown): (&Model, &Mappings), theme: Theme) {
    let [above, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let row = model.rows.iter().find(|row| row.reading.key == shown.of);
    let program = row.map_or_else(String::new, |row| visible(&row.reading.program));
    let title = format!("memory of {program} ({}) by mapping", shown.of.pid);
    frame.render_widget(Line::styled(title, theme.title()), above);
    match &shown.lines {
        None => frame.render_widget(Line::from("its pager is being asked"), below),
        Some(Err(why)) => {
            let text = Paragraph::new(visible(why)).wrap(Wrap { trim: true });
            frame.render_widget(text.style(theme.note(true)), below);
        }
        Some(Ok(lines)) => frame.render_widget(table(lines, shown.first, below, theme), below),
    }
}

/// A column of sizes: its heading, and what stands in it.
type Size = (&'static str, fn(&Mapping) -> u64);

fn table<'a>(lines: &[Mapping], first: usize, area: Rect, theme: Theme) -> Table<'a> {
    let is_wide = area.width >= WIDE;
    let mut headings = vec![left("MAPPING")];
    let mut widths = vec![Constraint::Fill(1)];
    if is_wide {
        headings.push(left("ADDRESSES"));
        widths.push(Constraint::Length(RANGE));
    }
    let sizes: [Size; 4] = [
        ("HELD", Mapping::held_bytes),
        ("COMPRESSED", |line| line.compressed_bytes),
        ("SAME", |line| line.same_filled_bytes),
        ("CONTENT", Mapping::content_bytes),
    ];
    let is_shown = |(heading, _): &&Size| *heading != "SAME" || area.width >= NARROW;
    let sizes: Vec<&Size> = sizes.iter().filter(is_shown).collect();
    for (heading, _) in &sizes {
        headings.push(right(heading));
        widths.push(Constraint::Length(SIZE));
    }
    let room = usize::from(area.height).saturating_sub(1);
    let rows = lines.iter().skip(first).take(room).map(|line| {
        let range = line.range.map(|(start, end)| format!("{start:x}-{end:x}"));
        let name = match (&line.range, line.name.as_str()) {
            (Some((start, _)), "") if !is_wide => format!("anonymous, {start:x}"),
            (_, "") => "anonymous".to_owned(),
            (_, name) => visible(name),
        };
        let mut cells = vec![left(&name)];
        if is_wide {
            cells.push(left(&range.unwrap_or_default()));
        }
        let sizes = sizes.iter().map(|(_, size)| size(line));
        cells.extend(sizes.map(|bytes| right(&format_short(bytes))));
        Row::new(cells)
    });
    let rows: Vec<Row<'a>> = rows.collect();
    let headings = Row::new(headings).style(theme.heading(false));
    Table::new(rows, widths).header(headings).column_spacing(1)
}

fn left<'a>(text: &str) -> Cell<'a> {
    Cell::from(text.to_owned())
}

fn right<'a>(text: &str) -> Cell<'a> {
    Cell::from(Line::from(text.to_owned()).alignment(Alignment::Right))
}
