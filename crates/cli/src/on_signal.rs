//! What is undone when SIGINT, SIGTERM or SIGHUP ends the command: an unfinished file is
//! removed, DAMON is stopped, and what [`call`] was told of is called (a benchmark removes its memory group). Then the signal does what it does.
//!
//! The handler uses nothing but async-signal-safe calls and a few atomics. It may run in any
//! thread. Signals that the caller ignores stay ignored.

use std::ffi::{CStr, CString};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// The file to remove: a C string that is never freed, or null.
static UNFINISHED: AtomicPtr<libc::c_char> = AtomicPtr::new(ptr::null_mut());
static DAMON_IS_OURS: AtomicBool = AtomicBool::new(false);
/// A `fn()`, or null.
static UNDO: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
const DAMON_STATE: &CStr = c"/sys/kernel/mm/damon/admin/kdamonds/0/state";
const DAMON_COUNT: &CStr = c"/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";

/// From now on this file is removed; `None`: no file is.
pub fn remove_file(path: Option<CString>) {
    let path = path.map_or(ptr::null(), |path| kept(path).as_ptr());
    UNFINISHED.store(path.cast_mut(), SeqCst);
    install();
}

/// The path as one that is never freed, since a handler may be reading it. A command that writes one file again and again
/// keeps it once.
fn kept(path: CString) -> &'static CStr {
    static KEPT: Mutex<Vec<&'static CStr>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| ***known == *path) {
        return known;
    }
    let path: &'static CStr = Box::leak(path.into_boxed_c_str());
    kept.push(path);
    path
}

/// From now on this is called, too. It must be async-signal-safe.
pub fn call(undo: fn()) {
    UNDO.store(undo as *mut (), SeqCst);
    install();
}

/// Whether DAMON is to be stopped.
pub fn damon_is_ours(ours: bool) {
    DAMON_IS_OURS.store(ours, SeqCst);
    install();
}

/// Does something while no signal can end the command.
pub fn held_back<T>(what: impl FnOnce() -> T) -> T {
    // SAFETY: valid sets of this thread's; the old one is put back.
    unsafe {
        let (mut ending, mut old): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigemptyset(&mut ending);
        for signal in ENDING {
            libc::sigaddset(&mut ending, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &ending, &mut old);
        let done = what();
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut());
        done
    }
}

/// 10 ms. Async-signal-safe.
pub fn pause() {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 10_000_000,
    };
    // SAFETY: a valid time; what is left of it is not asked for.
    unsafe { libc::nanosleep(&pause, ptr::null_mut()) };
}

/// Undoes everything and ends the process by the signal.
extern "C" fn undo_and_die(signal: libc::c_int) {
    let path = UNFINISHED.swap(ptr::null_mut(), SeqCst);
    if !path.is_null() {
        // SAFETY: a C string that is never freed.
        unsafe { libc::unlink(path) };
    }
    if DAMON_IS_OURS.swap(false, SeqCst) {
        write(DAMON_STATE, b"off");
        write(DAMON_COUNT, b"0");
    }
    let undo = UNDO.load(SeqCst);
    if !undo.is_null() {
        // SAFETY: null, or a function of that type (`call`).
        unsafe { std::mem::transmute::<*mut (), fn()>(undo)() };
    }
    // SAFETY: async-signal-safe. SA_RESETHAND made the disposition the default one, so the
    // signal, pending until the handler returns, ends the process.
    unsafe { libc::raise(signal) };
}

/// Writes to a file of the kernel's, again while it is busy (10 s at most). Async-signal-safe.
fn write(path: &CStr, bytes: &[u8]) {
    for _ in 0..1000 {
        // SAFETY: the path is a C string, the buffer is as long as told, and the descriptor is
        // the one just opened.
        let again = unsafe {
            let file = libc::open(path.as_ptr(), libc::O_WRONLY);
            if file < 0 {
                return;
            }
            let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
            let busy = written < 0 && *libc::__errno_location() == libc::EBUSY;
            libc::close(file);
            busy
        };
        if !again {
            return;
        }
        pause();
    }
}

/// Sees to it that all this happens.
fn install() {
    for signal in ENDING {
        // SAFETY: zeros are a valid `sigaction`; the handler is async-signal-safe.
        unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut old);
            if old.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = undo_and_die as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}
