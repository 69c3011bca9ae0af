//! Calls that natively wait for nobody, or for others only who do not wait for them: they do so under the pager, too, and
//! where a followed program waits with starting it.
//!
//! Seen to fail: functions of libc's were looked up at their first call, under the loader's locks (a hang, and a message of
//! `dlerror` that was lost); `fork` waited for libc's list of files with signals blocked and the pager's locks held, and so
//! did `_Fork`, which has no need to (hangs); `mlockall(MCL_CURRENT)` did not end what had been said of the future; a child of
//! `clone` lost its status without `/proc`, and did not end by SIGTERM with a thread control block of its own.

use coldpress_promises::{Managed, Workplace, process, skip};
use std::process::Command;
use std::time::Duration;

fn behaves(what: &str) {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("libc-locks");
    let program = place.compile("libc_locks");
    let library = place.compile_library("libc_locks");
    let arguments = ["75", what, library.to_str().expect("a name")];
    let mut natively = Command::new(&program);
    natively.args(arguments);
    let native = process::run(&place, natively, Duration::from_secs(30));
    if native.verdict().is_none() {
        return;
    }
    let managed = || Managed::new(&place).within(60);
    managed().budget("12M").survive(&program, arguments);
    let program = program.to_str().expect("a name");
    let shell = ["-c", "\"$@\"; exit $?", "sh", program];
    let waiting = managed().budget("200M").environment("PROMISES_WAITS", "1");
    let (outcome, _) = waiting.run("/bin/sh".as_ref(), [&shell[..], &arguments].concat());
    assert!(outcome.verdict().is_some(), "{outcome}");
}

#[test]
fn a_constructor_waits_for_a_thread_that_makes_a_mutex() {
    behaves("constructor");
}

#[test]
fn the_loaders_message_stays() {
    behaves("message");
}

#[test]
fn a_file_moves_memory_while_another_thread_forks() {
    behaves("cookie");
}

#[test]
fn a_plain_fork_does_not_wait_for_files() {
    behaves("plain");
}

#[test]
fn a_thread_that_forks_takes_signals() {
    behaves("signal");
}

#[test]
fn the_future_is_not_locked_any_more() {
    behaves("future");
}

#[test]
fn a_child_without_proc_has_its_status() {
    behaves("chroot");
}

#[test]
fn a_child_with_a_control_block_of_its_own_ends_by_a_signal() {
    behaves("tls");
}
