//! The programs that a program starts are managed too, each with a budget of its own, and
//! none of them can tell.
//!
//! Seen to fail: with the library leaving the environment in all processes but the first, as with
//! `--no-follow`, no program that was started or forked is found among the managed ones.

use coldpress_interface::config;
use coldpress_promises::{Managed, Outcome, Workplace, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a shell script; what `--stats` says of all programs.
fn follow(place: &Workplace, budget: &str, script: &str) -> (Outcome, Value) {
    let file = place.path("follow.json");
    let directory = place.path("s");
    let managed =
        Managed::new(place).environment(config::STATISTICS_DIR, directory.to_str().unwrap());
    let outcome = managed.call(&[
        "run",
        "--budget",
        budget,
        "--stats",
        file.to_str().unwrap(),
        "--",
        "/bin/sh",
        "-c",
        script,
    ]);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    let json: Value = serde_json::from_str(&text).unwrap();
    (outcome, json["follow"].clone())
}

#[track_caller]
fn number(all: &Value, name: &str) -> u64 {
    all[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no {name} in {all:#}"))
}

/// The member of that name that had most evicted.
#[track_caller]
fn member<'a>(all: &'a Value, program: &str) -> &'a Value {
    let members = all["members"].as_array().unwrap();
    let named = members.iter().filter(|m| m["program"] == program);
    named
        .max_by_key(|m| m["evictions"].as_u64())
        .unwrap_or_else(|| panic!("{program} was not managed: {all:#}"))
}

fn why<'a>(all: &'a Value, program: &str) -> Option<&'a str> {
    let list = all["not_managed"].as_array().unwrap();
    let found = list.iter().find(|entry| entry["program"] == program);
    found.map(|entry| entry["why"].as_str().unwrap())
}

/// A static program that holds 8 MiB for two seconds, a third of the budget; `None` where it cannot be made.
fn idle(place: &Workplace, name: &str, bits: &str, linked: &str) -> Option<String> {
    let source = place.path(&format!("{name}.c"));
    // Nothing of a C library is needed, so that 32 bits need none.
    let text = match bits {
        "-m32" => {
            // nanosleep, then exit.
            "static const int pause[2] = {2, 0};\n\
             static char held[8 << 20];\n\
             void _start(void) { int r; for (unsigned n = 0; n < sizeof held; n += 4096) ((volatile char *)held)[n] = 1; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(162), \"b\"(pause), \"c\"(0) : \"memory\"); \
             __asm__ volatile(\"int $0x80\" : : \"a\"(1), \"b\"(0)); }"
        }
        _ => {
            "#include <string.h>\n#include <unistd.h>\nstatic char held[8 << 20];\n\
             int main(void) { memset(held, 1, sizeof held); sleep(2); return held[4096] - 1; }"
        }
    };
    fs::write(&source, text).unwrap();
    let program = place.path(name);
    let mut gcc = Command::new("gcc");
    gcc.args([bits, "-O1", linked, "-o"]).arg(&program);
    if bits == "-m32" {
        gcc.args(["-nostdlib", "-ffreestanding", "-fno-pie", "-no-pie"]);
    }
    let made = gcc.arg(&source).output().expect("gcc");
    if !made.status.success() {
        skip::skipped(&format!("gcc {bits} {linked} fails"));
        return None;
    }
    Some(program.display().to_string())
}

/// However a program is started, it is managed, its content is right, and its exit status is handed on.
#[test]
fn started_in_every_way() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow");
    let (starter, larger) = (
        place.compile("starts_others"),
        place.compile("larger_than_limit"),
    );
    for how in ["fork", "vfork", "spawn", "thread"] {
        let script = format!(
            "{} {how} {} 7 128 1 8; echo status $?",
            starter.display(),
            larger.display()
        );
        let (outcome, all) = follow(&place, "24M", &script);
        assert!(outcome.stdout.contains("OK 128 MiB"), "{how}: {outcome}");
        assert!(outcome.stdout.ends_with("status 0\n"), "{how}: {outcome}");
        let larger = member(&all, "larger_than_lim");
        assert!(number(larger, "evictions") > 10_000, "{how}: {all:#}");
        // Each has the budget for itself; the peak before the first look is in it.
        assert!(
            number(larger, "peak_total_bytes") < 100 << 20,
            "{how}: {all:#}"
        );
        assert!(number(&all, "saved_bytes_sum") >= number(larger, "peak_saved_bytes"));
        eprintln!("{how}: {} evictions", number(larger, "evictions"));
    }
}

