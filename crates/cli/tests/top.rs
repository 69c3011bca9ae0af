//! Promise: `top` shows programs in a terminal, changes a budget, and leaves the terminal as it found it, whatever ends it;
//! without a terminal it prints.

use crate::common::pseudo_terminal::InTerminal;
use crate::common::{
    Directory, Managed, NOBODY, coldpress, coldpress_as_nobody, root, run_file, start_time,
    statistics_page, stderr, stdout,
};
use coldpress_interface::statistics::VERSION;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;

fn top(directory: &Directory, arguments: &[&str]) -> Command {
    let mut command = coldpress();
    command.arg("top").args(arguments);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    command
}

fn coldpress_shell(directory: &Directory, script: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]);
    shell.env("COLDPRESS", env!("CARGO_BIN_EXE_coldpress"));
    shell.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    shell
}

fn started(directory: &Directory, arguments: &[&str]) -> InTerminal {
    let terminal = InTerminal::start(top(directory, arguments), 80, 24);
    terminal.until_shown("COMMAND");
    assert!(!terminal.is_cooked());
    terminal
}

fn budget(directory: &Directory, pid: u32) -> u64 {
    let mut command = coldpress();
    command.args(["status", "--json", &pid.to_string()]);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let one: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    one["budget_bytes"].as_u64().unwrap()
}

#[test]
fn a_program_is_shown_sorted_and_given_a_budget() {
    let directory = Directory::new("top-budget");
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "48M"], &["32"]) else {
        return;
    };
    let pid = program.pid.to_string();
    let mut terminal = started(&directory, &["--interval", "100ms", &pid]);
    terminal.until_shown("hold");
    terminal.until_shown("HELD▾");
    terminal.press(">");
    terminal.until_shown("SAVED▾");
    terminal.press("r");
    terminal.until_shown("SAVED▴");
    terminal.press("b");
    terminal.until_shown(&format!("budget of hold ({}):", program.pid));
    terminal.press("lots\r");
    terminal.until_shown("cannot read \"lots\"");
    terminal.press("b24M\r");
    terminal.until_shown("48.0 MiB → 24.0 MiB");
    assert_eq!(budget(&directory, program.pid), 24 << 20);
    terminal.press("b1M\r");
    terminal.until_shown("too small");
    assert_eq!(budget(&directory, program.pid), 24 << 20);
    terminal.press("\r");
    terminal.until_shown("by mapping");
    terminal.until_shown("COMPRESSED");
    terminal.press("\u{1b}");
    terminal.until_shown("COMMAND");
    terminal.press("?");
    terminal.until_shown("keys and columns");
    terminal.press("qq");
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(terminal.is_cooked());
    terminal.until_restored();
}

#[test]
fn the_terminal_is_restored_whatever_ends_it() {
    let directory = Directory::new("top-restored");
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let mut terminal = started(&directory, &[]);
        terminal.signal(signal);
        assert_eq!(terminal.ended_by(), Some(signal));
        assert!(terminal.is_cooked(), "signal {signal}");
        terminal.until_restored();
    }
    for key in ["q", "\u{3}", "\u{1b}"] {
        let mut terminal = started(&directory, &[]);
        terminal.press(key);
        assert_eq!(terminal.ended().code(), Some(0), "{key:?}");
        assert!(terminal.is_cooked(), "{key:?}");
        terminal.until_restored();
    }
}

/// Under a shell with job control: it gets its terminal while the command is stopped, and the command takes it again.
#[test]
fn it_stops_as_others_do_and_goes_on() {
    const SCRIPT: &str = "set -m; \"$COLDPRESS\" top; echo stopped; \
        stty -a | grep -c ' icanon'; sleep 1; fg > /dev/null; echo ended $?";
    let directory = Directory::new("top-stopped");
    let mut shell = coldpress_shell(&directory, SCRIPT);
    shell.env("PATH", "/usr/bin:/bin");
    let mut terminal = InTerminal::start(shell, 80, 24);
    terminal.until_shown("COMMAND");
    terminal.press("\u{1a}");
    // With the modes of before, as `stty` sees them; and then it goes on.
    terminal.until_shown("stopped\n1");
    terminal.until("list of programs", |screen| {
        screen.alternate_screen() && screen.contents().contains("COMMAND")
    });
    terminal.press("q");
    terminal.until_restored();
    terminal.until_shown("stopped\n1\nended 0");
    assert_eq!(terminal.ended().code(), Some(0));
}

