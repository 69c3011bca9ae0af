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
//! The pointers keep to V1 to V3 of `blocks.rs`.

#![allow(
    clippy::needless_range_loop,
    reason = "one number is a place in several arrays"
)]

use core::arch::x86_64::*;
use core::hint::select_unpredictable;

use super::assemble::{self, Steps, assemble_with};
use super::blocks::{self, each_block, name_distances, word, word_before};
use super::format::{
    BLOCK_WORDS, CANDIDATE_OF_CODE, CLASS_OF_MASK, CODE_BITMAP_BYTES, CODE_BY_CLASS, CODE_BYTES,
    Candidate, Codes, MASK_OF_CODE, WORDS,
};
use super::portable::{Input, MOST_FOR_A_DISTANCE, NEVER};
use super::state::{
    DecodeLanes, Effort, GOLDEN, LITERAL_SPACE, Lanes, MARGIN, Margined, Streams, TEXT_HASH_BITS,
    Tables, WORD_HASH_BITS,
};
use super::survey::Survey;
use crate::{Corrupt, Page};

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
pub(crate) fn load<T: Copy>(from: &[T], at: usize) -> __m512i {
    debug_assert!(size_of_val(&from[at..]) >= 64);
    // SAFETY: each caller names the bound: 64 bytes from there are inside the slice.
    unsafe { _mm512_loadu_si512(from.as_ptr().add(at).cast()) }
}

#[inline(always)]
pub(crate) fn store<T: Copy>(to: &mut [T], at: usize, value: __m512i) {
    debug_assert!(size_of_val(&to[at..]) >= 64);
    // SAFETY: each caller names the bound: 64 bytes from there are inside the slice.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().add(at).cast(), value) }
}

/// The 64 bytes of the page at `position` (V1).
#[inline(always)]
pub(crate) fn load_page(page: &Margined, position: isize) -> __m512i {
    load(&page.0, (position + MARGIN as isize) as usize)
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
    let mut distance_in_force = 8;
    each_block(
        tables,
        streams,
        not_zero,
        limit,
        effort,
        |tables, streams, block, text| {
            look_up_words(page, tables, lanes, block);
            if text {
                look_up_text(page, tables, lanes, block);
            }
            let choice = choose(page, lanes, block, text);
            let taken = follow(page, lanes, block, choice.worth_it, &mut distance_in_force);
            emit(page, lanes, streams, block, &choice, taken);
        },
    )
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
    for k in (0..BLOCK_WORDS).step_by(4) {
        let earlier = [0, 1, 2, 3].map(|n| {
            let hash = lanes.hash[k + n] as usize % (1 << WORD_HASH_BITS);
            core::mem::replace(&mut tables.words[hash], (block + k + n) as u16)
        });
        store_four_indices(&mut lanes.found, k, earlier);
        store_four(
            &mut lanes.found_word,
            k,
            earlier.map(|n| word(page, 8 * n as usize)),
        );
    }
}

