//! The encoder with AVX2 and the decoder with BMI2: masks and counts of a block's 64 words are
//! two vectors of 32 bytes; literals are taken out and put in one word at a time, by the
//! instructions that extract and deposit bits.
//!
//! The stages are those of `portable.rs`, and produce the same bytes (P1). The pointers keep to
//! what `avx512.rs` calls V1 to V3.
//!
//! The decoder has no branch that depends on the data: a table says for each code what to read
//! and how far to go on in each stream, and a distance that is none is noted and told at the
//! end. What it reads by then may be wrong, but never outside its buffers:
//! * A1 512 words take at most 4,096 literals, 512 masks and 1,024 bytes of distances, for which
//!   there is room behind any beginning.
//! * A2 A distance beyond the beginning of the page is taken for one to its beginning.

use core::arch::x86_64::*;
use core::hint::select_unpredictable;

use super::format::{
    BLOCK_WORDS, CODE_BYTES, CODE_OF, CODES, Candidate, EXPANDED, LISTED, Mask, WORDS,
};
use super::portable::{Input, MOST_FOR_A_DISTANCE, NEVER, text_hash, word_hash};
use super::state::{Effort, Lanes, MARGIN, Margined, STREAM_SPACE, Streams, Tables};
use super::survey::Survey;
use crate::{Corrupt, PAGE_SIZE, Page};

/// A byte for each of 64 words.
type Bytes = [__m256i; 2];

/// Sixteen bits for each of 64 words.
type Shorts = [__m256i; 4];

#[inline(always)]
fn load<T: Copy>(from: &[T], at: usize) -> __m256i {
    debug_assert!(size_of_val(&from[at..]) >= 32);
    // SAFETY: each caller names the bound: 32 bytes from there are inside the slice.
    unsafe { _mm256_loadu_si256(from.as_ptr().add(at).cast()) }
}

#[inline(always)]
fn store<T: Copy>(to: &mut [T], at: usize, value: __m256i) {
    debug_assert!(size_of_val(&to[at..]) >= 32);
    // SAFETY: each caller names the bound: 32 bytes from there are inside the slice.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().add(at).cast(), value) }
}

/// The 32 bytes of the page at `position` (V1).
#[inline(always)]
fn load_page(page: &Margined, position: isize) -> __m256i {
    load(&page.0, (position + MARGIN as isize) as usize)
}

/// The word `distance` bytes before `position` (V1, V3).
#[inline(always)]
fn word_before(page: &Margined, position: usize, distance: usize) -> u64 {
    let at = position + MARGIN - distance;
    debug_assert!(at + 8 <= page.0.len());
    // SAFETY: inside the page or a margin.
    unsafe { page.0.as_ptr().add(at).cast::<u64>().read_unaligned() }
}

/// Copies the page in, and counts.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn survey(page: &Page, to: &mut Margined) -> Survey {
    let zero = _mm256_setzero_si256();
    let mut zero_bytes = 0;
    let mut survey = Survey::default();
    let mut same_words = 0;
    for at in (0..PAGE_SIZE).step_by(32) {
        let bytes = load(page, at);
        store(&mut to.0, MARGIN + at, bytes);
        zero_bytes += bits(_mm256_cmpeq_epi8(bytes, zero)).count_ones();
        survey.high += bits(bytes).count_ones();
        // The first vector is compared with the margin, and what that says is undone below.
        let before = load(&to.0, MARGIN + at - 8);
        let same = _mm256_cmpeq_epi64(bytes, before);
        same_words += (_mm256_movemask_pd(_mm256_castsi256_pd(same)) as u32).count_ones();
    }
    survey.not_zero = PAGE_SIZE as u32 - zero_bytes;
    let first_is_zero = u32::from(word_before(to, 0, 0) == 0);
    survey.changes = WORDS as u32 - (same_words - first_is_zero);
    survey
}

/// The highest bit of each byte.
#[inline]
#[target_feature(enable = "avx2")]
fn bits(bytes: __m256i) -> u32 {
    _mm256_movemask_epi8(bytes) as u32
}

/// The highest bit of each of 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn all_bits(bytes: Bytes) -> u64 {
    u64::from(bits(bytes[0])) | u64::from(bits(bytes[1])) << 32
}

/// See [`super::portable::encode`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
#[target_feature(enable = "avx2,bmi2")]
fn look_up_words(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    for k in 0..BLOCK_WORDS {
        let word = word_before(page, 8 * (block + k), 0);
        let entry = &mut tables.words[word_hash(word)];
        let earlier = core::mem::replace(entry, (block + k) as u16);
        lanes.found[k] = earlier;
        lanes.found_word[k] = word_before(page, 8 * earlier as usize, 0);
    }
}

