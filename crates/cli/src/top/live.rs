//! The live view: readings at every interval, keys in between, and a screen after either.

use super::draw::draw;
use super::input::{self, Effect};
use super::keyboard;
use super::model::{Model, View};
use super::question::Questions;
use super::reading::{self, Key, Wanted};
use super::terminal::Screen;
use super::theme::Theme;
use crate::refusal::Refusal;
use crate::statistics_file::Live;
use ratatui::Terminal;
use ratatui::layout::{Position, Rect};
use ratatui_termion::TermionBackend;
use std::io::{self, BufWriter, Stdout};
use std::time::{Duration, Instant};

/// How soon an answer is shown.
const SOON: Duration = Duration::from_millis(50);

/// Shows programs until the user has seen enough.
pub fn run(wanted: Wanted, interval: Duration) -> Result<u8, Refusal> {
    let lost = |error: io::Error| Refusal::new(format!("the terminal cannot be used: {error}"));
    let screen = Screen::take().map_err(lost)?;
    let mut top = Top::new(wanted, interval).map_err(lost)?;
    let ended = top.run(&screen);
    top.questions.finish();
    drop(screen);
    ended.map(|()| 0).map_err(lost)
}

struct Top {
    terminal: Terminal<TermionBackend<BufWriter<Stdout>>>,
    model: Model,
    questions: Questions,
    /// The processes of the last reading.
    live: Vec<Live>,
    wanted: Wanted,
    interval: Duration,
    theme: Theme,
}

impl Top {
    fn new(wanted: Wanted, interval: Duration) -> io::Result<Self> {
        let backend = TermionBackend::new(BufWriter::new(io::stdout()));
        let mut model = Model::new();
        model.nothing = wanted.nothing_to_show();
        Ok(Self {
            terminal: Terminal::new(backend)?,
            model,
            questions: Questions::new(),
            live: Vec::new(),
            wanted,
            interval,
            theme: Theme::of_environment(),
        })
    }

    fn run(&mut self, screen: &Screen) -> io::Result<()> {
        let began = Instant::now();
        let mut next = began;
        loop {
            let now = Instant::now();
            if now >= next {
                self.read(now - began);
                // After a rest (Ctrl-Z) what was missed is not made up for.
                next = (next + self.interval).max(now);
            }
            self.questions.tell(&mut self.model);
            if screen.is_stale() {
                self.repaint()?;
            }
            self.terminal
                .draw(|frame| draw(frame, &self.model, self.theme))?;
            let mut time = next.saturating_duration_since(Instant::now());
            if self.questions.are_open() {
                time = time.min(SOON);
            }
            for key in keyboard::keys(time)? {
                match input::press(&mut self.model, key) {
                    Effect::None => {}
                    Effect::Quit => return Ok(()),
                    Effect::Stop => screen.stop(),
                    Effect::Repaint => self.repaint()?,
                    Effect::AskMappings(of) => self.ask_mappings(of),
                    Effect::SetBudget(of, text) => {
                        self.model.say(format!("process {} is being asked", of.pid));
                        self.questions.budget(of, text);
                    }
                }
            }
        }
    }

    /// Has all of the screen drawn anew. (`Terminal::clear` asks the terminal where the cursor is, and has a thread read the
    /// answer, which takes keys from us ever after.)
    fn repaint(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(Rect::from((Position::ORIGIN, size)))
    }

    fn read(&mut self, since: Duration) {
        let (readings, live) = reading::all(&self.wanted);
        self.live = live;
        let at_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.model.take(readings, at_ns);
        if let View::Mappings(shown) = &self.model.view
            && !self.questions.are_open()
        {
            self.ask_mappings(shown.of);
        }
    }

    /// Each process is asked once a reading: the next reading brings its page anew.
    fn ask_mappings(&mut self, of: Key) {
        let place = self.live.iter().position(|live| live.pid == of.pid);
        if let Some(place) = place {
            let live = self.live.swap_remove(place);
            self.questions.mappings(of, live);
        }
    }
}
