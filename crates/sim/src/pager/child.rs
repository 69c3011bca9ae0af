//! A copy of the process, of which the kernel tells the pager: what it has, what it changes while the pager fills it, and
//! what it finds in the end.

use super::kernel::{Kernel, kernel, place};
use super::os::again_from;
use super::space::{Content, State, pages};
use crate::failure::fail;
use crate::inject::Kind;
use crate::model::Expected;
use crate::schedule::{note, random};
use coldpress_uffd::{AddressRange, Errno, Message, PAGE_SIZE};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A page of a child.
struct Copied {
    state: State,
    /// What it must hold in the end. `None`: the parent was in the middle of changing it.
    expected: Option<Expected>,
}

/// So many changes of a child are remembered while it is filled: where it makes more, the rest of it is poisoned.
const MOST_CHANGES: u32 = 48;

/// A copy of the process.
pub struct Child {
    pages: RefCell<BTreeMap<usize, Copied>>,
    /// What it changes, until that is read.
    event: RefCell<Option<Message>>,
    /// How many changes it has made.
    changes: Cell<u32>,
    /// The parent's pager has let go of it.
    closed: Cell<bool>,
    /// It was heard of in the midst of a fork through libc, and is taken for that one's: a known gap (ADR 0003).
    pub is_in_the_gap: Cell<bool>,
}

impl Child {
    /// The kernel copies at once.
    pub fn of(kernel: &Kernel) -> Self {
        let copied = |page: usize| {
            let state = kernel.space.with(page, |s| s.clone())?;
            let expected = kernel.expected(page).filter(|_| !kernel.is_claimed(page));
            let expected = expected.map(|expected| Expected::clone(&expected));
            (!state.not_inherited).then_some((page, Copied { state, expected }))
        };
        let pages = kernel.space.all().into_iter().filter_map(copied).collect();
        Self {
            pages: RefCell::new(pages),
            event: RefCell::new(None),
            changes: Cell::new(0),
            closed: Cell::new(false),
            is_in_the_gap: Cell::new(false),
        }
    }

    fn again(&self) -> Result<(), Errno> {
        again_from(self.event.borrow().is_some())
    }

    /// COPY, ZEROPAGE and POISON. `step` lets others go first, the child too: the call waits for the mapping.
    pub fn fill(&self, page: usize, content: Content, step: impl FnOnce()) -> Result<usize, Errno> {
        self.again()?;
        step();
        if random().one_in(6) {
            self.change();
        }
        let mut copied = self.pages.borrow_mut();
        let Some(copied) = copied.get_mut(&page).filter(|c| c.state.registered) else {
            note(Kind::InstallGone);
            return Err(Errno::NOENT);
        };
        self.again()?;
        if !copied.state.is_away() {
            return Err(Errno::EXIST);
        }
        copied.state.content = content;
        note(Kind::ChildFilled);
        Ok(PAGE_SIZE)
    }

    /// Whether the page lies in memory that is registered.
    ///
    /// # Errors
    /// `AGAIN`: a change waits to be read.
    pub fn is_registered(&self, page: usize) -> Result<bool, Errno> {
        self.again()?;
        let copied = self.pages.borrow();
        Ok(copied.get(&page).is_some_and(|c| c.state.registered))
    }

    /// The child drops, unmaps or moves some of its memory.
    fn change(&self) {
        let mut copied = self.pages.borrow_mut();
        let makes_no_more = self.changes.get() == MOST_CHANGES;
        if makes_no_more || self.event.borrow().is_some() || copied.is_empty() {
            return;
        }
        let first = random().below(copied.len() as u64) as usize;
        let first = *copied.keys().nth(first).expect("counted");
        let range = AddressRange::new(first, random().between(1, 12) as usize * PAGE_SIZE);
        if !pages(range).all(|page| copied.contains_key(&page)) {
            return;
        }
        // The kernel tells only of what is registered.
        let registered = |c: &Copied| c.state.registered;
        let told = pages(range).all(|page| copied.get(&page).is_some_and(registered));
        if !told {
            return;
        }
        note(Kind::ChildChanges);
        self.changes.set(self.changes.get() + 1);
        let message = match random().below(3) {
            0 => Message::Remove(range),
            1 => {
                pages(range).for_each(|page| drop(copied.remove(&page)));
                Message::Unmap(range)
            }
            _ => {
                let to = kernel().space.all().last().expect("some") + (1 << 30);
                let to = to + random().below(1 << 20) as usize * PAGE_SIZE;
                for (n, page) in pages(range).enumerate() {
                    let moved = copied.remove(&page).expect("looked at");
                    copied.insert(to + n * PAGE_SIZE, moved);
                }
                Message::Remap {
                    from: range.start,
                    to,
                    len: range.len(),
                }
            }
        };
        *self.event.borrow_mut() = Some(message);
    }

    /// What the child says it changes; it goes on.
    pub fn read(&self) -> Option<Message> {
        let message = self.event.borrow_mut().take()?;
        if let Message::Remove(range) = message {
            for page in pages(range) {
                if let Some(copied) = self.pages.borrow_mut().get_mut(&page) {
                    copied.state.content = Content::Missing;
                    if let Some(expected) = &copied.expected {
                        expected.zero();
                    }
                }
            }
        }
        Some(message)
    }

    /// The registration of the child's memory ends, and it reads all of it.
    pub fn close(&self) {
        assert!(!self.closed.replace(true), "closed twice");
        if self.is_in_the_gap.get() {
            return;
        }
        note(Kind::ChildLetGo);
        for (&page, copied) in self.pages.borrow().iter() {
            let Some(expected) = &copied.expected else {
                continue;
            };
            let state = &copied.state;
            let differs = match &state.content {
                _ if state.guarded => None,
                Content::Poisoned if state.doubtful => None,
                Content::Poisoned => fail(place(page), "poisoned in a child, for no reason"),
                Content::Page(content) => expected.differs(&content[..], 0),
                Content::Missing | Content::Zero => expected.differs(&[0; PAGE_SIZE], 0),
            };
            if let Some((at, expected, found)) = differs {
                crate::failure::about(place(page));
                panic!(
                    "a child reads page {page:#x}: byte {at} is {found:#x} and must be {expected:#x}; {}",
                    state.describe()
                );
            }
        }
    }
}
