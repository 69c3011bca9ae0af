//! What Coldpress needs of Linux besides [userfaultfd](coldpress_uffd): no libc, no allocator, no policy.
//!
//! * [`sys`]: system calls that no library offers without libc, and threads that libc does not know;
//! * [`filter`]: what a seccomp filter would do to a call, before it is made;
//! * [`maps`]: `/proc/self/maps`, line by line, in a buffer of the caller;
//! * [`proc_stat`]: fields of the `stat` files of processes and threads;
//! * [`text`]: text of a bounded length on the stack.
//!
//! Everything may be used in a program whose libc is in any state, on any thread, and where a signal has interrupted
//! it.
#![no_std]
#![deny(missing_docs)]

/// The example of `README.md`, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod filter;
pub mod maps;
pub mod proc_stat;
pub mod sys;
pub mod text;
