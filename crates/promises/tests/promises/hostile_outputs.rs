//! Promise: what cannot be written harms neither the program's status nor anything that lies where the command writes.
//!
//! `run` lost the status where standard error was full (134) or without a reader (141); as root the commands
//! replaced device nodes and links by files; a trace on a full disk was cut silently; a library that could not be
//! loaded left the program without a pager; settings of one run were those of another inside it.

use coldpress_promises::{Managed, Outcome, Statistics, Workplace, managed, skip};
use serde_json::Value;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(90);

/// Runs a shell's line, in which `$RUN` stands for `coldpress run -b 24M --` and `$COLDPRESS` for the command.
fn shell(place: &Workplace, script: &str) -> Outcome {
    let mut command = Command::new("bash");
    let binary = managed::binary();
    command.args(["-c", script]);
    for name in [
        "COLDPRESS_BIN",
        "COLDPRESS_BUDGET",
        "COLDPRESS_CODEC",
        "COLDPRESS_STATS",
        "LD_PRELOAD",
    ] {
        command.env_remove(name);
    }
    command.env("COLDPRESS", &binary);
    command.env("RUN", format!("{} run --budget 24M --", binary.display()));
    command.env("PROMISES_MANAGED", "1");
    coldpress_promises::process::run(place, command, LIMIT)
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// `/dev/full`, a node of its own: the real one must not be harmed by a test that fails.
fn full(place: &Workplace) -> PathBuf {
    let path = place.path("full");
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a terminated path.
    let made = unsafe { libc::mknod(name.as_ptr(), libc::S_IFCHR | 0o666, libc::makedev(1, 7)) };
    assert_eq!(made, 0, "a node needs root");
    path
}

fn is_full(path: &Path) -> bool {
    let metadata = fs::symlink_metadata(path).unwrap();
    metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 7)
}

/// Each way in which nobody can be told anything, natively and under `run`: the program ends with its status, and
/// sees its descriptors and signals as natively.
#[test]
fn the_status_does_not_depend_on_who_listens() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("listeners");
    let program = place.compile("hostile_outputs");
    let full = full(&place);
    let ways = [
        ("full", format!("PROGRAM 2> {0}", full.display())),
        ("both full", format!("PROGRAM > {0} 2>&1", full.display())),
        ("closed", "PROGRAM >&- 2>&-".to_owned()),
        ("all closed", "PROGRAM <&- >&- 2>&-".to_owned()),
        // The reader leaves at once; the status comes by another way.
        ("no reader", "(sleep 1; PROGRAM; echo $? > status) 2>&1 | true; exit $(cat status)".to_owned()),
        ("pipe signal ignored", "trap '' PIPE XFSZ; (sleep 1; PROGRAM; echo $? > status) 2>&1 | true; exit $(cat status)".to_owned()),
        // A pipe that is full, and somebody holds the other end without reading.
        ("nobody reads", "mkfifo unread; exec 7<>unread; dd if=/dev/zero of=unread bs=4096 count=64 oflag=nonblock 2> /dev/null; PROGRAM 2>&7".to_owned()),
    ];
    for (n, (what, way)) in ways.iter().enumerate() {
        let seen = |how: &str| {
            let _ = fs::remove_file(place.path("unread"));
            let file = place.path(&format!("seen-{n}-{}", how.is_empty()));
            let line = format!("{how} {} {} 7", program.display(), file.display());
            let outcome = shell(&place, &way.replace("PROGRAM", &line));
            assert_eq!(outcome.status.code(), Some(7), "{what}: {outcome}");
            text(&file)
        };
        let native = seen("");
        assert_eq!(seen("$RUN"), native, "{what}");
    }
}

/// What there is to say while the program runs is not said, and nobody waits for that: signals are still passed on.
#[test]
fn a_notice_that_nobody_reads_holds_up_nobody() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("unread-notice");
    let program = place.path("noise.py");
    let text = "import os, signal, time\n\
                signal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n\
                held = os.urandom(64 << 20)\n\
                time.sleep(60)\n";
    fs::write(&program, text).unwrap();
    let script = format!(
        "mkfifo unread; exec 7<>unread; \
         dd if=/dev/zero of=unread bs=4096 count=64 oflag=nonblock 2> /dev/null; \
         $COLDPRESS run --budget 16M -- python3 {} 2>&7 & \
         sleep 6; kill $!; wait $!",
        program.display()
    );
    let outcome = shell(&place, &script);
    assert_eq!(outcome.status.code(), Some(7), "{outcome}");
}

