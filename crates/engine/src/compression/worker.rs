//! Workers: threads that restore pages, each with memory of its own to do so.
//!
//! ```text
//!  Workspace   spare page │ gather │ scratch │ run             owned by one worker, never shared
//!              ▲            ▲        ▲         ▲
//!              decoded      split    the       spare pages of neighbours that are restored together
//!              bytes        objects  codec's   (`restore/run.rs`), untouched until there are such
//! ```
//!
//! A page is decoded into the spare page, which stays in the processor's cache from one fault to
//! the next, and the host copies it into place from there: so the cold memory of the program is
//! written once, by the host.

use crate::compression::restore::RUN_PAGES;
use crate::{MAX_WORKERS, RUN_WORKERS};
use coldpress_arena::Zeroable;
use coldpress_codec::{Page, PageCodec};
use coldpress_storage::Gather;
use core::ops::{Index, Range};

/// What a worker decodes with. Zeroed memory is one.
#[repr(C, align(4096))]
pub struct Workspace<C: PageCodec> {
    /// Where content stands before it is installed.
    pub(crate) spare: Page,
    /// Where the parts of a split object are put together.
    pub(crate) gather: Gather,
    pub(crate) scratch: C::Scratch,
    /// Where content of neighbours stands.
    pub(crate) run: RunOfPages,
}

/// Spare pages beside each other.
#[repr(C, align(4096))]
pub(crate) struct RunOfPages([Page; RUN_PAGES]);

impl Index<usize> for RunOfPages {
    type Output = Page;

    fn index(&self, n: usize) -> &Page {
        &self.0[n]
    }
}

impl Index<Range<usize>> for RunOfPages {
    type Output = [Page];

    fn index(&self, range: Range<usize>) -> &[Page] {
        &self.0[range]
    }
}

/// What a page is decoded with, and where to.
pub(crate) struct Room<'w, C: PageCodec> {
    pub(crate) page: &'w mut Page,
    pub(crate) gather: &'w mut Gather,
    pub(crate) scratch: &'w mut C::Scratch,
}

impl<C: PageCodec> Workspace<C> {
    /// To decode into the spare page.
    pub(crate) fn room(&mut self) -> Room<'_, C> {
        Room {
            page: &mut self.spare,
            gather: &mut self.gather,
            scratch: &mut self.scratch,
        }
    }

    /// To decode page `n` of a run.
    pub(crate) fn room_of_run(&mut self, n: usize) -> Room<'_, C> {
        Room {
            page: &mut self.run.0[n],
            gather: &mut self.gather,
            scratch: &mut self.scratch,
        }
    }
}

// SAFETY: plain bytes, and two types that are themselves `Zeroable`; nothing to drop.
unsafe impl<C: PageCodec> Zeroable for Workspace<C> {}

/// A thread that restores pages. Its id is its own; its workspace belongs to it alone.
pub struct Worker<C: PageCodec + 'static> {
    pub(crate) id: u16,
    pub(crate) workspace: &'static mut Workspace<C>,
    /// Time that it has spent decompressing, ever.
    pub(crate) decompression_ns: u64,
}

impl<C: PageCodec> Worker<C> {
    /// Worker number `id` (below [`MAX_WORKERS`], no two alike in one
    /// engine), with memory that never leaves.
    pub fn new(id: u16, workspace: &'static mut Workspace<C>) -> Self {
        assert!((id as usize) < crate::MAX_WORKERS);
        Self {
            id,
            workspace,
            decompression_ns: 0,
        }
    }

    /// Whether it has targets for neighbours that are restored together.
    pub(crate) fn restores_runs(&self) -> bool {
        self.id < RUN_WORKERS
    }

    /// The target of page `n` of a run.
    pub(crate) fn run_id(&self, n: usize) -> u16 {
        debug_assert!(self.restores_runs() && n < RUN_PAGES);
        MAX_WORKERS as u16 + self.id * RUN_PAGES as u16 + n as u16
    }
}
