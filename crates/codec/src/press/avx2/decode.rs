//! Streams to a page, with AVX2 and BMI2.
//!
//! The decoder copies the masks, and the literals unless they lie in such a place, so that it can
//! read eight bytes wherever one begins:
//! * A1 512 words have at most 4,096 literals and 512 listed masks, and eight bytes can be read
//!   behind so many.

use core::arch::x86_64::*;
use core::hint::select_unpredictable;

use super::{Bytes, all_bits, load, look_up, store};
use crate::press::format::{
    BLOCK_WORDS, CANDIDATE_OF_CODE, CODES, Candidate, EXPANDED, MASK_OF_CODE, WORDS,
};
use crate::press::portable::Input;
use crate::press::state::{DecodeLanes, LITERAL_SPACE, STREAM_SPACE};
use crate::{Corrupt, PAGE_SIZE, Page};

/// Room for the listed masks, and for reading eight bytes behind them (A1).
const MASK_SPACE: usize = WORDS + 8;

/// See [`crate::press::portable::decode`]. `space`: where masks and literals are copied to, so that they
/// can be read beyond their end.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in crate::press) fn decode(
    mut input: Input,
    space: &mut [u8; STREAM_SPACE],
    lanes: &mut DecodeLanes,
    page: &mut Page,
) -> Result<(), Corrupt> {
    let (literal_space, mask_space) = space.split_at_mut(LITERAL_SPACE);
    let literals = if input.literals.len() + input.readable_behind >= PAGE_SIZE + 8 {
        input.literals.as_ptr()
    } else {
        literal_space[..input.literals.len()].copy_from_slice(input.literals);
        literal_space.as_ptr()
    };
    mask_space[..input.masks.len()].copy_from_slice(input.masks);
    let mask_space: &[u8; MASK_SPACE] = mask_space.first_chunk().ok_or(Corrupt)?;
    let start = page.as_mut_ptr();
    let (mut literal, mut next_mask) = (0, 0);
    let mut distance_in_force = 8;
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        prepare(
            &mut input,
            mask_space,
            &mut next_mask,
            lanes,
            block,
            &mut distance_in_force,
        )
        .ok_or(Corrupt)?;
        for eight in (0..BLOCK_WORDS).step_by(8) {
            for k in eight..eight + 8 {
                let position = 8 * (block + k);
                let mask = lanes.deposited[k];
                let replaced = EXPANDED[lanes.replaced[k] as usize];
                // SAFETY: the distance is at most the position (`prepare`), and 8 at least or 0;
                // so eight bytes from there lie inside the page. A1: 512 words have at most
                // 4,096 literals, and there is room for more behind.
                unsafe {
                    let from = start.add(position - lanes.distance[k] as usize);
                    let candidate = from.cast::<u64>().read_unaligned();
                    let bytes = literals.add(literal).cast::<u64>().read_unaligned();
                    let word = candidate & !replaced | _pdep_u64(bytes, EXPANDED[mask as usize]);
                    start.add(position).cast::<u64>().write_unaligned(word);
                }
                literal += mask.count_ones() as usize;
            }
        }
    }
    let nothing_left =
        literal == input.literals.len() && input.masks.is_empty() && input.distances.is_empty();
    nothing_left.then_some(()).ok_or(Corrupt)
}

/// By code, four times over: the distance where the code fixes it, else 0.
const FIXED_DISTANCE: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = match CODES[i % 16].0 {
            Candidate::Previous => 8,
            Candidate::SecondPrevious => 16,
            _ => 0,
        };
        i += 1;
    }
    table
};

/// Reads the masks that are listed, and enters what they deposit and replace. `None`: the stream ends.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn read_masks(
    input: &mut Input,
    masks: &[u8; MASK_SPACE],
    next_mask: &mut usize,
    lanes: &mut DecodeLanes,
    listed: u64,
) -> Option<()> {
    // The masks of eight words at a time, without a branch: those listed among the implied ones,
    // which are zero there.
    let mut next = *next_mask;
    input.masks.split_off(..listed.count_ones() as usize)?;
    let deposited = lanes.deposited.as_chunks_mut::<8>().0.iter_mut();
    let replaced = lanes.replaced.as_chunks_mut::<8>().0.iter_mut();
    for ((bits, deposited), replaced) in listed.to_le_bytes().iter().zip(deposited).zip(replaced) {
        let bytes = masks[next..].first_chunk().expect("A1");
        let here = _pdep_u64(u64::from_le_bytes(*bytes), EXPANDED[*bits as usize]);
        let masks = u64::from_le_bytes(*deposited) | here;
        *deposited = masks.to_le_bytes();
        *replaced = (u64::from_le_bytes(*replaced) | masks).to_le_bytes();
        next += bits.count_ones() as usize;
    }
    *next_mask = next;
    Some(())
}

