//! Another process (process_vm_readv, /proc/PID/mem, ptrace, a core dump) gets the right bytes, or
//! none; the program lives on.

use coldpress_promises::hazards::survive;

#[test]
fn foreign_readers() {
    survive("foreign_reader");
}

#[test]
fn core_dumps() {
    survive("core_dump");
}

/// gdb, which stops the pager's threads too: it gets the right bytes or an error, and does not wait for
/// those that it has stopped.
#[test]
fn debuggers() {
    survive("debugger");
}
