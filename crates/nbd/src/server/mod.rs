//! The server: sockets, and a thread or more for each client.
//!
//! | | |
//! |---|---|
//! | `listen.rs` | where it listens |
//! | `registry.rs` | who is connected; limits; the end |
//! | `connection.rs` | one client |
//! | `budget.rs` | memory of one client's requests |
//! | `stream.rs` | one socket |
//!
//! The thread that calls [`Server::serve`] accepts; it waits for all listening sockets, and for a descriptor by which
//! [`Handle::stop`] wakes it.

mod budget;
mod connection;
mod listen;
mod registry;
mod stream;

pub use listen::{BindError, Listen};

use crate::counters::{ServerCounters, ServerCounts, add};
use crate::export::Exports;
use crate::limits::Limits;
use listen::Listener;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use registry::{Admission, Registry};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use stream::Stream;

/// How long accepting rests where the kernel has no descriptor or thread left, in milliseconds.
const REST_MS: u8 = 50;

/// What the threads of a server share.
struct Shared {
    exports: Arc<dyn Exports>,
    limits: Limits,
    counters: Arc<ServerCounters>,
    registry: Arc<Registry>,
    stopping: AtomicBool,
    /// Readable once the server is to stop.
    bell: EventFd,
}

/// A server that listens. Clients are answered while [`Server::serve`] runs.
pub struct Server {
    listeners: Vec<Listener>,
    shared: Arc<Shared>,
}

/// A way to a server from any thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

/// Why serving ended otherwise than by being stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The kernel does not tell of clients.
    #[error("cannot wait for clients: {0}")]
    Poll(#[source] io::Error),
    /// The server was stopped, and some connections did not end: an export does not return.
    #[error("{0} connections did not end: a request to an export has not returned")]
    Unfinished(usize),
}

impl Server {
    /// Listens in all these places.
    ///
    /// # Errors
    /// [`BindError`]; it then listens in none.
    pub fn bind(
        listens: &[Listen],
        exports: Arc<dyn Exports>,
        limits: Limits,
    ) -> Result<Server, BindError> {
        if listens.is_empty() {
            return Err(BindError::Nowhere);
        }
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_flags(flags);
        let bell = bell.map_err(|errno| BindError::Descriptor(errno.into()))?;
        let listeners = listens
            .iter()
            .map(Listener::bind)
            .collect::<Result<_, _>>()?;
        let registry = Registry::new(limits.connections, limits.handshakes);
        let shared = Arc::new(Shared {
            exports,
            limits,
            counters: Arc::default(),
            registry,
            stopping: AtomicBool::new(false),
            bell,
        });
        Ok(Server { listeners, shared })
    }

    /// Where it listens: absolute paths, and ports that were given.
    pub fn listening(&self) -> Vec<Listen> {
        self.listeners.iter().map(Listener::listen).collect()
    }

    /// A way to stop it, and to its figures.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Serves until [`Handle::stop`] is called: then nobody is accepted any more, sockets are removed, requests under
    /// way are answered and connections closed.
    ///
    /// # Errors
    /// [`ServeError`]. Nothing is served afterwards, in any case.
    pub fn serve(self) -> Result<(), ServeError> {
        let Server { listeners, shared } = self;
        let accepted = accept_all(&listeners, &shared);
        drop(listeners);
        shared.stopping.store(true, Ordering::Relaxed);
        shared.registry.stop();
        if shared.registry.wait(shared.limits.stop_time) > 0 {
            shared.registry.end();
        }
        match shared.registry.wait(shared.limits.stop_time) {
            0 => accepted.map_err(ServeError::Poll),
            left => Err(ServeError::Unfinished(left)),
        }
    }
}

impl Handle {
    /// Has the server stop, and returns at once.
    pub fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        // It fails where it was rung already more often than one can count.
        let _ = self.0.bell.write(1);
    }

    /// The figures.
    pub fn counts(&self) -> ServerCounts {
        self.0.counters.counts(self.0.registry.negotiating())
    }
}

/// Accepts until the bell rings.
fn accept_all(listeners: &[Listener], shared: &Arc<Shared>) -> io::Result<()> {
    let mut short_of_something = false;
    loop {
        let bell = PollFd::new(shared.bell.as_fd(), PollFlags::POLLIN);
        let sockets = listeners
            .iter()
            .map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN));
        let mut waited: Vec<_> = std::iter::once(bell).chain(sockets).collect();
        // Where clients cannot be taken they must not wake us.
        let (number, time) = if short_of_something {
            (1, PollTimeout::from(REST_MS))
        } else {
            (waited.len(), PollTimeout::NONE)
        };
        match poll(&mut waited[..number], time) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if waited[0].any().unwrap_or(true) {
            return Ok(());
        }
        short_of_something = false;
        for (listener, waited) in listeners.iter().zip(&waited[1..]) {
            if number == 1 || waited.any().unwrap_or(true) {
                short_of_something |= !accept_some(listener, shared);
            }
        }
    }
}

/// Accepts who waits; false where the kernel has no descriptor or thread left for one.
fn accept_some(listener: &Listener, shared: &Arc<Shared>) -> bool {
    match listener.accept() {
        Ok(stream) => begin(stream, shared),
        Err(error) => matches!(
            error.kind(),
            ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
        ),
    }
}

/// Gives a client its thread, if there is a place for it.
fn begin(stream: Stream, shared: &Arc<Shared>) -> bool {
    let stream = Arc::new(stream);
    let counters = &shared.counters;
    let Admission::Place(place, gone) = shared.registry.admit(&stream) else {
        add(&counters.refused_connections, 1);
        return true;
    };
    add(&counters.refused_connections, gone);
    let shared = Arc::clone(shared);
    let counters = Arc::clone(counters);
    let thread = Builder::new().name("nbd client".into());
    let client = thread.spawn(move || connection::run(&shared, stream, &place));
    if client.is_err() {
        add(&counters.refused_connections, 1);
    }
    client.is_ok()
}
