//! The functions of libc's that wrappers stand in for.

use crate::libc_symbols;
use core::ffi::{CStr, c_void};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A function of libc's that a wrapper stands in for, looked up once.
pub(crate) struct Wrapped {
    name: &'static CStr,
    found: AtomicUsize,
}

impl Wrapped {
    /// The function of this name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicUsize::new(0),
        }
    }

    /// Where it is; `None`: this libc has none. Where [`look_all_up`] was not called, the first call takes locks of the
    /// loader's, which another thread may hold while it waits for this one, and its message for `dlerror`.
    pub(crate) fn find(&self) -> Option<NonNull<c_void>> {
        if self.found.load(Relaxed) == 0 {
            let real = libc_symbols::next_of(self.name);
            self.found.store(real as usize, Relaxed);
        }
        NonNull::new(self.found.load(Relaxed) as *mut c_void)
    }
}

pub(crate) static PTHREAD_CREATE: Wrapped = Wrapped::new(c"pthread_create");
pub(crate) static PTHREAD_MUTEX_INIT: Wrapped = Wrapped::new(c"pthread_mutex_init");
pub(crate) static THRD_CREATE: Wrapped = Wrapped::new(c"thrd_create");
pub(crate) static CLONE: Wrapped = Wrapped::new(c"clone");
pub(crate) static PLAIN_FORK: Wrapped = Wrapped::new(c"_Fork");

/// Looks all of them up, while the process has one thread.
pub(crate) fn look_all_up() {
    for wrapped in [
        &PTHREAD_CREATE,
        &PTHREAD_MUTEX_INIT,
        &THRD_CREATE,
        &CLONE,
        &PLAIN_FORK,
    ] {
        wrapped.find();
    }
}
