//! Sorting literals and masks into sequences and back, with AVX-512; the streams between are
//! those of `bits.rs`, compiled for the same processor.
//!
//! The bytes of eight words are one vector, in which the literals of a class are selected by 64
//! bits; compressing takes them out in order, expanding puts them back. (`classes.rs` says what
//! the classes are, and does the same a byte at a time.)
//!
//! Invariants of the buffers:
//! * D1 A class has at most 4,096 literals and a list at most 512 masks, and a vector fits behind
//!   either.
//! * D2 When a page is decoded, how many literals each class has is counted from the very masks
//!   by which they are put back.

use core::arch::x86_64::*;

use super::bits::Reader;
use super::classes::{LISTS, MANY, Sequences};
use super::tables::{CLASSES, DenseTables, LISTING_CODES};
use super::{DenseScratch, DenseState, write_sequences};
use crate::press::avx512::{
    candidates_of, codes_of, implied_masks, load, load_page, not_zero, replace, set_literals,
    store, take_distances,
};
use crate::press::format::{BLOCK_WORDS, Candidate, WORDS};
use crate::{Corrupt, Page};

/// The bit of the lowest byte of each of eight words.
const LOWEST: u64 = 0x0101_0101_0101_0101;

/// Which of 64 words have many literals, and which have zero for their candidate.
#[derive(Copy, Clone)]
struct Kinds {
    many: u64,
    zero: u64,
}

impl Kinds {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
    fn of(code: __m512i, mask: __m512i) -> Self {
        let many = _mm512_set1_epi8(MANY as i8);
        Self {
            many: _mm512_cmpge_epu8_mask(_mm512_popcnt_epi8(mask), many),
            zero: !not_zero(candidates_of(code)),
        }
    }

    /// Which of the literals of eight words are of each class.
    #[inline]
    #[target_feature(enable = "bmi2")]
    fn split(self, k: usize, literals: u64) -> [u64; CLASSES] {
        let words = |bits: u64| _pdep_u64(bits >> (8 * k), LOWEST).wrapping_mul(0xff);
        let (many, zero) = (words(self.many), words(self.zero));
        let other = literals & !many & !zero;
        [
            literals & many,
            literals & zero & !many,
            other & LOWEST,
            other & LOWEST << 1,
            other & !(LOWEST | LOWEST << 1),
        ]
    }
}

/// Sorts what the encoder found, and writes it.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn write(tables: &DenseTables, state: &mut DenseState, out: &mut [u8]) -> Option<usize> {
    let DenseState {
        press, sequences, ..
    } = state;
    sequences.clear();
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(&press.streams.codes, block);
        let mask = load(&press.lanes.word_masks, block);
        for list in 0..LISTS {
            let listing = _mm512_set1_epi8((LISTING_CODES.start + list) as i8);
            let here = _mm512_cmpeq_epi8_mask(code, listing);
            let end = sequences.mask_counts[list];
            // D1
            let masks = _mm512_maskz_compress_epi8(here, mask);
            store(&mut sequences.masks[list], end, masks);
            sequences.mask_counts[list] = end + here.count_ones() as usize;
        }
        let kinds = Kinds::of(code, mask);
        let mut literals = [0_u64; BLOCK_WORDS / 8];
        store(&mut literals, 0, mask);
        for (k, literals) in literals.into_iter().enumerate() {
            let words = load_page(&press.page, 8 * (block + 8 * k) as isize);
            for (class, bits) in kinds.split(k, literals).into_iter().enumerate() {
                let end = sequences.literal_counts[class];
                // D1
                let bytes = _mm512_maskz_compress_epi8(bits, words);
                store(&mut sequences.literals[class], end, bytes);
                sequences.literal_counts[class] = end + bits.count_ones() as usize;
            }
        }
    }
    write_sequences(tables, state, out)
}

