//! From streams to the bytes of a stored page, and back.
//!
//! Two streams have a shorter form each. Codes of which many bytes are the same (two zero words;
//! two words that continue a match) are *sparse*: a bitmap says which bytes are something else.
//! Literals of which many are below 128, ASCII above all, are *packed*: each group of eight such
//! literals takes seven bytes; a bitmap says which groups.
#![forbid(unsafe_code)]

use super::format::{CODE_BITMAP_BYTES, CODE_BYTES, Codes, HEADER_BYTES, Header};
use super::state::{LITERAL_SPACE, Streams};
use crate::Corrupt;

/// Low seven bits of each byte.
const SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Packing that saves fewer bytes than this is not worth its time.
const LEAST_TO_GAIN: usize = 32;

/// Bits of a byte that is no ASCII character.
const HIGH: u64 = !SEVEN;

/// Writes `streams` to `out`. `None`: they do not fit.
pub(crate) fn assemble(streams: &Streams, out: &mut [u8]) -> Option<usize> {
    let literals = streams.literals();
    let saved = saved_by_packing(literals);
    let packed = saved >= LEAST_TO_GAIN;
    let (codes, code_bytes) = form_of(&streams.codes);
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
    write_codes(codes, &streams.codes, to_codes);
    let (to_literals, rest) = rest.split_at_mut(literal_bytes);
    if packed {
        pack(literals, to_literals);
    } else {
        to_literals.copy_from_slice(literals);
    }
    let (to_masks, to_distances) = rest.split_at_mut(streams.mask_count);
    to_masks.copy_from_slice(streams.masks());
    to_distances.copy_from_slice(streams.distances());
    Some(len)
}

/// The shortest form of the codes, and its bytes.
fn form_of(codes: &[u8; CODE_BYTES]) -> (Codes, usize) {
    let count = |base| {
        codes
            .iter()
            .map(|byte| u8::from(*byte == base) as usize)
            .sum::<usize>()
    };
    let (zeros, continued) = (count(Codes::BASE_ZERO), count(Codes::BASE_CONTINUED));
    let (base, left_out) = if zeros >= continued {
        (Codes::BASE_ZERO, zeros)
    } else {
        (Codes::BASE_CONTINUED, continued)
    };
    if left_out > CODE_BITMAP_BYTES {
        (
            Codes::Sparse(base),
            CODE_BITMAP_BYTES + CODE_BYTES - left_out,
        )
    } else {
        (Codes::Plain, CODE_BYTES)
    }
}

fn write_codes(form: Codes, codes: &[u8; CODE_BYTES], out: &mut [u8]) {
    let Codes::Sparse(base) = form else {
        out.copy_from_slice(codes);
        return;
    };
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

/// Takes the codes from the head of `stored` into `codes`; gives what follows.
pub(crate) fn read_codes<'a>(
    form: Codes,
    stored: &'a [u8],
    codes: &mut [u8; CODE_BYTES],
) -> Result<&'a [u8], Corrupt> {
    let Codes::Sparse(base) = form else {
        let (plain, rest) = stored.split_first_chunk().ok_or(Corrupt)?;
        *codes = *plain;
        return Ok(rest);
    };
    let (bitmap, mut rest) = stored
        .split_first_chunk::<CODE_BITMAP_BYTES>()
        .ok_or(Corrupt)?;
    for (bits, eight) in bitmap.iter().zip(codes.as_chunks_mut::<8>().0) {
        *eight = [base; 8];
        let mut bits = *bits;
        while bits != 0 {
            eight[bits.trailing_zeros() as usize] = *rest.split_off_first().ok_or(Corrupt)?;
            bits &= bits - 1;
        }
    }
    Ok(rest)
}

/// Bytes of the bitmap of packed literals.
fn bitmap_len(literals: usize) -> usize {
    (literals / 8).div_ceil(8)
}

/// How many bytes fewer the literals take when they are packed; 0 if not fewer.
fn saved_by_packing(literals: &[u8]) -> usize {
    let (groups, _) = literals.as_chunks::<8>();
    let low = |group: &[u8; 8]| usize::from(u64::from_le_bytes(*group) & HIGH == 0);
    let packed: usize = groups.iter().map(low).sum();
    packed.saturating_sub(bitmap_len(literals.len()))
}

/// Packs literals: a bitmap, seven or eight bytes for each eight, the rest as they are.
fn pack(literals: &[u8], out: &mut [u8]) {
    let (groups, tail) = literals.as_chunks::<8>();
    let (bitmap, mut out) = out.split_at_mut(bitmap_len(literals.len()));
    for (bits, eight) in bitmap.iter_mut().zip(groups.chunks(8)) {
        *bits = 0;
        for (bit, group) in eight.iter().enumerate() {
            let word = u64::from_le_bytes(*group);
            let low = word & HIGH == 0;
            *bits |= u8::from(low) << bit;
            let bytes = if low {
                squeeze(word).to_le_bytes()
            } else {
                *group
            };
            let (to, rest) = out.split_at_mut(8 - usize::from(low));
            to.copy_from_slice(&bytes[..to.len()]);
            out = rest;
        }
    }
    out.copy_from_slice(tail);
}

/// Unpacks `count` literals from the head of `stored` to `literals`; gives what follows.
pub(crate) fn unpack<'a>(
    stored: &'a [u8],
    count: usize,
    literals: &mut [u8; LITERAL_SPACE],
) -> Result<&'a [u8], Corrupt> {
    let (bitmap, mut rest) = stored.split_at_checked(bitmap_len(count)).ok_or(Corrupt)?;
    let (groups, tail) = literals[..count].as_chunks_mut::<8>();
    for (bits, eight) in bitmap.iter().zip(groups.chunks_mut(8)) {
        if eight.len() < 8 && bits >> eight.len() != 0 {
            return Err(Corrupt);
        }
        for (bit, group) in eight.iter_mut().enumerate() {
            let low = bits >> bit & 1 == 1;
            let (bytes, after) = rest.split_at_checked(8 - usize::from(low)).ok_or(Corrupt)?;
            rest = after;
            if low {
                let mut wide = [0; 8];
                wide[..7].copy_from_slice(bytes);
                *group = stretch(u64::from_le_bytes(wide)).to_le_bytes();
            } else {
                group.copy_from_slice(bytes);
            }
        }
    }
    let (last, rest) = rest.split_at_checked(tail.len()).ok_or(Corrupt)?;
    tail.copy_from_slice(last);
    Ok(rest)
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
