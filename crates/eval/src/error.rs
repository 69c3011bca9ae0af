//! Why there is no report. Each is one line that names the file or the strategy to blame.

use std::io;
use std::path::PathBuf;

/// Why an evaluation ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file holds nothing.
    #[error("{} is empty: give a file of whole pages, as made by: coldpress capture PID -o FILE", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A file is not made of pages.
    #[error(
        "{} has {bytes} bytes, which is no multiple of 4096: give a file of whole pages, as made by: coldpress capture PID -o FILE",
        path.display()
    )]
    NotPages {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Every page of a file is same-filled.
    #[error("{} holds only same-filled pages: there is nothing to compress", path.display())]
    OnlySameFilled {
        /// The file.
        path: PathBuf,
    },
    /// What a capture says of a file is of another file, or of another version.
    #[error(
        "{} is no note of coldpress capture to the file of pages beside it: remove it to take the pages as they are",
        path.display()
    )]
    OtherNote {
        /// The note.
        path: PathBuf,
    },
    /// No codec, or storage, has that name.
    #[error("there is no {kind} {name:?}: choose among {}", known.join(", "))]
    Unknown {
        /// "codec" or "storage".
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The processor lacks the instructions asked for.
    #[error(
        "this processor has no {0}: choose --simd portable, or leave it away for the best there is"
    )]
    NoSimd(&'static str),
    /// The thread cannot be pinned.
    #[error(
        "cannot pin to CPU {cpu}: {error}; choose one that taskset -pc $$ lists, or --pin none"
    )]
    Pin {
        /// The processor asked for.
        cpu: usize,
        /// What the system said.
        error: io::Error,
    },
    /// A codec returned a page that is not the one it was given.
    #[error("codec {codec} is wrong: page {page} of {corpus} {what}; no figure of this run counts")]
    WrongPage {
        /// The codec.
        codec: String,
        /// The file.
        corpus: String,
        /// Which page of those evaluated.
        page: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A storage lost or changed bytes.
    #[error("storage {storage} is wrong: object {object} {what}; no figure of this run counts")]
    WrongObject {
        /// The storage.
        storage: String,
        /// Which object.
        object: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}
