//! Text for people: units, tables, bars, sparklines.

/// Bytes in MiB with one digit.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1 << 20) as f64)
}

/// A number with its thousands apart.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Nanoseconds in the unit that reads best.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.2} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}

/// A horizontal bar of `width` cells, `share` (0 to 1) of them filled to an eighth of a cell.
pub fn bar(share: f64, width: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(PARTS[eighths % 8]);
    }
    let filled = text.chars().count();
    text + &" ".repeat(width - filled)
}

/// `values` over `width` cells, each the highest of its stretch, against `full`.
pub fn sparkline(values: &[u64], full: u64, width: usize) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if values.is_empty() || full == 0 {
        return String::new();
    }
    let width = width.min(values.len());
    let cell = |at: usize| {
        let stretch = &values[at * values.len() / width..(at + 1) * values.len() / width];
        let highest = *stretch
            .iter()
            .max()
            .expect("no cell is empty: width <= len");
        let level = (highest as f64 / full as f64 * 8.0).ceil() as usize;
        LEVELS[level.clamp(1, 8) - 1]
    };
    (0..width).map(cell).collect()
}

/// A table: the first column is left-aligned, the others right-aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        let mut table = Table { rows: Vec::new() };
        table.row(headings);
        table
    }

    /// Adds a row.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let cells = cells.iter().map(|c| c.as_ref().to_owned()).collect();
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, &width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                let fill = " ".repeat(width - cell.chars().count());
                match column {
                    0 => line += &format!("{cell}{fill}"),
                    _ => line += &format!("  {fill}{cell}"),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
            if number == 0 {
                let total = widths.iter().sum::<usize>() + 2 * (columns.max(1) - 1);
                writeln!(f, "{}", "─".repeat(total))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(mib(3 << 19), "1.5 MiB");
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(1234567), "1 234 567");
        assert_eq!(time(999.0), "999 ns");
        assert_eq!(time(4_250.0), "4.25 µs");
        assert_eq!(time(2e6), "2.00 ms");
    }

    #[test]
    fn bars_always_have_their_width() {
        for eighths in 0..=80 {
            assert_eq!(bar(eighths as f64 / 80.0, 10).chars().count(), 10);
        }
        assert_eq!(bar(0.5, 4), "██  ");
        assert_eq!(bar(9.0, 3), "███");
    }

    #[test]
    fn a_sparkline_keeps_the_peaks() {
        assert_eq!(sparkline(&[0, 8, 0, 4], 8, 2), "█▄");
        assert_eq!(sparkline(&[1], 8, 5), "▁");
        assert_eq!(sparkline(&[], 8, 5), "");
    }

    #[test]
    fn tables_align() {
        let mut table = Table::new(&["what", "µs"]);
        table.row(&["a", "100"]);
        assert_eq!(table.to_string(), "what   µs\n─────────\na     100\n");
    }
}
