//! A program that does not fit into its budget even compressed runs with `--writeback`: what is cold goes to a file,
//! encrypted, and every page reads back, in threads and in forked children. What the file does wrong costs the pages that
//! it struck, or none.

use coldpress_promises::managed::binary;
use coldpress_promises::process::lines_of;
use coldpress_promises::written_back::{file_in, is_used, survive};
use coldpress_promises::{Managed, Workplace, skip};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[test]
fn what_does_not_fit_compressed_reads_back() {
    if let Some(statistics) = survive("written_back", ["1", "96", "3", "6000", "0"], &[]) {
        is_used(&statistics);
    }
}

#[test]
fn another_storage_keeps_stubs_too() {
    let options = [("--storage", "size-class"), ("--codec", "lz4")];
    let arguments = ["2", "96", "2", "3000", "0"];
    if let Some(statistics) = survive("written_back_size_class", arguments, &options) {
        statistics.at_least("read_backs", 4000);
    }
}

#[test]
fn children_read_what_their_parent_has_written_back() {
    if let Some(statistics) = survive("written_back_forks", ["3", "96", "2", "8000", "6"], &[]) {
        statistics.at_least("write_backs", 4000);
        statistics.at_least("read_backs", 4000);
        assert_eq!(statistics.get("read_back_errors"), 0);
        statistics.at_least("forks", 6);
    }
}

/// The story: a fork that failed, and a child that was killed before it had its lock, could not be told from a child
/// that will read: what was in the file then, and at each later fork, stayed there for good.
#[test]
fn forks_that_come_to_nothing_keep_nothing_in_the_file() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_forks_in_vain");
    let program = place.compile("written_back_forks");
    for how in ["1", "0"] {
        let managed = Managed::new(&place)
            .budget("32M")
            .within(240)
            .option("--writeback", &file_in(&place))
            .option("--writeback-size", "1G");
        if let Some(statistics) = managed.survive(&program, ["1", "64", how]) {
            statistics.at_least("forks", 30);
            assert_eq!(statistics.get("failed_read_backs"), 0);
        }
    }
}

/// Story: `run --writeback FILE -- sh -c '…'` wrote nothing back, since the shell was the first process, and said nothing
/// of it.
#[test]
fn a_program_behind_a_shell_is_told_that_nothing_is_written_back() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_behind_a_shell");
    let program = place.compile("written_back");
    let said = "nothing was written back: only a run's first process writes";
    for (script, is_first) in [("\"$@\"; exit $?", false), ("exec \"$@\"", true)] {
        let managed = Managed::new(&place)
            .budget("32M")
            .within(240)
            .option("--writeback", &file_in(&place))
            .option("--writeback-size", "1G");
        let words = ["-c", script, "sh", program.to_str().unwrap()];
        let arguments = ["1", "48", "2", "1000", "0"];
        let (outcome, _) = managed.run(Path::new("/bin/sh"), [&words[..], &arguments].concat());
        assert!(outcome.verdict().is_some(), "{outcome}");
        assert_eq!(outcome.stderr.contains(said), !is_first, "{outcome}");
    }
}

/// Everything leaves at random, and goes to the file if it does not compress.
#[test]
fn content_is_kept_under_random_eviction() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_chaos");
    let program = place.compile("written_back");
    let managed = Managed::new(&place)
        .budget("64M")
        .within(240)
        .chaos()
        .option("--writeback", &file_in(&place));
    let statistics = managed.survive(&program, ["4", "24", "3", "5000", "5"]);
    if let Some(statistics) = statistics {
        statistics.at_least("read_backs", 1000);
        assert_eq!(statistics.get("failed_read_backs"), 0);
    }
}

