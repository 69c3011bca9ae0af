//! The kernel that the simulated pager runs on: memory management as docs/kernel-behaviour.md tells of it.
//!
//! ```text
//!  space       what is mapped, registered, in place
//!  staging     which pages of staging hold something; they are real memory
//!  faults      touches that nobody has read yet        the userfaultfd's two queues:
//!  events      changes that nobody has read yet        faults are read first
//!  changing    changes announced and not over: COPY, MOVE … answer EAGAIN
//!  readers     calls under way that change nothing of the mappings: a change waits for them
//! ```

use super::child::Child;
use super::file::File;
use super::os::CROWD_BYTES;
use super::space::{Content, Space, pages};
use crate::model::Expected;
use crate::sabotage::PagerSabotage;
use crate::schedule::{self, MAX_THREADS, block, random, simulation, step, wake};
use crate::trace::What;
use coldpress_codec::Page;
use coldpress_pager::machine::os::Remapping;
use coldpress_uffd::{Access, AddressRange, Message, PAGE_SIZE};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

/// Key of threads that wait for something to read.
pub const READERS: u64 = 1 << 63 | 1 << 61;
/// Key of threads that wait to change the address space.
const CHANGERS: u64 = 1 << 63 | 1 << 60;
/// Key, with its number, of a thread that waits for an event to be read.
const READ: u64 = 1 << 63 | 1 << 59;

const PAGE_KEY: u64 = 1 << 62;

/// What those wait for whose page is to come.
pub fn key_of(address: usize) -> u64 {
    PAGE_KEY | address as u64
}

/// A touch that waits to be read.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The page.
    pub address: usize,
    /// What the touch was.
    pub access: Access,
    /// By whom.
    pub thread: usize,
}

/// A change that waits to be read, and who waits for that.
pub struct Event {
    message: Message,
    key: u64,
}

/// A range that a call of the program is changing.
struct Change {
    range: AddressRange,
    /// It is unmapped, and not told yet: other memory may come there.
    is_free: bool,
    number: u64,
}

/// The kernel, and what the program must find in its memory.
pub struct Kernel {
    /// The program's memory.
    pub space: Space,
    /// Where staging lies; nothing before it was registered.
    pub staging: Cell<AddressRange>,
    /// Pages of staging that hold something.
    pub staged: RefCell<BTreeSet<usize>>,
    /// Staging is registered.
    pub staging_registered: Cell<bool>,
    /// Touches that nobody has read.
    pub faults: RefCell<VecDeque<Fault>>,
    /// Changes that nobody has read.
    pub events: RefCell<VecDeque<Event>>,
    /// Changes announced and not over.
    pub changing: Cell<u32>,
    /// Changes announced and not read: by whom, and at which step.
    announced: RefCell<Vec<(u64, u64)>>,
    /// At which step each thread of the pager was seen outside of the gate.
    outside: [Cell<u64>; MAX_THREADS + 1],
    readers: Cell<u32>,
    writer: Cell<bool>,
    /// Threads that have blocked all signals.
    pub blocked: [Cell<bool>; MAX_THREADS + 1],
    /// The page that each thread waits for; 0: it waits for none, or was woken.
    pub waits_for: [Cell<usize>; MAX_THREADS + 1],
    /// What each thread is in the middle of moving, or making longer.
    pub remapping: [Cell<Option<Remapping>>; MAX_THREADS + 1],
    /// Threads that handle a signal.
    pub handling: [Cell<bool>; MAX_THREADS + 1],
    /// What each page must hold.
    pub expected: RefCell<BTreeMap<usize, Rc<Expected>>>,
    /// Ranges that a call of the program is changing: a program that is right changes them by no other call meanwhile.
    in_change: RefCell<Vec<Change>>,
    /// Copies of the process, by their descriptors.
    pub children: RefCell<Vec<Rc<Child>>>,
    /// Some process has what the last fork has shared.
    pub child_lives: Cell<bool>,
    /// Where pages are written back to.
    pub file: File,
    /// The machine is short of memory.
    pub is_short: Cell<bool>,
    /// Others of the memory group hold so much.
    pub others_bytes: Cell<u64>,
    /// The limit of the memory group.
    pub group_limit_bytes: Cell<u64>,
    /// Nanoseconds that a step takes.
    pub step_ns: u64,
    /// The clock says more than the steps make, by so much.
    pub ahead_ns: Cell<u64>,
    /// Something is looked at as it is at one moment: nobody goes on.
    pub is_frozen: Cell<bool>,
    /// The program has ended: so do the pager's threads.
    pub over: Cell<bool>,
    /// What is wrong with it on purpose.
    pub sabotage: PagerSabotage,
}

