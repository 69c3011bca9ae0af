//! Promise: `coldpress disk` serves a disk that real clients write and read, answers other commands while it does, holds
//! its limit, and leaves nothing behind.

use crate::common::{Directory, coldpress, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Whether these programs are there; says loudly what is skipped if not.
pub fn has(programs: &[&str], why: &str) -> bool {
    let is_missing = |program: &&&str| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .env("PATH", path())
            .output();
        !found.is_ok_and(|output| output.status.success())
    };
    let missing: Vec<_> = programs.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: {why}: there is no {missing:?}");
        assert_ne!(std::env::var("COLDPRESS_FORBID_SKIPS").as_deref(), Ok("1"));
    }
    missing.is_empty()
}

/// Where file system tools are, too.
fn path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

fn tool(line: &[&str]) -> Output {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).env("PATH", path());
    command.stdin(Stdio::null()).output().unwrap()
}

fn succeeds(line: &[&str]) -> String {
    let output = tool(line);
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(output.status.success(), "{line:?}: {said}");
    said
}

/// A disk that is served, until it is dropped.
pub struct Served {
    pub child: Child,
    pub directory: Directory,
}

impl Served {
    pub fn start(name: &str, options: &[&str]) -> Self {
        let directory = Directory::new(name);
        fs::create_dir(directory.path("run")).unwrap();
        let child = Self::serve(&directory, options);
        Self { child, directory }
    }

    pub fn serve(directory: &Directory, options: &[&str]) -> Child {
        let socket = directory.path("nbd.sock");
        let mut command = coldpress();
        command.args(["disk", "serve", "--socket"]).arg(&socket);
        command.args(options);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("run"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains(" on /"), "{line}");
        // What comes later is passed on.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        child
    }

    fn uri(&self, export: &str) -> String {
        let socket = self.directory.path("nbd.sock");
        format!("nbd+unix:///{export}?socket={}", socket.display())
    }

    pub fn order(&self, line: &str) -> Output {
        let mut command = coldpress();
        command.arg("disk").args(line.split(' '));
        command.env("COLDPRESS_STATISTICS_DIR", self.directory.path("run"));
        command.output().unwrap()
    }

    pub fn done(&self, line: &str) -> String {
        let output = self.order(line);
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        stdout(&output)
    }

    pub fn refused(&self, line: &str) -> String {
        let output = self.order(line);
        assert_eq!(output.status.code(), Some(125), "{line}");
        stderr(&output)
    }

    pub fn figures(&self) -> Value {
        serde_json::from_str(&self.done("status --disk disk --json")).unwrap()
    }

    pub fn figure(&self, name: &str) -> u64 {
        self.figures()[name].as_u64().unwrap()
    }

    fn qemu_io(&self, export: &str, commands: &[&str]) -> Output {
        let uri = self.uri(export);
        let mut line = vec!["qemu-io", "-f", "raw"];
        if export != "disk" {
            line.push("-r");
        }
        commands
            .iter()
            .for_each(|command| line.extend(["-c", command]));
        line.push(&uri);
        tool(&line)
    }

    /// All of these succeed, and patterns that are read are there.
    pub fn io(&self, export: &str, commands: &[&str]) {
        let output = self.qemu_io(export, commands);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        let failed = said.contains("failed") || said.contains("rror");
        assert!(output.status.success() && !failed, "{commands:?}: {said}");
    }

    pub fn stop(mut self) {
        self.kill(libc::SIGTERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let left: Vec<_> = fs::read_dir(self.directory.path("run")).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.directory.path("nbd.sock").exists());
    }