/// Stores four at a time: what limits these loops is how many stores there are.
#[inline(always)]
fn store_four_indices(to: &mut [u16; BLOCK_WORDS], k: usize, four: [u16; 4]) {
    let [a, b, c, d] = four.map(u64::from);
    let all = a | b << 16 | c << 32 | d << 48;
    to[k..k + 4].copy_from_slice(&[
        all as u16,
        (all >> 16) as u16,
        (all >> 32) as u16,
        (all >> 48) as u16,
    ]);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_four(to: &mut [u64; BLOCK_WORDS], k: usize, four: [u64; 4]) {
    let [a, b, c, d] = four.map(|word| word as i64);
    let to = &mut to[k..k + 4];
    // SAFETY: four words.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_set_epi64x(d, c, b, a)) };
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
    for k in (0..BLOCK_WORDS).step_by(4) {
        let mut distances = [[0; 4]; 2];
        let mut words = [[0; 4]; 2];
        for n in 0..4 {
            let position = 8 * (block + k + n);
            for shift in [0, 1] {
                let found = table[entry(lanes.text_hash[shift][k + n])] as usize;
                distances[shift][n] = (position + shift).wrapping_sub(found) as u16;
                // V1: at worst in the margin, where the distance is too large to be used.
                words[shift][n] = word_before(page, found, shift);
            }
            // Position 0 enters nothing: there is nothing before it. (Its hashes would be those
            // of the margin.)
            let hashes: &[u16; 4] = lanes.entered[4 * (k + n)..].first_chunk().expect("inside");
            if position != 0 {
                for (m, hash) in hashes.iter().enumerate() {
                    table[entry(*hash)] = (position - 6 + 2 * m) as u16;
                }
            }
        }
        for shift in [0, 1] {
            store_four_indices(&mut lanes.text_distance[shift], k, distances[shift]);
            store_four(&mut lanes.text_word[shift], k, words[shift]);
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

/// Stage 3: see [`blocks::follow`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2")]
fn follow(
    page: &Margined,
    lanes: &mut Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
) -> u64 {
    blocks::follow(page, lanes, block, worth_it, distance_in_force, |at| {
        let words = load_page(page, at);
        move |distance| _mm512_cmpneq_epi8_mask(words, load_page(page, at - distance as isize))
    })
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

    let chosen = &mut lanes.chosen[block / BLOCK_WORDS];
    store(chosen, 0, mask);
    let mut end = streams.literal_count;
    for k in 0..BLOCK_WORDS / 8 {
        let words = load_page(page, 8 * (block + 8 * k) as isize);
        let bits = chosen[k];
        // V2
        store(
            &mut streams.literals,
            end,
            _mm512_maskz_compress_epi8(bits, words),
        );
        end += bits.count_ones() as usize;
    }
    streams.literal_count = end;

    name_distances(lanes, streams, taken, wide);
}

/// [`assemble::assemble`] with vectors.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,popcnt"
)]
pub(super) fn assemble(streams: &Streams, out: &mut [u8]) -> Option<usize> {
    let steps = Steps {
        count_bases: |codes: &[u8; CODE_BYTES]| count_bases(codes),
        write_sparse: |base, codes: &[u8; CODE_BYTES], out: &mut [u8]| {
            write_sparse(base, codes, out)
        },
        count_low_groups: |streams: &Streams| count_low_groups(streams),
        pack: |streams: &Streams, out: &mut [u8]| pack(streams, out),
    };
    assemble_with(steps, streams, out)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
fn count_bases(codes: &[u8; CODE_BYTES]) -> [usize; 3] {
    let bases = Codes::BASES.map(|base| _mm512_set1_epi8(base as i8));
    let mut counts = [0; 3];
    for at in (0..CODE_BYTES).step_by(64) {
        let bytes = load(codes, at);
        for (count, base) in counts.iter_mut().zip(bases) {
            *count += _mm512_cmpeq_epi8_mask(bytes, base).count_ones() as usize;
        }
    }
    counts
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
fn write_sparse(base: u8, codes: &[u8; CODE_BYTES], out: &mut [u8]) {
    let (bitmap, mut out) = out.split_at_mut(CODE_BITMAP_BYTES);
    let base = _mm512_set1_epi8(base as i8);
    for (bits, codes) in bitmap
        .as_chunks_mut::<8>()
        .0
        .iter_mut()
        .zip(codes.as_chunks::<64>().0)
    {
        let bytes = load(codes, 0);
        let listed = _mm512_cmpneq_epi8_mask(bytes, base);
        *bits = listed.to_le_bytes();
        out = store_head(
            out,
            listed.count_ones(),
            _mm512_maskz_compress_epi8(listed, bytes),
        );
    }
}

/// Writes the first `count` bytes of `value` to the head of `out`; gives what follows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn store_head(out: &mut [u8], count: u32, value: __m512i) -> &mut [u8] {
    let (head, rest) = out.split_at_mut(count as usize);
    // SAFETY: the mask selects as many bytes as `head` has, at most 64.
    unsafe { _mm512_mask_storeu_epi8(head.as_mut_ptr().cast(), _bzhi_u64(!0, count), value) };
    rest
}

/// Of the eight groups at `group` of the literals, those that are full and below 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn low_groups(streams: &Streams, group: usize) -> u8 {
    // V2: the buffer reaches 64 bytes beyond any literal.
    let bytes = load(&streams.literals, 8 * group);
    let high = _mm512_set1_epi8(i8::MIN);
    let full = (streams.literal_count / 8 - group).min(8) as u32;
    _mm512_testn_epi64_mask(bytes, high) & _bzhi_u32(0xff, full) as u8
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2,popcnt")]
fn count_low_groups(streams: &Streams) -> usize {
    let mut count = 0;
    for group in (0..streams.literal_count / 8).step_by(8) {
        count += low_groups(streams, group).count_ones();
    }
    count as usize
}

/// For each byte of eight groups: whether it is stored, where `low` are the packed ones.
#[inline]
#[target_feature(enable = "bmi2")]
fn stored_bytes(low: u8) -> u64 {
    !_pdep_u64(u64::from(low), 0x8080_8080_8080_8080)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi1,bmi2,popcnt")]
fn pack(streams: &Streams, out: &mut [u8]) {
    let groups = streams.literal_count / 8;
    let (bitmap, mut out) = out.split_at_mut(assemble::bitmap_len(streams.literal_count));
    let seven = _mm512_set1_epi16(0x007f);
    let fourteen = _mm512_set1_epi32(0x3fff);
    let twenty_eight = _mm512_set1_epi64(0x0fff_ffff);
    for (bits, group) in bitmap.iter_mut().zip((0..groups).step_by(8)) {
        let low = low_groups(streams, group);
        *bits = low;
        let bytes = load(&streams.literals, 8 * group);
        // As `assemble::squeeze`, for eight groups.
        let x = _mm512_or_si512(
            _mm512_and_si512(bytes, seven),
            _mm512_srli_epi16::<1>(_mm512_andnot_si512(seven, bytes)),
        );
        let x = _mm512_or_si512(
            _mm512_and_si512(x, fourteen),
            _mm512_srli_epi32::<2>(_mm512_andnot_si512(fourteen, x)),
        );
        let x = _mm512_or_si512(
            _mm512_and_si512(x, twenty_eight),
            _mm512_srli_epi64::<4>(_mm512_andnot_si512(twenty_eight, x)),
        );
        let bytes = _mm512_mask_mov_epi64(bytes, low, x);
        let stored = stored_bytes(low) & _bzhi_u64(!0, 8 * (groups - group).min(8) as u32);
        out = store_head(
            out,
            stored.count_ones(),
            _mm512_maskz_compress_epi8(stored, bytes),
        );
    }
    out.copy_from_slice(&streams.literals[8 * groups..streams.literal_count]);
}

/// Takes `stored` from the head of `bytes`, each byte to where its bit is set, zero elsewhere.
/// `None`: there are not so many.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn take_expanded(bytes: &mut &[u8], bits: u64) -> Option<__m512i> {
    let taken = bytes.split_off(..bits.count_ones() as usize)?;
    // SAFETY: the instruction reads as many bytes as there are bits: those just taken.
    Some(unsafe { _mm512_maskz_expandloadu_epi8(bits, taken.as_ptr().cast()) })
}

/// [`assemble::read_codes`] of sparse codes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(super) fn read_sparse<'a>(
    base: u8,
    stored: &'a [u8],
    codes: &mut [u8; CODE_BYTES],
) -> Option<&'a [u8]> {
    let base = _mm512_set1_epi8(base as i8);
    let (bitmap, mut rest) = stored.split_first_chunk::<CODE_BITMAP_BYTES>()?;
    for (bits, codes) in bitmap
        .as_chunks::<8>()
        .0
        .iter()
        .zip(codes.as_chunks_mut::<64>().0)
    {
        let listed = u64::from_le_bytes(*bits);
        let bytes = take_expanded(&mut rest, listed)?;
        store(codes, 0, _mm512_mask_mov_epi8(base, listed, bytes));
    }
    Some(rest)
}

/// [`assemble::unpack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn unpack<'a>(
    stored: &'a [u8],
    count: usize,
    literals: &mut [u8; LITERAL_SPACE],
) -> Option<&'a [u8]> {
    const SHIFTS: i64 = i64::from_le_bytes([0, 7, 14, 21, 28, 35, 42, 49]);
    let groups = count / 8;
    let (bitmap, mut rest) = stored.split_at_checked(assemble::bitmap_len(count))?;
    for (low, group) in bitmap.iter().zip((0..groups).step_by(8)) {
        let left = (groups - group).min(8) as u32;
        if _bzhi_u32(u32::from(*low), left) != u32::from(*low) {
            return None;
        }
        let here = stored_bytes(*low) & _bzhi_u64(!0, 8 * left);
        let bytes = take_expanded(&mut rest, here)?;
        let wide = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(SHIFTS), bytes);
        let wide = _mm512_and_si512(wide, _mm512_set1_epi8(0x7f));
        // At most 4,096 literals, and 64 bytes behind them.
        store(
            literals,
            8 * group,
            _mm512_mask_mov_epi64(bytes, *low, wide),
        );
    }
    let (tail, rest) = rest.split_at_checked(count % 8)?;
    literals[8 * groups..count].copy_from_slice(tail);
    Some(rest)
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
    take_distances(input.codes, input.distances, lanes).ok_or(Corrupt)?;
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let code = codes_of(input.codes, block);
        let candidate = candidates_of(code);
        set_distances(candidate, lanes, block).ok_or(Corrupt)?;
        take_literals(&mut input, code, candidate, lanes).ok_or(Corrupt)?;
        replace(page, lanes, block);
    }
    let nothing_left = input.literals.is_empty() && input.masks.is_empty();
    nothing_left.then_some(()).ok_or(Corrupt)
}

