//! Promise: `coldpress bench cache` measures every kind under a limit that it makes and removes again, also
//! when it is interrupted, and says what mends it where it cannot make one.

use crate::common::{Directory, coldpress, coldpress_as_nobody, root, stderr, stdout};
use serde_json::Value;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const KINDS: [&str; 9] = [
    "lazyfree",
    "lazyfree-plain",
    "compressed",
    "dontneed",
    "anonymous",
    "anonymous-small",
    "mix",
    "disk",
    "stub",
];

fn bench() -> Command {
    let mut command = coldpress();
    command.args(["bench", "cache"]);
    command
}

/// Groups that process `pid` has made.
fn groups(pid: u32) -> Vec<PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.split_once(":memory:"));
    let parent = match own {
        Some((_, path)) => PathBuf::from("/sys/fs/cgroup/memory").join(path.trim_matches('/')),
        None => PathBuf::from("/sys/fs/cgroup"),
    };
    let name = format!("coldpress-bench-cache-{pid}-");
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name));
    ours.map(|entry| entry.path()).collect()
}

/// Whether groups can be made here; says loudly what is skipped if not.
fn can_limit(why: &str) -> bool {
    if !root(why) {
        return false;
    }
    let probe = bench()
        .args(["--quick", "--kinds", "stub"])
        .output()
        .unwrap();
    if probe.status.success() {
        return true;
    }
    // What stands in the way is named; anything else is a failure of what is tested.
    let message = stderr(&probe);
    assert!(message.contains("cannot limit memory"), "{message}");
    eprintln!("SKIPPED: {why}: {message}");
    assert_ne!(std::env::var("COLDPRESS_FORBID_SKIPS").as_deref(), Ok("1"));
    false
}

fn swap() -> bool {
    std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

fn rate(pass: &Value) -> f64 {
    pass["hits"].as_f64().unwrap() / pass["entries"].as_f64().unwrap()
}

#[test]
fn every_kind_is_measured_and_nothing_stays() {
    if !can_limit("measuring the cache") {
        return;
    }
    let directory = Directory::new("bench-cache");
    let (json, svg) = (directory.path("x.json"), directory.path("x.svg"));
    let mut command = bench();
    command
        .arg("--quick")
        .arg("--json")
        .arg(&json)
        .arg("--svg")
        .arg(&svg);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output: Output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(groups(pid), Vec::<PathBuf>::new());
    assert_eq!(stderr(&output), "");
    let table = stdout(&output);
    for kind in KINDS.into_iter().chain([
        "LazyFree",
        "Upstream's figures",
        "entries: 1,024 pages, made up",
    ]) {
        assert!(table.contains(kind), "{kind}: {table}");
    }
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.contains("lazyfree-plain") && svg.ends_with("</svg>\n"));

    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), KINDS.len());
    let (hot, cold) = (4 << 20 >> 12, 56 << 20 >> 12);
    for (run, kind) in runs.iter().zip(KINDS) {
        assert_eq!(run["kind"], kind);
        let measured = &run["measured"];
        if kind == "anonymous" && !swap() {
            // 60 MiB that nobody can take, 48 more, and a limit of 72.
            assert!(measured.is_null(), "{run}");
            continue;
        }
        for (pass, entries) in [
            ("hot_before", hot),
            ("cold_before", cold),
            ("hot_after", hot),
            ("cold_after", cold),
        ] {
            assert_eq!(measured[pass]["entries"], entries, "{kind}");
        }
        assert!(
            measured["peak"]["usage_bytes"].as_u64().unwrap() <= 72 << 20,
            "{kind}"
        );
        let before = (
            rate(&measured["hot_before"]),
            rate(&measured["cold_before"]),
        );
        let after = (rate(&measured["hot_after"]), rate(&measured["cold_after"]));
        match kind {
            "stub" => assert_eq!((before, after), ((0.0, 0.0), (0.0, 0.0))),
            "anonymous-small" => assert!(before.1 < 0.5),
            "disk" => assert_eq!((before, after), ((1.0, 1.0), (1.0, 1.0))),
            _ => {
                assert_eq!(before, (1.0, 1.0), "{kind}");
                // Pages of 60 MiB do not fit into the 24 MiB that are left.
                let lost = after.1 < 0.5;
                assert!(lost != (kind == "compressed"), "{kind}: {after:?}");
            }
        }
    }
    // The limit is what made lazyfree lose: the kernel took pages.
    let of = |kind: &str| &runs[KINDS.iter().position(|one| *one == kind).unwrap()]["measured"];
    assert!(of("lazyfree")["peak"]["resident_bytes"].as_u64().unwrap() < 26 << 20);
    assert!(
        of("compressed")["peak"]["compressed_entries"]
            .as_u64()
            .unwrap()
            > 1000
    );
    assert!(rate(&of("compressed")["hot_after"]) >= 0.99);
}

#[test]
fn a_signal_ends_the_measurement_and_removes_the_group() {
    if !can_limit("interrupting a measurement") {
        return;
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut command = bench();
        // Long enough that the signal comes in the middle, in whatever state it finds the group.
        command.args([
            "--quick",
            "--rounds",
            "1000",
            "--kinds",
            "lazyfree,anonymous",
        ]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while groups(child.id()).is_empty() {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it makes no group"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(150));
        // SAFETY: our own child, which was not waited for.
        unsafe { libc::kill(child.id().cast_signed(), signal) };
        let mut message = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut message)
            .unwrap();
        let status = child.wait().unwrap();
        let died_by = std::os::unix::process::ExitStatusExt::signal(&status);
        assert_eq!(died_by, Some(signal), "{status}: {message}");
        assert_eq!(groups(child.id()), Vec::<PathBuf>::new());
    }
}

#[test]
fn entries_come_from_captured_pages() {
    if !can_limit("measuring on pages of a file") {
        return;
    }
    let directory = Directory::new("bench-cache-pages");
    let page = |n: u32| (0..1024u32).flat_map(move |word| (n * 7 + word / 16).to_le_bytes());
    let bytes: Vec<u8> = (0..100).flat_map(page).collect();
    let file = directory.file("some.pages", &bytes, 0o644);
    let output = bench()
        .args(["--quick", "--kinds", "compressed", "--pages"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(
        table.contains("entries: 100 pages, captured (some.pages)"),
        "{table}"
    );
    assert!(
        table.contains("compressed: hot 100.0 %") && table.contains(": met"),
        "{table}"
    );
}

#[test]
fn what_cannot_be_done_is_refused_with_what_mends_it() {
    let refused = |output: Output, words: &[&str]| {
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "{}", stderr(&output));
        }
    };
    refused(
        bench().args(["--kinds", "lru"]).output().unwrap(),
        &["lazyfree-plain"],
    );
    refused(
        bench()
            .args(["--quick", "--reclaim", "72M"])
            .output()
            .unwrap(),
        &["--reclaim"],
    );
    refused(
        bench()
            .args(["--quick", "--pages", "/nowhere"])
            .output()
            .unwrap(),
        &["/nowhere"],
    );
    refused(
        bench()
            .args(["--quick", "--json", "/nowhere/x"])
            .output()
            .unwrap(),
        &["/nowhere/x"],
    );
    if root("being nobody") {
        let directory = Directory::new("bench-cache-nobody");
        let mut command = coldpress_as_nobody(&directory);
        let output = command
            .args(["bench", "cache", "--quick", "--kinds", "stub"])
            .output();
        refused(
            output.unwrap(),
            &["cannot limit memory", "sudo coldpress bench cache"],
        );
    }
}
