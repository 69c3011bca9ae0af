//! A page to streams: the stages of the encoder, with AVX2 and BMI2. The pointers keep to V1 to V3
//! of `blocks.rs`.

use core::arch::x86_64::*;

use super::{Bytes, all_bits, bits, load, look_up, store};
use crate::press::blocks::{self, each_block, name_distances, word, word_before};
use crate::press::format::{BLOCK_WORDS, CODE_BY_CLASS, Candidate, EXPANDED, WORDS};
use crate::press::portable::{MOST_FOR_A_DISTANCE, NEVER, text_hash, word_hash};
use crate::press::state::{Effort, Lanes, MARGIN, Margined, Streams, Tables};
use crate::press::survey::Survey;
use crate::{PAGE_SIZE, Page};

/// Sixteen bits for each of 64 words.
type Shorts = [__m256i; 4];

/// The 32 bytes of the page at `position` (V1).
#[inline(always)]
fn load_page(page: &Margined, position: isize) -> __m256i {
    load(&page.0, (position + MARGIN as isize) as usize)
}

/// Copies the page in, and counts.
#[target_feature(enable = "avx2,popcnt")]
pub(in crate::press) fn survey(page: &Page, to: &mut Margined) -> Survey {
    let zero = _mm256_setzero_si256();
    let mut zero_bytes = 0;
    let mut survey = Survey::default();
    let mut same_words = 0;
    for at in (0..PAGE_SIZE).step_by(32) {
        let bytes = load(page, at);
        store(&mut to.0, MARGIN + at, bytes);
        zero_bytes += bits(_mm256_cmpeq_epi8(bytes, zero)).count_ones();
        survey.high += bits(bytes).count_ones();
        // The first word has none before it; it is compared with itself, and counts below.
        let before = if at == 0 {
            _mm256_permute4x64_epi64::<0b1001_0000>(bytes)
        } else {
            load(page, at - 8)
        };
        let same = _mm256_cmpeq_epi64(bytes, before);
        same_words += (_mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32).count_ones();
    }
    survey.not_zero = PAGE_SIZE as u32 - zero_bytes;
    survey.changes = WORDS as u32 - same_words + 1;
    survey
}

/// See [`crate::press::portable::encode`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
#[target_feature(enable = "avx2,bmi2")]
fn look_up_words(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    for k in 0..BLOCK_WORDS {
        let hash = word_hash(word(page, 8 * (block + k)));
        let entry = &mut tables.words[hash];
        let earlier = core::mem::replace(entry, (block + k) as u16);
        lanes.found[k] = earlier;
        lanes.found_word[k] = word(page, 8 * earlier as usize);
    }
}

/// Stage 1 on text: looks every word up at two positions, and enters four. Not inlined: it needs
/// all registers there are.
#[inline(never)]
#[target_feature(enable = "avx2,bmi2")]
fn look_up_text(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    let table = &mut tables.text;
    for k in 0..BLOCK_WORDS {
        let position = 8 * (block + k);
        let word = word(page, position);
        for shift in [0, 1] {
            let found = table[text_hash((word >> (8 * shift)) as u32)] as usize;
            lanes.text_distance[shift][k] = (position + shift).wrapping_sub(found) as u16;
            // V1: at worst in the margin, where the distance is too large to be used.
            lanes.text_word[shift][k] = word_before(page, found, shift);
        }
        if position != 0 {
            let before = word_before(page, position, 6);
            for (n, bytes) in [before, before >> 16, before >> 32, word]
                .into_iter()
                .enumerate()
            {
                table[text_hash(bytes as u32)] = (position - 6 + 2 * n) as u16;
            }
        }
    }
}

/// What stage 2 chose for 64 words.
struct Choice {
    near: Bytes,
    near_mask: Bytes,
    near_count: Bytes,
    /// Words that are worth a new distance.
    worth_it: u64,
    /// Whose new distance is one of bytes.
    wide: Bytes,
    distance_mask: Bytes,
}

/// How many bits each byte has.
#[inline]
#[target_feature(enable = "avx2")]
fn count(bytes: Bytes) -> Bytes {
    const ONES: [u8; 32] = [
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3,
        3, 4,
    ];
    let (ones, low) = (load(&ONES, 0), _mm256_set1_epi8(15));
    bytes.map(|bytes| {
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
        let bytes = _mm256_and_si256(bytes, low);
        _mm256_add_epi8(
            _mm256_shuffle_epi8(ones, bytes),
            _mm256_shuffle_epi8(ones, high),
        )
    })
}

/// All bits where `a` is less; neither is above 127.
#[inline]
#[target_feature(enable = "avx2")]
fn less(a: Bytes, b: Bytes) -> Bytes {
    [_mm256_cmpgt_epi8(b[0], a[0]), _mm256_cmpgt_epi8(b[1], a[1])]
}

