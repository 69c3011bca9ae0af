//! The C library's memory functions, of our own.
//!
//! The compiler and the codecs' C code call `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp` and `strlen`. Those of the
//! program must not answer: with AddressSanitizer or ThreadSanitizer they are interceptors, which read shadow memory
//! that may be away while the fault is answered that would bring it back. So the names end here, in symbols that
//! are hidden: the program's stay the program's.
//!
//! They are of assembly, since the compiler may turn a loop that copies into a call of `memcpy`. No CPU is asked what
//! it can do: up to a page, SSE2 is as fast as glibc's choice (`hostile_memory_functions.rs` of the promises compares).

use core::arch::global_asm;

global_asm!(include_str!("memory_functions.s"), options(raw));

global_asm!(
    ".macro named name, by",
    ".globl \\name",
    ".hidden \\name",
    ".type \\name, @function",
    ".set \\name, coldpress_\\by",
    ".endm",
    "named memcpy, memmove",
    "named memmove, memmove",
    "named memset, memset",
    "named memcmp, memcmp",
    "named bcmp, memcmp",
    "named strlen, strlen",
);
