//! The discardable cache, as a class.

use coldpress_cache::{Backing, Error, MOST_SMALL_BYTES, Options, PAGE_BYTES};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Pages of data that can be computed again, in memory that the kernel may take back.
///
/// Keys are integers from 0 to 2**64 - 1. An entry is a page (PAGE_BYTES), or, among small entries, 1 to 2,030 bytes.
/// Any entry may be gone at any moment: `get` returns None then, and never wrong bytes. All methods may be called
/// from any thread.
///
/// backing: "lazyfree" (the kernel takes pages when it needs memory), "dontneed" (what is resident is what is cached)
/// or "anonymous" (the kernel takes nothing). compressed_bytes: evicted entries may take so much, compressed.
/// small_entries: about how many small entries there will be. hard_bytes: pages and compressed entries never take
/// more; soft_bytes: what they shrink to while memory is short, if tend() is called now and then.
// In a box of its own: it is aligned to cache lines, as objects of Python are not.
#[pyclass(frozen, module = "coldpress")]
pub struct Cache(Box<coldpress_cache::Cache>);

/// The exception for what a cache refuses.
fn raised(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Memory { .. } => PyMemoryError::new_err(text),
        Error::Busy { .. } | Error::NoRoom => PyRuntimeError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// The bytes of a buffer, of at most `most`: into `room`, of which the part that they take is returned.
pub(crate) fn copied<'r>(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    room: &'r mut [u8],
) -> PyResult<&'r [u8]> {
    let buffer = bytes_of(data)?;
    let most = room.len();
    let Some(into) = room.get_mut(..buffer.len_bytes()) else {
        let bytes = buffer.len_bytes();
        return Err(PyValueError::new_err(format!(
            "{bytes} bytes are too many: at most {most}"
        )));
    };
    buffer.copy_to_slice(py, into)?;
    Ok(into)
}

