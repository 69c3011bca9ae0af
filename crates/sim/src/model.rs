//! The reference model: what a read of a page must return.
//!
//! The driver writes to it in the same step in which the program's page is written, so a read is
//! compared byte for byte, always.

use coldpress_codec::{PAGE_SIZE, Page};
use std::cell::RefCell;
use std::rc::Rc;

static ZEROS: Page = [0; PAGE_SIZE];

/// A page as it must be. Copies share the bytes until they are written to.
#[derive(Clone, Default)]
pub struct Expected(RefCell<Option<Rc<Page>>>);

impl Expected {
    /// From now on it reads as zeros.
    pub fn zero(&self) {
        *self.0.borrow_mut() = None;
    }

    /// It is written to.
    pub fn write(&self, act: impl FnOnce(&mut Page)) {
        let mut content = self.0.borrow_mut();
        act(Rc::make_mut(content.get_or_insert_with(|| Rc::new(ZEROS))));
    }

    /// `None`: the page is as it must be; else the first byte that is not, with what it must be
    /// and what it is.
    pub fn differs(&self, page: &[u8], offset: usize) -> Option<(usize, u8, u8)> {
        let content = self.0.borrow();
        let expected = &content.as_deref().unwrap_or(&ZEROS)[offset..offset + page.len()];
        if expected == page {
            return None;
        }
        let at = expected.iter().zip(page).position(|(a, b)| a != b);
        let at = at.expect("they differ");
        Some((offset + at, expected[at], page[at]))
    }
}
