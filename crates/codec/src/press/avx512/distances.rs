//! Where each word's candidate stands, with AVX-512: the distances of a block are spread out and
//! each word is given the one in force, without a branch.

use core::arch::x86_64::*;

use super::decode::not_zero;
use super::{COUNTING, load, store};
use crate::press::format::{BLOCK_WORDS, Candidate};
use crate::press::state::DecodeLanes;

/// The distances of a page, of which a block takes its own.
pub(crate) struct Distances<'a> {
    left: &'a [u8],
    /// In bytes.
    in_force: u16,
}

impl<'a> Distances<'a> {
    pub(crate) fn of_page(stored: &'a [u8]) -> Self {
        Self {
            left: stored,
            in_force: 8,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Leaves in `lanes.source` the position of each candidate of a block: at least 8 before its
    /// word, or the word itself where the candidate is zero. `None`: the distances end, or one
    /// reaches out of the page.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,popcnt"
    )]
    pub(crate) fn take_sources(
        &mut self,
        candidate: __m512i,
        lanes: &mut DecodeLanes,
        block: usize,
    ) -> Option<()> {
        let not_zero = not_zero(candidate);
        let candidate = _mm512_and_si512(candidate, _mm512_set1_epi8(7));
        let at_least =
            |least: Candidate| _mm512_cmpge_epu8_mask(candidate, _mm512_set1_epi8(least as i8));
        let second_previous =
            _mm512_cmpeq_epi8_mask(candidate, _mm512_set1_epi8(Candidate::SecondPrevious as i8));
        let takes_in_force = at_least(Candidate::Continued);
        let named = at_least(Candidate::WordDistance);
        let list = self.take_named(named, at_least(Candidate::ByteDistance), lanes)?;
        let place = places(named);
        let counting = load(&COUNTING, 0);
        let mut invalid = 0;
        for half in [0, 1] {
            let which = |bits: u64| (bits >> (32 * half)) as u32;
            let place = match half {
                0 => _mm512_castsi512_si256(place),
                _ => _mm512_extracti64x4_epi64::<1>(place),
            };
            let in_force = _mm512_permutex2var_epi16(list[0], _mm512_cvtepi8_epi16(place), list[1]);
            let eight = _mm512_maskz_set1_epi16(which(not_zero), 8);
            let fixed = _mm512_mask_slli_epi16::<1>(eight, which(second_previous), eight);
            let distance = _mm512_mask_mov_epi16(fixed, which(takes_in_force), in_force);
            let first = _mm512_set1_epi16((block + 32 * half) as i16);
            let position = _mm512_slli_epi16::<3>(_mm512_add_epi16(counting, first));
            let source = _mm512_sub_epi16(position, distance);
            store(&mut lanes.source, 32 * half, source);
            let too_far = _mm512_cmpgt_epu16_mask(distance, position);
            let least = _mm512_set1_epi16(8);
            let too_near = _mm512_mask_cmplt_epu16_mask(which(not_zero), distance, least);
            invalid |= too_far | too_near;
        }
        (invalid == 0).then_some(())
    }

    /// Takes the distances of the words that name one, in bytes, in their order; the last of 64
    /// places has the one in force before, unless all words name one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
    fn take_named(
        &mut self,
        named: u64,
        wide: u64,
        lanes: &mut DecodeLanes,
    ) -> Option<[__m512i; 2]> {
        let count = named.count_ones();
        let mut taken = self
            .left
            .split_off(..(count + wide.count_ones()) as usize)?;
        let wide = _pext_u64(wide, named);
        let mut list = [_mm512_setzero_si512(); 2];
        for half in [0, 1] {
            let wide = (wide >> (32 * half)) as u32;
            let here = count.saturating_sub(32 * half as u32).min(32);
            // Two bytes each, of which the second is there for those that are wide.
            let second = _pdep_u64(u64::from(wide), 0xaaaa_aaaa_aaaa_aaaa);
            let there = (second | 0x5555_5555_5555_5555) & _bzhi_u64(!0, 2 * here);
            let bytes = taken.split_off(..there.count_ones() as usize)?;
            let len = _bzhi_u64(!0, bytes.len() as u32);
            // SAFETY: reads these bytes and no more.
            let bytes = unsafe { _mm512_maskz_loadu_epi8(len, bytes.as_ptr().cast()) };
            let listed = _mm512_maskz_expand_epi8(there, bytes);
            list[half] = _mm512_mask_slli_epi16::<3>(listed, !wide, listed);
        }
        let before = _mm512_set1_epi16(self.in_force as i16);
        if count < BLOCK_WORDS as u32 {
            list[1] = _mm512_mask_mov_epi16(list[1], 1 << 31, before);
        }
        store(&mut lanes.named, 0, list[0]);
        store(&mut lanes.named, 32, list[1]);
        // Where none is named this is the last place.
        self.in_force = lanes.named[count.wrapping_sub(1) as usize % BLOCK_WORDS];
        Some(list)
    }
}

/// By word: how many of `named` there are up to it, less one, so that the words before the first
/// have the last place of the list.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512bitalg,popcnt")]
fn places(named: u64) -> __m512i {
    let eighth = load(&EIGHTH, 0);
    let bits = _mm512_permutexvar_epi8(eighth, _mm512_set1_epi64(named as i64));
    let within = _mm512_popcnt_epi8(_mm512_and_si512(bits, load(&UP_TO, 0)));
    // By byte of `named`, how many bits the bytes before have.
    let twos = named - (named >> 1 & 0x5555_5555_5555_5555);
    let fours = (twos & 0x3333_3333_3333_3333) + (twos >> 2 & 0x3333_3333_3333_3333);
    let counts = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let before = counts.wrapping_mul(0x0101_0101_0101_0100);
    let before = _mm512_permutexvar_epi8(eighth, _mm512_set1_epi64(before as i64));
    let up_to = _mm512_add_epi8(within, before);
    _mm512_sub_epi8(up_to, _mm512_set1_epi8(1))
}

/// Lane n: n / 8.
const EIGHTH: [u8; 64] = by_lane(Of::Eighth);

/// Lane n: the bits up to n % 8.
const UP_TO: [u8; 64] = by_lane(Of::BitsUpTo);

/// What a table has for a lane.
#[derive(Clone, Copy)]
enum Of {
    Eighth,
    BitsUpTo,
}

const fn by_lane(of: Of) -> [u8; 64] {
    let mut table = [0; 64];
    let mut n = 0;
    while n < 64 {
        table[n] = match of {
            Of::BitsUpTo => 0xff >> (7 - n % 8),
            Of::Eighth => n as u8 / 8,
        };
        n += 1;
    }
    table
}