/// Data that cannot be written is told with a status; a reader that has gone ends the command as it ends any tool.
#[test]
fn data_that_cannot_be_written_is_no_success() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("data");
    let full = full(&place);
    for what in [
        "status --json",
        "doctor",
        "doctor --json",
        "--help",
        "run --help",
        "--version",
    ] {
        for (to, word) in [
            (format!("> {}", full.display()), "No space left"),
            (">&-".to_owned(), "Bad file descriptor"),
        ] {
            let outcome = shell(&place, &format!("$COLDPRESS {what} {to}"));
            assert_eq!(outcome.status.code(), Some(125), "{what} {to}: {outcome}");
            let said = outcome.stderr.lines().collect::<Vec<_>>();
            assert!(
                said.len() == 1 && said[0].contains(word),
                "{what} {to}: {outcome}"
            );
        }
        // As grep ends: by SIGPIPE, without a word.
        let line = format!("(sleep 0.5; $COLDPRESS {what}) | true; exit ${{PIPESTATUS[0]}}");
        let outcome = shell(&place, &line);
        assert_eq!(
            (outcome.status.code(), outcome.stderr.as_str()),
            (Some(141), ""),
            "{what}: {outcome}"
        );
    }
    assert!(is_full(&full));
}

/// Every option that names a file, with a device node, a link to one, a link to a file, a link to nothing, a file of
/// two names, a file in a directory that may not be written, and a FIFO.
#[test]
fn what_a_name_leads_to_stays_what_it_is() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("names");
    let program = place.compile("hostile_outputs");
    let seen = place.path("seen");
    // A trace, and a file of pages, for the commands that read one.
    let made = shell(
        &place,
        &format!(
            "$COLDPRESS run -q --budget 16M --trace trace -- {} {} 0 48",
            program.display(),
            seen.display()
        ),
    );
    assert!(
        made.status.success() && text(&place.path("trace")).lines().count() > 1,
        "{made}"
    );
    let mut pages = Vec::new();
    for n in 0..64u64 * 512 {
        pages.extend((n * n % 1009).to_le_bytes());
    }
    fs::write(place.path("some.pages"), pages).unwrap();
    let run = format!("-- {} {} 0", program.display(), seen.display());
    let commands = [
        format!("$COLDPRESS run -q --stats TARGET {run}"),
        format!("$COLDPRESS run -q --trace TARGET --budget 16M {run} 48"),
        "$COLDPRESS trace trace --svg TARGET".to_owned(),
        "$COLDPRESS eval --sample 16 --rounds 1 --pin none --codec lz4:1 --storage two-slot --plot TARGET some.pages".to_owned(),
        "sleep 60 & trap \"kill $!\" EXIT; sleep 0.2; $COLDPRESS capture $! -o TARGET".to_owned(),
    ];
    let full = full(&place);
    for command in &commands {
        let to = |target: &str| shell(&place, &command.replace("TARGET", target));
        let is_run = command.contains(" run ");
        symlink("full", place.path("to-full")).unwrap();
        for target in ["full", "to-full"] {
            let outcome = to(target);
            let code = if is_run { 0 } else { 125 };
            assert_eq!(outcome.status.code(), Some(code), "{outcome}");
            assert!(outcome.stderr.contains("No space left"), "{outcome}");
            assert!(
                is_full(&full) && place.path("to-full").is_symlink(),
                "{outcome}"
            );
        }
        fs::write(place.path("real"), "old").unwrap();
        fs::set_permissions(place.path("real"), fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real", place.path("link")).unwrap();
        symlink("absent", place.path("dangling")).unwrap();
        fs::write(place.path("one"), "old").unwrap();
        fs::hard_link(place.path("one"), place.path("two")).unwrap();
        for target in ["link", "dangling", "one"] {
            let outcome = to(target);
            assert!(outcome.status.success(), "{outcome}");
            assert!(
                fs::metadata(place.path(target)).unwrap().len() > 60,
                "{target}: {outcome}"
            );
        }
        assert!(
            place.path("link").is_symlink() && place.path("dangling").is_symlink(),
            "{command}"
        );
        assert_eq!(
            fs::metadata(place.path("real")).unwrap().mode() & 0o777,
            0o640,
            "{command}"
        );
        let inode = |name| fs::metadata(place.path(name)).unwrap().ino();
        assert_eq!(inode("one"), inode("two"), "{command}");
        let outcome = shell(
            &place,
            &format!(
                "mkfifo fifo; cat fifo > read & {}; S=$?; wait %1; exit $S",
                command.replace("TARGET", "fifo")
            ),
        );
        let kind = fs::symlink_metadata(place.path("fifo"))
            .unwrap()
            .file_type();
        assert!(
            kind.is_fifo() && fs::metadata(place.path("read")).unwrap().len() > 60,
            "{outcome}"
        );
        let outcome = to("-");
        assert!(
            outcome.status.success() && outcome.stdout.len() > 60,
            "{outcome}"
        );
        assert!(!place.path("-").exists(), "{outcome}");
        for name in [
            "to-full", "real", "link", "dangling", "absent", "one", "two", "fifo", "read",
        ] {
            fs::remove_file(place.path(name)).unwrap();
        }
    }
    let partial = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("partial");
    assert!(!fs::read_dir(place.dir()).unwrap().flatten().any(partial));
}

