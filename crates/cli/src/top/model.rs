//! What `top` shows: programs with their rates and histories, in an order, one of them chosen.
//!
//! The model knows neither the terminal nor the clock: readings come with the time at which they were taken, and what a key
//! does is a call here (`input`). `draw` looks at it and changes nothing.
//!
//! M1 While there is a program, one is chosen; it stays chosen wherever the order puts it.
//! M2 A rate is known from the second reading on ([`Row`]).

use super::column::Column;
use super::reading::{Key, Reading};
use super::row::Row;
use crate::by_mapping::Line;

/// What fills the screen.
#[derive(Clone, Debug, Default)]
pub enum View {
    /// The programs.
    #[default]
    Programs,
    /// The mappings of one.
    Mappings(Mappings),
}

/// The mappings of a program.
#[derive(Clone, Debug)]
pub struct Mappings {
    /// Which.
    pub of: Key,
    /// What they hold, or why that is not known; `None`: not yet.
    pub lines: Option<Result<Vec<Line>, String>>,
    /// The first that is shown.
    pub first: usize,
}

/// A budget that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// For which process: another may be chosen by the time it is typed.
    pub of: Key,
    /// Name of its program.
    pub program: String,
    /// What has been typed.
    pub text: String,
}

/// What is said at the bottom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The text.
    pub text: String,
    /// Whether something went wrong.
    pub is_error: bool,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The programs, in their order.
    pub rows: Vec<Row>,
    /// The one that is chosen.
    pub chosen: Option<Key>,
    /// What they are sorted by.
    pub sorted_by: Column,
    /// Whether the other way round.
    pub is_reversed: bool,
    /// What fills the screen.
    pub view: View,
    /// Whether the keys are explained.
    pub shows_help: bool,
    /// The budget that is being typed.
    pub typed: Option<Typed>,
    /// What is said at the bottom.
    pub note: Option<Note>,
    /// What is said where there is no program.
    pub nothing: String,
    /// When the last readings were taken.
    taken_at_ns: Option<u64>,
}

