//! The terminal while the live view has it: raw, on the alternate screen, without a cursor; and as it was, whatever ends or
//! stops the command.
//!
//! | | what restores it |
//! |---|---|
//! | the command ends | [`Screen`]'s drop |
//! | it panics | the panic hook, before the message is printed |
//! | SIGINT, SIGTERM, SIGHUP | the handler of `on_signal`, which then lets the signal end the command |
//! | Ctrl-Z, SIGTSTP | a handler here, which then stops the command; SIGCONT takes the terminal again |
//!
//! T1 What a handler does is async-signal-safe: `tcsetattr`, `write`, and a few atomics.
//! T2 The signals of the last row, and SIGWINCH, are blocked but while a key is waited for ([`waiting_mask`]): none comes in
//!    the middle of drawing, and none between the last look and the wait, which would then last.
//! T3 The modes that are restored are those of before, read once; nobody else writes them.

use crate::on_signal;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The modes of before, and ours.
static MODES: OnceLock<(libc::termios, libc::termios)> = OnceLock::new();
/// Whether the terminal is ours now.
static IS_OURS: AtomicBool = AtomicBool::new(false);
/// Whether the live view is to have it while the command runs.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// Whether somebody else may have written on it.
static IS_STALE: AtomicBool = AtomicBool::new(false);

/// The alternate screen, cleared, without a cursor.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[2J\x1b[?25l";
/// No colours, a cursor, the screen of before.
const LEAVE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// The terminal, taken as long as this lives.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// Takes the terminal that is standard input and standard output.
    pub fn take() -> io::Result<Self> {
        let before = modes()?;
        let mut ours = before;
        // SAFETY: a valid structure, of which flags are changed.
        unsafe { libc::cfmakeraw(&mut ours) };
        let _ = MODES.set((before, ours));
        IS_WANTED.store(true, SeqCst);
        enter();
        on_signal::call(leave);
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            print(panic);
        }));
        // SAFETY: a valid set of this thread's; threads that are started later have it, too.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &while_waiting(), std::ptr::null_mut()) };
        handle(libc::SIGTSTP, on_stop);
        handle(libc::SIGCONT, on_continue);
        handle(libc::SIGWINCH, on_resize);
        Ok(Self(()))
    }

    /// Whether all of it has to be drawn anew. It is told once.
    pub fn is_stale(&self) -> bool {
        IS_STALE.swap(false, SeqCst)
    }

    /// Stops the command when it next waits for a key, as the terminal does it to a program that leaves Ctrl-Z to it: with all that was started with it.
    pub fn stop(&self) {
        // SAFETY: a signal to our own process group; the handler restores the terminal first.
        unsafe { libc::kill(0, libc::SIGTSTP) };
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        IS_WANTED.store(false, SeqCst);
        leave();
    }
}

/// The signals that come only while a key is waited for.
fn while_waiting() -> libc::sigset_t {
    // SAFETY: zeros are a valid set, and the numbers are those of signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTSTP, libc::SIGCONT, libc::SIGWINCH] {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// The signals that are blocked while a key is waited for: those that were before.
pub fn waiting_mask() -> libc::sigset_t {
    // SAFETY: zeros are a valid set, which the call fills in; the numbers are those of signals.
    unsafe {
        let mut mask: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        for signal in [libc::SIGTSTP, libc::SIGCONT, libc::SIGWINCH] {
            libc::sigdelset(&mut mask, signal);
        }
        mask
    }
}

fn modes() -> io::Result<libc::termios> {
    // SAFETY: zeros are a valid structure, which the call fills in.
    unsafe {
        let mut modes: libc::termios = std::mem::zeroed();
        match libc::tcgetattr(libc::STDIN_FILENO, &mut modes) {
            0 => Ok(modes),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Takes the terminal, if it is not ours. Async-signal-safe.
fn enter() {
    if let Some((_, ours)) = MODES.get()
        && !IS_OURS.swap(true, SeqCst)
    {
        // SAFETY: a valid structure; the calls are async-signal-safe.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, ours) };
        write(ENTER);
        IS_STALE.store(true, SeqCst);
    }
}

/// Gives it back, if it is ours. Async-signal-safe.
fn leave() {
    if let Some((before, _)) = MODES.get()
        && IS_OURS.swap(false, SeqCst)
    {
        write(LEAVE);
        // SAFETY: a valid structure; the calls are async-signal-safe.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSADRAIN, before) };
    }
}

fn write(bytes: &[u8]) {
    // SAFETY: the buffer is as long as told. What cannot be written cannot be helped.
    unsafe { libc::write(libc::STDOUT_FILENO, bytes.as_ptr().cast(), bytes.len()) };
}

extern "C" fn on_stop(signal: libc::c_int) {
    leave();
    // SAFETY: valid structures of this frame; all calls are async-signal-safe. The signal is blocked while its handler runs,
    // so it stops the process where it is unblocked, and the process goes on there.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
    handle(signal, on_stop);
    // The kernel does not stop a command that nobody could let go on, and then sends no SIGCONT either.
    if IS_WANTED.load(SeqCst) {
        enter();
    }
}

/// After SIGSTOP, which nobody can handle, the terminal may have other modes than ours although it is ours.
extern "C" fn on_continue(_: libc::c_int) {
    if IS_WANTED.load(SeqCst) {
        IS_OURS.store(false, SeqCst);
        enter();
    }
}

/// It interrupts the wait for a key, and the screen is drawn in its new size.
extern "C" fn on_resize(_: libc::c_int) {}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: zeros are a valid `sigaction`; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}
