//! A VMO as the driver knows it: what each page may hold, and how large it may be.

use super::store::Store;
use crate::versions::Versions;
use coldpress_codec::{PAGE_SIZE, Page};
use coldpress_engine::vmo::VmoId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Content of a page; none: zeros.
pub type Content = Option<Rc<Page>>;

static ZEROS: Page = [0; PAGE_SIZE];

/// The bytes of it.
pub fn bytes(content: &Content) -> &Page {
    content.as_deref().unwrap_or(&ZEROS)
}

/// The number of the first VMO, beyond those of segments.
const FIRST_NUMBER: u32 = 1 << 20;

/// A VMO.
pub struct Object {
    /// Its name.
    pub id: VmoId,
    /// Its number, beyond those of segments: where the trace has what was done to it.
    pub number: u32,
    /// Its size.
    pub size: Versions<u64>,
    /// Its position in its family, so that it stays small.
    pub base: u64,
    /// Its user pager's, if it has one.
    pub store: Option<Store>,
    pages: RefCell<BTreeMap<u64, Rc<Versions<Content>>>>,
    /// Ranges that are being made zeros, and since when.
    zeroing: RefCell<Vec<(Range<u64>, u64)>>,
    /// Its end has begun.
    pub ending: Cell<bool>,
    /// Pins, under way or standing, and until when some stood.
    pins: Cell<u32>,
    pinned_until: Cell<u64>,
    /// Changes of content under way.
    pub changes: Cell<u32>,
    /// A change is under way that needs to know what it changes.
    pub exclusive: Cell<bool>,
}

impl Object {
    /// A VMO that was just created.
    pub fn new(id: VmoId, number: u32, pages: u64, base: u64, now: u64) -> Self {
        Self {
            id,
            number: FIRST_NUMBER + number,
            size: Versions::new(pages, now),
            base,
            store: None,
            pages: RefCell::default(),
            zeroing: RefCell::default(),
            ending: Cell::new(false),
            pins: Cell::new(0),
            pinned_until: Cell::new(0),
            changes: Cell::new(0),
            exclusive: Cell::new(false),
        }
    }

    /// The same of a VMO that has a user pager, and holds what that has.
    pub fn paged(id: VmoId, number: u32, pages: u64, store: Store, now: u64) -> Self {
        let object = Self::new(id, number, pages, 0, now);
        for (page, content) in store.pages() {
            object.set_page(page, Versions::new(content, 0));
        }
        Self {
            store: Some(store),
            ..object
        }
    }

    /// What a page may hold; nothing was ever written to one that is not here.
    pub fn page(&self, page: u64) -> Rc<Versions<Content>> {
        let mut pages = self.pages.borrow_mut();
        let fresh = || {
            let versions = Versions::new(None, 0);
            for (range, began) in &*self.zeroing.borrow() {
                if range.contains(&page) {
                    versions.begin(None, *began, 0);
                }
            }
            Rc::new(versions)
        };
        pages.entry(page).or_insert_with(fresh).clone()
    }

    /// The pages of a range that were ever written to.
    pub fn known(&self, range: Range<u64>) -> Vec<(u64, Rc<Versions<Content>>)> {
        let pages = self.pages.borrow();
        pages
            .range(range)
            .map(|(&page, versions)| (page, versions.clone()))
            .collect()
    }

    /// Pages may be pinned from now on.
    pub fn begin_pin(&self) {
        self.pins.set(self.pins.get() + 1);
    }

    /// They are not any more.
    pub fn end_pin(&self, now: u64) {
        self.pins.set(self.pins.get() - 1);
        self.pinned_until.set(now);
    }

    /// Whether some may have been pinned since.
    pub fn was_pinned(&self, since: u64) -> bool {
        self.pins.get() > 0 || self.pinned_until.get() >= since
    }

    /// Pages of a range begin to become zeros.
    pub fn begin_zeros(&self, range: Range<u64>, began: u64, oldest: u64) {
        for (_, versions) in self.known(range.clone()) {
            versions.begin(None, began, oldest);
        }
        self.zeroing.borrow_mut().push((range, began));
    }

    /// They have become zeros; or, if that is not `sure`, some of them.
    pub fn end_zeros(&self, range: Range<u64>, began: u64, now: u64, sure: bool) {
        for (_, versions) in self.known(range.clone()) {
            match sure {
                true => versions.end(began, now),
                false => versions.end_in_doubt(began, now),
            }
        }
        self.zeroing
            .borrow_mut()
            .retain(|change| *change != (range.clone(), began));
    }

    /// Sets what a page may hold.
    pub fn set_page(&self, page: u64, versions: Versions<Content>) {
        self.pages.borrow_mut().insert(page, Rc::new(versions));
    }

    /// The sizes that it may have had.
    pub fn sizes(&self, from: u64, to: u64) -> (u64, u64) {
        let sizes = self.size.possible(from, to);
        let (min, max) = (sizes.iter().min(), sizes.iter().max());
        (*min.expect("some size"), *max.expect("some size"))
    }
}
