//! From the path that was chosen to its functions: the one place that calls them.
//!
//! The vector paths need what [`Simd::is_available`] has established, which is why a
//! [`Press`](super::Press) can only be made with a path that is available.

use core::ops::ControlFlow::{self, Break, Continue};

use super::assemble;
use super::format::{CODE_BYTES, Codes, Header, Kind};
use super::simd::Simd;
use super::state::{
    DecodeLanes, Effort, LITERAL_SPACE, Margined, PressScratch, PressState, STREAM_SPACE, Streams,
};
use super::survey::{Survey, is_random_from_the_start};
use super::{format, portable, runs};
use crate::{Compressed, Corrupt, PAGE_SIZE, Page, same_filled::same_filled};

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
use super::{avx2, avx512};

/// Copies the page in, and counts.
#[inline]
pub(crate) fn survey(simd: Simd, page: &Page, to: &mut Margined) -> Survey {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::survey(page, to) },
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx2 => unsafe { avx2::survey(page, to) },
        _ => {
            to.set(page);
            Survey::of(page)
        }
    }
}

/// What is done before any encoder: pages that need none end here. Goes on with how many bytes of
/// the page are not zero, and with the part of `out` that may be written; the page is in `copy`.
#[inline(always)]
pub(crate) fn before_encoder<'a>(
    simd: Simd,
    detect_same_filled: bool,
    page: &Page,
    copy: &mut Margined,
    out: &'a mut [u8],
) -> ControlFlow<Compressed, (u32, &'a mut [u8])> {
    if detect_same_filled && let Some(word) = same_filled(page) {
        return Break(Compressed::SameFilled(word));
    }
    if is_random_from_the_start(page) {
        return Break(Compressed::Incompressible);
    }
    let out = out.split_at_mut(out.len().min(PAGE_SIZE)).0; // I2
    let survey = survey(simd, page, copy);
    if survey.has_few_runs() {
        let stored = runs::encode(page, out).map(Compressed::Stored);
        return Break(stored.unwrap_or(Compressed::Incompressible));
    }
    if survey.looks_random(page) {
        return Break(Compressed::Incompressible);
    }
    Continue((survey.not_zero, out))
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
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx2 => unsafe {
            avx2::encode(page, tables, lanes, streams, not_zero, limit, effort)
        },
        _ => {
            let _ = lanes;
            portable::encode(page, tables, streams, not_zero, limit, effort)
        }
    }
}

/// Writes `streams` to `out`; `None`: they do not fit.
#[inline]
pub(crate) fn assemble(simd: Simd, streams: &Streams, out: &mut [u8]) -> Option<usize> {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::assemble(streams, out) },
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx2 => unsafe { avx2::assemble(streams, out) },
        _ => assemble::assemble(streams, out),
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
        Kind::Masked => decode_masked(simd, scratch, stored, page),
    }
}

fn decode_masked(
    simd: Simd,
    scratch: &mut PressScratch,
    stored: &[u8],
    page: &mut Page,
) -> Result<(), Corrupt> {
    let PressScratch {
        codes,
        literals: space,
        streams,
        lanes,
    } = scratch;
    let (header, rest) = stored.split_first_chunk().ok_or(Corrupt)?;
    let header = Header::from_bytes(*header).ok_or(Corrupt)?;
    let (codes, rest) = match header.codes {
        Codes::Plain => rest.split_first_chunk().ok_or(Corrupt)?,
        Codes::Sparse(base) => {
            let rest = read_sparse(simd, base, rest, codes).ok_or(Corrupt)?;
            (&*codes, rest)
        }
    };
    let (literals, rest, readable_behind) = if header.packed {
        let rest = unpack(simd, rest, header.literals, space).ok_or(Corrupt)?;
        let literals = &space[..header.literals];
        (literals, rest, LITERAL_SPACE - header.literals)
    } else {
        let (literals, rest) = rest.split_at_checked(header.literals).ok_or(Corrupt)?;
        (literals, rest, rest.len())
    };
    let (masks, distances) = rest.split_at_checked(header.masks).ok_or(Corrupt)?;
    let input = portable::Input {
        codes,
        literals,
        masks,
        distances,
        readable_behind,
    };
    decode_input(simd, input, streams, lanes, page)
}

/// Decodes streams that were not part of a stored page of press.
#[inline]
pub(crate) fn decode_streams(
    simd: Simd,
    scratch: &mut PressScratch,
    input: portable::Input,
    page: &mut Page,
) -> Result<(), Corrupt> {
    decode_input(simd, input, &mut scratch.streams, &mut scratch.lanes, page)
}

#[inline]
fn decode_input(
    simd: Simd,
    input: portable::Input,
    streams: &mut [u8; STREAM_SPACE],
    lanes: &mut DecodeLanes,
    page: &mut Page,
) -> Result<(), Corrupt> {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::decode(input, lanes, page) },
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx2 => unsafe { avx2::decode(input, streams, lanes, page) },
        _ => {
            let _ = (streams, lanes);
            portable::decode(&input, page)
        }
    }
}

#[inline]
fn read_sparse<'a>(
    simd: Simd,
    base: u8,
    stored: &'a [u8],
    codes: &mut [u8; CODE_BYTES],
) -> Option<&'a [u8]> {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::read_sparse(base, stored, codes) },
        _ => assemble::read_sparse(base, stored, codes),
    }
}

#[inline]
fn unpack<'a>(
    simd: Simd,
    stored: &'a [u8],
    count: usize,
    literals: &mut [u8; LITERAL_SPACE],
) -> Option<&'a [u8]> {
    match simd {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx512 => unsafe { avx512::unpack(stored, count, literals) },
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
        // SAFETY: the path is available.
        Simd::Avx2 => unsafe { avx2::unpack(stored, count, literals) },
        _ => assemble::unpack(stored, count, literals),
    }
}