/// The kernel of the simulation that the caller is part of.
pub fn kernel() -> &'static Kernel {
    &super::world().kernel
}

/// What ends the pager's threads when the program has ended.
pub struct Over;

impl Kernel {
    /// One with nothing mapped.
    pub fn new(step_ns: u64, now_ns: u64, sabotage: PagerSabotage) -> Self {
        Self {
            space: Space::default(),
            staging: Cell::new(AddressRange { start: 0, end: 0 }),
            staged: RefCell::default(),
            staging_registered: Cell::new(false),
            faults: RefCell::default(),
            events: RefCell::default(),
            changing: Cell::new(0),
            announced: RefCell::default(),
            outside: [const { Cell::new(0) }; MAX_THREADS + 1],
            readers: Cell::new(0),
            writer: Cell::new(false),
            blocked: [const { Cell::new(false) }; MAX_THREADS + 1],
            waits_for: [const { Cell::new(0) }; MAX_THREADS + 1],
            remapping: [const { Cell::new(None) }; MAX_THREADS + 1],
            handling: [const { Cell::new(false) }; MAX_THREADS + 1],
            expected: RefCell::default(),
            in_change: RefCell::default(),
            children: RefCell::default(),
            child_lives: Cell::new(false),
            file: File::default(),
            is_short: Cell::new(false),
            others_bytes: Cell::new(0),
            group_limit_bytes: Cell::new(CROWD_BYTES),
            step_ns,
            ahead_ns: Cell::new(now_ns),
            is_frozen: Cell::new(false),
            over: Cell::new(false),
            sabotage,
        }
    }

    /// What the clock says.
    pub fn now_ns(&self) -> u64 {
        self.ahead_ns.get() + simulation().steps() * self.step_ns
    }

    /// Time in steps.
    pub fn steps_of(&self, ns: u64) -> u64 {
        (ns / self.step_ns).max(1)
    }

    /// A thread of the pager ends here if the program has ended.
    pub fn end_if_over(&self) {
        if self.over.get() && !std::thread::panicking() && is_pagers() {
            std::panic::resume_unwind(Box::new(Over));
        }
    }

    /// Looks at everything as it is at one moment, though locks are taken for it: nobody else goes on meanwhile.
    pub fn frozen<T>(&self, look: impl FnOnce() -> T) -> T {
        self.is_frozen.set(true);
        let seen = look();
        self.is_frozen.set(false);
        seen
    }

    /// Maps fresh memory.
    pub fn map(&self, range: AddressRange) {
        for page in pages(range) {
            self.space.map(page);
            self.expected
                .borrow_mut()
                .insert(page, Rc::new(Expected::default()));
        }
    }

    /// What a page must hold. `None`: there is no such page.
    pub fn expected(&self, page: usize) -> Option<Rc<Expected>> {
        self.expected.borrow().get(&page).cloned()
    }

    /// Compares a page with what it must hold.
    pub fn compare(&self, page: usize, content: &Page, who: &str) {
        let Some(expected) = self.expected(page) else {
            return;
        };
        if let Some((at, expected, found)) = expected.differs(content, 0) {
            crate::failure::about(place(page));
            let state = self.space.with(page, |s| s.describe());
            panic!(
                "{who}: page {page:#x}, byte {at} is {found:#x} and must be {expected:#x}; {}",
                state.unwrap_or_default()
            );
        }
    }