/// The child of a fork, with no exec, whose parent had no pager yet.
#[test]
fn forked_before_the_pager_is_there() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-fork");
    let starter = place.compile("starts_others");
    let script = format!("{} fork-only; echo status $?", starter.display());
    let (outcome, all) = follow(&place, "24M", &script);
    assert!(
        outcome.stdout.contains("OK in the child\nstatus 0\n"),
        "{outcome}"
    );
    assert!(
        number(member(&all, "starts_others"), "evictions") > 3_000,
        "{all:#}"
    );
}

/// Programs that hold much and into which the pager cannot be loaded run as ever, and are named with the reason.
#[test]
fn what_cannot_be_managed_is_named() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-not");
    let cleared = idle(&place, "cleared", "-m64", "-no-pie").unwrap();
    let mut script = format!("/bin/sleep 1; env -i {cleared}; echo cleared $?\n");
    let still = idle(&place, "idle64", "-m64", "-static");
    let small = idle(&place, "idle32", "-m32", "-static");
    for program in [&still, &small].into_iter().flatten() {
        script += &format!("{program}; echo status $?\n");
    }
    let (outcome, all) = follow(&place, "24M", &script);
    assert!(outcome.stdout.starts_with("cleared 0\n"), "{outcome}");
    let statuses = outcome.stdout.matches("status 0\n").count();
    assert_eq!(
        statuses,
        usize::from(still.is_some()) + usize::from(small.is_some()),
        "{outcome}"
    );
    let cleared = "its environment does not name the pager's library";
    assert_eq!(why(&all, "cleared"), Some(cleared), "{all:#}");
    assert_eq!(why(&all, "sleep"), None, "it holds nothing: {all:#}");
    if still.is_some() {
        assert_eq!(why(&all, "idle64"), Some("statically linked"), "{all:#}");
    }
    if small.is_some() {
        let named = why(&all, "idle32").unwrap_or_default();
        assert!(named.contains("32-bit"), "{all:#}");
    }
    assert!(outcome.stderr.contains("sh: not managed: "), "{outcome}");
}

/// The first process had a pager, and has executed what can have none: the figures are of what it was before.
#[test]
fn what_the_first_program_becomes_is_named() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-becomes");
    let Some(still) = idle(&place, "idle64", "-m64", "-static") else {
        return;
    };
    let (outcome, all) = follow(&place, "24M", &format!("exec env A=1 {still}"));
    assert_eq!(why(&all, "idle64"), Some("statically linked"), "{all:#}");
    let named = "not managed: idle64, 8.0 MiB (statically linked)";
    assert!(outcome.stderr.contains(named), "{outcome}");
}

/// Hundreds of programs that are over at once: no pager starts in them, and there is one file for all.
#[test]
fn a_storm_of_short_programs_leaves_nothing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-storm");
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do \
        /bin/true & /bin/true; (exit 3); done; done; wait; \
        ls \"$COLDPRESS_STATISTICS_DIR\" | wc -l; kill -TERM $$";
    let (outcome, all) = follow(&place, "24M", script);
    assert_eq!(outcome.stdout, "1\n", "{outcome}");
    let left = fs::read_dir(place.path("s")).unwrap().count();
    assert_eq!(left, 0, "{outcome}");
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(outcome.status.signal(), Some(15), "{outcome}");
    assert_eq!(number(&all, "programs"), 1, "the shell: {all:#}");
    assert_eq!(number(&all, "evictions"), 0);
    assert_eq!(number(&all, "stalled_faults"), 0);
}

/// Each managed process stands in `status`, with the process that the run began with.
#[test]
fn status_lists_each() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-status");
    let larger = place.compile("cold_reread");
    let script = format!(
        "{0} 7 24 40 > /dev/null & {0} 8 24 40 > /dev/null & sleep 1; echo $$; \
         {1} status --raw --noheadings -o COMMAND,RUN; kill %1 %2; wait",
        larger.display(),
        coldpress_promises::managed::binary().display()
    );
    let (outcome, all) = follow(&place, "16M", &script);
    let mut lines = outcome.stdout.lines();
    let root = lines.next().unwrap_or_default();
    let row = format!("cold_reread {root}");
    assert_eq!(lines.filter(|line| *line == row).count(), 2, "{outcome}");
    assert!(number(&all, "programs") >= 2, "{all:#}");
}

/// With `--no-follow` it ends at exec.
#[test]
fn it_can_end_at_exec() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("follow-off");
    let larger = place.compile("larger_than_limit");
    let script = format!("{} 7 40 1; exit $?", larger.display());
    let arguments = ["-c", script.as_str()];
    let (outcome, statistics) = Managed::new(&place)
        .environment("COLDPRESS_FOLLOW", "no")
        .run(Path::new("/bin/sh"), arguments);
    assert!(outcome.stdout.contains("OK 40 MiB"), "{outcome}");
    let statistics = statistics.expect("statistics of the shell");
    assert_eq!(statistics.get("evictions"), 0);
}
