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
//! | concept | file |
//! |---|---|
//! | a page to streams | `encode.rs` |
//! | streams to bytes and back | `assemble.rs` |
//! | streams to a page; press-dense has some of it too | `decode.rs` |

#![allow(
    clippy::needless_range_loop,
    reason = "one number is a place in several arrays"
)]

mod assemble;
mod decode;
mod distances;
mod encode;

pub(super) use assemble::{assemble, read_sparse, unpack};
pub(super) use decode::decode;
pub(crate) use decode::{
    candidates_of, codes_of, expand_from, implied_masks, not_zero, replace, set_literals,
};
pub(crate) use distances::Distances;
pub(super) use encode::{encode, survey};

use core::arch::x86_64::*;

use super::state::{MARGIN, Margined};

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
