//! Figures of a server: of each export, and of the whole.
//!
//! A counter is added to without a lock. The table of exports has one, a leaf ([`Counters::exports`]), taken when a
//! client chooses an export, when it leaves, and when figures are asked for.

use crate::transmission::{Kind, Outcome, Request};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Exports whose figures are kept though nobody is connected to them.
const MOST_IDLE_EXPORTS: usize = 1024;

/// Figures of one export, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Clients that are connected to an export.
    pub connections_now: u64,
    /// Clients that have ever been.
    pub connections: u64,
    /// Reads that succeeded.
    pub reads: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Trims that succeeded.
    pub trims: u64,
    /// Requests to write zeros that succeeded.
    pub zeroes: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// Questions for the state of ranges that were answered.
    pub block_statuses: u64,
    /// Hints to cache a range.
    pub caches: u64,
    /// Bytes of content that reads gave, those told as holes among them.
    pub read_bytes: u64,
    /// Bytes of content that were written.
    pub written_bytes: u64,
    /// Bytes that were sent to clients, since they have their export.
    pub sent_bytes: u64,
    /// Bytes that came from clients, since they have their export.
    pub received_bytes: u64,
    /// Requests that were valid and failed in the export.
    pub failed_requests: u64,
    /// Requests that were refused, or that ended the connection, since they are not valid.
    pub malformed_requests: u64,
}

/// Figures of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounts {
    /// Of all exports together.
    pub whole: Counts,
    /// By the names under which clients asked for them.
    pub exports: BTreeMap<String, Counts>,
    /// Connections that are negotiating.
    pub handshakes_now: u64,
    /// Connections that were closed since there were too many.
    pub refused_connections: u64,
    /// Handshakes that ended without an export: malformed, silent for too long, or to list exports only.
    pub ended_handshakes: u64,
    /// Handshakes that were malformed.
    pub malformed_handshakes: u64,
    /// Connections that were ended since the client left a reply unread, or a request unfinished.
    pub stalled_connections: u64,
}

macro_rules! counters {
    ($($name:ident),*) => {
        /// Counters of one export, or of all.
        #[derive(Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64),* }

        impl Counters {
            fn counts(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters!(
    connections_now,
    connections,
    reads,
    writes,
    trims,
    zeroes,
    flushes,
    block_statuses,
    caches,
    read_bytes,
    written_bytes,
    sent_bytes,
    received_bytes,
    failed_requests,
    malformed_requests
);

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

impl Counters {
    fn performed(&self, request: &Request, outcome: Outcome) {
        if outcome == Outcome::Failed {
            return add(&self.failed_requests, 1);
        }
        let length = u64::from(request.length);
        let counter = match request.kind {
            Kind::Read { .. } => {
                add(&self.read_bytes, length);
                &self.reads
            }
            Kind::Write { .. } => {
                add(&self.written_bytes, length);
                &self.writes
            }
            Kind::Flush => &self.flushes,
            Kind::Trim { .. } => &self.trims,
            Kind::Cache => &self.caches,
            Kind::WriteZeroes { .. } => &self.zeroes,
            Kind::BlockStatus { .. } => &self.block_statuses,
        };
        add(counter, 1);
    }
}

/// Counters of a server.
#[derive(Default)]
pub(crate) struct ServerCounters {
    whole: Counters,
    /// Leaf lock: guards the table, and is held for a look-up and a copy of figures.
    exports: Mutex<BTreeMap<String, Arc<Counters>>>,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) ended_handshakes: AtomicU64,
    pub(crate) malformed_handshakes: AtomicU64,
    pub(crate) stalled_connections: AtomicU64,
}

impl ServerCounters {
    /// Counts a client of an export, until what is given is dropped.
    pub(crate) fn connected(self: &Arc<Self>, name: &str) -> Connected {
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if exports.len() >= MOST_IDLE_EXPORTS && !exports.contains_key(name) {
            exports.retain(|_, counters| counters.connections_now.load(Ordering::Relaxed) > 0);
        }
        let export = Arc::clone(exports.entry(name.to_owned()).or_default());
        let connected = Connected {
            server: Arc::clone(self),
            export,
        };
        // Under the lock, so that it is not taken for idle.
        connected.each(|counters| {
            add(&counters.connections, 1);
            add(&counters.connections_now, 1);
        });
        connected
    }

    /// The figures.
    pub(crate) fn counts(&self, handshakes_now: usize) -> ServerCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        let exports = exports
            .iter()
            .map(|(name, counters)| (name.clone(), counters.counts()));
        ServerCounts {
            whole: self.whole.counts(),
            exports: exports.collect(),
            handshakes_now: handshakes_now as u64,
            refused_connections: load(&self.refused_connections),
            ended_handshakes: load(&self.ended_handshakes),
            malformed_handshakes: load(&self.malformed_handshakes),
            stalled_connections: load(&self.stalled_connections),
        }
    }
}

/// Counters that one client's requests go to: its export's, and those of the whole.
pub(crate) struct Connected {
    server: Arc<ServerCounters>,
    export: Arc<Counters>,
}

impl Connected {
    fn each(&self, act: impl Fn(&Counters)) {
        act(&self.server.whole);
        act(&self.export);
    }

    /// A request was carried out.
    pub(crate) fn performed(&self, request: &Request, outcome: Outcome) {
        self.each(|counters| counters.performed(request, outcome));
    }

    /// A request was not valid.
    pub(crate) fn malformed(&self) {
        self.each(|counters| add(&counters.malformed_requests, 1));
    }

    /// So many bytes were sent to the client.
    pub(crate) fn sent(&self, bytes: usize) {
        self.each(|counters| add(&counters.sent_bytes, bytes as u64));
    }

    /// So many bytes came from it.
    pub(crate) fn received(&self, bytes: usize) {
        self.each(|counters| add(&counters.received_bytes, bytes as u64));
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.each(|counters| {
            counters.connections_now.fetch_sub(1, Ordering::Relaxed);
        });
    }
}
