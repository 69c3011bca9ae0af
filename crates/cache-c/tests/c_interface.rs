//! The C interface, by C programs that are compiled against the headers and the static library: all
//! calls by the names of seed 004, and of LazyFree as it is today; misuse aborts with a message.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The static library of this build, which lies beside the test or above it.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = "libcoldpress_cache_c.a";
    let found = test.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    let mut newest: Vec<PathBuf> = found.filter(|path| path.exists()).collect();
    newest.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    newest
        .pop()
        .expect("the static library is built with the test")
}

fn compile(source: &str, include: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "-"));
    let compiler = std::env::var("CC").unwrap_or("cc".into());
    let made = Command::new(&compiler)
        .args([
            "-std=gnu11",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-I",
        ])
        .arg(root.join(include))
        .arg(root.join("tests/c").join(source))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program)
        .output();
    let Ok(made) = made else {
        println!("SKIPPED: there is no C compiler `{compiler}`");
        assert!(
            std::env::var_os("COLDPRESS_FORBID_SKIPS").is_none_or(|v| v != "1"),
            "skipped and COLDPRESS_FORBID_SKIPS=1"
        );
        return None;
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(program)
}

fn run(program: &Path, argument: Option<&str>) -> Output {
    Command::new(program).args(argument).output().unwrap()
}

fn passes(program: &Path) {
    let output = run(program, None);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.ends_with("all passed\n"), "{text}");
}

#[test]
fn the_interface_of_the_seed() {
    let Some(program) = compile("lazyfree.c", "include") else {
        return;
    };
    passes(&program);
    let mistakes = [
        ("double-lock", "already"),
        ("double-upgrade", "already"),
        ("unlock-without-lock", "no page locked"),
        ("drop-without-lock", "never taken"),
        ("drop-upgraded", "upgraded"),
        ("lock-of-another-cache", "not one of this cache"),
        ("free-while-locked", "still locked"),
        ("null-cache", "NULL"),
        ("entry-too-large", "does not fit"),
        ("no-capacity", "holds no page"),
    ];
    for (mistake, message) in mistakes {
        let output = run(&program, Some(mistake));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.signal(),
            Some(libc::SIGABRT),
            "{mistake}: {errors}"
        );
        assert!(errors.contains(message), "{mistake}: {errors}");
        assert!(output.stdout.is_empty(), "{mistake} went on");
    }
}

#[test]
fn the_interface_of_upstream() {
    if let Some(program) = compile("upstream.c", "include/upstream") {
        passes(&program);
    }
}
