//! What the pagers of a run have to say, brought from the ring of the run file to standard error.
//!
//! A line is written only where that does not wait: while nobody reads, the program's signals still have to be
//! forwarded. So lines are kept until there is room, a bounded number of them; where the reader is gone they are
//! dropped.
//!
//! A program may start thousands of processes of which each has the same to say. The first [`EACH`] times it is told of
//! each, then the tenth, the hundredth and so on, and at the end how often it was in all.

use coldpress_interface::run_file::{Head, Heard, TEXT_BYTES};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Lines that are kept while nobody reads.
const MOST_KEPT: usize = 256;
/// How long standard error is waited for at the end.
const PATIENCE_MS: libc::c_int = 1000;

/// So often each message is told, whoever says it.
const EACH: u64 = 3;
/// Messages that are counted; those with a number in them could be any number of them.
const MOST_COUNTED: usize = 64;
/// Processes that are remembered for having said something.
const MOST_SPEAKERS: usize = 1 << 16;

/// When messages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// While the program runs.
    Meanwhile,
    /// Once nobody says anything more.
    Last,
}

/// The messages of one run.
#[derive(Debug, Default)]
pub struct Messages {
    next: u64,
    /// The next one was being written at the last look.
    unfinished: bool,
    lost: u64,
    /// How often each was said.
    times: Vec<(String, u64)>,
    /// The processes that have said something.
    speakers: HashSet<u32>,
    lines: VecDeque<String>,
}

impl Messages {
    /// Brings what was said since the last look.
    pub fn pass_on(&mut self, head: &Head, root: u32, look: Look) {
        self.collect(head, root, look);
        let patience = match look {
            Look::Meanwhile => 0,
            Look::Last => PATIENCE_MS,
        };
        while let Some(line) = self.lines.front() {
            match write(line.as_bytes(), patience) {
                Written::All => drop(self.lines.pop_front()),
                Written::NoReader => self.lines.clear(),
                Written::NoRoom => break,
            }
        }
    }

