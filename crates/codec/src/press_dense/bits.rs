//! Four bit streams side by side, so that a processor can work on four symbols at a time.
//!
//! A sequence of n symbols is cut into four parts of n / 4 symbols, the first n mod 4 of them
//! one longer; part j goes to stream j, behind what is there already. Bits are written from the
//! lowest of each byte, and read 57 at a time.
//!
//! Invariants:
//! * B1 A writer writes eight bytes at most behind the bytes it has filled; a page's symbols
//!   have at most [`MOST_SYMBOLS`] × 10 bits, a quarter of which, and eight bytes, is
//!   [`STREAM_BYTES`].
//! * B2 A reader reads eight bytes at most behind its position, which after all symbols of a
//!   page is at most as far as those have bits; [`READ_SPACE`] is that much behind any
//!   beginning in a stored page.
#![deny(unsafe_op_in_unsafe_fn)]

use super::tables::{Decoder, Encoder, LONGEST};
use crate::PAGE_SIZE;

/// Symbols of a page: pairs of codes, masks, bytes of distances, literals.
const MOST_SYMBOLS: usize = 256 + 512 + 1024 + PAGE_SIZE;

/// Room for each stream (B1). Each of the 13 sequences may give a stream one symbol more than
/// another.
pub(crate) const STREAM_BYTES: usize =
    ((MOST_SYMBOLS / 4 + 13) * LONGEST / 8 + 16).next_multiple_of(64);

/// Room for a stored page that is read beyond its end (B2).
pub(crate) const READ_SPACE: usize = PAGE_SIZE + STREAM_BYTES;

/// Symbols that are surely in the bits that one load gives.
const AT_A_TIME: usize = 57 / LONGEST;

/// Where the parts of `n` symbols begin.
#[inline(always)]
fn parts(n: usize) -> [usize; 4] {
    core::array::from_fn(|part| part * (n / 4) + part.min(n % 4))
}

/// Four streams that are written.
pub(crate) struct Writer<'a> {
    streams: &'a mut [[u8; STREAM_BYTES]; 4],
    at: [usize; 4],
    bits: [u64; 4],
    count: [u32; 4],
}

impl<'a> Writer<'a> {
    pub(crate) fn new(streams: &'a mut [[u8; STREAM_BYTES]; 4]) -> Self {
        Self {
            streams,
            at: [0; 4],
            bits: [0; 4],
            count: [0; 4],
        }
    }

    #[inline(always)]
    fn put(&mut self, stream: usize, symbol: u8, encoder: &Encoder) {
        let encoding = encoder[symbol as usize];
        self.bits[stream] |= encoding.bits() << self.count[stream];
        self.count[stream] += encoding.len();
    }

    #[inline(always)]
    fn flush(&mut self) {
        for stream in 0..4 {
            debug_assert!(self.at[stream] + 8 <= STREAM_BYTES);
            // SAFETY: B1.
            unsafe {
                let to = self.streams[stream].as_mut_ptr().add(self.at[stream]);
                to.cast::<u64>().write_unaligned(self.bits[stream].to_le());
            }
            let bytes = self.count[stream] / 8;
            self.at[stream] += bytes as usize;
            self.bits[stream] >>= 8 * bytes;
            self.count[stream] %= 8;
        }
    }

    /// Writes a sequence.
    #[inline(always)]
    pub(crate) fn write(&mut self, symbols: &[u8], encoder: &Encoder) {
        let n = symbols.len();
        let [a, b, c, d] = parts(n);
        let whole = n / 4;
        let mut parts = [&symbols[a..], &symbols[b..], &symbols[c..], &symbols[d..]];
        let mut left = whole;
        while left >= AT_A_TIME {
            for k in 0..AT_A_TIME {
                for (stream, part) in parts.iter().enumerate() {
                    // SAFETY: each part has `whole` symbols, of which `left` are left.
                    self.put(stream, unsafe { *part.get_unchecked(k) }, encoder);
                }
            }
            // SAFETY: as above.
            parts = parts.map(|part| unsafe { part.get_unchecked(AT_A_TIME..) });
            self.flush();
            left -= AT_A_TIME;
        }
        for k in 0..left {
            for (stream, part) in parts.iter().enumerate() {
                self.put(stream, part[k], encoder);
            }
        }
        for (stream, part) in parts.iter().enumerate().take(n % 4) {
            self.put(stream, part[left], encoder);
        }
        self.flush();
    }

