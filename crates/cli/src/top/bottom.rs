//! The lines at the bottom: keys, the budget that is being typed, or what is said.

use super::model::{Model, Note, Typed, View};
use super::theme::Theme;
use crate::help;
use crate::streams::visible;
use ratatui::text::{Line, Span};

/// Lines of a note; what does not fit is left out.
const MOST_LINES: usize = 3;

/// What can be typed.
const HINT: &str = "64M, 1.5G, 65%, none; Enter, Esc";

/// The lines, one at least.
pub fn lines(model: &Model, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let width = usize::from(width);
    match (&model.typed, &model.note) {
        (Some(typed), _) => vec![line_of(typed, width, theme)],
        (None, Some(note)) => lines_of(note, width, theme),
        (None, None) => {
            let keys = keys(model).iter().map(|key| (*key).to_owned()).collect();
            vec![Line::styled(
                super::draw::that_fit(keys, width),
                theme.quiet(),
            )]
        }
    }
}

/// What stands before the cursor while a budget is typed.
pub fn prompt(typed: &Typed) -> String {
    let program = visible(&typed.program);
    format!("budget of {program} ({}): {}", typed.of.pid, typed.text)
}

fn line_of(typed: &Typed, width: usize, theme: Theme) -> Line<'static> {
    let prompt = prompt(typed);
    let room = width.saturating_sub(prompt.chars().count() + 3);
    let hint = match HINT.len() <= room {
        true => format!("   {HINT}"),
        false => String::new(),
    };
    Line::from(vec![
        Span::styled(prompt, theme.title()),
        Span::styled(hint, theme.quiet()),
    ])
}

fn lines_of(note: &Note, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let text = help::prose_wrapped(&visible(&note.text), width);
    let lines = text.lines().take(MOST_LINES);
    let lines = lines.map(|line| Line::styled(line.to_owned(), theme.note(note.is_error)));
    lines.collect()
}

/// What is told of the keys; where there is no room for all, the first ones.
fn keys(model: &Model) -> &'static [&'static str] {
    match model.view {
        View::Programs => &[
            "? help",
            "q end",
            "↑↓ choose",
            "Enter mappings",
            "b budget",
            "<> sort",
            "r reverse",
        ],
        View::Mappings(_) => &["? help", "Esc back", "↑↓ scroll", "b budget"],
    }
}