    fn collect(&mut self, head: &Head, root: u32, look: Look) {
        let mut text = [0; TEXT_BYTES];
        loop {
            match head.hear(self.next, &mut text) {
                Heard::Nothing => break,
                // Its writer goes on in a moment, or was killed in this one.
                Heard::Unfinished if !self.unfinished && look == Look::Meanwhile => {
                    self.unfinished = true;
                    break;
                }
                Heard::Unfinished | Heard::Lost => self.lost += 1,
                Heard::Message(pid, len) => self.heard(pid, root, &text[..len]),
            }
            self.unfinished = false;
            self.next += 1;
            head.told.store(self.next, Relaxed);
        }
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            self.keep(format!("coldpress: {lost} messages were lost\n"));
        }
        if look == Look::Last {
            for (text, times) in std::mem::take(&mut self.times) {
                if !is_told(times) {
                    self.keep(format!("coldpress: {times} times in all: {text}\n"));
                }
            }
        }
    }

    /// The processes that have said something, told or only counted.
    pub fn speakers(&self) -> &HashSet<u32> {
        &self.speakers
    }

    fn heard(&mut self, pid: u32, root: u32, text: &[u8]) {
        if self.speakers.len() < MOST_SPEAKERS {
            self.speakers.insert(pid);
        }
        let text = String::from_utf8_lossy(text).replace(char::is_control, "?");
        let times = self.count(&text);
        if is_told(times) {
            self.keep(line(pid, root, &text, times));
        }
    }

    /// How often this was said, now.
    fn count(&mut self, text: &str) -> u64 {
        if let Some((_, times)) = self.times.iter_mut().find(|(known, _)| known == text) {
            *times += 1;
            return *times;
        }
        if self.times.len() < MOST_COUNTED {
            self.times.push((text.to_owned(), 1));
        }
        1
    }

    /// Takes what the command itself has to say while the program runs: told at the next look.
    pub fn add(&mut self, lines: Vec<String>) {
        for line in lines {
            self.keep(format!("coldpress: {line}\n"));
        }
    }

    fn keep(&mut self, line: String) {
        if self.lines.len() == MOST_KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

/// Whether a message is told that was said so often, this time included.
fn is_told(times: u64) -> bool {
    times <= EACH || 10_u64.pow(times.ilog10()) == times
}

/// A message as a line: of the first process it stands by itself.
fn line(pid: u32, root: u32, text: &str, times: u64) -> String {
    let often = match times > EACH {
        true => format!(" ({times} times by now)"),
        false => String::new(),
    };
    if pid == root {
        format!("coldpress: {text}{often}\n")
    } else {
        format!("coldpress: process {pid}: {text}{often}\n")
    }
}

/// The messages of a run whose `coldpress run` was killed, as lines.
pub fn untold(head: &Head) -> Vec<String> {
    let mut messages = Messages {
        next: head.told.load(Relaxed),
        ..Messages::default()
    };
    messages.collect(head, head.root_pid.load(Relaxed) as u32, Look::Last);
    messages.lines.into()
}

enum Written {
    All,
    NoRoom,
    NoReader,
}

/// Writes to standard error, if there is room, or becomes in time.
fn write(bytes: &[u8], patience_ms: libc::c_int) -> Written {
    let mut stderr = libc::pollfd {
        fd: libc::STDERR_FILENO,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one valid structure.
    let ready = unsafe { libc::poll(&mut stderr, 1, patience_ms) };
    if ready < 1 {
        return Written::NoRoom;
    }
    if stderr.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0 {
        return Written::NoReader;
    }
    // One call, so that no other line comes in between.
    // SAFETY: so many bytes can be read there.
    let written = unsafe { libc::write(libc::STDERR_FILENO, bytes.as_ptr().cast(), bytes.len()) };
    match written {
        -1 if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock => Written::NoRoom,
        -1 => Written::NoReader,
        _ => Written::All,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_interface::run_file::RECORDS;

    fn lines(messages: &mut Messages) -> Vec<String> {
        messages.lines.drain(..).collect()
    }

    #[test]
    fn messages_become_lines_and_what_is_lost_is_said() {
        let head = Box::new(Head::new());
        let mut messages = Messages::default();
        head.say(7, b"of the first");
        head.say(8, b"of another\n\x1b[2J");
        messages.collect(&head, 7, Look::Meanwhile);
        assert_eq!(
            lines(&mut messages),
            [
                "coldpress: of the first\n",
                "coldpress: process 8: of another??[2J\n"
            ]
        );
        (0..RECORDS + 3).for_each(|n| head.say(7, format!("more {n}").as_bytes()));
        messages.collect(&head, 7, Look::Meanwhile);
        let more = lines(&mut messages);
        assert_eq!(more.len(), RECORDS + 1);
        assert_eq!(
            more.last().map(String::as_str),
            Some("coldpress: 3 messages were lost\n")
        );
        assert!(untold(&head).is_empty());
        head.say(9, b"to nobody");
        assert_eq!(untold(&head).len(), 1);
    }

    #[test]
    fn what_many_say_is_told_of_some() {
        let head = Box::new(Head::new());
        let mut messages = Messages::default();
        for pid in 8..20 {
            head.say(pid, b"the same");
        }
        head.say(20, b"something else");
        messages.collect(&head, 7, Look::Meanwhile);
        assert_eq!(
            lines(&mut messages),
            [
                "coldpress: process 8: the same\n",
                "coldpress: process 9: the same\n",
                "coldpress: process 10: the same\n",
                "coldpress: process 17: the same (10 times by now)\n",
                "coldpress: process 20: something else\n",
            ]
        );
        messages.collect(&head, 7, Look::Last);
        assert_eq!(
            lines(&mut messages),
            ["coldpress: 12 times in all: the same\n"]
        );
        messages.collect(&head, 7, Look::Last);
        assert!(messages.lines.is_empty(), "it was told");
        assert_eq!(messages.speakers().len(), 13);
    }

    #[test]
    fn a_writer_that_was_killed_holds_up_nobody() {
        let head = Box::new(Head::new());
        let mut messages = Messages::default();
        head.said.store(1, Relaxed);
        head.say(7, b"later");
        messages.collect(&head, 7, Look::Meanwhile);
        assert!(messages.lines.is_empty(), "it may yet go on");
        messages.collect(&head, 7, Look::Meanwhile);
        assert_eq!(messages.lines.len(), 2, "{messages:?}");
    }
}
