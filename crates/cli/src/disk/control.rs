//! The control socket of a disk that is served: carries out what other commands ask.
//!
//! Each request has a connection and a thread of its own. Questions are answered at once, and orders, some of which
//! take minutes, one after the other. The socket lies in a directory that only the user can enter, and is made for its
//! owner alone.

use super::content::Content;
use super::figures;
use super::info;
use super::protocol::{self, Answer, Request};
use crate::refusal::Refusal;
use coldpress_disk::Recompressed;
use coldpress_nbd::{Handle, Server};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What a request is about.
pub struct Control {
    pub name: String,
    pub content: Content,
    pub server: Handle,
    pub listens: Vec<String>,
    /// Held while an order is carried out; outermost.
    pub orders: Mutex<()>,
}

/// The socket, which is removed when it is dropped.
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Socket {
    /// Makes the socket. One that a disk left behind when it was killed is replaced.
    pub fn bind(path: &Path) -> Result<Self, Refusal> {
        if UnixStream::connect(path).is_ok() {
            return Err(Refusal::new(format!(
                "a disk of this name is served already: its control socket is {}",
                path.display()
            ))
            .mend("give this one another: --name NAME"));
        }
        let _ = fs::remove_file(path);
        let refuse = |error| {
            Refusal::new(format!(
                "cannot make the control socket {}: {error}",
                path.display()
            ))
        };
        let listener = UnixListener::bind(path).map_err(refuse)?;
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(refuse)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
        })
    }

    /// Answers in threads of its own, as long as the process lives.
    pub fn serve(&self, control: Control) -> Result<(), Refusal> {
        let refuse = |error| Refusal::new(format!("cannot serve the control socket: {error}"));
        let listener = self.listener.try_clone().map_err(refuse)?;
        let control = Arc::new(control);
        let named = || std::thread::Builder::new().name("coldpress-ctl".to_owned());
        let thread = named().spawn(move || {
            for stream in listener.incoming().flatten() {
                let control = Arc::clone(&control);
                // Where no thread can be had, who asks is told by the end of the connection.
                let _ = named().spawn(move || control.answer(&stream));
            }
        });
        thread.map(drop).map_err(refuse)
    }
}

impl Control {
    fn answer(&self, stream: &UnixStream) {
        let patience = Some(protocol::PATIENCE);
        let _ = stream.set_read_timeout(patience);
        let _ = stream.set_write_timeout(patience);
        let answer = match protocol::receive::<Request>(stream) {
            Ok(request) if request.is_question() => self.carry_out(&request),
            Ok(request) => {
                let _one_at_a_time = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
                self.carry_out(&request)
            }
            // A probe that asks nothing.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return,
            Err(error) => Answer::Refused(format!("the request cannot be read: {error}")),
        };
        // Whoever asked may have gone.
        let _ = protocol::send(stream, &answer);
    }

    fn carry_out(&self, request: &Request) -> Answer {
        let disk = self.content.disk();
        let done = match request {
            Request::Status => Ok(self.status()),
            Request::Info => Ok(info::to_json(&self.name, disk)),
            Request::GetInfo { topic, room } => info::answer(disk, *topic, *room),
            Request::Snapshot { name } => self.snapshot(name),
            Request::Drop { name } => {
                let dropped = disk.drop_snapshot(name);
                dropped.map(|()| json!({})).map_err(|e| e.to_string())
            }
            Request::Compact => Ok(json!({ "pages_compacted": disk.compact() })),
            Request::Reset { force } => self.reset(*force),
            Request::Limit { bytes } => {
                let set = self.content.set_limit(*bytes);
                let told = |()| json!({ "mem_limit": bytes.unwrap_or(0) });
                set.map(told).map_err(|e| e.to_string())
            }
            Request::Idle => {
                let before = disk.statistics().mem_used_total;
                self.content.mark_idle();
                disk.settle();
                let after = disk.statistics().mem_used_total;
                Ok(json!({ "mem_used_before": before, "mem_used_total": after }))
            }
            Request::Flush => self.content.flush(),
            Request::Writeback { which } => self.content.write_back(*which),
            Request::Recompress => match disk.recompress() {
                Recompressed::Done { pages, saved_bytes } => {
                    Ok(json!({ "pages": pages, "saved_bytes": saved_bytes }))
                }
                refused => Err(refused.to_string()),
            },
        };
        match done {
            Ok(told) => Answer::Done(told),
            Err(why) => Answer::Refused(why),
        }
    }

    fn status(&self) -> Value {
        let counts = self.server.counts();
        figures::to_json(&self.name, &self.content, &counts, &self.listens)
    }

    fn snapshot(&self, name: &str) -> Result<Value, String> {
        if name.is_empty() || name == self.name {
            return Err(format!("{name:?} is the export of the disk itself"));
        }
        let disk = self.content.ram_disk("snapshots")?;
        let made = disk.snapshot(name).map_err(|error| error.to_string())?;
        Ok(json!({ "name": name, "size": made.size_bytes() }))
    }

    fn reset(&self, force: bool) -> Result<Value, String> {
        match self.server.counts().whole.connections_now {
            1.. if !force => {
                Err("clients are connected: disconnect them, or use --force".to_owned())
            }
            _ => {
                self.content.reset()?;
                Ok(json!({}))
            }
        }
    }
}

/// Serves clients until the server is told to stop.
pub fn run(server: Server) -> Result<(), Refusal> {
    server
        .serve()
        .map_err(|error| Refusal::new(error.to_string()))
}
