//! What `coldpress capture` says of a file of pages, in `FILE.json` beside it: what it left out.
//!
//! The file itself is nothing but pages, so that anything can read it; same-filled pages, which would be most
//! of some files, are counted instead. A file without such a note is taken as it is.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The version of the note.
const VERSION: u64 = 1;

/// What was captured, and what was left out.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Captured {
    /// Version of this note.
    pub schema_version: u64,
    /// The program.
    pub program: String,
    /// Pages in the file.
    pub written_pages: u64,
    /// Pages that are not same-filled, of which those in the file are all, or an even sample.
    pub content_pages: u64,
    /// Zero pages.
    pub zero_pages: u64,
    /// Pages of another repeated word.
    pub same_filled_pages: u64,
    /// Milliseconds for which nobody had touched them; `null`: that was not asked.
    pub inactive_ms: Option<u64>,
}

impl Captured {
    /// A note of the present version.
    pub fn new(program: String, inactive_ms: Option<u64>) -> Self {
        Self {
            schema_version: VERSION,
            program,
            written_pages: 0,
            content_pages: 0,
            zero_pages: 0,
            same_filled_pages: 0,
            inactive_ms,
        }
    }

    /// Where the note to a file of pages is.
    pub fn path(file: &Path) -> PathBuf {
        let mut path = OsString::from(file);
        path.push(".json");
        path.into()
    }

    /// The note to a file with so many pages, if there is one.
    pub(crate) fn of(file: &Path, pages: usize) -> Result<Option<Self>, Error> {
        let path = Self::path(file);
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Unreadable { path, error }),
            Ok(text) => text,
        };
        let note: Option<Self> = serde_json::from_str(&text).ok();
        let belongs = |note: &Self| {
            note.schema_version == VERSION
                && note.written_pages == pages as u64
                && note.content_pages >= note.written_pages
        };
        match note.filter(belongs) {
            Some(note) => Ok(Some(note)),
            None => Err(Error::OtherNote { path }),
        }
    }
}