/// Stage 1 on text: looks every word up at two positions, and enters four.
#[inline]
#[target_feature(enable = "avx2,bmi2")]
fn look_up_text(page: &Margined, tables: &mut Tables, lanes: &mut Lanes, block: usize) {
    let table = &mut tables.text;
    for k in 0..BLOCK_WORDS {
        let position = 8 * (block + k);
        let word = word_before(page, position, 0);
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
    *pair = if four % 2 == 0 {
        u64::from(masks)
    } else {
        *pair | u64::from(masks) << 32
    };
}

/// Stage 2.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn choose(page: &Margined, lanes: &mut Lanes, block: usize, text: bool) -> Choice {
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

/// Stage 3: which of the words that are worth a new distance take it. Leaves the masks of the
/// words against those at the distance in force in `lanes.masks[6]`.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn follow(
    page: &Margined,
    lanes: &mut Lanes,
    block: usize,
    worth_it: u64,
    distance_in_force: &mut usize,
) -> u64 {
    let start = 8 * block;
    let before = *distance_in_force;
    let (mut distance, mut left, mut taken) = (before, worth_it, 0);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let position = start + 8 * k;
        let differs = word_before(page, position, 0) != word_before(page, position, distance);
        distance = select_unpredictable(differs, lanes.distance[k] as usize, distance);
        taken |= u64::from(differs) << k;
    }
    *distance_in_force = distance;

    let mut distance = before;
    for four in 0..BLOCK_WORDS / 4 {
        let at = (start + 32 * four) as isize;
        let words = load_page(page, at);
        // V3: the vector begins at most 24 bytes before the word for which the distance was set.
        let masks_at = |distance: usize| differing(words, load_page(page, at - distance as isize));
        let mut masks = masks_at(distance);
        let mut left = (taken >> (4 * four)) as u32 & 0xf;
        while left != 0 {
            let k = left.trailing_zeros();
            left &= left - 1;
            distance = lanes.distance[4 * four + k as usize] as usize;
            let before = _bzhi_u32(!0, 8 * k);
            masks = masks & before | masks_at(distance) & !before;
        }
        set_masks(lanes, 6, four, masks);
    }
    taken
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
    let mut candidates = [0_u8; BLOCK_WORDS];
    for half in [0, 1] {
        store(&mut masks, 32 * half, mask[half]);
        store(&mut candidates, 32 * half, candidate[half]);
    }

    let (mut literal_end, mut mask_end) = (streams.literal_count, streams.mask_count);
    let mut codes = [0_u8; BLOCK_WORDS];
    let literals = streams.literals.as_mut_ptr();
    let to_masks = streams.masks.as_mut_ptr();
    for k in 0..BLOCK_WORDS {
        let (mask, candidate) = (masks[k], candidates[k]);
        let code = CODE_OF[candidate as usize % CODE_OF.len()][mask as usize];
        codes[k] = code & 15;
        let word = word_before(page, 8 * (block + k), 0);
        // SAFETY: V2: at most 4,096 literals and 512 masks, and room for eight bytes behind.
        unsafe {
            *to_masks.add(mask_end) = mask;
            let to = literals.add(literal_end).cast::<u64>();
            to.write_unaligned(_pext_u64(word, EXPANDED[mask as usize]));
        }
        mask_end += usize::from(code >> 7);
        literal_end += mask.count_ones() as usize;
    }
    streams.literal_count = literal_end;
    streams.mask_count = mask_end;
    for half in [0, 1] {
        let pairs = _mm256_maddubs_epi16(load(&codes, 32 * half), _mm256_set1_epi16(0x1001));
        let pairs = _mm256_packus_epi16(pairs, pairs);
        let pairs = _mm256_permute4x64_epi64::<0b1000>(pairs);
        let to = &mut streams.codes[block / 2 + 16 * half..][..16];
        // SAFETY: 16 bytes.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), _mm256_castsi256_si128(pairs)) };
    }

    let wide = all_bits(choice.wide);
    let (mut left, mut end) = (taken, streams.distance_bytes);
    while left != 0 {
        let k = left.trailing_zeros() as usize;
        left &= left - 1;
        let is_wide = wide >> k & 1;
        let named = lanes.distance[k] >> (3 - 3 * is_wide);
        streams.distances[end..end + 2].copy_from_slice(&named.to_le_bytes());
        end += 1 + is_wide as usize;
    }
    streams.distance_bytes = end;
}

