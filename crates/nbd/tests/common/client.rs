//! A client that can misbehave: it sends what it is told, and is strict with what it gets.

pub use super::messages::*;
use super::served::{PATIENCE, Served};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

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

impl Client {
    /// Connects and exchanges greetings.
    pub fn connect(served: &Served) -> Self {
        Self::connect_at(&served.socket)
    }

    fn connect_at(socket: &Path) -> Self {
        let mut client = Self::mute_at(socket);
        let greeting = client.bytes(18);
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        assert_eq!(greeting[16..], [0, 3]);
        client.send(&3_u32.to_be_bytes());
        client
    }

    /// Connects and says nothing.
    pub fn mute(served: &Served) -> Self {
        Self::mute_at(&served.socket)
    }

    fn mute_at(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    /// Connects to the default export, without chunks.
    pub fn simple(served: &Served) -> Self {
        Self::simple_at(&served.socket)
    }

    /// The same, where there is only a socket.
    pub fn simple_at(socket: &Path) -> Self {
        let mut client = Self::connect_at(socket);
        let replies = client.option(GO, &export_request("", &[]));
        assert_eq!(replies.last(), Some(&(ACK, vec![])));
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
