//! What the run-time libraries of sanitizers ask of a program, by functions that it may define.
//!
//! Their references are weak, and the first definition counts: the program's, where it has one, else this library's,
//! which asks the next behind it.

use crate::libc_symbols::next_of;
use coldpress_runtime::{message, pager};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};

/// LeakSanitizer asks whether it shall look for leaks, each time before it stops all threads and reads the program's
/// memory. The pager's threads are then stopped too, so none of that memory may be away.
///
/// # Safety
/// As the sanitizer's: called by a thread of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __lsan_is_turned_off() -> c_int {
    type Ask = extern "C" fn() -> c_int;
    let next = next_of(c"__lsan_is_turned_off");
    // SAFETY: null, or a function of this type.
    let next = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Option<Ask>>(next) };
    let off = next.map_or(0, |next| next());
    if off == 0 && !pager().stand_down() {
        message::say(format_args!(
            "not all memory could be brought back before LeakSanitizer stops all threads; it may wait for ever"
        ));
    }
    off
}

/// AddressSanitizer's shared library refuses to run behind another library, lest that calls into it too early. This one
/// calls nothing of it at all.
const OPTIONS: &[u8] = b"verify_asan_link_order=0";

/// Room for the options of another library too.
struct Options(UnsafeCell<[u8; 1024]>);

// SAFETY: written by the one thread that initializes the sanitizer, before others exist.
unsafe impl Sync for Options {}

/// AddressSanitizer asks for its default options.
///
/// # Safety
/// As the sanitizer's: called while it is initialized, by one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __asan_default_options() -> *const c_char {
    type Ask = extern "C" fn() -> *const c_char;
    static JOINED: Options = Options(UnsafeCell::new([0; 1024]));
    let next = next_of(c"__asan_default_options");
    // SAFETY: null, or a function of this type.
    let next = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Option<Ask>>(next) };
    let theirs = next.map_or(core::ptr::null(), |next| next());
    // SAFETY: null, or a C string.
    let theirs = (!theirs.is_null()).then(|| unsafe { CStr::from_ptr(theirs) });
    let theirs = theirs.map_or(&b""[..], CStr::to_bytes);
    // SAFETY: by one thread, as above.
    let joined = unsafe { &mut *JOINED.0.get() };
    let parts = OPTIONS.iter().chain(b":").chain(theirs);
    // The last byte stays zero.
    for (to, from) in joined[..1023].iter_mut().zip(parts) {
        *to = *from;
    }
    joined.as_ptr().cast()
}