/// The codes of a block, a byte each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn codes_of(codes: &[u8; CODE_BYTES], block: usize) -> __m512i {
    let pairs: &[u8; 32] = codes[block / 2..].first_chunk().expect("of 8 blocks");
    // SAFETY: 32 bytes.
    let pairs = _mm512_cvtepu8_epi16(unsafe { _mm256_loadu_si256(pairs.as_ptr().cast()) });
    let second = _mm512_slli_epi16::<4>(pairs);
    _mm512_and_si512(_mm512_or_si512(pairs, second), _mm512_set1_epi8(15))
}

/// Their candidates, with [`LISTED`](super::format::LISTED).
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
pub(crate) fn candidates_of(code: __m512i) -> __m512i {
    _mm512_permutexvar_epi8(code, load(&CANDIDATE_OF_CODE, 0))
}

/// Which candidates are not zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn not_zero(candidate: __m512i) -> u64 {
    _mm512_test_epi8_mask(candidate, _mm512_set1_epi8(7))
}

/// The masks that the codes imply; zero for those that are listed.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi")]
pub(crate) fn implied_masks(code: __m512i) -> __m512i {
    _mm512_permutexvar_epi8(code, load(&MASK_OF_CODE, 0))
}

/// Reads the masks and literals of a block, and says which bytes stay those of the candidate.
/// `None`: the streams end.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt"
)]
fn take_literals(
    input: &mut Input,
    code: __m512i,
    candidate: __m512i,
    lanes: &mut DecodeLanes,
) -> Option<()> {
    let listed = take_expanded(&mut input.masks, _mm512_movepi8_mask(candidate))?;
    store(
        &mut lanes.masks,
        0,
        _mm512_or_si512(implied_masks(code), listed),
    );
    let counts = lanes.masks.map(|bits| _popcnt64(bits as i64) as usize);
    let readable = input.literals.len() + input.readable_behind;
    let mut next = input.literals.split_off(..counts.iter().sum())?.as_ptr();
    let not_zero = not_zero(candidate);
    if readable >= 8 * BLOCK_WORDS + 64 {
        for k in 0..BLOCK_WORDS / 8 {
            // SAFETY: 64 bytes can be read wherever the literals of a block end.
            let literals = unsafe { expand_from(next, lanes.masks[k]) };
            // SAFETY: as above.
            next = unsafe { next.add(counts[k]) };
            set_literals(lanes, k, literals, not_zero);
        }
    } else {
        for k in 0..BLOCK_WORDS / 8 {
            // SAFETY: reads as many bytes as there are bits, in all those just taken.
            let literals = unsafe { _mm512_maskz_expandloadu_epi8(lanes.masks[k], next.cast()) };
            // SAFETY: as above.
            next = unsafe { next.add(counts[k]) };
            set_literals(lanes, k, literals, not_zero);
        }
    }
    Some(())
}

