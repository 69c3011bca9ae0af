//! press-dense: press with an entropy stage, for pages that stay cold.
//!
//! What press finds of a page (codes, masks, distances, literals) is written with Huffman codes
//! whose tables are made once, from sampled pages of the same process. A page carries no table
//! of its own, as zstd's and deflate's blocks do; for 4 KiB that is a tenth of the result.
//!
//! ```text
//!  page ─▶ same-filled, few runs, random: as press
//!       ─▶ press's encoder ─▶ codes, distances ───────────────────────┐
//!                             masks ─▶ six lists                       ├▶ four bit streams
//!                             literals ─▶ five classes, a table of     │
//!                                         four for each ───────────────┘
//!
//!  stored   │ header 6 B │ stream 0 │ stream 1 │ stream 2 │ stream 3 │
//!  header   │ 2 bits: kind │ 5 × 2: table of each class │ 3 × 12: bytes of the first streams │
//! ```
//!
//! Specified in `docs/press-format.md`. Tables belong to one domain, are never shared between
//! domains, and count as its metadata: `size_of::<DenseTables>()`.
//!
//! | concept | file |
//! |---|---|
//! | tables | `tables.rs` |
//! | how they are made | `train.rs` |
//! | classes of literals | `classes.rs`; with vectors `avx512.rs`, with the instructions of AVX2's processors `avx2.rs` |
//! | the four bit streams | `bits.rs` |
//! | pages of press and of press-dense beside each other | `both.rs` |

#![cfg_attr(
    not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))),
    allow(dead_code, reason = "some of it is for the vector paths only")
)]

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod avx2;
mod bits;
mod both;
mod classes;
mod tables;
mod train;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod avx512;

pub(crate) use both::Both;
pub use tables::DenseTables;
pub use train::{TRAINING_PAGES, Trainer};

use coldpress_arena::Zeroable;
use core::ops::ControlFlow::{Break, Continue};

use crate::press::format::{KIND_BITS, KIND_DENSE, WORDS};
use crate::press::{Effort, PressScratch, PressState, Simd, paths, portable};
use crate::{Compressed, Corrupt, Page, PageCodec};
use bits::{READ_SPACE, Reader, STREAM_BYTES, Writer};
use classes::{CLASS_BYTES, Masks, Sequences};
use tables::{CLASSES, Decoder};

/// Bytes of the header.
const HEADER_BYTES: usize = 6;

/// Bits of a stream's length in the header.
const LENGTH_BITS: u32 = 12;

/// press-dense with a domain's tables.
#[derive(Copy, Clone)]
pub struct PressDense<'t> {
    simd: Simd,
    tables: &'t DenseTables,
    /// Tells pages that are one repeated word before trying to compress them.
    pub detect_same_filled: bool,
}

impl<'t> PressDense<'t> {
    /// press-dense on the fastest path; `None` if there are no tables yet.
    pub fn new(tables: &'t DenseTables) -> Option<Self> {
        Self::with_simd(tables, Simd::best())
    }

    /// press-dense on this path; on the portable one if the processor lacks what it needs.
    pub fn with_simd(tables: &'t DenseTables, simd: Simd) -> Option<Self> {
        tables.is_trained().then_some(Self {
            simd: simd.or_portable(),
            tables,
            detect_same_filled: true,
        })
    }
}

/// What [`PressDense`] compresses with. It carries nothing from one page to the next.
#[repr(C, align(64))]
pub struct DenseState {
    press: PressState,
    sequences: Sequences,
    streams: [[u8; STREAM_BYTES]; 4],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for DenseState {}

/// What [`PressDense`] decompresses with.
#[repr(C, align(64))]
pub struct DenseScratch {
    press: PressScratch,
    sequences: Sequences,
    stored: [u8; READ_SPACE],
    codes: [u8; WORDS / 2],
    masks: Masks,
    distances: [u8; 2 * WORDS],
    literals: [u8; CLASS_BYTES],
}

// SAFETY: integers only; zero is a valid value, and there is nothing to drop.
unsafe impl Zeroable for DenseScratch {}

impl PageCodec for PressDense<'_> {
    const NAME: &'static str = "press-dense";
    type State = DenseState;
    type Scratch = DenseScratch;

    fn compress(&self, state: &mut DenseState, page: &Page, out: &mut [u8]) -> Compressed {
        let press = &mut state.press;
        let copy = &mut press.page;
        let (not_zero, out) =
            match paths::before_encoder(self.simd, self.detect_same_filled, page, copy, out) {
                Continue(to_encode) => to_encode,
                Break(outcome) => return outcome,
            };
        let encoded = paths::encode(self.simd, press, not_zero, usize::MAX, Effort::DENSE);
        match encoded.and_then(|()| self.write(state, out)) {
            Some(len) => Compressed::Stored(len),
            None => Compressed::Incompressible,
        }
    }

