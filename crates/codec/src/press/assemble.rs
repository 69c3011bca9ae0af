//! From streams to the bytes of a stored page, and back.
//!
//! Two streams have a shorter form each. Codes of which many bytes are the same (two zero words;
//! two words that continue a match) are *sparse*: a bitmap says which bytes are something else.
//! Literals of which many are below 128, ASCII above all, are *packed*: each group of eight such
//! literals takes seven bytes; a bitmap says which groups.
#![forbid(unsafe_code)]

use super::format::{CODE_BITMAP_BYTES, CODE_BYTES, Codes, HEADER_BYTES, Header};
use super::state::{LITERAL_SPACE, Streams};

/// Low seven bits of each byte.
pub(crate) const SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Packing that saves fewer bytes than this is not worth its time.
const LEAST_TO_GAIN: usize = 32;

/// The highest bit of each byte.
pub(crate) const HIGH: u64 = !SEVEN;

/// The steps that have a vector form. A path's closures stand in a function with the features of its
/// processor, and so they have these too.
pub(crate) struct Steps<C, W, L, P>
where
    C: Fn(&[u8; CODE_BYTES]) -> [usize; 3],
    W: Fn(u8, &[u8; CODE_BYTES], &mut [u8]),
    L: Fn(&Streams) -> usize,
    P: Fn(&Streams, &mut [u8]),
{
    /// How many bytes are each of [`Codes::BASES`].
    pub count_bases: C,
    /// Writes the bitmap and the bytes that are not `base` to `out`, which is just as long.
    pub write_sparse: W,
    /// How many groups of eight literals below 128 there are.
    pub count_low_groups: L,
    /// Writes the literals packed to `out`, which is just as long.
    pub pack: P,
}

/// [`assemble_with`] without vectors.
pub(crate) fn assemble(streams: &Streams, out: &mut [u8]) -> Option<usize> {
    assemble_with(
        Steps {
            count_bases,
            write_sparse,
            count_low_groups,
            pack,
        },
        streams,
        out,
    )
}

/// Writes `streams` to `out`. `None`: they do not fit.
#[inline(always)]
pub(crate) fn assemble_with<C, W, L, P>(
    steps: Steps<C, W, L, P>,
    streams: &Streams,
    out: &mut [u8],
) -> Option<usize>
where
    C: Fn(&[u8; CODE_BYTES]) -> [usize; 3],
    W: Fn(u8, &[u8; CODE_BYTES], &mut [u8]),
    L: Fn(&Streams) -> usize,
    P: Fn(&Streams, &mut [u8]),
{
    let literals = streams.literals();
    let saved = (steps.count_low_groups)(streams).saturating_sub(bitmap_len(literals.len()));
    let packed = saved >= LEAST_TO_GAIN;
    let (codes, code_bytes) = form_of((steps.count_bases)(&streams.codes));
    let literal_bytes = if packed {
        literals.len() - saved
    } else {
        literals.len()
    };
    let len =
        HEADER_BYTES + code_bytes + literal_bytes + streams.mask_count + streams.distance_bytes;
    let (header, rest) = out.get_mut(..len)?.split_first_chunk_mut()?;
    *header = Header {
        codes,
        packed,
        literals: literals.len(),
        masks: streams.mask_count,
    }
    .to_bytes();
    let (to_codes, rest) = rest.split_at_mut(code_bytes);
    match codes {
        Codes::Plain => to_codes.copy_from_slice(&streams.codes),
        Codes::Sparse(base) => (steps.write_sparse)(base, &streams.codes, to_codes),
    }
    let (to_literals, rest) = rest.split_at_mut(literal_bytes);
    if packed {
        (steps.pack)(streams, to_literals);
    } else {
        to_literals.copy_from_slice(literals);
    }
    let (to_masks, to_distances) = rest.split_at_mut(streams.mask_count);
    to_masks.copy_from_slice(streams.masks());
    to_distances.copy_from_slice(streams.distances());
    Some(len)
}

/// The shortest form of codes with so many bytes of each base, and its length.
fn form_of(counts: [usize; 3]) -> (Codes, usize) {
    let (mut base, mut left_out) = (Codes::BASES[0], counts[0]);
    for (other, count) in Codes::BASES.into_iter().zip(counts).skip(1) {
        if count > left_out {
            (base, left_out) = (other, count);
        }
    }
    if left_out > CODE_BITMAP_BYTES {
        (
            Codes::Sparse(base),
            CODE_BITMAP_BYTES + CODE_BYTES - left_out,
        )
    } else {
        (Codes::Plain, CODE_BYTES)
    }
}

fn count_bases(codes: &[u8; CODE_BYTES]) -> [usize; 3] {
    Codes::BASES.map(|base| codes.iter().filter(|byte| **byte == base).count())
}

fn write_sparse(base: u8, codes: &[u8; CODE_BYTES], out: &mut [u8]) {
    let (bitmap, listed) = out.split_at_mut(CODE_BITMAP_BYTES);
    let mut at = 0;
    for (bits, eight) in bitmap.iter_mut().zip(codes.as_chunks::<8>().0) {
        *bits = 0;
        for (bit, code) in eight.iter().enumerate() {
            if *code != base {
                *bits |= 1 << bit;
                listed[at] = *code;
                at += 1;
            }
        }
    }
}

