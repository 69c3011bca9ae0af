//! zstd frames, by libzstd: denser than LZ4, several times slower.
//!
//! Each page is one frame of one block, without the parts that every frame of a page would have
//! alike: magic number (`ZSTD_f_zstd1_magicless`), content size and checksum. 5 bytes remain:
//!
//! ```text
//!  ┌──────┬────────┬───────────────┬──────────────────────────────────────┐
//!  │ 0x00 │ 0x10   │ block header: │ literals and sequences, entropy      │
//!  │ flags│ window │ last, kind,   │ coded; or one byte that fills        │
//!  │ none │ 4 KiB  │ size; 3 bytes │ the page                             │
//!  └──────┴────────┴───────────────┴──────────────────────────────────────┘
//! ```
//!
//! The library works in *static contexts*: all its memory is a [`ZstdState`] or a
//! [`ZstdScratch`] of the caller. Told so, libzstd never calls an allocator; where it needs more
//! than it has it fails.
//!
//! ```text
//!  ZstdState    │ ZSTD_CCtx │ tables, as large as the level needs │ unused │ address, level │
//!  ZstdScratch  │ ZSTD_DCtx │                                              │ address        │
//!                                          what the context was made for ───┘
//! ```
//!
//! A context keeps pointers into itself, so it is good at one address only, and one for compression
//! knows its level: both are remembered beside it, and it is made anew where they have changed,
//! not for each page. Making it asks the processor what it can do (`cpuid`), which in a virtual
//! machine goes to the hypervisor and takes longer than decompressing a page.
//!
//! Invariants, besides those of the crate:
//! * I5 [`ZstdState`] and [`ZstdScratch`] are at least as large as libzstd's contexts for a page
//!   at any level, and aligned for them. Checked when a context is made.
//! * I6 A context is used only where it was made: its address (and its level) are compared
//!   before. In zeroed memory the address does not fit, as no address is zero.
//! * I7 The decoder is given one frame of the form above, with nothing behind it: its first five
//!   bytes are compared before. So it never sees a dictionary, a checksum, another window,
//!   a second block or frame.
//!
//! libzstd cannot stop early: it finds what matches in all of the page before it writes the
//! first byte, and fails at the end if there is no room.
//!
//! What is not here: dictionaries (`zstd_dictionary.rs`), streams, threads.

use core::ffi::c_int;

use coldpress_arena::Zeroable;
use zstd_sys::{
    ZSTD_CCtx, ZSTD_CCtx_setParameter, ZSTD_DCtx, ZSTD_DCtx_setParameter, ZSTD_cParameter,
    ZSTD_compress2, ZSTD_dParameter, ZSTD_decompressDCtx, ZSTD_estimateCCtxSize_usingCParams,
    ZSTD_estimateDCtxSize, ZSTD_format_e, ZSTD_getCParams, ZSTD_initStaticCCtx,
    ZSTD_initStaticDCtx, ZSTD_isError,
};

use crate::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, same_filled::same_filled};

/// Bytes of a compression context for a page, at the greediest level; libzstd 1.5.7 asks for
/// 275,927 at levels 12 to 22, for 73,752 up to level 2.
const COMPRESSION_BYTES: usize = 276 << 10;

/// Bytes of a decompression context; libzstd 1.5.7 asks for 95,976.
const DECOMPRESSION_BYTES: usize = 96 << 10;

/// Bytes of the frame's and the block's header.
const HEADER_BYTES: usize = 5;

/// The header of every frame: no flags, and a window of 4 KiB.
pub(crate) const FRAME_HEADER: [u8; 2] = [0, 0x10];

/// zstd with its parameters.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Zstd {
    /// How thorough the compressor is: from [`Self::FASTEST_LEVEL`] to [`Self::DENSEST_LEVEL`];
    /// what lies beyond counts as the nearer of the two, and 0 as 3, by libzstd's habit.
    ///
    /// On the 304 MiB of pages of `CODEC.md` level 1 compresses 304 MiB/s to 89.5 MiB in all, and
    /// 3 is hardly denser (87.9) at 269; -7 reaches 644, but 153.8 MiB. LZ4 comes to 806
    /// and 132.8.
    pub level: i32,
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl Zstd {
    /// The level that hurries most.
    pub const FASTEST_LEVEL: i32 = -131_072;

    /// The level that takes most time.
    pub const DENSEST_LEVEL: i32 = 22;
}

