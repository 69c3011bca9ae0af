//! Help in the width of the terminal. (Clap's own wrapping needs a crate that would bring the standard library into the
//! pager's build.)

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd};

/// Where the width is not known.
const USUAL: usize = 80;
/// Lines longer than that are hard to read.
const WIDEST: usize = 100;
/// Where less than that is left beside an option's name, what it means goes on under it.
const LEAST: usize = 30;

/// The width of the terminal that a stream is, for text.
pub fn width(stream: impl AsFd) -> usize {
    match columns(stream) {
        0 => USUAL,
        columns => columns.min(WIDEST),
    }
}

/// The width that a table on standard output has: of the terminal, or of the one that the caller names (`COLUMNS`, as
/// `watch` sets it). `None`: what is printed is not for a screen.
pub fn table_width() -> Option<usize> {
    let output = io::stdout();
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    match output.is_terminal() {
        true => Some(columns(output))
            .filter(|columns| *columns > 0)
            .or(Some(USUAL)),
        false => named().filter(|columns| *columns > 0),
    }
}

/// The columns of the terminal that a stream is; 0: it is none.
fn columns(stream: impl AsFd) -> usize {
    // SAFETY: zeros are a valid `winsize`, and the call fills it in or refuses.
    unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        match libc::ioctl(stream.as_fd().as_raw_fd(), libc::TIOCGWINSZ, &mut size) {
            0 => usize::from(size.ws_col),
            _ => 0,
        }
    }
}

/// The text with lines of `width` at most, where blanks allow it. What belongs to an option stays in its column.
pub fn wrapped(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| wrap(line, width));
    lines.collect::<Vec<_>>().join("\n")
}

/// A message with lines of `width` at most. Lines that are set in are commands, to be copied whole.
pub fn prose_wrapped(text: &str, width: usize) -> String {
    let lines = text.split('\n').map(|line| match line.starts_with(' ') {
        true => line.to_owned(),
        false => wrap(line, width),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn wrap(line: &str, width: usize) -> String {
    if visible_len(line) <= width {
        return line.to_owned();
    }
    let column = column_of(line);
    let indent = if width.saturating_sub(column) < LEAST {
        10.min(width / 4)
    } else {
        column
    };
    let mut wrapped = String::with_capacity(line.len() + 64);
    let (mut at, mut gap) = (0, String::new());
    for piece in pieces(line) {
        if piece.starts_with(' ') {
            gap = piece.to_owned();
            continue;
        }
        let len = visible_len(piece);
        if at > indent && at + gap.len() + len > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            at = indent;
        } else {
            wrapped.push_str(&gap);
            at += gap.len();
        }
        wrapped.push_str(piece);
        at += len;
        gap.clear();
    }
    wrapped
}

/// Words and the blanks between them, in turn.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let blank = rest.starts_with(' ');
        let end = rest.find(|c| (c == ' ') != blank).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Where the last column begins: behind the last two blanks or more; else where the text does.
fn column_of(line: &str) -> usize {
    let (mut at, mut column) = (0, 0);
    for piece in pieces(line) {
        at += visible_len(piece);
        let separates = piece.len() >= 2 && piece.starts_with(' ');
        if separates || at == piece.len() && piece.starts_with(' ') {
            column = at;
        }
    }
    column
}

/// Characters that take a place: all but the colours of a terminal.
fn visible_len(text: &str) -> usize {
    let mut len = 0;
    let mut escape = false;
    for c in text.chars() {
        match (escape, c) {
            (false, '\u{1b}') => escape = true,
            (true, 'm') => escape = false,
            (true, _) => {}
            (false, _) => len += 1,
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_wrapped_and_its_commands_are_not() {
        let command = "  sudo sysctl -w a.very.long.name.of.a.setting=1\n";
        let text = format!("coldpress: one two three four five\n{command}");
        let wrapped = format!("coldpress: one two three four\nfive\n{command}");
        assert_eq!(prose_wrapped(&text, 32), wrapped);
    }

    #[test]
    fn what_belongs_to_an_option_stays_in_its_column() {
        let text = "  -q, --quiet   print no summary at the end of a run, whatever it was that happened in it";
        let expected = "  -q, --quiet   print no summary at the end of a\n                run, whatever it was that happened\n                in it";
        assert_eq!(wrapped(text, 50), expected);
        assert_eq!(wrapped(text, 200), text);
    }

    #[test]
    fn a_paragraph_begins_where_it_began_and_colours_take_no_place() {
        let text = "one \u{1b}[1mtwo\u{1b}[0m three four five six seven eight nine\n\nten";
        let expected = "one \u{1b}[1mtwo\u{1b}[0m three four five six seven\neight nine\n\nten";
        assert_eq!(wrapped(text, 35), expected);
        assert_eq!(
            wrapped("a-word-that-is-too-long", 10),
            "a-word-that-is-too-long"
        );
    }

    #[test]
    fn what_belongs_to_a_wide_name_goes_on_under_it() {
        let text = "  --name-of-an-option <WITH|CHOICES>   what it means in some words";
        let expected =
            "  --name-of-an-option <WITH|CHOICES>   what it\n          means in some words";
        assert_eq!(wrapped(text, 50), expected);
    }
}
