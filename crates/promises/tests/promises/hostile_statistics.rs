//! Statistics cost a program nothing that it could notice: one file for all processes of a run, which goes with it;
//! no store to memory that cannot be had; and what a parent did is not counted a second time in its children.
//!
//! Seen to fail: with a file for each process, 301 forked children left 301 files, a program on a full tmpfs was killed
//! by SIGBUS at its start, and ten idle children were reported with ten times the evictions of their parent.

use coldpress_interface::config;
use coldpress_promises::{Managed, Workplace, managed, process, skip};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn in_directory<'a>(place: &'a Workplace, directory: &Path) -> Managed<'a> {
    Managed::new(place)
        .budget("12M")
        .environment(config::STATISTICS_DIR, directory.to_str().unwrap())
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// Starts `coldpress run`, with pipes to and from the program.
fn start(directory: &Path, budget: &str, program: &[&str]) -> Child {
    Command::new(managed::binary())
        .args(["run", "--budget", budget, "--"])
        .args(program)
        .env(config::STATISTICS_DIR, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn children_leave_nothing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("statistics");
    let directory = place.path("s");
    let program = place.compile("hostile_forks_much");
    let native = Command::new(&program)
        .args(["1", "9", "2"])
        .output()
        .unwrap();
    assert!(native.status.success(), "{native:?}");
    let (outcome, statistics) = in_directory(&place, &directory).run(&program, ["24", "300", "10"]);
    assert!(outcome.verdict().is_some());
    assert!(outcome.stdout.starts_with("1 entries"), "{outcome}");
    assert_eq!(count(&directory), 0, "{outcome}");

    let statistics = statistics.expect("statistics");
    assert!(statistics.get("forks") >= 310, "{outcome}");
    assert!(statistics.get("fork_wait_ns") > 310 * 1_000, "{outcome}");
    let parent = statistics.get("evictions");
    assert!(parent > 1_000, "{}", statistics.summary());
    let all = statistics.part("follow");
    // Those that are over at once have no figures; those that live on have.
    assert!(all.get("forked_children") >= 10, "{outcome}");
    // Each child may have some of its own taken.
    let evictions = all.get("evictions");
    assert!(
        (parent..3 * parent).contains(&evictions),
        "{evictions} of {parent}"
    );
}

/// The tmpfs of the statistics is full before the program starts.
#[test]
fn a_full_tmpfs_kills_nobody() {
    if !skip::root_or_skip() || !skip::installed_or_skip("/usr/bin/unshare", "util-linux") {
        return;
    }
    let place = Workplace::new("statistics-full");
    let directory = place.path("s");
    fs::create_dir(&directory).unwrap();
    let program = place.compile("hostile_forks_much");
    for full_before in [true, false] {
        let fill = format!(
            "dd if=/dev/zero of={}/full bs=4k 2> /dev/null",
            directory.display()
        );
        let before = if full_before { &fill } else { "true" };
        let mount = format!(
            "mount -t tmpfs -o size=256k,mode=0700 none {} && {{ {before}; exec \"$@\"; }}",
            directory.display()
        );
        let managed = in_directory(&place, &directory).wrapped([
            "/usr/bin/unshare",
            "-m",
            "sh",
            "-c",
            &mount,
            "sh",
        ]);
        let script = format!("{fill}; exec {} 24 20 4", program.display());
        let (outcome, statistics) = managed.run("/bin/sh".as_ref(), ["-c", &script]);
        assert!(outcome.verdict().is_some());
        // Managed all the same.
        statistics
            .expect("statistics")
            .part("follow")
            .at_least("programs", 1);
    }
}

/// `coldpress run` is killed: the program goes on, `status` still shows it, and nothing stays after it.
#[test]
fn a_killed_run_leaves_nothing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("statistics-killed");
    let directory = place.path("s");
    let mut run = start(
        &directory,
        "64M",
        &["sh", "-c", "echo $$; read line; exit 0"],
    );
    let lines = process::lines_of(run.stdout.take().unwrap());
    let pid = lines.recv_timeout(Duration::from_secs(60)).expect("its id");
    let input = run.stdin.take();
    run.kill().unwrap();
    run.wait().unwrap();
    let status = || in_directory(&place, &directory).call(&["status", "-n", "-o", "PID"]);
    let shown = status();
    assert!(shown.stdout.contains(&pid), "{shown}");
    assert_eq!(count(&directory), 1);
    drop(input); // It ends.
    while PathBuf::from(format!("/proc/{pid}")).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    status();
    assert_eq!(count(&directory), 0);
}

/// A forked child without a pager has no slot when the run ends: the file was removed, and the daemon that it became could
/// not be found any more.
#[test]
fn a_daemon_is_known_after_the_run() {
    const DAEMON: &str = "import os, sys
if os.fork():
    os._exit(0)
os.setsid()
sys.stdin.readline()
kept = [bytes(str(n), 'ascii') * 100 for n in range(60000)]
print(os.getpid(), flush=True)
sys.stdin.readline()";
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("statistics-daemon");
    let directory = place.path("s");
    let mut run = start(&directory, "16M", &["/usr/bin/python3", "-c", DAEMON]);
    let lines = process::lines_of(run.stdout.take().unwrap());
    let mut input = run.stdin.take().expect("a pipe");
    assert!(run.wait().unwrap().success());
    input.write_all(b"\n").unwrap();
    let pid = lines.recv_timeout(Duration::from_secs(60)).expect("its id");
    let call = |line: &[&str]| in_directory(&place, &directory).call(line);
    let shown = call(&["status", pid.trim()]);
    assert_eq!(shown.status.code(), Some(0), "{shown}");
    let set = call(&["set", pid.trim(), "budget=32M"]);
    assert_eq!(set.status.code(), Some(0), "{set}");
    drop(input); // It ends.
    while PathBuf::from(format!("/proc/{}", pid.trim())).exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    call(&["status"]);
    assert_eq!(count(&directory), 0);
}
