//! What a key does: to the model, or in the world ([`Effect`]).

use super::column::{self, Column};
use super::model::{Mappings, Model, Typed, View};
use super::reading::Key as Process;
use termion::event::Key;

/// What has to be done besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The command ends.
    Quit,
    /// It stops, as any program does at Ctrl-Z.
    Stop,
    /// The screen is drawn anew.
    Repaint,
    /// The pager is asked what each mapping holds.
    AskMappings(Process),
    /// The budget is set: a size, or a share, or none, as it was typed.
    SetBudget(Process, String),
}

/// Longest text that can be typed.
const MOST_TYPED: usize = 24;

/// Rows of a page of the list.
const PAGE: isize = 10;

/// Every key, and what it does: for the help.
pub const KEYS: &[(&str, &str)] = &[
    ("↑ ↓  j k", "choose a program"),
    ("< >  ← →", "sort by the column before or behind"),
    ("r", "sort the other way round"),
    ("Enter", "what its memory consists of; Esc: back"),
    ("b", "set its budget: 512M, 1.5G, 65%, none"),
    ("?  h", "this; any key: back"),
    ("q  Esc", "end"),
    ("Ctrl-L", "draw the screen anew"),
];

/// Does what a key does.
pub fn press(model: &mut Model, key: Key) -> Effect {
    match key {
        Key::Ctrl('c') => return Effect::Quit,
        Key::Ctrl('z') => return Effect::Stop,
        Key::Ctrl('l') => return Effect::Repaint,
        _ => {}
    }
    if model.shows_help {
        model.shows_help = false;
        return Effect::None;
    }
    if model.typed.is_some() {
        return type_budget(model, key);
    }
    model.note = None;
    match key {
        Key::Char('?' | 'h') => model.shows_help = true,
        Key::Char('b') => begin_to_type(model),
        _ => match &mut model.view {
            View::Programs => return in_programs(model, key),
            View::Mappings(shown) => {
                if in_mappings(shown, key) {
                    model.view = View::Programs;
                }
            }
        },
    }
    Effect::None
}

fn begin_to_type(model: &mut Model) {
    let shown = match &model.view {
        View::Mappings(shown) => Some(shown.of),
        View::Programs => model.chosen,
    };
    let row = model.rows.iter().find(|row| Some(row.reading.key) == shown);
    match row {
        Some(row) => {
            model.typed = Some(Typed {
                of: row.reading.key,
                program: row.reading.program.clone(),
                text: String::new(),
            });
        }
        None => model.complain("there is no program whose budget could be set"),
    }
}

fn type_budget(model: &mut Model, key: Key) -> Effect {
    let Some(typed) = &mut model.typed else {
        return Effect::None;
    };
    match key {
        Key::Char('\n') => {
            let typed = model.typed.take();
            if let Some(typed) = typed.filter(|typed| !typed.text.is_empty()) {
                return Effect::SetBudget(typed.of, typed.text);
            }
        }
        Key::Esc => model.typed = None,
        Key::Backspace | Key::Ctrl('h') => drop(typed.text.pop()),
        Key::Ctrl('u') => typed.text.clear(),
        // A size is written without blanks.
        Key::Char(c) if c.is_ascii_graphic() && typed.text.len() < MOST_TYPED => {
            typed.text.push(c);
        }
        _ => {}
    }
    Effect::None
}

fn in_programs(model: &mut Model, key: Key) -> Effect {
    match key {
        Key::Char('q') | Key::Esc => return Effect::Quit,
        Key::Up | Key::Char('k') => model.move_choice(-1),
        Key::Down | Key::Char('j') => model.move_choice(1),
        Key::PageUp => model.move_choice(-PAGE),
        Key::PageDown => model.move_choice(PAGE),
        Key::Home | Key::Char('g') => model.move_choice(isize::MIN),
        Key::End | Key::Char('G') => model.move_choice(isize::MAX),
        Key::Left | Key::Char('<') => model.sort_by(neighbour(model.sorted_by, -1)),
        Key::Right | Key::Char('>') => model.sort_by(neighbour(model.sorted_by, 1)),
        Key::Char('r') => model.sort_by(model.sorted_by),
        Key::Char('\n') => {
            if let Some(of) = model.chosen {
                model.view = View::Mappings(Mappings {
                    of,
                    lines: None,
                    first: 0,
                });
                return Effect::AskMappings(of);
            }
        }
        _ => {}
    }
    Effect::None
}

