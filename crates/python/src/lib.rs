//! The Python module `coldpress`: the discardable cache (`cache`) and the page codecs (`codec`).
//!
//! Nothing is decided here. Each class is the crate's type of the same name; what takes long runs without the
//! interpreter's lock, on copies of a page at most, so that no other thread of Python sees a half-written buffer.
#![deny(missing_docs)]

mod cache;
mod codec;

use pyo3::prelude::*;

/// Memory that the kernel may take back, and pages in fewer bytes.
#[pymodule]
#[pyo3(name = "coldpress")]
mod module {
    #[pymodule_export]
    use super::cache::Cache;
    #[pymodule_export]
    use super::codec::{Codec, CorruptError, checksum};

    /// Bytes of a page.
    #[pymodule_export]
    const PAGE_BYTES: usize = coldpress_codec::PAGE_SIZE;
    /// Bytes into which a page has to fit to be worth storing, if nothing else is said: 70 % of it.
    #[pymodule_export]
    const DEFAULT_TARGET_BYTES: usize = coldpress_codec::DEFAULT_TARGET_BYTES;
}