/// Reads the distances that the words of `left` name, of two bytes those of `wide`, and enters each for its word and all
/// that follow. `None`: the stream ends.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn read_distances(
    input: &mut Input,
    lanes: &mut DecodeLanes,
    mut left: u64,
    wide: u64,
    distance_in_force: &mut usize,
) -> Option<()> {
    let bytes = (left.count_ones() + wide.count_ones()) as usize;
    let mut next = input.distances.split_off(..bytes)?.as_ptr();
    let mut distance = *distance_in_force;
    let everywhere = _mm256_set1_epi16(distance as i16);
    for n in 0..4 {
        store(&mut lanes.distance, 16 * n, everywhere);
    }
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        let is_wide = wide >> k & 1 == 1;
        left &= left - 1;
        // SAFETY: one or two bytes, in all those just taken.
        unsafe {
            let narrow = usize::from(*next) << 3;
            let both = usize::from(*next.add(usize::from(is_wide))) << 8 | usize::from(*next);
            distance = select_unpredictable(is_wide, both, narrow);
            next = next.add(1 + usize::from(is_wide));
        }
        // All that follow: what is written too much is written again, by the next one that is
        // named or by the next block. No end of a loop is there to be guessed.
        let everywhere = _mm256_set1_epi16(distance as i16);
        for n in 0..4 {
            store(&mut lanes.distance, k + 16 * n, everywhere);
        }
    }
    *distance_in_force = distance;
    Some(())
}

/// Reads masks and distances of a block. Each distance is at least 8 and at most the word's
/// position, or 0 for a word that is replaced whole. `None`: a distance is not one, or the
/// streams end.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn prepare(
    input: &mut Input,
    masks: &[u8; MASK_SPACE],
    next_mask: &mut usize,
    lanes: &mut DecodeLanes,
    block: usize,
    distance_in_force: &mut usize,
) -> Option<()> {
    let byte = |value: u8| _mm256_set1_epi8(value as i8);
    let code = [0, 16].map(|half| {
        // SAFETY: 16 bytes for each half of the 8 blocks.
        let pairs = unsafe { _mm_loadu_si128(input.codes.as_ptr().add(block / 2 + half).cast()) };
        let pairs = _mm256_cvtepu8_epi16(pairs);
        let second = _mm256_slli_epi16::<4>(pairs);
        _mm256_and_si256(_mm256_or_si256(pairs, second), byte(15))
    });
    let candidate = code.map(|code| look_up(&CANDIDATE_OF_CODE, 0, code));
    let listed = all_bits(candidate);
    let candidate = candidate.map(|listed| _mm256_and_si256(listed, byte(7)));
    let implied = code.map(|code| look_up(&MASK_OF_CODE, 0, code));
    let is_zero = candidate.map(|candidate| _mm256_cmpeq_epi8(candidate, byte(0)));
    for half in [0, 1] {
        store(&mut lanes.deposited, 32 * half, implied[half]);
        store(&mut lanes.replaced, 32 * half, is_zero[half]);
    }
    read_masks(input, masks, next_mask, lanes, listed)?;

    let above = |least: Candidate| {
        candidate.map(|candidate| _mm256_cmpgt_epi8(candidate, byte(least as u8 - 1)))
    };
    let wide = all_bits(above(Candidate::ByteDistance));
    let left = all_bits(above(Candidate::WordDistance));
    read_distances(input, lanes, left, wide, distance_in_force)?;

    let in_force = above(Candidate::Continued);
    let counting = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let mut invalid = _mm256_setzero_si256();
    for n in 0..4 {
        let quarter = |bytes: Bytes| {
            if n % 2 == 0 {
                _mm256_castsi256_si128(bytes[n / 2])
            } else {
                _mm256_extracti128_si256::<1>(bytes[n / 2])
            }
        };
        let fixed = code.map(|code| look_up(&FIXED_DISTANCE, 0, code));
        let fixed = _mm256_cvtepu8_epi16(quarter(fixed));
        let named = load(&lanes.distance, 16 * n);
        let in_force = _mm256_cvtepi8_epi16(quarter(in_force));
        let distance = _mm256_or_si256(fixed, _mm256_and_si256(named, in_force));
        store(&mut lanes.distance, 16 * n, distance);
        let index = _mm256_add_epi16(counting, _mm256_set1_epi16((block + 16 * n) as i16));
        let position = _mm256_slli_epi16::<3>(index);
        let is_zero = _mm256_cvtepi8_epi16(quarter(is_zero));
        let least = _mm256_andnot_si256(is_zero, _mm256_set1_epi16(8));
        let too_far = _mm256_subs_epu16(distance, position);
        let too_near = _mm256_subs_epu16(least, distance);
        invalid = _mm256_or_si256(invalid, _mm256_or_si256(too_far, too_near));
    }
    (_mm256_testz_si256(invalid, invalid) == 1).then_some(())
}