/// True: back to the programs.
fn in_mappings(shown: &mut Mappings, key: Key) -> bool {
    let count = match &shown.lines {
        Some(Ok(lines)) => lines.len(),
        _ => 0,
    };
    let by = match key {
        Key::Char('q' | '\n') | Key::Esc | Key::Left | Key::Backspace => return true,
        Key::Up | Key::Char('k') => -1,
        Key::Down | Key::Char('j') => 1,
        Key::PageUp => -PAGE,
        Key::PageDown => PAGE,
        Key::Home | Key::Char('g') => isize::MIN,
        Key::End | Key::Char('G') => isize::MAX,
        _ => 0,
    };
    let last = count.saturating_sub(1);
    shown.first = shown.first.saturating_add_signed(by).min(last);
    false
}

/// The column beside another, round the ends.
fn neighbour(column: Column, by: isize) -> Column {
    let count = column::ALL.len();
    let place = column::ALL.iter().position(|other| *other == column);
    let next = (place.unwrap_or(0) + count).wrapping_add_signed(by);
    column::ALL[next % count]
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::reading;
    use super::*;

    fn model() -> Model {
        let mut model = Model::new();
        model.take(vec![reading(1, "a", 50, 0), reading(2, "b", 40, 0)], 1);
        model
    }

    fn pressed(model: &mut Model, keys: &str) -> Vec<Effect> {
        let effects = keys.chars().map(|key| press(model, Key::Char(key)));
        effects.filter(|effect| *effect != Effect::None).collect()
    }

    #[test]
    fn a_budget_is_typed_for_the_program_that_was_chosen_then() {
        let mut model = model();
        let of = model.chosen.unwrap();
        assert_eq!(pressed(&mut model, "b64q"), []);
        press(&mut model, Key::Backspace);
        press(&mut model, Key::Down);
        model.chosen = None;
        let set = Effect::SetBudget(of, "64M".to_owned());
        assert_eq!(pressed(&mut model, "M\n"), [set]);
        assert_eq!(model.typed, None);
        assert_eq!(pressed(&mut model, "b"), []);
        assert!(model.note.as_ref().unwrap().is_error, "nothing is chosen");
    }

    #[test]
    fn an_empty_budget_or_escape_sets_nothing() {
        let mut model = model();
        assert_eq!(pressed(&mut model, "b\n"), []);
        assert_eq!(pressed(&mut model, "b64"), []);
        assert_eq!(press(&mut model, Key::Esc), Effect::None);
        assert_eq!(model.typed, None);
        assert_eq!(
            pressed(&mut model, &("b".to_owned() + &"x".repeat(100))),
            []
        );
        assert_eq!(model.typed.as_ref().unwrap().text.len(), MOST_TYPED);
        assert_eq!(press(&mut model, Key::Ctrl('c')), Effect::Quit);
    }

    #[test]
    fn keys_choose_sort_and_end() {
        let mut model = model();
        assert_eq!(pressed(&mut model, "j"), []);
        assert_eq!(model.place(), Some(1));
        pressed(&mut model, ">");
        assert_eq!(model.sorted_by, Column::Saved);
        pressed(&mut model, "<<");
        assert_eq!(model.sorted_by, Column::Content);
        assert!(!model.is_reversed);
        pressed(&mut model, "r");
        assert!(model.is_reversed);
        assert_eq!(neighbour(Column::Pid, -1), Column::Rule);
        assert_eq!(neighbour(Column::Rule, 1), Column::Pid);
        assert_eq!(pressed(&mut model, "q"), [Effect::Quit]);
        assert_eq!(press(&mut model, Key::Ctrl('z')), Effect::Stop);
    }

    #[test]
    fn enter_shows_the_mappings_and_help_is_left_by_any_key() {
        let mut model = model();
        let of = model.chosen.unwrap();
        assert_eq!(pressed(&mut model, "\n"), [Effect::AskMappings(of)]);
        assert!(matches!(model.view, View::Mappings(_)));
        assert_eq!(pressed(&mut model, "jjjq"), []);
        assert!(matches!(model.view, View::Programs));
        assert_eq!(pressed(&mut model, "?"), []);
        assert!(model.shows_help);
        assert_eq!(pressed(&mut model, "q"), []);
        assert!(!model.shows_help);
    }
}
