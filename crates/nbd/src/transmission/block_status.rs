//! Answering where an export has holes and zeros (`base:allocation`).

use super::buffer::Buffer;
use super::reply::{Chunk, chunk_header};
use super::request::Request;
use crate::export::{Extent, Failure};
use crate::session::Session;
use crate::wire::{BASE_ALLOCATION_ID, chunk, state};

/// The most extents in a reply; the client asks on from where it ends.
const MOST_EXTENTS: usize = 16 << 10;
/// How often the export is asked for one reply: neighbours of one state may come one by one.
const MOST_QUESTIONS: usize = 64 << 10;

fn state_of(extent: Extent) -> u32 {
    match extent {
        Extent::Data => 0,
        Extent::Zero => state::ZERO,
        Extent::Hole => state::HOLE | state::ZERO,
    }
}

/// Length and state of the ranges from the front of the request, neighbours of one state as one.
fn extents(request: &Request, session: &Session, most: usize) -> Result<Vec<(u32, u32)>, Failure> {
    let length = u64::from(request.length);
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut done = 0;
    for _ in 0..MOST_QUESTIONS {
        if done == length {
            break;
        }
        let (bytes, extent) = match session.export.extent(request.offset + done, length - done) {
            Ok(answer) => answer,
            // What is known already is an answer.
            Err(_) if !found.is_empty() => break,
            Err(failure) => return Err(failure),
        };
        let bytes_now = u32::try_from(bytes).expect("within the request");
        let full = found.len() == most;
        match found.last_mut() {
            // Their sum is within the request, so it fits.
            Some((before, state)) if *state == state_of(extent) => *before += bytes_now,
            _ if full => break,
            _ => found.push((bytes_now, state_of(extent))),
        }
        done += bytes;
    }
    Ok(found)
}

/// Answers, unless the export failed.
pub(super) fn answer(
    request: &Request,
    session: &Session,
    one_extent: bool,
    buffer: &mut Buffer,
) -> Result<(), Failure> {
    let found = extents(request, session, if one_extent { 1 } else { MOST_EXTENTS })?;
    let header = chunk_header(
        request.cookie,
        chunk::BLOCK_STATUS,
        Chunk::Last,
        4 + 8 * found.len(),
    );
    buffer.append(&header);
    buffer.append(&BASE_ALLOCATION_ID.to_be_bytes());
    for (bytes, state) in found {
        buffer.append(&bytes.to_be_bytes());
        buffer.append(&state.to_be_bytes());
    }
    Ok(())
}
