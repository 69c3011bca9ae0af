//! What this process was started with, and Rust's start-up code changes before `main`: SIGPIPE's and SIGXFSZ's
//! dispositions, and which of the descriptors 0, 1 and 2 are closed.
//!
//! The command itself ignores both signals: it must not end by a message that nobody reads, or that a
//! limit of file sizes stops. Descriptors that were closed lead to `/dev/null`, so that no file opened here gets
//! their numbers. The program that is started has all of it as it was ([`restore`]).

use crate::disposition::{disposition, set_disposition};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Ignored here, and restored in the program.
const IGNORED: [libc::c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

static DISPOSITIONS: [AtomicUsize; 2] = [const { AtomicUsize::new(libc::SIG_DFL) }; 2];

/// A bit for each of the three descriptors.
static CLOSED: AtomicU32 = AtomicU32::new(0);

/// Runs before `main` and before Rust's start-up code.
extern "C" fn note() {
    for (signal, noted) in IGNORED.into_iter().zip(&DISPOSITIONS) {
        noted.store(disposition(signal), Relaxed);
    }
    for descriptor in 0..3 {
        // SAFETY: F_GETFD takes a number and changes nothing.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << descriptor, Relaxed);
        }
    }
}

#[used]
// SAFETY: the section holds pointers to functions that the loader calls once, without arguments
// that we use; `note` needs nothing that Rust's start-up code sets up.
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

/// Ignores the signals. Rust's start-up code has done so for SIGPIPE alone.
pub fn ignore_signals() {
    for signal in IGNORED {
        set_disposition(signal, libc::SIG_IGN);
    }
}

/// Whether the descriptor was closed.
pub fn was_closed(descriptor: RawFd) -> bool {
    (0..3).contains(&descriptor) && CLOSED.load(Relaxed) & 1 << descriptor != 0
}

/// Whether the caller wanted SIGPIPE ignored.
pub fn pipe_was_ignored() -> bool {
    DISPOSITIONS[0].load(Relaxed) == libc::SIG_IGN
}

/// In the forked child, before it executes the program. Async-signal-safe.
pub fn restore() {
    for (signal, noted) in IGNORED.into_iter().zip(&DISPOSITIONS) {
        set_disposition(signal, noted.load(Relaxed));
    }
    for descriptor in 0..3 {
        if was_closed(descriptor) {
            // SAFETY: what Rust's start-up code opened there; nobody uses it in the child.
            unsafe { libc::close(descriptor) };
        }
    }
}