/// Reads the streams, and decodes the page. Gives where the streams end.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode(
    tables: &DenseTables,
    scratch: &mut DenseScratch,
    starts: [usize; 4],
    choices: [usize; CLASSES],
    page: &mut Page,
) -> Result<[usize; 4], Corrupt> {
    let DenseScratch {
        press,
        sequences,
        stored,
        codes,
        masks,
        distances,
        ..
    } = scratch;
    let mut reader = Reader::new(stored, starts);
    reader.read_codes(codes, &tables.decode_codes);
    let distance_bytes = count(codes, sequences);
    for (list, decoder) in tables.decode_masks.iter().enumerate() {
        let count = sequences.mask_counts[list];
        reader.read(&mut sequences.masks[list][..count], decoder);
    }
    let distances = &mut distances[..distance_bytes];
    reader.read(distances, &tables.decode_distances);
    merge_masks(codes, sequences, masks);
    for (class, choice) in choices.into_iter().enumerate() {
        let count = sequences.literal_counts[class];
        let decoder = &tables.decode_literals[class][choice];
        reader.read(&mut sequences.literals[class][..count], decoder);
    }

    let lanes = &mut press.lanes;
    let mut distances = &*distances;
    let mut distance_in_force = 8;
    let mut next: [*const u8; CLASSES] = sequences.literals.each_ref().map(|class| class.as_ptr());
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(codes, block);
        let candidate = candidates_of(code);
        take_distances(
            candidate,
            &mut distances,
            lanes,
            block,
            &mut distance_in_force,
        )
        .ok_or(Corrupt)?;
        let mask = load(masks, block);
        store(&mut lanes.masks, 0, mask);
        let kinds = Kinds::of(code, mask);
        for k in 0..BLOCK_WORDS / 8 {
            let mut literals = _mm512_setzero_si512();
            for (next, bits) in next.iter_mut().zip(kinds.split(k, lanes.masks[k])) {
                // SAFETY: D2: reads as many bytes of the class as there are bits.
                let bytes = unsafe { _mm512_maskz_expandloadu_epi8(bits, next.cast()) };
                literals = _mm512_or_si512(literals, bytes);
                // SAFETY: D2
                *next = unsafe { next.add(bits.count_ones() as usize) };
            }
            set_literals(lanes, k, literals, !kinds.zero);
        }
        replace(page, lanes, block);
    }
    Ok(reader.ends())
}

/// How many masks each list has; gives how many bytes the distances have.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,popcnt")]
fn count(codes: &[u8; WORDS / 2], sequences: &mut Sequences) -> usize {
    let mut distance_bytes = 0;
    sequences.mask_counts = [0; LISTS];
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(codes, block);
        for (list, count) in sequences.mask_counts.iter_mut().enumerate() {
            let listing = _mm512_set1_epi8((LISTING_CODES.start + list) as i8);
            *count += _mm512_cmpeq_epi8_mask(code, listing).count_ones() as usize;
        }
        let candidate = _mm512_and_si512(candidates_of(code), _mm512_set1_epi8(7));
        for named in [Candidate::WordDistance, Candidate::ByteDistance] {
            let least = _mm512_set1_epi8(named as i8);
            distance_bytes += _mm512_cmpge_epu8_mask(candidate, least).count_ones() as usize;
        }
    }
    distance_bytes
}

/// The mask of each word; and how many literals each class has.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,avx512bitalg,bmi2,popcnt")]
fn merge_masks(codes: &[u8; WORDS / 2], sequences: &mut Sequences, masks: &mut [u8; WORDS]) {
    let mut next = [0; LISTS];
    let mut counts = [0; CLASSES];
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(codes, block);
        let mut mask = implied_masks(code);
        for (list, next) in next.iter_mut().enumerate() {
            let listing = _mm512_set1_epi8((LISTING_CODES.start + list) as i8);
            let here = _mm512_cmpeq_epi8_mask(code, listing);
            // D1
            let bytes = load(&sequences.masks[list], *next);
            mask = _mm512_mask_expand_epi8(mask, here, bytes);
            *next += here.count_ones() as usize;
        }
        store(masks, block, mask);
        let kinds = Kinds::of(code, mask);
        let mut literals = [0_u64; BLOCK_WORDS / 8];
        store(&mut literals, 0, mask);
        for (k, literals) in literals.into_iter().enumerate() {
            for (count, bits) in counts.iter_mut().zip(kinds.split(k, literals)) {
                *count += bits.count_ones() as usize;
            }
        }
    }
    sequences.literal_counts = counts;
}
