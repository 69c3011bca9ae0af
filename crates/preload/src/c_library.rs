//! What the codecs' C code refers to and must never find.
//!
//! libzstd is given all its memory (static contexts), and told so it calls no allocator; but the
//! same functions serve contexts of the other kind, so they refer to `malloc` and `free`. Those of
//! the program must not be called while a fault is answered: the thread that waits may hold their
//! lock. So the references end here, in symbols that are hidden (nobody else's `malloc` is
//! replaced), and a call would be a defect of the pager.
//!
//! libzstd also looks for hooks by which a program can trace it (weak symbols). A program that has
//! some means its own libzstd; the pager's finds none.

use coldpress_linux::sys;
use coldpress_pager::machine::message;
use core::arch::global_asm;

extern "C" fn refuse() -> ! {
    message::say(format_args!("defect in the pager: a codec asks for memory"));
    sys::abort()
}

global_asm!(
    ".macro refused name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name: jmp {refuse}",
    ".endm",
    "refused malloc",
    "refused calloc",
    "refused realloc",
    "refused free",
    ".macro absent name",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    "\\name: xor eax, eax",
    "ret",
    ".endm",
    "absent ZSTD_trace_compress_begin",
    "absent ZSTD_trace_compress_end",
    "absent ZSTD_trace_decompress_begin",
    "absent ZSTD_trace_decompress_end",
    refuse = sym refuse,
);
