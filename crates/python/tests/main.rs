//! The module's tests are Python's (`test_*.py`): this lays the built module where an interpreter finds it, and runs them.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The interpreter of the distribution, which has what `cargo xtask test` installs (numpy).
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn the_module_keeps_its_promises() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !Path::new(PYTHON).exists() {
        println!("SKIPPED: {PYTHON} is missing (apt-get install python3)");
        return;
    }
    // Beside the directory of this test: cargo builds the library of the package with its tests.
    let test = env::current_exe().expect("a path");
    let built = test.parent().expect("deps").join("libcoldpress_python.so");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    fs::create_dir_all(&directory).expect("a directory below target");
    let module = directory.join("coldpress.abi3.so");
    let _ = fs::remove_file(&module);
    fs::copy(&built, &module).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    let mut python = Command::new(PYTHON);
    python.args([
        "-B", "-W", "error", "-m", "unittest", "discover", "-v", "-s",
    ]);
    python.arg(here.join("tests")).env("PYTHONPATH", &directory);
    let output = python.output().expect("an interpreter");
    let text = String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    for line in text.lines().filter(|line| line.contains("skipped '")) {
        println!("SKIPPED: {line}");
    }
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("Ran 0 tests"), "{text}");
}
