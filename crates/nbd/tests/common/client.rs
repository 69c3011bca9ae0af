//! A client that can misbehave: it sends what it is told, and is strict with what it gets.

use super::served::{PATIENCE, Served};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

pub const EXPORT_NAME: u32 = 1;
pub const ABORT: u32 = 2;
pub const LIST: u32 = 3;
pub const INFO: u32 = 6;
pub const GO: u32 = 7;
pub const STRUCTURED_REPLY: u32 = 8;
pub const LIST_META_CONTEXT: u32 = 9;
pub const SET_META_CONTEXT: u32 = 10;

pub const ACK: u32 = 1;
pub const ERROR: u32 = 1 << 31;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 2;
pub const DF: u16 = 4;
pub const REQ_ONE: u16 = 8;
pub const FAST_ZERO: u16 = 16;

/// A connection.
pub struct Client(pub UnixStream);

/// One message of the transmission phase.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Simple {
        cookie: u64,
        error: u32,
    },
    Chunk {
        cookie: u64,
        kind: u16,
        done: bool,
        payload: Vec<u8>,
    },
}

impl Reply {
    /// The error that it tells, if any.
    pub fn error(&self) -> Option<u32> {
        match self {
            Reply::Simple { error: 0, .. } => None,
            Reply::Simple { error, .. } => Some(*error),
            Reply::Chunk { kind, payload, .. } if *kind >= 1 << 15 => Some(word(payload, 0)),
            Reply::Chunk { .. } => None,
        }
    }

    pub fn cookie(&self) -> u64 {
        match self {
            Reply::Simple { cookie, .. } | Reply::Chunk { cookie, .. } => *cookie,
        }
    }
}

/// 32 bits at a place.
pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// 64 bits at a place.
pub fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// An option, as it is sent.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [
        b"IHAVEOPT",
        &number.to_be_bytes()[..],
        &length.to_be_bytes(),
        data,
    ]
    .concat()
}

/// Data of GO and INFO.
pub fn export_request(name: &str, infos: &[u16]) -> Vec<u8> {
    let length = u32::try_from(name.len()).unwrap().to_be_bytes();
    let count = u16::try_from(infos.len()).unwrap().to_be_bytes();
    let infos: Vec<u8> = infos.iter().flat_map(|info| info.to_be_bytes()).collect();
    [&length[..], name.as_bytes(), &count, &infos].concat()
}

/// Data of the options for metadata contexts.
pub fn meta_request(name: &str, queries: &[&str]) -> Vec<u8> {
    let counted = |text: &str| {
        [
            &u32::try_from(text.len()).unwrap().to_be_bytes()[..],
            text.as_bytes(),
        ]
        .concat()
    };
    let count = u32::try_from(queries.len()).unwrap().to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| counted(query)).collect();
    [counted(name), count.to_vec(), queries].concat()
}

/// A request, as it is sent, without payload.
pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let magic = 0x2560_9513_u32.to_be_bytes();
    let (flags, command) = (flags.to_be_bytes(), command.to_be_bytes());
    let (cookie, offset) = (cookie.to_be_bytes(), offset.to_be_bytes());
    [
        &magic[..],
        &flags,
        &command,
        &cookie,
        &offset,
        &length.to_be_bytes(),
    ]
    .concat()
}

impl Client {
    /// Connects and exchanges greetings.
    pub fn connect(served: &Served) -> Self {
        let mut client = Self::mute(served);
        let greeting = client.bytes(18);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects and says nothing.
    pub fn mute(served: &Served) -> Self {
        let stream = UnixStream::connect(&served.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Connects to the default export, without chunks.
    pub fn simple(served: &Served) -> Self {
        let mut client = Self::connect(served);
        assert_eq!(
            client.option(GO, &export_request("", &[])).last(),
            Some(&(ACK, vec![]))
        );
        client
    }

    /// Connects to the default export, with chunks and block status.
    pub fn structured(served: &Served) -> Self {
        let mut client = Self::connect(served);
        assert_eq!(client.option(STRUCTURED_REPLY, &[]), [(ACK, vec![])]);
        let set = client.option(SET_META_CONTEXT, &meta_request("", &["base:allocation"]));
        assert_eq!(set.len(), 2, "{set:?}");
        assert_eq!(
            client.option(GO, &export_request("", &[])).last(),
            Some(&(ACK, vec![]))
        );
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    pub fn bytes(&mut self, number: usize) -> Vec<u8> {
        let mut bytes = vec![0; number];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Whether the server has closed the connection; nothing else may come.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 16]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Sends an option and takes all its replies, the final one last.
    pub fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send(&option(number, data));
        self.option_replies(number)
    }

    pub fn option_replies(&mut self, number: u32) -> Vec<(u32, Vec<u8>)> {
        let mut replies = Vec::new();
        loop {
            let header = self.bytes(20);
            assert_eq!(long(&header, 0), 0x0003_e889_0455_65a9);
            assert_eq!(word(&header, 8), number);
            let (kind, length) = (word(&header, 12), word(&header, 16));
            replies.push((kind, self.bytes(length as usize)));
            if kind == ACK || kind >= ERROR {
                return replies;
            }
        }
    }

    /// Takes one message. A simple one has no data: take it by [`Client::bytes`].
    pub fn reply(&mut self) -> Reply {
        let magic = word(&self.bytes(4), 0);
        if magic == 0x6744_6698 {
            let rest = self.bytes(12);
            let (error, cookie) = (word(&rest, 0), long(&rest, 4));
            return Reply::Simple { cookie, error };
        }
        assert_eq!(magic, 0x668e_33ef, "not a reply");
        let rest = self.bytes(16);
        let flags = u16::from_be_bytes([rest[0], rest[1]]);
        assert!(flags <= 1, "unknown flags {flags}");
        let length = word(&rest, 12) as usize;
        Reply::Chunk {
            cookie: long(&rest, 4),
            kind: u16::from_be_bytes([rest[2], rest[3]]),
            done: flags == 1,
            payload: self.bytes(length),
        }
    }

    /// Sends a request without payload and takes its only message.
    pub fn ask(&mut self, flags: u16, command: u16, offset: u64, length: u32) -> Reply {
        self.send(&request(flags, command, 7, offset, length));
        self.reply()
    }

    /// Writes, and takes the answer.
    pub fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Reply {
        let length = u32::try_from(data.len()).unwrap();
        self.send(&[&request(flags, WRITE, 8, offset, length), data].concat());
        self.reply()
    }

    /// Reads by a simple reply.
    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        assert_eq!(
            self.ask(0, READ, offset, length),
            Reply::Simple {
                cookie: 7,
                error: 0
            }
        );
        self.bytes(length as usize)
    }
}
