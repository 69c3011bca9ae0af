//! The encoder and the decoder with AVX-512: a block of 64 words is eight vectors, and what is
//! counted for each word is a vector of 64 bytes.
//!
//! ```text
//!  8 words  ──compare bytes──▶ 64 bits, one u64 ──8 of them──▶ 64 masks, one a byte
//!                                                              counts, choices: a byte each
//!  literals: compress each vector by its 64 bits             masks: compress the vector
//! ```
//!
//! What has an order, the tables and the distance in force, is done one word at a time between
//! the vectors, without branches that depend on the data.
//!
//! The stages are those of `portable.rs`, and produce the same bytes (P1).
//!
//! Invariants of the pointers (P2):
//! * V1 A position of the page is at least -64 and at most 4096 wherever 64 bytes are read:
//!   within `Margined`, which has 64 bytes before and after the page.
//! * V2 Streams are written at their ends, which are within the bounds of the portable encoder;
//!   the 64 bytes of a vector fit behind them.
//! * V3 The distance in force is at least 8, and at most the position of the word for which it
//!   was set (8 at the beginning, where the margin is read).

use core::arch::x86_64::*;

use super::format::{BLOCK_WORDS, CODE_OF, CODES, Candidate, LISTED, Mask, WORDS};
use super::portable::{MOST_FOR_A_DISTANCE, NEVER};
use super::state::{
    DecodeLanes, Effort, GOLDEN, LITERAL_SPACE, Lanes, MARGIN, Margined, STORED_SPACE, Streams,
    TEXT_HASH_BITS, Tables, WORD_HASH_BITS,
};
use super::survey::Survey;
use crate::{Corrupt, Page};

/// Classes of masks: 0 none, 1 all, 2 the first byte, 3 the first two, 4 any other.
const CLASS_OF_MASK: [u8; 256] = {
    let mut table = [4; 256];
    table[0x00] = 0;
    table[0xff] = 1;
    table[0x01] = 2;
    table[0x03] = 3;
    table
};

/// A mask of each class.
const MASK_OF_CLASS: [u8; 5] = [0x00, 0xff, 0x01, 0x03, 0x02];

/// Code, with [`LISTED`], by candidate × 8 + class.
const CODE_BY_CLASS: [u8; 64] = {
    let mut table = [0; 64];
    let mut candidate = 0;
    while candidate < CODE_OF.len() {
        let mut class = 0;
        while class < MASK_OF_CLASS.len() {
            table[candidate * 8 + class] = CODE_OF[candidate][MASK_OF_CLASS[class] as usize];
            class += 1;
        }
        candidate += 1;
    }
    table
};

/// By code, four times over: the candidate, with [`LISTED`] where the mask is listed.
const CANDIDATE_OF_CODE: [u8; 64] = by_code(true);
/// By code, four times over: the mask, 0 where it is listed.
const MASK_OF_CODE: [u8; 64] = by_code(false);

const fn by_code(candidates: bool) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (candidate, mask) = CODES[i % 16];
        table[i] = match (mask, candidates) {
            (Mask::Is(_), true) => candidate as u8,
            (Mask::Listed, true) => candidate as u8 | LISTED,
            (Mask::Is(mask), false) => mask,
            (Mask::Listed, false) => 0,
        };
        i += 1;
    }
    table
}

/// For 32-bit lane n: the four bytes from byte 2n.
const EVERY_SECOND_BYTE: [u8; 64] = {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = (i / 4 * 2 + i % 4) as u8;
        i += 1;
    }
    table
};

/// Lane n: n.
const COUNTING: [u16; 32] = {
    let mut table = [0; 32];
    let mut i = 0;
    while i < 32 {
        table[i] = i as u16;
        i += 1;
    }
    table
};

#[inline(always)]
fn load<T: Copy>(from: &[T], at: usize) -> __m512i {
    debug_assert!(size_of_val(&from[at..]) >= 64);
    // SAFETY: each caller names the bound: 64 bytes from there are inside the slice.
    unsafe { _mm512_loadu_si512(from.as_ptr().add(at).cast()) }
}

#[inline(always)]
fn store<T: Copy>(to: &mut [T], at: usize, value: __m512i) {
    debug_assert!(size_of_val(&to[at..]) >= 64);
    // SAFETY: each caller names the bound: 64 bytes from there are inside the slice.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), value) }
}

/// The 64 bytes of the page at `position` (V1).
#[inline(always)]
fn load_page(page: &Margined, position: isize) -> __m512i {
    load(&page.0, (position + MARGIN as isize) as usize)
}

