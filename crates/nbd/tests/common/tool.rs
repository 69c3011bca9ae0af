//! Running clients that Debian has.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Says that a test proves nothing here. With `COLDPRESS_FORBID_SKIPS=1` that is a failure.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    eprintln!("SKIPPED: {test}: {why}");
    assert!(
        std::env::var_os("COLDPRESS_FORBID_SKIPS").is_none_or(|value| value != "1"),
        "{test} was skipped ({why}) and COLDPRESS_FORBID_SKIPS=1"
    );
}

/// The package of a program.
fn package(program: &str) -> &'static str {
    match program {
        "qemu-img" | "qemu-io" | "qemu-nbd" => "qemu-utils",
        "nbdinfo" | "nbdcopy" => "libnbd-bin",
        "nbdkit" => "nbdkit",
        "fio" => "fio",
        other => panic!("{other} is of no package that is known"),
    }
}

/// Whether these programs are there; says so loudly where one is not.
pub fn installed_or_skip(programs: &[&str]) -> bool {
    for program in programs {
        let found = ["/usr/bin", "/usr/sbin", "/bin"]
            .iter()
            .any(|directory| Path::new(directory).join(program).exists());
        if !found {
            skipped(&format!(
                "{program} is missing (apt-get install {})",
                package(program)
            ));
            return false;
        }
    }
    true
}

fn command(line: &[&str]) -> Command {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).stdin(Stdio::null());
    command
}

/// Starts a program.
pub fn start(line: &[&str]) -> Child {
    let mut command = command(line);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Runs a program to its end.
pub fn run(line: &[&str]) -> Output {
    // What takes longer than that hangs.
    command(&[&["timeout", "120"], line].concat())
        .output()
        .unwrap()
}

/// Runs a program, which must succeed; gives what it printed.
pub fn succeeds(line: &[&str]) -> String {
    let output = run(line);
    let (printed, said) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{line:?}: {}\n{printed}\n{said}",
        output.status
    );
    printed.into_owned()
}

/// Runs a program, which must fail; gives what it said.
pub fn fails(line: &[&str]) -> String {
    let output = run(line);
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(!output.status.success(), "{line:?} succeeded\n{said}");
    assert_ne!(output.status.code(), Some(124), "{line:?} hung\n{said}");
    said
}

/// Bytes of no pattern, the same for the same seed, with a stretch of zeros in the middle.
pub fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut word = seed | 1;
    let mut content: Vec<u8> = std::iter::repeat_with(|| {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (word >> 56) as u8
    })
    .take(bytes)
    .collect();
    content[bytes / 3..bytes / 2].fill(0);
    content
}
