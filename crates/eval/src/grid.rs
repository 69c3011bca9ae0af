//! Tables of text, which fit a terminal: one that is wider continues below itself, by whole groups of columns.
//!
//! ```text
//! corpus  codec  comp ns  p99  decomp ns  p99        corpus  codec  comp ns  p99
//! ─────────────────────────────────────────    ▶     corpus  codec  decomp ns  p99
//! ```
//!
//! The first columns, which name a row, are repeated. Columns that are understood together (a mean, and the p99 beside
//! it) stay together. Names that are longer than there is room for lose their beginnings, as paths do; numbers are
//! never cut.

use comfy_table::{CellAlignment, Table, presets};

/// No name is cut to fewer characters.
const LEAST: usize = 8;
/// Blanks behind each column.
const GAP: usize = 2;

/// A table.
pub(crate) struct Grid {
    /// Columns that name a row.
    names: Vec<&'static str>,
    /// Columns of numbers, in groups that stay together.
    groups: Vec<&'static [&'static str]>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table without a row: columns that name it, and groups of columns of numbers.
    pub(crate) fn new(names: &[&'static str], groups: &[&'static [&'static str]]) -> Self {
        Self {
            names: names.to_vec(),
            groups: groups.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row of as many cells as there are columns.
    pub(crate) fn add(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    /// The table in lines of `width` at most, without a newline at its end; `None`: as wide as it is.
    pub(crate) fn text(&self, width: Option<usize>) -> String {
        let numbers = self.groups.iter().copied().flatten().copied();
        let headings: Vec<&str> = self.names.iter().copied().chain(numbers).collect();
        let mut widths: Vec<usize> = (0..headings.len())
            .map(|column| self.widest(column, headings[column]))
            .collect();
        let width = width.unwrap_or(usize::MAX);
        let mut at = self.names.len();
        let groups = self.groups.iter().map(|group| {
            let columns = at..at + group.len();
            at = columns.end;
            columns
        });
        let groups: Vec<_> = groups.collect();
        let named = self.names.len();
        let taken = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
        let widest = groups.iter().map(|group| taken(&widths[group.clone()]));
        let widest = widest.max().unwrap_or(0);
        while taken(&widths[..named]) + widest > width.saturating_add(GAP) {
            let longest = (0..named).max_by_key(|column| widths[*column]);
            match longest {
                Some(column) if widths[column] > LEAST => widths[column] -= 1,
                _ => break,
            }
        }
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut room = 0;
        for group in groups {
            let needed = taken(&widths[group.clone()]);
            match parts.last_mut() {
                Some(part) if needed <= room => {
                    room -= needed;
                    part.extend(group);
                }
                _ => {
                    let free = width.saturating_add(GAP);
                    room = free.saturating_sub(taken(&widths[..named]) + needed);
                    parts.push((0..named).chain(group).collect());
                }
            }
        }
        let parts = parts
            .iter()
            .map(|columns| self.part(columns, &headings, &widths));
        parts.collect::<Vec<_>>().join("\n\n")
    }

    fn widest(&self, column: usize, heading: &str) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(heading.chars().count())
    }

    fn part(&self, columns: &[usize], headings: &[&str], widths: &[usize]) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(columns.iter().map(|column| headings[*column]));
        for row in &self.rows {
            let cell = |column: &usize| match *column < self.names.len() {
                true => without_beginning(&row[*column], widths[*column]),
                false => row[*column].clone(),
            };
            table.add_row(columns.iter().map(cell));
        }
        for (column, at) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, GAP as u16));
            if *at >= self.names.len() {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n")
    }
}

/// The end of a text, in so many characters.
fn without_beginning(text: &str, width: usize) -> String {
    let count = text.chars().count();
    match count <= width {
        true => text.to_owned(),
        false => {
            let kept = text.chars().skip(count + 1 - width);
            std::iter::once('…').chain(kept).collect()
        }
    }
}

/// A sentence in lines of `width` at most; `None`: in one.
pub(crate) fn wrapped(text: &str, width: Option<usize>) -> String {
    let mut lines = String::new();
    let mut at = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if at > 0 && width.is_some_and(|width| at + 1 + length > width) {
            lines.push('\n');
            at = 0;
        } else if at > 0 {
            lines.push(' ');
            at += 1;
        }
        lines += word;
        at += length;
    }
    lines
}

#[cfg(test)]
pub(crate) fn assert_fits(text: &str, width: usize) {
    let is_wide = |line: &&str| line.chars().count() > width;
    let wide = text.lines().find(is_wide);
    assert!(wide.is_none(), "wider than {width}: {wide:?} of\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(name: &str) -> Grid {
        let mut grid = Grid::new(&["corpus"], &[&["mean ns", "p99"], &["bytes"], &["worst"]]);
        grid.add([name, "1", "2", "3", "4"].map(str::to_owned));
        grid
    }

    #[test]
    fn a_table_continues_below_itself_by_whole_groups() {
        let whole = grid("redis").text(None);
        assert_eq!(
            whole,
            "corpus  mean ns  p99  bytes  worst\nredis         1    2      3      4"
        );
        assert_eq!(grid("redis").text(Some(80)), whole);
        assert_eq!(grid("redis").text(Some(34)), whole);
        assert_eq!(
            grid("redis").text(Some(33)),
            "corpus  mean ns  p99  bytes\nredis         1    2      3\n\ncorpus  worst\nredis       4"
        );
        assert_eq!(grid("redis").text(Some(22)).matches("corpus").count(), 2);
    }

    #[test]
    fn names_are_cut_and_numbers_never() {
        let long = grid("/a/long/path/to/captured/redis.pages").text(Some(40));
        assert_fits(&long, 40);
        assert!(long.contains("redis.pages") && long.contains('…'), "{long}");
        assert!(grid("redis").text(Some(3)).contains("mean ns  p99"));
    }

    #[test]
    fn sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", None), "one two three");
        assert_eq!(wrapped("one two three", Some(7)), "one two\nthree");
    }
}