/// The word at `position` (V1).
#[inline(always)]
fn word(page: &Margined, position: usize) -> u64 {
    debug_assert!(position + 8 <= crate::PAGE_SIZE + MARGIN);
    // SAFETY: V1: inside the page or the margin behind it.
    unsafe {
        page.0
            .as_ptr()
            .add(MARGIN + position)
            .cast::<u64>()
            .read_unaligned()
    }
}

/// Copies the page in, and counts.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
pub(super) fn survey(page: &Page, to: &mut Margined) -> Survey {
    let mut survey = Survey::default();
    let mut previous = _mm512_xor_si512(load(page, 0), _mm512_set1_epi64(-1));
    previous = _mm512_permutexvar_epi64(_mm512_setzero_si512(), previous);
    for at in (0..crate::PAGE_SIZE).step_by(64) {
        let bytes = load(page, at);
        store(&mut to.0, MARGIN + at, bytes);
        survey.not_zero += _mm512_test_epi8_mask(bytes, bytes).count_ones();
        survey.high += _mm512_movepi8_mask(bytes).count_ones();
        let before = _mm512_alignr_epi64::<7>(bytes, previous);
        survey.changes += u32::from(_mm512_cmpneq_epi64_mask(bytes, before)).count_ones();
        previous = bytes;
    }
    survey
}

/// See [`super::portable::encode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(
    page: &Margined,
    tables: &mut Tables,
    lanes: &mut Lanes,
    streams: &mut Streams,
    not_zero: u32,
    limit: usize,
    effort: Effort,
) -> Option<()> {
    streams.clear();
    tables.words.fill(0);
    let mut text = not_zero > effort.text_bytes;
    let mut text_cleared = false;
    let mut distance_in_force = 8;
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        if text && !text_cleared {
            tables.text.fill(0);
            text_cleared = true;
        }
        look_up_words(page, tables, lanes, block);
        if text {
            look_up_text(page, tables, lanes, block);
        }
        let choice = choose(page, lanes, block, text);
        let taken = follow(page, lanes, block, choice.worth_it, &mut distance_in_force);
        emit(page, lanes, streams, block, &choice, taken);
        if streams.literal_count > limit {
            return None;
        }
        let words = (block + BLOCK_WORDS) as u32;
        text |= streams.literal_count as u32 * WORDS as u32 > words * effort.text_literals;
    }
    Some(())
}

/// Stage 1: looks every word up and enters it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn look_up_words(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    let golden = _mm512_set1_epi64(GOLDEN as i64);
    let low = _mm512_set1_epi64(0xffff_ffff);
    for k in (0..BLOCK_WORDS).step_by(8) {
        let words = load_page(page, 8 * (block + k) as isize);
        let product = _mm512_mul_epu32(_mm512_srli_epi64::<16>(words), golden);
        let product = _mm512_and_si512(product, low);
        let hash = _mm512_srli_epi64::<{ 32 - WORD_HASH_BITS }>(product);
        let hash = _mm512_cvtepi64_epi16(hash);
        // SAFETY: k + 8 <= 64 hashes.
        unsafe { _mm_storeu_si128(lanes.hash.as_mut_ptr().add(k).cast(), hash) };
    }
    for k in 0..BLOCK_WORDS {
        let entry = &mut tables.words[lanes.hash[k] as usize % (1 << WORD_HASH_BITS)];
        let earlier = *entry;
        *entry = (block + k) as u16;
        lanes.found[k] = earlier;
        lanes.found_word[k] = word(page, 8 * earlier as usize);
    }
}