/// Where nobody could let it go on the kernel does not stop it: then it takes the terminal again at once.
#[test]
fn without_a_shell_it_does_not_stop() {
    let directory = Directory::new("top-orphaned");
    let mut terminal = started(&directory, &[]);
    for by_key in [false, true] {
        match by_key {
            true => terminal.press("\u{1a}"),
            false => terminal.signal(libc::SIGTSTP),
        }
        // The screen of before is there for a moment, which may be too short for us to see.
        terminal.until("modes of its own", |screen| {
            screen.contents().contains("COMMAND") && !terminal.is_cooked()
        });
    }
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
    assert!(terminal.is_cooked());
}

#[test]
fn every_size_is_drawn() {
    let directory = Directory::new("top-resized");
    let mut terminal = started(&directory, &["--interval", "1h"]);
    terminal.until_shown("CPU%");
    for (columns, rows, word) in [
        (60, 20, "FAULTS/S"),
        (200, 50, "RULE"),
        (20, 5, "PID"),
        (80, 24, "WAIT"),
    ] {
        terminal.resize(columns, rows);
        terminal.until_shown(word);
    }
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
    terminal.until_restored();
    assert_eq!(terminal.shown().trim(), "", "nothing is left");
}

#[test]
fn without_a_terminal_it_prints() {
    let directory = Directory::new("top-plain");
    let output = top(&directory, &["--once", "no-such-program"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125), "as of status");
    assert!(
        stderr(&output).contains("no no-such-program runs under Coldpress"),
        "{}",
        stderr(&output)
    );
    // It was waited for, for ever.
    let own = std::process::id().to_string();
    let output = top(&directory, &[&own]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    // Once is not waited for.
    let output = top(&directory, &["--once"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("waiting"), "{}", stderr(&output));
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["16"]) else {
        return;
    };
    let pid = program.pid.to_string();
    let output = top(&directory, &["--once"]).output().unwrap();
    let text = stdout(&output);
    let row = text.lines().find(|line| line.contains(&pid)).expect(&text);
    assert!(row.contains("hold") && row.contains("32.0 MiB"), "{text}");

    let script = "\"$COLDPRESS\" top hold --json --interval 50ms | head -n 3";
    let output = coldpress_shell(&directory, script).output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    let text = stdout(&output);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 3);
    let of_pid = |line: &Value| {
        let all = line["programs"].as_array().unwrap().iter();
        let mut found = all.filter(|one| one["pid"] == program.pid);
        found.next().unwrap().clone()
    };
    assert!(of_pid(&lines[0])["faults_per_second"].is_null());
    assert!(of_pid(&lines[2])["faults_per_second"].is_number());
    assert_eq!(of_pid(&lines[2])["budget_bytes"], 32 << 20);
    let mut command = coldpress();
    command.args(["status", "--json", &pid]);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    let status: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let shown = of_pid(&lines[2]);
    let own = [
        "saved_bytes",
        "saved_share",
        "faults_per_second",
        "pager_processor_share",
    ];
    let keys = shown.as_object().unwrap().keys();
    for key in keys.filter(|key| !own.contains(&key.as_str())) {
        assert!(status.get(key).is_some(), "{key} is no key of status");
    }
    assert_eq!(shown["rule"], "within_budget");
}

/// `top` found no program by the id of `coldpress run`, which `status` and `set` take for its program's.
#[test]
fn the_id_of_a_run_means_its_program() {
    let directory = Directory::new("top-run");
    let Some(program) = Managed::start(&directory, &["-q", "--budget", "32M"], &["16"]) else {
        return;
    };
    let run = program.run.id().to_string();
    let output = top(&directory, &["--once", &run]).output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let pid = program.pid.to_string();
    assert!(text.lines().any(|line| line.contains(&pid)), "{text}");
    let mut terminal = started(&directory, &[&run]);
    terminal.until_shown("hold");
    terminal.press("q");
    assert_eq!(terminal.ended().code(), Some(0));
}

#[test]
fn an_ordinary_user_sees_his_own_programs_alone() {
    if !root("a file of another user") {
        return;
    }
    let directory = Directory::new("top-nobody");
    fs::create_dir(directory.path("s")).unwrap();
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id();
    let page = statistics_page(VERSION, pid, start_time(pid));
    let file = run_file(&directory, pid, &page);
    let seen = || {
        let mut command = coldpress_as_nobody(&directory);
        command.args(["top", "--once", "--json"]);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        line["programs"].as_array().unwrap().clone()
    };
    let of_root = seen();
    chown(&file, Some(NOBODY), Some(NOBODY)).unwrap();
    let own = seen();
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    assert_eq!(of_root, Vec::<Value>::new());
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["pid"], pid);
    assert_eq!(own[0]["total_bytes"], 60 << 20);
}
