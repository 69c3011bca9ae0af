//! Promise: `status` shows what runs, believes no file that does not fit its process, and clears
//! away what dead processes of this user left.

use crate::common::{
    Directory, Managed, coldpress, exists, run_file, start_time, statistics_page, stderr, stdout,
};
use coldpress_interface::statistics::{Rule, Statistics, VERSION};
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
    run_file(
        &directory,
        pid,
        &statistics_page(VERSION, pid, start_time(pid)),
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

    let short = stdout(&status(&directory, &[&pid.to_string()]));
    assert!(
        short.contains("rule in force") && !short.contains("peak_total_bytes"),
        "{short}"
    );
    let costs = stdout(&status(&directory, &[&pid.to_string(), "-v"]));
    assert!(
        costs.contains("longest wait") && !costs.contains("peak_total_bytes"),
        "{costs}"
    );
    let detail = status(&directory, &[&pid.to_string(), "--all"]);
    assert_eq!(detail.status.code(), Some(0));
    assert!(
        stdout(&detail).contains("peak_total_bytes") && stdout(&detail).contains("incompressible")
    );
    let one = status(&directory, &[&pid.to_string(), "--json"]);
    let one: Value = serde_json::from_str(&stdout(&one)).unwrap();
    assert_eq!(one["pid"], pid);
}

/// A program that was started a moment ago had a negative SAVED, and nobody said what that is.
#[test]
fn a_negative_saving_is_explained_where_somebody_reads_it() {
    let directory = directory("negative");
    let process = Sleeper::new();
    let pid = process.pid();
    // It holds 60 MiB, and would natively hold nothing.
    let page = statistics_page(VERSION, pid, start_time(pid));
    run_file(&directory, pid, &page);
    let told = |columns: Option<&str>, arguments: &[&str]| {
        let mut command = coldpress();
        command.arg("status").args(arguments);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        columns.map(|columns| command.env("COLUMNS", columns));
        let output = command.output().unwrap();
        assert!(stdout(&output).contains("60.0"), "{}", stdout(&output));
        stderr(&output).contains("SAVED below 0: the pager takes more than it saves")
    };
    let pid = pid.to_string();
    let table = [&*pid, "-o", "TOTAL,SAVED"];
    assert!(told(Some("80"), &table));
    assert!(!told(None, &table), "a program reads it");
    assert!(!told(Some("80"), &[&pid, "-o", "TOTAL"]));
}