impl Default for Zstd {
    /// Level 1, with same-filled pages told.
    fn default() -> Self {
        Self {
            level: 1,
            detect_same_filled: true,
        }
    }
}

/// libzstd's compression context, made at the first page. Pages leave traces in it (tables are
/// not cleared, but what they hold is known to be of earlier pages), which no result depends on.
#[repr(C, align(64))]
pub struct ZstdState {
    context: [u8; COMPRESSION_BYTES],
    /// Where `context` lay when it was made; 0 if it was not (I6).
    made_at: usize,
    /// The level that it was made for.
    level: i32,
}

// SAFETY: plain integers; zero is a valid value (no context was made), and there is nothing
// to drop: a static context owns no memory.
unsafe impl Zeroable for ZstdState {}

impl ZstdState {
    /// A fresh state, for a `static`. On a heap or in mapped memory zeroed bytes do as well,
    /// without a quarter of a MiB on the stack.
    pub const fn new() -> Self {
        Self {
            context: [0; COMPRESSION_BYTES],
            made_at: 0,
            level: 0,
        }
    }

    /// The context for `level`.
    #[inline]
    fn context(&mut self, level: i32) -> *mut ZSTD_CCtx {
        let context = self.context.as_mut_ptr();
        if self.made_at == context.addr() && self.level == level {
            return context.cast(); // I6
        }
        self.made_at = 0;
        self.make(level);
        self.level = level;
        self.made_at = context.addr();
        context.cast()
    }

    /// # Panics
    /// If libzstd needs more memory than there is (I5), or does not know a parameter: it is
    /// then another libzstd than this was written for.
    #[cold]
    fn make(&mut self, level: i32) {
        // SAFETY: these two compute.
        let needed_bytes = unsafe {
            ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level, PAGE_SIZE as u64, 0))
        };
        assert!(
            needed_bytes <= COMPRESSION_BYTES,
            "I5: libzstd's context has grown"
        );
        // Exactly as much as is needed, so that tables and buffers lie close together.
        let context = make_context(&mut self.context[..needed_bytes]);
        set_parameter(context, ZSTD_cParameter::ZSTD_c_compressionLevel, level);
    }
}

/// Makes a context in memory that is aligned to 64, for frames without the parts that all would have alike.
///
/// # Panics
/// If libzstd makes none there, or does not know a parameter.
pub(crate) fn make_context(memory: &mut [u8]) -> *mut ZSTD_CCtx {
    let (start, bytes) = (memory.as_mut_ptr(), memory.len());
    // SAFETY: the memory is ours alone; where it is too short or not aligned, libzstd makes nothing.
    let context = unsafe { ZSTD_initStaticCCtx(start.cast(), bytes) };
    assert!(
        context.cast() == start,
        "I5: a context begins where its memory does"
    );
    set_parameter(
        context,
        ZSTD_cParameter::ZSTD_c_experimentalParam2, // ZSTD_c_format
        ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int,
    );
    set_parameter(context, ZSTD_cParameter::ZSTD_c_contentSizeFlag, 0);
    set_parameter(context, ZSTD_cParameter::ZSTD_c_checksumFlag, 0);
    set_parameter(context, ZSTD_cParameter::ZSTD_c_dictIDFlag, 0);
    context
}

fn set_parameter(context: *mut ZSTD_CCtx, parameter: ZSTD_cParameter, value: c_int) {
    // SAFETY: the context was just made.
    let outcome = unsafe { ZSTD_CCtx_setParameter(context, parameter, value) };
    assert!(!is_error(outcome), "libzstd does not know a parameter");
}

impl Default for ZstdState {
    fn default() -> Self {
        Self::new()
    }
}

/// libzstd's decompression context, made at the first page.
#[repr(C, align(64))]
pub struct ZstdScratch {
    context: [u8; DECOMPRESSION_BYTES],
    /// Where `context` lay when it was made; 0 if it was not (I6).
    made_at: usize,
}

// SAFETY: plain integers; zero is a valid value (no context was made), and there is nothing
// to drop: a static context owns no memory.
unsafe impl Zeroable for ZstdScratch {}

