//! How much a client may take: connections, time, memory.

use std::time::Duration;

/// The most payload of a request that clients rely on, by the protocol.
pub const MOST_PAYLOAD_BYTES: u32 = 32 << 20;

/// Limits of a server. The defaults are for a disk that a handful of programs of one machine use.
///
/// What one connection can make the server hold in memory: [`Limits::connection_buffer_bytes`], and 4 MiB for each of
/// [`Limits::in_flight`], which are kept from request to request. A buffer grows as a payload arrives, not as it is
/// announced.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients that may be connected to an export at a time. A further one is closed when it connects, or, if it was
    /// negotiating already, when it asks for the export.
    pub connections: usize,
    /// Clients that may be negotiating at a time. Where there is one more, the one that has negotiated longest is
    /// closed: clients that connect and say nothing do not keep out one that has something to say.
    pub handshakes: usize,
    /// Requests of one connection that are carried out at a time. The next is read when one of them is answered.
    pub in_flight: usize,
    /// Bytes that requests of one connection may have in buffers at a time, at least [`MOST_PAYLOAD_BYTES`]: less is
    /// taken for that.
    pub connection_buffer_bytes: usize,
    /// Bytes of one option of the handshake. A longer one is refused unread; one beyond [`MOST_PAYLOAD_BYTES`] ends the
    /// connection.
    pub option_bytes: usize,
    /// How long a handshake may take in all.
    pub handshake_time: Duration,
    /// How long a client may be silent during the handshake.
    pub handshake_silence: Duration,
    /// How long a request that has begun may stand still before its next byte. Between requests there is no limit.
    pub request_silence: Duration,
    /// How long a client may leave a reply unread.
    pub reply_time: Duration,
    /// How long requests under way have to finish once the server was told to stop.
    pub stop_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            handshakes: 64,
            in_flight: 8,
            connection_buffer_bytes: 64 << 20,
            option_bytes: 64 << 10,
            handshake_time: Duration::from_secs(30),
            handshake_silence: Duration::from_secs(10),
            request_silence: Duration::from_secs(30),
            reply_time: Duration::from_secs(30),
            stop_time: Duration::from_secs(10),
        }
    }
}