/// `new` where `which` has all bits.
#[inline]
#[target_feature(enable = "avx2")]
fn blend(old: Bytes, which: Bytes, new: Bytes) -> Bytes {
    [0, 1].map(|half| _mm256_blendv_epi8(old[half], new[half], which[half]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn everywhere(value: u8) -> Bytes {
    [_mm256_set1_epi8(value as i8); 2]
}

#[inline]
#[target_feature(enable = "avx2")]
fn masks_of(lanes: &Lanes, candidate: usize) -> Bytes {
    let masks = &lanes.masks[candidate];
    [load(masks, 0), load(masks, 4)]
}

/// Narrows what is all bits or none.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(which: Shorts) -> Bytes {
    [0, 2].map(|n| {
        let packed = _mm256_packs_epi16(which[n], which[n + 1]);
        _mm256_permute4x64_epi64::<0b1101_1000>(packed)
    })
}

/// `new` where `which` has all bits.
#[inline]
#[target_feature(enable = "avx2")]
fn blend_shorts(old: Shorts, which: Bytes, new: Shorts) -> Shorts {
    [0, 1, 2, 3].map(|n| {
        let half = which[n / 2];
        let bytes = if n % 2 == 0 {
            _mm256_castsi256_si128(half)
        } else {
            _mm256_extracti128_si256::<1>(half)
        };
        _mm256_blendv_epi8(old[n], new[n], _mm256_cvtepi8_epi16(bytes))
    })
}

/// Bit n: byte n of the four words at `position` differs from that of `other`.
#[inline]
#[target_feature(enable = "avx2")]
fn differing(words: __m256i, other: __m256i) -> u32 {
    !bits(_mm256_cmpeq_epi8(words, other))
}

/// Sets the masks of four words.
#[inline(always)]
fn set_masks(lanes: &mut Lanes, candidate: usize, four: usize, masks: u32) {
    let pair = &mut lanes.masks[candidate][four / 2];
    *pair = if four.is_multiple_of(2) {
        u64::from(masks)
    } else {
        *pair | u64::from(masks) << 32
    };
}

/// Stage 2, what each candidate would leave: the bytes in which it differs.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn compare(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) {
    let zero = _mm256_setzero_si256();
    for four in 0..BLOCK_WORDS / 4 {
        let at = 8 * (block + 4 * four) as isize;
        let words = load_page(page, at);
        set_masks(lanes, 0, four, differing(words, zero));
        set_masks(lanes, 1, four, differing(words, load_page(page, at - 8)));
        set_masks(lanes, 2, four, differing(words, load_page(page, at - 16)));
        let found = load(&lanes.found_word, 4 * four);
        set_masks(lanes, 3, four, differing(words, found));
        if text {
            let found = [0, 1].map(|shift| load(&lanes.text_word[shift], 4 * four));
            set_masks(lanes, 4, four, differing(words, found[0]));
            set_masks(lanes, 5, four, differing(words, found[1]));
        }
    }
}

/// Stage 2.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn choose(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) -> Choice {
    compare(page, lanes, block, text);
    let never = everywhere(NEVER as u8);
    let add = |a: Bytes, n: u8| a.map(|half| _mm256_add_epi8(half, _mm256_set1_epi8(n as i8)));

    let mut near = everywhere(Candidate::Zero as u8);
    let mut near_mask = masks_of(lanes, 0);
    let mut near_count = count(near_mask);
    for candidate in [Candidate::Previous, Candidate::SecondPrevious] {
        let mask = masks_of(lanes, candidate as usize);
        let count = count(mask);
        let better = less(count, near_count);
        near = blend(near, better, everywhere(candidate as u8));
        near_mask = blend(near_mask, better, mask);
        near_count = blend(near_count, better, count);
    }

    let sixteen = |value: usize| _mm256_set1_epi16(value as i16);
    let counting = _mm256_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let index = [0, 16, 32, 48].map(|first| _mm256_add_epi16(counting, sixteen(block + first)));
    let back = [0, 1, 2, 3].map(|n| _mm256_sub_epi16(index[n], load(&lanes.found, 16 * n)));
    // All of these are below 2^15, so that signed comparisons do.
    let usable = narrow(back.map(|words| {
        let positive = _mm256_cmpgt_epi16(words, _mm256_setzero_si256());
        _mm256_andnot_si256(_mm256_cmpgt_epi16(words, sixteen(255)), positive)
    }));
    let mut mask = masks_of(lanes, 3);
    let mut cost = blend(never, usable, add(count(mask), 1));
    let mut distance = back.map(|words| _mm256_slli_epi16::<3>(words));
    let mut wide = [_mm256_setzero_si256(); 2];
    if text {
        let mut text_cost = never;
        let mut text_mask = mask;
        let mut text_distance = distance;
        for shift in [0, 1] {
            let found = [0, 1, 2, 3].map(|n| load(&lanes.text_distance[shift], 16 * n));
            let usable = narrow([0, 1, 2, 3].map(|n| {
                let near_enough = _mm256_cmpgt_epi16(found[n], _mm256_slli_epi16::<3>(index[n]));
                _mm256_andnot_si256(near_enough, _mm256_cmpgt_epi16(found[n], sixteen(7)))
            }));
            let mask = masks_of(lanes, 4 + shift);
            let cost = blend(never, usable, add(count(mask), 2));
            let better = less(cost, text_cost);
            text_cost = blend(text_cost, better, cost);
            text_mask = blend(text_mask, better, mask);
            text_distance = blend_shorts(text_distance, better, found);
        }
        wide = less(text_cost, cost);
        cost = blend(cost, wide, text_cost);
        mask = blend(mask, wide, text_mask);
        distance = blend_shorts(distance, wide, text_distance);
    }
    for (n, distance) in distance.into_iter().enumerate() {
        store(&mut lanes.distance, 16 * n, distance);
    }
    let affordable = less(cost, everywhere(MOST_FOR_A_DISTANCE as u8 + 1));
    Choice {
        near,
        near_mask,
        near_count,
        worth_it: all_bits(less(cost, near_count)) & all_bits(affordable),
        wide,
        distance_mask: mask,
    }
}

