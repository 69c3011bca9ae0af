//! The connections that there are: for limits, and for the end.
//!
//! A connection is *negotiating* until it has its export, then *served*. Both kinds have a limit of their own (see
//! [`Limits`](crate::Limits)): at that of the served nobody is let in; at that of the negotiating the one that has
//! taken longest has to go.

use super::stream::Stream;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct Connections {
    next: u64,
    negotiating: BTreeMap<u64, Arc<Stream>>,
    served: BTreeMap<u64, Arc<Stream>>,
    /// Threads that have a connection, those among them that were told to go.
    threads: usize,
    stopping: bool,
}

/// All connections of a server.
pub(super) struct Registry {
    /// Guards the table; held for a look-up and for telling sockets to end. Leaf.
    connections: Mutex<Connections>,
    changed: Condvar,
    most_served: usize,
    most_negotiating: usize,
}

/// A place among the connections, until it is dropped.
pub(super) struct Place {
    registry: Arc<Registry>,
    number: u64,
}

/// Whether a connection gets a place.
pub(super) enum Admission {
    /// It does; how many had to go for it.
    Place(Place, u64),
    Refused,
}

impl Registry {
    pub(super) fn new(most_served: usize, most_negotiating: usize) -> Arc<Self> {
        Arc::new(Self {
            connections: Mutex::default(),
            changed: Condvar::new(),
            most_served,
            most_negotiating: most_negotiating.max(1),
        })
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a connection in, to negotiate.
    pub(super) fn admit(self: &Arc<Self>, stream: &Arc<Stream>) -> Admission {
        let mut connections = self.connections();
        if connections.stopping || connections.served.len() >= self.most_served {
            return Admission::Refused;
        }
        let mut gone = 0;
        while connections.negotiating.len() >= self.most_negotiating {
            if let Some((_, oldest)) = connections.negotiating.pop_first() {
                oldest.end();
                gone += 1;
            }
        }
        let number = connections.next;
        connections.next += 1;
        connections.threads += 1;
        connections.negotiating.insert(number, Arc::clone(stream));
        let registry = Arc::clone(self);
        Admission::Place(Place { registry, number }, gone)
    }

    /// How many negotiate.
    pub(super) fn negotiating(&self) -> usize {
        self.connections().negotiating.len()
    }

    /// Lets nobody in any more, ends those that negotiate, and has the others read no further request.
    pub(super) fn stop(&self) {
        let mut connections = self.connections();
        connections.stopping = true;
        connections
            .negotiating
            .values()
            .for_each(|stream| stream.end());
        connections
            .served
            .values()
            .for_each(|stream| stream.stop_reading());
    }

    /// Ends all connections, whatever they are at.
    pub(super) fn end(&self) {
        self.connections()
            .served
            .values()
            .for_each(|stream| stream.end());
    }

    /// Waits until no thread has a connection; gives how many still have one after that time.
    pub(super) fn wait(&self, time: Duration) -> usize {
        let connections = self.connections();
        let waited = self
            .changed
            .wait_timeout_while(connections, time, |connections| connections.threads > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.threads
    }
}

impl Place {
    /// From negotiating to served, where there is room.
    pub(super) fn serve(&self) -> bool {
        let mut connections = self.registry.connections();
        if connections.stopping || connections.served.len() >= self.registry.most_served {
            return false;
        }
        // It is not there if it had to go.
        let Some(stream) = connections.negotiating.remove(&self.number) else {
            return false;
        };
        connections.served.insert(self.number, stream);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.registry.connections();
        connections.negotiating.remove(&self.number);
        connections.served.remove(&self.number);
        connections.threads -= 1;
        self.registry.changed.notify_all();
    }
}
