//! Children that are made behind libc's back: `clone` by an instruction of the program's own, around which no hook stands.
//!
//! With `UFFD_FEATURE_EVENT_FORK`, for which the kernel wants CAP_SYS_PTRACE, the pager hears of every copy of the process.
//! It asks for that with `coldpress run --raw-clones`:
//!
//! ```text
//!  cloning thread          kernel                               handler
//!  clone ────────────────▶ copies the page tables; from here on
//!                          every move and copy answers EAGAIN
//!                          event, with the child's userfaultfd ▶ reads it with the gate closed
//!  goes on ◀────────────── the parent, and the child            puts into the child all that is away in the parent
//!                          (a missing page: the child waits)
//!                          child's registration ends ◀───────── closes the child's userfaultfd
//! ```
//!
//! So the child has all its content, in place, and no pager. It inherits a pager's state all the same, which has to
//! find out that it is nobody's: [`Presence`] is a page that the kernel wipes in every child.
//!
//! Between the hooks of libc's fork the child's own hook does all that, and the handler only closes the descriptor.
//!
//! While content is put into the child it runs. What it drops, unmaps and moves it says to its own userfaultfd, and
//! waits until that is read: what was not put in place yet follows (`Filling::place_now`).
//!
//! Invariants:
//! * I1 The gate is closed from the reading of the event to the end: what is away in the parent stays what it was at
//!   the moment of the copy ([`Engine::recall`](coldpress_engine::Engine::recall)).
//! * I2 A page that cannot be put into the child is poisoned there; a touch ends the child. It reads no zeros, unless the
//!   parent ends meanwhile, and this thread with it: the gap for which it is not the default.

use crate::fork::protocol::Operation;
use crate::machine::message;
use crate::machine::os::{Os, Userfaults};
use crate::space::paging::outcome;
use crate::{Codec, Pager};
use coldpress_engine::{Content, Entry, Installed, LEAF_PAGES, SEGMENT_PAGES, Workspace};
use coldpress_uffd::{AddressRange, Errno, Message, PAGE_SIZE};
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Whether this process is the one whose pager this is: false in a child that no hook has seen.
pub struct Presence(AtomicPtr<AtomicU32>);

impl Default for Presence {
    fn default() -> Self {
        Self::new()
    }
}

impl Presence {
    /// It is, as long as nothing is known.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// From now on `word` tells.
    ///
    /// # Safety
    /// It is the first of a page of our own that stays, and that the kernel wipes in children.
    pub(crate) unsafe fn begin(&self, word: *mut AtomicU32) {
        self.0.store(word, Release);
        self.is_here_again();
    }

    fn word(&self) -> Option<&AtomicU32> {
        // SAFETY: null, or as `begin` was promised.
        unsafe { self.0.load(Acquire).as_ref() }
    }

    /// Whether the kernel tells.
    pub(crate) fn is_known(&self) -> bool {
        self.word().is_some()
    }

    /// Whether it is.
    pub(crate) fn is_here(&self) -> bool {
        self.word().is_none_or(|word| word.load(Relaxed) != 0)
    }

    /// It is, in a child that a hook has seen.
    pub(crate) fn is_here_again(&self) {
        if let Some(word) = self.word() {
            word.store(1, Relaxed);
        }
    }
}

/// Changes of a child's address space that are remembered while it is filled.
const CHANGES: usize = 48;
/// So many generations are filled at once.
const GENERATIONS: u32 = 4;
/// How often memory is waited for, 50 microseconds at a time.
const PATIENCE: u32 = 2000;

impl<O: Os> Pager<O> {
    /// The process was copied, and `descriptor` is the copy's userfaultfd. The gate is closed (I1).
    pub(crate) fn child_was_made(&self, descriptor: i32) {
        // SAFETY: read a moment ago, in the table of the pager's threads.
        let child = unsafe { O::Userfaultfd::of_child(descriptor) };
        if self.fork.still.load(Acquire) {
            return;
        }
        let filling = Filling {
            pager: self,
            changes: [Operation::Restored(0); CHANGES],
            count: 0,
            generation: 1,
            is_in_doubt: false,
        };
        // SAFETY: the gate is closed, so nobody else fills a child.
        filling.fill(child, unsafe { self.workplace.filler() });
    }
}

