//! The page codecs, as a class.

use crate::cache::copied;
use coldpress_arena::Zeroable;
use coldpress_codec::{
    AnyCodec, AnyScratch, AnyState, CodecKind, Compressed, DEFAULT_TARGET_BYTES, PAGE_SIZE, Page,
    PageCodec, SameFilled,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::{Mutex, PoisonError};

pyo3::create_exception!(
    coldpress,
    CorruptError,
    PyValueError,
    "The bytes are no page that this codec has compressed."
);

/// Compresses single pages of PAGE_BYTES.
///
/// name: lz4[:ACCELERATION], lz4-rust[:ACCELERATION], zstd[:LEVEL], lzo, wkdm or press. target_bytes: a page that does
/// not fit into so many bytes counts as incompressible. All methods may be called from any thread; those of one Codec
/// take turns.
#[pyclass(frozen, module = "coldpress")]
pub struct Codec {
    kind: CodecKind,
    codec: AnyCodec,
    target_bytes: usize,
    state: Mutex<(Box<AnyState>, Box<AnyScratch>)>,
}

/// Zeroed memory from the heap, without passing over the stack.
fn zeroed<T: Zeroable>() -> Box<T> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0, "a type with a size");
    // SAFETY: the layout has a size, and is the type's; all-zero bytes are a valid T (Zeroable).
    unsafe {
        let memory = alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(memory)
    }
}

fn page_of(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Page> {
    let mut page = [0; PAGE_SIZE];
    let bytes = copied(py, data, &mut page)?.len();
    if bytes != PAGE_SIZE {
        return Err(PyValueError::new_err(format!(
            "a page has {PAGE_SIZE} bytes, not {bytes}"
        )));
    }
    Ok(page)
}

#[pymethods]
impl Codec {
    #[new]
    #[pyo3(signature = (name="press", *, target_bytes=DEFAULT_TARGET_BYTES))]
    fn new(name: &str, target_bytes: usize) -> PyResult<Self> {
        let kind = CodecKind::from_name(name)
            .map_err(|error| PyValueError::new_err(format!("{name:?}: {error}")))?;
        if target_bytes > PAGE_SIZE {
            return Err(PyValueError::new_err(format!(
                "target_bytes is at most {PAGE_SIZE}, a page"
            )));
        }
        Ok(Self {
            kind,
            codec: AnyCodec::of(kind, SameFilled::Detect),
            target_bytes,
            state: Mutex::new((zeroed(), zeroed())),
        })
    }

    /// A page (any buffer of PAGE_BYTES) in fewer bytes. Of a page whose 64-bit words are all alike: that word, an int.
    /// None if it does not fit into target_bytes, and is better left as it is.
    fn compress<'py>(
        &self,
        py: Python<'py>,
        page: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let page = page_of(py, page)?;
        let mut out = [0; PAGE_SIZE];
        let out = &mut out[..self.target_bytes];
        let compressed = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.codec.compress(&mut state.0, &page, out)
        });
        Ok(match compressed {
            Compressed::Stored(bytes) => Some(PyBytes::new(py, &out[..bytes]).into_any()),
            Compressed::SameFilled(word) => Some(word.into_pyobject(py)?.into_any()),
            Compressed::Incompressible => None,
        })
    }

    /// The page of what compress returned. Raises CorruptError where it is no page of this codec.
    ///
    /// Not every change of the bytes is noticed: keep checksum(page) beside them where they may be damaged.
    fn decompress<'py>(
        &self,
        py: Python<'py>,
        stored: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        if let Ok(word) = stored.cast::<PyInt>() {
            let word: u64 = word.extract()?;
            return Ok(PyBytes::new(
                py,
                &word.to_ne_bytes().repeat(PAGE_SIZE / size_of::<u64>()),
            ));
        }
        let mut room = [0; PAGE_SIZE];
        let stored = copied(py, stored, &mut room)?;
        let mut page = [0; PAGE_SIZE];
        let done = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.codec.decompress(&mut state.1, stored, &mut page)
        });
        done.map_err(|_| {
            CorruptError::new_err(format!(
                "these {} bytes are no page that {} has compressed",
                stored.len(),
                self.kind
            ))
        })?;
        Ok(PyBytes::new(py, &page))
    }

    /// The name by which it was chosen, with its parameter.
    #[getter]
    fn name(&self) -> String {
        self.kind.to_string()
    }

    /// Bytes into which a page has to fit.
    #[getter]
    fn target_bytes(&self) -> usize {
        self.target_bytes
    }

    fn __repr__(&self) -> String {
        format!(
            "coldpress.Codec({:?}, target_bytes={})",
            self.kind.to_string(),
            self.target_bytes
        )
    }
}

/// The checksum (32 bits) by which the pager knows a page again.
#[pyfunction]
pub fn checksum(py: Python<'_>, page: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(coldpress_codec::checksum(&page_of(py, page)?))
}
