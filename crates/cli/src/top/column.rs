//! The columns of `top`: what stands in them, and which of them fit.

use super::row::Row;
use crate::duration::format_nanoseconds;
use crate::size::{format_count, format_short};
use coldpress_interface::control::NO_BUDGET;
use std::cmp::Ordering;

/// A column. Programs can be sorted by each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Process id.
    Pid,
    /// Name of the program.
    Program,
    /// Memory that it would hold natively.
    Content,
    /// Memory that it holds.
    Held,
    /// The difference.
    Saved,
    /// The difference as a share.
    SavedShare,
    /// Faults a second.
    Faults,
    /// Processor time of the pager, as a share of one processor.
    Processor,
    /// The longest that a fault waited, ever.
    Wait,
    /// The budget.
    Budget,
    /// Which pages go in this moment, and why.
    Rule,
}

use Column::{
    Budget, Content, Faults, Held, Pid, Processor, Program, Rule, Saved, SavedShare, Wait,
};

/// All of them, from left to right.
pub const ALL: [Column; 11] = [
    Pid, Program, Content, Held, Saved, SavedShare, Faults, Processor, Wait, Budget, Rule,
];

/// What goes first where there is no room. What is not named here stays.
const FIRST_TO_GO: [Column; 8] = [
    Rule, Content, Wait, SavedShare, Processor, Faults, Saved, Budget,
];

/// Width of the program's name: as the kernel keeps it, and where room is scarce.
const WIDE_NAME: usize = 15;
const NARROW_NAME: usize = 10;

impl Column {
    /// What stands above it.
    pub fn heading(self) -> &'static str {
        match self {
            Pid => "PID",
            Program => "COMMAND",
            Content => "CONTENT",
            Held => "HELD",
            Saved => "SAVED",
            SavedShare => "SAVED%",
            Faults => "FAULTS/S",
            Processor => "CPU%",
            Wait => "WAIT",
            Budget => "BUDGET",
            Rule => "RULE",
        }
    }

    /// What it says.
    pub fn meaning(self) -> &'static str {
        match self {
            Pid => "process",
            Program => "name of the program",
            Content => "memory that it would hold natively",
            Held => "memory that it holds: what the budget limits",
            Saved => "CONTENT less HELD",
            SavedShare => "the same, in per cent of CONTENT",
            Faults => "faults answered a second",
            Processor => "time of the pager, in per cent of a processor",
            Wait => "the longest that a fault ever waited",
            Budget => "memory that it may hold",
            Rule => "which pages go in this moment, and why",
        }
    }

    fn width(self) -> usize {
        match self {
            Pid => 7,
            Program => WIDE_NAME,
            Content | Held | Saved | Budget | Faults => 8,
            SavedShare => 6,
            Processor => 5,
            Wait => 7,
            Rule => 40,
        }
    }

    /// Whether it begins at the left.
    pub fn is_text(self) -> bool {
        matches!(self, Program | Rule)
    }

    /// Whether the first row is to have the most of it.
    pub fn largest_first(self) -> bool {
        !matches!(self, Pid | Program | Rule)
    }

    /// What stands in it.
    pub fn cell(self, row: &Row) -> String {
        let reading = &row.reading;
        match self {
            Pid => reading.key.pid.to_string(),
            Program => reading.program.clone(),
            Content => format_short(reading.content_bytes),
            Held => format_short(reading.total_bytes),
            Saved => match reading.saved_bytes() {
                bytes if bytes < 0 => format!("-{}", format_short(bytes.unsigned_abs())),
                bytes => format_short(bytes.unsigned_abs()),
            },
            SavedShare => per_cent(reading.saved_share().max(-9.99)),
            Faults => row.faults_per_second.map_or_else(unknown, per_second),
            Processor => row
                .pager_share
                .map_or_else(unknown, |share| share_of_processor(share * 100.0)),
            Wait => match reading.longest_wait_ns {
                0 => unknown(),
                ns => format_nanoseconds(ns),
            },
            Budget => match reading.budget_bytes {
                NO_BUDGET => "none".to_owned(),
                bytes => format_short(bytes),
            },
            Rule => reading.rule.clone(),
        }
    }

    /// Which of two programs has less of it. Those of which it is not known come first.
    pub fn compare(self, one: &Row, other: &Row) -> Ordering {
        let (a, b) = (&one.reading, &other.reading);
        match self {
            Pid => a.key.cmp(&b.key),
            Program => a.program.cmp(&b.program),
            Content => a.content_bytes.cmp(&b.content_bytes),
            Held => a.total_bytes.cmp(&b.total_bytes),
            Saved => a.saved_bytes().cmp(&b.saved_bytes()),
            SavedShare => a.saved_share().total_cmp(&b.saved_share()),
            Faults => compare(one.faults_per_second, other.faults_per_second),
            Processor => compare(one.pager_share, other.pager_share),
            Wait => a.longest_wait_ns.cmp(&b.longest_wait_ns),
            Budget => a.budget_bytes.cmp(&b.budget_bytes),
            Rule => a.rule.cmp(&b.rule),
        }
    }
}