/// Stage 1 on text: looks every word up at two positions, and enters four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn look_up_text(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    const SHIFT: u32 = 32 - TEXT_HASH_BITS;
    let golden = _mm512_set1_epi32(GOLDEN as i32);
    let low = _mm512_set1_epi64(0xffff_ffff);
    let window = load(&EVERY_SECOND_BYTE, 0);
    for k in (0..BLOCK_WORDS).step_by(4) {
        let bytes = load_page(page, 8 * (block + k) as isize - 6);
        let fours = _mm512_permutexvar_epi8(window, bytes);
        let hash = _mm512_srli_epi32::<SHIFT>(_mm512_mullo_epi32(fours, golden));
        // SAFETY: 4 k + 16 <= 256 hashes.
        unsafe {
            let to = lanes.entered.as_mut_ptr().add(4 * k);
            _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(hash));
        }
    }
    for k in (0..BLOCK_WORDS).step_by(8) {
        let words = load_page(page, 8 * (block + k) as isize);
        for (shift, hashes) in lanes.text_hash.iter_mut().enumerate() {
            let fours = if shift == 0 {
                words
            } else {
                _mm512_srli_epi64::<8>(words)
            };
            let product = _mm512_and_si512(_mm512_mul_epu32(fours, golden), low);
            let hash = _mm512_cvtepi64_epi16(_mm512_srli_epi64::<SHIFT>(product));
            // SAFETY: k + 8 <= 64 hashes.
            unsafe { _mm_storeu_si128(hashes.as_mut_ptr().add(k).cast(), hash) };
        }
    }
    let table = &mut tables.text;
    let entry = |hash: u16| hash as usize % (1 << TEXT_HASH_BITS);
    for k in 0..BLOCK_WORDS {
        let position = 8 * (block + k);
        let first = table[entry(lanes.text_hash[0][k])] as usize;
        let second = table[entry(lanes.text_hash[1][k])] as usize;
        lanes.text_distance[0][k] = (position - first) as u16;
        lanes.text_distance[1][k] = (position + 1).wrapping_sub(second) as u16;
        lanes.text_word[0][k] = word(page, first);
        // Entries are even, or 0 where there is none: then the distance is too large.
        lanes.text_word[1][k] = word(page, second.saturating_sub(1));
        if position != 0 {
            let hashes = &lanes.entered[4 * k..4 * k + 4];
            for (n, hash) in hashes.iter().enumerate() {
                table[entry(*hash)] = (position - 6 + 2 * n) as u16;
            }
        }
    }
}

/// What stage 2 chose for 64 words: a byte or a bit for each.
struct Choice {
    near: __m512i,
    near_mask: __m512i,
    near_count: __m512i,
    /// Words that are worth a new distance.
    worth_it: u64,
    /// Whose new distance is one of bytes.
    wide: u64,
    distance_mask: __m512i,
}

/// Stage 2.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg")]
fn choose(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) -> Choice {
    for k in 0..BLOCK_WORDS / 8 {
        let at = 8 * (block + 8 * k) as isize;
        let words = load_page(page, at);
        lanes.masks[0][k] = _mm512_test_epi8_mask(words, words);
        lanes.masks[1][k] = _mm512_cmpneq_epi8_mask(words, load_page(page, at - 8));
        lanes.masks[2][k] = _mm512_cmpneq_epi8_mask(words, load_page(page, at - 16));
        lanes.masks[3][k] = _mm512_cmpneq_epi8_mask(words, load(&lanes.found_word, 8 * k));
        if text {
            let [first, second] = &lanes.text_word;
            lanes.masks[4][k] = _mm512_cmpneq_epi8_mask(words, load(first, 8 * k));
            lanes.masks[5][k] = _mm512_cmpneq_epi8_mask(words, load(second, 8 * k));
        }
    }
    let never = _mm512_set1_epi8(NEVER as i8);
    let one = _mm512_set1_epi8(1);

    let mut near = _mm512_setzero_si512();
    let mut near_mask = load(&lanes.masks[0], 0);
    let mut near_count = _mm512_popcnt_epi8(near_mask);
    for candidate in [Candidate::Previous, Candidate::SecondPrevious] {
        let mask = load(&lanes.masks[candidate as usize], 0);
        let count = _mm512_popcnt_epi8(mask);
        let better = _mm512_cmplt_epu8_mask(count, near_count);
        near = _mm512_mask_mov_epi8(near, better, _mm512_set1_epi8(candidate as i8));
        near_mask = _mm512_mask_mov_epi8(near_mask, better, mask);
        near_count = _mm512_mask_mov_epi8(near_count, better, count);
    }

    // Distances are 16 bits, so 64 of them are two vectors.
    let counting = load(&COUNTING, 0);
    let index = [block, block + 32]
        .map(|first| _mm512_add_epi16(counting, _mm512_set1_epi16(first as i16)));
    let back = [0, 32].map(|k| _mm512_sub_epi16(index[k / 32], load(&lanes.found, k)));
    let usable = both(back.map(|words| {
        let most = _mm512_set1_epi16(255);
        _mm512_cmplt_epu16_mask(_mm512_sub_epi16(words, _mm512_set1_epi16(1)), most)
    }));
    let mut mask = load(&lanes.masks[3], 0);
    let mut cost = _mm512_mask_add_epi8(never, usable, _mm512_popcnt_epi8(mask), one);
    let mut distance = back.map(|words| _mm512_slli_epi16::<3>(words));
    let mut wide = 0;
    if text {
        let position = index.map(|words| _mm512_slli_epi16::<3>(words));
        let least = _mm512_set1_epi16(8);
        let mut text_cost = never;
        let mut text_mask = mask;
        let mut text_distance = distance;
        for shift in [0, 1] {
            let found = [0, 32].map(|k| load(&lanes.text_distance[shift], k));
            let usable = both([0, 1].map(|half| {
                _mm512_cmpge_epu16_mask(found[half], least)
                    & _mm512_cmple_epu16_mask(found[half], position[half])
            }));
            let mask = load(&lanes.masks[4 + shift], 0);
            let two = _mm512_set1_epi8(2);
            let cost = _mm512_mask_add_epi8(never, usable, _mm512_popcnt_epi8(mask), two);
            let better = _mm512_cmplt_epu8_mask(cost, text_cost);
            text_cost = _mm512_mask_mov_epi8(text_cost, better, cost);
            text_mask = _mm512_mask_mov_epi8(text_mask, better, mask);
            text_distance = blend_halves(text_distance, better, found);
        }
        wide = _mm512_cmplt_epu8_mask(text_cost, cost);
        cost = _mm512_mask_mov_epi8(cost, wide, text_cost);
        mask = _mm512_mask_mov_epi8(mask, wide, text_mask);
        distance = blend_halves(distance, wide, text_distance);
    }
    store(&mut lanes.distance, 0, distance[0]);
    store(&mut lanes.distance, 32, distance[1]);
    let most = _mm512_set1_epi8(MOST_FOR_A_DISTANCE as i8);
    Choice {
        near,
        near_mask,
        near_count,
        worth_it: _mm512_cmplt_epu8_mask(cost, near_count) & _mm512_cmple_epu8_mask(cost, most),
        wide,
        distance_mask: mask,
    }
}