    /// Wakes all that wait for pages of a range, and forgets what nobody has read of them.
    pub fn wake_range(&self, range: AddressRange) {
        self.faults
            .borrow_mut()
            .retain(|fault| !range.contains(fault.address));
        for waits_for in &self.waits_for {
            if range.contains(waits_for.get()) {
                wake(key_of(waits_for.replace(0)));
            }
        }
    }

    /// Whether a thread waits for a page that it populates, since it has grown by it.
    pub fn is_populating(&self, page: usize) -> bool {
        let threads = self.waits_for.iter().zip(&self.remapping);
        let mut threads = threads.filter(|(_, call)| call.get().is_some());
        threads.any(|(waits_for, _)| waits_for.get() == page)
    }

    /// Puts something in place where nothing is.
    pub fn put(&self, page: usize, content: Content) {
        let put = self.space.with(page, |state| {
            state.doubtful &= matches!(content, Content::Poisoned);
            state.content = content;
            state.shared = false;
        });
        assert!(put.is_some(), "put where nothing is mapped");
    }

    /// A call of the program is about to change a range. `None`: another is changing some of it, and a program that is
    /// right makes no such call.
    pub fn claim(&self, range: AddressRange) -> Option<Claim<'_>> {
        self.claim_where(range, |_| false)
    }

    /// As [`claim`](Self::claim), for a place to which memory is to come: the kernel may choose what another call has
    /// unmapped, and is still telling of.
    pub fn claim_for_new(&self, range: AddressRange) -> Option<Claim<'_>> {
        self.claim_where(range, |other| other.is_free)
    }

    fn claim_where(
        &self,
        range: AddressRange,
        allows: impl Fn(&Change) -> bool,
    ) -> Option<Claim<'_>> {
        let mut claimed = self.in_change.borrow_mut();
        let free = |other: &Change| other.range.intersect(range).is_empty() || allows(other);
        if !claimed.iter().all(free) {
            return None;
        }
        let number = claimed.iter().map(|c| c.number).max().unwrap_or(0) + 1;
        claimed.push(Change {
            range,
            is_free: false,
            number,
        });
        Some(Claim {
            kernel: self,
            number,
        })
    }

    /// Some page that a call of the program is changing.
    pub fn some_page_in_change(&self) -> Option<usize> {
        let claimed = self.in_change.borrow();
        let count = claimed.len() as u64;
        let range = claimed.get(random().below(count.max(1)) as usize)?.range;
        let page = random().below((range.len() / PAGE_SIZE) as u64) as usize;
        Some(range.start + page * PAGE_SIZE)
    }

    /// Whether a call of the program is changing a page.
    pub fn is_claimed(&self, page: usize) -> bool {
        let claimed = self.in_change.borrow();
        claimed.iter().any(|c| c.range.contains(page))
    }

    /// Some range that is unmapped, and not told yet.
    pub fn some_free_range(&self) -> Option<AddressRange> {
        let claimed = self.in_change.borrow();
        let free: Vec<_> = claimed.iter().filter(|c| c.is_free).collect();
        (!free.is_empty()).then(|| random().pick(&free).range)
    }

    /// Whether some of a range is unmapped, and not told yet.
    pub fn is_untold(&self, range: AddressRange) -> bool {
        let claimed = self.in_change.borrow();
        let mut free = claimed.iter().filter(|c| c.is_free);
        free.any(|c| !c.range.intersect(range).is_empty())
    }

    /// A call that leaves the mappings as they are: changes wait until it is over.
    pub fn read_lock(&self) -> ReadLock<'_> {
        while self.writer.get() {
            block(CHANGERS, None);
            self.end_if_over();
        }
        self.readers.set(self.readers.get() + 1);
        ReadLock(self)
    }

    /// A call that changes the mappings: nobody else is in the middle of anything.
    pub fn write_lock(&self) -> WriteLock<'_> {
        while self.writer.get() || self.readers.get() > 0 {
            block(CHANGERS, None);
            self.end_if_over();
        }
        self.writer.set(true);
        WriteLock(self)
    }

    /// A change is announced: from now on nothing is put in place or moved.
    pub fn announce(&self) {
        self.changing.set(self.changing.get() + 1);
        let by = (simulation().current() as u64, simulation().steps());
        self.announced.borrow_mut().push(by);
    }

    /// The running thread of the pager is outside of the gate.
    pub fn note_outside(&self) {
        self.outside[simulation().current()].set(simulation().steps());
    }

    /// Whether a change waits to be read that was announced before the running thread went into the gate.
    pub fn is_behind(&self) -> bool {
        let outside = self.outside[simulation().current()].get();
        self.announced.borrow().iter().any(|&(_, at)| at < outside)
    }

    /// Tells of a change that was announced, waits until that was read, and goes on.
    pub fn tell(&self, message: Message) {
        let key = READ | schedule::simulation().current() as u64;
        self.events.borrow_mut().push_back(Event { message, key });
        wake(READERS);
        block(key, None);
        self.changing.set(self.changing.get() - 1);
    }

    /// Reads one message.
    pub fn read(&self) -> Option<Message> {
        step(What::Serve, 0, 0, 0);
        if let Some(fault) = self.faults.borrow_mut().pop_front() {
            return Some(Message::Fault {
                address: fault.address,
                access: fault.access,
                thread: fault.thread as u32 + 1,
            });
        }
        let Event { message, key } = self.events.borrow_mut().pop_front()?;
        // What is away belongs to the pager, and is gone from here on.
        if let Message::Remove(range) = message {
            for page in pages(range) {
                let missing = self.space.with(page, |s| {
                    s.doomed = !matches!(s.content, Content::Missing);
                    !s.doomed
                });
                if missing == Some(true)
                    && let Some(expected) = self.expected(page)
                {
                    expected.zero();
                }
            }
        }
        let mut announced = self.announced.borrow_mut();
        let first = announced.iter().position(|&(by, _)| READ | by == key);
        announced.remove(first.expect("announced before it is told"));
        wake(key);
        Some(message)
    }

    /// Whether there is something to read.
    pub fn is_readable(&self) -> bool {
        !self.faults.borrow().is_empty() || !self.events.borrow().is_empty()
    }

    /// Whether a page of staging holds something.
    pub fn is_staged(&self, page: usize) -> bool {
        self.staged.borrow().contains(&page)
    }

    /// Drops pages of the pager's own memory.
    pub fn drop_own(&self, range: AddressRange) {
        let mut staged = self.staged.borrow_mut();
        for page in pages(range) {
            staged.remove(&page);
        }
    }
}

