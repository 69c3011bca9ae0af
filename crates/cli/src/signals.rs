//! Signals of the waiting parent.
//!
//! The parent must look to its caller like the program itself, so it blocks every signal that can be
//! blocked and takes them one by one with `sigtimedwait`; no handler ever runs.
//!
//! | signal | from the kernel (the terminal, a broken pipe) | from a process (`kill`, `sigqueue`) |
//! |---|---|---|
//! | INT, QUIT, TSTP, WINCH | dropped: the program, in the same process group, has it too | forwarded |
//! | CHLD, PIPE, XFSZ, TTIN, TTOU and what a fault raises | ours | CHLD and PIPE forwarded, the rest ours |
//! | HUP | forwarded, but where the program, in the same process group, has it too | forwarded |
//! | all others, real-time signals with their values among them | forwarded | forwarded |
//!
//! What a process sends to the whole process group arrives at the program twice: nothing tells it from what was sent to us
//! alone.
//!
//! The child restores the mask and the dispositions as they were when `coldpress` started: what
//! the caller ignored (`nohup`, systemd's ignored SIGPIPE) the program ignores too.

use crate::at_start;
use crate::disposition::{disposition, set_disposition};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr;
use std::time::Duration;

/// The signals that the parent does not take: faults of its own, what cannot be taken, what stops it for using the
/// terminal, and those of the C library (32, 33).
const OURS: [libc::c_int; 13] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGXFSZ,
    libc::SIGTTIN,
    libc::SIGTTOU,
    32,
    33,
];

/// Number of the last signal.
const LAST: libc::c_int = 64;

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: zeros are a valid set, and every number is that of a signal.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&mut set);
        for &signal in signals {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// The signals of this process, taken over until the process ends.
#[derive(Clone, Copy)]
pub struct Signals {
    taken: libc::sigset_t,
    original_mask: libc::sigset_t,
    original_child: libc::sighandler_t,
}

/// A signal that arrived.
#[derive(Clone, Copy)]
pub struct Arrival {
    /// Its number.
    pub signal: libc::c_int,
    /// The other process that sent it, if it was neither the kernel (the terminal) nor we.
    pub sender: Option<u32>,
    info: libc::siginfo_t,
}

impl Arrival {
    /// Sends it to a process, with the value that came with it.
    pub fn send(&self, pid: libc::pid_t) {
        // SAFETY: a signal harms no memory; the structure is one that the kernel has filled in.
        unsafe {
            let info = &raw const self.info;
            // Not every origin may be claimed (`tgkill`): then at least the signal arrives.
            if self.info.si_code >= 0
                || libc::syscall(libc::SYS_rt_sigqueueinfo, pid, self.signal, info) != 0
            {
                libc::kill(pid, self.signal);
            }
        }
    }
}

impl Signals {
    /// Blocks the signals. SIGCHLD becomes default: ignored, it would discard exit statuses.
    pub fn take() -> Self {
        let taken: Vec<_> = (1..=LAST).filter(|signal| !OURS.contains(signal)).collect();
        let taken = set_of(&taken);
        let mut original_mask = set_of(&[]);
        // SAFETY: both sets are valid; the process has one thread.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &taken, &mut original_mask) };
        let original_child = disposition(libc::SIGCHLD);
        set_disposition(libc::SIGCHLD, libc::SIG_DFL);
        Self {
            taken,
            original_mask,
            original_child,
        }
    }

    /// In the forked child: everything as `coldpress` found it. Async-signal-safe.
    pub fn restore(&self) {
        set_disposition(libc::SIGCHLD, self.original_child);
        at_start::restore();
        // SAFETY: the set is one that the kernel gave us.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.original_mask, ptr::null_mut()) };
    }

    /// Waits for the next signal; `None` when the time is over.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Arrival> {
        // SAFETY: zeros are a valid `siginfo_t`.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let time = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        loop {
            // SAFETY: the set, the answer and the time (or null: no limit) are valid.
            let signal = unsafe { libc::sigtimedwait(&self.taken, &mut info, time) };
            if signal > 0 {
                // SAFETY: what `kill` and `sigqueue` send has a sender.
                let sender = unsafe { info.si_pid() }.cast_unsigned();
                let other = info.si_code <= 0 && sender != std::process::id();
                return Some(Arrival {
                    signal,
                    sender: other.then_some(sender),
                    info,
                });
            }
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) || timeout.is_some() {
                return None;
            }
        }
    }
}