/// Stage 3: see [`blocks::follow`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn follow(
    page: &Margined,
    lanes: &mut Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
) -> u64 {
    blocks::follow(page, lanes, block, worth_it, distance_in_force, |at| {
        let words = [load_page(page, at), load_page(page, at + 32)];
        move |distance| {
            let from = at - distance as isize;
            u64::from(differing(words[0], load_page(page, from)))
                | u64::from(differing(words[1], load_page(page, from + 32))) << 32
        }
    })
}

/// 0xff for each bit.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(bits: u64) -> Bytes {
    let which = _mm256_setr_epi64x(
        0,
        0x0101_0101_0101_0101,
        0x0202_0202_0202_0202,
        0x0303_0303_0303_0303,
    );
    let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    [bits as u32, (bits >> 32) as u32].map(|bits| {
        let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), which);
        _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit)
    })
}

/// The codes of 32 words, with [`LISTED`](crate::press::format::LISTED).
#[inline]
#[target_feature(enable = "avx2")]
fn code_of(candidate: __m256i, mask: __m256i) -> __m256i {
    let byte = |value: u8| _mm256_set1_epi8(value as i8);
    let is = |value: u8| _mm256_cmpeq_epi8(mask, byte(value));
    let mut class = byte(4);
    for (number, value) in [0x00, 0xff, 0x01, 0x03].into_iter().enumerate() {
        class = _mm256_blendv_epi8(class, byte(number as u8), is(value));
    }
    let at = _mm256_or_si256(_mm256_slli_epi16::<3>(candidate), class);
    let mut code = look_up(&CODE_BY_CLASS, 0, at);
    for sixteen in [16, 32] {
        let here = _mm256_cmpgt_epi8(at, byte(sixteen as u8 - 1));
        code = _mm256_blendv_epi8(code, look_up(&CODE_BY_CLASS, sixteen, at), here);
    }
    code
}

/// Stage 4, and the streams.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn emit(
    page: &Margined,
    lanes: &mut Lanes,
    streams: &mut Streams,
    block: usize,
    choice: &Choice,
    taken: u64,
) {
    let continued = masks_of(lanes, 6);
    let better = less(count(continued), choice.near_count);
    let all_taken = bytes_of(taken);
    let mut mask = blend(choice.near_mask, better, continued);
    mask = blend(mask, all_taken, choice.distance_mask);
    let mut candidate = blend(choice.near, better, everywhere(Candidate::Continued as u8));
    let named = blend(
        everywhere(Candidate::WordDistance as u8),
        choice.wide,
        everywhere(Candidate::ByteDistance as u8),
    );
    candidate = blend(candidate, all_taken, named);
    let mut masks = [0_u8; BLOCK_WORDS];
    for half in [0, 1] {
        store(&mut masks, 32 * half, mask[half]);
    }

    let code = [0, 1].map(|half| code_of(candidate[half], mask[half]));
    let mut listed = all_bits(code);
    let mut end = streams.mask_count;
    while listed != 0 {
        streams.masks[end] = masks[listed.trailing_zeros() as usize];
        listed &= listed - 1;
        end += 1;
    }
    streams.mask_count = end;
    for (half, code) in code.into_iter().enumerate() {
        let code = _mm256_and_si256(code, _mm256_set1_epi8(15));
        let pairs = _mm256_maddubs_epi16(code, _mm256_set1_epi16(0x1001));
        let pairs = _mm256_packus_epi16(pairs, pairs);
        let pairs = _mm256_permute4x64_epi64::<0b1000>(pairs);
        let to = &mut streams.codes[block / 2 + 16 * half..][..16];
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_castsi256_si128(pairs)) };
    }

    let mut end = streams.literal_count;
    let literals = streams.literals.as_mut_ptr();
    for (k, mask) in masks.into_iter().enumerate() {
        let word = word(page, 8 * (block + k));
        let selected = _pext_u64(word, EXPANDED[mask as usize]);
        // SAFETY: V2: at most 4,096 literals, and room for eight bytes behind.
        unsafe { literals.add(end).cast::<u64>().write_unaligned(selected) };
        end += mask.count_ones() as usize;
    }
    streams.literal_count = end;

    name_distances(lanes, streams, taken, all_bits(choice.wide));
}