/// The bytes from `from` on, each where its bit is set, zero elsewhere.
///
/// They are loaded first, in one instruction that the compiler cannot join with the next: the
/// form of VPEXPANDB that reads memory makes an access of each byte. With it press-dense
/// decompressed at 1.98 times zstd's speed on Zen 4, without it at 2.10 times.
///
/// # Safety
/// 64 bytes can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2")]
pub(crate) unsafe fn expand_from(from: *const u8, bits: u64) -> __m512i {
    // SAFETY: as the caller promises.
    let mut bytes = unsafe { _mm512_loadu_si512(from.cast()) };
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("/* {0} */", inout(zmm_reg) bytes,
            options(pure, nomem, nostack, preserves_flags));
    }
    _mm512_maskz_expand_epi8(bits, bytes)
}

/// Sets the literals of eight words, whose masks are in `lanes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn set_literals(lanes: &mut DecodeLanes, k: usize, literals: __m512i, not_zero: u64) {
    store(&mut lanes.literal, 8 * k, literals);
    let kept = _mm512_movm_epi8(!lanes.masks[k]);
    let kept = _mm512_maskz_mov_epi64((not_zero >> (8 * k)) as u8, kept);
    store(&mut lanes.keep, 8 * k, kept);
}

/// Reads the distances of a page: leaves in `lanes.named` the distance in force at each word.
/// `None`: the stream ends, or goes on.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt"
)]
pub(crate) fn take_distances(
    codes: &[u8; CODE_BYTES],
    distances: &[u8],
    lanes: &mut DecodeLanes,
) -> Option<()> {
    const WIDE: u16 = 1 << 15;
    let counting = load(&COUNTING, 0);
    let (mut count, mut bytes) = (0, 0);
    for block in (0..WORDS).step_by(BLOCK_WORDS) {
        let candidate = candidates_of(codes_of(codes, block));
        let candidate = _mm512_and_si512(candidate, _mm512_set1_epi8(7));
        let at_least =
            |least: Candidate| _mm512_cmpge_epu8_mask(candidate, _mm512_set1_epi8(least as i8));
        let named = at_least(Candidate::WordDistance);
        let wide = at_least(Candidate::ByteDistance);
        bytes += (named.count_ones() + wide.count_ones()) as usize;
        for half in [0, 32] {
            let which = |bits: u64| (bits >> half) as u32;
            let first = _mm512_set1_epi16((block + half) as i16);
            let index = _mm512_add_epi16(counting, first);
            let marked = _mm512_or_si512(index, _mm512_set1_epi16(WIDE as i16));
            let index = _mm512_mask_mov_epi16(index, which(wide), marked);
            // At most 512 words, and 32 behind them.
            let named = which(named);
            store(
                &mut lanes.naming,
                count,
                _mm512_maskz_compress_epi16(named, index),
            );
            count += named.count_ones() as usize;
        }
    }
    if bytes != distances.len() {
        return None;
    }
    lanes.naming[count] = WORDS as u16;
    let mut next = distances.as_ptr();
    let (mut at, mut distance) = (0, 8);
    for &naming in &lanes.naming[..count + 1] {
        let end = (naming & !WIDE) as usize;
        // In steps of 16 words, hardly more than there are from one that is named to the next:
        // what is written too much is written again.
        loop {
            let to = &mut lanes.named[at..][..16];
            // SAFETY: 16 words.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_set1_epi16(distance)) };
            at += 16;
            if at >= end {
                break;
            }
        }
        at = end;
        if end == WORDS {
            break;
        }
        let is_wide = naming >= WIDE;
        // SAFETY: one or two bytes, in all those that were counted.
        unsafe {
            let both = u16::from(*next.add(usize::from(is_wide))) << 8 | u16::from(*next);
            distance = select_unpredictable(is_wide, both, u16::from(*next) << 3) as i16;
            next = next.add(1 + usize::from(is_wide));
        }
    }
    Some(())
}