    fn decompress(
        &self,
        scratch: &mut DenseScratch,
        stored: &[u8],
        page: &mut Page,
    ) -> Result<(), Corrupt> {
        if stored.len() > page.len() || stored.is_empty() {
            return Err(Corrupt);
        }
        if !is_dense(stored) {
            return paths::decode(self.simd, &mut scratch.press, stored, page);
        }
        let (header, rest) = stored.split_first_chunk().ok_or(Corrupt)?;
        let Header { choices, lengths } = Header::from_bytes(*header);
        let mut end = 0;
        let starts = [0, lengths[0], lengths[1], lengths[2]].map(|len| {
            end += len;
            end
        });
        if end > rest.len() {
            return Err(Corrupt);
        }
        scratch.stored[..rest.len()].copy_from_slice(rest);
        let ends = match self.simd {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            // SAFETY: the path is available.
            Simd::Avx512 => unsafe { avx512::decode(self.tables, scratch, starts, choices, page)? },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            // SAFETY: the path is available.
            Simd::Avx2 => unsafe { avx2::decode(self.tables, scratch, starts, choices, page)? },
            simd => decode(
                simd,
                self.tables,
                scratch,
                (starts, choices),
                page,
                |reader, codes, decoders| reader.read_codes(codes, decoders),
                |reader, symbols, decoder| reader.read(symbols, decoder),
            )?,
        };
        // Each stream ends where the next begins.
        let whole = [starts[1], starts[2], starts[3], rest.len()];
        (ends == whole).then_some(()).ok_or(Corrupt)
    }

    fn has_made(&self, stored: &[u8]) -> bool {
        is_dense(stored)
    }
}

/// Whether a stored page is of press-dense, and not of press.
fn is_dense(stored: &[u8]) -> bool {
    stored
        .first()
        .is_some_and(|first| first & KIND_BITS == KIND_DENSE)
}

impl PressDense<'_> {
    /// Writes the streams of the page; `None`: they do not fit.
    fn write(&self, state: &mut DenseState, out: &mut [u8]) -> Option<usize> {
        match self.simd {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            // SAFETY: the path is available.
            Simd::Avx512 => unsafe { avx512::write(self.tables, state, out) },
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            // SAFETY: the path is available.
            Simd::Avx2 => unsafe { avx2::write(self.tables, state, out) },
            _ => write(self.tables, state, out),
        }
    }
}

/// Sorts what the encoder found, and writes it.
#[inline(always)]
fn write(tables: &DenseTables, state: &mut DenseState, out: &mut [u8]) -> Option<usize> {
    classes::split(&state.press.streams, &mut state.sequences);
    write_sequences(tables, state, out)
}

/// Reads the streams with these two, and decodes the page by press's path. Gives where the streams end.
#[inline(always)]
fn decode(
    simd: Simd,
    tables: &DenseTables,
    scratch: &mut DenseScratch,
    (starts, choices): ([usize; 4], [usize; CLASSES]),
    page: &mut Page,
    read_codes: impl FnOnce(&mut Reader, &mut [u8; WORDS / 2], &[Decoder; 16]),
    read: impl Fn(&mut Reader, &mut [u8], &Decoder),
) -> Result<[usize; 4], Corrupt> {
    let DenseScratch {
        press,
        sequences,
        stored,
        codes,
        masks,
        distances,
        literals,
    } = scratch;
    let mut reader = Reader::new(stored, starts);
    read_codes(&mut reader, codes, &tables.decode_codes);
    let distances = &mut distances[..classes::count_masks(codes, sequences)];
    read_masks(tables, sequences, distances, |symbols, decoder| {
        read(&mut reader, symbols, decoder);
    });
    let listed = classes::merge_masks(codes, sequences, masks);
    read_literals(tables, choices, sequences, |symbols, decoder| {
        read(&mut reader, symbols, decoder);
    });
    let count = classes::merge_literals(masks, sequences, literals);
    let input = portable::Input {
        codes,
        literals: &literals[..count],
        masks: &masks.listed[..listed],
        distances,
        readable_behind: CLASS_BYTES - count,
    };
    paths::decode_streams(simd, press, input, page)?;
    Ok(reader.ends())
}

