//! Undoing what was set up, on every way out: return, error, panic, SIGINT, SIGTERM, SIGHUP.
//!
//! [`acquire`] creates a resource and registers how to undo it in one step. The undo runs once:
//! when the returned [`Guard`] is dropped, or in reverse order of creation from the thread that
//! waits for signals, or from the panic hook (a release builds with `panic = "abort"`, so
//! destructors do not run then).
//!
//! Invariants:
//! * I1 A resource exists only together with its registration: the registry is locked while it
//!   is created, and while it is undone, so a signal finds it either complete or gone.
//! * I2 Once stopping, nothing new is created: the thread that tries parks until the exit.
//!
//! The one lock here is never taken by an undo, so it needs no order with any other lock.
//! SIGKILL cannot be cleaned up after.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

struct Entry {
    id: u64,
    what: String,
    undo: Box<dyn FnOnce() -> anyhow::Result<()> + Send>,
}

struct Registry {
    next: u64,
    entries: Vec<Entry>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    entries: Vec::new(),
});

/// Set by the signal thread before it takes the registry (I2).
static STOPPING: AtomicBool = AtomicBool::new(false);

/// Undoes one resource when dropped.
#[derive(Debug)]
pub struct Guard(u64);

impl Drop for Guard {
    fn drop(&mut self) {
        let mut registry = lock();
        if let Some(at) = registry.entries.iter().position(|e| e.id == self.0) {
            let entry = registry.entries.remove(at);
            undo(entry);
        }
    }
}

/// Creates a resource and registers its undoing. `what` names it in messages.
pub fn acquire<T: Clone + Send + 'static>(
    what: impl Into<String>,
    create: impl FnOnce() -> anyhow::Result<T>,
    undo: impl FnOnce(T) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<(T, Guard)> {
    let mut registry = lock();
    while STOPPING.load(SeqCst) {
        drop(registry);
        std::thread::park();
        registry = lock();
    }
    let made = create()?;
    let id = registry.next;
    registry.next += 1;
    let kept = made.clone();
    registry.entries.push(Entry {
        id,
        what: what.into(),
        undo: Box::new(move || undo(kept)),
    });
    Ok((made, Guard(id)))
}

/// Does not return when a signal is ending us: what fails from then on (a killed child, a closed
/// pipe) is our own doing and not worth a message.
pub fn park_if_stopping() {
    while STOPPING.load(SeqCst) {
        std::thread::park();
    }
}

/// Undoes everything that is still registered, newest first.
pub fn run_all() {
    let mut registry = lock();
    while let Some(entry) = registry.entries.pop() {
        undo(entry);
    }
}

/// Starts the thread that waits for signals, and sets the panic hook. Call it before any other
/// thread exists: the signals are blocked in the caller and in all threads it starts.
/// (What is started has an empty mask by [`without_our_signals`](crate::child::without_our_signals) only:
/// `std::process::Command` has it inherit the mask.)
pub fn install() {
    // SAFETY: `set` is a plain value that sigemptyset initialises before any other use; the
    // calls read and write nothing else.
    let set = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(&mut set, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    };
    std::thread::spawn(move || {
        let mut signal = 0;
        // SAFETY: both pointers are to live values of the right type.
        while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
        STOPPING.store(true, SeqCst);
        eprintln!("\ninterrupted (signal {signal}): cleaning up");
        run_all();
        std::process::exit(128 + signal);
    });
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        before(info);
        match REGISTRY.try_lock() {
            Ok(mut registry) => {
                while let Some(entry) = registry.entries.pop() {
                    undo(entry);
                }
            }
            Err(_) => eprintln!("warning: panic while setting up or cleaning up"),
        }
    }));
}

fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn undo(entry: Entry) {
    if let Err(error) = (entry.undo)() {
        eprintln!("warning: {} could not be undone: {error:#}", entry.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_resource_is_undone_exactly_once() {
        let undone = Arc::new(AtomicU32::new(0));
        let counter = undone.clone();
        let (_, guard) = acquire(
            "test",
            || Ok(()),
            move |()| {
                counter.fetch_add(1, SeqCst);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(undone.load(SeqCst), 0);
        drop(guard);
        assert_eq!(undone.load(SeqCst), 1);
        run_all();
        assert_eq!(undone.load(SeqCst), 1);
    }

    #[test]
    fn what_could_not_be_created_is_not_undone() {
        let made = acquire::<()>("test", || anyhow::bail!("no"), |()| panic!("undone"));
        assert!(made.is_err());
    }
}
