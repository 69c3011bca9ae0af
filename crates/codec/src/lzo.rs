//! LZO1X, in Rust.
//!
//! RFC-0219 compares LZ4 with LZO ("Compression algorithm"), as kernels offer it for compressed
//! memory. The format is that of LZO1X (described in `Documentation/staging/lzo.rst` of Linux),
//! so that any decoder of LZO1X reads what this module writes, and the other way round; the
//! compressor is of the kind of LZO1X-1: fast, with the search that our LZ4 uses
//! (`lz4_rust/search.rs`).
//!
//! A page is a row of instructions, of which the first byte tells the kind:
//!
//! ```text
//!  first byte                      then          what
//!  17 + L       (as the first)     –             L literals, 1 to 238
//!  0000 LLLL    (after a match     –             L + 3 literals; L = 0: 18 + length bytes
//!                without literals)
//!  0000 DDSS    (after 1 to 3      D: 8 more     2 bytes, distance 1 to 1,024
//!                literals of it)
//!  0000 DDSS    (after a row of    D: 8 more     3 bytes, distance 2,049 to 3,072
//!                literals)
//!  LLLD DDSS    L = 2 to 7         D: 8 more     L + 1 bytes, distance 1 to 2,048
//!  001L LLLL                       D: 14, S: 2   L + 2 bytes, distance 1 to 16,384; L = 0: 33 +
//!                                                length bytes
//!  0001 HLLL                       D: 14, S: 2   distances beyond 16,384: none in a page. With
//!                                                distance 16,384 the end: 0x11 0x00 0x00
//!
//!  S: so many literals, 0 to 3, follow the match at once
//!  length bytes: zeroes count 255 each; the byte that ends them counts itself
//! ```
//!
//! Invariants, besides those of the crate:
//! * I5 Before anything is written its bytes are known to fit: the output checks each of them.
//! * I6 The decoder compares each length with what is left on both sides, and each distance with
//!   what is written, before it copies. Bytes of the page below `written` follow from the stored
//!   bytes alone; what a step copies beyond is written over.
//!
//! What is not here: the slow compressor (LZO1X-999), and the run codes of the kernel's
//! LZO-RLE. The crate `lzokay` reads and writes LZO1X as well, and tests compare with it; its compressor
//! is one of the slow kind (ADR 0013).

use crate::lz4_rust::copy::{Output, SLACK_BYTES, copy_by_16, copy_match};
use crate::lz4_rust::search::{Match, Table, search};
use crate::{Compressed, Corrupt, PAGE_SIZE, Page, PageCodec, same_filled::same_filled};

/// The instruction that ends a page.
const END: [u8; 3] = [0x11, 0, 0];

/// Matches of at most this many bytes, at most this far away, take two bytes.
const SHORT_LENGTH: usize = 8;
const SHORT_DISTANCE: usize = 0x800;

/// LZO with its parameter.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub struct Lzo {
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl Default for Lzo {
    fn default() -> Self {
        Self {
            detect_same_filled: true,
        }
    }
}

impl PageCodec for Lzo {
    const NAME: &'static str = "lzo";
    type State = Table;
    type Scratch = ();

