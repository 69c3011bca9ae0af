//! `coldpress estimate` on a program whose content and use are known.

use crate::common::{
    Directory, Managed, NOBODY, coldpress, coldpress_as_nobody, root, start_time, stderr, stdout,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// MiB of its parts.
const HOT: f64 = 16.0;
const TEXT: f64 = 32.0;
const ZEROS: f64 = 16.0;
const NOISE: f64 = 16.0;
const ALL: f64 = HOT + TEXT + ZEROS + NOISE;

/// 16 MiB of text that is used all the time, 32 that are not, 16 of zeros, 16 of noise. With an argument it ends after so
/// many milliseconds, by status 7.
const PARTS: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static uint8_t *part(size_t mib) {
    /* The unused part in front keeps the kernel from joining it with another. */
    uint8_t *at = mmap(0, (mib + 1) << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at += 1 << 20;
    mprotect(at, mib << 20, PROT_READ | PROT_WRITE);
    madvise(at, mib << 20, MADV_NOHUGEPAGE);
    return at;
}
static uint64_t state = 7;
static uint64_t next(void) {
    state ^= state << 13; state ^= state >> 7; state ^= state << 17;
    return state;
}
static void text_of(uint8_t *at, size_t mib) {
    for (size_t n = 0; n < mib << 20; n += 16) {
        uint64_t number = next();
        const char *word[] = {"delivery: ", "customer: ", "received: ", "position: "};
        memcpy(at + n, word[number % 4], 10);
        for (int d = 10; d < 15; d++, number /= 16) at[n + d] = '0' + number / 4 % 10;
        at[n + 15] = '\n';
    }
}
int main(int argc, char **argv) {
    volatile uint8_t *hot = part(16);
    uint8_t *text = part(32), *zeros = part(16), *noise = part(16);
    text_of((uint8_t *)hot, 16);
    text_of(text, 32);
    for (size_t n = 0; n < 16 << 20; n += 4096) ((volatile uint8_t *)zeros)[n] = 0;
    for (size_t n = 0; n < 16 << 20; n += 8) *(uint64_t *)(noise + n) = next();
    printf("filled\n");
    fflush(stdout);
    long rounds = argc > 1 ? atol(argv[1]) / 20 : -1;
    for (; rounds; rounds -= rounds > 0) {
        for (size_t n = 0; n < 16 << 20; n += 4096) hot[n] ^= 1;
        usleep(20000);
    }
    return 7;
}
"#;

/// The program, until it is dropped.
struct Parts(Child);

impl Parts {
    /// Starts it, as a user; `None`, loudly, where that cannot be.
    fn start(directory: &Directory, user: Option<u32>, arguments: &[&str]) -> Option<Self> {
        let program = directory.compile("parts", PARTS, &[])?;
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.as_mut().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "filled\n");
        Some(Self(child))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn estimate(command: &mut Command, arguments: &[&str]) -> Output {
    command.arg("estimate").args(arguments).output().unwrap()
}

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn mib(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}")) / f64::from(1 << 20)
}

fn between(what: &str, value: f64, least: f64, most: f64) {
    assert!(
        (least..most).contains(&value),
        "{what}: {value}, not from {least} to {most}"
    );
}

/// What follows from the content alone.
fn check_content(found: &Value) {
    between("native", mib(&found["native_bytes"]), ALL, ALL + 4.0);
    between(
        "manageable",
        mib(&found["manageable_bytes"]),
        ALL - 0.1,
        ALL + 1.0,
    );
    let share = |key: &str| found["content"][key].as_f64().unwrap();
    between(
        "zeros",
        share("zero_share"),
        ZEROS / ALL - 0.02,
        ZEROS / ALL + 0.02,
    );
    between(
        "noise",
        share("incompressible_share"),
        NOISE / ALL - 0.02,
        NOISE / ALL + 0.02,
    );
    assert_eq!(share("same_filled_share"), 0.0);
    // Ten of sixteen bytes are one of four words; five digits of ten kinds are 17 bits.
    between("text", share("stored_page_bytes"), 600.0, 2600.0);
    between("packing", share("packing"), 1.0, 1.1);
}

/// What follows from content and use.
fn check_held(found: &Value) {
    let expected = &found["by_default"];
    between(
        "in use",
        mib(&expected["resident_bytes"]),
        HOT - 0.2,
        HOT + 1.0,
    );
    let ratio = found["content"]["stored_page_bytes"].as_f64().unwrap() / 4096.0;
    let held = HOT + TEXT * ratio + NOISE + mib(&found["overhead_bytes"]);
    between(
        "held",
        mib(&expected["held_bytes"]),
        held * 0.95,
        held * 1.05 + 1.0,
    );
    let saved = mib(&found["native_bytes"]) - mib(&expected["held_bytes"]);
    between(
        "saved",
        mib(&expected["saved_bytes"]),
        saved - 0.1,
        saved + 0.1,
    );
    assert!(expected["least_bytes"].as_u64() <= expected["held_bytes"].as_u64());
    assert!(expected["held_bytes"].as_u64() <= expected["most_bytes"].as_u64());
    between("back", expected["refaults_s"].as_f64().unwrap(), 0.0, 50.0);
    let budget = mib(&found["suggested_budget_bytes"]);
    between("budget", budget, mib(&expected["held_bytes"]), ALL);
}

#[test]
fn what_is_used_and_what_is_not_is_seen_by_soft_means() {
    let directory = Directory::new("estimate-soft");
    let Some(parts) = Parts::start(&directory, None, &[]) else {
        return;
    };
    let pid = parts.pid();
    let before = start_time(parts.0.id());
    let options = [
        "--ages",
        "clear-refs",
        "--watch",
        "3s",
        "--json",
        "--budget",
        "40M",
        &pid,
    ];
    let found = parsed(&estimate(&mut coldpress(), &options));
    check_content(&found);
    check_held(&found);
    assert_eq!(found["ages"]["means"], "clear-refs");
    assert_eq!(found["budgets"][0]["budget_bytes"], 40 << 20);
    assert_eq!(start_time(parts.0.id()), before);
    let text = stdout(&estimate(
        &mut coldpress(),
        &["--ages", "clear-refs", "--watch", "1s", &pid],
    ));
    for words in [
        "of private anonymous memory",
        "UNTOUCHED FOR",
        " or more ",
        "least possible",
        "clear_refs",
        "coldpress run -- ",
        "not managed",
    ] {
        assert!(
            text.contains(words) || words.starts_with("coldpress"),
            "{words}: {text}"
        );
    }
    assert!(
        text.contains(" run -- ") && text.contains("/parts"),
        "{text}"
    );
}

#[test]
fn the_same_is_seen_by_damon() {
    if !root("DAMON") {
        return;
    }
    let directory = Directory::new("estimate-damon");
    let Some(parts) = Parts::start(&directory, None, &[]) else {
        return;
    };
    let options = ["--ages", "damon", "--watch", "4s", "--json", &parts.pid()];
    let output = estimate(&mut coldpress(), &options);
    if stderr(&output).contains("cannot tell which pages are touched") {
        assert!(stderr(&output).contains("--ages clear-refs"));
        eprintln!("SKIPPED: {}", stderr(&output));
        return;
    }
    let found = parsed(&output);
    check_content(&found);
    let in_use = mib(&found["by_default"]["resident_bytes"]);
    // A sample of 8,192 of 20,480 pages.
    between("in use", in_use, HOT * 0.93, HOT * 1.1);
    let count = std::fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds");
    assert_eq!(count.unwrap().trim(), "0", "it is taken down");
}

#[test]
fn without_a_look_at_ages_only_the_bounds_are_told() {
    let directory = Directory::new("estimate-none");
    let Some(parts) = Parts::start(&directory, None, &[]) else {
        return;
    };
    let found = parsed(&estimate(
        &mut coldpress(),
        &["--ages", "none", "--json", &parts.pid()],
    ));
    check_content(&found);
    assert!(found["by_default"].is_null() && found["suggested_budget_bytes"].is_null());
    let ratio = found["content"]["stored_page_bytes"].as_f64().unwrap() / 4096.0;
    let anew = found["content"]["anew"].as_f64().unwrap_or(1.0);
    let least = (HOT + TEXT) * ratio * anew + NOISE;
    between(
        "least",
        mib(&found["least_possible"]["held_bytes"]),
        least,
        least * 1.1 + 3.0,
    );
    let text = stdout(&estimate(
        &mut coldpress(),
        &["--ages", "none", &parts.pid()],
    ));
    assert!(text.contains("which pages are used is not known"), "{text}");
}

/// The command to try had no options but a budget: it ran with another codec than was estimated, or with the budget and
/// the cold age of the environment.
#[test]
fn the_command_to_try_runs_what_was_estimated() {
    let directory = Directory::new("estimate-try");
    let Some(parts) = Parts::start(&directory, None, &[]) else {
        return;
    };
    let mut command = coldpress();
    command
        .env("COLDPRESS_CODEC", "zstd:1")
        .env("COLDPRESS_BUDGET", "64M")
        .env("COLDPRESS_COLD_AFTER", "30s");
    let options = ["--ages", "none", "--storage", "size-class", &parts.pid()];
    let text = stdout(&estimate(&mut command, &options));
    for words in [
        "(zstd:1, size-class)",
        "--budget 64M ",
        " run --storage size-class --budget none --cold-after auto -- ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // As run refuses it.
    let mut command = coldpress();
    command.env("COLDPRESS_TUNE", "strategy=lzo");
    let twice = estimate(&mut command, &["--codec", "lz4", &parts.pid()]);
    assert_eq!(twice.status.code(), Some(125));
    assert!(
        stderr(&twice).contains("--tune: --codec says what that is"),
        "{}",
        stderr(&twice)
    );
}

/// `--all` reads pages of every process of nobody, which sets their accessed bits: the tests of nobody's take turns.
static NOBODYS: Mutex<()> = Mutex::new(());

#[test]
fn an_ordinary_user_sees_the_own_processes_and_no_others() {
    if !root("dropping privileges") {
        return;
    }
    let _turn = NOBODYS.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Directory::new("estimate-nobody");
    let Some(parts) = Parts::start(&directory, Some(NOBODY), &[]) else {
        return;
    };
    let options = ["--watch", "2s", "--json", &parts.pid()];
    let found = parsed(&estimate(&mut coldpress_as_nobody(&directory), &options));
    check_content(&found);
    assert_eq!(found["ages"]["means"], "clear-refs");
    between(
        "in use",
        mib(&found["by_default"]["resident_bytes"]),
        HOT - 0.2,
        HOT + 1.0,
    );
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let other = estimate(
        &mut coldpress_as_nobody(&directory),
        &[&sleeper.id().to_string()],
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(other.status.code(), Some(125));
    let message = stderr(&other);
    assert!(
        message.contains("cannot read the memory") && message.contains("sudo"),
        "{message}"
    );
    assert!(message.contains("estimate "), "{message}");
}

#[test]
fn a_process_that_ends_meanwhile_is_said_to_have_ended() {
    let directory = Directory::new("estimate-gone");
    let Some(parts) = Parts::start(&directory, None, &["400"]) else {
        return;
    };
    let options = ["--ages", "clear-refs", "--watch", "3s", &parts.pid()];
    // It is not reaped before the end: a process that has ended, and no other one.
    let output = estimate(&mut coldpress(), &options);
    assert_eq!(output.status.code(), Some(125), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("ended while it was watched"),
        "{}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "");
}

#[test]
fn what_cannot_be_estimated_is_called_what_it_is() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let sleeping = estimate(&mut coldpress(), &[&sleeper.id().to_string()]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let gone = sleeper.id().to_string();
    let gone = estimate(&mut coldpress(), &[&gone]);
    for (output, words) in [
        (&sleeping, "nothing to estimate"),
        (&gone, "there is no process"),
    ] {
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(output).contains(words), "{}", stderr(output));
        assert_eq!(stderr(output).lines().count(), 1, "{}", stderr(output));
    }
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        let kernels = estimate(&mut coldpress(), &["2"]);
        assert_eq!(kernels.status.code(), Some(125));
        let message = stderr(&kernels);
        assert!(
            message.contains("belongs to the kernel") || message.contains("sudo"),
            "{message}"
        );
    }
    let nothing = estimate(&mut coldpress(), &[]);
    assert_eq!(nothing.status.code(), Some(125));
    // The budget was ignored.
    let all = estimate(&mut coldpress(), &["--all", "--budget", "1G"]);
    assert_eq!((all.status.code(), stdout(&all).as_str()), (Some(125), ""));
    let message = stderr(&all);
    assert!(
        message.contains("'--all' cannot be used with '--budget"),
        "{message}"
    );
}

#[test]
fn a_process_under_a_pager_is_left_to_status() {
    let directory = Directory::new("estimate-managed");
    let Some(managed) = Managed::start(&directory, &["-q"], &["32"]) else {
        return;
    };
    let mut command = coldpress();
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let output = estimate(&mut command, &[&managed.pid.to_string()]);
    assert_eq!(output.status.code(), Some(125));
    let message = stderr(&output);
    assert!(
        message.contains("runs under Coldpress already"),
        "{message}"
    );
    assert!(
        message.contains(&format!("status {}", managed.pid)),
        "{message}"
    );
}

/// As nobody: other processes of this machine are not to be looked at by a test.
#[test]
fn all_processes_that_hold_much_have_a_line() {
    if !root("dropping privileges") {
        return;
    }
    let _turn = NOBODYS.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Directory::new("estimate-all");
    let Some(parts) = Parts::start(&directory, Some(NOBODY), &[]) else {
        return;
    };
    let options = ["--all", "--watch", "1s"];
    let output = estimate(&mut coldpress_as_nobody(&directory), &options);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let line = text.lines().find(|line| line.contains(&parts.pid()));
    assert!(line.is_some_and(|line| line.contains("parts")), "{text}");
    let json = [&options[..], &["--json"]].concat();
    let found = parsed(&estimate(&mut coldpress_as_nobody(&directory), &json));
    let all = found.as_array().unwrap();
    check_content(all.iter().find(|one| one["pid"] == parts.0.id()).unwrap());
    let own = |one: &Value| one["pid"].as_u64() == Some(std::process::id().into());
    assert!(!all.iter().any(own), "root's");
}

#[test]
fn a_program_runs_as_it_is_and_is_told_of_at_its_end() {
    let directory = Directory::new("estimate-program");
    let Some(program) = directory.compile("parts", PARTS, &[]) else {
        return;
    };
    let stats = directory.path("stats.json");
    let svg = directory.path("ages.svg");
    let mut command = coldpress();
    command
        .args(["estimate", "--watch", "2s", "--stats"])
        .arg(&stats)
        .arg("--svg")
        .arg(&svg);
    let output = command.arg("--").arg(program).arg("6000").output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the program's own");
    assert_eq!(stdout(&output), "filled\n", "the program's own");
    let message = stderr(&output);
    assert!(message.contains("parts: would have held"), "{message}");
    assert!(
        message.contains("to try: ") && message.contains(" run -- "),
        "{message}"
    );
    let found: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    assert_eq!(found["exit_status"], 7);
    let stretches = found["stretches"].as_array().unwrap();
    assert!(stretches.len() >= 2, "{found}");
    check_content(&stretches.last().unwrap()["process"]);
    between(
        "average",
        mib(&found["average_native_bytes"]),
        ALL * 0.5,
        ALL + 4.0,
    );
    assert!(std::fs::read_to_string(&svg).unwrap().contains("</svg>"));
}

/// It waited for ever, with all signals blocked.
#[test]
fn figures_that_nobody_reads_do_not_keep_it_from_ending() {
    let directory = Directory::new("estimate-fifo");
    let fifo = directory.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut command = coldpress();
    command.args(["estimate", "--stats"]).arg(&fifo);
    let output = command.args(["--", "sh", "-c", "exit 7"]).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "the program's own");
    assert!(stderr(&output).contains("--stats: "), "{}", stderr(&output));
}

#[test]
fn nothing_is_put_into_a_program_and_signals_reach_it() {
    let shown = "env | grep ^_COLDPRESS; echo \"$LD_PRELOAD\"; trap 'exit 9' TERM; echo ready; \
                 for n in 1 2 3 4 5 6 7 8 9; do sleep 0.3; done";
    let mut command = coldpress();
    command.args(["estimate", "--", "sh", "-c", shown]);
    let mut run = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "");
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    // SAFETY: our own child, which is not reaped yet.
    unsafe { libc::kill(run.id().cast_signed(), libc::SIGTERM) };
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("nothing to tell"),
        "{}",
        stderr(&output)
    );
    let missing = coldpress()
        .args(["estimate", "--", "no-such-program-xyz"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

/// 4 MiB more each 100 ms, as many times as the argument says.
const GROWING: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
static uint64_t state = 7;
int main(int argc, char **argv) {
    for (int round = atoi(argv[1]); round > 0; round--) {
        uint64_t *at = malloc(4 << 20);
        for (size_t n = 0; n < (4 << 20) / 8; n++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            at[n] = state >> 50;
        }
        usleep(100000);
    }
    return 0;
}
"#;

/// A program that reads its data was foretold 139 % of a CPU, where a run took 6 %: pages that it filled for the
/// first time were taken for ones that come back.
#[test]
fn a_program_that_fills_memory_is_not_taken_for_one_that_refaults() {
    let directory = Directory::new("estimate-growing");
    let Some(program) = directory.compile("growing", GROWING, &["-O1"]) else {
        return;
    };
    let stats = directory.path("stats.json");
    let mut command = coldpress();
    command
        .args(["estimate", "--watch", "2s", "--stats"])
        .arg(&stats);
    let output = command.arg("--").arg(program).arg("60").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{found}"));
    // It fills 10,000 pages a second, half of the CPU by what a refault takes.
    between("back", number("average_refaults_s"), 0.0, 1_500.0);
    between("processor", number("average_processor_share"), 0.0, 0.2);
    assert!(number("average_native_bytes") > 20e6, "{found}");
}

/// Stories: a statically linked program that a shell starts was praised, with a command that runs it unmanaged; what nobody had
/// watched was told to cost nothing.
#[test]
fn what_run_would_not_manage_is_not_advised_and_what_was_not_watched_not_told() {
    let directory = Directory::new("estimate-unfit");
    let options = ["-O1", "-static"];
    let Some(program) = directory.compile("growing-static", GROWING, &options) else {
        return;
    };
    let stats = directory.path("stats.json");
    let mut command = coldpress();
    command.args(["estimate", "--ages", "none", "--watch", "1s", "--stats"]);
    command
        .arg(&stats)
        .args(["--", "sh", "-c", "\"$0\" 20; exit $?"]);
    command.arg(program);
    let output = command.output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{message}");
    assert!(
        message.contains("but run would not manage it: it is ")
            && message.contains("cost: not known")
            && !message.contains("to try"),
        "{message}"
    );
    let found: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
    for key in [
        "average_refaults_s",
        "average_processor_share",
        "suggested_budget_bytes",
    ] {
        assert!(found[key].is_null(), "{key}: {found}");
    }
}

#[test]
fn what_cannot_be_told_of_a_program_is_said_with_the_reason() {
    let directory = Directory::new("estimate-quick");
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
        char *volatile at;\n\
        int main(void) { at = malloc(4 << 20); memset(at, 1, 4 << 20); usleep(700000); return 3; }";
    let Some(quick) = directory.compile("quick", source, &[]) else {
        return;
    };
    let quick = coldpress()
        .args(["estimate", "--"])
        .arg(quick)
        .output()
        .unwrap();
    assert_eq!(quick.status.code(), Some(3));
    let message = stderr(&quick);
    assert!(
        message.contains("quick runs natively; the estimate comes when it ends")
            && message.contains("nothing to tell: it ended after")
            && message.contains("before the first look of 1.0 s was over"),
        "{message}"
    );
    let small = coldpress()
        .args(["estimate", "--for", "1s", "--", "sleep", "1"])
        .output()
        .unwrap();
    let message = stderr(&small);
    assert!(
        message.contains("the estimate comes after 1.0 s, or when it ends")
            && message.contains("it held less than 1.0 MiB of private anonymous memory"),
        "{message}"
    );
}

/// What is printed for programs has each key in docs/cli.md.
#[test]
fn every_key_is_documented() {
    let directory = Directory::new("estimate-keys");
    let Some(parts) = Parts::start(&directory, None, &[]) else {
        return;
    };
    let options = [
        "--ages",
        "clear-refs",
        "--watch",
        "1s",
        "--json",
        &parts.pid(),
    ];
    let found = parsed(&estimate(&mut coldpress(), &options));
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let documents = std::fs::read_to_string(documents).unwrap();
    let mut keys = BTreeSet::new();
    collect(&found, &mut keys);
    assert!(keys.len() > 30, "{keys:?}");
    let missing: Vec<_> = keys
        .iter()
        .filter(|key| !documents.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn collect(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => object.iter().for_each(|(key, value)| {
            keys.insert(key.clone());
            collect(value, keys);
        }),
        Value::Array(all) => all.iter().for_each(|value| collect(value, keys)),
        _ => {}
    }
}
