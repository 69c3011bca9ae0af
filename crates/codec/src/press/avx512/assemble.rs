//! Streams to the bytes of a stored page and back, with AVX-512: what is listed or packed is taken
//! out by compressing vectors, and put back by expanding them.

use core::arch::x86_64::*;

use super::{load, store};
use crate::press::assemble::{self, Steps, assemble_with};
use crate::press::format::{CODE_BITMAP_BYTES, CODE_BYTES, Codes};
use crate::press::state::{LITERAL_SPACE, Streams};

/// [`assemble::assemble`] with vectors.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi1,bmi2,popcnt"
)]
pub(in crate::press) fn assemble(streams: &Streams, out: &mut [u8]) -> Option<usize> {
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
pub(super) fn take_expanded(bytes: &mut &[u8], bits: u64) -> Option<__m512i> {
    let taken = bytes.split_off(..bits.count_ones() as usize)?;
    // SAFETY: the instruction reads as many bytes as there are bits: those just taken.
    Some(unsafe { _mm512_maskz_expandloadu_epi8(bits, taken.as_ptr().cast()) })
}

/// [`assemble::read_sparse`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(in crate::press) fn read_sparse<'a>(
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
pub(in crate::press) fn unpack<'a>(
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
