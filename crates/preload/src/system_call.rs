//! libc's `syscall` as it is without us.

use crate::libc_symbols;
use core::ffi::c_int;

/// The call as libc's `syscall` makes it, jumped to from there. It uses no stack: a thread that it makes returns on
/// its own.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn as_libc() {
    core::arch::naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "neg eax",
        "mov edi, eax",
        "sub rsp, 8",
        "call {set_errno}",
        "add rsp, 8",
        "mov rax, -1",
        "ret",
        set_errno = sym set_errno,
    )
}

extern "C" fn set_errno(errno: c_int) {
    libc_symbols::set_errno(errno);
}
