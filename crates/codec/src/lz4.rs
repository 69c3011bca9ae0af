//! LZ4 blocks, by liblz4.
//!
//! Each page is one LZ4 block of its own, without a dictionary, a frame or a length: the
//! decoder knows that the result is a page. The library is used through three functions that
//! take all their memory from the caller:
//!
//! ```text
//!  compress     LZ4_compress_fast_extState   state: 16 KiB hash table of the caller, cleared by
//!                                            liblz4 on entry; stops as soon as `out` is full
//!  decompress   LZ4_decompress_safe          no state; bounds checked against both buffers
//! ```
//!
//! RFC-0219 chose LZ4 ("Compression algorithm") because it works on 4 KiB, does not call
//! `malloc` in steady operation, decompresses in parallel without shared mutable state, and can
//! stop early. Only a same-filled test is added in front ("Zero page scanning" leaves the way
//! open): LZ4 itself cannot tell.
//!
//! Invariants, besides those of the crate:
//! * I5 [`Lz4State`] is at least as large as liblz4's state, and aligned for it. Checked before
//!   the first byte is compressed.
//! * I6 Lengths given to liblz4 fit in an `int`: a page does, and longer buffers are cut.
//!
//! What is not here: LZ4-HC, dictionaries, streaming, and the frame format.

use core::ffi::{c_char, c_int, c_void};

use coldpress_arena::Zeroable;
// Only linked: the functions that are needed are declared below, since the crate leaves out the
// one with external state.
use lz4_sys as _;

use crate::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, same_filled::same_filled};

/// Bytes of liblz4 1.10's `LZ4_stream_t` (`LZ4_STREAM_MINSIZE`).
const STATE_BYTES: usize = (1 << 14) + 32;

const PAGE_INT: c_int = PAGE_SIZE as c_int;

unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        source: *const c_char,
        destination: *mut c_char,
        source_bytes: c_int,
        destination_bytes: c_int,
        acceleration: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe(
        source: *const c_char,
        destination: *mut c_char,
        source_bytes: c_int,
        destination_bytes: c_int,
    ) -> c_int;
}

/// LZ4 with its parameters.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Lz4 {
    /// How fast the compressor skips over what it finds no match in: 1 is the most thorough;
    /// less counts as 1.
    ///
    /// RFC-0219 measures 1 and 11, and evaluates its storage with 11. On the 304 MiB of pages of `CODEC.md`,
    /// 11 compresses 1.44 times as fast as 1 (1161 against 806 MiB/s), but leaves 177 MiB
    /// where 1 leaves 133, since 27.5 % of the pages miss the target instead of 6.4 %.
    /// Decompression is as fast either way.
    pub acceleration: i32,
    /// Tells pages that are one repeated word before trying to compress them; the switch of
    /// seed 003 (`same_filled_pages_enabled`). Costs 6 to 18 ns a page on real pages.
    pub detect_same_filled: bool,
}

impl Lz4 {
    /// The acceleration with which RFC-0219 evaluates compressed storage.
    pub const RFC_ACCELERATION: i32 = 11;

    /// LZ4 that finds the most.
    pub const THOROUGH: Self = Self {
        acceleration: 1,
        detect_same_filled: true,
    };
}

impl Default for Lz4 {
    /// The RFC's choice, with same-filled pages told.
    fn default() -> Self {
        Self {
            acceleration: Self::RFC_ACCELERATION,
            detect_same_filled: true,
        }
    }
}

/// liblz4's compression state: a hash table. It carries nothing from one page to the next.
#[repr(C, align(64))]
pub struct Lz4State {
    bytes: [u8; STATE_BYTES],
}

// SAFETY: plain bytes; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for Lz4State {}

impl Lz4State {
    /// A fresh state, for a `static`. On a heap or in mapped memory zeroed bytes do as well,
    /// without 16 KiB on the stack.
    pub const fn new() -> Self {
        Self {
            bytes: [0; STATE_BYTES],
        }
    }
}

impl Default for Lz4State {
    fn default() -> Self {
        Self::new()
    }
}

impl PageCodec for Lz4 {
    const NAME: &'static str = "lz4";
    type State = Lz4State;
    type Scratch = ();

    fn compress(&self, state: &mut Lz4State, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        if out.is_empty() {
            return Compressed::Incompressible;
        }
        // SAFETY: takes nothing, reads a constant.
        let needed_bytes = unsafe { LZ4_sizeofState() } as usize;
        assert!(needed_bytes <= STATE_BYTES, "I5: liblz4's state has grown");
        let bound = out.len().min(PAGE_SIZE) as c_int; // I6
        // SAFETY: I5: the state is large enough and aligned to 64; the source is a whole page;
        // the bound is at most out.len(), and liblz4 writes no byte beyond it. The three are
        // distinct since two of them are borrowed mutably.
        let written = unsafe {
            LZ4_compress_fast_extState(
                state.bytes.as_mut_ptr().cast(),
                page.as_ptr().cast(),
                out.as_mut_ptr().cast(),
                PAGE_INT,
                bound,
                self.acceleration,
            )
        };
        match written {
            1.. => Compressed::Stored(written as usize),
            _ => Compressed::Incompressible,
        }
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        // No page is stored in more bytes than it has (I2), and an empty block is none.
        if stored.is_empty() || stored.len() > PAGE_SIZE {
            return Err(Corrupt);
        }
        // SAFETY: I6: both lengths are those of the buffers; liblz4 checks every read and write
        // of this function against them, whatever the bytes are.
        let written = unsafe {
            LZ4_decompress_safe(
                stored.as_ptr().cast(),
                page.as_mut_ptr().cast(),
                stored.len() as c_int,
                PAGE_INT,
            )
        };
        if written == PAGE_INT {
            Ok(())
        } else {
            Err(Corrupt)
        }
    }
}