    fn compress(&self, table: &mut Table, page: &Page, out: &mut [u8]) -> Compressed {
        if self.detect_same_filled
            && let Some(word) = same_filled(page)
        {
            return Compressed::SameFilled(word);
        }
        match compress(table, page, out) {
            Some(len) => Compressed::Stored(len),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(&self, (): &mut (), stored: &[u8], page: &mut Page) -> Result<(), Corrupt> {
        if stored.len() > PAGE_SIZE {
            return Err(Corrupt);
        }
        Reader {
            stored,
            read: 0,
            page,
            written: 0,
        }
        .run()
    }
}

fn compress(table: &mut Table, page: &Page, out: &mut [u8]) -> Option<usize> {
    let mut output = Output::new(out);
    let anchor = search(table, page, 1, |found| {
        put_literals(&mut output, page, found.anchor, found.position)?;
        put_match(&mut output, found)
    })?;
    put_literals(&mut output, page, anchor, PAGE_SIZE)?;
    if !output.has_room(END.len()) {
        return None;
    }
    output.put_all(&END);
    Some(output.written())
}

/// The literals from `anchor` to `position`.
#[inline(always)]
fn put_literals(output: &mut Output, page: &Page, anchor: usize, position: usize) -> Option<()> {
    let literals = position - anchor;
    // At most: 0, and length bytes.
    if !output.has_room(literals + 2 + literals / 255) {
        return None;
    }
    match literals {
        0 => return Some(()),
        1..=238 if output.written() == 0 => output.put(17 + literals as u8),
        1..=3 => output.amend_last_but_one(literals as u8),
        4..=18 => output.put(literals as u8 - 3),
        _ => {
            output.put(0);
            output.put_length(literals - 18, 0, 255);
        }
    }
    output.put_literals(page, anchor, position);
    Some(())
}

/// A match. Its last byte but one has two bits for the number of literals that follow.
#[inline(always)]
fn put_match(output: &mut Output, found: Match) -> Option<()> {
    let length = found.length;
    // At most: a first byte, length bytes, and two bytes of distance.
    if !output.has_room(4 + length / 255) {
        return None;
    }
    let distance = found.distance - 1;
    if length <= SHORT_LENGTH && found.distance <= SHORT_DISTANCE {
        output.put(((length - 1) << 5 | (distance & 7) << 2) as u8);
        output.put((distance >> 3) as u8);
        return Some(());
    }
    if length <= 33 {
        output.put(0x20 | (length - 2) as u8);
    } else {
        output.put(0x20);
        output.put_length(length - 33, 0, 255);
    }
    output.put_all(&((distance << 2) as u16).to_le_bytes());
    Some(())
}

/// What the last instruction did about literals: it decides what a first byte below 16 means.
#[derive(Copy, Clone, Eq, PartialEq)]
enum Before {
    /// None; or nothing came before.
    NoLiterals,
    /// A match with 1 to 3 literals.
    FewLiterals,
    /// A row of literals.
    Literals,
}

struct Reader<'a> {
    stored: &'a [u8],
    read: usize,
    page: &'a mut Page,
    written: usize,
}

impl Reader<'_> {
    fn run(mut self) -> Result<(), Corrupt> {
        let mut before = Before::NoLiterals;
        if let Some(&first) = self.stored.first()
            && first > 17
        {
            self.read = 1;
            self.copy_literals(usize::from(first) - 17)?;
            before = match first {
                ..=20 => Before::FewLiterals,
                _ => Before::Literals,
            };
        }
        loop {
            let first = usize::from(self.byte()?);
            let (distance, length, literals);
            match first {
                64.. => {
                    distance = usize::from(self.byte()?) << 3 | first >> 2 & 7;
                    length = (first >> 5) + 1;
                    literals = first & 3;
                }
                32.. => {
                    length = self.length(first & 31, 31)? + 2;
                    let bits = self.two_bytes()?;
                    distance = bits >> 2;
                    literals = bits & 3;
                }
                16.. => {
                    // The end, or a distance that no page has.
                    let length = self.length(first & 7, 7)?;
                    let end = length == 1
                        && first & 8 == 0
                        && self.two_bytes()? >> 2 == 0
                        && self.read == self.stored.len();
                    return if end && self.written == PAGE_SIZE {
                        Ok(())
                    } else {
                        Err(Corrupt)
                    };
                }
                _ if before == Before::NoLiterals => {
                    let literals = self.length(first, 15)? + 3;
                    self.copy_literals(literals)?;
                    before = Before::Literals;
                    continue;
                }
                _ => {
                    let (base, bytes) = match before {
                        Before::Literals => (SHORT_DISTANCE, 3),
                        _ => (0, 2),
                    };
                    distance = base + (usize::from(self.byte()?) << 2 | first >> 2);
                    length = bytes;
                    literals = first & 3;
                }
            }
            self.copy_match(distance + 1, length)?;
            self.copy_literals(literals)?;
            before = match literals {
                0 => Before::NoLiterals,
                _ => Before::FewLiterals,
            };
        }
    }

    #[inline(always)]
    fn byte(&mut self) -> Result<u8, Corrupt> {
        let byte = *self.stored.get(self.read).ok_or(Corrupt)?;
        self.read += 1;
        Ok(byte)
    }

    #[inline(always)]
    fn two_bytes(&mut self) -> Result<usize, Corrupt> {
        let bytes = self.stored[self.read..].first_chunk().ok_or(Corrupt)?;
        self.read += 2;
        Ok(usize::from(u16::from_le_bytes(*bytes)))
    }

    /// A length of which `in_first` stood in the first byte; 0 stands for `beyond` and what
    /// length bytes count.
    #[inline(always)]
    fn length(&mut self, in_first: usize, beyond: usize) -> Result<usize, Corrupt> {
        if in_first != 0 {
            return Ok(in_first);
        }
        // No overflow: no more than a page of bytes is read.
        let mut length = beyond;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Ok(length + usize::from(last)),
            }
        }
    }

    #[inline(always)]
    fn copy_literals(&mut self, literals: usize) -> Result<(), Corrupt> {
        let left = (self.stored.len() - self.read).min(PAGE_SIZE - self.written);
        if literals > left {
            return Err(Corrupt);
        }
        // SAFETY: I6: as many bytes were just found on either side, with the slack where
        // the copy takes steps; they are different memory.
        unsafe {
            let from = self.stored.as_ptr().add(self.read);
            let to = self.page.as_mut_ptr().add(self.written);
            if literals + SLACK_BYTES <= left {
                copy_by_16(from, to, literals);
            } else {
                from.copy_to_nonoverlapping(to, literals);
            }
        }
        self.read += literals;
        self.written += literals;
        Ok(())
    }

    #[inline(always)]
    fn copy_match(&mut self, distance: usize, length: usize) -> Result<(), Corrupt> {
        if distance > self.written || length > PAGE_SIZE - self.written {
            return Err(Corrupt);
        }
        // SAFETY: I6: as just compared; a distance is at least 1.
        unsafe { copy_match(self.page.as_mut_ptr(), self.written, distance, length) };
        self.written += length;
        Ok(())
    }
}
