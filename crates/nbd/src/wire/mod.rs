//! Numbers of the protocol, and taking fields out of bytes.
//!
//! All fields are big-endian. Numbers are those of the protocol document, under its names without the prefix `NBD_`.

mod cursor;
mod numbers;

pub(crate) use cursor::Cursor;
pub(crate) use numbers::*;