/// A file that an ordinary user may write in a directory that he may not: in place.
#[test]
fn a_writable_file_in_a_closed_directory_is_written() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("closed");
    let directory = place.path("d");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("stats.json");
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let program = place.compile("hostile_outputs");
    let seen = place.path("seen");
    let Ok(managed) = Managed::new(&place).as_nobody().with_device() else {
        return skip::skipped("no /dev/userfaultfd");
    };
    let call = |target: &Path| {
        let target = target.to_str().unwrap();
        let program = program.to_str().unwrap();
        managed.call(&[
            "run",
            "-q",
            "--stats",
            target,
            "--",
            program,
            seen.to_str().unwrap(),
            "7",
        ])
    };
    let outcome = call(&file);
    assert_eq!(outcome.status.code(), Some(7), "{outcome}");
    assert!(
        Statistics::read(&file).unwrap().pager_started(),
        "{outcome}"
    );
    assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
    let refused = call(&directory.join("new.json"));
    assert_eq!(refused.status.code(), Some(125), "{refused}");
    assert!(
        refused.stderr.contains("--stats") && refused.stderr.contains("denied"),
        "{refused}"
    );
    fs::remove_dir_all(&directory).unwrap();
}

/// The disk fills up under the trace: the run says so, and what is there can be read.
#[test]
fn a_trace_that_is_not_whole_is_told() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("trace-full");
    let executable = place.compile("hostile_outputs");
    fs::create_dir(place.path("m")).unwrap();
    let mounted = shell(&place, "mount -t tmpfs -o size=4k coldpress-test m");
    if !mounted.status.success() {
        return skip::skipped("no file system can be mounted");
    }
    // The first process itself, and one that it starts.
    for (options, program) in [("", "PROGRAM"), ("--follow", "sh -c 'PROGRAM; exit $?'")] {
        let called = format!("{} seen 7 256", executable.display());
        let program = program.replace("PROGRAM", &called);
        let line = format!(
            "$COLDPRESS run -q {options} --trace m/t --budget 16M -- {program}; S=$?; $COLDPRESS trace m/t; exit $S"
        );
        let outcome = shell(&place, &line);
        assert_eq!(outcome.status.code(), Some(7), "{outcome}");
        let told = "the trace is not whole: it could not be written: No space left";
        assert!(outcome.stderr.contains(told), "{outcome}");
        assert!(outcome.stdout.contains("RULE"), "{outcome}");
    }
    let unmounted = shell(&place, "umount m");
    assert!(unmounted.status.success(), "{unmounted}");
}

/// With --follow the first program that has something to say writes FILE itself, also where a wrapper was started.
#[test]
fn the_trace_of_a_wrapped_program_is_where_it_was_asked_for() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("trace-wrapped");
    let program = place.compile("hostile_outputs");
    let line = format!(
        "$COLDPRESS run -q --follow --trace t --budget 16M -- sh -c '{} seen 7 48; exit $?'",
        program.display()
    );
    let outcome = shell(&place, &line);
    assert_eq!(outcome.status.code(), Some(7), "{outcome}");
    let head: Value =
        serde_json::from_str(text(&place.path("t")).lines().next().expect("a head")).unwrap();
    assert_eq!(head["program"], "hostile_outputs", "{outcome}");
}