#[inline(always)]
fn both(halves: [u32; 2]) -> u64 {
    u64::from(halves[0]) | u64::from(halves[1]) << 32
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn blend_halves(old: [__m512i; 2], which: u64, new: [__m512i; 2]) -> [__m512i; 2] {
    [
        _mm512_mask_mov_epi16(old[0], which as u32, new[0]),
        _mm512_mask_mov_epi16(old[1], (which >> 32) as u32, new[1]),
    ]
}

/// Stage 3: which of the words that are worth a new distance take it. Leaves the words at the
/// distance in force in `lanes.continued`.
#[inline]
#[target_feature(enable = "avx512f,bmi1")]
fn follow(
    page: &Margined,
    lanes: &mut Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
) -> u64 {
    let start = 8 * block;
    let mut distance = *distance_in_force;
    let copy = |lanes: &mut Lanes, k: usize, distance: usize| {
        // V3: from the first word on for which it is used the distance reaches the page or, at
        // its beginning, the margin; k is at most 63, and 64 bytes from there are in the margin.
        let words = load_page(page, (start + 8 * k) as isize - distance as isize);
        store(&mut lanes.continued, k, words);
    };
    let (mut next, mut left, mut taken) = (0, worth_it, 0);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        copy(lanes, next, distance);
        while k - next >= 8 {
            next += 8;
            copy(lanes, next, distance);
        }
        let differs = word(page, start + 8 * k) != lanes.continued[k];
        let all = usize::from(differs).wrapping_neg();
        distance ^= (distance ^ lanes.distance[k] as usize) & all;
        taken |= u64::from(differs) << k;
        next = k + 1;
    }
    while next < BLOCK_WORDS {
        copy(lanes, next, distance);
        next += 8;
    }
    *distance_in_force = distance;
    taken
}

