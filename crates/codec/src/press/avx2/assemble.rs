//! Streams to the bytes of a stored page and back, with AVX2 and BMI2. What is not here is done as
//! in the portable path.

use core::arch::x86_64::*;
use core::hint::select_unpredictable;

use super::{bits, load};
use crate::press::assemble::{self, HIGH, SEVEN, Steps, assemble_with};
use crate::press::format::{CODE_BITMAP_BYTES, CODE_BYTES, Codes};
use crate::press::state::{LITERAL_SPACE, Streams};

/// [`assemble::assemble`] with vectors.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(in crate::press) fn assemble(streams: &Streams, out: &mut [u8]) -> Option<usize> {
    let steps = Steps {
        count_bases: |codes: &[u8; CODE_BYTES]| count_bases(codes),
        write_sparse: |base, codes: &[u8; CODE_BYTES], out: &mut [u8]| {
            write_sparse(base, codes, out)
        },
        count_low_groups: |streams: &Streams| assemble::count_low_groups(streams),
        pack: |streams: &Streams, out: &mut [u8]| pack(streams, out),
    };
    assemble_with(steps, streams, out)
}

#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn count_bases(codes: &[u8; CODE_BYTES]) -> [usize; 3] {
    let bases = Codes::BASES.map(|base| _mm256_set1_epi8(base as i8));
    let mut counts = [0; 3];
    for at in (0..CODE_BYTES).step_by(32) {
        let bytes = load(codes, at);
        for (count, base) in counts.iter_mut().zip(bases) {
            *count += bits(_mm256_cmpeq_epi8(bytes, base)).count_ones() as usize;
        }
    }
    counts
}

#[inline]
#[target_feature(enable = "avx2,bmi1")]
fn write_sparse(base: u8, codes: &[u8; CODE_BYTES], out: &mut [u8]) {
    let (bitmap, listed) = out.split_at_mut(CODE_BITMAP_BYTES);
    let base = _mm256_set1_epi8(base as i8);
    let mut listed = listed.iter_mut();
    for (four, at) in bitmap
        .as_chunks_mut::<4>()
        .0
        .iter_mut()
        .zip((0..CODE_BYTES).step_by(32))
    {
        let mut left = !bits(_mm256_cmpeq_epi8(load(codes, at), base));
        *four = left.to_le_bytes();
        while left != 0 {
            if let Some(to) = listed.next() {
                *to = codes[at + left.trailing_zeros() as usize];
            }
            left &= left - 1;
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn pack(streams: &Streams, out: &mut [u8]) {
    let (groups, tail) = streams.literals().as_chunks::<8>();
    let (bitmap, mut out) = out.split_at_mut(assemble::bitmap_len(streams.literal_count));
    for (bits, eight) in bitmap.iter_mut().zip(groups.chunks(8)) {
        let (Some(eight), true) = (eight.first_chunk::<8>(), out.len() >= 64) else {
            (*bits, out) = assemble::pack_eight(eight, out);
            continue;
        };
        let mut at = 0;
        *bits = 0;
        for (bit, group) in eight.iter().enumerate() {
            let word = u64::from_le_bytes(*group);
            let low = word & HIGH == 0;
            *bits |= u8::from(low) << bit;
            let word = select_unpredictable(low, _pext_u64(word, SEVEN), word);
            // SAFETY: at most 8 * bit + 8 of at least 64 bytes.
            unsafe { out.as_mut_ptr().add(at).cast::<u64>().write_unaligned(word) };
            at += 8 - usize::from(low);
        }
        out = &mut out[at..];
    }
    out.copy_from_slice(tail);
}

/// [`assemble::unpack`].
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(in crate::press) fn unpack<'a>(
    stored: &'a [u8],
    count: usize,
    literals: &mut [u8; LITERAL_SPACE],
) -> Option<&'a [u8]> {
    let (bitmap, mut rest) = stored.split_at_checked(assemble::bitmap_len(count))?;
    let (groups, tail) = literals[..count].as_chunks_mut::<8>();
    for (bits, eight) in bitmap.iter().zip(groups.chunks_mut(8)) {
        if eight.len() < 8 || rest.len() < 64 {
            rest = assemble::unpack_eight(*bits, rest, eight)?;
            continue;
        }
        let mut at = 0;
        for (bit, group) in eight.iter_mut().enumerate() {
            let low = bits >> bit & 1 == 1;
            // SAFETY: at most 8 * bit + 8 of at least 64 bytes.
            let word = unsafe { rest.as_ptr().add(at).cast::<u64>().read_unaligned() };
            *group = select_unpredictable(low, _pdep_u64(word, SEVEN), word).to_le_bytes();
            at += 8 - usize::from(low);
        }
        rest = &rest[at..];
    }
    let (last, rest) = rest.split_at_checked(tail.len())?;
    tail.copy_from_slice(last);
    Some(rest)
}
