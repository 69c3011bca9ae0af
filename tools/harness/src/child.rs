//! A process we started: waited for without blocking its end, and never left behind.
//!
//! `coldpress run` starts the program as its child, so ending the process we started is not
//! enough: [`Running::program`] names the program proper, which is ended first. What starts any number
//! of programs, as cargo does, is started by [`Running::start_group`], and ended with all of them.

use crate::cleanup;
use crate::group::Group;
use crate::process::Identity;
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Inner {
    child: Child,
    program: Option<Identity>,
    group: Option<Group>,
}

/// A started process. Dropped, it is killed together with its program, and reaped.
pub struct Running {
    inner: Arc<Mutex<Inner>>,
    what: String,
    _guard: cleanup::Guard,
}

impl Running {
    /// Starts `command`; `what` names it in messages.
    pub fn start(command: &mut Command, what: &str) -> Result<Running> {
        Running::start_as(command, what, |_| Ok(None))
    }

    /// Starts `command` in a group of its own, which ends with us even where we are killed.
    pub fn start_group(command: &mut Command, what: &str) -> Result<Running> {
        Group::lead(command);
        Running::start_as(command, what, |leader| Group::watch(leader).map(Some))
    }

    fn start_as(
        command: &mut Command,
        what: &str,
        watch: impl FnOnce(u32) -> Result<Option<Group>>,
    ) -> Result<Running> {
        without_our_signals(command);
        let (inner, guard) = cleanup::acquire(
            what,
            || {
                let mut child = command.spawn().with_context(|| {
                    format!("cannot start {}", command.get_program().to_string_lossy())
                })?;
                let group = watch(child.id()).inspect_err(|_| {
                    let _ = child.kill();
                    let _ = child.wait();
                })?;
                Ok(Arc::new(Mutex::new(Inner {
                    child,
                    program: None,
                    group,
                })))
            },
            |inner| end(&inner),
        )?;
        Ok(Running {
            inner,
            what: what.to_owned(),
            _guard: guard,
        })
    }

    /// Says which process the program proper is, so that it is ended too.
    pub fn program(&self, pid: u32) -> Result<()> {
        let identity = Identity::of(pid)?;
        self.inner.lock().expect("not poisoned").program = Some(identity);
        Ok(())
    }

    /// Id of the process that was started.
    pub fn id(&self) -> u32 {
        self.inner.lock().expect("not poisoned").child.id()
    }

    /// The pipes to the process, where it was started with pipes.
    pub fn pipes(&self) -> Option<(ChildStdin, ChildStdout)> {
        let mut inner = self.inner.lock().expect("not poisoned");
        Some((inner.child.stdin.take()?, inner.child.stdout.take()?))
    }

    /// Its standard input, where it was started with that as a pipe.
    pub fn input(&self) -> Option<ChildStdin> {
        self.inner.lock().expect("not poisoned").child.stdin.take()
    }

    /// Its standard output and standard error, where it was started with both as pipes.
    pub fn outputs(&self) -> Option<(ChildStdout, ChildStderr)> {
        let mut inner = self.inner.lock().expect("not poisoned");
        Some((inner.child.stdout.take()?, inner.child.stderr.take()?))
    }

    /// Its standard error, where it was started with that as a pipe.
    pub fn errors(&self) -> Option<ChildStderr> {
        self.inner.lock().expect("not poisoned").child.stderr.take()
    }

    /// The exit status, if the process has ended.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut inner = self.inner.lock().expect("not poisoned");
        Ok(inner.child.try_wait()?)
    }

    /// Waits for the end of the process without keeping a signal from ending it.
    pub fn wait(&self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits at most `limit`.
    pub fn wait_for(&self, limit: Duration) -> Result<ExitStatus> {
        let until = Instant::now() + limit;
        while Instant::now() < until {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        bail!("{} did not end within {} s", self.what, limit.as_secs())
    }
}

/// Has `command` start with no signal blocked: a mask is inherited, and ours holds back the signals that a thread of
/// its own waits for ([`cleanup`]).
pub fn without_our_signals(command: &mut Command) {
    // SAFETY: between fork and exec this only sets the mask.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            match libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

/// User CPU time of all processes of ours that have ended and were waited for, and of theirs.
pub fn user_time_of_ended() -> Duration {
    // SAFETY: `usage` is plain numbers that getrusage writes; it cannot fail for RUSAGE_CHILDREN.
    let time = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage.ru_utime
    };
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Kills the program and the process by id, and reaps the process.
fn end(inner: &Mutex<Inner>) -> Result<()> {
    let mut inner = inner
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(program) = inner.program {
        program.kill();
    }
    if inner.child.try_wait()?.is_none() {
        // `coldpress run` ends with its program; give it the moment to write its statistics.
        if inner.program.is_some() {
            std::thread::sleep(Duration::from_millis(200));
        }
        if let Some(group) = &inner.group {
            group.kill();
        }
        let _ = inner.child.kill();
        inner.child.wait()?;
    }
    inner.group = None;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_has_no_signal_blocked() {
        // SAFETY: the mask of this test's own thread.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        }
        // Not by `Running`: another test may end all that runs.
        let mut command = Command::new("grep");
        command.args(["SigBlk", "/proc/self/status"]);
        without_our_signals(&mut command);
        let told = command.output().unwrap().stdout;
        assert_eq!(told, b"SigBlk:\t0000000000000000\n");
    }
}