/// Whether a thread of the pager is running.
pub fn is_pagers() -> bool {
    matches!(simulation().current_name(), "handler" | "reclaim")
}

/// Segment and index for the trace: pages by their number from the start.
pub fn place(address: usize) -> (u32, u32) {
    match address.checked_sub(super::space::BASE) {
        Some(offset) if offset < 1 << 34 => (1, (offset / PAGE_SIZE) as u32),
        _ => (0, 0),
    }
}

/// See [`Kernel::claim`].
pub struct Claim<'a> {
    kernel: &'a Kernel,
    number: u64,
}

impl Claim<'_> {
    /// All of it is unmapped now.
    pub fn is_unmapped(&self) {
        let mut claimed = self.kernel.in_change.borrow_mut();
        let own = claimed.iter_mut().find(|c| c.number == self.number);
        own.expect("claimed").is_free = true;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.kernel.in_change.borrow_mut();
        let own = claimed.iter().position(|c| c.number == self.number);
        claimed.swap_remove(own.expect("claimed"));
    }
}

/// See [`Kernel::read_lock`].
pub struct ReadLock<'a>(&'a Kernel);

impl Drop for ReadLock<'_> {
    fn drop(&mut self) {
        self.0.readers.set(self.0.readers.get() - 1);
        if self.0.readers.get() == 0 {
            wake(CHANGERS);
        }
    }
}

/// See [`Kernel::write_lock`].
pub struct WriteLock<'a>(&'a Kernel);

impl Drop for WriteLock<'_> {
    fn drop(&mut self) {
        self.0.writer.set(false);
        wake(CHANGERS);
    }
}