/// Content on its way into a child.
struct Filling<'a, O: Os> {
    pager: &'a Pager<O>,
    /// What the child has changed meanwhile, in order.
    changes: [Operation; CHANGES],
    count: usize,
    generation: u32,
    /// It is not known what belongs where, or there is no memory: what is left is poisoned (I2).
    is_in_doubt: bool,
}

/// What became of a page.
#[derive(PartialEq, Eq)]
enum Given {
    /// It is there, or is not wanted.
    Done,
    /// The child has ended, or become another program.
    NoChild,
    /// It could not even be poisoned.
    Refused,
}

impl<O: Os> Filling<'_, O> {
    fn fill(mut self, child: O::Userfaultfd, workspace: &mut Workspace<Codec>) {
        let engine = &self.pager.engine;
        for (segment, window) in self.pager.host.windows.iter() {
            for leaf in (0..SEGMENT_PAGES).step_by(LEAF_PAGES as usize) {
                if !engine.has_leaf(segment, leaf) {
                    continue;
                }
                for index in leaf..leaf + LEAF_PAGES {
                    if let Entry::Empty | Entry::Page(_) | Entry::Zero =
                        engine.entry(segment, index)
                    {
                        continue;
                    }
                    let address = window.address(index);
                    match self.give(&child, workspace, (segment, index), address) {
                        Given::Done => {}
                        Given::NoChild => return,
                        Given::Refused => return leave_waiting(child, address),
                    }
                }
            }
        }
    }

    fn give(
        &mut self,
        child: &O::Userfaultfd,
        workspace: &mut Workspace<Codec>,
        (segment, index): (u32, u32),
        address: usize,
    ) -> Given {
        let (pager, mut tries) = (self.pager, 0);
        loop {
            let Some(address) = self.place_now(address) else {
                return Given::Done;
            };
            let at = AddressRange::new(address, PAGE_SIZE);
            let given = match pager.engine.recall(pager, workspace, segment, index) {
                Content::Present | Content::Nothing => return Given::Done,
                Content::Bytes(page) if !self.is_in_doubt => {
                    // SAFETY: a page of ours, which is readable.
                    unsafe { child.copy(address, page.as_ptr(), PAGE_SIZE) }
                }
                Content::Bytes(_) | Content::Doubtful => child.poison(at),
            };
            // The kernel answers ENOENT also where the memory is moved away while the call waits for its mapping.
            let is_changing = || child.is_registered(at) == Err(Errno::AGAIN);
            match (given, outcome(given)) {
                (Err(Errno::SRCH), _) => return Given::NoChild,
                (_, Installed::Gone) if !is_changing() => return Given::Done,
                (_, Installed::Changing | Installed::Gone) => {
                    if !self.listen(child, workspace) {
                        tries += 1;
                        O::sleep_ns(50_000);
                    }
                }
                (_, Installed::Refused) => tries = PATIENCE,
                _ => return Given::Done,
            }
            if tries >= PATIENCE {
                if core::mem::replace(&mut self.is_in_doubt, true) {
                    return Given::Refused;
                }
                tries = 0;
            }
        }
    }

    /// Reads what the child says it changes. Whether it said anything.
    fn listen(&mut self, child: &O::Userfaultfd, workspace: &mut Workspace<Codec>) -> bool {
        let mut message = [Message::Unknown(0)];
        if !matches!(child.read(&mut message), Ok(1)) {
            return false;
        }
        match message[0] {
            Message::Remove(range) | Message::Unmap(range) => self.note(Operation::Dropped(range)),
            Message::Remap { from, to, len } => self.note(Operation::Remap { from, to, len }),
            Message::Fork { descriptor } => {
                // SAFETY: as in `child_was_made`.
                let grandchild = unsafe { O::Userfaultfd::of_child(descriptor) };
                let generation = self.generation + 1;
                let filling = Filling {
                    generation,
                    is_in_doubt: self.is_in_doubt || generation > GENERATIONS,
                    ..*self
                };
                filling.fill(grandchild, workspace);
            }
            // It waits for its page, or for the end.
            Message::Fault { .. } | Message::Unknown(_) => {}
        }
        true
    }

    fn note(&mut self, change: Operation) {
        if let Some(last) = self.changes[..self.count].last_mut()
            && let Some(both) = joined(*last, change)
        {
            *last = both;
            return;
        }
        match self.changes.get_mut(self.count) {
            Some(place) => {
                *place = change;
                self.count += 1;
            }
            None => self.is_in_doubt = true,
        }
    }

    /// Where in the child the page lies that was at `address` when it was made. `None`: it has dropped it.
    fn place_now(&self, mut address: usize) -> Option<usize> {
        for change in &self.changes[..self.count] {
            match *change {
                Operation::Dropped(range) if range.contains(address) => return None,
                Operation::Remap { from, to, len } => {
                    if AddressRange::new(from, len).contains(address) {
                        address = address - from + to;
                    } else if AddressRange::new(to, len).contains(address) {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(address)
    }
}

/// One change for two where the second goes on with the first: a range that is several mappings is moved piece by piece.
fn joined(first: Operation, second: Operation) -> Option<Operation> {
    match (first, second) {
        (Operation::Dropped(a), Operation::Dropped(b)) if a.end == b.start => {
            let (start, end) = (a.start, b.end);
            Some(Operation::Dropped(AddressRange { start, end }))
        }
        (
            Operation::Remap { from, to, len },
            Operation::Remap {
                from: f,
                to: t,
                len: l,
            },
        ) if f == from + len && t == to + len => {
            let len = len + l;
            Some(Operation::Remap { from, to, len })
        }
        _ => None,
    }
}

/// Where not even poison can be put the child waits for ever in a touch, rather than read zeros.
fn leave_waiting<U>(child: U, address: usize) {
    message::say(format_args!(
        "page {address:#x} could not be put into a child that was made behind libc's back; it waits where it touches that"
    ));
    core::mem::forget(child);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_go_on_are_one() {
        let dropped = |start, len| Operation::Dropped(AddressRange::new(start, len));
        let moved = |from, to, len| Operation::Remap { from, to, len };
        let range = |o: Operation| match o {
            Operation::Dropped(range) => (range.start, range.end, 0),
            Operation::Remap { from, to, len } => (from, to, len),
            other => panic!("{other:?}"),
        };
        let one = joined(dropped(0x1000, 0x1000), dropped(0x2000, 0x3000)).map(range);
        assert_eq!(one, Some((0x1000, 0x5000, 0)));
        let one = joined(moved(0x1000, 0x9000, 0x1000), moved(0x2000, 0xA000, 0x1000)).map(range);
        assert_eq!(one, Some((0x1000, 0x9000, 0x2000)));
        for (a, b) in [
            (dropped(0x1000, 0x1000), dropped(0x3000, 0x1000)),
            (dropped(0x1000, 0x1000), moved(0x2000, 0x9000, 0x1000)),
            (moved(0x1000, 0x9000, 0x1000), moved(0x2000, 0xB000, 0x1000)),
        ] {
            assert!(joined(a, b).is_none(), "{a:?} {b:?}");
        }
    }

    #[test]
    fn presence_is_what_its_word_says() {
        let presence = Presence::new();
        assert!(presence.is_here(), "before anything is known");
        let mut word = AtomicU32::new(0);
        // SAFETY: the word outlives what looks at it.
        unsafe { presence.begin(&raw mut word) };
        assert!(presence.is_here());
        word.store(0, Relaxed);
        assert!(!presence.is_here(), "wiped");
        presence.is_here_again();
        assert!(presence.is_here());
    }
}
