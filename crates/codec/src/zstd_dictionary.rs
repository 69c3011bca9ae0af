//! zstd with a dictionary: pages that stay cold, beside pages of another codec.
//!
//! What pages of one disk have in common, and the statistics of their entropy codes, stands in a [`Dictionary`], which is
//! trained from some of them. A page then needs neither, as each of [`Zstd`](crate::Zstd)'s has to bring along. A page
//! names the dictionary that it was made with:
//!
//! ```text
//!  ┌───────────────────────┬──────────────────────────────────────────┐
//!  │ number << 2 │ 3       │ body of the one block of a zstd frame,   │
//!  │ of the dictionary, 3  │ without the headers of block and frame   │
//!  └───────────────────────┴──────────────────────────────────────────┘
//! ```
//!
//! No page of press or press-dense begins with a byte whose lowest two bits are 3, and none of [`Zstd`](crate::Zstd)
//! with anything but 0: so a page of a machine that has either of these and this one tells which made it ([`number`]).
//!
//! All memory is the caller's, as for [`Zstd`](crate::Zstd): libzstd never calls an allocator. A dictionary holds what
//! decompression needs, 27 KiB beside its content, and is shared by all threads. What compression looks up in, some
//! times the content, is in the state of the one who compresses, and is made at its first page.
//!
//! Invariants, besides those of the crate:
//! * I5 A dictionary and a state are at least as large as what libzstd makes in them. Checked when it is made.
//! * I6 libzstd's structures are used only where they were made: their address is compared before; in a state the
//!   dictionary and the level as well, by address and by hash of the content.
//! * I7 The decoder is given one frame of one block, which is put together here: no other window, no second frame.
//!
//! What is not here: training, for which libzstd needs an allocator (`coldpress-disk` does it).

use core::ffi::c_void;

use coldpress_arena::Zeroable;
use xxhash_rust::xxh3::xxh3_64;
use zstd_sys::{
    ZSTD_CCtx, ZSTD_CCtx_refCDict, ZSTD_adjustCParams, ZSTD_compress2, ZSTD_compressionParameters,
    ZSTD_decompress_usingDDict, ZSTD_dictContentType_e::ZSTD_dct_fullDict,
    ZSTD_dictLoadMethod_e::ZSTD_dlm_byRef, ZSTD_estimateCCtxSize_usingCParams,
    ZSTD_estimateCDictSize_advanced, ZSTD_estimateDDictSize, ZSTD_getCParams, ZSTD_initStaticCDict,
    ZSTD_initStaticDDict,
};

use crate::zstd::{FRAME_HEADER, ZstdScratch, is_error, make_context};
use crate::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, same_filled::same_filled};

/// The most bytes of a dictionary's content.
pub const MOST_DICTIONARY_BYTES: usize = 1 << 20;

/// Dictionaries have numbers below this.
pub const MOST_DICTIONARIES: u8 = 64;

/// The lowest two bits of a stored page's first byte.
const KIND_BITS: u8 = 3;
const KIND: u8 = 3;

/// Bytes of libzstd's decoder of a dictionary; 1.5.7 asks for 27,352.
const DECODER_BYTES: usize = 28 << 10;

/// Bytes of what compression looks up in, for the longest dictionary at the greediest level.
const TABLES_BYTES: usize = 16 << 20;

/// Bits of the number of entries that a table has at least.
const LEAST_TABLE_BITS: u32 = 12;

/// Bytes of a compression context.
const CONTEXT_BYTES: usize = 512 << 10;

/// Bytes of the headers that stored pages have not.
const FRAME_BYTES: usize = 5;

/// The number of the dictionary that a stored page was made with; `None`: it was made by another codec.
#[inline]
pub fn number(stored: &[u8]) -> Option<u8> {
    let first = stored.first()?;
    (first & KIND_BITS == KIND).then_some(first >> 2)
}

/// A dictionary, and what decompression needs of it. Zeroed memory is one that is not made yet.
#[repr(C, align(64))]
pub struct Dictionary {
    decoder: [u8; DECODER_BYTES],
    /// Where `decoder` lay when it was made; 0 if it was not (I6).
    made_at: usize,
    /// Of the content.
    hash: u64,
    length: usize,
    number: u8,
    content: [u8; MOST_DICTIONARY_BYTES],
}

// SAFETY: plain integers; zero is a valid value (nothing was made), and there is nothing to drop: what libzstd makes in
// memory that it is given owns none.
unsafe impl Zeroable for Dictionary {}

impl Dictionary {
    /// Where the content is to be written, before [`make`](Self::make). What was there before is no dictionary any more.
    pub fn room(&mut self) -> &mut [u8] {
        self.made_at = 0;
        &mut self.content
    }

