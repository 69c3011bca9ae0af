//! `coldpress disk serve`: in the foreground, until SIGINT, SIGTERM or SIGHUP.
//!
//! The signals are blocked in all threads, and one thread waits for them, so that clients are answered what they asked
//! before the end. Those that the caller ignores stay ignored.

use super::arguments::ServeArguments;
use super::content::Content;
use super::control::{self, Control, Socket};
use super::exports::OfDisk;
use super::{place, together};
use crate::disposition::disposition;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use crate::streams::say;
use coldpress_nbd::{Handle, Limits, Listen, Server};
use std::sync::{Arc, Mutex};

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Serves a disk.
pub fn serve(arguments: &ServeArguments) -> Result<(), Refusal> {
    together::check(arguments)?;
    let name = &arguments.name;
    let ending = block_signals();
    let content = Content::make(arguments)?;
    let socket = Socket::bind(&place::own(name)?)?;
    let unix = arguments.socket.iter().cloned().map(Listen::Unix);
    let tcp = arguments.listen.into_iter().map(Listen::Tcp);
    let listens: Vec<Listen> = unix.chain(tcp).collect();
    let exports = OfDisk {
        content: content.clone(),
        name: name.clone(),
    };
    let server = Server::bind(&listens, Arc::new(exports), Limits::default())
        .map_err(|error| Refusal::new(error.to_string()))?;
    let listens: Vec<String> = server.listening().iter().map(Listen::to_string).collect();
    stop_on_signal(server.handle(), ending)?;
    socket.serve(Control {
        name: name.clone(),
        content: content.clone(),
        server: server.handle(),
        listens: listens.clone(),
        orders: Mutex::default(),
    })?;
    say!(
        "disk {name}: {} on {}",
        format_bytes(content.size_bytes()),
        listens.join(", ")
    );
    if let Some(remote) = content.tier().and_then(|tier| tier.remote.as_ref()) {
        say!("{remote}");
    }
    let served = control::run(server);
    content.end()?;
    served
}

/// Blocks the signals that end the command, but for those that the caller ignores. Called before any thread is made:
/// all inherit it.
fn block_signals() -> libc::sigset_t {
    let ending = ENDING.into_iter();
    let ending = ending.filter(|&signal| disposition(signal) != libc::SIG_IGN);
    // SAFETY: a set that is emptied before it is used.
    unsafe {
        let mut awaited: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut awaited);
        for signal in ending {
            libc::sigaddset(&mut awaited, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &awaited, std::ptr::null_mut());
        awaited
    }
}

/// Has the server stop when one of the signals comes; a second one ends the process whatever clients are at.
fn stop_on_signal(server: Handle, awaited: libc::sigset_t) -> Result<(), Refusal> {
    let thread = std::thread::Builder::new().name("coldpress-sig".to_owned());
    let thread = thread.spawn(move || {
        let mut signal = 0;
        // SAFETY: a valid set, and room for a number.
        while unsafe { libc::sigwait(&awaited, &mut signal) } != 0 {}
        server.stop();
        // SAFETY: as above.
        unsafe {
            libc::sigwait(&awaited, &mut signal);
            libc::signal(signal, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &awaited, std::ptr::null_mut());
            libc::raise(signal);
        }
    });
    thread
        .map(drop)
        .map_err(|error| Refusal::new(format!("cannot wait for signals: {error}")))
}
