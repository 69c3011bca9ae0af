//! Serving: one thread, which waits for all of them at once.
//!
//! S1 At most [`MOST_CONNECTIONS`] clients are served at a time. When one more comes, the one that came first is put off: so
//!    clients that are slow, or do nothing, keep nobody from being answered.
//! S2 Nobody is waited for: each has ten seconds in all ([`Connection`]), and no call here blocks but `poll`.
//! S3 Figures are read when they are asked for, and are not kept.

use super::connection::{Connection, Stream};
use super::ending::{self, Ending};
use super::exposition;
use super::http::Hosts;
use super::listen::Socket;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Clients at a time.
const MOST_CONNECTIONS: usize = 64;

/// New clients that are taken before the others are looked at again.
const AT_ONCE: usize = 32;

/// Rest where no client can be taken, for want of descriptors or memory.
const REST: Duration = Duration::from_millis(100);

/// Where clients come from.
#[derive(Debug)]
pub enum Listener {
    /// A TCP address, and by which names clients may call it.
    Tcp(TcpListener, Hosts),
    /// A unix socket.
    Unix(Socket),
}

impl Listener {
    fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(listener, _) => listener.as_raw_fd(),
            Self::Unix(socket) => socket.listener.as_raw_fd(),
        }
    }

    fn hosts(&self) -> Hosts {
        match self {
            Self::Tcp(_, hosts) => *hosts,
            Self::Unix(_) => Hosts::Any,
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
            Self::Unix(socket) => {
                let (stream, _) = socket.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Serves until a signal ends it.
pub fn serve(listeners: &[Listener], ending: &Ending) {
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut descriptors = vec![readable(ending.descriptor())];
        descriptors.extend(listeners.iter().map(|one| readable(one.descriptor())));
        descriptors.extend(connections.iter().map(Connection::waits_for));
        let next = connections.iter().map(Connection::until).min();
        let time = next.map(|until| until.saturating_duration_since(Instant::now()));
        ending::poll(&mut descriptors, time);
        if descriptors[0].revents != 0 {
            return;
        }
        let now = Instant::now();
        let (of_listeners, of_connections) = descriptors[1..].split_at(listeners.len());
        let mut ready = of_connections.iter().map(|one| one.revents != 0);
        connections.retain_mut(|connection| {
            let is_ready = ready.next().unwrap_or(false);
            let goes_on = !is_ready || connection.advance(now, exposition::now);
            goes_on && (connection.until() > now || connection.expire(now))
        });
        for (listener, descriptor) in listeners.iter().zip(of_listeners) {
            if descriptor.revents != 0 {
                take_in(listener, &mut connections, now);
            }
        }
    }
}

fn readable(number: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd: number,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Takes clients who wait.
fn take_in(listener: &Listener, connections: &mut Vec<Connection>, now: Instant) {
    for _ in 0..AT_ONCE {
        match listener.accept() {
            Ok(stream) => {
                if connections.len() >= MOST_CONNECTIONS {
                    put_off_the_first(connections);
                }
                connections.push(Connection::new(stream, listener.hosts(), now));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // Of that client alone.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted
                ) => {}
            Err(_) => {
                put_off_the_first(connections);
                std::thread::sleep(REST);
                return;
            }
        }
    }
}

fn put_off_the_first(connections: &mut Vec<Connection>) {
    let oldest = (0..connections.len()).min_by_key(|&n| connections[n].since());
    if let Some(oldest) = oldest {
        connections.remove(oldest);
    }
}
