//! Numbers of the protocol.

/// Words that begin a message.
pub(crate) mod magic {
    /// Begins the server's greeting: "NBDMAGIC".
    pub(crate) const GREETING: u64 = u64::from_be_bytes(*b"NBDMAGIC");
    /// Ends the first part of the greeting and begins each option: "IHAVEOPT".
    pub(crate) const OPTION: u64 = u64::from_be_bytes(*b"IHAVEOPT");
    /// Begins a reply to an option.
    pub(crate) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
    /// Begins a request.
    pub(crate) const REQUEST: u32 = 0x2560_9513;
    /// Begins a simple reply.
    pub(crate) const SIMPLE_REPLY: u32 = 0x6744_6698;
    /// Begins a chunk of a structured reply.
    pub(crate) const STRUCTURED_REPLY: u32 = 0x668e_33ef;
}

/// Flags of the greeting, and of the client's answer to it.
pub(crate) mod handshake_flag {
    /// Options other than EXPORT_NAME are understood. The client's flag has the same bit.
    pub(crate) const FIXED_NEWSTYLE: u16 = 1 << 0;
    /// The zeros after the answer to EXPORT_NAME can be left out. The client's flag has the same bit.
    pub(crate) const NO_ZEROES: u16 = 1 << 1;
}

/// What an export can do, as the client is told.
pub(crate) mod transmission_flag {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
    pub(crate) const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// Options of the handshake.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
    pub(crate) const EXTENDED_HEADERS: u32 = 11;
}

/// Replies to options.
pub(crate) mod option_reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(crate) const ERR_UNSUP: u32 = ERROR + 1;
    pub(crate) const ERR_INVALID: u32 = ERROR + 3;
    pub(crate) const ERR_UNKNOWN: u32 = ERROR + 6;
    pub(crate) const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Commands of the transmission phase.
pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISC: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Chunks of structured replies.
pub(crate) mod chunk {
    /// Flag of the last chunk of a reply.
    pub(crate) const DONE: u16 = 1 << 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    const ERROR_BIT: u16 = 1 << 15;
    pub(crate) const ERROR: u16 = ERROR_BIT + 1;
    pub(crate) const ERROR_OFFSET: u16 = ERROR_BIT + 2;
}

/// States of a range in `base:allocation`.
pub(crate) mod state {
    pub(crate) const HOLE: u32 = 1 << 0;
    pub(crate) const ZERO: u32 = 1 << 1;
}

/// The one metadata context there is.
pub(crate) const BASE_ALLOCATION: &str = "base:allocation";
/// The number that stands for it in replies.
pub(crate) const BASE_ALLOCATION_ID: u32 = 1;

/// The most bytes of a string.
pub(crate) const MOST_STRING_BYTES: usize = 4096;
/// Bytes of an option before its data.
pub(crate) const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a request before its payload.
pub(crate) const REQUEST_HEADER_BYTES: usize = 28;
/// Bytes of a simple reply before its data.
pub(crate) const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk before its payload.
pub(crate) const CHUNK_HEADER_BYTES: usize = 20;

/// Error numbers, as the protocol has them on every system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    NotPermitted = 1,
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}
