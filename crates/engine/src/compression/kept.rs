//! What kinds of pages are compressed, and what triggers it: RFC-0219 asks for both.
//!
//! Each page that is kept is counted three times: by trigger, by where it comes from, and by the
//! form in which it is held. A page that shares content through a snapshot is one page.

use crate::figures::cause::Trigger;
use crate::figures::counters::{Counters, add, sub};
use crate::pages::entry::Entry;
use crate::pages::page::{FROM_ZERO, PAGER_BACKED, PageRecord};

/// Where a page comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Ordinary memory.
    Anonymous,
    /// Forked from the zero page by a write: it may still be zero.
    ZeroFork,
    /// A VMO that a user pager supplies.
    PagerBacked,
}

impl Origin {
    /// Where the page of this record comes from.
    pub(crate) fn of(page: &PageRecord) -> Self {
        match (page.has(PAGER_BACKED), page.has(FROM_ZERO)) {
            (true, _) => Origin::PagerBacked,
            (false, true) => Origin::ZeroFork,
            (false, false) => Origin::Anonymous,
        }
    }
}

impl Counters {
    /// A page is a marker from now on.
    pub(crate) fn add_marker(&self, marker: Entry) {
        add(&self.same_filled_pages, 1);
        add(&self.zero_pages, u64::from(marker == Entry::Zero));
    }

    /// A page is a marker no more.
    pub(crate) fn drop_marker(&self, marker: Entry) {
        sub(&self.same_filled_pages, 1);
        sub(&self.zero_pages, u64::from(marker == Entry::Zero));
    }

    /// A page is held without a page from now on, as `entry` says.
    pub(crate) fn kept(&self, trigger: Trigger, origin: Origin, entry: Entry) {
        let trigger = match trigger {
            Trigger::Eager => &self.eager_compressions,
            Trigger::Pressure => &self.pressure_compressions,
            Trigger::Critical => &self.critical_compressions,
        };
        let origin = match origin {
            Origin::Anonymous => &self.kept_anonymous,
            Origin::ZeroFork => &self.kept_zero_fork,
            Origin::PagerBacked => &self.kept_pager_backed,
        };
        let form = match entry {
            Entry::Zero => &self.kept_zero,
            Entry::SameFilled(_) => &self.kept_same_filled,
            _ => &self.kept_stored,
        };
        for counter in [trigger, origin, form] {
            add(counter, 1);
        }
    }
}
