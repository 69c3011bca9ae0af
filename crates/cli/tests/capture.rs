//! Promise: `coldpress capture` writes the pages of a live process that are worth compressing,
//! all of them and nothing else, and leaves nothing half-written.

use crate::common::{Directory, coldpress, coldpress_as_nobody, root, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PAGES: u64 = 1000;
const MAGIC: u64 = 0x00c0_1d9e_55a1_b2c3;

/// Of each five pages the first is zero and the second same-filled. The others begin with MAGIC
/// and their number; of these, every second one is read again and again.
const SUBJECT: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    enum { PAGES = 1000, WORDS = 512 };
    uint64_t *memory = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t page = 0; page < PAGES; page++)
        for (uint64_t word = 0; word < WORDS; word++)
            *(volatile uint64_t *)&memory[page * WORDS + word] =
                page % 5 == 0 ? 0 : page % 5 == 1 ? 0x0101010101010101 : word * 3 + page;
    for (uint64_t page = 0; page < PAGES; page++)
        if (page % 5 > 1) memory[page * WORDS] = 0x00c01d9e55a1b2c3, memory[page * WORDS + 1] = page;
    puts("ready");
    fflush(stdout);
    volatile uint64_t sum = 0;
    for (;;) {
        for (uint64_t page = 0; page < PAGES; page++)
            if (page % 2 == 0 && page % 5 > 1) sum += memory[page * WORDS];
        usleep(10000);
    }
}
"#;

/// The program, running; killed at the end.
struct Subject(Child);