    fn kill(&self, signal: libc::c_int) {
        // SAFETY: a child of ours that was not waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An ext4 file system with the sources of this crate, again and again, and some bytes that do not compress.
fn file_system(directory: &Directory) -> PathBuf {
    let (tree, image) = (directory.path("tree"), directory.path("image"));
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for copy in 0..12 {
        let copy = tree.join(copy.to_string());
        fs::create_dir_all(&copy).unwrap();
        let (from, to) = (sources.to_str().unwrap(), copy.to_str().unwrap());
        succeeds(&["cp", "-r", from, to]);
    }
    let mut noise = vec![0; 3 << 20];
    fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut noise)
        .unwrap();
    fs::write(tree.join("noise"), noise).unwrap();
    let (tree, file) = (tree.to_str().unwrap(), image.to_str().unwrap());
    succeeds(&["mke2fs", "-q", "-t", "ext4", "-d", tree, file, "48M"]);
    image
}

#[test]
fn a_file_system_goes_in_and_out_unchanged() {
    if !has(&["qemu-img", "mke2fs", "e2fsck"], "a file system on a disk") {
        return;
    }
    let served = Served::start("disk-ext4", &["--size", "48M", "--mem-limit", "24M"]);
    let image = file_system(&served.directory);
    let (file, out) = (image.to_str().unwrap(), served.directory.path("out"));
    let out = out.to_str().unwrap();
    let uri = served.uri("disk");
    succeeds(&[
        "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", file, &uri,
    ]);
    // What was written through it is compressed some time later, and takes less than it is.
    wait_until("compressed", || {
        let s = served.figures();
        s["pages_in_place"] == s["huge_pages"]
    });
    let figures = served.figures();
    let number = |name: &str| figures[name].as_u64().unwrap();
    assert!(number("orig_data_size") > 10 << 20, "{figures}");
    assert!(
        number("mem_used_total") < number("orig_data_size") * 3 / 4,
        "{figures}"
    );
    assert!(number("mem_used_max") <= 24 << 20, "{figures}");
    assert!(number("huge_pages") > 700, "{figures}");
    assert_eq!((number("clients"), number("failed_writes")), (0, 0));
    succeeds(&["qemu-img", "convert", "-f", "raw", "-O", "raw", &uri, out]);
    assert!(
        fs::read(&image).unwrap() == fs::read(out).unwrap(),
        "another image"
    );
    succeeds(&["e2fsck", "-f", "-n", out]);
    // Holes came back as holes.
    let listed = succeeds(&["qemu-img", "map", "-f", "raw", "--output=json", &uri]);
    assert!(listed.contains("\"zero\": true"), "{listed}");
    served.stop();
}

#[test]
fn patterns_are_what_was_written_last() {
    if !has(&["qemu-io"], "patterns on a disk") {
        return;
    }
    let served = Served::start("disk-patterns", &["--size", "16M", "--cold-after", "5ms"]);
    served.io(
        "disk",
        &[
            "read -P 0 0 16M",
            "write -P 0x11 0 1M",
            "write -P 0x22 512k 512",
            "write -P 0x33 700001 77777",
            "discard 128k 64k",
            "write -z 256k 10000",
            "flush",
        ],
    );
    served.done("idle");
    served.io(
        "disk",
        &[
            "read -P 0x11 0 128k",
            "read -P 0 128k 64k",
            "read -P 0x11 192k 64k",
            "read -P 0 256k 10000",
            "read -P 0x22 512k 512",
            "read -P 0x33 700001 77777",
            "read -P 0x11 777778 1000",
            "read -P 0 1M 15M",
        ],
    );
    // The pattern that should not be there is found out: what is compared is compared.
    let wrong = served.qemu_io("disk", &["read -P 0x12 0 64k"]);
    assert!(stdout(&wrong).contains("verification failed"));
    served.stop();
}

#[test]
fn snapshots_are_exports_of_their_own() {
    if !has(&["qemu-io"], "snapshots as exports") {
        return;
    }
    let served = Served::start("disk-snapshots", &["--size", "16M"]);
    served.io("disk", &["write -P 1 0 8M"]);
    assert_eq!(
        served.done("snapshot before"),
        "disk: snapshot before is served\n"
    );
    served.io("disk", &["write -P 2 4M 8M", "discard 0 1M"]);
    served.io("before", &["read -P 1 0 8M", "read -P 0 8M 8M"]);
    served.io(
        "disk",
        &["read -P 0 0 1M", "read -P 1 1M 3M", "read -P 2 4M 8M"],
    );
    let written = served.qemu_io("before", &["write -P 3 0 4k"]);
    assert!(!format!("{}{}", stdout(&written), stderr(&written)).contains("wrote"));
    assert_eq!(served.figures()["snapshots"], serde_json::json!(["before"]));
    assert!(served.refused("snapshot before").contains("already"));
    assert!(served.refused("snapshot disk").contains("the disk itself"));
    assert!(served.refused("snapshot a/b").contains("no name"));
    assert!(
        served
            .refused("drop after")
            .contains("no snapshot called after")
    );
    served.done("drop before");
    assert!(!served.qemu_io("before", &["read 0 4k"]).status.success());
    served.io("disk", &["read -P 1 1M 3M", "read -P 2 4M 8M"]);
    served.stop();
}

#[test]
fn no_space_is_told_and_what_is_there_stays() {
    if !has(&["qemu-io", "qemu-img"], "the limit of a disk") {
        return;
    }
    let served = Served::start("disk-limit", &["--size", "64M", "--mem-limit", "8M"]);
    served.io("disk", &["write -P 7 60M 1M"]);
    let noise = served.directory.path("noise");
    let mut bytes = vec![0; 20 << 20];
    fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut bytes)
        .unwrap();
    fs::write(&noise, bytes).unwrap();
    let (uri, noise) = (served.uri("disk"), noise.to_str().unwrap());
    let refused = tool(&[
        "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", noise, &uri,
    ]);
    assert!(
        stderr(&refused).contains("No space left"),
        "{}",
        stderr(&refused)
    );
    served.io("disk", &["read -P 7 60M 1M"]);
    assert!(served.figure("failed_writes") > 0);
    assert!(served.figure("mem_used_max") <= 8 << 20);
    // More memory, and it goes on.
    assert_eq!(served.done("limit 40M"), "disk: limit 40.0 MiB\n");
    succeeds(&[
        "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", noise, &uri,
    ]);
    assert!(served.refused("limit 1M").contains("4 MiB at least"));
    served.done("limit none");
    assert_eq!(served.figure("mem_limit"), 0);
    served.stop();
}

