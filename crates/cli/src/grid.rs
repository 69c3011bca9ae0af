//! Lines of cells under each other, within the width of a terminal.

use comfy_table::{CellAlignment, Table, presets};

/// No column becomes narrower than that, or than its heading.
const LEAST: usize = 6;

/// A column of a table: what stands above it, where its cells begin, and whether they may be cut.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    name: &'a str,
    is_left: bool,
    cut: Option<Cut>,
}

/// Which end of a text goes where there is no room for all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Start,
    End,
}

/// A column of texts, which begin at the left.
pub fn left(name: &str) -> Heading<'_> {
    Heading {
        name,
        is_left: true,
        cut: None,
    }
}

/// A column of numbers.
pub fn right(name: &str) -> Heading<'_> {
    Heading {
        name,
        is_left: false,
        cut: None,
    }
}

impl Heading<'_> {
    /// Its texts may lose their ends.
    pub fn cut_end(mut self) -> Self {
        self.cut = Some(Cut::End);
        self
    }

    /// Its texts may lose their beginnings, as paths do.
    pub fn cut_start(mut self) -> Self {
        self.cut = Some(Cut::Start);
        self
    }
}

/// Lays cells out, in lines of `width` at most: texts that may be cut are, the longest first. `None`: nothing is cut.
pub fn fitted(
    headings: &[Heading<'_>],
    mut rows: Vec<Vec<String>>,
    width: Option<usize>,
) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let named = |column: usize| headings[column].name.chars().count();
    let columns = 0..headings.len();
    let mut widths: Vec<usize> = columns.map(|n| widest(n).max(named(n))).collect();
    // A blank on each side of a cell; the one at the end of a line is left out.
    let line = |widths: &[usize]| widths.iter().map(|width| width + 2).sum::<usize>() - 1;
    while width.is_some_and(|width| line(&widths) > width) {
        let can_shrink =
            |n: &usize| headings[*n].cut.is_some() && widths[*n] > LEAST.max(named(*n));
        let longest = (0..headings.len())
            .filter(can_shrink)
            .max_by_key(|n| widths[*n]);
        match longest {
            Some(column) => widths[column] -= 1,
            None => break,
        }
    }
    for row in &mut rows {
        for ((cell, heading), width) in row.iter_mut().zip(headings).zip(&widths) {
            if let Some(end) = heading.cut {
                *cell = cut(cell, end, *width);
            }
        }
    }
    let headings: Vec<(&str, bool)> = headings.iter().map(|h| (h.name, h.is_left)).collect();
    aligned(&headings, Headings::Shown, rows)
}

/// The text in so many characters.
fn cut(text: &str, end: Cut, width: usize) -> String {
    let count = text.chars().count();
    let kept = width.saturating_sub(1);
    match end {
        _ if count <= width => text.to_owned(),
        Cut::End => text.chars().take(kept).chain(['…']).collect(),
        Cut::Start => ['…']
            .into_iter()
            .chain(text.chars().skip(count - kept))
            .collect(),
    }
}

/// Whether there is a line of headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Headings {
    /// There is, above the rows.
    Shown,
    /// There is none.
    Hidden,
}

/// Lays cells out. `headings` says of each column what stands above it, and whether it begins at
/// the left.
pub fn aligned(headings: &[(&str, bool)], shown: Headings, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if shown == Headings::Shown {
        table.set_header(headings.iter().map(|(name, _)| *name));
    }
    table.add_rows(rows);
    for (column, (_, left)) in table.column_iter_mut().zip(headings) {
        column.set_cell_alignment(if *left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    lines(table.to_string().lines().map(str::trim_end))
}

/// One line for each row, cells with one blank in between.
pub fn raw(headings: &[(&str, bool)], shown: Headings, rows: Vec<Vec<String>>) -> String {
    let heading = headings
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let above = (shown == Headings::Shown).then_some(heading);
    let rows = above.into_iter().chain(rows);
    lines(rows.map(|row: Vec<String>| row.join(" ")))
}

fn lines<T: AsRef<str>>(all: impl Iterator<Item = T>) -> String {
    all.map(|line| line.as_ref().to_owned() + "\n").collect()
}

/// Checks that no line of a text is wider than that.
#[cfg(test)]
pub fn assert_fits(text: &str, width: usize) {
    let is_wide = |line: &&str| line.chars().count() > width;
    let wide = text.lines().find(is_wide);
    assert!(wide.is_none(), "wider than {width}: {wide:?} of\n{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_or_one_blank_apart() {
        let headings = [("A", true), ("LONG", false)];
        let rows = || vec![vec!["text".to_owned(), "1".to_owned()]];
        assert_eq!(
            aligned(&headings, Headings::Shown, rows()),
            " A     LONG\n text     1\n"
        );
        assert_eq!(aligned(&headings, Headings::Hidden, rows()), " text  1\n");
        assert_eq!(raw(&headings, Headings::Shown, rows()), "A LONG\ntext 1\n");
        assert_eq!(raw(&headings, Headings::Hidden, rows()), "text 1\n");
        assert_eq!(raw(&headings, Headings::Hidden, Vec::new()), "");
    }

    #[test]
    fn texts_are_cut_to_the_width_and_numbers_never() {
        let headings = [
            left("NAME").cut_end(),
            right("SIZE"),
            left("FROM").cut_start(),
        ];
        let rows = || {
            vec![vec![
                "a".repeat(20),
                "1,234,567".to_owned(),
                "/a/long/path/name".to_owned(),
            ]]
        };
        let whole = fitted(&headings, rows(), None);
        assert!(whole.contains(&"a".repeat(20)) && whole.contains("/a/long/path/name"));
        for width in [30, 40, 50] {
            let text = fitted(&headings, rows(), Some(width));
            assert_fits(&text, width);
            assert!(
                text.contains("1,234,567") && text.contains("…") && text.contains("name\n"),
                "{text}"
            );
        }
        // Nothing left to cut: numbers are whole, whatever the width.
        assert!(fitted(&headings, rows(), Some(3)).contains("1,234,567"));
        assert_eq!(fitted(&headings, rows(), Some(80)), whole);
    }
}