impl ZstdScratch {
    /// Fresh memory, for a `static`.
    pub const fn new() -> Self {
        Self {
            context: [0; DECOMPRESSION_BYTES],
            made_at: 0,
        }
    }

    /// The context.
    #[inline]
    pub(crate) fn context(&mut self) -> *mut ZSTD_DCtx {
        let context = self.context.as_mut_ptr();
        if self.made_at != context.addr() {
            self.made_at = 0;
            self.make();
            self.made_at = context.addr();
        }
        context.cast() // I6
    }

    /// # Panics
    /// As [`ZstdState::make`].
    #[cold]
    fn make(&mut self) {
        // SAFETY: reads a constant.
        let needed_bytes = unsafe { ZSTD_estimateDCtxSize() };
        assert!(
            needed_bytes <= DECOMPRESSION_BYTES,
            "I5: libzstd's context has grown"
        );
        let memory = self.context.as_mut_ptr();
        // SAFETY: I5: the memory is large enough, ours alone, and aligned to 64.
        let context = unsafe { ZSTD_initStaticDCtx(memory.cast(), needed_bytes) };
        assert!(
            context.cast() == memory,
            "I5: a context begins where its memory does"
        );
        // SAFETY: the context was just made.
        let outcome = unsafe {
            ZSTD_DCtx_setParameter(
                context,
                ZSTD_dParameter::ZSTD_d_experimentalParam1, // ZSTD_d_format
                ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int,
            )
        };
        assert!(!is_error(outcome), "libzstd does not know a parameter");
    }
}

impl Default for ZstdScratch {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCodec for Zstd {
    const NAME: &'static str = "zstd";
    type State = ZstdState;
    type Scratch = ZstdScratch;

    fn compress(&self, state: &mut ZstdState, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        let limit = out.len().min(PAGE_SIZE);
        if limit <= HEADER_BYTES {
            return Compressed::Incompressible;
        }
        let context = state.context(self.level.clamp(Self::FASTEST_LEVEL, Self::DENSEST_LEVEL));
        // SAFETY: I6: the context was made where it is. The source is a whole page, the bound is
        // at most out.len(), and libzstd writes no byte beyond it; the three are distinct
        // since two of them are borrowed mutably.
        let written = unsafe {
            ZSTD_compress2(
                context,
                out.as_mut_ptr().cast(),
                limit,
                page.as_ptr().cast(),
                PAGE_SIZE,
            )
        };
        if is_error(written) {
            // There is one error that a page can cause: no room.
            return Compressed::Incompressible;
        }
        debug_assert!(
            is_one_block(&out[..written]),
            "I7: what is written can be read"
        );
        Compressed::Stored(written)
    }

    fn decompress(
        &self,
        scratch: &mut ZstdScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        if !is_one_block(stored) || stored.len() > PAGE_SIZE {
            return Err(Corrupt);
        }
        let context = scratch.context();
        // SAFETY: I6: the context was made where it is. Both lengths are those of the buffers; libzstd checks every read and write
        // against them, whatever the bytes are.
        let written = unsafe {
            ZSTD_decompressDCtx(
                context,
                page.as_mut_ptr().cast(),
                PAGE_SIZE,
                stored.as_ptr().cast(),
                stored.len(),
            )
        };
        if written == PAGE_SIZE {
            Ok(())
        } else {
            Err(Corrupt)
        }
    }
}

/// Whether a size is none.
pub(crate) fn is_error(size: usize) -> bool {
    // SAFETY: compares.
    unsafe { ZSTD_isError(size) != 0 }
}

/// Whether this is one frame of one block, as far as its headers tell (I7).
fn is_one_block(stored: &[u8]) -> bool {
    /// Kinds of blocks: one byte, repeated; and entropy coded.
    const REPEATED: u32 = 1;
    const CODED: u32 = 2;
    let Some((&[flags, window, a, b, c], block)) = stored.split_first_chunk() else {
        return false;
    };
    let header = u32::from_le_bytes([a, b, c, 0]);
    let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, (header >> 3) as usize);
    let whole = match kind {
        REPEATED => size == PAGE_SIZE && block.len() == 1,
        CODED => size == block.len(),
        _ => false,
    };
    [flags, window] == FRAME_HEADER && last && whole
}