/// See [`Steps`]; always inlined, and so compiled for the processor of the path that calls it.
#[inline(always)]
pub(crate) fn count_low_groups(streams: &Streams) -> usize {
    let (groups, _) = streams.literals().as_chunks::<8>();
    let low = |group: &[u8; 8]| usize::from(u64::from_le_bytes(*group) & HIGH == 0);
    groups.iter().map(low).sum()
}

fn pack(streams: &Streams, out: &mut [u8]) {
    let literals = streams.literals();
    let (groups, tail) = literals.as_chunks::<8>();
    let (bitmap, mut out) = out.split_at_mut(bitmap_len(literals.len()));
    for (bits, eight) in bitmap.iter_mut().zip(groups.chunks(8)) {
        (*bits, out) = pack_eight(eight, out);
    }
    out.copy_from_slice(tail);
}

/// Packs up to eight groups to the head of `out`; gives their bits of the bitmap, and what
/// follows.
pub(crate) fn pack_eight<'a>(groups: &[[u8; 8]], mut out: &'a mut [u8]) -> (u8, &'a mut [u8]) {
    let mut bits = 0;
    for (bit, group) in groups.iter().enumerate() {
        let word = u64::from_le_bytes(*group);
        let low = word & HIGH == 0;
        bits |= u8::from(low) << bit;
        let bytes = if low {
            squeeze(word).to_le_bytes()
        } else {
            *group
        };
        let (to, rest) = out.split_at_mut(8 - usize::from(low));
        to.copy_from_slice(&bytes[..to.len()]);
        out = rest;
    }
    (bits, out)
}

/// Unpacks up to eight groups from the head of `stored`; gives what follows.
pub(crate) fn unpack_eight<'a>(
    bits: u8,
    mut stored: &'a [u8],
    groups: &mut [[u8; 8]],
) -> Option<&'a [u8]> {
    if groups.len() < 8 && bits >> groups.len() != 0 {
        return None;
    }
    for (bit, group) in groups.iter_mut().enumerate() {
        let low = bits >> bit & 1 == 1;
        let bytes = stored.split_off(..8 - usize::from(low))?;
        if low {
            let mut wide = [0; 8];
            wide[..7].copy_from_slice(bytes);
            *group = stretch(u64::from_le_bytes(wide)).to_le_bytes();
        } else {
            group.copy_from_slice(bytes);
        }
    }
    Some(stored)
}

/// Takes sparse codes from the head of `stored`; gives what follows. `None`: there is not enough.
#[inline(always)]
pub(crate) fn read_sparse<'a>(
    base: u8,
    stored: &'a [u8],
    codes: &mut [u8; CODE_BYTES],
) -> Option<&'a [u8]> {
    let (bitmap, mut rest) = stored.split_first_chunk::<CODE_BITMAP_BYTES>()?;
    for (bits, eight) in bitmap.iter().zip(codes.as_chunks_mut::<8>().0) {
        *eight = [base; 8];
        let mut bits = *bits;
        while bits != 0 {
            eight[bits.trailing_zeros() as usize] = *rest.split_off_first()?;
            bits &= bits - 1;
        }
    }
    Some(rest)
}

/// Bytes of the bitmap of packed literals.
pub(crate) fn bitmap_len(literals: usize) -> usize {
    (literals / 8).div_ceil(8)
}

/// Unpacks `count` literals from the head of `stored` to `literals`; gives what follows. `None`: there is
/// not enough, or the bitmap names a group that is not there.
pub(crate) fn unpack<'a>(
    stored: &'a [u8],
    count: usize,
    literals: &mut [u8; LITERAL_SPACE],
) -> Option<&'a [u8]> {
    let (bitmap, mut rest) = stored.split_at_checked(bitmap_len(count))?;
    let (groups, tail) = literals[..count].as_chunks_mut::<8>();
    for (bits, eight) in bitmap.iter().zip(groups.chunks_mut(8)) {
        rest = unpack_eight(*bits, rest, eight)?;
    }
    let (last, rest) = rest.split_at_checked(tail.len())?;
    tail.copy_from_slice(last);
    Some(rest)
}

/// Brings the low seven bits of eight bytes together.
fn squeeze(bytes: u64) -> u64 {
    let x = bytes & SEVEN;
    let x = x & 0x007f_007f_007f_007f | (x & 0x7f00_7f00_7f00_7f00) >> 1;
    let x = x & 0x0000_3fff_0000_3fff | (x & 0x3fff_0000_3fff_0000) >> 2;
    x & 0x0fff_ffff | (x >> 32 & 0x0fff_ffff) << 28
}

/// Gives each seven bits a byte of their own.
fn stretch(bits: u64) -> u64 {
    let x = bits & 0x0fff_ffff | (bits >> 28 & 0x0fff_ffff) << 32;
    let x = x & 0x0000_3fff_0000_3fff | (x & 0x0fff_c000_0fff_c000) << 2;
    x & 0x007f_007f_007f_007f | (x & 0x3f80_3f80_3f80_3f80) << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_bits_come_back() {
        let bytes = u64::from_le_bytes([0x7f, 1, 0x40, 0, 0x55, 0x2a, 0x7e, 0x33]);
        assert_eq!(stretch(squeeze(bytes)), bytes);
        assert!(squeeze(SEVEN) == (1 << 56) - 1);
    }
}
