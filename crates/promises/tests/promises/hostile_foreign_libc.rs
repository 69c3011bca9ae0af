//! Programs of another C library than glibc, started by a managed program, run as if the library that they inherit were
//! not there; and what they start in their turn is managed again with `--follow`.
//!
//! Seen to fail: while the library referred to glibc's symbols by references that were not weak, musl's loader ended
//! the child with status 127.

use coldpress_promises::managed::PRELOAD;
use coldpress_promises::workplace::source;
use coldpress_promises::{Managed, Workplace, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program for musl; `None` where there is no musl.
fn compile(place: &Workplace) -> Option<PathBuf> {
    let program = place.path("foreign");
    let mut compiler = Command::new("musl-gcc");
    compiler.args(["-O1", "-o"]).arg(&program);
    let made = compiler.arg(source("hostile_foreign_libc.c")).status();
    if !made.is_ok_and(|status| status.success()) {
        skip::skipped("musl-gcc does not work (apt-get install musl-tools)");
        return None;
    }
    let native = Command::new(&program).env_remove("LD_PRELOAD").output();
    let native = String::from_utf8(native.expect("musl's loader").stdout).unwrap();
    assert_eq!(native, "OK no LD_PRELOAD\n");
    Some(program)
}

/// A shell of glibc starts a child of musl, which becomes a shell of glibc.
fn script(program: &Path) -> String {
    let program = program.display();
    format!("{program}; echo status $?; {program} /bin/sh -c 'echo then ${{LD_PRELOAD-nothing}}'")
}

#[track_caller]
fn assert_runs(managed: &Managed<'_>, program: &Path, expected: &str) {
    let (outcome, _) = managed.run(Path::new("/bin/sh"), ["-c", &script(program)]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert_eq!(outcome.stdout, expected, "{outcome}");
    assert!(!outcome.stderr.contains("symbol"), "{outcome}");
}

const WITHOUT: &str = "OK no LD_PRELOAD\nstatus 0\nOK no LD_PRELOAD\nthen nothing\n";

#[test]
fn musl_children_run() {
    let place = Workplace::new("musl");
    let Some(program) = compile(&place).filter(|_| skip::root_or_skip()) else {
        return;
    };
    assert_runs(&Managed::new(&place).flag("--no-follow"), &program, WITHOUT);
    let nobody = Managed::new(&place).flag("--no-follow").as_nobody();
    match nobody.with_device() {
        Ok(nobody) => assert_runs(&nobody, &program, WITHOUT),
        Err(error) => skip::skipped(&format!("/dev/userfaultfd: {error}")),
    }
}

/// The library stays in the environment, since a program of glibc may come again.
#[test]
fn musl_children_hand_the_library_on() {
    let place = Workplace::new("musl-follow");
    let Some(program) = compile(&place).filter(|_| skip::root_or_skip()) else {
        return;
    };
    let library = coldpress_promises::managed::binary().with_file_name(PRELOAD);
    let library = library.canonicalize().unwrap();
    let library = library.display();
    let expected = format!("OK {library}\nstatus 0\nOK {library}\nthen {library}\n");
    let followed = Managed::new(&place);
    assert_runs(&followed, &program, &expected);
    // And what it starts has a pager.
    let larger = place.compile("larger_than_limit");
    let script = format!("{} {} 7 64 1", program.display(), larger.display());
    let (outcome, _) = followed.run(Path::new("/bin/sh"), ["-c", &format!("{script}; exit $?")]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert!(outcome.stdout.contains("OK 64 MiB"), "{outcome}");
    assert!(
        !outcome.stderr.contains("no program of it was managed"),
        "{outcome}"
    );
}

/// The first program of a run may become one of musl: its own process, no child.
#[test]
fn the_program_may_become_one_of_musl() {
    let place = Workplace::new("musl-exec");
    let Some(program) = compile(&place).filter(|_| skip::root_or_skip()) else {
        return;
    };
    let script = format!("exec {}", program.display());
    let managed = Managed::new(&place).flag("--no-follow");
    let (outcome, _) = managed.run(Path::new("/bin/sh"), ["-c", &script]);
    assert_eq!(outcome.status.code(), Some(0), "{outcome}");
    assert_eq!(outcome.stdout, "OK no LD_PRELOAD\n", "{outcome}");
}

/// Story: the dynamic loader, called by its name as some launchers do, has no loader of its own, and was refused as a
/// statically linked program.
#[test]
fn the_loader_may_be_called_by_its_name() {
    let place = Workplace::new("loader");
    let program = place.compile("larger_than_limit");
    let loader = Path::new("/lib64/ld-linux-x86-64.so.2");
    let managed = Managed::new(&place).budget("24M");
    let program = program.to_str().expect("a name in UTF-8");
    // It says OK, and pages of it were evicted.
    managed.survive(loader, [program, "1", "64", "2"]);
}