/// A file that ends early: no space is left for more, by a limit of the run, of a day, and of the file system.
#[test]
fn what_the_file_does_not_take_stays_in_memory() {
    let little = [("--writeback-limit", "8M")];
    let arguments = ["5", "64", "2", "2000", "0"];
    let Some(statistics) = survive("written_back_limit", arguments, &little) else {
        return;
    };
    assert!(statistics.get("write_back_file_bytes") <= 8 * MIB);
    statistics.at_least("write_back_refusals", 1);
    let place = Workplace::new("written_back_no_space");
    let Some(mount) = Mount::tmpfs(&place, "6m") else {
        return;
    };
    let program = place.compile("written_back");
    let managed = Managed::new(&place)
        .budget("32M")
        .within(240)
        .option("--writeback", &mount.0.join("tier").display().to_string())
        .option("--writeback-size", "256M");
    if let Some(statistics) = managed.survive(&program, arguments) {
        statistics.at_least("write_back_errors", 1);
        statistics.at_least("write_backs", 500);
        assert_eq!(statistics.get("failed_read_backs"), 0);
    }
}

/// A file system of so little memory, until the test ends.
struct Mount(PathBuf);

impl Mount {
    fn tmpfs(place: &Workplace, size: &str) -> Option<Self> {
        let at = place.path("small");
        std::fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"]);
        let done = mount.arg(&at).status();
        match done.is_ok_and(|status| status.success()) {
            true => Some(Self(at)),
            false => {
                skip::skipped("no file system can be mounted");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}

/// A block device that takes more than it can store, and tells when it writes: a loop device over a file of holes, on a
/// file system that is too small for it.
struct Overcommitted {
    device: String,
    // Dropped behind the device.
    _mount: Mount,
}

impl Overcommitted {
    fn new(place: &Workplace) -> Option<Self> {
        let mount = Mount::tmpfs(place, "8m")?;
        let file = mount.0.join("holes");
        File::create(&file).unwrap().set_len(256 * MIB).unwrap();
        let mut losetup = Command::new("losetup");
        let made = losetup.args(["--find", "--show"]).arg(&file).output();
        match made.ok().filter(|made| made.status.success()) {
            Some(made) => Some(Self {
                device: String::from_utf8(made.stdout).unwrap().trim().to_owned(),
                _mount: mount,
            }),
            None => {
                skip::skipped("no loop device can be made");
                None
            }
        }
    }
}

impl Drop for Overcommitted {
    fn drop(&mut self) {
        let mut losetup = Command::new("losetup");
        let _ = losetup.args(["--detach", &self.device]).status();
    }
}

/// A write is in the page cache, and the device refuses it later: that is learnt before memory gives the pages up.
#[test]
fn an_error_that_comes_late_costs_no_page() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_late");
    let Some(device) = Overcommitted::new(&place) else {
        return;
    };
    let program = place.compile("written_back");
    let managed = Managed::new(&place)
        .budget("32M")
        .within(240)
        .option("--writeback", &device.device);
    if let Some(statistics) = managed.survive(&program, ["6", "64", "2", "3000", "0"]) {
        statistics.at_least("write_back_errors", 1);
        statistics.at_least("write_backs", 500);
        assert_eq!(statistics.get("failed_read_backs"), 0);
        assert_eq!(statistics.get("read_back_errors"), 0);
    }
}

/// A program that has filled its memory, and waits.
struct Waiting {
    run: Child,
    lines: Receiver<String>,
    file: File,
}

impl Waiting {
    fn start(place: &Workplace, mib: &str) -> Self {
        let program = place.compile("written_back");
        let mut command = Command::new(binary());
        command.args(["run", "--budget", "24M", "--no-follow", "--writeback"]);
        command.arg(place.path("tier"));
        command
            .args(["--writeback-size", "256M", "--"])
            .arg(program);
        command.args(["6", mib, "1", "1000", "0", "1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("COLDPRESS_CONFIG", "/dev/null");
        let mut run = command.spawn().unwrap();
        let lines = lines_of(run.stdout.take().unwrap());
        let line = lines.recv_timeout(Duration::from_secs(60)).unwrap();
        let process = line.strip_prefix("READY ").expect("it says its number");
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let tier = files.flatten().map(|entry| entry.path()).find(|path| {
            let name = std::fs::read_link(path).unwrap_or_default();
            name.to_string_lossy().contains("tier (deleted)")
        });
        let path = tier.expect("the program has inherited the file");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        Self { run, lines, file }
    }

    /// All that was written to the file.
    fn bytes(&self) -> Vec<u8> {
        let length = self.file.metadata().unwrap().len();
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Lets it read all. How many pages it lost, of how many.
    fn read_all(mut self) -> (u64, u64) {
        let mut input = self.run.stdin.take().unwrap();
        input.write_all(b"\n").unwrap();
        let line = self.lines.recv_timeout(Duration::from_secs(120)).unwrap();
        assert!(self.run.wait().unwrap().success(), "{line}");
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[..2], ["OK", "lost"], "{line}");
        (words[2].parse().unwrap(), words[4].parse().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

/// Each page begins with a word that no random bytes hold, and half of them do not compress.
#[test]
fn no_byte_of_a_page_is_in_the_file() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_canary");
    let waiting = Waiting::start(&place, "64");
    let bytes = waiting.bytes();
    let canary = b"COLDPRESS-CANARY";
    let found = |bytes: &[u8]| {
        bytes
            .windows(8)
            .filter(|word| canary.windows(8).any(|c| c == *word))
            .count()
    };
    let written = bytes
        .chunks(4096)
        .filter(|page| page.iter().any(|byte| *byte != 0));
    let written = written.count();
    eprintln!("{written} pages of the file are written");
    assert!(written > 4000);
    assert_eq!(found(&bytes), 0);
    // The scan finds what is there.
    assert!(found(b"in some COLDPRESS-CANARY bytes") > 0);
    assert_eq!(waiting.read_all(), (0, 16384));
}

/// Bits turn in one part of the file: the pages there raise SIGBUS, and nothing else is lost.
#[test]
fn rotten_bytes_cost_their_pages() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_rot");
    let waiting = Waiting::start(&place, "64");
    let bytes = waiting.bytes();
    let mut damaged = 0;
    for (page, at) in bytes.chunks(4096).zip((0u64..).step_by(4096)) {
        if page.iter().any(|byte| *byte != 0) && damaged < 200 {
            waiting.file.write_all_at(&[page[77] ^ 1], at + 77).unwrap();
            damaged += 1;
        }
    }
    let (lost, all) = waiting.read_all();
    eprintln!("{damaged} bytes turned: {lost} of {all} pages are lost");
    // A record may be shorter than 4 KiB, and its neighbour's; some may have been removed since.
    assert!(lost > 0 && lost <= damaged, "{lost} of {damaged}");
}

/// The file is cut off: every page in it raises SIGBUS, and those in memory are right.
#[test]
fn a_file_that_is_cut_off_costs_what_is_in_it() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("written_back_cut");
    let waiting = Waiting::start(&place, "64");
    waiting.file.set_len(0).unwrap();
    let (lost, all) = waiting.read_all();
    eprintln!("{lost} of {all} pages are lost");
    assert!(lost > 1000 && lost < all, "{lost} of {all}");
}

#[test]
fn what_cannot_be_a_tier_is_refused() {
    let place = Workplace::new("written_back_refused");
    let there = place.path("there");
    std::fs::write(&there, b"precious").unwrap();
    let there = there.display().to_string();
    let call = |options: &[&str]| {
        let mut arguments = vec!["run"];
        arguments.extend(options);
        arguments.extend(["--", "true"]);
        let outcome = Managed::new(&place).call(&arguments);
        assert_eq!(outcome.status.code(), Some(125), "{outcome}");
        outcome.stderr
    };
    assert!(call(&["--writeback", &there]).contains("exists already"));
    assert_eq!(std::fs::read(&there).unwrap(), b"precious");
    let fresh = file_in(&place);
    let two_slot = call(&["--writeback", &fresh, "--storage", "two-slot"]);
    assert!(two_slot.contains("--storage press"), "{two_slot}");
    assert!(call(&["--writeback", &fresh, "--raw-clones"]).contains("--raw-clones"));
    assert!(call(&["--writeback-size", "1G"]).contains("--writeback"));
    assert!(!Path::new(&fresh).exists());
}
