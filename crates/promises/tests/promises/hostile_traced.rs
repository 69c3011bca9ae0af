//! A program whose threads are all traced runs as it does natively: without a pager, and that is said.

use coldpress_promises::managed::binary;
use coldpress_promises::{Managed, Workplace, process, skip};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Story: `strace -f` stopped a handler at its call, and then read a cold page for its line: the tracer waited in the
/// kernel for a thread that waited for the tracer. Both hung, in each of three runs, and only SIGKILL ended them.
#[test]
fn what_a_managed_tracer_traces_runs() {
    let place = Workplace::new("traced");
    let program = place.compile("hostile_traced");
    let name = program.to_str().expect("a name in UTF-8");
    let mut natively = Command::new(&program);
    natively.args(["1", "trace", name, "1", "traced"]);
    if process::run(&place, natively, LIMIT).verdict().is_none() {
        return;
    }
    let managed = Managed::new(&place).budget("12M").chaos();
    let (outcome, _) = managed.run(&program, ["1", "trace", name, "1", "traced"]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert!(outcome.stdout.contains("OK 2048 pages read"), "{outcome}");
    assert!(
        outcome.stderr.contains("not managed: hostile_traced"),
        "{outcome}"
    );
}

#[test]
fn a_traced_run_says_that_it_manages_nothing() {
    let place = Workplace::new("traced-run");
    let program = place.compile("hostile_traced");
    let mut tracer = Command::new(&program);
    tracer.args(["1", "trace"]).arg(binary());
    tracer.args(["run", "--budget", "12M", "--"]);
    tracer.arg(&program).args(["1", "traced"]);
    tracer.env("COLDPRESS_CONFIG", "/dev/null");
    let outcome = process::run(&place, tracer, LIMIT);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert!(outcome.stdout.contains("OK 2048 pages read"), "{outcome}");
    let said = "hostile_traced is not managed: its threads are traced";
    assert!(outcome.stderr.contains(said), "{outcome}");
}

/// Story: gdb reads glibc's record of each thread by libthread_db. Behind the block of a pager's thread lay no
/// memory: gdb said "cannot get thread info: generic error", and never stopped the program again that it had started.
#[test]
fn gdb_debugs_what_it_starts() {
    let gdb = Path::new("/usr/bin/gdb");
    if !gdb.exists() {
        skip::skipped("/usr/bin/gdb is missing (apt-get install gdb)");
        return;
    }
    let place = Workplace::new("traced-gdb");
    let program = place.compile("hostile_traced");
    let name = program.to_str().expect("a name in UTF-8");
    let commands = [
        "catch syscall exit_group",
        "run",
        "info threads",
        "continue",
    ];
    let options = ["-nx", "-batch"].into_iter();
    let options = options.chain(commands.iter().flat_map(|command| ["-ex", command]));
    let arguments: Vec<_> = options.chain(["--args", name, "1", "traced"]).collect();
    let mut natively = Command::new(gdb);
    natively.args(&arguments);
    let said = [
        "Catchpoint 1 (call to syscall exit_group)",
        "exited with code 07",
    ];
    let native = process::run(&place, natively, LIMIT);
    if !said.iter().all(|said| native.stdout.contains(said)) {
        skip::skipped("gdb may not trace here");
        return;
    }
    let (outcome, _) = Managed::new(&place).budget("12M").run(gdb, &arguments);
    for said in said {
        assert!(outcome.stdout.contains(said), "{said}: {outcome}");
    }
}

/// Story: `py-spy dump` at a service with cold pages hung, and the service with it, without a word. The tracer has stopped
/// all threads that could bring the page that it waits for. That cannot be mended from within, and is said.
#[test]
fn a_tracer_that_waits_for_ever_is_named() {
    let place = Workplace::new("attached");
    let program = place.compile("hostile_attached");
    let mut natively = Command::new(&program);
    natively.arg("1");
    let native = process::run(&place, natively, LIMIT);
    if native.verdict().is_none() {
        return;
    }
    assert!(native.stdout.contains("OK the tracer read all"), "{native}");
    let (outcome, _) = Managed::new(&place).budget("12M").run(&program, ["1"]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    let waited = outcome.stdout.contains("OK the tracer waited for ever");
    assert!(waited, "{outcome}");
    for said in [
        ") is stopped by hostile_attache (",
        "; to end this: kill -KILL ",
    ] {
        assert!(outcome.stderr.contains(said), "{said}: {outcome}");
    }
}