/// Where a signal comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Another process has sent it.
    Process,
    /// The kernel or the terminal.
    Kernel,
}

/// Whether the program is to be sent the signal that the parent received.
pub fn is_forwarded(signal: libc::c_int, sender: Sender) -> bool {
    match signal {
        libc::SIGCHLD
        | libc::SIGPIPE
        | libc::SIGINT
        | libc::SIGQUIT
        | libc::SIGTSTP
        | libc::SIGWINCH => sender == Sender::Process,
        _ => true,
    }
}

/// Stops this process as the program was stopped, until somebody continues it.
pub fn stop_by(signal: libc::c_int) {
    let own = set_of(&[signal]);
    let before = disposition(signal);
    set_disposition(signal, libc::SIG_DFL);
    // SAFETY: the sets are valid; a signal to ourselves harms nobody else.
    unsafe {
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &own, ptr::null_mut());
        // We were stopped here.
        libc::sigprocmask(libc::SIG_BLOCK, &own, ptr::null_mut());
    }
    set_disposition(signal, before);
}

/// The process group of a process; `None` where there is no such process.
pub fn group_of(pid: u32) -> Option<libc::pid_t> {
    // SAFETY: the call asks, and changes nothing.
    let group = unsafe { libc::getpgid(pid.cast_signed()) };
    (group > 0).then_some(group)
}

/// Our own process group.
pub fn own_group() -> libc::pid_t {
    // SAFETY: the call asks, and cannot fail.
    unsafe { libc::getpgrp() }
}

/// Whether this process leads its session.
pub fn leads_a_session() -> bool {
    // SAFETY: the call asks, and changes nothing.
    unsafe { libc::getsid(0) == libc::getpid() }
}

/// The process group in the foreground of our terminal, if we have one.
pub fn foreground() -> Option<libc::pid_t> {
    // SAFETY: the call asks, and changes nothing.
    let group = unsafe { libc::tcgetpgrp(terminal()?.as_raw_fd()) };
    (group > 0).then_some(group)
}

/// Puts a process group in the foreground of our terminal.
pub fn put_in_the_foreground(group: libc::pid_t) {
    if let Some(terminal) = terminal() {
        // SAFETY: the call harms no memory.
        unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), group) };
    }
}

fn terminal() -> Option<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_NOCTTY);
    options.open("/dev/tty").ok()
}

/// Ends this process by `signal`, without a core dump of its own, so that the caller sees what
/// it would have seen of the program. Returns only where the signal cannot end us (process 1).
pub fn die_by(signal: libc::c_int) {
    let no_core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    set_disposition(signal, libc::SIG_DFL);
    let set = set_of(&[signal]);
    // SAFETY: the structures are valid; a signal to ourselves harms nobody else.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::kill(libc::getpid(), signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_terminal_sends_reaches_the_program_once() {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH] {
            assert!(!is_forwarded(signal, Sender::Kernel));
            assert!(is_forwarded(signal, Sender::Process));
        }
        for signal in [
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGUSR1,
            libc::SIGCONT,
            36,
        ] {
            assert!(is_forwarded(signal, Sender::Kernel));
            assert!(is_forwarded(signal, Sender::Process));
        }
        assert!(
            !is_forwarded(libc::SIGCHLD, Sender::Kernel),
            "our own child's"
        );
    }
}
