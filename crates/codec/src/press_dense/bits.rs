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
const AT_A_TIME: usize = 56 / LONGEST;

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

/// Above the bits that are looked at together: as they are shifted out it moves down, and the
/// zeros above it count them. The bits below it are 56 at least.
const MARK: u64 = 1 << 63;

/// Takes a symbol off `bits`.
#[inline(always)]
fn take(bits: &mut u64, decoder: &Decoder) -> u8 {
    let entry = decoder[*bits as usize % (1 << LONGEST)];
    // The processor takes the shift from the lowest six bits by itself.
    *bits >>= entry & 63;
    (entry >> 8) as u8
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

    /// The next bits of each stream, and above them a mark that tells how many were taken.
    #[inline(always)]
    fn look(&self) -> [u64; 4] {
        self.at.map(|at| {
            debug_assert!(at / 8 + 8 <= READ_SPACE);
            // SAFETY: B2.
            let bytes = unsafe {
                self.bytes
                    .as_ptr()
                    .add(at / 8)
                    .cast::<u64>()
                    .read_unaligned()
            };
            u64::from_le(bytes) >> (at % 8) | MARK
        })
    }

    /// Goes on by what was taken of the bits since [`look`](Self::look).
    #[inline(always)]
    fn advance(&mut self, bits: [u64; 4]) {
        for (at, bits) in self.at.iter_mut().zip(bits) {
            *at += bits.leading_zeros() as usize;
        }
    }

    /// Reads a sequence.
    pub(crate) fn read(&mut self, symbols: &mut [u8], decoder: &Decoder) {
        self.read_here(symbols, decoder);
    }

    /// [`read`](Self::read), for processors that shift without flags. Not inlined: the registers
    /// are just enough for four streams.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    #[inline(never)]
    pub(crate) fn read_bmi2(&mut self, symbols: &mut [u8], decoder: &Decoder) {
        self.read_here(symbols, decoder);
    }

    #[inline(always)]
    fn read_here(&mut self, symbols: &mut [u8], decoder: &Decoder) {
        let n = symbols.len();
        let whole = n / 4;
        // All of one borrow: a slice for each would end the ones before it.
        let first = symbols.as_mut_ptr();
        // SAFETY: no part begins behind the symbols.
        let [mut a, mut b, mut c, mut d] = parts(n).map(|start| unsafe { first.add(start) });
        // SAFETY: of each call below: each part has `whole` symbols, the first n % 4 one more.
        let put = |to: &mut *mut u8, symbol: u8| unsafe {
            **to = symbol;
            *to = to.add(1);
        };
        let mut left = whole;
        while left >= AT_A_TIME {
            let [mut p, mut q, mut r, mut s] = self.look();
            for _ in 0..AT_A_TIME {
                put(&mut a, take(&mut p, decoder));
                put(&mut b, take(&mut q, decoder));
                put(&mut c, take(&mut r, decoder));
                put(&mut d, take(&mut s, decoder));
            }
            self.advance([p, q, r, s]);
            left -= AT_A_TIME;
        }
        // At most four symbols more in each, and one in some.
        let [mut p, mut q, mut r, mut s] = self.look();
        for _ in 0..left {
            put(&mut a, take(&mut p, decoder));
            put(&mut b, take(&mut q, decoder));
            put(&mut c, take(&mut r, decoder));
            put(&mut d, take(&mut s, decoder));
        }
        let longer = n % 4;
        if longer > 0 {
            put(&mut a, take(&mut p, decoder));
        }
        if longer > 1 {
            put(&mut b, take(&mut q, decoder));
        }
        if longer > 2 {
            put(&mut c, take(&mut r, decoder));
        }
        self.advance([p, q, r, s]);
    }

    /// Reads the pairs of codes.
    pub(crate) fn read_codes(&mut self, codes: &mut [u8; 256], decoders: &[Decoder; 16]) {
        self.read_codes_here(codes, decoders);
    }

    /// [`read_codes`](Self::read_codes), for processors that shift without flags.
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    #[target_feature(enable = "bmi1,bmi2,lzcnt")]
    #[inline(never)]
    pub(crate) fn read_codes_bmi2(&mut self, codes: &mut [u8; 256], decoders: &[Decoder; 16]) {
        self.read_codes_here(codes, decoders);
    }

    #[inline(always)]
    fn read_codes_here(&mut self, codes: &mut [u8; 256], decoders: &[Decoder; 16]) {
        let [mut a, mut b, mut c, mut d] = [0; 4];
        let next = |bits: &mut u64, before: &mut u8| {
            let symbol = take(bits, &decoders[*before as usize % 16]);
            *before = symbol >> 4;
            symbol
        };
        for at in (0..64).step_by(4) {
            let [mut p, mut q, mut r, mut s] = self.look();
            for k in at..at + 4 {
                codes[k] = next(&mut p, &mut a);
                codes[64 + k] = next(&mut q, &mut b);
                codes[128 + k] = next(&mut r, &mut c);
                codes[192 + k] = next(&mut s, &mut d);
            }
            self.advance([p, q, r, s]);
        }
    }

    /// Where each stream has come to, in whole bytes.
    pub(crate) fn ends(&self) -> [usize; 4] {
        self.at.map(|at| at.div_ceil(8))
    }
}
