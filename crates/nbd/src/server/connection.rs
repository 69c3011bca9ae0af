//! One client: the handshake, then requests, by threads that take turns.
//!
//! ```text
//!  worker 1  ── turn: header, payload ──┬── carry out ──┬─ reply ─┬── wait for the turn …
//!  worker 2      wait for the turn ─────┴─ turn: header … ────────┴─ carry out …
//! ```
//!
//! The worker whose turn it is reads one request, hands the turn on, and carries the request out; so a request goes
//! through no queue and from no thread to another, there are never more under way than workers, and while all are at
//! work nobody reads. A connection begins with one worker. Another is made when a request was read and nobody waits
//! for the turn, up to [`Limits::in_flight`](crate::Limits).
//!
//! - I1: at any time a worker waits for the turn, or has it, or [`Client::ended`] is set, or all are carrying out.
//! - I2: a reply, or a chunk of one, is sent under the output lock as a whole.
//! - I3: whoever waits for a [`Share`] holds none, and those that hold one need no turn.
//!
//! Locks of a connection: input (the turn) → budget; output, a leaf. Nothing is carried out under any of them.

use super::Shared;
use super::budget::{Budget, Share};
use super::registry::Place;
use super::stream::{Reader, Stream};
use crate::converse::{ConverseError, Negotiated, negotiate};
use crate::counters::{Connected, add};
use crate::handshake::Handshake;
use crate::limits::MOST_PAYLOAD_BYTES;
use crate::session::Session;
use crate::transmission::{Buffer, End, Request, Verdict};
use crate::transmission::{perform, receive_header, receive_payload, refuse};
use crate::violation::Violation;
use crate::wire::{Errno, REQUEST_HEADER_BYTES};
use std::io::{self, BufReader, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Bytes read ahead of a request: headers of several, or a small payload, come with one call.
const INPUT_BYTES: usize = 16 << 10;

type Input = BufReader<Reader>;

/// Serves one client, until it leaves or has to.
pub(super) fn run(shared: &Arc<Shared>, stream: Arc<Stream>, place: &Place) {
    let mut input = BufReader::with_capacity(INPUT_BYTES, Reader(Arc::clone(&stream)));
    let Some((session, answer)) = shake_hands(shared, &stream, &mut input) else {
        add(&shared.counters.ended_handshakes, 1);
        return;
    };
    if !place.serve() {
        add(&shared.counters.refused_connections, 1);
        return;
    }
    let client = Client {
        connected: shared.counters.connected(&session.name),
        budget: Budget::new(
            shared
                .limits
                .connection_buffer_bytes
                .max(MOST_PAYLOAD_BYTES as usize),
        ),
        shared,
        stream,
        session,
        input: Mutex::new(input),
        output: Mutex::new(()),
        waiting: AtomicUsize::new(0),
        workers: AtomicUsize::new(1),
        ended: AtomicBool::new(false),
    };
    let silence = client.stream.set_read_time(shared.limits.request_silence);
    if silence.is_ok() && client.send(&answer).is_ok() {
        std::thread::scope(|scope| client.work(scope));
    }
}

/// The handshake, within its time; none where there is no export in the end. The answer is not sent yet.
fn shake_hands(shared: &Shared, stream: &Stream, input: &mut Input) -> Option<(Session, Vec<u8>)> {
    let limits = &shared.limits;
    let begin = Instant::now();
    stream.set_write_time(limits.reply_time).ok()?;
    let left = || match limits.handshake_time.checked_sub(begin.elapsed()) {
        Some(left) if left > Duration::ZERO => Ok(left.min(limits.handshake_silence)),
        _ => Err(io::Error::from(ErrorKind::TimedOut)),
    };
    let read = |mut buffer: &mut [u8]| {
        while !buffer.is_empty() {
            if input.buffer().is_empty() {
                stream.set_read_time(left()?)?;
            }
            match input.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => buffer = &mut buffer[bytes..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    let send = |bytes: &[u8]| stream.send_all(bytes, left()?);
    let mut greeting = Vec::new();
    let mut handshake = Handshake::begin(&*shared.exports, limits, &mut greeting);
    match negotiate(&mut handshake, greeting, read, send) {
        Ok(Negotiated::Session(session, answer)) => Some((session, answer)),
        // To ask for what is not there is no mistake, but for that option there is no other answer.
        Err(ConverseError::Violation(Violation::ExportName)) => None,
        Ok(Negotiated::Left) | Err(ConverseError::Stream(_)) => None,
        Err(ConverseError::Violation(_)) => {
            add(&shared.counters.malformed_handshakes, 1);
            None
        }
    }
}

/// A client that has its export.
struct Client<'a> {
    shared: &'a Shared,
    stream: Arc<Stream>,
    session: Session,
    connected: Connected,
    /// The turn: guards what was read and not looked at yet. Held while a request is read, and while its buffer is
    /// waited for.
    input: Mutex<Input>,
    /// Guards nothing but the order of what is sent (I2). Held while one piece is sent.
    output: Mutex<()>,
    budget: Budget,
    /// Workers that wait for the turn.
    waiting: AtomicUsize,
    workers: AtomicUsize,
    /// No request is read any more.
    ended: AtomicBool,
}

/// A request that was read.
enum Task<'a> {
    Perform(Request, Share<'a>),
    Refuse(u64, Errno),
}

impl Client<'_> {
    /// What each worker does.
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let (mut payload, mut reply) = (Buffer::default(), Buffer::default());
        while let Some(task) = self.next(scope, &mut payload) {
            let mut send = |bytes: &[u8]| self.send(bytes);
            let session = &self.session;
            let answered = match task {
                Task::Refuse(cookie, error) => {
                    self.connected.malformed();
                    refuse(cookie, error, session, &mut reply, &mut send)
                }
                Task::Perform(request, share) => {
                    let note = |outcome| self.connected.performed(&request, outcome);
                    let content = payload.filled();
                    let answered = perform(&request, content, session, &mut reply, &mut send, note);
                    payload.clear();
                    drop(share);
                    answered
                }
            };
            if answered.is_err() {
                return;
            }
        }
    }

    /// Waits for the turn and reads a request.
    fn next<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        payload: &mut Buffer,
    ) -> Option<Task<'scope>> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let task = match self.receive(&mut input, payload) {
            Ok(task) => task,
            Err(end) => {
                self.ended.store(true, Ordering::Relaxed);
                match end {
                    End::Stalled => add(&self.shared.counters.stalled_connections, 1),
                    End::Violated(_) => self.connected.malformed(),
                    End::Closed | End::Stream(_) => {}
                }
                return None;
            }
        };
        // One that is about to wait may not be counted yet; then there is a worker more than needed.
        let workers = self.workers.load(Ordering::Relaxed);
        if self.waiting.load(Ordering::Relaxed) == 0 && workers < self.shared.limits.in_flight {
            let worker = Builder::new().name("nbd worker".into());
            // Where there can be no further thread, those there are do.
            if worker.spawn_scoped(scope, || self.work(scope)).is_ok() {
                self.workers.store(workers + 1, Ordering::Relaxed);
            }
        }
        Some(task)
    }

    fn receive(&self, input: &mut Input, payload: &mut Buffer) -> Result<Task<'_>, End> {
        let go_on =
            || !self.shared.stopping.load(Ordering::Relaxed) && !self.ended.load(Ordering::Relaxed);
        let verdict = receive_header(input, &self.session, go_on)?;
        self.connected.received(REQUEST_HEADER_BYTES);
        match verdict {
            Verdict::Leave => Err(End::Closed),
            Verdict::Refuse {
                cookie,
                error,
                payload_bytes,
            } => {
                receive_payload(input, payload_bytes as usize, None)?;
                self.connected.received(payload_bytes as usize);
                Ok(Task::Refuse(cookie, error))
            }
            Verdict::Perform(request) => {
                let share = self.budget.take(request.buffer_bytes(&self.session));
                // While it waited the connection may have failed.
                if self.ended.load(Ordering::Relaxed) {
                    return Err(End::Closed);
                }
                receive_payload(input, request.payload_bytes(), Some(payload))?;
                self.connected.received(request.payload_bytes());
                Ok(Task::Perform(request, share))
            }
        }
    }

    /// Sends a reply, or a piece of one. If that fails the connection is over.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let turn = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Before it is sent: a client that has its answer is counted.
        self.connected.sent(bytes.len());
        let sent = self.stream.send_all(bytes, self.shared.limits.reply_time);
        if let Err(error) = &sent {
            if !self.ended.swap(true, Ordering::Relaxed) && error.kind() == ErrorKind::TimedOut {
                add(&self.shared.counters.stalled_connections, 1);
            }
            // Wakes the worker that reads, and fails those that wait to send.
            self.stream.end();
        }
        drop(turn);
        sent
    }
}
