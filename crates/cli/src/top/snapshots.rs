//! Test: what is drawn on screens of several sizes is what stands in `snapshots/`. With `COLDPRESS_WRITE_SNAPSHOTS=1` these
//! files are written anew: look at them before they are kept.

use super::draw::draw;
use super::input;
use super::model::tests::reading;
use super::model::{Mappings, Model, View};
use super::theme::Theme;
use crate::by_mapping::Line;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::Color;
use std::fs;
use std::path::Path;
use termion::event::Key;

const S: u64 = 1_000_000_000;

/// Three programs that have been looked at for a while.
fn model() -> Model {
    let mut model = Model::new();
    for second in 1..40 {
        let mut redis = reading(
            23_919,
            "redis-server",
            40 + second % 9,
            second * second * 40,
        );
        redis.budget_bytes = 44 << 20;
        let mut python = reading(4_194_304, "python3", 20 + second / 2, second * 1_500_000);
        python.rule = "the coldest: near budget".to_owned();
        python.longest_wait_ns = 12_345_678;
        let mut odd = reading(7, "a\u{1b}[2J\u{e9}", 12, 3);
        odd.content_bytes = 11 << 20;
        odd.longest_wait_ns = 0;
        model.take(vec![redis, python, odd], second * S);
    }
    model
}

fn drawn((width, height): (u16, u16), model: &Model, theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, theme)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(width);
    let text = |row: &[ratatui::buffer::Cell]| -> String {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    rows.map(text).collect()
}

fn compare(name: &str, size: (u16, u16), model: &Model) {
    let text = lines(&drawn(size, model, Theme::new(true)));
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/snapshots");
    let file = directory.join(format!("{name}-{}x{}.txt", size.0, size.1));
    if std::env::var_os("COLDPRESS_WRITE_SNAPSHOTS").is_some() {
        fs::create_dir_all(&directory).unwrap();
        fs::write(&file, &text).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{}:\n{text}", file.display());
}

const SIZES: [(u16, u16); 3] = [(80, 24), (60, 20), (200, 50)];

#[test]
fn programs() {
    for size in SIZES {
        compare("programs", size, &model());
    }
}

#[test]
fn nothing_runs() {
    let mut model = Model::new();
    model.nothing =
        "no program of yours runs under Coldpress; start one with: coldpress run -- PROGRAM"
            .to_owned();
    compare("nothing", (80, 24), &model);
    compare("nothing", (60, 20), &model);
}

#[test]
fn help_and_a_budget_being_typed() {
    let mut model = model();
    for key in "b512M".chars() {
        input::press(&mut model, Key::Char(key));
    }
    compare("budget", (80, 24), &model);
    input::press(&mut model, Key::Esc);
    let why = "a budget of 1.0 MiB is too small: the pager itself needs a few MiB, so budgets start at 8 MiB";
    model.complain(why);
    compare("refused", (80, 24), &model);
    compare("refused", (60, 20), &model);
    input::press(&mut model, Key::Char('?'));
    for size in SIZES {
        compare("help", size, &model);
    }
}

#[test]
fn mappings() {
    let mut model = model();
    let of = model.chosen.unwrap();
    let line = |range, name: &str, committed_bytes| Line {
        range,
        name: name.to_owned(),
        committed_bytes,
        compressed_bytes: 3 << 20,
        same_filled_bytes: 4096,
        own_bytes: 0,
    };
    let own = |name: &str, own_bytes| Line {
        name: name.to_owned(),
        own_bytes,
        ..Line::default()
    };
    let all = vec![
        line(
            Some((0x55d0_1234_5000, 0x55d0_2234_5000)),
            "[heap]",
            40 << 20,
        ),
        line(Some((0x7f12_3456_7000, 0x7f12_4456_7000)), "", 1 << 20),
        line(None, "12 more, smaller", 1 << 16),
        line(None, "not managed", 5 << 20),
        own("compressed storage", 11 << 20),
        own("the pager", 2 << 20),
    ];
    model.view = View::Mappings(Mappings {
        of,
        lines: Some(Ok(all)),
        first: 0,
    });
    for size in SIZES {
        compare("mappings", size, &model);
    }
    model.mappings_told(of, Err("it did not answer within 1 s".to_owned()));
    compare("mappings-unknown", (80, 24), &model);
}

/// A screen may be of any size while a window is dragged about.
#[test]
fn no_size_is_too_small() {
    let mut model = model();
    model.shows_help = true;
    for width in [1, 2, 7, 19, 33] {
        for height in [1, 2, 3, 5, 17] {
            drawn((width, height), &model, Theme::new(true));
        }
    }
}

#[test]
fn without_colours_nothing_has_one() {
    let colours = |theme| {
        let buffer = drawn((80, 24), &model(), theme);
        let is_coloured = |cell: &&ratatui::buffer::Cell| cell.fg != Color::Reset;
        buffer.content.iter().filter(is_coloured).count()
    };
    assert!(colours(Theme::new(true)) > 0);
    assert_eq!(colours(Theme::new(false)), 0);
}

/// A name must not give orders to the terminal.
#[test]
fn control_characters_are_shown_and_not_sent() {
    for cell in drawn((80, 24), &model(), Theme::new(true)).content {
        assert!(
            !cell.symbol().contains(char::is_control),
            "{:?}",
            cell.symbol()
        );
    }
}
