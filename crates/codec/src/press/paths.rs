//! From the path that was chosen to its functions: the one place that calls them.
//!
//! The vector paths need what [`Simd::is_available`] has established, which is why a
//! [`Press`](super::Press) can only be made with a path that is available.

use super::assemble;
use super::format::{Header, Kind};
use super::simd::Simd;
use super::state::{Effort, Margined, PressScratch, PressState};
use super::survey::Survey;
use super::{format, portable, runs};
use crate::{Corrupt, Page};

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
use super::avx512;

/// Copies the page in, and counts.
#[inline]
pub(crate) fn survey(simd: Simd, page: &Page, to: &mut Margined) -> Survey {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::survey(page, to) },
        _ => {
            to.set(page);
            Survey::of(page)
        }
    }
}

/// Encodes `state.page` into `state.streams`; `None`: more literals than `limit`.
#[inline]
pub(crate) fn encode(
    simd: Simd,
    state: &mut PressState,
    not_zero: u32,
    limit: usize,
    effort: Effort,
) -> Option<()> {
    let PressState {
        page,
        tables,
        lanes,
        streams,
    } = state;
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe {
            avx512::encode(page, tables, lanes, streams, not_zero, limit, effort)
        },
        _ => {
            let _ = lanes;
            portable::encode(page, tables, streams, not_zero, limit, effort)
        }
    }
}

/// Decodes a stored page.
#[inline]
pub(crate) fn decode(
    simd: Simd,
    scratch: &mut PressScratch,
    stored: &[u8],
    page: &mut Page,
) -> Result<(), Corrupt> {
    if stored.len() > page.len() {
        return Err(Corrupt);
    }
    match format::kind(*stored.first().ok_or(Corrupt)?).ok_or(Corrupt)? {
        Kind::Runs => runs::decode(stored, page),
        Kind::Masked => match simd {
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
            Simd::Avx512 => decode_avx512(scratch, stored, page),
            _ => decode_portable(scratch, stored, page),
        },
    }
}

fn decode_portable(
    scratch: &mut PressScratch,
    stored: &[u8],
    page: &mut Page,
) -> Result<(), Corrupt> {
    let (header, rest) = stored.split_first_chunk().ok_or(Corrupt)?;
    let header = Header::from_bytes(*header).ok_or(Corrupt)?;
    let rest = assemble::read_codes(header.codes, rest, &mut scratch.codes)?;
    let (literals, rest) = if header.packed {
        let rest = assemble::unpack(rest, header.literals, &mut scratch.literals)?;
        (&scratch.literals[..], rest)
    } else {
        rest.split_at_checked(header.literals).ok_or(Corrupt)?
    };
    let (masks, distances) = rest.split_at_checked(header.masks).ok_or(Corrupt)?;
    let input = portable::Input {
        codes: &scratch.codes,
        literals,
        literal_count: header.literals,
        masks,
        distances,
    };
    portable::decode(&input, page)
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
fn decode_avx512(
    scratch: &mut PressScratch,
    stored: &[u8],
    page: &mut Page,
) -> Result<(), Corrupt> {
    let PressScratch {
        codes,
        literals,
        stored: space,
        lanes,
    } = scratch;
    space[..stored.len()].copy_from_slice(stored);
    let (header, rest) = stored.split_first_chunk().ok_or(Corrupt)?;
    let header = Header::from_bytes(*header).ok_or(Corrupt)?;
    let mut rest = assemble::read_codes(header.codes, rest, codes)?;
    let at = |rest: &[u8]| stored.len() - rest.len();
    let literals = if header.packed {
        rest = assemble::unpack(rest, header.literals, literals)?;
        avx512::Stream {
            bytes: literals,
            next: 0,
            end: header.literals,
        }
    } else {
        let next = at(rest);
        rest = rest.get(header.literals..).ok_or(Corrupt)?;
        avx512::Stream {
            bytes: space,
            next,
            end: next + header.literals,
        }
    };
    let next = at(rest);
    if rest.len() < header.masks {
        return Err(Corrupt);
    }
    let masks = avx512::Stream {
        bytes: space,
        next,
        end: next + header.masks,
    };
    let distances = avx512::Stream {
        bytes: space,
        next: masks.end,
        end: stored.len(),
    };
    let input = avx512::Input {
        codes,
        literals,
        masks,
        distances,
    };
    // SAFETY: the path is available.
    unsafe { avx512::decode(input, lanes, page) }
}
