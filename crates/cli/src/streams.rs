//! Standard output and standard error, which may be full, closed, or without a reader.
//!
//! | | data on standard output | messages on standard error |
//! |---|---|---|
//! | full, closed | a refusal: said on standard error, exit status 125 | lost |
//! | the reader is gone | the command ends as by SIGPIPE, without a word | lost |
//! | nobody reads | waits, as any tool | lost after two seconds |
//!
//! A message never decides how the command ends: what `run` returns is the program's own status, whether or not
//! the summary could be told. So nothing here panics, and `println!` and its kin are used nowhere.

use crate::at_start;
use crate::help;
use crate::refusal::Refusal;
use std::fmt;
use std::io::{self, IsTerminal};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What every message begins with.
pub const PREFIX: &str = "coldpress: ";

/// How long a message waits for somebody to read what was said before.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last message waited in vain: the next ones do not wait, so that many of them hold up no end of a program.
static NOBODY_READS: AtomicBool = AtomicBool::new(false);

/// A pipe that `poll` calls writable takes so many bytes without waiting.
const ATOMIC_BYTES: usize = libc::PIPE_BUF;

/// Says `coldpress: …` on standard error.
macro_rules! say {
    ($($what:tt)*) => { $crate::streams::message(format_args!($($what)*)) };
}
pub(crate) use say;

/// Behind [`say!`].
pub fn message(what: fmt::Arguments<'_>) {
    let text = format!("{PREFIX}{}\n", visible(&what.to_string()));
    let line = match io::stderr().is_terminal() {
        true => help::prose_wrapped(&text, help::width(io::stderr())),
        false => text,
    };
    let patience = match NOBODY_READS.load(Relaxed) {
        true => Duration::ZERO,
        false => PATIENCE,
    };
    let written = write(libc::STDERR_FILENO, line.as_bytes(), Some(patience));
    let is_late = written.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
    NOBODY_READS.store(is_late, Relaxed);
}

/// The text with control characters as `\u{1b}`: a name must not give orders to a terminal.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_debug()),
            c => shown.push(c),
        }
    }
    shown
}

/// Writes data to standard output.
pub fn print(text: &str) -> Result<(), Refusal> {
    check_output()?;
    let written = write(libc::STDOUT_FILENO, text.as_bytes(), None);
    written.map_err(|error| refuse_output(&error))
}

/// Whether there is a standard output at all.
pub fn check_output() -> Result<(), Refusal> {
    match at_start::was_closed(libc::STDOUT_FILENO) {
        true => Err(refuse_output(&io::Error::from_raw_os_error(libc::EBADF))),
        false => Ok(()),
    }
}

/// The end of a command that could not write to standard output.
pub fn refuse_output(error: &io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Refusal::reader_is_gone(),
        _ => Refusal::new(format!("cannot write to standard output: {error}")),
    }
}

/// Writes everything. With `patience`, only as long as somebody takes some of it now and then.
pub fn write(descriptor: RawFd, bytes: &[u8], patience: Option<Duration>) -> io::Result<()> {
    let mut rest = bytes;
    let mut wait = patience.is_some();
    while !rest.is_empty() {
        if wait {
            wait_for_room(descriptor, patience)?;
        }
        let len = if wait {
            rest.len().min(ATOMIC_BYTES)
        } else {
            rest.len()
        };
        // SAFETY: the buffer is as long as told.
        let written = unsafe { libc::write(descriptor, rest.as_ptr().cast(), len) };
        match usize::try_from(written) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                // Somebody made it non-blocking: it belongs to the caller, too.
                error if error.kind() == io::ErrorKind::WouldBlock => wait = true,
                error => return Err(error),
            },
        }
    }
    Ok(())
}

fn wait_for_room(descriptor: RawFd, patience: Option<Duration>) -> io::Result<()> {
    let until = patience.map(|patience| Instant::now() + patience);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map_or(-1, |left| left.as_millis().min(1 << 30) as libc::c_int);
        let mut one = libc::pollfd {
            fd: descriptor,
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid entry.
        match unsafe { libc::poll(&mut one, 1, timeout) } {
            0 => return Err(io::ErrorKind::TimedOut.into()),
            1.. => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up_and_one_without_a_reader_is_an_error() {
        let (mut reader, writer) = io::pipe().unwrap();
        let patience = Some(Duration::from_millis(50));
        write(writer.as_raw_fd(), b"said", patience).unwrap();
        let mut read = [0; 4];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"said");
        let error = write(writer.as_raw_fd(), &[0; 1 << 20], patience).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(reader);
        let error = write(writer.as_raw_fd(), b"said", patience).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn names_give_no_orders_to_a_terminal() {
        assert_eq!(
            visible("a\u{1b}[2Jb\u{9b}c\r\n\td é"),
            "a\\u{1b}[2Jb\\u{9b}c\\r\n\td é"
        );
    }
}
