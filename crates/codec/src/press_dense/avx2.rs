//! What `classes.rs` and `bits.rs` do, compiled for a processor with AVX2 and BMI2; the page is decoded by press's path
//! for it.

use super::tables::{CLASSES, DenseTables};
use super::{DenseScratch, DenseState};
use crate::press::Simd;
use crate::{Corrupt, Page};

/// Sorts what the encoder found, and writes it.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn write(tables: &DenseTables, state: &mut DenseState, out: &mut [u8]) -> Option<usize> {
    super::write(tables, state, out)
}

/// Reads the streams, and decodes the page. Gives where the streams end.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decode(
    tables: &DenseTables,
    scratch: &mut DenseScratch,
    starts: [usize; 4],
    choices: [usize; CLASSES],
    page: &mut Page,
) -> Result<[usize; 4], Corrupt> {
    super::decode(
        Simd::Avx2,
        tables,
        scratch,
        (starts, choices),
        page,
        |reader, codes, decoders| reader.read_codes_bmi2(codes, decoders),
        |reader, symbols, decoder| reader.read_bmi2(symbols, decoder),
    )
}