#[test]
fn a_client_that_is_killed_while_it_writes_harms_nobody() {
    if !has(&["qemu-io"], "clients that are killed") {
        return;
    }
    let served = Served::start("disk-killed", &["--size", "256M"]);
    served.io("disk", &["write -P 9 200M 8M"]);
    let uri = served.uri("disk");
    let mut line = vec!["-f", "raw", &uri];
    (0..1000).for_each(|_| line.extend(["-c", "write -P 3 0 64M"]));
    for _ in 0..5 {
        let mut client = Command::new("qemu-io");
        let mut client = client.args(&line).stdout(Stdio::null()).spawn().unwrap();
        let before = served.figure("written_bytes");
        wait_until("writing", || {
            served.figure("written_bytes") > before + (4 << 20)
        });
        client.kill().unwrap();
        client.wait().unwrap();
    }
    wait_until("gone", || served.figure("clients") == 0);
    served.io("disk", &["write -P 5 0 100M", "read -P 5 0 100M"]);
    served.io("disk", &["read -P 9 200M 8M"]);
    served.stop();
}

#[test]
fn orders_are_carried_out_and_told() {
    if !has(&["qemu-io"], "orders to a disk") {
        return;
    }
    let served = Served::start(
        "disk-orders",
        &["--size", "32M", "--cold-after", "1h", "--codec", "lz4"],
    );
    served.io("disk", &["write -P 0x61 0 8M", "write -P 0x62 100 5M"]);
    assert_eq!(served.figure("same_pages"), 0, "all is young");
    assert!(served.done("idle").contains("→"));
    assert!(served.figure("same_pages") > 2000);
    served.done("compact");
    assert!(served.refused("recompress").contains("codec lz4:1"));
    let table = served.done("status");
    let mut lines = table.lines();
    let (headings, row) = (lines.next().unwrap(), lines.next().unwrap());
    assert!(
        headings.contains("NAME") && headings.contains("BEHIND"),
        "{table}"
    );
    assert!(row.contains("disk") && row.contains("32.0M"), "{table}");
    assert_eq!(
        served.done("status disk"),
        served.done("status --disk disk")
    );
    let all = served.done("status -v");
    assert!(
        all.contains("mm_stat")
            && all.contains("lz4:1")
            && all.contains("io_stat  ")
            && all.contains("written_bytes")
    );
    assert!(
        served
            .refused("reset --disk other")
            .contains("called other")
    );
    served.done("reset");
    assert_eq!(served.figure("orig_data_size"), 0);
    served.io("disk", &["read -P 0 0 32M"]);
    // The protocol is a line each way; what cannot be read is refused, and a client that says nothing is let go.
    let control = served.directory.path("run").join("disk-disk.sock");
    let says = |line: &[u8]| {
        let mut stream = UnixStream::connect(&control).unwrap();
        stream.write_all(line).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(says(b"{\"command\":\"compact\"}\n").starts_with("{\"done\":{\"pages_compacted\":"));
    assert!(says(b"rubbish\n").starts_with("{\"refused\":\"the request cannot be read"));
    assert!(says(b"{\"command\":\"explode\"}\n").starts_with("{\"refused\":"));
    served.stop();
}

#[test]
fn reset_is_refused_while_clients_are_connected() {
    let served = Served::start("disk-reset", &["--size", "32M"]);
    let Ok(mut client) = Command::new("qemu-io")
        .args(["-f", "raw", &served.uri("disk")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
    else {
        assert!(!has(&["qemu-io"], "resetting a disk"));
        return;
    };
    wait_until("connected", || served.figure("clients") > 0);
    assert!(served.refused("reset").contains("--force"));
    served.done("reset --force");
    drop(client.stdin.take());
    client.wait().unwrap();
    served.stop();
}

#[test]
fn one_disk_of_a_name_is_served_and_what_was_killed_is_replaced() {
    let mut served = Served::start("disk-names", &["--size", "8M"]);
    let second = served.order("serve --size 8M --socket /tmp/coldpress-never.sock");
    assert_eq!(second.status.code(), Some(125));
    assert!(stderr(&second).contains("--name"), "{}", stderr(&second));
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    assert!(stderr(&served.order("status")).contains("no disk of yours is served"));
    assert!(served.refused("compact").contains("no disk of yours"));
    served.child = Served::serve(&served.directory, &["--size", "16M", "--read-only"]);
    assert_eq!(served.figure("disksize"), 16 << 20);
    assert_eq!(served.figures()["read_only"], true);
    served.stop();
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let directory = Directory::new("disk-refused");
    for (line, why) in [
        ("--size 5000 --socket /tmp/x", "a multiple of 4096"),
        ("--size 0 --socket /tmp/x", "4096 bytes to 16 TiB"),
        ("--size 64MB --socket /tmp/x", "64MiB"),
        ("--size 8M --mem-limit 1M --socket /tmp/x", "4 MiB at least"),
        ("--size 8M --name a/b --socket /tmp/x", "no name"),
        (
            "--size 8M --codec gzip --socket /tmp/x",
            "cannot use \"gzip\"",
        ),
        ("--size 8M --listen 0.0.0.0:10809", "loopback"),
        ("--size 8M --socket /proc/x", "/proc/x"),
        ("--size 8M", "where it is to be served is missing"),
        ("--socket /tmp/x", "--size 4G --socket /tmp/x"),
    ] {
        let mut command = coldpress();
        command.args(["disk", "serve"]).args(line.split(' '));
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("run"));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
}

/// Story: one thread answered orders and questions in turn. While a disk of press was recompressed beside other work,
/// `disk status` said that it did not answer, and after ten minutes the order itself did.
#[test]
fn questions_are_answered_while_an_order_is_carried_out() {
    const WORDS: [&str; 8] = [
        "page", "fault", "gate", "tier", "return ", "self.", " = ", "\n",
    ];
    if !has(&["nbdcopy"], "questions to a disk") {
        return;
    }
    let served = Served::start("disk-questions", &["--size", "64M", "--codec", "zstd:1"]);
    let mut chance = 7u64;
    let mut word = || {
        chance = chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        WORDS[(chance >> 61) as usize]
    };
    let mut text = String::new();
    while text.len() < 6 << 20 {
        text.push_str(word());
    }
    let file = served.directory.path("text");
    fs::write(&file, &text.as_bytes()[..6 << 20]).unwrap();
    let copied = tool(&["nbdcopy", file.to_str().unwrap(), &served.uri("disk")]);
    assert!(copied.status.success(), "{}", stderr(&copied));
    served.done("idle");
    let mut order = coldpress();
    order.args(["disk", "recompress"]).stdout(Stdio::null());
    order.env("COLDPRESS_STATISTICS_DIR", served.directory.path("run"));
    let mut order = order.spawn().unwrap();
    let mut answered = 0;
    while order.try_wait().unwrap().is_none() {
        served.figures();
        answered += u32::from(order.try_wait().unwrap().is_none());
    }
    assert!(order.wait().unwrap().success());
    assert!(answered > 0, "no question was answered meanwhile");
    served.stop();
}
