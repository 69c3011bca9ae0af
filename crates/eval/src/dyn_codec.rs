//! Codecs behind one object-safe trait, each with its own state and scratch.

use coldpress_arena::Zeroable;
use coldpress_codec::{Compressed, Corrupt, Page, PageCodec};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

/// A codec with the memory it works with.
pub(crate) trait DynCodec {
    /// See [`PageCodec::compress`].
    fn compress(&mut self, page: &Page, out: &mut [u8]) -> Compressed;

    /// See [`PageCodec::decompress`].
    fn decompress(&mut self, stored: &[u8], page: &mut Page) -> Result<(), Corrupt>;

    /// Bytes of tables that belong to the pages, and so count into their size.
    fn table_bytes(&self) -> usize {
        0
    }
}

/// Memory of zeros, as a host of the engine would give it.
pub(crate) fn zeroed<T: Zeroable>() -> Box<T> {
    let layout = Layout::new::<T>();
    if layout.size() == 0 {
        // SAFETY: a box of a type without bytes owns no memory.
        return unsafe { Box::from_raw(std::ptr::NonNull::dangling().as_ptr()) };
    }
    // SAFETY: the layout has bytes.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory is that of the global allocator for this very layout, and all-zero
    // bytes are a valid value (`Zeroable`).
    unsafe { Box::from_raw(memory.cast()) }
}

/// Any codec of the codec crate.
pub(crate) struct Boxed<C: PageCodec> {
    codec: C,
    state: Box<C::State>,
    scratch: Box<C::Scratch>,
    table_bytes: usize,
}

impl<C: PageCodec + 'static> Boxed<C> {
    pub(crate) fn of(codec: C) -> Box<dyn DynCodec> {
        Self::with_tables(codec, 0)
    }

    /// A codec whose tables take so many bytes.
    pub(crate) fn with_tables(codec: C, table_bytes: usize) -> Box<dyn DynCodec> {
        Box::new(Self {
            codec,
            state: zeroed(),
            scratch: zeroed(),
            table_bytes,
        })
    }
}

impl<C: PageCodec> DynCodec for Boxed<C> {
    fn compress(&mut self, page: &Page, out: &mut [u8]) -> Compressed {
        self.codec.compress(&mut self.state, page, out)
    }

    fn decompress(&mut self, stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        self.codec.decompress(&mut self.scratch, stored, page)
    }

    fn table_bytes(&self) -> usize {
        self.table_bytes
    }
}

/// The reference row: "compresses" by copying the page, whatever the threshold.
pub(crate) struct Memcpy;

impl DynCodec for Memcpy {
    fn compress(&mut self, page: &Page, out: &mut [u8]) -> Compressed {
        let bytes = out.len();
        out.copy_from_slice(&page[..bytes]);
        Compressed::Stored(bytes)
    }

    fn decompress(&mut self, stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        let whole: &Page = stored.try_into().map_err(|_| Corrupt)?;
        page.copy_from_slice(whole);
        Ok(())
    }
}

/// A codec of tables for which there were no pages to train on: every page fails.
pub(crate) struct Untrained;

impl DynCodec for Untrained {
    fn compress(&mut self, _: &Page, _: &mut [u8]) -> Compressed {
        Compressed::Incompressible
    }

    fn decompress(&mut self, _: &[u8], _: &mut Page) -> Result<(), Corrupt> {
        Err(Corrupt)
    }
}
