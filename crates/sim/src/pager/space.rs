//! The program's address space, as the kernel keeps it: what is mapped, registered and in place, page by page.
//!
//! Mappings are not kept: they are what neighbours have in common, as the kernel joins and splits anonymous memory too.

use coldpress_codec::Page;
use coldpress_uffd::{AddressRange, PAGE_SIZE};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Where the program's memory begins: some pages below the border of a window.
pub const BASE: usize = (1 << 36) - 96 * PAGE_SIZE;

/// What is in place.
#[derive(Clone, Debug, Default)]
pub enum Content {
    /// Nothing.
    #[default]
    Missing,
    /// The kernel's page of zeros.
    Zero,
    /// A page of its own.
    Page(Box<Page>),
    /// A touch raises SIGBUS.
    Poisoned,
}

/// What the kernel knows of a page that is mapped.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What is in place.
    pub content: Content,
    /// Registered with the pager's userfaultfd.
    pub registered: bool,
    /// Kept from children: `MADV_DONTFORK`.
    pub not_inherited: bool,
    /// By the program, and not only by the pager.
    pub kept_by_program: bool,
    /// A guard lies there: a touch raises SIGSEGV.
    pub guarded: bool,
    /// A fork has shared it: it cannot be moved before it is written to.
    pub shared: bool,
    /// It was told that this page will be dropped, and it is still there.
    pub doomed: bool,
    /// Its content was damaged, or refused: it may be poisoned, until something is put in place. (Dropping it changes
    /// nothing: a handler may be about to poison it.)
    pub doubtful: bool,
    /// Pinned by the kernel: it cannot be moved.
    pub pinned: bool,
    /// The program has said that it cannot wait for it, and was told that it need not.
    pub sensitive: bool,
    /// A mapping has grown by it, in a call that has not returned: the program does not know of it.
    pub unknown: bool,
    /// That call populates it, and it may not be dropped.
    pub locked: bool,
    /// A robust mutex lies in it: the kernel marks it when a thread dies that holds it, and waits for no page then.
    pub mutex: bool,
}

impl State {
    /// Registered and missing: a touch is a fault of the pager's.
    pub fn is_away(&self) -> bool {
        self.registered && matches!(self.content, Content::Missing)
    }

    /// In words, for a failure.
    pub fn describe(&self) -> String {
        let content = match self.content {
            Content::Missing => "missing",
            Content::Zero => "page of zeros",
            Content::Page(_) => "page",
            Content::Poisoned => "poisoned",
        };
        let registered = if self.registered { ", registered" } else { "" };
        format!("{content}{registered}")
    }

    /// Whether two neighbours can lie in one mapping.
    fn joins(&self, other: &Self) -> bool {
        (self.registered, self.not_inherited) == (other.registered, other.not_inherited)
    }
}

/// The address space.
#[derive(Default)]
pub struct Space(RefCell<BTreeMap<usize, State>>);

/// Pages of a range, by their addresses.
pub fn pages(range: AddressRange) -> impl DoubleEndedIterator<Item = usize> + Clone {
    (range.start..range.end).step_by(PAGE_SIZE)
}

impl Space {
    /// Maps a page.
    pub fn map(&self, address: usize) {
        let before = self.0.borrow_mut().insert(address, State::default());
        assert!(before.is_none(), "{address:#x} is mapped twice");
    }

    /// Unmaps a page; what it was.
    pub fn unmap(&self, address: usize) -> Option<State> {
        self.0.borrow_mut().remove(&address)
    }

    /// Puts a page that was unmapped somewhere else.
    pub fn put(&self, address: usize, state: State) {
        self.0.borrow_mut().insert(address, state);
    }

    /// Acts on a page. `None`: nothing is mapped there.
    pub fn with<T>(&self, address: usize, act: impl FnOnce(&mut State) -> T) -> Option<T> {
        self.0.borrow_mut().get_mut(&address).map(act)
    }

    /// Whether this holds for a page. It does not where nothing is mapped.
    pub fn is(&self, address: usize, holds: impl FnOnce(&State) -> bool) -> bool {
        self.0.borrow().get(&address).is_some_and(holds)
    }

    /// Whether there is such a page.
    pub fn is_mapped(&self, address: usize) -> bool {
        self.0.borrow().contains_key(&address)
    }

    /// Whether a page has content of its own.
    pub fn is_populated(&self, address: usize) -> bool {
        self.is(address, |state| matches!(state.content, Content::Page(_)))
    }

    /// Whether anything is in place.
    pub fn is_in_place(&self, address: usize) -> bool {
        self.is(address, |state| {
            matches!(state.content, Content::Page(_) | Content::Zero)
        })
    }

    /// Every page.
    pub fn all(&self) -> Vec<usize> {
        self.0.borrow().keys().copied().collect()
    }

    /// How many pages have content of their own.
    pub fn populated(&self) -> u64 {
        let space = self.0.borrow();
        let pages = space.values();
        pages
            .filter(|s| matches!(s.content, Content::Page(_)))
            .count() as u64
    }

    /// The first mapping that ends behind an address.
    pub fn mapping_behind(&self, address: usize) -> Option<AddressRange> {
        let space = self.0.borrow();
        let mut behind = space.range(address..);
        let (&start, state) = behind.next()?;
        let mut end = start + PAGE_SIZE;
        for (&at, other) in behind {
            if at != end || !other.joins(state) {
                break;
            }
            end += PAGE_SIZE;
        }
        Some(AddressRange { start, end })
    }

    /// Whether a page is the first of its mapping, or of none.
    pub fn begins_mapping(&self, address: usize) -> bool {
        let space = self.0.borrow();
        let [before, here] = [address - PAGE_SIZE, address].map(|at| space.get(&at));
        !matches!((before, here), (Some(before), Some(here)) if before.joins(here))
    }

    /// Whether all of a range lies in one mapping.
    pub fn is_one_mapping(&self, range: AddressRange) -> bool {
        let mapping = self.mapping_behind(range.start);
        mapping.is_some_and(|m| m.start <= range.start && range.end <= m.end)
    }

    /// The page at which a range begins another mapping, where only the pager is the reason, by what it has registered or
    /// marked: natively the range would lie in one.
    pub fn split_by_the_pager(&self, range: AddressRange) -> Option<usize> {
        let space = self.0.borrow();
        let states: Option<Vec<&State>> = pages(range).map(|page| space.get(&page)).collect();
        let states = states?;
        let first = states.first()?;
        let other = states.iter().position(|state| !state.joins(first))?;
        let is_one = |state: &&State| state.kept_by_program == first.kept_by_program;
        let natively_one = states.iter().all(is_one);
        natively_one.then_some(range.start + other * PAGE_SIZE)
    }
}