/// What a code does to the streams, and where its candidate is.
#[derive(Copy, Clone)]
#[repr(C, align(32))]
struct Step {
    /// All bits, or none where the candidate is zero.
    keep: u64,
    /// Bits of the next two bytes of distances that name one.
    named: u32,
    /// All bits where the distance in force stays.
    stays: u32,
    /// All bits where the distance in force is meant.
    in_force: u32,
    /// The distance where it is fixed.
    fixed: u32,
    /// The least distance that is one.
    least: u8,
    /// By how much a word distance is shifted.
    shift: u8,
    /// How many bytes of distances are taken.
    distance_bytes: u8,
    /// The mask that the code implies.
    implied: u8,
    /// All bits where the mask is listed.
    listed: u8,
    /// How many masks are taken.
    mask_bytes: u8,
}

const STEPS: [Step; 16] = {
    let mut steps = [Step {
        keep: !0,
        named: 0,
        stays: !0,
        in_force: 0,
        fixed: 8,
        least: 8,
        shift: 0,
        distance_bytes: 0,
        implied: 0,
        listed: 0,
        mask_bytes: 0,
    }; 16];
    let mut code = 0;
    while code < 16 {
        let (candidate, mask) = CODES[code];
        let step = &mut steps[code];
        match mask {
            Mask::Is(mask) => step.implied = mask,
            Mask::Listed => {
                step.listed = 0xff;
                step.mask_bytes = 1;
            }
        }
        match candidate {
            Candidate::Zero => {
                step.keep = 0;
                step.fixed = 0;
                step.least = 0;
            }
            Candidate::Previous => {}
            Candidate::SecondPrevious => step.fixed = 16,
            Candidate::Continued | Candidate::WordDistance | Candidate::ByteDistance => {
                step.in_force = !0;
                step.fixed = 0;
            }
        }
        if matches!(candidate, Candidate::WordDistance) {
            step.named = 0xff;
            step.shift = 3;
            step.distance_bytes = 1;
            step.stays = 0;
        }
        if matches!(candidate, Candidate::ByteDistance) {
            step.named = 0xffff;
            step.distance_bytes = 2;
            step.stays = 0;
        }
        code += 1;
    }
    steps
};

/// See [`super::portable::decode`]. `space`: where the streams are copied to, so that they can
/// be read beyond their ends.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decode(
    input: &Input,
    space: &mut [u8; STREAM_SPACE],
    page: &mut Page,
) -> Result<(), Corrupt> {
    let streams = [input.literals, input.masks, input.distances];
    let [literal_end, mask_end, distance_end] = {
        let mut end = 0;
        streams.map(|stream| {
            space[end..end + stream.len()].copy_from_slice(stream);
            end += stream.len();
            end
        })
    };
    let (start, space) = (page.as_mut_ptr(), space.as_ptr());
    let (mut literal, mut mask, mut distance) = (0, literal_end, mask_end);
    let mut in_force = 8_u32;
    let mut wrong = 0_u32;
    for pair in 0..CODE_BYTES {
        let codes = input.codes[pair];
        for (half, code) in [codes & 15, codes >> 4].into_iter().enumerate() {
            let position = 16 * pair + 8 * half;
            let step = &STEPS[code as usize];
            // SAFETY: A1: what is taken of each stream in all fits behind its beginning, and
            // eight bytes behind that.
            let (listed, named, literals) = unsafe {
                (
                    *space.add(mask),
                    space.add(distance).cast::<u16>().read_unaligned(),
                    space.add(literal).cast::<u64>().read_unaligned(),
                )
            };
            let bits = step.implied | listed & step.listed;
            mask += step.mask_bytes as usize;
            distance += step.distance_bytes as usize;
            in_force = (u32::from(named) & step.named) << step.shift | in_force & step.stays;
            let back = in_force & step.in_force | step.fixed;
            let from = (position as u32).wrapping_sub(back);
            wrong |= from | back.wrapping_sub(u32::from(step.least));
            let from = select_unpredictable(from as i32 >= 0, from, 0) as usize;
            let replaced = EXPANDED[bits as usize];
            // SAFETY: A2: `from` is at most the position, which is in the page with its word.
            unsafe {
                let candidate = start.add(from).cast::<u64>().read_unaligned();
                let word = candidate & step.keep & !replaced | _pdep_u64(literals, replaced);
                start.add(position).cast::<u64>().write_unaligned(word);
            }
            literal += bits.count_ones() as usize;
        }
    }
    let ends = (literal, mask, distance) == (literal_end, mask_end, distance_end);
    (ends && wrong >> 31 == 0).then_some(()).ok_or(Corrupt)
}

const _: () = assert!(LISTED == 1 << 7);
