//! What the pager knows of a page, in words: for a program that has found something wrong.
//!
//! No lock is taken, nothing is changed; the figures may be a moment apart.

use crate::Pager;
use crate::machine::os::Os;
use coldpress_linux::text::Text;
use coldpress_uffd::PAGE_SIZE;
use core::fmt::Write;
use core::sync::atomic::Ordering::Relaxed;

impl<O: Os> Pager<O> {
    /// Describes the page of an address.
    pub fn describe<const N: usize>(&self, address: usize) -> Text<N> {
        let mut text = Text::default();
        let (host, page) = (&self.host, address & !(PAGE_SIZE - 1));
        let Some(segment) = host.windows.find(&host.memory, page) else {
            let _ = text.write_str("no window: never managed");
            return text;
        };
        let window = host.windows.get(segment);
        let index = window.index_of(page);
        let _ = write!(
            text,
            "{:?}, {}registered, segment {segment} page {index}",
            self.engine.entry(segment, index),
            if window.is_registered(index) {
                ""
            } else {
                "not "
            },
        );
        for (number, handler) in self.handlers.iter().enumerate() {
            let there = handler.address.load(Relaxed) & !(PAGE_SIZE - 1) == page;
            if there && handler.since_ns.load(Relaxed) != 0 {
                let thread = handler.thread.load(Relaxed);
                let _ = write!(text, ", handler {number} answers thread {thread}");
            }
        }
        text
    }
}
