//! Promise: what Coldpress refuses, it refuses before the program starts, with the exit status
//! that says whose fault it is, and a message that names the thing to blame.

use crate::common::{
    Directory, NOBODY, coldpress, coldpress_as_nobody, copy_executable, root, stderr, stdout,
};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

/// Runs `coldpress run --budget 64M -- PROGRAM` and checks status and message.
fn refused(program: &Path, code: i32, words: &[&str]) {
    let output = coldpress()
        .args(["run", "--budget", "64M", "--"])
        .arg(program)
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert_eq!(stdout(&output), "");
    assert!(message.starts_with("coldpress: "), "{message}");
    for word in words {
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn bad_usage_is_125() {
    for (arguments, word) in [
        (
            &["run", "--bogus", "--budget", "1G", "--", "true"][..],
            "--bogus",
        ),
        (&["run", "--budget", "lots", "--", "true"], "\"lots\""),
        (&["run", "--budget", "1GB", "--", "true"], "\"1GB\""),
        (&["run", "--budget", "", "--", "true"], "\"\""),
        (&["run", "--budget", "0%", "--", "true"], "\"0%\""),
        (&["run", "--budget", "-5M", "--", "true"], "-5"),
        (&["run", "--budget", "4M", "--", "true"], "8.0 MiB"),
        (
            &[
                "run",
                "--budget",
                "1G",
                "--cold-after",
                "soon",
                "--",
                "true",
            ],
            "\"soon\"",
        ),
        (
            &["run", "--budget", "1G", "--codec", "gzip", "--", "true"],
            "no codec has that name: choose lz4",
        ),
        (
            &["run", "--budget", "1G", "--codec", "lzo:3", "--", "true"],
            "takes no parameter",
        ),
        (
            &["run", "--budget", "1G", "--storage", "bag", "--", "true"],
            "no storage has that name: choose two-slot, three-slot, size-class",
        ),
        (&["run", "--budget", "1G"], "PROGRAM"),
        (&["run", "--trigger", "lazy", "--", "true"], "--trigger"),
        (&["run", "--budget"], "--budget"),
        (&["status", "many"], "many"),
        (&["nonsense"], "nonsense"),
        (&[], "Usage"),
    ] {
        let output = coldpress().args(arguments).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {message}");
        assert!(message.contains(word), "{arguments:?}: {message}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(!message.contains("panicked"), "{message}");
    }
}

#[test]
fn values_that_cannot_be_read_give_one_line_with_an_example() {
    let output = coldpress()
        .args(["run", "--budget", "lots", "--", "true"])
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.contains("1.5G") && message.contains("65%"),
        "{message}"
    );
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["status", "--help"],
        &["settings", "--help"],
        &["completions", "--help"],
    ] {
        let output = coldpress()
            .args(arguments)
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(stdout(&output).contains("coldpress") && !stdout(&output).contains('\x1b'));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn the_long_version_says_which_build_it_is_and_the_short_one_is_short() {
    let version = |option: &str| stdout(&coldpress().arg(option).output().unwrap());
    let short = concat!("coldpress ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(version("-V"), short);
    let long = version("--version");
    assert!(long.starts_with(short), "{long}");
    for line in ["\ncommit:  ", "\ntarget:  x86_64-", "\nvectors: "] {
        assert!(long.contains(line), "{long}");
    }
}

#[test]
fn manual_pages_and_completions_are_printed() {
    let print = |arguments: &[&str]| {
        let output = coldpress().args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let pages = print(&["manual"]);
    assert!(pages.starts_with("coldpress\ncoldpress-run\n"), "{pages}");
    for page in pages.lines() {
        let text = print(&["manual", page]);
        assert!(text.contains(".SH NAME"), "{page}: {text}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(print(&["completions", shell]).contains("cold-after"));
    }
    let absent = coldpress().args(["manual", "ls"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(125));
}

#[test]
fn absent_programs_are_127_and_plain_files_126() {
    let directory = Directory::new("files");
    refused(
        Path::new("no-such-program-xyz"),
        127,
        &["no-such-program-xyz", "PATH"],
    );
    refused(&directory.path("absent"), 127, &["absent"]);
    refused(Path::new(""), 127, &[]);
    refused(
        &directory.file("plain", b"#!/bin/sh\n", 0o644),
        126,
        &["chmod +x"],
    );
    refused(Path::new("/tmp"), 126, &["/tmp"]);
    refused(
        &directory.file("data", b"\0\x01\x02", 0o755),
        126,
        &["neither"],
    );
    refused(&directory.file("empty", b"", 0o755), 126, &["neither"]);
    refused(
        &directory.file("cut", b"\x7fELF\x02\x01\x01", 0o755),
        126,
        &["damaged"],
    );
    symlink("dangling-target", directory.path("dangling")).unwrap();
    refused(&directory.path("dangling"), 127, &["dangling"]);
}

#[test]
fn scripts_name_the_interpreter_that_is_to_blame() {
    let directory = Directory::new("scripts");
    let script = |name: &str, text: &str| directory.file(name, text.as_bytes(), 0o755);
    refused(
        &script("a", "#!/no/such/interpreter\n"),
        127,
        &["/no/such/interpreter"],
    );
    refused(
        &script("b", "#!/usr/bin/env no-such-interpreter\n"),
        127,
        &["no-such-interpreter"],
    );
    refused(&script("c", "#!/bin/sh\r\n"), 127, &["Windows"]);
    refused(&script("d", "#!/usr/bin/env -S -i sh\n"), 125, &["env -i"]);
}

#[test]
fn static_programs_are_refused() {
    let directory = Directory::new("static");
    if let Some(program) = directory.compile("prog", "int main(void) { return 0; }", &["-static"]) {
        refused(&program, 125, &["statically linked"]);
        let script = directory.file(
            "script",
            format!("#!{}\n", program.display()).as_bytes(),
            0o755,
        );
        refused(&script, 125, &["/prog: it is statically linked"]);
    }
    if let Some(program) =
        directory.compile("pie", "int main(void) { return 0; }", &["-static-pie"])
    {
        refused(&program, 125, &["statically linked"]);
    }
}

#[test]
fn programs_with_other_rights_are_refused() {
    if !root("programs that are setuid to another user") {
        return;
    }
    let directory = Directory::new("setuid");
    let program = directory.path("true");
    for (mode, word) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        copy_executable(Path::new("/bin/true"), &program);
        chown(&program, Some(1234), Some(1234)).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        refused(&program, 125, &[word, "LD_PRELOAD"]);
    }
    fs::remove_file(&program).unwrap();
    copy_executable(Path::new("/bin/true"), &program);
    let capable = std::process::Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(&program)
        .status();
    if !capable.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: file capabilities: no setcap, or not on this file system");
        return;
    }
    let mut command = coldpress_as_nobody(&directory);
    let output = command
        .args(["run", "--budget", "64M", "--"])
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("file capabilities"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_user_without_the_full_tier_is_told_how_to_get_it() {
    if !root("becoming a user without privilege") {
        return;
    }
    if fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd")
        .is_ok_and(|text| text.trim() == "1")
    {
        eprintln!("SKIPPED: vm.unprivileged_userfaultfd is 1, so every user has the full tier");
        return;
    }
    let directory = Directory::new("tier");
    let output = coldpress_as_nobody(&directory)
        .args(["run", "--budget", "64M", "--", "true"])
        .output()
        .unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{message}");
    for word in [
        "user-mode-only",
        "EFAULT",
        "sudo sysctl -w vm.unprivileged_userfaultfd=1",
        "60-userfaultfd.rules",
        "exec 9</dev/userfaultfd",
        &format!("--reuid={NOBODY}"),
        "coldpress doctor",
    ] {
        assert!(message.contains(word), "{word}: {message}");
    }
}

#[test]
fn an_unreadable_program_is_refused_with_the_reason() {
    if !root("a program that its user may execute and not read") {
        return;
    }
    let directory = Directory::new("unreadable");
    let program = directory.path("true");
    copy_executable(Path::new("/bin/true"), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o711)).unwrap();
    let mut command = coldpress_as_nobody(&directory);
    let output = command
        .args(["run", "--budget", "64M", "--"])
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("chmod a+r"), "{}", stderr(&output));
}

/// Without these nothing works, and what failed first was named: "neither beside  nor in ../lib", "no such file".
#[test]
fn what_every_process_has_is_missed_by_its_name() {
    if !root("hiding /proc and /dev") {
        return;
    }
    let command = env!("CARGO_BIN_EXE_coldpress");
    for (hide, word, mend) in [
        (
            "mount -t tmpfs none /proc",
            "/proc shows nothing",
            "mount -t proc",
        ),
        (
            "mount -t tmpfs none /dev",
            "/dev/null cannot be opened",
            "mknod",
        ),
        ("ulimit -n 9", "files can be opened", "ulimit -n"),
    ] {
        let script = format!("{hide} && exec {command} run --budget 64M -- /bin/true");
        let mut unshared = std::process::Command::new("unshare");
        let output = unshared.args(["-m", "sh", "-c", &script]).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(
            message.contains(word) && message.contains(mend),
            "{message}"
        );
    }
}