    /// Makes the dictionary of this number, which is below [`MOST_DICTIONARIES`], from the first `length` bytes of the
    /// [`room`](Self::room). `false`: they are no dictionary of zstd.
    pub fn make(&mut self, number: u8, length: usize) -> bool {
        assert!(number < MOST_DICTIONARIES, "the number has six bits");
        let Some(content) = self.content.get(..length) else {
            return false;
        };
        let decoder = self.decoder.as_mut_ptr();
        // SAFETY: computes.
        let needed_bytes = unsafe { ZSTD_estimateDDictSize(length, ZSTD_dlm_byRef) };
        assert!(
            needed_bytes <= DECODER_BYTES,
            "I5: libzstd's decoder has grown"
        );
        // SAFETY: I5: the memory is large enough, ours alone, and aligned to 64; the content lies beside it, and goes
        // with it (I6).
        let made = unsafe {
            let content = content.as_ptr().cast();
            let how = (ZSTD_dlm_byRef, ZSTD_dct_fullDict);
            ZSTD_initStaticDDict(decoder.cast(), DECODER_BYTES, content, length, how.0, how.1)
        };
        if made.is_null() {
            return false;
        }
        self.hash = xxh3_64(content);
        (self.length, self.number) = (length, number);
        self.made_at = decoder.addr();
        true
    }

    /// Its number.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The content.
    pub fn content(&self) -> &[u8] {
        &self.content[..self.length]
    }

    /// Whether the content is what the dictionary was made from.
    pub fn is_intact(&self) -> bool {
        self.is_made() && xxh3_64(self.content()) == self.hash
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() - MOST_DICTIONARY_BYTES + self.length
    }

    fn is_made(&self) -> bool {
        self.made_at == self.decoder.as_ptr().addr() // I6
    }
}

/// zstd with a dictionary.
#[derive(Copy, Clone)]
pub struct ZstdDictionary<'d> {
    dictionary: &'d Dictionary,
    level: i32,
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl<'d> ZstdDictionary<'d> {
    /// zstd with this dictionary, at a level from 1 to 22; `None`: it is not made.
    pub fn new(dictionary: &'d Dictionary, level: i32) -> Option<Self> {
        dictionary.is_made().then_some(Self {
            dictionary,
            level: level.clamp(1, 22),
            detect_same_filled: true,
        })
    }
}

/// What [`ZstdDictionary`] compresses with: a context, and tables of the dictionary, which are made at the first page. Of
/// its memory only that is touched which the dictionary and the level need.
#[repr(C, align(64))]
pub struct DictionaryState {
    context: [u8; CONTEXT_BYTES],
    frame: [u8; PAGE_SIZE + 64],
    /// What the context was made for (I6); zeros: it was not.
    made: Made,
    tables: [u8; TABLES_BYTES],
}

// SAFETY: plain integers; zero is a valid value (nothing was made), and there is nothing to drop.
unsafe impl Zeroable for DictionaryState {}

/// Where a context was made, and for what.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Made {
    at: usize,
    dictionary_at: usize,
    hash: u64,
    level: i32,
}

impl DictionaryState {
    fn context(&mut self, of: &ZstdDictionary) -> *mut ZSTD_CCtx {
        let wanted = Made {
            at: self.context.as_ptr().addr(),
            dictionary_at: of.dictionary.content.as_ptr().addr(),
            hash: of.dictionary.hash,
            level: of.level,
        };
        if self.made != wanted {
            self.made.at = 0;
            self.make(of);
            self.made = wanted;
        }
        self.context.as_mut_ptr().cast() // I6
    }

    /// # Panics
    /// If libzstd needs more memory than there is (I5), or does not know a parameter: it is then another libzstd than
    /// this was written for.
    #[cold]
    fn make(&mut self, of: &ZstdDictionary) {
        let content = of.dictionary.content();
        // SAFETY: these compute.
        let parameters = unsafe { ZSTD_getCParams(of.level, PAGE_SIZE as u64, content.len()) };
        let parameters = fitting(parameters, content.len());
        let tables = self.make_tables(content, parameters);
        // SAFETY: these compute, too.
        let needed_bytes = unsafe {
            let of_page = ZSTD_adjustCParams(parameters, PAGE_SIZE as u64, 0);
            ZSTD_estimateCCtxSize_usingCParams(of_page)
        };
        assert!(
            needed_bytes <= CONTEXT_BYTES,
            "I5: libzstd's context has grown"
        );
        let context = make_context(&mut self.context);
        // SAFETY: both were just made, and are used only where they are (I6).
        let outcome = unsafe { ZSTD_CCtx_refCDict(context, tables.cast()) };
        assert!(!is_error(outcome), "libzstd does not take its own tables");
    }

