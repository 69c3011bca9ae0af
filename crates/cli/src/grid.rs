//! Lines of cells under each other.

use comfy_table::{CellAlignment, Table, presets};

/// Lays cells out. `headings` says of each column what stands above it, and whether it begins at
/// the left.
pub fn aligned(headings: &[(&str, bool)], show_headings: bool, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    if show_headings {
        table.set_header(headings.iter().map(|(name, _)| *name));
    }
    table.add_rows(rows);
    for (column, (_, left)) in table.column_iter_mut().zip(headings) {
        column.set_cell_alignment(match left {
            true => CellAlignment::Left,
            false => CellAlignment::Right,
        });
    }
    lines(table.to_string().lines().map(str::trim_end))
}

/// One line for each row, cells with one blank in between.
pub fn raw(headings: &[(&str, bool)], show_headings: bool, rows: Vec<Vec<String>>) -> String {
    let heading = headings
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let above = show_headings.then_some(heading);
    let rows = above.into_iter().chain(rows);
    lines(rows.map(|row: Vec<String>| row.join(" ")))
}

fn lines<T: AsRef<str>>(all: impl Iterator<Item = T>) -> String {
    all.map(|line| line.as_ref().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_under_each_other_or_one_blank_apart() {
        let headings = [("A", true), ("LONG", false)];
        let rows = || vec![vec!["text".to_owned(), "1".to_owned()]];
        assert_eq!(
            aligned(&headings, true, rows()),
            " A     LONG\n text     1\n"
        );
        assert_eq!(aligned(&headings, false, rows()), " text  1\n");
        assert_eq!(raw(&headings, true, rows()), "A LONG\ntext 1\n");
        assert_eq!(raw(&headings, false, rows()), "text 1\n");
        assert_eq!(raw(&headings, false, Vec::new()), "");
    }
}
