//! A bar on standard error that tells how far the work is; nothing where that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;

/// One bar, used for one piece of work after the other. It is gone when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that shows nothing yet.
    pub fn new() -> Self {
        // indicatif draws nothing where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{elapsed_precise} {msg:24} {bar:32} {percent:>3} %");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(500));
        Self(bar)
    }

    /// A piece of work begins, of so many steps.
    pub fn begin(&self, what: &str, steps: u64) {
        self.0.set_message(what.to_owned());
        self.0.set_length(steps);
        self.0.set_position(0);
    }

    /// So many steps more are done.
    pub fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