impl Subject {
    fn start(directory: &Directory) -> Option<Self> {
        let program = directory.compile("subject", SUBJECT, &[])?;
        let mut child = Command::new(program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        // Fresh pages wait for a moment until the kernel lists them.
        std::thread::sleep(Duration::from_millis(100));
        Some(Self(child))
    }

    fn capture(&self, file: &Path, options: &[&str]) -> Output {
        let mut command = coldpress();
        command.arg("capture").arg(self.0.id().to_string());
        command.arg("-o").arg(file).args(options);
        command.output().unwrap()
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Numbers of the subject's pages in a file. No page may be same-filled.
fn numbers(file: &Path) -> Vec<u64> {
    let bytes = fs::read(file).unwrap();
    assert_eq!(bytes.len() % 4096, 0);
    let mut numbers = Vec::new();
    for page in bytes.chunks(4096) {
        let words: Vec<u64> = page
            .chunks(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert!(
            words.iter().any(|word| *word != words[0]),
            "a same-filled page was written"
        );
        if words[0] == MAGIC {
            assert!((2..512).all(|at| words[at as usize] == at * 3 + words[1]));
            numbers.push(words[1]);
        }
    }
    numbers
}

fn distinct() -> Vec<u64> {
    (0..PAGES).filter(|page| page % 5 > 1).collect()
}

#[test]
fn every_page_is_captured_once_and_same_filled_ones_are_counted() {
    let directory = Directory::new("capture-all");
    let Some(subject) = Subject::start(&directory) else {
        return;
    };
    let file = directory.path("all.pages");
    let output = subject.capture(&file, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "", "progress is for terminals");
    assert_eq!(numbers(&file), distinct(), "in the order of addresses");
    let text = stdout(&output);
    let count = |word: &str| -> u64 {
        let (before, _) = text
            .split_once(word)
            .unwrap_or_else(|| panic!("{word}: {text}"));
        before
            .rsplit(' ')
            .next()
            .unwrap()
            .replace(',', "")
            .parse()
            .unwrap()
    };
    assert!(
        count(" zero") >= PAGES / 5 && count(" otherwise same-filled") >= PAGES / 5,
        "{text}"
    );
    assert!(!crate::common::exists(&directory.path("all.pages.partial")));
    // What was left out stands beside it.
    let note = |name: &str| -> Value {
        let text = fs::read_to_string(directory.path(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let told = note("all.pages.json");
    assert_eq!(told["zero_pages"], count(" zero"));
    assert_eq!(told["same_filled_pages"], count(" otherwise same-filled"));
    assert_eq!(told["written_pages"], told["content_pages"]);
    assert_eq!(
        told["written_pages"],
        fs::metadata(&file).unwrap().len() / 4096
    );
    assert!(told["inactive_ms"].is_null());

    let limited = directory.path("limited.pages");
    let output = subject.capture(&limited, &["--limit", "400K"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(fs::metadata(&limited).unwrap().len(), 400 << 10);
    let sample = numbers(&limited);
    assert!(
        sample.first() < Some(&100) && sample.last() > Some(&900),
        "{sample:?}"
    );
    assert!(stdout(&output).contains("beyond the limit"));
    let told = note("limited.pages.json");
    assert_eq!(told["written_pages"], 100);
    assert!(told["content_pages"].as_u64() >= Some(PAGES * 3 / 5));
}

/// In one test, since there is one DAMON in a system.
#[test]
fn inactive_pages_are_those_that_nobody_touches() {
    if !root("--inactive") {
        return;
    }
    let directory = Directory::new("capture-inactive");
    let Some(mut subject) = Subject::start(&directory) else {
        return;
    };
    let file = directory.path("cold.pages");
    let output = subject.capture(&file, &["--inactive", "500ms"]);
    let message = stderr(&output);
    if message.contains("cannot tell which pages are touched") {
        assert_eq!(output.status.code(), Some(125));
        assert!(!crate::common::exists(&file) && message.lines().count() == 1);
        eprintln!("SKIPPED: inactive pages: {message}");
        return;
    }
    assert!(output.status.success(), "{message}");
    let untouched: BTreeSet<u64> = distinct()
        .into_iter()
        .filter(|page| page % 2 == 1)
        .collect();
    let found: BTreeSet<u64> = numbers(&file).into_iter().collect();
    assert!(
        found.is_subset(&untouched),
        "{:?}",
        found.difference(&untouched)
    );
    let missing = untouched.len() - found.len();
    assert!(
        missing <= untouched.len() / 4,
        "{missing} untouched pages were not found"
    );

    // Ended by a signal in the middle: nothing is left, neither file nor DAMON's settings.
    let mut interrupted = coldpress()
        .args([
            "capture",
            &subject.0.id().to_string(),
            "--inactive",
            "60s",
            "-o",
        ])
        .arg(directory.path("never.pages"))
        .spawn()
        .unwrap();
    let partial = directory.path("never.pages.partial");
    while !crate::common::exists(&partial) {
        assert_eq!(interrupted.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(700));
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(interrupted.id().cast_signed(), libc::SIGINT) };
    assert_eq!(interrupted.wait().unwrap().signal(), Some(libc::SIGINT));
    assert!(
        !crate::common::exists(&partial) && !crate::common::exists(&directory.path("never.pages"))
    );
    let damon = fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").unwrap();
    assert_eq!(damon.trim(), "0");

    // The process ends in the middle.
    let mut cut = coldpress()
        .args([
            "capture",
            &subject.0.id().to_string(),
            "--inactive",
            "1s",
            "-o",
        ])
        .arg(directory.path("cut.pages"))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let partial = directory.path("cut.pages.partial");
    while !crate::common::exists(&partial) {
        assert_eq!(cut.try_wait().unwrap(), None);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    subject.0.kill().unwrap();
    subject.0.wait().unwrap();
    let output = cut.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("ended while it was captured"),
        "{}",
        stderr(&output)
    );
    assert!(!crate::common::exists(&directory.path("cut.pages.partial")));
}

#[test]
fn what_cannot_be_captured_is_refused_in_one_line() {
    let directory = Directory::new("capture-refused");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let own = std::process::id().to_string();
    let gone = ended.id().to_string();
    let file = directory.path("x.pages");
    let file = file.to_str().unwrap();
    let nowhere = directory.path("no/x.pages");
    for (arguments, words) in [
        (
            ["capture", "0", "-o", file],
            "cannot read \"0\" as a process id",
        ),
        (["capture", "-1", "-o", file], "-1"),
        (["capture", &gone, "-o", file], "there is no process"),
        (["capture", "4294967295", "-o", file], "there is no process"),
        (
            ["capture", &own, "-o", nowhere.to_str().unwrap()],
            "cannot write",
        ),
        (["capture", &own, "-o", "/proc/x"], "cannot write /proc/x"),
        (["capture", &own, "-o", "/tmp"], "cannot write /tmp"),
    ] {
        let output = coldpress().args(arguments).output().unwrap();
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
        assert!(words == "-1" || message.lines().count() == 1, "{message}");
        assert_eq!(stdout(&output), "");
    }
    assert!(!crate::common::exists(Path::new(file)));
}

/// Story: `capture -o /dev/stdout > FILE` wrote a line of text among the pages, and left `/dev/stdout.json` behind.
#[test]
fn standard_output_by_any_name_holds_pages_only() {
    let directory = Directory::new("capture-output");
    let Some(subject) = Subject::start(&directory) else {
        return;
    };
    for name in ["-", "/dev/stdout", "/dev/fd/1"] {
        let file = directory.path("stdout.pages");
        let mut command = coldpress();
        command.args(["capture", &subject.0.id().to_string(), "-o", name]);
        let output = command.stdout(fs::File::create(&file).unwrap()).output();
        let output = output.unwrap();
        let message = stderr(&output);
        assert!(output.status.success(), "{name}: {message}");
        assert_eq!(numbers(&file), distinct(), "{name}");
        assert!(
            message.contains(" private anonymous pages of process "),
            "{name}: {message}"
        );
        assert!(!Path::new(&format!("{name}.json")).exists(), "{name}.json");
    }
}

#[test]
fn another_users_process_is_refused() {
    if !root("another user's process") {
        return;
    }
    let directory = Directory::new("capture-nobody");
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let output = coldpress_as_nobody(&directory)
        .args(["capture", &sleeper.id().to_string(), "-o"])
        .arg("/tmp/coldpress-test-nobody.pages")
        .output();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let output = output.unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{message}");
    assert!(
        message.contains("cannot read the memory") && message.contains("sudo"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(!crate::common::exists(Path::new(
        "/tmp/coldpress-test-nobody.pages"
    )));
}
