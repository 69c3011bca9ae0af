//! What a request header says, and whether it may.
//!
//! Numbered invariants, on which all that comes after relies:
//!
//! - I1: a [`Request`] lies within the export as it is now, its length is not zero (a flush has none), and a payload
//!   is no longer than [`MOST_PAYLOAD_BYTES`].
//! - I2: a refusal names the payload that follows the header, so that the stream stays in step.
//! - I3: nothing here depends on anything but the header, the session and the export's size and kind.

use crate::export::Zeroing;
use crate::limits::MOST_PAYLOAD_BYTES;
use crate::session::Session;
use crate::violation::Violation;
use crate::wire::{Cursor, Errno, REQUEST_HEADER_BYTES, command, command_flag as flag, magic};

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read { in_one_chunk: bool },
    Write { persist: bool },
    Flush,
    Trim { persist: bool },
    Cache,
    WriteZeroes { zeroing: Zeroing, persist: bool },
    BlockStatus { one_extent: bool },
}

/// A request that may be carried out (I1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) cookie: u64,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Request {
    /// Bytes that follow the header.
    pub(crate) fn payload_bytes(&self) -> usize {
        match self.kind {
            Kind::Write { .. } => self.length as usize,
            _ => 0,
        }
    }
}

/// What is to become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Perform(Request),
    /// To be answered by an error, once its payload was dropped (I2).
    Refuse {
        cookie: u64,
        error: Errno,
        payload_bytes: u32,
    },
    /// The client takes its leave.
    Leave,
}

/// A header as it was sent.
struct Header {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

impl Header {
    fn parse(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Result<Self, Violation> {
        let mut cursor = Cursor::new(bytes);
        let begins = cursor.u32().expect("long enough");
        if begins != magic::REQUEST {
            return Err(Violation::RequestMagic(begins));
        }
        Ok(Self {
            flags: cursor.u16().expect("long enough"),
            command: cursor.u16().expect("long enough"),
            cookie: cursor.u64().expect("long enough"),
            offset: cursor.u64().expect("long enough"),
            length: cursor.u32().expect("long enough"),
        })
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Judges a request by its header.
pub(super) fn judge(
    bytes: &[u8; REQUEST_HEADER_BYTES],
    session: &Session,
) -> Result<Verdict, Violation> {
    let header = Header::parse(bytes)?;
    let payload_bytes = match header.command {
        command::DISC => return Ok(Verdict::Leave),
        command::WRITE => header.length,
        _ => 0,
    };
    if payload_bytes > MOST_PAYLOAD_BYTES {
        return Err(Violation::PayloadLength(payload_bytes));
    }
    let kind =
        kind(&header, session).and_then(|kind| within(&header, kind, session).map(|()| kind));
    Ok(match kind {
        Ok(kind) => Verdict::Perform(Request {
            cookie: header.cookie,
            kind,
            offset: header.offset,
            length: header.length,
        }),
        Err(error) => Verdict::Refuse {
            cookie: header.cookie,
            error,
            payload_bytes,
        },
    })
}

/// The command, if there is one of this number and its flags fit it.
fn kind(header: &Header, session: &Session) -> Result<Kind, Errno> {
    let persist = header.has(flag::FUA);
    let (kind, flags) = match header.command {
        command::READ => {
            let in_one_chunk = header.has(flag::DF);
            let flags = if session.structured { flag::DF } else { 0 };
            (Kind::Read { in_one_chunk }, flags)
        }
        command::WRITE => (Kind::Write { persist }, 0),
        command::FLUSH => (Kind::Flush, 0),
        command::TRIM => (Kind::Trim { persist }, 0),
        command::CACHE => (Kind::Cache, 0),
        command::WRITE_ZEROES => {
            let zeroing = if header.has(flag::NO_HOLE) {
                Zeroing::NoHole
            } else {
                Zeroing::MayPunch
            };
            let flags = flag::NO_HOLE | flag::FAST_ZERO;
            (Kind::WriteZeroes { zeroing, persist }, flags)
        }
        command::BLOCK_STATUS if session.block_status => {
            let one_extent = header.has(flag::REQ_ONE);
            (Kind::BlockStatus { one_extent }, flag::REQ_ONE)
        }
        _ => return Err(Errno::Invalid),
    };
    // That to persist makes no sense with some commands is no reason to refuse: clients send it with all.
    if header.flags & !(flags | flag::FUA) != 0 {
        return Err(Errno::Invalid);
    }
    Ok(kind)
}

/// Whether the command may be given for this range (I1).
fn within(header: &Header, kind: Kind, session: &Session) -> Result<(), Errno> {
    let writes = matches!(
        kind,
        Kind::Write { .. } | Kind::Trim { .. } | Kind::WriteZeroes { .. }
    );
    if writes && session.export.read_only() {
        return Err(Errno::NotPermitted);
    }
    if kind == Kind::Flush {
        return match (header.offset, header.length) {
            (0, 0) => Ok(()),
            _ => Err(Errno::Invalid),
        };
    }
    if header.length == 0 {
        return Err(Errno::Invalid);
    }
    let end = header.offset.checked_add(u64::from(header.length));
    if end.is_none_or(|end| end > session.export.size_bytes()) {
        return Err(match kind {
            Kind::Write { .. } | Kind::WriteZeroes { .. } => Errno::NoSpace,
            _ => Errno::Invalid,
        });
    }
    match kind {
        Kind::Read { .. } if header.length > MOST_PAYLOAD_BYTES => Err(if session.structured {
            Errno::Overflow
        } else {
            Errno::Invalid
        }),
        // Zeros that must take space are written like other bytes.
        Kind::WriteZeroes {
            zeroing: Zeroing::NoHole,
            ..
        } if header.has(flag::FAST_ZERO) => Err(Errno::NotSupported),
        _ => Ok(()),
    }
}
