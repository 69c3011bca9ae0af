//! Children of forks that read the file of pages that are written back, by their copies of tables and key.
//!
//! ```text
//!  begun ──▶ has its lock ──▶ is counted as locked ──▶ makes a child of its own, or not ──▶ reads, ends
//!    ├─▶ has no lock, as nothing of it is below memory: is counted, ends
//!    ╰─▶ ends before it says anything
//! ```
//!
//! A child finds what was there when it was made, as long as it reads. (Its content in memory is `check.rs`'s.)

use super::file::overlap;
use crate::failure::fail;
use crate::inject::Kind;
use crate::schedule::{note, random, simulation};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A record that a child must find: whose it is, where, and what.
#[derive(Clone)]
pub struct Kept {
    /// The page.
    pub page: usize,
    /// Where in the file.
    pub range: Range<usize>,
    /// What lies there.
    pub content: Rc<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Begun,
    Locked,
    Counted,
}

struct Reader {
    records: Vec<Kept>,
    stage: Stage,
    /// When it goes on.
    next: u64,
}

/// When children go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// While the program runs.
    Meanwhile,
    /// When the world ends.
    AtTheEnd,
}

/// The children.
#[derive(Default)]
pub struct Readers {
    all: RefCell<Vec<Reader>>,
    /// The words that the process and its copies share: how many were begun, and how many of them had their locks.
    pub words: [AtomicU32; 2],
}

impl Readers {
    /// A child is made, and was counted as begun.
    pub fn begin(&self, records: Vec<Kept>) {
        self.all.borrow_mut().push(Reader::new(records));
    }

    /// Whether any has a lock.
    pub fn have_locks(&self) -> bool {
        let all = self.all.borrow();
        all.iter().any(|reader| reader.stage != Stage::Begun)
    }

    /// What lies there need not be found.
    pub fn lose(&self, range: &Range<usize>) {
        for reader in self.all.borrow_mut().iter_mut() {
            reader.records.retain(|kept| !overlap(&kept.range, range));
        }
    }

    /// The time of some has come.
    pub fn hurry(&self) {
        let mut all = self.all.borrow_mut();
        let some = all.iter_mut().filter(|_| random().one_in(2));
        some.for_each(|reader| reader.next = 0);
    }

    /// Something is written there: no child that reads may find it.
    pub fn must_not_read(&self, range: &Range<usize>) {
        for reader in self.all.borrow().iter() {
            if let Some(kept) = reader.records.iter().find(|k| overlap(&k.range, range)) {
                let what = "written again in the file, and a child may read it";
                fail(super::kernel::place(kept.page), what);
            }
        }
    }

    /// Whether no copy of the process is left.
    pub fn are_gone(&self) -> bool {
        self.all.borrow().is_empty()
    }

    /// Those whose time has come go on; at the end each of them looks, and ends.
    pub fn go_on(&self, bytes: &[u8], moment: Moment) {
        let now = simulation().steps();
        let mut grandchildren = Vec::new();
        let mut all = self.all.borrow_mut();
        all.retain_mut(|reader| {
            if moment == Moment::AtTheEnd {
                reader.look(bytes);
                return false;
            }
            if now < reader.next {
                return true;
            }
            reader.next = now + random().below(4_000);
            self.goes_on(reader, bytes, &mut grandchildren)
        });
        all.append(&mut grandchildren);
    }

    /// Whether there is more to do.
    fn goes_on(&self, reader: &mut Reader, bytes: &[u8], children: &mut Vec<Reader>) -> bool {
        let [begun, locked] = &self.words;
        match reader.stage {
            Stage::Begun => match random().below(24) {
                // Nobody ends what is kept for it.
                0 => note(Kind::FileChildUnheard),
                1..=3 => drop(locked.fetch_add(1, Relaxed)),
                _ => {
                    reader.stage = Stage::Locked;
                    return true;
                }
            },
            Stage::Locked => {
                locked.fetch_add(1, Relaxed);
                reader.stage = Stage::Counted;
                return true;
            }
            Stage::Counted => {
                if random().one_in(4) {
                    note(Kind::FileGrandchild);
                    begun.fetch_add(1, Relaxed);
                    children.push(Reader::new(reader.records.clone()));
                }
                reader.look(bytes);
            }
        }
        false
    }
}

impl Reader {
    fn new(records: Vec<Kept>) -> Self {
        Self {
            records,
            stage: Stage::Begun,
            next: simulation().steps() + random().below(2_000),
        }
    }

    fn look(&self, bytes: &[u8]) {
        note(Kind::FileChildLooked);
        for kept in &self.records {
            if bytes[kept.range.clone()] != kept.content[..] {
                let what = "a child would read of the file what was not there when it was made";
                fail(super::kernel::place(kept.page), what);
            }
        }
    }
}
