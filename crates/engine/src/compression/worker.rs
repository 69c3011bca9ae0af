//! Workers: threads that restore pages, each with memory of its own to do so.
//!
//! ```text
//!  Workspace   spare page │ gather │ scratch       owned by one worker, never shared
//!              ▲            ▲        ▲
//!              decoded      split    the codec's tables and buffers
//!              bytes        objects
//! ```
//!
//! A page is decoded into the spare page, which stays in the processor's cache from one fault to
//! the next, and the host copies it into place from there: so the cold memory of the program is
//! written once, by the host.

use coldpress_arena::Zeroable;
use coldpress_codec::{Page, PageCodec};
use coldpress_storage::Gather;

/// What a worker decodes with. Zeroed memory is one.
#[repr(C, align(4096))]
pub struct Workspace<C: PageCodec> {
    /// Where content stands before it is installed.
    pub(crate) spare: Page,
    /// Where the parts of a split object are put together.
    pub(crate) gather: Gather,
    pub(crate) scratch: C::Scratch,
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
    /// Worker number `id` (below [`MAX_WORKERS`](crate::MAX_WORKERS), no two alike in one
    /// engine), with memory that never leaves.
    pub fn new(id: u16, workspace: &'static mut Workspace<C>) -> Self {
        assert!((id as usize) < crate::MAX_WORKERS);
        Self {
            id,
            workspace,
            decompression_ns: 0,
        }
    }
}