/// Any contiguous buffer, as bytes.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<PyBuffer<u8>> {
    let view = data
        .py()
        .import("builtins")?
        .getattr("memoryview")?
        .call1((data,))?;
    let contiguous: bool = view.getattr("c_contiguous")?.extract()?;
    if !contiguous {
        return Err(PyBufferError::new_err(
            "the buffer is not contiguous: pass bytes(data), or numpy.ascontiguousarray(data)",
        ));
    }
    PyBuffer::get(&view.call_method1("cast", ("B",))?)
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (capacity_bytes, *, backing="lazyfree", compressed_bytes=0, small_entries=0, hard_bytes=0, soft_bytes=0))]
    fn new(
        capacity_bytes: usize,
        backing: &str,
        compressed_bytes: usize,
        small_entries: usize,
        hard_bytes: usize,
        soft_bytes: usize,
    ) -> PyResult<Self> {
        let backing = match backing {
            "lazyfree" => Backing::LazyFree,
            "dontneed" => Backing::DontNeed,
            "anonymous" => Backing::Anonymous,
            other => {
                return Err(PyValueError::new_err(format!(
                    "no backing is called {other:?}: choose \"lazyfree\", \"dontneed\" or \"anonymous\""
                )));
            }
        };
        let mut options = Options::new(capacity_bytes, backing);
        options.compressed_bytes = compressed_bytes;
        options.small_entries = small_entries;
        options.hard_bytes = hard_bytes;
        options.soft_bytes = soft_bytes;
        let made = coldpress_cache::Cache::new(options);
        made.map(|made| Self(Box::new(made)))
            .map_err(|error| raised(&error))
    }

    /// Keeps data (any buffer of at most PAGE_BYTES), and zeros up to a page, under key. cost: what it costs to make
    /// again, in a unit of yours; where compressed entries have to go, cheap ones go first.
    #[pyo3(signature = (key, data, *, cost=1))]
    fn insert(&self, py: Python<'_>, key: u64, data: &Bound<'_, PyAny>, cost: u32) -> PyResult<()> {
        let mut page = [0; PAGE_BYTES];
        let bytes = copied(py, data, &mut page)?;
        py.detach(|| self.0.insert_with_cost(key, bytes, cost))
            .map_err(|error| raised(&error))
    }

    /// The first size bytes of the entry of key, or None if the cache does not have it, or no longer.
    #[pyo3(signature = (key, size=PAGE_BYTES))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: u64,
        size: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut page = [0; PAGE_BYTES];
        let into = page.get_mut(..size).ok_or_else(|| {
            PyValueError::new_err(format!(
                "a page has {PAGE_BYTES} bytes; {size} were asked for"
            ))
        })?;
        let got = py.detach(|| self.0.get(key, into));
        Ok(got.then(|| PyBytes::new(py, into)))
    }

    /// Copies the first bytes of the entry of key into a writable buffer of at most PAGE_BYTES. False if the cache does not
    /// have it, or no longer; the buffer is as before then.
    fn get_into(&self, py: Python<'_>, key: u64, buffer: &Bound<'_, PyAny>) -> PyResult<bool> {
        let into = bytes_of(buffer)?;
        if into.readonly() {
            return Err(PyBufferError::new_err(
                "the buffer is read-only: pass a bytearray or an array",
            ));
        }
        let mut page = [0; PAGE_BYTES];
        let bytes = into.len_bytes();
        let room = page.get_mut(..bytes).ok_or_else(|| {
            PyValueError::new_err(format!(
                "a page has {PAGE_BYTES} bytes; the buffer has {bytes}"
            ))
        })?;
        if !py.detach(|| self.0.get(key, room)) {
            return Ok(false);
        }
        into.copy_from_slice(py, room)?;
        Ok(true)
    }

    /// Forgets the entry of key. True if the cache had it, as far as it knew.
    fn remove(&self, key: u64) -> bool {
        self.0.remove(key)
    }

    /// Keeps data (any buffer of 1 to 2,030 bytes) as the small entry of key. Small entries share pages, have keys of
    /// their own, and come back with their length.
    fn insert_small(&self, py: Python<'_>, key: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut room = [0; MOST_SMALL_BYTES];
        let bytes = copied(py, data, &mut room)?;
        py.detach(|| self.0.insert_small(key, bytes))
            .map_err(|error| raised(&error))
    }

    /// The small entry of key, or None if the cache does not have it, or no longer.
    fn get_small<'py>(&self, py: Python<'py>, key: u64) -> Option<Bound<'py, PyBytes>> {
        let mut room = [0; MOST_SMALL_BYTES];
        let bytes = py.detach(|| self.0.get_small(key, &mut room))?;
        Some(PyBytes::new(py, &room[..bytes]))
    }

    /// Forgets the small entry of key. True if the cache had it, as far as it knew.
    fn remove_small(&self, key: u64) -> bool {
        self.0.remove_small(key)
    }

    /// Looks whether memory is short, and shrinks towards soft_bytes if it is. Returns the bytes given back. To be called
    /// every second or so.
    fn tend(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.0.tend())
    }

    /// Pages that the cache has room for.
    #[getter]
    fn pages(&self) -> usize {
        self.0.pages()
    }

    /// Figures of now, by the names of the crate coldpress-cache. For reports: it asks the kernel for every page.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = py.detach(|| self.0.stats());
        let all = PyDict::new(py);
        for (name, value) in [
            ("pages", stats.pages),
            ("free_pages", stats.free_pages),
            ("entries", stats.entries),
            ("hits", stats.hits),
            ("misses", stats.misses),
            ("resets", stats.resets),
            ("evicted", stats.evicted),
            ("compressed_entries", stats.compressed_entries),
            ("compressed_bytes", stats.compressed_bytes),
            ("restored", stats.restored),
            ("discarded", stats.discarded),
            ("incompressible", stats.incompressible),
            ("small_entries", stats.small_entries),
            ("used_bytes", stats.used_bytes),
            ("resident_bytes", stats.resident_bytes),
            ("lazyfree_bytes", stats.lazyfree_bytes),
        ] {
            all.set_item(name, value)?;
        }
        Ok(all)
    }
}
