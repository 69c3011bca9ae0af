//! What a handshake leads to: one export, and how replies about it look.

use crate::export::Guarded;
use crate::wire::transmission_flag as flag;

/// What client and server agreed on.
pub(crate) struct Session {
    /// Name by which the client asked for the export.
    pub(crate) name: String,
    pub(crate) export: Guarded,
    /// Reads are answered in chunks.
    pub(crate) structured: bool,
    /// The client may ask for the state of ranges (`base:allocation`).
    pub(crate) block_status: bool,
}

/// What the client is told that it can ask of an export.
pub(crate) fn transmission_flags(export: &Guarded, structured: bool) -> u16 {
    // All connections share the export itself, so what one has flushed is flushed for all.
    let always = flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::CAN_MULTI_CONN
        | flag::SEND_CACHE;
    let changes = if export.read_only() {
        flag::READ_ONLY
    } else {
        flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO
    };
    let chunks = if structured { flag::SEND_DF } else { 0 };
    always | changes | chunks
}