/// The distances of a block, of those in force: each is at least 8 and at most the word's
/// position, or 0 for a word whose candidate is zero. `None`: a distance is not one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2,popcnt")]
pub(crate) fn set_distances(
    candidate: __m512i,
    lanes: &mut DecodeLanes,
    block: usize,
) -> Option<()> {
    let not_zero = not_zero(candidate);
    let candidate = _mm512_and_si512(candidate, _mm512_set1_epi8(7));
    let second_previous =
        _mm512_cmpeq_epi8_mask(candidate, _mm512_set1_epi8(Candidate::SecondPrevious as i8));
    let in_force = _mm512_cmpge_epu8_mask(candidate, _mm512_set1_epi8(Candidate::Continued as i8));
    let counting = load(&COUNTING, 0);
    let mut invalid = 0;
    for half in [0, 32] {
        let which = |bits: u64| (bits >> half) as u32;
        let eight = _mm512_maskz_set1_epi16(which(not_zero), 8);
        let fixed = _mm512_mask_slli_epi16::<1>(eight, which(second_previous), eight);
        let named = load(&lanes.named, block + half);
        let distance = _mm512_mask_mov_epi16(fixed, which(in_force), named);
        store(&mut lanes.distance, half, distance);
        let first = _mm512_set1_epi16((block + half) as i16);
        let position = _mm512_slli_epi16::<3>(_mm512_add_epi16(counting, first));
        let too_far = _mm512_cmpgt_epu16_mask(distance, position);
        let least = _mm512_set1_epi16(8);
        let too_near = _mm512_mask_cmplt_epu16_mask(which(not_zero), distance, least);
        invalid |= too_far | too_near;
    }
    (invalid == 0).then_some(())
}

/// Makes the words of a block of what is in `lanes`.
#[inline(always)]
pub(crate) fn replace(page: &mut Page, lanes: &DecodeLanes, block: usize) {
    let start = page.as_mut_ptr();
    for vector in (0..BLOCK_WORDS).step_by(8) {
        for k in vector..vector + 8 {
            let position = 8 * (block + k);
            debug_assert!(lanes.distance[k] as usize <= position);
            // SAFETY: the distance is at most the position (`take_distances`), and 8 at least or
            // 0; so eight bytes from there lie inside the page.
            unsafe {
                let from = start.add(position - lanes.distance[k] as usize);
                let candidate = from.cast::<u64>().read_unaligned();
                let word = candidate & lanes.keep[k] | lanes.literal[k];
                start.add(position).cast::<u64>().write_unaligned(word);
            }
        }
    }
}
