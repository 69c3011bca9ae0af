//! One socket of a client, of either kind, used by several threads.
//!
//! Sending never raises SIGPIPE, whatever the program has that signal set to.

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, send, setsockopt, shutdown, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io::{self, Read};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
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
        let _ = setsockopt(&stream, sockopt::KeepAlive, &true);
        Self(stream.into())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A time limit as the kernel takes it. No time at all would mean no limit.
fn limit(time: Duration) -> TimeVal {
    let microseconds = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    TimeVal::microseconds(microseconds.max(1000))
}

impl Stream {
    /// How long a read waits for a byte.
    pub(super) fn set_read_time(&self, time: Duration) -> io::Result<()> {
        Ok(setsockopt(&self.0, sockopt::ReceiveTimeout, &limit(time))?)
    }

    /// How long a write waits for room.
    pub(super) fn set_write_time(&self, time: Duration) -> io::Result<()> {
        Ok(setsockopt(&self.0, sockopt::SendTimeout, &limit(time))?)
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
            match send(self.0.as_raw_fd(), piece, MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// What arrives from now on is not read any more.
    pub(super) fn stop_reading(&self) {
        // Fails where the client has closed already, which does as well.
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Read);
    }

    /// Ends the connection, under the hands of whoever reads or writes.
    pub(super) fn end(&self) {
        let _ = shutdown(self.0.as_raw_fd(), Shutdown::Both);
    }
}

/// Reads from a stream that others write to.
pub(super) struct Reader(pub(super) Arc<Stream>);

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(nix::unistd::read(&self.0.0, buffer)?)
    }
}
