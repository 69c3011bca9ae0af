//! What the library uses of the program's C library: all there is, and all of it may be absent.
//!
//! The library is inherited by every program that a managed one starts, and some of them have another C library than
//! glibc. A loader that misses a symbol ends the program. So each reference is weak, which is to be had in assembly
//! only: a word that the loader fills with the symbol's address, or leaves zero. Another C library
//! is known by what it lacks ([`is_glibc`]); nothing but the environment is then touched.

use core::arch::global_asm;
use core::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use core::sync::atomic::AtomicI32;

macro_rules! weak {
    ($($symbol:literal at $word:ident: $kind:ty;)*) => {
        $(global_asm!(
            ".pushsection .data.rel.ro.coldpress_libc,\"aw\",@progbits",
            concat!(".weak ", $symbol),
            concat!(".globl ", stringify!($word)),
            concat!(".hidden ", stringify!($word)),
            ".balign 8",
            concat!(stringify!($word), ": .quad ", $symbol),
            ".popsection",
        );)*
        // Words of this library, written by the loader before anything of it runs.
        unsafe extern "C" {
            $(safe static $word: Option<$kind>;)*
        }
    };
}

type Hook = extern "C" fn();

weak! {
    "gnu_get_libc_version" at coldpress_libc_version: unsafe extern "C" fn() -> *const c_char;
    "environ" at coldpress_libc_environ: &'static *mut *mut c_char;
    "__errno_location" at coldpress_libc_errno: unsafe extern "C" fn() -> *mut c_int;
    "dlsym" at coldpress_libc_dlsym: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    "getauxval" at coldpress_libc_getauxval: unsafe extern "C" fn(c_ulong) -> c_ulong;
    "__register_atfork" at coldpress_libc_atfork: unsafe extern "C" fn(Hook, Hook, Hook, *mut c_void) -> c_int;
    "pthread_mutexattr_getrobust" at coldpress_libc_getrobust:
        unsafe extern "C" fn(*const c_void, *mut c_int) -> c_int;
    "pthread_mutexattr_getprotocol" at coldpress_libc_getprotocol:
        unsafe extern "C" fn(*const c_void, *mut c_int) -> c_int;
    "_IO_list_all" at coldpress_libc_list_all: &'static *const u8;
    "_IO_list_lock" at coldpress_libc_list_lock: unsafe extern "C" fn();
    "_IO_list_unlock" at coldpress_libc_list_unlock: unsafe extern "C" fn();
    "_IO_list_resetlock" at coldpress_libc_list_resetlock: unsafe extern "C" fn();
}

/// Whether the program's C library is glibc. No other gives constructors their arguments for certain, or has the
/// hooks of a fork that a pager needs.
pub(crate) fn is_glibc() -> bool {
    coldpress_libc_version.is_some() && coldpress_libc_atfork.is_some()
}

/// The environment block, as the C library knows it.
pub(crate) fn environment() -> *mut *mut c_char {
    match coldpress_libc_environ {
        // SAFETY: the variable holds a pointer, null before it is set; only its content is read.
        Some(variable) => unsafe { core::ptr::read_volatile(variable) },
        None => core::ptr::null_mut(),
    }
}

/// Where `errno` of the calling thread is.
pub(crate) fn errno_location() -> *mut c_int {
    /// Of a C library that has no such function, and so nothing that reads it.
    static NOWHERE: AtomicI32 = AtomicI32::new(0);
    match coldpress_libc_errno {
        // SAFETY: libc's own, of the calling thread, which is the program's.
        Some(location) => unsafe { location() },
        None => NOWHERE.as_ptr(),
    }
}

/// Sets `errno` of the calling thread.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: as above.
    unsafe { errno_location().write(errno) };
}

/// The definition of `name` behind this library, or null.
pub(crate) fn next_of(name: &CStr) -> *mut c_void {
    /// `RTLD_NEXT`
    const NEXT: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
    look_up(NEXT, name)
}

/// The definition of `name` that everybody finds, or null.
pub(crate) fn first_of(name: &CStr) -> *mut c_void {
    /// `RTLD_DEFAULT`
    const DEFAULT: *mut c_void = core::ptr::null_mut();
    look_up(DEFAULT, name)
}

fn look_up(among: *mut c_void, name: &CStr) -> *mut c_void {
    match coldpress_libc_dlsym {
        // SAFETY: looks up a function; the loader does not keep the name.
        Some(dlsym) => unsafe { dlsym(among, name.as_ptr()) },
        None => core::ptr::null_mut(),
    }
}

/// What the kernel told the program at its start under this `AT_…` key, or 0.
pub(crate) fn auxiliary_value(key: c_ulong) -> c_ulong {
    // SAFETY: looks into a list that the C library keeps.
    coldpress_libc_getauxval.map_or(0, |get| unsafe { get(key) })
}

/// Registers the hooks of a fork, for as long as the process lives: they are no library's. With this library's handle they
/// would be gone once it has been finalized, and destructors of other libraries, which run after that, may fork.
pub(crate) fn register_fork_hooks(prepare: Hook, parent: Hook, child: Hook) {
    if let Some(register) = coldpress_libc_atfork {
        // SAFETY: functions that live as long as the process.
        unsafe { register(prepare, parent, child, core::ptr::null_mut()) };
    }
}

/// Whether these attributes make a mutex whose word the kernel takes by itself: a robust one, or one that lends priority.
///
/// # Safety
/// They are initialized `pthread_mutexattr_t`.
pub(crate) unsafe fn kernel_takes_word(attributes: *const c_void) -> bool {
    /// `PTHREAD_MUTEX_ROBUST`
    const ROBUST: c_int = 1;
    /// `PTHREAD_PRIO_INHERIT`
    const INHERIT: c_int = 1;
    let is = |get: Option<unsafe extern "C" fn(*const c_void, *mut c_int) -> c_int>, kind| {
        let mut found = 0;
        // SAFETY: as the caller promises. Where it tells nothing the word stays 0.
        get.is_some_and(|get| unsafe { get(attributes, &mut found) } == 0 && found == kind)
    };
    is(coldpress_libc_getrobust, ROBUST) || is(coldpress_libc_getprotocol, INHERIT)
}

/// glibc's list of open files, and what there is for its lock.
pub(crate) struct ListOfFiles {
    pub(crate) first: &'static *const u8,
    /// Takes the lock, which a thread may take several times.
    pub(crate) lock: unsafe extern "C" fn(),
    pub(crate) unlock: unsafe extern "C" fn(),
    /// Nobody has it.
    pub(crate) reset: unsafe extern "C" fn(),
}

/// `None`: this C library has none.
pub(crate) fn list_of_files() -> Option<ListOfFiles> {
    Some(ListOfFiles {
        first: coldpress_libc_list_all?,
        lock: coldpress_libc_list_lock?,
        unlock: coldpress_libc_list_unlock?,
        reset: coldpress_libc_list_resetlock?,
    })
}
