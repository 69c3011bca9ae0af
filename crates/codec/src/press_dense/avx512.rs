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

#![allow(
    clippy::needless_range_loop,
    reason = "one number is a place in several arrays"
)]

use core::arch::x86_64::*;

use super::bits::Reader;
use super::classes::{LISTS, MANY, Sequences};
use super::tables::{CLASSES, DenseTables, LISTING_CODES};
use super::{DenseScratch, DenseState, read_literals, read_masks, write_sequences};
use crate::press::avx512::{
    Distances, candidates_of, codes_of, expand_from, implied_masks, load, load_page, not_zero,
    replace, set_literals, store,
};
use crate::press::format::{BLOCK_WORDS, Candidate, WORDS};
use crate::{Corrupt, Page};

/// Which literals of 64 words are of each class, as masks: a byte a word, and so 64 bits for
/// each eight words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg")]
fn class_masks(code: __m512i, mask: __m512i) -> [__m512i; CLASSES] {
    let byte = |value: u8| _mm512_set1_epi8(value as i8);
    let many = _mm512_cmpge_epu8_mask(_mm512_popcnt_epi8(mask), byte(MANY as u8));
    let zero = !not_zero(candidates_of(code)) & !many;
    let other = _mm512_maskz_mov_epi8(!(many | zero), mask);
    [
        _mm512_maskz_mov_epi8(many, mask),
        _mm512_maskz_mov_epi8(zero, mask),
        _mm512_and_si512(other, byte(0b0000_0001)),
        _mm512_and_si512(other, byte(0b0000_0010)),
        _mm512_and_si512(other, byte(0b1111_1100)),
    ]
}

/// By class: 64 bits for each eight words of a block.
type Selections = [[u64; BLOCK_WORDS / 8]; CLASSES];

#[inline]
#[target_feature(enable = "avx512f")]
fn selections(class_masks: [__m512i; CLASSES]) -> Selections {
    let mut selections = [[0; BLOCK_WORDS / 8]; CLASSES];
    for (selections, masks) in selections.iter_mut().zip(class_masks) {
        store(selections, 0, masks);
    }
    selections
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
        let mask = load(&press.lanes.chosen[block / BLOCK_WORDS], 0);
        for list in 0..LISTS {
            let listing = _mm512_set1_epi8((LISTING_CODES.start + list) as i8);
            let here = _mm512_cmpeq_epi8_mask(code, listing);
            let end = sequences.mask_counts[list];
            // D1
            let masks = _mm512_maskz_compress_epi8(here, mask);
            store(&mut sequences.masks[list], end, masks);
            sequences.mask_counts[list] = end + here.count_ones() as usize;
        }
        let selections = selections(class_masks(code, mask));
        let mut ends = sequences.literal_counts;
        for k in 0..BLOCK_WORDS / 8 {
            let words = load_page(&press.page, 8 * (block + 8 * k) as isize);
            for class in 0..CLASSES {
                let bits = selections[class][k];
                // D1
                let bytes = _mm512_maskz_compress_epi8(bits, words);
                store(&mut sequences.literals[class], ends[class], bytes);
                ends[class] += bits.count_ones() as usize;
            }
        }
        sequences.literal_counts = ends;
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
    reader.read_codes_bmi2(codes, &tables.decode_codes);
    let distances = &mut distances[..count(codes, sequences)];
    read_masks(tables, sequences, distances, |symbols, decoder| {
        reader.read_bmi2(symbols, decoder)
    });
    let masks = &mut masks.all;
    merge_masks(codes, sequences, masks);
    read_literals(tables, choices, sequences, |symbols, decoder| {
        reader.read_bmi2(symbols, decoder)
    });

    let lanes = &mut press.lanes;
    let mut distances = Distances::of_page(distances);
    let mut next: [*const u8; CLASSES] = sequences.literals.each_ref().map(|class| class.as_ptr());
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(codes, block);
        let candidate = candidates_of(code);
        distances
            .take_sources(candidate, lanes, block)
            .ok_or(Corrupt)?;
        let mask = load(masks, block);
        store(&mut lanes.masks, 0, mask);
        let selections = selections(class_masks(code, mask));
        let not_zero = not_zero(candidate);
        for k in 0..BLOCK_WORDS / 8 {
            let mut literals = _mm512_setzero_si512();
            for class in 0..CLASSES {
                let bits = selections[class][k];
                // SAFETY: D1 and D2: a vector can be read from wherever literals of a class end.
                let bytes = unsafe { expand_from(next[class], bits) };
                literals = _mm512_or_si512(literals, bytes);
                // SAFETY: D2
                next[class] = unsafe { next[class].add(bits.count_ones() as usize) };
            }
            set_literals(lanes, k, literals, not_zero);
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
    let mut counts = [_mm512_setzero_si512(); CLASSES];
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
        for (count, masks) in counts.iter_mut().zip(class_masks(code, mask)) {
            let bits = _mm512_sad_epu8(_mm512_popcnt_epi8(masks), _mm512_setzero_si512());
            *count = _mm512_add_epi64(*count, bits);
        }
    }
    sequences.literal_counts = counts.map(|count| _mm512_reduce_add_epi64(count) as usize);
}