/// A library that the loader cannot load, for this user or at all: refused before the program starts, and
/// `doctor` says the same.
#[test]
fn no_program_runs_without_its_pager() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("library");
    let library = managed::binary().with_file_name(managed::PRELOAD);
    let whole = fs::read(&library).unwrap();
    let make = |name: &str, bytes: &[u8]| {
        let path = place.path(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut foreign = whole.clone();
    foreign[18] = 183;
    let lacks = place.path("lacks.so");
    let compiled = shell(
        &place,
        &format!(
            "echo 'int nowhere(void); int f(void) {{ return nowhere(); }}' | gcc -shared -fPIC -Wl,-z,now -x c - -o {}",
            lacks.display()
        ),
    );
    assert!(compiled.status.success(), "{compiled}");
    let closed = make("closed.so", &whole);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let bad = [
        make("text.so", b"no library"),
        make("empty.so", b""),
        make("cut.so", &whole[..100_000]),
        make("head.so", &whole[..2000]),
        make("foreign.so", &foreign),
        lacks,
    ];
    let check = |managed: Managed<'_>, library: &Path| {
        let managed = managed.environment("COLDPRESS_PRELOAD_LIBRARY", library.to_str().unwrap());
        let run = managed.call(&["run", "--budget", "24M", "--", "/bin/echo", "ran"]);
        assert_eq!(
            (run.status.code(), run.stdout.as_str()),
            (Some(125), ""),
            "{run}"
        );
        let refusal = run
            .stderr
            .strip_prefix("coldpress: ")
            .unwrap_or_else(|| panic!("{run}"));
        assert!(refusal.contains(library.to_str().unwrap()), "{run}");
        let doctor = managed.call(&["doctor"]);
        assert_eq!(doctor.status.code(), Some(125), "{doctor}");
        assert!(
            doctor.stdout.contains(refusal.lines().next().unwrap()),
            "{doctor}{run}"
        );
    };
    for library in &bad {
        check(Managed::new(&place), library);
    }
    match Managed::new(&place).as_nobody().with_device() {
        Ok(nobody) => check(nobody, &closed),
        Err(_) => skip::skipped("no /dev/userfaultfd"),
    }
    let good =
        Managed::new(&place).environment("COLDPRESS_PRELOAD_LIBRARY", library.to_str().unwrap());
    assert_eq!(good.call(&["doctor"]).status.code(), Some(0));
}

/// A run inside a run has the settings that the user gave, not those that the outer command gave its pager.
#[test]
fn a_run_inside_a_run_is_the_users() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("nested");
    let program = place.compile("hostile_outputs");
    for follow in ["--no-follow", "--follow"] {
        let line = format!(
            "COLDPRESS_COLD_AFTER=7s $COLDPRESS run -q {follow} --budget 40M --codec zstd:1 --storage two-slot \
             --trigger pressure -- $COLDPRESS run -q --no-follow --stats inner.json -- {} seen 7",
            program.display()
        );
        let outcome = shell(&place, &line);
        assert_eq!(outcome.status.code(), Some(7), "{outcome}");
        let inner: Value = serde_json::from_str(&text(&place.path("inner.json"))).unwrap();
        assert_eq!(inner["budget_bytes"], Value::Null, "{inner:#}");
        assert_eq!(inner["cold_after_ms"], 7000, "the user's own reaches it");
        assert!(
            inner["codec"] != "zstd:1" && inner["storage"] != "two-slot",
            "{inner:#}"
        );
        assert_ne!(inner["triggers"], "pressure", "{inner:#}");
        assert!(
            text(&place.path("seen")).ends_with("\nCOLDPRESS_COLD_AFTER=7s\n"),
            "{outcome}"
        );
    }
}

/// A name that is no UTF-8, or gives orders to a terminal.
#[test]
fn a_name_may_hold_any_bytes() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("bytes");
    let program = place.compile("hostile_outputs");
    let (stats, seen) = (place.path("s.json"), place.path("seen"));
    for name in [&b"n\xff\xfem"[..], b"a\x1b[2Jb\nc"] {
        let odd = place
            .dir()
            .join(std::ffi::OsString::from_vec(name.to_vec()));
        fs::copy(&program, &odd).unwrap();
        let mut command = Command::new(managed::binary());
        command
            .args(["run", "--budget", "24M", "--stats"])
            .arg(&stats)
            .arg("--")
            .arg(&odd)
            .arg(&seen)
            .arg("7");
        let outcome = coldpress_promises::process::run(&place, command, LIMIT);
        assert_eq!(outcome.status.code(), Some(7), "{outcome}");
        assert!(
            Statistics::read(&stats).unwrap().pager_started(),
            "{outcome}"
        );
        let control = |c: char| c.is_control() && c != '\n';
        assert!(!outcome.stderr.contains(control), "{:?}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{:?}", outcome.stderr);
    }
}

/// Of a managed process a capture holds what is in place alone, and it says so.
#[test]
fn a_capture_of_a_managed_process_says_what_is_missing() {
    if !skip::root_or_skip() {
        return;
    }
    let place = Workplace::new("capture");
    let script = "mkfifo said go; exec 7<> said 8<> go
        HOW bash -c 'x=$(head -c 9000000 /dev/zero | tr \"\\0\" a); echo $$ >&7; read line <&8' & run=$!
        read pid <&7
        $COLDPRESS capture $pid -o pages; echo >&8; wait $run";
    for (how, says) in [("env", false), ("$RUN", true)] {
        let outcome = shell(&place, &script.replace("HOW", how));
        assert!(outcome.status.success(), "{outcome}");
        let _ = fs::remove_file(place.path("said"));
        let _ = fs::remove_file(place.path("go"));
        let said = outcome
            .stderr
            .contains("what is compressed is not captured");
        assert_eq!(said, says, "{outcome}");
    }
}