/// Stage 4, and the streams.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,popcnt"
)]
fn emit(
    page: &Margined,
    lanes: &mut Lanes,
    streams: &mut Streams,
    block: usize,
    choice: &Choice,
    taken: u64,
) {
    for k in 0..BLOCK_WORDS / 8 {
        let words = load_page(page, 8 * (block + 8 * k) as isize);
        lanes.masks[6][k] = _mm512_cmpneq_epi8_mask(words, load(&lanes.continued, 8 * k));
    }
    let mut candidate = choice.near;
    let mut mask = choice.near_mask;
    let continued = load(&lanes.masks[6], 0);
    let better = _mm512_cmplt_epu8_mask(_mm512_popcnt_epi8(continued), choice.near_count);
    mask = _mm512_mask_mov_epi8(mask, better, continued);
    mask = _mm512_mask_mov_epi8(mask, taken, choice.distance_mask);
    let named = |candidate: Candidate| _mm512_set1_epi8(candidate as i8);
    candidate = _mm512_mask_mov_epi8(candidate, better, named(Candidate::Continued));
    candidate = _mm512_mask_mov_epi8(candidate, taken, named(Candidate::WordDistance));
    let wide = taken & choice.wide;
    candidate = _mm512_mask_mov_epi8(candidate, wide, named(Candidate::ByteDistance));

    let low = _mm512_permutex2var_epi8(load(&CLASS_OF_MASK, 0), mask, load(&CLASS_OF_MASK, 64));
    let high = _mm512_permutex2var_epi8(load(&CLASS_OF_MASK, 128), mask, load(&CLASS_OF_MASK, 192));
    let class = _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(mask), high);
    let by_class = _mm512_or_si512(_mm512_slli_epi16::<3>(candidate), class);
    let code = _mm512_permutexvar_epi8(by_class, load(&CODE_BY_CLASS, 0));
    let listed = _mm512_movepi8_mask(code);
    let code = _mm512_and_si512(code, _mm512_set1_epi8(15));
    let pairs = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(code, _mm512_set1_epi16(0x1001)));
    // SAFETY: 32 bytes for each of the 8 blocks.
    unsafe { _mm256_storeu_si256(streams.codes.as_mut_ptr().add(block / 2).cast(), pairs) };
    // V2
    let masks = _mm512_maskz_compress_epi8(listed, mask);
    store(&mut streams.masks, streams.mask_count, masks);
    streams.mask_count += listed.count_ones() as usize;

    store(&mut lanes.masks[7], 0, mask);
    let mut end = streams.literal_count;
    for k in 0..BLOCK_WORDS / 8 {
        let words = load_page(page, 8 * (block + 8 * k) as isize);
        let bits = lanes.masks[7][k];
        // V2
        store(
            &mut streams.literals,
            end,
            _mm512_maskz_compress_epi8(bits, words),
        );
        end += bits.count_ones() as usize;
    }
    streams.literal_count = end;

    let (mut left, mut end) = (taken, streams.distance_bytes);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let is_wide = wide >> k & 1;
        let named = lanes.distance[k] >> (3 - 3 * is_wide);
        // V2
        streams.distances[end..end + 2].copy_from_slice(&named.to_le_bytes());
        end += 1 + is_wide as usize;
    }
    streams.distance_bytes = end;
}

/// A stored page in memory that may be read beyond the ends of its streams.
pub(super) struct Input<'a> {
    pub codes: &'a [u8; WORDS / 2],
    pub literals: Stream<'a, LITERAL_SPACE>,
    pub masks: Stream<'a, STORED_SPACE>,
    pub distances: Stream<'a, STORED_SPACE>,
}

/// Bytes `next..end` of a buffer.
#[derive(Copy, Clone)]
pub(super) struct Stream<'a, const SPACE: usize> {
    pub bytes: &'a [u8; SPACE],
    pub next: usize,
    pub end: usize,
}

/// See [`super::portable::decode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,popcnt"
)]
pub(super) fn decode(
    mut input: Input,
    lanes: &mut DecodeLanes,
    page: &mut Page,
) -> Result<(), Corrupt> {
    let mut distance_in_force = 8;
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let valid = prepare(&mut input, lanes, block, &mut distance_in_force);
        let Input {
            literals,
            masks,
            distances,
            ..
        } = &input;
        if !valid
            || literals.next > literals.end
            || masks.next > masks.end
            || distances.next > distances.end
        {
            return Err(Corrupt);
        }
        let start = page.as_mut_ptr();
        for k in 0..BLOCK_WORDS {
            let position = 8 * (block + k);
            // SAFETY: the distance is at most the position (`prepare`), and 8 at least or 0; so
            // eight bytes from there lie inside the page.
            unsafe {
                let from = start.add(position - lanes.distance[k] as usize);
                let candidate = from.cast::<u64>().read_unaligned();
                let word = candidate & lanes.keep[k] | lanes.literal[k];
                start.add(position).cast::<u64>().write_unaligned(word);
            }
        }
    }
    let Input {
        literals,
        masks,
        distances,
        ..
    } = input;
    let nothing_left =
        literals.next == literals.end && masks.next == masks.end && distances.next == distances.end;
    nothing_left.then_some(()).ok_or(Corrupt)
}

