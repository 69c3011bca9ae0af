//! The library that `coldpress run` injects into a program by `LD_PRELOAD`.
//!
//! It starts the pager before `main`, hooks libc's `fork`, and stands in for the few libc
//! functions by which a program tells the kernel something the pager must know. It has no
//! standard library and no allocator, and is linked with all symbols bound at load time.
//!
//! | file | concept |
//! |---|---|
//! | `entry` | constructor, destructor, the process that is meant |
//! | `the_pager` | the static that holds the pager |
//! | `environment` | reading and mending the environment block |
//! | `wrappers` | `sigaltstack`, `madvise`, `mremap`, `ioctl`, `pthread_create`, `_Fork` |
//! | `wrapped` | libc's functions that wrappers stand in for |
//! | `locking` | `mlockall` |
//! | `mutexes` | `pthread_mutex_init` of robust mutexes |
//! | `namespaces` | `unshare`, `setns` |
//! | `piecewise` | moving memory that was split |
//! | `raw_calls` | `syscall`, `prctl`: seccomp filters, futexes |
//! | `shared_memory` | `shmat` in the place of other memory |
//! | `sanitizers` | what sanitizers' run-time libraries ask a program |
//! | `advise` | `coldpress_advise` |
//! | `clones` | copies of the process by `clone` and `syscall` |
//! | `describe` | `coldpress_describe_page` |
//! | `c_library` | what the codecs' C code must not find |
//! | `memory_functions` | `memcpy` and its like, hidden |
//! | `libc_symbols` | the program's C library, which may be another than glibc |
//! | `libc_files` | libc's list of open files, held and touched for a fork |
#![no_std]
#![deny(missing_docs)]

mod advise;
mod c_library;
mod clones;
mod describe;
mod entry;
mod environment;
mod libc_files;
mod libc_symbols;
mod locking;
mod main_program;
mod memory_functions;
mod mutexes;
mod namespaces;
mod piecewise;
mod raw_calls;
mod sanitizers;
mod shared_memory;
mod system_call;
mod the_pager;
mod wrapped;
mod wrappers;

/// A defect of the pager: say where, and stop before a page can go wrong.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    coldpress_pager::machine::message::say(format_args!("defect in the pager: {info}"));
    coldpress_linux::sys::abort()
}

// Named by the precompiled core library; nothing here unwinds. Hidden: a program whose Rust runtime is a shared library
// must find its own.
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".type rust_eh_personality, @function",
    "rust_eh_personality: ud2",
);