fn compare(one: Option<f64>, other: Option<f64>) -> Ordering {
    let number = |value: Option<f64>| value.unwrap_or(-1.0);
    number(one).total_cmp(&number(other))
}

fn unknown() -> String {
    "-".to_owned()
}

/// Whole per cent; never "-0".
pub fn per_cent(share: f64) -> String {
    format!("{:.0}", (share * 100.0).round() + 0.0)
}

/// So many a second, in eight places at most.
pub fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 999_999.5 => format!("{:.1}M", rate / 1e6),
        rate => format_count(rate.round() as u64),
    }
}

/// Per cent of a processor, in five places at most.
pub fn share_of_processor(percent: f64) -> String {
    // The sum of no numbers is -0.
    match percent + 0.0 {
        percent if percent >= 99.95 => format!("{percent:.0}"),
        percent => format!("{percent:.1}"),
    }
}

/// The columns that fit in a width, with their widths, one blank apart.
pub fn that_fit(width: usize) -> Vec<(Column, usize)> {
    let mut columns: Vec<(Column, usize)> = ALL.map(|column| (column, column.width())).to_vec();
    let needed = |columns: &[(Column, usize)]| {
        let widths: usize = columns.iter().map(|(_, width)| width).sum();
        widths + columns.len() - 1
    };
    for gone in FIRST_TO_GO {
        let missing = needed(&columns).saturating_sub(width);
        // A shorter name rather than one column less, except for what only a wide terminal has.
        let is_extra = matches!(gone, Rule | Content);
        if missing == 0 || !is_extra && missing <= WIDE_NAME - NARROW_NAME {
            break;
        }
        columns.retain(|(column, _)| *column != gone);
    }
    let missing = needed(&columns).saturating_sub(width);
    if let Some((_, name)) = columns.iter_mut().find(|(column, _)| *column == Program) {
        *name = name.saturating_sub(missing).max(3);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitting(width: usize) -> (Vec<Column>, usize) {
        let columns = that_fit(width);
        let used = columns.iter().map(|(_, width)| width + 1).sum::<usize>() - 1;
        (
            columns.into_iter().map(|(column, _)| column).collect(),
            used,
        )
    }

    #[test]
    fn what_fits_is_shown_and_nothing_is_wider_than_the_terminal() {
        let (columns, used) = fitting(80);
        let expected = [
            Pid, Program, Held, Saved, SavedShare, Faults, Processor, Wait, Budget,
        ];
        assert_eq!((&columns[..], used), (&expected[..], 80));
        let (columns, used) = fitting(60);
        let expected = [Pid, Program, Held, Saved, Faults, Processor, Budget];
        assert_eq!((&columns[..], used), (&expected[..], 60));
        assert_eq!(fitting(200).0, ALL);
        for width in 20..300 {
            let (columns, used) = fitting(width);
            assert!(used <= width, "{width}: {used}");
            assert!(columns.starts_with(&[Pid, Program]) && columns.contains(&Held));
        }
    }

    #[test]
    fn numbers_fit_in_their_columns() {
        assert_eq!(per_second(0.4), "0");
        assert_eq!(per_second(999_999.0), "999,999");
        assert_eq!(per_second(12_345_678.0), "12.3M");
        assert_eq!(share_of_processor(0.04), "0.0");
        assert_eq!(share_of_processor(-0.0), "0.0");
        assert_eq!(
            (per_cent(-0.003), per_cent(-0.126)),
            ("0".into(), "-13".into())
        );
        assert_eq!(share_of_processor(99.94), "99.9");
        assert_eq!(share_of_processor(1234.4), "1234");
    }
}