    /// Makes the tables of a dictionary's content, and says where.
    fn make_tables(
        &mut self,
        content: &[u8],
        parameters: ZSTD_compressionParameters,
    ) -> *const c_void {
        let memory = self.tables.as_mut_ptr().cast();
        // SAFETY: I5 is checked: libzstd makes none in memory that is not large enough. The memory is ours alone, and
        // aligned to 64; the content stays while this is used (I6).
        let tables = unsafe {
            let bytes = ZSTD_estimateCDictSize_advanced(content.len(), parameters, ZSTD_dlm_byRef);
            assert!(bytes <= TABLES_BYTES, "I5: libzstd's tables have grown");
            let (from, how) = (content.as_ptr().cast(), ZSTD_dlm_byRef);
            ZSTD_initStaticCDict(
                memory,
                bytes,
                from,
                content.len(),
                how,
                ZSTD_dct_fullDict,
                parameters,
            )
        };
        assert!(
            !tables.is_null(),
            "I5: a dictionary that can be decoded with has tables"
        );
        tables.cast()
    }
}

/// The parameters with tables that a content of so many bytes fills. libzstd's own are two to four times as large, for
/// the window that it rounds up to: what is looked up would lie in more memory, for nothing.
fn fitting(
    parameters: ZSTD_compressionParameters,
    content_bytes: usize,
) -> ZSTD_compressionParameters {
    let bits = content_bytes
        .max(1 << LEAST_TABLE_BITS)
        .next_power_of_two()
        .ilog2();
    ZSTD_compressionParameters {
        // A tree has two entries for each byte.
        chainLog: parameters.chainLog.min(bits + 1),
        hashLog: parameters.hashLog.min(bits),
        ..parameters
    }
}

/// What [`ZstdDictionary`] decompresses with.
#[repr(C, align(64))]
pub struct DictionaryScratch {
    zstd: ZstdScratch,
    frame: [u8; PAGE_SIZE + 64],
}

// SAFETY: plain integers, and a type that is itself `Zeroable`.
unsafe impl Zeroable for DictionaryScratch {}

impl PageCodec for ZstdDictionary<'_> {
    const NAME: &'static str = "zstd with a dictionary";
    type State = DictionaryState;
    type Scratch = DictionaryScratch;

    fn compress(&self, state: &mut DictionaryState, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        let limit = out.len().min(PAGE_SIZE);
        if limit < 2 {
            return Compressed::Incompressible;
        }
        let context = state.context(self);
        // SAFETY: I6: the context was made where it is, for this dictionary, which stays. The source is a whole page, the
        // bound is less than the buffer, and libzstd writes no byte beyond it.
        let written = unsafe {
            let (frame, bound) = (state.frame.as_mut_ptr().cast(), limit - 1 + FRAME_BYTES);
            ZSTD_compress2(context, frame, bound, page.as_ptr().cast(), PAGE_SIZE)
        };
        if is_error(written) {
            // There is one error that a page can cause: no room.
            return Compressed::Incompressible;
        }
        let Some(body) = body_of(&state.frame[..written]) else {
            return Compressed::Incompressible;
        };
        out[0] = self.dictionary.number << 2 | KIND;
        out[1..=body.len()].copy_from_slice(body);
        Compressed::Stored(1 + body.len())
    }

    fn decompress(
        &self,
        scratch: &mut DictionaryScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        let body = stored.get(1..).unwrap_or_default();
        let is_ours = number(stored) == Some(self.dictionary.number);
        if !is_ours || body.len() < LEAST_BODY || body.len() >= PAGE_SIZE {
            return Err(Corrupt);
        }
        let frame = &mut scratch.frame[..FRAME_BYTES + body.len()];
        frame[..FRAME_BYTES].copy_from_slice(&headers_of(body));
        frame[FRAME_BYTES..].copy_from_slice(body);
        let context = scratch.zstd.context();
        // SAFETY: I6: the context was made where it is, and so was the dictionary. The lengths are those of the buffers;
        // libzstd checks every read and write against them, whatever the bytes are.
        let written = unsafe {
            let (from, to) = (frame.as_ptr().cast(), page.as_mut_ptr().cast());
            let decoder = self.dictionary.decoder.as_ptr().cast();
            ZSTD_decompress_usingDDict(context, to, PAGE_SIZE, from, frame.len(), decoder)
        };
        (written == PAGE_SIZE).then_some(()).ok_or(Corrupt)
    }

    fn has_made(&self, stored: &[u8]) -> bool {
        number(stored) == Some(self.dictionary.number)
    }
}

/// The kind of block that is entropy coded. There is no other: a block of one byte, repeated, would be what a truncated
/// page looks like, and is the same-filled test's.
const CODED: u32 = 2;

/// A coded block is not shorter.
const LEAST_BODY: usize = 2;

/// The body of the one block of a frame; `None`: it is of another form.
fn body_of(frame: &[u8]) -> Option<&[u8]> {
    let (headers, body) = frame.split_first_chunk()?;
    let is_coded = body.len() >= LEAST_BODY && *headers == headers_of(body);
    is_coded.then_some(body)
}

/// What stands before a body in a frame (I7).
fn headers_of(body: &[u8]) -> [u8; FRAME_BYTES] {
    let [a, b, c, _] = (1 | CODED << 1 | (body.len() as u32) << 3).to_le_bytes();
    [FRAME_HEADER[0], FRAME_HEADER[1], a, b, c]
}
