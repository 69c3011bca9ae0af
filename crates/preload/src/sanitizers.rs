//! Tools that look into the program's memory from inside: sanitizers, gperftools' heap checker, Valgrind.
//!
//! The run-time libraries of sanitizers ask a few things of a program, by functions that it may define. Their references
//! are weak, and the first definition counts: the program's, where it has one, else this library's,
//! which asks the next behind it.

use crate::libc_symbols::{first_of, next_of};
use crate::main_program::Referred;
use crate::the_pager::pager;
use coldpress_pager::machine::message;
use coldpress_pager::settings::config::variable;
use core::arch::{asm, naked_asm};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};

/// LeakSanitizer asks whether it shall look for leaks, each time before it stops all threads and reads the program's
/// memory. The pager's threads would be stopped too, so the pager leaves. Nobody says when the check is over, and as a
/// rule it is the program's last act: it does not come back.
///
/// # Safety
/// As the sanitizer's: called by a thread of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __lsan_is_turned_off() -> c_int {
    type Ask = extern "C" fn() -> c_int;
    let next = next_of(LEAK_SANITIZER);
    // SAFETY: null, or a function of this type.
    let next = unsafe { core::mem::transmute::<*mut core::ffi::c_void, Option<Ask>>(next) };
    let off = next.map_or(0, |next| next());
    if off == 0 && !pager().leave() {
        message::say(format_args!(
            "the pager cannot leave, and LeakSanitizer is about to stop its threads: it may wait for ever"
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

/// gperftools' heap checker calls this before it looks for leaks, as LeakSanitizer does: a thread that shares the memory
/// stops all others and reads. So the pager leaves. The arguments, of any number, are handed on in their registers.
///
/// # Safety
/// As the heap checker's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn TCMalloc_ListAllProcessThreads() -> c_int {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "call {make_way}",
        "mov r11, rax",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        make_way = sym make_way,
    )
}

/// Has the pager leave. Returns the heap checker's own function.
extern "C" fn make_way() -> *mut core::ffi::c_void {
    extern "C" fn absent() -> c_int {
        -1
    }
    pager().leave_nothing_to_read();
    let own = next_of(HEAP_CHECKER);
    match own.is_null() {
        true => absent as *mut core::ffi::c_void,
        false => own,
    }
}

const LEAK_SANITIZER: &CStr = c"__lsan_is_turned_off";
const HEAP_CHECKER: &CStr = c"TCMalloc_ListAllProcessThreads";

/// Why no pager can be in this process, whatever it is asked for.
///
/// # Safety
/// `environment` is the environment block.
pub(crate) unsafe fn forbids_a_pager(environment: *const *const c_char) -> Option<&'static str> {
    if runs_on_valgrind() {
        return Some("Valgrind runs it, on a processor that has no userfaultfd");
    }
    let asked = first_of(LEAK_SANITIZER) as usize;
    let is_answered_elsewhere = asked != 0 && asked != __lsan_is_turned_off as *const () as usize;
    if is_answered_elsewhere || is_answered_inside() {
        return Some("it answers LeakSanitizer itself, which would stop the pager's threads");
    }
    // SAFETY: as the caller promises.
    let checks = unsafe { variable(environment, "HEAPCHECK") };
    // Where the heap checker is a library, it can be told of.
    let is_wanted = checks.is_some_and(|value| !value.is_empty());
    (is_wanted && next_of(HEAP_CHECKER).is_null()).then_some(
        "HEAPCHECK is set, and a heap checker that is linked in would stop the pager's threads",
    )
}

/// Whether LeakSanitizer is linked into the main program, and so is an answer to its question: it refers to two functions
/// that a program may define, and only one of them is left to others.
fn is_answered_inside() -> bool {
    let left = Referred::of_main_program();
    left.is_some_and(|left| left.has(c"__lsan_default_suppressions") && !left.has(LEAK_SANITIZER))
}

/// Whether Valgrind runs this program: it knows these instructions, to a processor they do nothing.
fn runs_on_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: usize = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut depth = 0usize;
    // SAFETY: the rotations add up to two full turns; exchanging a register with itself does nothing.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inlateout("rdx") depth,
            out("rdi") _,
            options(nostack, readonly),
        );
    }
    depth != 0
}
