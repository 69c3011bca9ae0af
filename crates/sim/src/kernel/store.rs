//! What the user pager of a VMO has stored, and what the driver knows of the pager.
//!
//! Who supplies, writes back or resizes holds the store meanwhile: a pager that supplied what it read
//! before it wrote something newer back would be wrong itself.

use super::object::{Content, bytes};
use crate::content;
use crate::random::Random;
use crate::schedule::doze;
use coldpress_codec::Page;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A pager's store.
#[derive(Default)]
pub struct Store {
    pages: RefCell<BTreeMap<u64, Content>>,
    /// Pages from here on the pager does not know.
    known: Cell<u64>,
    held: Cell<bool>,
    /// It supplies nothing any more.
    pub detached: Cell<bool>,
    /// When a page was refused last.
    refused_at: Cell<u64>,
    /// Pages supplied so far.
    supplied: RefCell<BTreeSet<u64>>,
}

impl Store {
    /// A store that knows so many pages, and has something in those of the parts that are used.
    pub fn new(random: &Random, pages: u64, used: impl Iterator<Item = u64>) -> Self {
        let store = Self::default();
        store.known.set(pages);
        for page in used.filter(|&page| page < pages) {
            let mut content = Box::new([0; 4096]);
            content::fill(random, &mut content);
            store.put(page, &content);
        }
        store
    }

    /// Waits until nobody else holds it.
    pub fn hold(&self) {
        while self.held.replace(true) {
            doze(50);
        }
    }

    /// Holds it, if nobody else does.
    pub fn try_hold(&self) -> bool {
        !self.held.replace(true)
    }

    /// Gives it back.
    pub fn give_back(&self) {
        assert!(self.held.replace(false), "nobody holds it");
    }

    /// What is stored of a page.
    pub fn get(&self, page: u64) -> Content {
        self.pages.borrow().get(&page).cloned().flatten()
    }

    /// Stores a page.
    pub fn put(&self, page: u64, content: &Page) {
        let content = Some(Rc::new(*content));
        self.pages.borrow_mut().insert(page, content);
        self.known.set(self.known.get().max(page + 1));
    }

    /// Pages that it has.
    pub fn pages(&self) -> Vec<(u64, Content)> {
        let pages = self.pages.borrow();
        pages
            .iter()
            .map(|(&page, content)| (page, content.clone()))
            .collect()
    }

    /// Pages from here on are zeros.
    pub fn cut(&self, pages: u64) {
        self.pages.borrow_mut().retain(|&page, _| page < pages);
        self.known.set(self.known.get().min(pages));
    }

    /// Pages from here on it does not know.
    pub fn known(&self) -> u64 {
        self.known.get()
    }

    /// A page is refused.
    pub fn refuses(&self, now: u64) {
        self.refused_at.set(now);
    }

    /// Whether a page was refused since.
    pub fn has_refused(&self, since: u64) -> bool {
        self.detached.get() || self.refused_at.get() >= since
    }

    /// A page is supplied. Whether it was before.
    pub fn supplies(&self, page: u64) -> bool {
        !self.supplied.borrow_mut().insert(page)
    }

    /// Whether this is stored of a page.
    pub fn holds(&self, page: u64, content: &Content) -> bool {
        bytes(&self.get(page)) == bytes(content)
    }
}