/// Reads the streams of a block: which bytes to keep, literals, and distances. `false`: a
/// distance is not one.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt"
)]
fn prepare(
    input: &mut Input,
    lanes: &mut DecodeLanes,
    block: usize,
    distance_in_force: &mut usize,
) -> bool {
    // SAFETY: 32 bytes for each of the 8 blocks.
    let pairs = unsafe { _mm256_loadu_si256(input.codes.as_ptr().add(block / 2).cast()) };
    let pairs = _mm512_cvtepu8_epi16(pairs);
    let fifteen = _mm512_set1_epi16(15);
    let second = _mm512_slli_epi16::<8>(_mm512_srli_epi16::<4>(pairs));
    let code = _mm512_or_si512(_mm512_and_si512(pairs, fifteen), second);
    let candidate = _mm512_permutexvar_epi8(code, load(&CANDIDATE_OF_CODE, 0));
    let listed = _mm512_movepi8_mask(candidate);
    let candidate = _mm512_and_si512(candidate, _mm512_set1_epi8(7));
    let masks = &mut input.masks;
    // The streams end at most at PAGE_SIZE, and no block takes more than 512 bytes of any, after
    // which it is checked: 64 bytes from there are inside the buffer.
    let mask = _mm512_mask_expand_epi8(
        _mm512_permutexvar_epi8(code, load(&MASK_OF_CODE, 0)),
        listed,
        load(masks.bytes, masks.next),
    );
    masks.next += listed.count_ones() as usize;
    store(&mut lanes.masks, 0, mask);

    let not_zero = _mm512_test_epi8_mask(candidate, candidate);
    let mut next = input.literals.next;
    for k in 0..BLOCK_WORDS / 8 {
        let bits = lanes.masks[k];
        let bytes = load(input.literals.bytes, next);
        store(
            &mut lanes.literal,
            8 * k,
            _mm512_maskz_expand_epi8(bits, bytes),
        );
        next += bits.count_ones() as usize;
        let kept = _mm512_movm_epi8(!bits);
        let kept = _mm512_maskz_mov_epi64((not_zero >> (8 * k)) as u8, kept);
        store(&mut lanes.keep, 8 * k, kept);
    }
    input.literals.next = next;

    let at_least =
        |least: Candidate| _mm512_cmpge_epu8_mask(candidate, _mm512_set1_epi8(least as i8));
    let second_previous =
        _mm512_cmpeq_epi8_mask(candidate, _mm512_set1_epi8(Candidate::SecondPrevious as i8));
    let in_force = at_least(Candidate::Continued);
    let wide = at_least(Candidate::ByteDistance);
    let mut left = at_least(Candidate::WordDistance);
    let mut distance = *distance_in_force;
    let everywhere = _mm512_set1_epi16(distance as i16);
    store(&mut lanes.distance, 0, everywhere);
    store(&mut lanes.distance, 32, everywhere);
    let distances = &mut input.distances;
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let is_wide = wide >> k & 1;
        let at = distances.next;
        let raw = u16::from_le_bytes([distances.bytes[at], distances.bytes[at + 1]]) as usize;
        distance = if is_wide == 1 { raw } else { (raw & 0xff) << 3 };
        distances.next += 1 + is_wide as usize;
        let from_here = _mm512_set1_epi16(distance as i16);
        store(&mut lanes.distance, k, from_here);
        if k < 32 {
            store(&mut lanes.distance, k + 32, from_here);
        }
    }
    *distance_in_force = distance;

    let counting = load(&COUNTING, 0);
    let mut valid = true;
    for half in [0, 32] {
        let which = |bits: u64| (bits >> half) as u32;
        let eight = _mm512_maskz_set1_epi16(which(not_zero), 8);
        let fixed = _mm512_mask_slli_epi16::<1>(eight, which(second_previous), eight);
        let named = load(&lanes.distance, half);
        let distance = _mm512_mask_mov_epi16(fixed, which(in_force), named);
        store(&mut lanes.distance, half, distance);
        let first = _mm512_set1_epi16((block + half) as i16);
        let position = _mm512_slli_epi16::<3>(_mm512_add_epi16(counting, first));
        let too_far = _mm512_cmpgt_epu16_mask(distance, position);
        let least = _mm512_set1_epi16(8);
        let too_near = _mm512_mask_cmplt_epu16_mask(which(not_zero), distance, least);
        valid &= too_far | too_near == 0;
    }
    valid
}