/// Reads the lists of masks, of which `sequences` says how long they are, and the distances.
#[inline(always)]
fn read_masks(
    tables: &DenseTables,
    sequences: &mut Sequences,
    distances: &mut [u8],
    mut read: impl FnMut(&mut [u8], &Decoder),
) {
    for (list, decoder) in tables.decode_masks.iter().enumerate() {
        let count = sequences.mask_counts[list];
        read(&mut sequences.masks[list][..count], decoder);
    }
    read(distances, &tables.decode_distances);
}

/// Reads the classes of literals, of which `sequences` says how long they are.
#[inline(always)]
fn read_literals(
    tables: &DenseTables,
    choices: [usize; CLASSES],
    sequences: &mut Sequences,
    mut read: impl FnMut(&mut [u8], &Decoder),
) {
    for (class, choice) in choices.into_iter().enumerate() {
        let count = sequences.literal_counts[class];
        let decoder = &tables.decode_literals[class][choice];
        read(&mut sequences.literals[class][..count], decoder);
    }
}

/// Writes what is in `state`: the streams of the page, and its sequences.
#[inline(always)]
fn write_sequences(tables: &DenseTables, state: &mut DenseState, out: &mut [u8]) -> Option<usize> {
    let DenseState {
        press,
        sequences,
        streams,
    } = state;
    let found = &press.streams;
    let mut choices = [0; CLASSES];
    let mut literal_bits = 0;
    for (class, choice) in choices.iter_mut().enumerate() {
        let (best, bits) = cheapest(sequences.literals(class), &tables.costs[class]);
        *choice = best;
        literal_bits += bits as usize;
    }
    if HEADER_BYTES + literal_bits / 8 > out.len() {
        return None;
    }
    let mut writer = Writer::new(streams);
    writer.write_codes(&found.codes, &tables.codes);
    for (list, encoder) in tables.masks.iter().enumerate() {
        writer.write(sequences.masks(list), encoder);
    }
    writer.write(found.distances(), &tables.distances);
    for (class, choice) in choices.into_iter().enumerate() {
        writer.write(sequences.literals(class), &tables.literals[class][choice]);
    }
    let streams = writer.finish();
    let len = HEADER_BYTES + streams.iter().map(|stream| stream.len()).sum::<usize>();
    let (header, mut rest) = out.get_mut(..len)?.split_first_chunk_mut()?;
    *header = Header {
        choices,
        lengths: [0, 1, 2].map(|stream: usize| streams[stream].len()),
    }
    .to_bytes()?;
    for stream in streams {
        let (to, behind) = rest.split_at_mut(stream.len());
        to.copy_from_slice(stream);
        rest = behind;
    }
    Some(len)
}

/// The table that makes the literals shortest, and how many bits they have with it.
#[inline(always)]
fn cheapest(literals: &[u8], costs: &[u64; 256]) -> (usize, u16) {
    // Four sums of sixteen bits: at most 4,096 literals of 10 bits each.
    let (pairs, last) = literals.as_chunks::<2>();
    let mut sums = [0, 0];
    for pair in pairs {
        sums[0] += costs[pair[0] as usize];
        sums[1] += costs[pair[1] as usize];
    }
    let last: u64 = last.iter().map(|literal| costs[*literal as usize]).sum();
    let sum = sums[0] + sums[1] + last;
    let mut best = (0, sum as u16);
    for choice in 1..4 {
        let bits = (sum >> (16 * choice)) as u16;
        if bits < best.1 {
            best = (choice, bits);
        }
    }
    best
}

/// The header of a stored page.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
struct Header {
    /// Which table each class of literals has.
    choices: [usize; CLASSES],
    /// Bytes of the first three streams.
    lengths: [usize; 3],
}

impl Header {
    /// `None`: a stream is too long for it.
    fn to_bytes(self) -> Option<[u8; HEADER_BYTES]> {
        let mut bits = u64::from(KIND_DENSE);
        let mut at = 2;
        for choice in self.choices {
            bits |= (choice as u64) << at;
            at += 2;
        }
        for len in self.lengths {
            if len >= 1 << LENGTH_BITS {
                return None;
            }
            bits |= (len as u64) << at;
            at += LENGTH_BITS;
        }
        bits.to_le_bytes().first_chunk().copied()
    }

    fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let mut all = [0; 8];
        all[..HEADER_BYTES].copy_from_slice(&bytes);
        let bits = u64::from_le_bytes(all) >> 2;
        let lengths = bits >> (2 * CLASSES);
        Self {
            choices: core::array::from_fn(|class| (bits >> (2 * class) & 3) as usize),
            lengths: core::array::from_fn(|stream| {
                (lengths >> (LENGTH_BITS * stream as u32)) as usize & ((1 << LENGTH_BITS) - 1)
            }),
        }
    }
}
