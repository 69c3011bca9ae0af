//! One connection, from its first byte to its last.
//!
//! ```text
//! Reading ──request──▶ Writing ──all of it──▶ Closing ──end, or time──▶ gone
//! ```
//!
//! While it is closing, what the client still sends is read and dropped: a socket that is closed with unread bytes resets the
//! connection, and the client would lose the answer.
//!
//! C1 At most [`MOST_REQUEST_BYTES`] and one answer are kept for a client.
//! C2 No call waits: the descriptor is non-blocking.

use super::exposition::Format;
use super::http::{self, Answer, Hosts, MOST_REQUEST_BYTES};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Time for a request and its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for the client to close its end.
const FAREWELL: Duration = Duration::from_secs(1);

/// What both kinds of sockets can.
pub trait Stream: Read + Write + AsRawFd {
    /// No more is written.
    fn close_for_writing(&self);
}

impl Stream for TcpStream {
    fn close_for_writing(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl Stream for UnixStream {
    fn close_for_writing(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }
}

#[derive(Debug)]
enum State {
    Reading(Vec<u8>),
    Writing(Vec<u8>, usize),
    Closing,
}

/// A connection.
pub struct Connection {
    stream: Box<dyn Stream>,
    /// By which names the client may call us.
    hosts: Hosts,
    state: State,
    /// When it is over, whatever has come of it.
    until: Instant,
    /// When it began.
    since: Instant,
}

impl Connection {
    /// A new one.
    pub fn new(stream: Box<dyn Stream>, hosts: Hosts, now: Instant) -> Self {
        Self {
            stream,
            hosts,
            state: State::Reading(Vec::new()),
            until: now + PATIENCE,
            since: now,
        }
    }

    /// For `poll`: what it waits for.
    pub fn waits_for(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.descriptor(),
            events: match self.state {
                State::Writing(..) => libc::POLLOUT,
                _ => libc::POLLIN,
            },
            revents: 0,
        }
    }

    fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// When it is over.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// When it began.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Goes on as far as it can. False: it is over.
    pub fn advance(&mut self, now: Instant, metrics: impl Fn(Format) -> String) -> bool {
        let advanced = match self.state {
            State::Reading(_) => self.read(now, metrics),
            State::Writing(..) => self.write(now),
            State::Closing => self.drain(),
        };
        match advanced {
            Ok(goes_on) => goes_on,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    /// Its time is over. False: it is over; else it is told so first.
    pub fn expire(&mut self, now: Instant) -> bool {
        match &self.state {
            State::Reading(request) if !request.is_empty() => {
                self.state = State::Writing(http::too_slow(), 0);
                self.until = now + FAREWELL;
                self.write(now).is_ok()
            }
            _ => false,
        }
    }

    fn read(&mut self, now: Instant, metrics: impl Fn(Format) -> String) -> io::Result<bool> {
        let State::Reading(request) = &mut self.state else {
            return Ok(true);
        };
        let mut part = [0; 2048];
        loop {
            let room = part.len().min(MOST_REQUEST_BYTES - request.len());
            let count = self.stream.read(&mut part[..room])?;
            if count == 0 {
                return Ok(false);
            }
            request.extend_from_slice(&part[..count]);
            if let Answer::Now(bytes) = http::answer(request, self.hosts, &metrics) {
                self.state = State::Writing(bytes, 0);
                return self.write(now);
            }
        }
    }

    fn write(&mut self, now: Instant) -> io::Result<bool> {
        let State::Writing(bytes, at) = &mut self.state else {
            return Ok(true);
        };
        while *at < bytes.len() {
            match self.stream.write(&bytes[*at..])? {
                0 => return Ok(false),
                count => *at += count,
            }
        }
        self.stream.close_for_writing();
        self.state = State::Closing;
        self.until = now + FAREWELL;
        Ok(true)
    }

    fn drain(&mut self) -> io::Result<bool> {
        let mut dropped = [0; 4096];
        // A client that sends without end is read now and then, until its time is over.
        self.stream.read(&mut dropped).map(|count| count > 0)
    }
}
