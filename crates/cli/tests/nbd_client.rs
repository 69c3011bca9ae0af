//! The least of an NBD client: one request after the other, so that a test knows what was acknowledged.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub struct Client {
    stream: UnixStream,
}

/// A request that changes something.
#[derive(Clone, Copy)]
pub enum Command {
    Write { fua: bool },
    Flush,
    Trim,
}

impl Client {
    /// Connects to the default export.
    pub fn connect(socket: &Path) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // Fixed newstyle, no zeroes; then EXPORT_NAME, with the empty name.
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT").unwrap();
        stream.write_all(&[0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        let mut size_and_flags = [0; 10];
        stream.read_exact(&mut size_and_flags).unwrap();
        Self { stream }
    }

    /// Asks, and waits for the answer. An error is one of the connection.
    pub fn ask(&mut self, command: Command, at: u64, data: &[u8], length: u32) -> io::Result<()> {
        let (flags, kind) = match command {
            Command::Write { fua } => (u16::from(fua), 1),
            Command::Flush => (0, 3),
            Command::Trim => (0, 4),
        };
        let length = length.max(data.len() as u32);
        assert_eq!(self.send(flags, kind, at, length, data)?, 0, "refused");
        Ok(())
    }

    pub fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let error = self.try_read(at, into)?;
        assert_eq!(error, 0, "refused");
        Ok(())
    }

    /// The number of the error by which the server refuses a read, or 0.
    pub fn try_read(&mut self, at: u64, into: &mut [u8]) -> io::Result<u32> {
        let error = self.send(0, 0, at, into.len() as u32, &[])?;
        if error == 0 {
            self.stream.read_exact(into)?;
        }
        Ok(error)
    }

    /// Sends a request, and waits for the answer, which is the number of an error or 0.
    fn send(
        &mut self,
        flags: u16,
        kind: u16,
        at: u64,
        length: u32,
        data: &[u8],
    ) -> io::Result<u32> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(kind.to_be_bytes());
        request.extend(7_u64.to_be_bytes());
        request.extend(at.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)?;
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        assert_eq!(&reply[..4], b"\x67\x44\x66\x98");
        Ok(u32::from_be_bytes(*reply[4..].first_chunk().unwrap()))
    }
}
