//! Promise: `doctor` names the tier, its exit status says whether `run` would start a program, and an inherited
//! descriptor of `/dev/userfaultfd` is as good as privilege.

use crate::common::{Directory, coldpress, coldpress_as_nobody, root, stdout};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

fn json(command: &mut Command) -> (Option<i32>, Value) {
    let output = command.args(["doctor", "--json"]).output().unwrap();
    (
        output.status.code(),
        serde_json::from_str(&stdout(&output)).unwrap(),
    )
}

fn everybody_may() -> bool {
    let text = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    text.trim() == "1"
}

#[test]
fn the_exit_status_is_that_of_a_run() {
    let (code, value) = json(&mut coldpress());
    let full = value["tier"] == "full";
    let works = value["run_works"] == true;
    assert_eq!(code, Some(if works { 0 } else { 125 }));
    assert!(full || !works);
    assert_eq!(value["refusals"].as_array().unwrap().is_empty(), works);
    assert_eq!(
        value["missing"].as_array().unwrap().is_empty(),
        full,
        "{value}"
    );
    let output = coldpress().arg("doctor").output().unwrap();
    assert_eq!(output.status.code(), code);
    let text = stdout(&output);
    for word in [
        "verdict",
        "tier",
        "kernel",
        "glibc",
        "/dev/userfaultfd",
        "CAP_SYS_PTRACE",
        "seccomp",
        "PAGEMAP_SCAN",
        "memory",
        "user",
        "/proc/pressure/memory",
        "pager's library",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// `doctor` praised the machine where `run` refused: there was no library, or one that the loader cannot load.
#[test]
fn run_and_doctor_agree_about_the_library() {
    if !crate::common::full_tier("what a run is refused for") {
        return;
    }
    let directory = Directory::new("agree");
    for library in [
        directory.path("absent.so"),
        directory.file("text.so", b"text", 0o755),
    ] {
        let library = library.to_str().unwrap();
        both_refuse(&[("COLDPRESS_PRELOAD_LIBRARY", library)]);
    }
}

/// Asserts that `run` refuses with these variables, and `doctor` foretells it in the same words.
fn both_refuse(variables: &[(&str, &str)]) {
    let with = |arguments: &[&str]| {
        let mut command = coldpress();
        command.args(arguments).envs(variables.iter().copied());
        command.output().unwrap()
    };
    let run = with(&["run", "-q", "--", "sh", "-c", "echo ran"]);
    let doctor = with(&["doctor"]);
    assert_eq!(
        (run.status.code(), stdout(&run).as_str()),
        (Some(125), ""),
        "{variables:?}"
    );
    assert_eq!(doctor.status.code(), Some(125), "{variables:?}");
    let refusal = crate::common::stderr(&run);
    let refusal = refusal.trim_start_matches("coldpress: ");
    assert!(
        stdout(&doctor).contains(refusal),
        "{refusal}: {}",
        stdout(&doctor)
    );
    assert!(stdout(&doctor).contains("coldpress run will refuse"));
}

/// `doctor` called the machine ready where each run was refused for a setting of the environment.
#[test]
fn run_and_doctor_agree_about_settings() {
    if !crate::common::full_tier("what a run is refused for") {
        return;
    }
    let directory = Directory::new("agree-settings");
    let file = directory.path("figures");
    let one = file.to_str().unwrap();
    both_refuse(&[("COLDPRESS_STATS", one), ("COLDPRESS_TRACE", one)]);
    let absent = directory.path("absent/figures");
    let absent = absent.to_str().unwrap();
    both_refuse(&[("COLDPRESS_STATS", absent)]);
    both_refuse(&[("COLDPRESS_TRACE", absent)]);
    let long = directory.path(&"x".repeat(240));
    both_refuse(&[("COLDPRESS_TRACE", long.to_str().unwrap())]);
    both_refuse(&[
        ("COLDPRESS_CODEC", "lz4"),
        ("COLDPRESS_TUNE", "strategy=lzo"),
    ]);
    both_refuse(&[("COLDPRESS_TUNE", "lz4_acceleration=3")]);
    assert!(!file.exists() && !long.exists());
}

#[test]
fn root_has_the_full_tier() {
    if root("the tier of root") {
        let (_, value) = json(&mut coldpress());
        assert_eq!(value["tier"], "full", "{value}");
    }
}

#[test]
fn nobody_is_told_what_is_missing() {
    if !root("becoming a user without privilege") {
        return;
    }
    if everybody_may() {
        eprintln!("SKIPPED: vm.unprivileged_userfaultfd is 1, so every user has the full tier");
        return;
    }
    let directory = Directory::new("doctor");
    let (code, value) = json(&mut coldpress_as_nobody(&directory));
    assert_eq!(
        (code, &value["tier"]),
        (Some(125), &Value::from("user-mode-only")),
        "{value}"
    );
    assert!(value["missing"][0]["mends"].as_array().unwrap().len() >= 3);
    let output = coldpress_as_nobody(&directory)
        .arg("doctor")
        .output()
        .unwrap();
    let text = stdout(&output);
    assert!(
        text.contains("user-mode-only") && text.contains("udevadm") && text.contains("setcap"),
        "{text}"
    );
}

#[test]
fn an_inherited_descriptor_gives_nobody_the_full_tier() {
    if !root("handing a descriptor of /dev/userfaultfd to a user without privilege") {
        return;
    }
    let Ok(device) = fs::File::open("/dev/userfaultfd") else {
        eprintln!("SKIPPED: no /dev/userfaultfd");
        return;
    };
    if everybody_may() {
        eprintln!("SKIPPED: vm.unprivileged_userfaultfd is 1, so every user has the full tier");
        return;
    }
    let directory = Directory::new("inherit");
    for named in [false, true] {
        let mut command = coldpress_as_nobody(&directory);
        let number = crate::common::inherit(&mut command, &device);
        if named {
            command.env("COLDPRESS_DEVICE_FD", number.to_string());
        }
        let (code, value) = json(&mut command);
        let works = value["run_works"] == true;
        assert_eq!(code, Some(if works { 0 } else { 125 }), "{value}");
        assert_eq!(value["access"], "inherited_device", "{value}");
    }
}

#[test]
fn a_bad_descriptor_number_is_not_believed() {
    if !root("becoming a user without privilege") || everybody_may() {
        return;
    }
    let directory = Directory::new("badfd");
    for number in ["0", "1", "99", "-1", "x", "99999999999"] {
        let (code, value) =
            json(coldpress_as_nobody(&directory).env("COLDPRESS_DEVICE_FD", number));
        assert_eq!(
            (code, &value["access"]),
            (Some(125), &Value::Null),
            "{number}: {value}"
        );
    }
}

/// Before 6.8 there is no UFFDIO_MOVE: pinned pages could not be told apart. (The personality makes
/// the kernel call itself 2.6 for the process.)
#[test]
fn an_old_kernel_is_refused_by_name() {
    const UNAME26: libc::c_ulong = 0x0002_0000;
    let old = |arguments: &[&str]| {
        let mut command = coldpress();
        command.args(arguments);
        // SAFETY: personality is async-signal-safe.
        unsafe {
            command.pre_exec(|| match libc::personality(UNAME26) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        command.output().unwrap()
    };
    let doctor = old(&["doctor"]);
    let run = old(&["run", "--", "true"]);
    for (output, text) in [
        (&doctor, stdout(&doctor)),
        (&run, crate::common::stderr(&run)),
    ] {
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains("this kernel is Linux 2.6."), "{text}");
        assert!(
            text.contains("came with 6.8") && text.contains("boot Linux 6.8 or newer"),
            "{text}"
        );
    }
}
