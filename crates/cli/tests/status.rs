//! Promise: `status` shows what runs, believes no file that does not fit its process, and clears
//! away what dead processes of this user left.

mod common;

use coldpress_interface::statistics::VERSION;
use common::{Directory, coldpress, exists, start_time, statistics_page, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Output};

/// A process that does nothing, for its id.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(directory: &Directory, arguments: &[&str]) -> Output {
    let mut command = coldpress();
    command
        .arg("status")
        .args(arguments)
        .env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
    command.output().unwrap()
}

/// The objects of `status --json` that are about `pid` (others may be running meanwhile).
fn objects(directory: &Directory, pid: u32) -> Vec<Value> {
    let output = status(directory, &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    let all: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
    all.into_iter()
        .filter(|object| object["pid"] == pid)
        .collect()
}

fn directory(name: &str) -> Directory {
    let directory = Directory::new(name);
    fs::create_dir_all(directory.path("s")).unwrap();
    directory
}

#[test]
fn a_live_process_is_shown() {
    let directory = directory("live");
    let process = Sleeper::new();
    let pid = process.pid();
    directory.file(
        &format!("s/{pid}.stats"),
        &statistics_page(VERSION, pid, start_time(pid)),
        0o600,
    );
    let objects = objects(&directory, pid);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["budget_bytes"], 64 << 20);
    assert_eq!(objects[0]["program"], "sleep");
    assert!(objects[0]["failures"]["move_busy"].is_number());

    let table = stdout(&status(&directory, &[]));
    let row = table
        .lines()
        .find(|line| line.contains(&pid.to_string()))
        .unwrap();
    assert!(
        row.contains("sleep") && row.contains("64.0 MiB") && row.contains("60.0 MiB"),
        "{table}"
    );

    let detail = status(&directory, &[&pid.to_string()]);
    assert_eq!(detail.status.code(), Some(0));
    assert!(
        stdout(&detail).contains("peak_total_bytes") && stdout(&detail).contains("incompressible")
    );
    let one = status(&directory, &[&pid.to_string(), "--json"]);
    let one: Value = serde_json::from_str(&stdout(&one)).unwrap();
    assert_eq!(one["pid"], pid);
}

#[test]
fn files_that_do_not_fit_their_process_are_not_believed() {
    let directory = directory("bad");
    let process = Sleeper::new();
    let (pid, start) = (process.pid(), start_time(process.pid()));
    let name = format!("s/{pid}.stats");
    let whole = statistics_page(VERSION, pid, start);
    for (bytes, word) in [
        (&whole[..100], "incomplete"),
        (&[][..], "incomplete"),
        (&vec![0xff; 8192], "incomplete"),
        (&statistics_page(VERSION + 1, pid, start), "another version"),
        (&statistics_page(VERSION, pid + 1, start), "another process"),
    ] {
        let path = directory.file(&name, bytes, 0o600);
        assert_eq!(objects(&directory, pid).len(), 0, "{word}");
        assert!(stderr(&status(&directory, &[])).contains(word));
        let output = status(&directory, &[&pid.to_string()]);
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert!(
            exists(&path),
            "the process lives, so its file is left alone"
        );
    }
}

#[test]
fn stale_files_are_removed_silently() {
    let directory = directory("stale");
    let process = Sleeper::new();
    let pid = process.pid();
    let recycled = directory.file(
        &format!("s/{pid}.stats"),
        &statistics_page(VERSION, pid, 1),
        0o600,
    );
    let dead = directory.file(
        "s/4194305.stats",
        &statistics_page(VERSION, 4_194_305, 1),
        0o600,
    );
    let foreign_name = directory.file("s/readme", b"kept", 0o600);
    let output = status(&directory, &["--json"]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    assert!(!exists(&recycled) && !exists(&dead) && exists(&foreign_name));
}

#[test]
fn links_are_not_followed() {
    let directory = directory("links");
    let process = Sleeper::new();
    let pid = process.pid();
    let target = directory.file(
        "target",
        &statistics_page(VERSION, pid, start_time(pid)),
        0o600,
    );
    std::os::unix::fs::symlink(&target, directory.path(&format!("s/{pid}.stats"))).unwrap();
    assert_eq!(objects(&directory, pid).len(), 0);
}

#[test]
fn an_unmanaged_process_is_one_clear_line() {
    let directory = directory("absent");
    for json in [&["1"][..], &["1", "--json"]] {
        let output = status(&directory, json);
        assert_eq!(output.status.code(), Some(125));
        assert_eq!(stdout(&output), "");
        assert_eq!(stderr(&output).lines().count(), 1);
        assert!(stderr(&output).contains("does not run under Coldpress"));
    }
}
