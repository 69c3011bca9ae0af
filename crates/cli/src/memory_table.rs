//! The table of a process's memory in `coldpress status PID`: its lines add up to its last.

use crate::by_mapping::{self, Line};
use crate::columns::{Sizes, Value};
use crate::grid::{self, left, right};
use crate::streams::visible;

/// Mappings that have a line of their own.
const MAPPINGS_SHOWN: usize = 20;

/// How the table is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form {
    /// Sizes in bytes.
    pub sizes: Sizes,
    /// Whole address ranges, and not only where they begin.
    pub ranges: bool,
    /// The width to keep to, if there is one.
    pub width: Option<usize>,
}

/// The table. `why`: why its lines are not by mapping.
pub fn table(lines: &[Line], why: Option<&str>, form: Form) -> String {
    let total = by_mapping::total(lines);
    let shown = by_mapping::shortened(lines.to_vec(), MAPPINGS_SHOWN);
    let rows = shown.iter().chain([&total]).map(|line| row(line, form));
    let headings = [
        left("START"),
        left("MEMORY").cut_start(),
        right("HELD"),
        right("COMPRESSED"),
        right("SAME-FILLED"),
        right("CONTENT"),
    ];
    let mut text = grid::fitted(&headings, rows.collect(), form.width);
    if let Some(why) = why {
        text += &format!(" (not by mapping: {why})\n");
    }
    text
}

fn row(line: &Line, form: Form) -> Vec<String> {
    let bytes = |n: u64| Value::Bytes(n).text(form.sizes);
    let start = line.range.map(|(start, end)| match form.ranges {
        true => format!("{start:x}-{end:x}"),
        false => format!("{start:x}"),
    });
    let name = match (&line.range, line.name.as_str()) {
        (Some(_), "") => "anonymous".to_owned(),
        (_, name) => visible(name),
    };
    vec![
        start.unwrap_or_default(),
        name,
        bytes(line.held_bytes()),
        bytes(line.compressed_bytes),
        bytes(line.same_filled_bytes),
        bytes(line.content_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let mapping = |at: u64| Line {
            range: Some((at << 40, (at << 40) + (1 << 30))),
            name: format!("/usr/lib/a/rather/long/path/of/a/library/libnumber{at}.so.6"),
            committed_bytes: at * 7_000_001,
            compressed_bytes: at * 90_000_003,
            same_filled_bytes: at * 4096,
            ..Line::default()
        };
        let own = |name: &str, own_bytes| Line {
            name: name.to_owned(),
            own_bytes,
            ..Line::default()
        };
        let all = (1..40).map(mapping);
        all.chain([
            own("compressed storage", 1 << 30),
            own("the pager", 5 << 20),
        ])
        .collect()
    }

    /// The table had a line of the program's pages above lines that counted storage and the pager, too.
    #[test]
    fn every_column_adds_up_to_its_last_line() {
        let form = Form {
            sizes: Sizes::Bytes,
            ..Form::default()
        };
        let text = table(&lines(), None, form);
        let numbers = |line: &str| -> Vec<u64> {
            let words: Vec<&str> = line.split_whitespace().collect();
            let last = words[words.len() - 4..].iter();
            last.map(|word| word.parse().unwrap()).collect()
        };
        let rows: Vec<Vec<u64>> = text.lines().skip(1).map(numbers).collect();
        assert_eq!(rows.len(), MAPPINGS_SHOWN + 4, "{text}");
        let (total, parts) = rows.split_last().unwrap();
        for column in 0..4 {
            let sum: u64 = parts.iter().map(|row| row[column]).sum();
            assert_eq!(sum, total[column], "{text}");
        }
        assert!(text.lines().last().unwrap().contains("total"), "{text}");
        let all = by_mapping::total(&lines());
        assert_eq!(
            (total[0], total[3]),
            (all.held_bytes(), all.content_bytes())
        );
    }

    #[test]
    fn it_fits_a_terminal() {
        let form = Form {
            width: Some(80),
            ..Form::default()
        };
        let text = table(&lines(), None, form);
        grid::assert_fits(&text, 80);
        assert!(text.contains("…") && text.contains(".so.6"), "{text}");
    }
}
