//! Signals of the waiting parent.
//!
//! The parent must look to its caller like the program itself, so it blocks every signal it is
//! concerned with and takes them one by one with `sigtimedwait`; no handler ever runs.
//!
//! | signal | from the terminal (kernel) | sent to the parent alone (`kill`) |
//! |---|---|---|
//! | INT, QUIT, TSTP, WINCH | dropped: the program, in the same process group, has it too | forwarded |
//! | TERM, HUP, USR1, USR2 | forwarded | forwarded |
//! | CONT | forwarded if the program is stopped | the same |
//!
//! The child restores the mask and the dispositions as they were when `coldpress` started: what
//! the caller ignored (`nohup`, systemd's ignored SIGPIPE) the program ignores too.

use crate::at_start;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

/// The signals that the parent takes.
const TAKEN: [libc::c_int; 10] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCONT,
    libc::SIGTSTP,
];

/// `si_code` of signals that the kernel itself sends, those of the terminal among them.
const SI_KERNEL: libc::c_int = 0x80;

/// What the signal does.
pub fn disposition(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: zeros are a valid `sigaction`; without a new action the call only reads.
    unsafe {
        let mut old: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut old);
        old.sa_sigaction
    }
}

/// Sets "default" or "ignore", or what was there before. Async-signal-safe.
pub fn set_disposition(signal: libc::c_int, disposition: libc::sighandler_t) {
    // SAFETY: zeros are a valid `sigaction` with an empty mask; the dispositions used are
    // SIG_DFL and SIG_IGN, as no handler survives `execve` and we install none.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = disposition;
        libc::sigaction(signal, &action, ptr::null_mut());
    }
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number.
    pub signal: libc::c_int,
    /// Whether the kernel (the terminal) sent it.
    pub from_kernel: bool,
}

impl Signals {
    /// Blocks the signals. SIGCHLD becomes default: ignored, it would discard exit statuses.
    pub fn take() -> Self {
        let taken = set_of(&TAKEN);
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
                let from_kernel = info.si_code == SI_KERNEL;
                return Some(Arrival {
                    signal,
                    from_kernel,
                });
            }
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) || timeout.is_some() {
                return None;
            }
        }
    }
}

/// Whether the program is to be sent the signal that the parent received.
pub fn is_forwarded(arrival: Arrival, program_is_stopped: bool) -> bool {
    match arrival.signal {
        libc::SIGCHLD => false,
        libc::SIGINT | libc::SIGQUIT | libc::SIGTSTP | libc::SIGWINCH => !arrival.from_kernel,
        libc::SIGCONT => program_is_stopped,
        _ => true,
    }
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
        let arrival = |signal, from_kernel| Arrival {
            signal,
            from_kernel,
        };
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTSTP, libc::SIGWINCH] {
            assert!(!is_forwarded(arrival(signal, true), false));
            assert!(is_forwarded(arrival(signal, false), false));
        }
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
            assert!(is_forwarded(arrival(signal, true), false));
            assert!(is_forwarded(arrival(signal, false), false));
        }
        assert!(is_forwarded(arrival(libc::SIGCONT, false), true));
        assert!(!is_forwarded(arrival(libc::SIGCONT, false), false));
        assert!(!is_forwarded(arrival(libc::SIGCHLD, false), true));
    }
}
