//! Tables for press-dense, made of the tests' own pages.
//!
//! To make them takes a processor some milliseconds and Miri minutes. So they can be made
//! before, as bytes in a file: `cargo xtask miri` does that.

use coldpress_codec::press_dense::{DenseTables, Trainer};

/// Names the file.
const VARIABLE: &str = "COLDPRESS_DENSE_TABLES";

const BYTES: usize = size_of::<DenseTables>();

/// Tables made here and now.
pub fn made() -> Box<DenseTables> {
    let mut trainer: Box<Trainer> = super::zeroed();
    let mut state = super::zeroed();
    for seed in 0..40 {
        for kind in super::KINDS {
            trainer.add(&mut state, &super::page(kind, seed));
        }
    }
    let mut tables = super::zeroed();
    trainer.finish(&mut tables);
    tables
}

/// Those that were made before, and panics where there are none: to make them takes too long.
pub fn made_before() -> Box<DenseTables> {
    let file = std::env::var_os(VARIABLE);
    let file = file.unwrap_or_else(|| panic!("no {VARIABLE}: run this by `cargo xtask miri`"));
    of_bytes(&std::fs::read(file).expect("the file can be read"))
}

/// Leaves them for [`made_before`], where somebody asked for that.
pub fn leave(tables: &DenseTables) {
    if let Some(file) = std::env::var_os(VARIABLE) {
        std::fs::write(file, bytes_of(tables)).expect("the file can be written");
    }
}

/// What they are in memory.
pub fn bytes_of(tables: &DenseTables) -> Vec<u8> {
    // SAFETY: they are integers, made in place in zeroed memory, so that the bytes between them
    // are written as well.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(tables).cast(), BYTES) }.to_vec()
}

/// The tables whose bytes these are.
pub fn of_bytes(bytes: &[u8]) -> Box<DenseTables> {
    assert_eq!(bytes.len(), BYTES, "tables of this build");
    let mut tables: Box<DenseTables> = super::zeroed();
    // SAFETY: the tables are `BYTES` of integers, for which any bytes are valid.
    unsafe {
        std::ptr::from_mut(&mut *tables)
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), BYTES)
    };
    tables
}
