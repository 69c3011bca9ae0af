//! The parent while the program runs: forwards signals, stops and continues with it, has all
//! processes of the run looked after, and waits for its end.

use crate::process;
use crate::signals::{self, Arrival, Sender, Signals};
use crate::spawn::Child;
use std::mem;
use std::ptr;
use std::time::Duration;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(u8),
    /// This signal killed it.
    Killed(libc::c_int),
}

impl Ending {
    /// Ends as the program ended: by the same signal, or with the status to be returned.
    pub fn end_as(self) -> u8 {
        match self {
            Ending::Exited(status) => status,
            Ending::Killed(signal) => {
                signals::die_by(signal);
                128u8.saturating_add(signal.to_ne_bytes()[0])
            }
        }
    }
}

/// What is looked after while a program runs.
pub trait Watched {
    /// What it comes to.
    type Outcome;

    /// Looks around, if it is time to. Returns when to come again.
    fn look(&mut self) -> Duration;

    /// The program has ended, and is not reaped yet.
    fn finish(self) -> Self::Outcome;
}

/// Runs until the program has ended; what came of the looks. The program is reaped.
pub fn supervise<W: Watched>(
    child: Child,
    signals: &Signals,
    mut watched: W,
) -> (Ending, W::Outcome) {
    let ending = loop {
        if let Some(ending) = look_at(child.pid) {
            break ending;
        }
        let next = watched.look();
        if let Some(arrival) = signals.wait(Some(next)) {
            // The child is not reaped before the end, so its id is still its own.
            let sender = match arrival.sender {
                Some(_) => Sender::Process,
                None => Sender::Kernel,
            };
            if signals::is_forwarded(arrival.signal, sender)
                && !has_come_to_all(child.pid, &arrival)
            {
                arrival.send(child.pid.cast_signed());
            }
        }
    };
    let outcome = watched.finish();
    reap(child.pid);
    (ending, outcome)
}

/// Whether the program, which is in our process group, has got the signal already. A program of this run sent it to its group
/// (`kill 0`; one that wanted to reach its parent alone would not know that this is `coldpress`). Or the terminal has hung
/// up: the kernel tells the leader of the session alone, and once that has ended the group in the foreground.
fn has_come_to_all(child: u32, arrival: &Arrival) -> bool {
    let has_come = match arrival.sender {
        Some(sender) => sender == child || process::descends_from(sender, child),
        None => arrival.signal == libc::SIGHUP && !signals::leads_a_session(),
    };
    has_come && signals::group_of(child) == Some(signals::own_group())
}

/// Whether the child has ended. Follows it where the terminal has stopped it.
fn look_at(child: u32) -> Option<Ending> {
    reap_orphans(child);
    let ended = wait_for(libc::P_PID, child, libc::WEXITED | libc::WNOWAIT);
    if let Some(info) = ended {
        // SAFETY: the kernel filled in a child's status.
        let status = unsafe { info.si_status() };
        return Some(match info.si_code {
            libc::CLD_EXITED => Ending::Exited(status.to_ne_bytes()[0]),
            _ => Ending::Killed(status),
        });
    }
    if let Some(info) = wait_for(libc::P_PID, child, libc::WSTOPPED) {
        // SAFETY: as above.
        let signal = unsafe { info.si_status() };
        // A tool that stops the program with SIGSTOP will continue the program and not us, and we would sleep
        // for ever. But a shell that waits for us in the foreground has to get its terminal back: we are its job, and
        // lead a process group. (A script does not, whose program only stands still.) The program may have a process group
        // of its own (a shell has), which is in the foreground then, and has to be there again: it has stopped itself.
        let by_terminal = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        let own_group = signals::own_group();
        let foreground = signals::foreground();
        let in_front = foreground.is_some() && foreground == signals::group_of(child);
        let is_job = own_group.cast_unsigned() == std::process::id();
        let is_apart = in_front && foreground != Some(own_group);
        if by_terminal || is_apart || is_job && foreground == Some(own_group) {
            signals::stop_by(signal);
            if let Some(group) = foreground.filter(|_| in_front)
                && signals::foreground() == Some(own_group)
            {
                signals::put_in_the_foreground(group);
            }
        }
    }
    None
}

/// One look, without waiting, at the children named.
fn wait_for(kind: libc::idtype_t, id: u32, options: libc::c_int) -> Option<libc::siginfo_t> {
    // SAFETY: zeros are a valid `siginfo_t`; the call fills it in.
    unsafe {
        let mut info: libc::siginfo_t = mem::zeroed();
        let result = libc::waitid(kind, id, &mut info, options | libc::WNOHANG);
        (result == 0 && info.si_pid() != 0).then_some(info)
    }
}

/// As process 1 of a container we inherit every orphan and must let it go.
fn reap_orphans(child: u32) {
    while let Some(info) = wait_for(libc::P_ALL, 0, libc::WEXITED | libc::WNOWAIT) {
        // SAFETY: the kernel filled in a child's id.
        let pid = unsafe { info.si_pid() }.cast_unsigned();
        if pid == child {
            break;
        }
        reap(pid);
    }
}

fn reap(pid: u32) {
    // SAFETY: a child that has ended; no status is asked for.
    unsafe { libc::waitpid(pid.cast_signed(), ptr::null_mut(), 0) };
}
