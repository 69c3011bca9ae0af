//! One socket of a client, of either kind, used by several threads.
//!
//! Sending never raises SIGPIPE, whatever the program has that signal set to.

use rustix::net::{SendFlags, Shutdown, send, sockopt};
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes handed to the kernel at a time: between two such pieces a slow client's time is looked at.
const PIECE_BYTES: usize = 256 << 10;

/// A connected socket.
pub(super) struct Stream(OwnedFd);

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self(stream.into())
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        // Where these fail the connection is slower, or a client that vanished is noticed later.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        Self(stream.into())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Stream {
    /// How long a read waits for a byte.
    pub(super) fn set_read_time(&self, time: Duration) -> io::Result<()> {
        // No time at all would mean no limit.
        let time = time.max(Duration::from_millis(1));
        Ok(sockopt::set_socket_timeout(
            &self.0,
            sockopt::Timeout::Recv,
            Some(time),
        )?)
    }

    /// How long a write waits for room.
    pub(super) fn set_write_time(&self, time: Duration) -> io::Result<()> {
        let time = time.max(Duration::from_millis(1));
        Ok(sockopt::set_socket_timeout(
            &self.0,
            sockopt::Timeout::Send,
            Some(time),
        )?)
    }

    /// Sends everything, or gives up once so much time has passed. The limit is looked at after each piece, and a piece
    /// may take as long as [`Stream::set_write_time`] says once it is reached.
    pub(super) fn send_all(&self, bytes: &[u8], time: Duration) -> io::Result<()> {
        let begin = Instant::now();
        let mut left = bytes;
        while !left.is_empty() {
            if left.len() < bytes.len() && begin.elapsed() > time {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let piece = &left[..left.len().min(PIECE_BYTES)];
            match send(&self.0, piece, SendFlags::NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// What arrives from now on is not read any more.
    pub(super) fn stop_reading(&self) {
        // Fails where the client has closed already, which does as well.
        let _ = rustix::net::shutdown(&self.0, Shutdown::Read);
    }

    /// Ends the connection, under the hands of whoever reads or writes.
    pub(super) fn end(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

/// Reads from a stream that others write to.
pub(super) struct Reader(pub(super) Arc<Stream>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0.0, buffer)?)
    }
}
