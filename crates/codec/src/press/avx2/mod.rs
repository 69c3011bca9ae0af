//! The encoder with AVX2 and the decoder with BMI2: masks and counts of a block's 64 words are
//! two vectors of 32 bytes; literals are taken out and put in one word at a time, by the
//! instructions that extract and deposit bits.
//!
//! The stages are those of `portable.rs`, and produce the same bytes (P1).
//!
//! | concept | file |
//! |---|---|
//! | a page to streams | `encode.rs` |
//! | streams to bytes and back | `assemble.rs` |
//! | streams to a page | `decode.rs` |

mod assemble;
mod decode;
mod encode;

pub(super) use assemble::{assemble, unpack};
pub(super) use decode::decode;
pub(super) use encode::{encode, survey};

use core::arch::x86_64::*;

/// A byte for each of 64 words.
type Bytes = [__m256i; 2];

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

/// Entry `at + index` of the table, for the low four bits of each index.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: &[u8; 64], at: usize, index: __m256i) -> __m256i {
    // SAFETY: at is at most 48.
    let sixteen = unsafe { _mm_loadu_si128(table.as_ptr().add(at).cast()) };
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), index)
}
