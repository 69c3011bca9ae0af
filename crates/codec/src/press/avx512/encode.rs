//! A page to streams: the stages of the encoder, with AVX-512. The pointers keep to V1 to V3 of
//! `blocks.rs`.

use core::arch::x86_64::*;

use super::{COUNTING, load, load_page, store};
use crate::Page;
use crate::press::blocks::{self, each_block, name_distances, word, word_before};
use crate::press::format::{BLOCK_WORDS, CLASS_OF_MASK, CODE_BY_CLASS, Candidate};
use crate::press::portable::{MOST_FOR_A_DISTANCE, NEVER};
use crate::press::state::{
    Effort, GOLDEN, Lanes, MARGIN, Margined, Streams, TEXT_HASH_BITS, Tables, WORD_HASH_BITS,
};
use crate::press::survey::Survey;

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

/// Copies the page in, and counts.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,popcnt")]
pub(in crate::press) fn survey(page: &Page, to: &mut Margined) -> Survey {
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

/// See [`crate::press::portable::encode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in crate::press) fn encode(
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

/// Stage 2, what each candidate would leave: the bytes in which it differs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg")]
fn compare(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) {
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
}

/// Stage 2.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg")]
fn choose(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) -> Choice {
    compare(page, lanes, block, text);
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
