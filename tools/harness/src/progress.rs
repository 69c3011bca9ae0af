//! A line that tells how far the work is: updated in place on a terminal, plain lines otherwise.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Progress of one piece of work, on standard error.
pub struct Progress {
    what: String,
    begun: Instant,
    shown: Instant,
    interval: Duration,
    terminal: bool,
}

impl Progress {
    /// Begins a piece of work.
    pub fn begin(what: impl Into<String>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        let progress = Progress {
            what: what.into(),
            begun: now,
            shown: now,
            interval: Duration::from_millis(if terminal { 100 } else { 2000 }),
            terminal,
        };
        progress.show("");
        progress
    }

    /// Shows `detail` if the line was last shown long enough ago.
    pub fn update(&mut self, detail: impl FnOnce() -> String) {
        if self.shown.elapsed() >= self.interval {
            self.shown = Instant::now();
            self.show(&detail());
        }
    }

    /// Shows the outcome; the line stays.
    pub fn finish(self, outcome: &str) {
        self.show(outcome);
        if self.terminal {
            eprintln!();
        }
    }

    fn show(&self, detail: &str) {
        let seconds = self.begun.elapsed().as_secs_f64();
        let separator = if detail.is_empty() { "" } else { ": " };
        let mut out = std::io::stderr().lock();
        // Nothing to be done about an error on standard error.
        let _ = if self.terminal {
            write!(
                out,
                "\r\x1b[K[{seconds:5.1} s] {}{separator}{detail}",
                self.what
            )
        } else {
            writeln!(out, "[{seconds:5.1} s] {}{separator}{detail}", self.what)
        };
        let _ = out.flush();
    }
}
