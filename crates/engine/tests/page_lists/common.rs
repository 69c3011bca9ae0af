//! A page list outside of any VMO, and short words for what tests say of it.

use crate::spin_lock::SpinLock;
use coldpress_arena::ChunkSource;
use coldpress_engine::Entry;
use coldpress_engine::interval::{Bound, DirtyState};
use coldpress_engine::vmo::pages::{self, List, Piece, Places, Run, Walk};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::ops::Range;
use std::ptr::NonNull;
use std::rc::Rc;

/// Pages of a leaf: Zircon's nodes have 16.
pub const LEAF: u64 = coldpress_engine::LEAF_PAGES as u64;
pub const SEGMENT: u64 = coldpress_engine::SEGMENT_PAGES as u64;

/// Hands out so many chunks.
pub struct Source(Cell<usize>);

// SAFETY: fresh zeroed memory of the promised size and alignment, never freed.
unsafe impl ChunkSource for Source {
    fn chunk(&self) -> Option<NonNull<u8>> {
        self.0.set(self.0.get().checked_sub(1)?);
        coldpress_machine::kit::fresh_chunk()
    }
}

/// What was freed, in order.
pub type Freed = Rc<RefCell<Vec<Entry>>>;
pub type Alone = pages::Alone<SpinLock, Source, Box<dyn Fn(Entry)>>;

pub fn alone_with(chunks: usize, freed: &Freed) -> Alone {
    let freed = freed.clone();
    let note: Box<dyn Fn(Entry)> = Box::new(move |entry| freed.borrow_mut().push(entry));
    pages::Alone::new(Source(Cell::new(chunks)), note)
}

/// An empty page list, and what it will have freed.
pub fn list_and_freed() -> (List<Alone>, Freed) {
    let freed = Freed::default();
    (List(alone_with(100, &freed)), freed)
}

pub fn list() -> List<Alone> {
    list_and_freed().0
}

pub fn page(number: u64) -> Entry {
    Entry::Page(number as u32 + 1)
}

pub fn start(state: DirtyState) -> Entry {
    Entry::ZeroInterval(Bound::Start, state)
}

pub fn end(state: DirtyState) -> Entry {
    Entry::ZeroInterval(Bound::End, state)
}

pub fn slot(state: DirtyState) -> Entry {
    Entry::ZeroInterval(Bound::One, state)
}

/// All entries of a range.
pub fn entries<P: Places>(list: &List<P>, range: Range<u64>) -> Vec<(u64, Entry)> {
    let mut found = Vec::new();
    list.for_every(range, |at, entry| {
        found.push((at, entry));
        Ok::<_, Infallible>(Walk::On)
    })
    .unwrap();
    found
}

/// All entries.
pub fn all<P: Places>(list: &List<P>) -> Vec<(u64, Entry)> {
    entries(list, 0..pages::POSITIONS)
}

/// All entries of a range, and the gaps between them.
pub fn pieces<P: Places>(list: &List<P>, range: Range<u64>) -> Vec<Piece> {
    let mut found = Vec::new();
    list.for_every_and_gap(range, |piece| {
        found.push(piece);
        Ok::<_, Infallible>(Walk::On)
    })
    .unwrap();
    found
}

pub fn gaps<P: Places>(list: &List<P>, range: Range<u64>) -> Vec<Range<u64>> {
    let gap = |piece| match piece {
        Piece::Gap(range) => Some(range),
        Piece::Entry(..) => None,
    };
    pieces(list, range).into_iter().filter_map(gap).collect()
}

/// The pages that a walk over accepted runs visits, and the runs.
pub fn runs<P: Places>(
    list: &List<P>,
    range: Range<u64>,
    accept: impl Fn(u64, Entry) -> bool,
) -> (Vec<u64>, Vec<Run>) {
    let (mut pages, mut runs) = (Vec::new(), Vec::new());
    let visit = |at, _| {
        pages.push(at);
        Ok::<_, Infallible>(Walk::On)
    };
    let ended = |run| {
        runs.push(run);
        Ok(Walk::On)
    };
    list.for_every_run(range, accept, visit, ended).unwrap();
    (pages, runs)
}

pub fn run(pages: Range<u64>) -> Run {
    Run {
        pages,
        interval: false,
    }
}

pub fn interval(pages: Range<u64>) -> Run {
    Run {
        pages,
        interval: true,
    }
}

/// A list that holds one interval.
pub fn with_interval(pages: Range<u64>, state: DirtyState) -> List<Alone> {
    let list = list();
    list.add_interval(pages, state).unwrap();
    list
}
