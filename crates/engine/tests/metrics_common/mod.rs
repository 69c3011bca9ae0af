//! A C compiler, where there is one.
#![allow(dead_code, reason = "each test file uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of this package.
pub fn package(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)
}

/// Whether there is a C compiler; says so loudly where there is none. With
/// `COLDPRESS_FORBID_SKIPS=1` that is a failure.
pub fn cc_or_skip() -> bool {
    let found = Command::new("cc").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    eprintln!("SKIPPED: {test}: cc is missing (apt-get install gcc)");
    assert!(
        std::env::var_os("COLDPRESS_FORBID_SKIPS").is_none_or(|v| v != "1"),
        "{test} was skipped (no cc) and COLDPRESS_FORBID_SKIPS=1"
    );
    false
}

/// Compiles a C program, every warning an error. `name` is nobody else's.
pub fn compile(name: &str, source: &Path, more: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(more)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} does not compile: {errors}");
    program
}