impl Model {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            rows: Vec::new(),
            chosen: None,
            sorted_by: Column::Held,
            is_reversed: false,
            view: View::Programs,
            shows_help: false,
            typed: None,
            note: None,
            nothing: String::new(),
            taken_at_ns: None,
        }
    }

    /// Takes new readings, in place of the old ones.
    pub fn take(&mut self, readings: Vec<Reading>, at_ns: u64) {
        let place = self.place();
        let passed_ns = self.taken_at_ns.map(|before| at_ns.saturating_sub(before));
        let mut old = std::mem::take(&mut self.rows);
        for reading in readings {
            let before = old.iter().position(|row| row.reading.key == reading.key);
            let before = before.map(|index| old.swap_remove(index));
            self.rows.push(Row::next(before, reading, at_ns, passed_ns));
        }
        self.taken_at_ns = Some(at_ns);
        self.sort();
        if !self
            .rows
            .iter()
            .any(|row| Some(row.reading.key) == self.chosen)
        {
            let nearest = place.unwrap_or(0).min(self.rows.len().saturating_sub(1));
            self.chosen = self.rows.get(nearest).map(|row| row.reading.key);
        }
        self.leave_what_has_ended();
    }

    /// Neither mappings nor a budget of a process that is gone.
    fn leave_what_has_ended(&mut self) {
        let is_there = |key: Key| self.rows.iter().any(|row| row.reading.key == key);
        let shown_ended = match &self.view {
            View::Mappings(shown) => !is_there(shown.of),
            View::Programs => false,
        };
        let typed_ended = self.typed.as_ref().is_some_and(|typed| !is_there(typed.of));
        if shown_ended {
            self.view = View::Programs;
        }
        if typed_ended {
            self.typed = None;
        }
        if shown_ended || typed_ended {
            self.say("the program has ended");
        }
    }

    /// The one that is chosen.
    pub fn chosen_row(&self) -> Option<&Row> {
        self.rows.get(self.place()?)
    }

    /// Where it stands.
    pub fn place(&self) -> Option<usize> {
        let chosen = self.chosen?;
        self.rows.iter().position(|row| row.reading.key == chosen)
    }

    /// Chooses the one so many places further down; the first or the last where there are not so many.
    pub fn move_choice(&mut self, by: isize) {
        let Some(place) = self.place() else {
            return;
        };
        let place = place.saturating_add_signed(by).min(self.rows.len() - 1);
        self.chosen = Some(self.rows[place].reading.key);
    }

    /// Sorts by another column; by the one that it is, the other way round.
    pub fn sort_by(&mut self, column: Column) {
        self.is_reversed = self.sorted_by == column && !self.is_reversed;
        self.sorted_by = column;
        self.sort();
    }

    fn sort(&mut self) {
        let largest_first = self.sorted_by.largest_first() != self.is_reversed;
        let column = self.sorted_by;
        self.rows.sort_by(|one, other| {
            let order = column.compare(one, other);
            let order = if largest_first {
                order.reverse()
            } else {
                order
            };
            order.then(one.reading.key.cmp(&other.reading.key))
        });
    }

    /// Says something at the bottom.
    pub fn say(&mut self, text: impl Into<String>) {
        let (text, is_error) = (text.into(), false);
        self.note = Some(Note { text, is_error });
    }

    /// Says at the bottom what went wrong.
    pub fn complain(&mut self, text: impl Into<String>) {
        let (text, is_error) = (text.into(), true);
        self.note = Some(Note { text, is_error });
    }

    /// What each mapping of a process holds has been told, or why it is not.
    pub fn mappings_told(&mut self, of: Key, told: Result<Vec<Line>, String>) {
        if let View::Mappings(shown) = &mut self.view
            && shown.of == of
        {
            shown.lines = Some(told);
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use coldpress_interface::control::NO_BUDGET;

    const S: u64 = 1_000_000_000;
    const MIB: u64 = 1 << 20;

    pub fn reading(pid: u32, program: &str, total_mib: u64, faults: u64) -> Reading {
        Reading {
            key: Key {
                pid,
                start_ticks: 7,
            },
            program: program.to_owned(),
            budget_bytes: if pid.is_multiple_of(2) {
                64 * MIB
            } else {
                NO_BUDGET
            },
            total_bytes: total_mib * MIB,
            content_bytes: 100 * MIB,
            faults,
            pager_cpu_ns: faults * 20_000,
            longest_wait_ns: 2_200_000,
            rule: "nothing to do: within budget".to_owned(),
            rule_name: Some("within_budget"),
        }
    }

    fn pids(model: &Model) -> Vec<u32> {
        model.rows.iter().map(|row| row.reading.key.pid).collect()
    }

    #[test]
    fn rates_are_known_from_the_second_reading_on() {
        let mut model = Model::new();
        model.take(vec![reading(2, "a", 50, 1_000)], 5 * S);
        assert_eq!(model.rows[0].faults_per_second, None);
        assert_eq!(model.rows[0].pager_share, None);
        model.take(vec![reading(2, "a", 40, 4_000)], 7 * S);
        assert_eq!(model.rows[0].faults_per_second, Some(1_500.0));
        assert!((model.rows[0].pager_share.unwrap() - 0.03).abs() < 1e-9);
        assert_eq!(model.rows[0].held.last(9), [40 * MIB, 50 * MIB]);
        assert_eq!(model.rows[0].faults.last(9), [1_500, 0]);
        // Another program in the same process began to count anew.
        model.take(vec![reading(2, "b", 40, 10)], 8 * S);
        assert_eq!(model.rows[0].faults_per_second, None);
        // Two readings of one moment.
        model.take(vec![reading(2, "b", 40, 10)], 8 * S);
        assert_eq!(model.rows[0].faults_per_second, None);
        // An id that is used again is another process.
        let mut again = reading(2, "b", 1, 1 << 40);
        again.key.start_ticks = 8;
        model.take(vec![again], 9 * S);
        assert_eq!(model.rows[0].faults_per_second, None);
        assert_eq!(model.rows[0].held.last(9), [MIB]);
    }

    #[test]
    fn programs_are_sorted_by_any_column_either_way() {
        let mut model = Model::new();
        let readings = || {
            vec![
                reading(1, "b", 50, 9),
                reading(2, "c", 70, 5),
                reading(3, "a", 60, 7),
            ]
        };
        model.take(readings(), S);
        assert_eq!(pids(&model), [2, 3, 1], "most memory first");
        model.sort_by(Column::Held);
        assert_eq!(pids(&model), [1, 3, 2]);
        model.sort_by(Column::Program);
        assert_eq!((pids(&model), model.is_reversed), (vec![3, 1, 2], false));
        model.sort_by(Column::Budget);
        assert_eq!(pids(&model), [1, 3, 2], "none is the most");
        model.sort_by(Column::Saved);
        assert_eq!(pids(&model), [1, 3, 2]);
        model.take(readings(), 2 * S);
        assert_eq!(pids(&model), [1, 3, 2], "the order stays");
    }

    #[test]
    fn the_chosen_one_stays_chosen_until_it_ends() {
        let mut model = Model::new();
        assert!(model.chosen_row().is_none());
        model.move_choice(1);
        model.take(vec![reading(1, "a", 50, 0), reading(2, "b", 40, 0)], S);
        assert_eq!(model.place(), Some(0));
        model.move_choice(1);
        assert_eq!(model.chosen_row().unwrap().reading.program, "b");
        model.move_choice(isize::MAX);
        assert_eq!(model.place(), Some(1));
        let three = vec![
            reading(1, "a", 50, 0),
            reading(2, "b", 60, 0),
            reading(3, "c", 55, 0),
        ];
        model.take(three, 2 * S);
        assert_eq!((model.place(), pids(&model)), (Some(0), vec![2, 3, 1]));
        model.move_choice(1);
        model.take(vec![reading(1, "a", 50, 0), reading(2, "b", 60, 0)], 3 * S);
        assert_eq!(
            model.chosen_row().unwrap().reading.program,
            "a",
            "in its place"
        );
        model.take(Vec::new(), 4 * S);
        assert_eq!((model.chosen, model.place()), (None, None));
    }

    #[test]
    fn what_has_ended_is_left() {
        let mut model = Model::new();
        model.take(vec![reading(1, "a", 50, 0), reading(2, "b", 40, 0)], S);
        let of = model.chosen.unwrap();
        model.view = View::Mappings(Mappings {
            of,
            lines: None,
            first: 0,
        });
        let other = Key { pid: 2, ..of };
        model.mappings_told(other, Ok(Vec::new()));
        assert!(matches!(&model.view, View::Mappings(shown) if shown.lines.is_none()));
        model.mappings_told(of, Err("it is stopped".to_owned()));
        assert!(matches!(&model.view, View::Mappings(shown) if shown.lines.is_some()));
        model.typed = Some(Typed {
            of,
            program: "a".to_owned(),
            text: "64".to_owned(),
        });
        model.take(vec![reading(2, "b", 40, 0)], 2 * S);
        assert_eq!(
            model.typed, None,
            "it is not for the one that is chosen now"
        );
        assert!(matches!(model.view, View::Programs));
        assert_eq!(model.note.as_ref().unwrap().text, "the program has ended");
    }
}
