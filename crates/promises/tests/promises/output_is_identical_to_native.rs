//! Real programs give, byte for byte, what they give natively, in 65 % of the private anonymous
//! memory they took natively. The figures are printed (`--nocapture` shows them).

use coldpress_promises::workload::Workload;
use coldpress_promises::{Workplace, skip, workplace};
use std::path::PathBuf;
use std::process::Command;

const PYTHON: &str = "/usr/bin/python3";

fn python(name: &'static str, script: &str, arguments: &[&str]) -> Workload {
    let mut words = vec![workplace::source(script).display().to_string()];
    words.extend(arguments.iter().map(|a| a.to_string()));
    Workload {
        name,
        program: PYTHON.into(),
        arguments: words,
        result: None,
    }
}

#[test]
fn cpython_dictionaries_and_json() {
    if skip::root_or_skip() && skip::installed_or_skip(PYTHON, "python3") {
        let place = Workplace::new("json");
        python("CPython, dicts and JSON", "json_dicts.py", &["1", "60000"]).compare(&place);
    }
}

#[test]
fn numpy_columns() {
    if !skip::root_or_skip() || !skip::installed_or_skip(PYTHON, "python3") {
        return;
    }
    let numpy = Command::new(PYTHON).args(["-c", "import numpy"]).output();
    if !numpy.is_ok_and(|o| o.status.success()) {
        skip::skipped("numpy is missing (apt-get install python3-numpy)");
        return;
    }
    let place = Workplace::new("numpy");
    python("NumPy, columns", "numpy_columns.py", &["2", "5500"]).compare(&place);
}

#[test]
fn threaded_stress() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("stress");
    let arguments = ["3", "3", "128", "0", "40000"].map(String::from);
    Workload {
        name: "stress, 3 threads",
        program: place.compile("stress"),
        arguments: arguments.into(),
        result: None,
    }
    .compare(&place);
}

/// `g++` executes the compiler proper, `cc1plus`, as a child: that is the program to run.
#[test]
fn cc1plus_heavy_templates() {
    if !skip::root_or_skip() || !skip::installed_or_skip("/usr/bin/g++", "g++") {
        return;
    }
    let place = Workplace::new("cc1plus");
    let gxx = |arguments: &[&str]| {
        let output = Command::new("g++").args(arguments).output().expect("g++");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let source = workplace::source("heavy_templates.cpp")
        .display()
        .to_string();
    let preprocessed = place.path("heavy_templates.ii").display().to_string();
    gxx(&["-E", "-O1", &source, "-o", &preprocessed]);
    let arguments = ["-quiet", "-O1", &preprocessed, "-o", "out.s"].map(String::from);
    Workload {
        name: "cc1plus, heavy templates",
        program: PathBuf::from(gxx(&["-print-prog-name=cc1plus"])),
        arguments: arguments.into(),
        result: Some("out.s"),
    }
    .compare(&place);
}
