//! Before a store is used: whether it stores, returns and deletes.

use crate::line::Line;
use crate::store::{Failure, StoreError};

const CONTENT: &[u8; 32] = b"coldpress probes this store: 012";

/// Puts a small object, reads a part of it, and deletes it. An error says at which of these steps it arose.
pub fn probe(line: &mut Line, name: &str) -> Result<(), StoreError> {
    let at = |step: &'static str| {
        move |error: StoreError| StoreError::new(error.failure, format!("{step}: {error}"))
    };
    let (writing, reading) = (at("writing an object"), at("reading a part of an object"));
    line.put(name, CONTENT).map_err(writing)?;
    let mut part = [0; 8];
    let read = line.get(name, 10, &mut part).map_err(&reading)?;
    if part[..read] != CONTENT[10..18] {
        let text = "other bytes came back than were written";
        return Err(reading(StoreError::new(Failure::Other, text)));
    }
    let deleted = line.delete(&[name.to_owned()]);
    deleted.map_err(at("deleting an object"))
}