#[test]
fn slots_that_do_not_fit_their_process_are_not_believed() {
    let directory = directory("bad");
    let process = Sleeper::new();
    let (pid, start) = (process.pid(), start_time(process.pid()));
    for (bytes, word) in [
        (&[][..], "incomplete"),
        (&vec![0xff; 8192], "incomplete"),
        (&statistics_page(VERSION + 1, pid, start), "another version"),
        (&statistics_page(VERSION, pid + 1, start), "another process"),
    ] {
        let path = run_file(&directory, pid, bytes);
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
    let page = statistics_page(VERSION, pid, start_time(pid));
    let live = run_file(&directory, pid, &page);
    let named = |run: u32| {
        let name = live.file_name().unwrap().to_str().unwrap();
        let rest = name.split_once('-').unwrap().1;
        directory.path(&format!("s/{run}-{rest}"))
    };
    // Its `run` is gone, a process of it lives.
    let left = named(4_194_305);
    fs::copy(&live, &left).unwrap();
    // Nothing of it lives: the id belongs to another process now.
    let recycled = named(4_194_306);
    let stale = run_file(&directory, pid, &statistics_page(VERSION, pid, 1));
    fs::rename(stale, &recycled).unwrap();
    let dead = named(4_194_307);
    fs::write(&dead, b"").unwrap();
    let foreign_name = directory.file("s/readme", b"kept", 0o600);
    let output = status(&directory, &["--json"]);
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    assert!(!exists(&recycled) && !exists(&dead));
    assert!(exists(&left) && exists(&foreign_name));
}

#[test]
fn links_are_not_followed() {
    let directory = directory("links");
    let process = Sleeper::new();
    let pid = process.pid();
    let page = statistics_page(VERSION, pid, start_time(pid));
    let entry = run_file(&directory, pid, &page);
    let target = directory.path("target");
    fs::rename(&entry, &target).unwrap();
    std::os::unix::fs::symlink(&target, &entry).unwrap();
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

/// The page that the first pagers of this layout wrote, of which the figures that came later are zero. And one of a
/// pager to come, with more figures and unknown rules.
#[test]
fn pages_of_older_and_of_newer_pagers_are_read() {
    let directory = directory("versions");
    let process = Sleeper::new();
    let (pid, start) = (process.pid(), start_time(process.pid()));
    let columns = [
        "--raw",
        "-n",
        "-b",
        "-o",
        "pid,COMMAND,BUDGET,TOTAL,FAULTS,RULE,TRIGGERS,CODEC",
    ];
    let row = || {
        let output = status(&directory, &[&[&*pid.to_string()], &columns[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let mut page = statistics_page(VERSION, pid, start);
    run_file(&directory, pid, &page);
    assert_eq!(row(), format!("{pid} sleep 67108864 62914560 0 - - -\n"));
    assert_eq!(objects(&directory, pid)[0].get("rule"), None);
    assert_eq!(objects(&directory, pid)[0].get("generations"), None);
    let output = status(&directory, &[&pid.to_string(), "--all"]);
    let text = stdout(&output);
    assert!(
        text.contains("peak_total_bytes") && !text.contains("UNTOUCHED"),
        "{text}"
    );
    assert!(
        text.contains("older version, which cannot be asked"),
        "{text}"
    );

    let mut set = |at: usize, word: u64| page[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    set(std::mem::offset_of!(Statistics, filled_bytes), 5000);
    set(
        std::mem::offset_of!(Statistics, rule),
        Rule::ALL.len() as u64 + 50,
    );
    set(std::mem::offset_of!(Statistics, triggers), 0xFF);
    run_file(&directory, pid, &page);
    let told = format!(
        "{pid} sleep 67108864 62914560 0 rule\\x20{},\\x20of\\x20a\\x20newer\\x20version - -\n",
        Rule::ALL.len() + 50
    );
    assert_eq!(row(), told);
    assert!(objects(&directory, pid)[0]["rule"].is_null());
}

#[test]
fn columns_are_chosen_as_in_zramctl() {
    let directory = directory("columns");
    let process = Sleeper::new();
    let pid = process.pid();
    let page = statistics_page(VERSION, pid, start_time(pid));
    run_file(&directory, pid, &page);
    let pid_text = pid.to_string();
    let told = |arguments: &[&str]| {
        let output = status(&directory, &[&[&*pid_text], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let words = |arguments: &[&str]| -> Vec<Vec<String>> {
        let lines = told(arguments);
        let split = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        lines.lines().map(split).collect()
    };
    let rows = words(&["--output", "TOTAL,pid", "--bytes"]);
    assert_eq!(rows, [vec!["TOTAL", "PID"], vec!["62914560", &pid_text]]);
    assert_eq!(words(&["-n", "-o", "PID"]), [vec![pid_text.clone()]]);
    assert_eq!(
        told(&["--raw", "-o", "TOTAL,RATIO"]),
        "TOTAL RATIO\n60.0MiB -\n"
    );
    let help = stdout(&coldpress().args(["status", "--help"]).output().unwrap());
    let all = words(&["--output-all", "--raw"]);
    assert_eq!(
        all[0].len(),
        all[1].len(),
        "no cell is empty or has a blank"
    );
    for column in &all[0] {
        let described = |line: &str| {
            let line = line.trim_start_matches([' ', '*']);
            line.strip_prefix(column.as_str())
                .is_some_and(|rest| rest.trim().len() > 5)
        };
        assert!(help.lines().any(described), "{column}: {help}");
    }
    for column in [
        "PID", "BUDGET", "COMPR", "SAVED", "COLD-AGE", "RULE", "STORAGE", "TRIGGERS",
    ] {
        assert!(all[0].iter().any(|name| name == column), "{column}");
    }
    let json: Value = serde_json::from_str(&told(&["--json", "-o", "PID,COLD-AGE,RULE"])).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "pid": pid, "cold_age": 0, "rule": null })
    );
    let output = status(&directory, &["-o", "PID,SIZE"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("\"SIZE\" is no column: columns are PID, COMMAND"));
}

/// A real program: what it holds by mapping, by age, how long the codec took.
#[test]
fn one_process_is_shown_by_mapping_and_by_age() {
    let directory = directory("detail");
    let options = ["-q", "--budget", "32M"];
    let Some(program) = Managed::start(&directory, &options, &["64"]) else {
        return;
    };
    let pid = program.pid.to_string();
    let start = std::time::Instant::now();
    let now = loop {
        let output = status(&directory, &[&pid, "--json"]);
        let now: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let settled = now["total_bytes"].as_u64() < Some(32 << 20);
        // A pager without processor time for a second gives none.
        let detailed = now["mappings"].is_array() && now["generations"].is_array();
        if settled && detailed && now["compression_p99_ns"] != 0 {
            break now;
        }
        assert!(start.elapsed().as_secs() < 20, "{now}");
    };
    let rule = now["rule"].as_str().unwrap();
    assert!(["near_budget", "within_budget"].contains(&rule), "{rule}");
    let bytes = |line: &Value, name: &str| line[name].as_u64().unwrap();
    let mappings = now["mappings"].as_array().unwrap();
    let largest = &mappings[0];
    let content = bytes(largest, "content_bytes");
    assert!((64 << 20..66 << 20).contains(&content), "{largest}");
    let committed = bytes(largest, "committed_bytes");
    assert!(committed < 32 << 20 && committed > 8 << 20, "{largest}");
    let away = bytes(largest, "compressed_bytes") + bytes(largest, "same_filled_bytes");
    assert!(away + committed == content && away > 32 << 20, "{largest}");
    assert_eq!(mappings.last().unwrap()["start"], Value::Null);
    let generations = now["generations"].as_array().unwrap();
    let pages: u64 = generations.iter().map(|g| bytes(g, "pages")).sum();
    assert!(pages > 1000, "{now}");
    assert!(bytes(&now, "compression_p50_ns") <= bytes(&now, "compression_longest_ns"));

    adds_up(&stdout(&status(&directory, &[&pid, "-b"])));
    let text = stdout(&status(&directory, &[&pid, "--all"]));
    for word in [
        "rule in force",
        "HELD",
        "UNTOUCHED FOR",
        "decompression",
        "P99.9",
        "not managed",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // A stopped one cannot be asked; the rest is shown all the same, and soon.
    program.stop();
    let text = stdout(&status(&directory, &[&pid, "--all"]));
    assert!(
        text.contains("(not by mapping:") && text.contains("peak_total_bytes"),
        "{text}"
    );
}

/// Each column of the table of memory has its sum in the last line. (It had the program's pages in its first line,
/// above lines that counted storage and the pager, too.)
fn adds_up(text: &str) {
    let table = text.lines().skip_while(|line| !line.contains(" HELD "));
    let numbers = |line: &str| -> Vec<u64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let last = words[words.len().saturating_sub(4)..].iter();
        last.filter_map(|word| word.parse().ok()).collect()
    };
    let rows: Vec<Vec<u64>> = table
        .skip(1)
        .take_while(|line| !line.is_empty())
        .map(numbers)
        .collect();
    let (total, parts) = rows.split_last().unwrap_or_else(|| panic!("{text}"));
    assert!(parts.len() >= 4 && total.len() == 4, "{text}");
    for (column, sum) in total.iter().enumerate() {
        let added: u64 = parts.iter().map(|row| row[column]).sum();
        assert_eq!(added, *sum, "{text}");
    }
    assert!(total[0] > 8 << 20 && total[3] > 64 << 20, "{text}");
}