    /// Writes the pairs of codes, each with the table for the code before it.
    #[inline(always)]
    pub(crate) fn write_codes(&mut self, codes: &[u8; 256], encoders: &[Encoder; 16]) {
        let mut before = [0; 4];
        for at in (0..64).step_by(4) {
            for k in at..at + 4 {
                for (stream, before) in before.iter_mut().enumerate() {
                    let symbol = codes[64 * stream + k];
                    self.put(stream, symbol, &encoders[*before as usize]);
                    *before = symbol >> 4;
                }
            }
            self.flush();
        }
    }

    /// The streams, whole bytes.
    pub(crate) fn finish(self) -> [&'a [u8]; 4] {
        let Self {
            streams, at, count, ..
        } = self;
        let mut at = at
            .into_iter()
            .zip(count)
            .map(|(at, count)| at + usize::from(count > 0));
        streams
            .each_ref()
            .map(|stream| &stream[..at.next().unwrap_or(0)])
    }
}

/// Four streams that are read: all in one buffer, by position in bits.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8; READ_SPACE],
    at: [usize; 4],
}

impl<'a> Reader<'a> {
    /// Streams that begin at these bytes.
    pub(crate) fn new(bytes: &'a [u8; READ_SPACE], starts: [usize; 4]) -> Self {
        Self {
            bytes,
            at: starts.map(|start| 8 * start),
        }
    }

    #[inline(always)]
    fn peek(&self, stream: usize) -> u64 {
        let at = self.at[stream];
        debug_assert!(at / 8 + 8 <= READ_SPACE);
        // SAFETY: B2.
        let bytes = unsafe {
            self.bytes
                .as_ptr()
                .add(at / 8)
                .cast::<u64>()
                .read_unaligned()
        };
        u64::from_le(bytes) >> (at % 8)
    }

    /// Takes a symbol off `bits`.
    #[inline(always)]
    fn take(&mut self, stream: usize, bits: &mut u64, decoder: &Decoder) -> u8 {
        let entry = decoder[*bits as usize % (1 << LONGEST)];
        *bits >>= entry >> 8;
        self.at[stream] += usize::from(entry >> 8);
        entry as u8
    }

    /// Reads a sequence.
    #[inline(always)]
    pub(crate) fn read(&mut self, symbols: &mut [u8], decoder: &Decoder) {
        let n = symbols.len();
        let starts = parts(n);
        let whole = n / 4;
        let to = symbols.as_mut_ptr();
        let mut k = 0;
        while k < whole {
            let together = AT_A_TIME.min(whole - k);
            let mut bits: [u64; 4] = core::array::from_fn(|stream| self.peek(stream));
            if together == AT_A_TIME {
                for n in 0..AT_A_TIME {
                    for stream in 0..4 {
                        let symbol = self.take(stream, &mut bits[stream], decoder);
                        // SAFETY: k + n < whole, and each part has so many symbols.
                        unsafe { *to.add(starts[stream] + k + n) = symbol };
                    }
                }
            } else {
                for n in 0..together {
                    for stream in 0..4 {
                        let symbol = self.take(stream, &mut bits[stream], decoder);
                        symbols[starts[stream] + k + n] = symbol;
                    }
                }
            }
            k += together;
        }
        for stream in 0..n % 4 {
            let mut bits = self.peek(stream);
            symbols[starts[stream] + whole] = self.take(stream, &mut bits, decoder);
        }
    }

    /// Reads the pairs of codes.
    #[inline(always)]
    pub(crate) fn read_codes(&mut self, codes: &mut [u8; 256], decoders: &[Decoder; 16]) {
        let mut before = [0_u8; 4];
        for at in (0..64).step_by(4) {
            let mut bits: [u64; 4] = core::array::from_fn(|stream| self.peek(stream));
            for k in at..at + 4 {
                for stream in 0..4 {
                    let decoder = &decoders[before[stream] as usize % 16];
                    let symbol = self.take(stream, &mut bits[stream], decoder);
                    codes[64 * stream + k] = symbol;
                    before[stream] = symbol >> 4;
                }
            }
        }
    }

    /// Where each stream has come to, in whole bytes.
    pub(crate) fn ends(&self) -> [usize; 4] {
        self.at.map(|at| at.div_ceil(8))
    }
}
