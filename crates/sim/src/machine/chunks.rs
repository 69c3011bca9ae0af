//! Memory for tables. Each kind of table is refused its memory in turn: at the first time it asks
//! for it, and for some times more.

use crate::inject::Kind;
use crate::schedule::{NOBODY, note, simulation, step};
use crate::trace::What;
use coldpress_arena::CHUNK_BYTES;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

/// Which table grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// That of segments.
    Segments,
    /// That of leaves.
    Leaves,
    /// That of page records.
    Records,
    /// Those of storage.
    Storage,
    /// That of VMOs.
    Objects,
    /// That of shares.
    Counts,
    /// That of figures of VMOs.
    Accounts,
}

impl Table {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Segments,
        Self::Leaves,
        Self::Records,
        Self::Storage,
        Self::Objects,
        Self::Counts,
        Self::Accounts,
    ];

    fn kind(self) -> Kind {
        match self {
            Self::Segments => Kind::ChunkSegments,
            Self::Leaves => Kind::ChunkLeaves,
            Self::Records => Kind::ChunkRecords,
            Self::Storage => Kind::ChunkStorage,
            Self::Objects => Kind::ChunkObjects,
            Self::Counts => Kind::ChunkCounts,
            Self::Accounts => Kind::ChunkAccounts,
        }
    }
}

/// Chunks handed out, and refused.
pub struct Chunks {
    given: RefCell<Vec<NonNull<u8>>>,
    /// The tables for which each thread asks, in this order, as far as the driver knows.
    growing: Vec<Cell<&'static [Table]>>,
    /// Which have got memory, a bit each: one chunk is more than any world needs.
    served: Cell<u32>,
    /// The table that is refused its memory, and how often still.
    refused: Cell<(Table, u32)>,
}

const LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two"),
};

impl Chunks {
    /// Refuses `table` its memory so many times.
    pub fn new(table: Table, times: u32) -> Self {
        Self {
            given: RefCell::new(Vec::new()),
            growing: (0..=NOBODY)
                .map(|_| Cell::new(&[Table::Storage][..]))
                .collect(),
            served: Cell::new(0),
            refused: Cell::new((table, times)),
        }
    }

    /// What the calling thread asks for from now on.
    pub fn growing(&self, tables: &'static [Table]) {
        self.growing[simulation().current()].set(tables);
    }

    /// A fresh chunk.
    pub fn chunk(&self) -> Option<NonNull<u8>> {
        let mut tables = self.growing[simulation().current()].get().iter().copied();
        let served = |table: &Table| self.served.get() & 1 << *table as u32 != 0;
        let table = tables
            .find(|table| !served(table))
            .unwrap_or(Table::Storage);
        step(What::Chunk, 0, 0, table as u32);
        let (refused, times) = self.refused.get();
        if table == refused && times > 0 {
            self.refused.set((table, times - 1));
            note(table.kind());
            return None;
        }
        self.served.set(self.served.get() | 1 << table as u32);
        // SAFETY: the layout is not empty.
        let chunk = NonNull::new(unsafe { alloc_zeroed(LAYOUT) })?;
        self.given.borrow_mut().push(chunk);
        Some(chunk)
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        for chunk in self.given.get_mut() {
            // SAFETY: allocated with this layout; the tables that used it are gone.
            unsafe { dealloc(chunk.as_ptr(), LAYOUT) };
        }
    }
}
