//! A client of the redis protocol (RESP 2), pipelined, over any byte stream.
//!
//! Requests are gathered in a buffer and sent together; replies are read in order. Values are
//! read into a buffer of the caller, so that reading half a million of them allocates nothing.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest bulk value we accept, in bytes: more means that the stream is out of step.
const LONGEST_BULK: usize = 64 << 20;

/// A reply of the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK` and the like.
    Simple(String),
    /// `-ERR …`.
    Error(String),
    /// `:1`.
    Integer(i64),
    /// A value; it lies in the buffer given to [`read_reply`].
    Bulk,
    /// No value.
    Nil,
}

/// Appends the request `arguments` to `out`.
pub fn write_request(arguments: &[&[u8]], out: &mut Vec<u8>) {
    let header = |mark: u8, number: usize, out: &mut Vec<u8>| {
        out.push(mark);
        out.extend_from_slice(number.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
    };
    header(b'*', arguments.len(), out);
    for argument in arguments {
        header(b'$', argument.len(), out);
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// Reads one reply; a value replaces the content of `bulk`.
pub fn read_reply(from: &mut impl BufRead, bulk: &mut Vec<u8>) -> Result<Reply> {
    bulk.clear();
    from.read_until(b'\n', bulk)
        .context("the server's answer cannot be read")?;
    let Some(line) = bulk.strip_suffix(b"\r\n") else {
        bail!("the server closed the connection within an answer");
    };
    let (&mark, rest) = line
        .split_first()
        .context("the server sent an empty line")?;
    let rest = std::str::from_utf8(rest).context("the server sent no text")?;
    let number = || -> Result<i64> {
        rest.parse()
            .with_context(|| format!("the server sent {rest:?} for a number"))
    };
    Ok(match mark {
        b'+' => Reply::Simple(rest.to_owned()),
        b'-' => Reply::Error(rest.to_owned()),
        b':' => Reply::Integer(number()?),
        b'$' => match number()? {
            -1 => Reply::Nil,
            length @ 0.. if length as usize <= LONGEST_BULK => {
                bulk.resize(length as usize + 2, 0);
                from.read_exact(bulk)
                    .context("the server closed the connection within a value")?;
                if !bulk.ends_with(b"\r\n") {
                    bail!("a value of the server is longer than it said");
                }
                bulk.truncate(length as usize);
                Reply::Bulk
            }
            length => bail!("the server announced a value of {length} bytes"),
        },
        other => bail!(
            "the server sent a reply of unknown kind {:?}",
            other as char
        ),
    })
}

/// A connection to a server.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    requests: Vec<u8>,
    /// The value of the last [`Reply::Bulk`].
    pub bulk: Vec<u8>,
}

impl Client {
    /// Connects to a server's unix socket. No answer within a minute is an error: a managed
    /// server that hangs must fail the demo, not hang it.
    pub fn connect(socket: &Path) -> Result<Client> {
        let writer = UnixStream::connect(socket)?;
        writer.set_read_timeout(Some(Duration::from_secs(60)))?;
        writer.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(Client {
            reader: BufReader::with_capacity(256 << 10, writer.try_clone()?),
            writer,
            requests: Vec::new(),
            bulk: Vec::new(),
        })
    }

    /// Adds a request to those to be sent.
    pub fn request(&mut self, arguments: &[&[u8]]) {
        write_request(arguments, &mut self.requests);
    }

    /// Sends what was gathered.
    pub fn send(&mut self) -> Result<()> {
        self.writer
            .write_all(&self.requests)
            .context("the server takes no requests")?;
        self.requests.clear();
        Ok(())
    }

    /// Reads the next reply.
    pub fn reply(&mut self) -> Result<Reply> {
        read_reply(&mut self.reader, &mut self.bulk)
    }

    /// Takes the replies to so many SETs.
    pub fn stored(&mut self, replies: u64) -> Result<()> {
        for _ in 0..replies {
            match self.reply()? {
                Reply::Simple(_) => {}
                other => bail!("SET answered {other:?}"),
            }
        }
        Ok(())
    }

    /// Sends one request and reads its reply.
    pub fn call(&mut self, arguments: &[&[u8]]) -> Result<Reply> {
        self.request(arguments);
        self.send()?;
        self.reply()
    }

    /// A number out of the server's `INFO` section.
    pub fn info(&mut self, section: &str, field: &str) -> Result<u64> {
        match self.call(&[b"INFO", section.as_bytes()])? {
            Reply::Bulk => {}
            other => bail!("INFO {section} answered {other:?}"),
        }
        let text = String::from_utf8_lossy(&self.bulk);
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|value| value.trim().parse().ok())
            .with_context(|| format!("INFO {section} has no {field}"))
    }

    /// Reads until the server closes the connection.
    pub fn drain(&mut self) {
        let mut rest = [0; 4096];
        while matches!(self.reader.read(&mut rest), Ok(length) if length > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Result<Reply>, Vec<u8>) {
        let mut bulk = b"rubbish".to_vec();
        // A capacity of one byte splits every reply at every place.
        let reply = read_reply(&mut BufReader::with_capacity(1, bytes), &mut bulk);
        (reply, bulk)
    }

    #[test]
    fn requests_have_the_wire_format() {
        let mut out = Vec::new();
        write_request(&[b"SET", b"k\r\n", b""], &mut out);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n");
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        assert_eq!(read(b"+OK\r\n").0.unwrap(), Reply::Simple("OK".into()));
        assert_eq!(
            read(b"-ERR no\r\n").0.unwrap(),
            Reply::Error("ERR no".into())
        );
        assert_eq!(read(b":-12\r\n").0.unwrap(), Reply::Integer(-12));
        assert_eq!(read(b"$-1\r\n").0.unwrap(), Reply::Nil);
        let (reply, bulk) = read(b"$7\r\na\r\nb\0\r\n\r\n");
        assert_eq!(reply.unwrap(), Reply::Bulk);
        assert_eq!(bulk, b"a\r\nb\0\r\n");
        let (reply, bulk) = read(b"$0\r\n\r\n");
        assert_eq!((reply.unwrap(), bulk), (Reply::Bulk, vec![]));
    }

    #[test]
    fn replies_follow_one_another() {
        let mut from = BufReader::new(&b"+OK\r\n$2\r\nhi\r\n:3\r\n"[..]);
        let mut bulk = Vec::new();
        assert_eq!(
            read_reply(&mut from, &mut bulk).unwrap(),
            Reply::Simple("OK".into())
        );
        assert_eq!(read_reply(&mut from, &mut bulk).unwrap(), Reply::Bulk);
        assert_eq!(bulk, b"hi");
        assert_eq!(read_reply(&mut from, &mut bulk).unwrap(), Reply::Integer(3));
        assert!(read_reply(&mut from, &mut bulk).is_err());
    }

    #[test]
    fn broken_replies_are_refused() {
        for broken in [
            &b""[..],
            b"+OK",
            b"\r\n",
            b"?what\r\n",
            b"$x\r\n",
            b"$-2\r\n",
            b"$5\r\nabc",
            b"$2\r\nabcd\r\n",
            b"$99999999999\r\n",
        ] {
            assert!(read(broken).0.is_err(), "{broken:?}");
        }
    }
}
