//! What `classes.rs` and `bits.rs` do, compiled for a processor with AVX2 and BMI2; the page is decoded by press's path
//! for it.

use super::bits::Reader;
use super::tables::{CLASSES, DenseTables};
use super::{DenseScratch, DenseState, Rest};
use crate::press::{Simd, paths};
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
    let mut reader = Reader::new(&scratch.stored, starts);
    reader.read_codes_bmi2(&mut scratch.codes, &tables.decode_codes);
    let rest = Rest {
        tables,
        codes: &scratch.codes,
        sequences: &mut scratch.sequences,
        masks: &mut scratch.masks,
        distances: &mut scratch.distances,
        literals: &mut scratch.literals,
    };
    let input = rest.read(choices, |symbols, decoder| {
        reader.read_bmi2(symbols, decoder);
    });
    paths::decode_streams(Simd::Avx2, &mut scratch.press, input, page)?;
    Ok(reader.ends())
}
