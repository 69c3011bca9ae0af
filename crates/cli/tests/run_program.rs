//! Promise: under `coldpress run` a program behaves towards its caller as without it: same
//! arguments, environment, signals and end.
//!
//! The pager is a stand-in compiled here: a library that fills in the first slot of the run file as the real one
//! would, and compresses nothing.

use crate::common::{Directory, coldpress, copy_executable, full_tier, stderr, stdout};
use coldpress_interface::control::{COLD_AFTER_AUTO, NO_BUDGET};
use coldpress_interface::run_file;
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `VERSION`, `OWNERS_AT` and `SLOTS_AT` are defined on the command line.
const FAKE_PAGER_HEAD: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n";

/// As the real one answers where the command only tries whether it can be loaded.
const ANSWER: &str = r#"if (getenv("_COLDPRESS_TRIAL")) {
    puts("coldpress-preload " RELEASE);
    fflush(stdout);
    _exit(0);
}"#;

const FAKE_PAGER: &str = r#"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void start(void) {
    if (getenv("_COLDPRESS_TRIAL")) {
        puts("coldpress-preload " RELEASE);
        fflush(stdout);
        _exit(0);
    }
    const char *file = getenv("_COLDPRESS_RUN_FILE"), *root = getenv("_COLDPRESS_ROOT_PID");
    if (!file || !root || atoi(root) != getpid()) return;
    static uint64_t page[1024];
    char text[4096];
    FILE *stat = fopen("/proc/self/stat", "r");
    size_t n = fread(text, 1, sizeof text - 1, stat);
    fclose(stat);
    text[n] = 0;
    char *at = strrchr(text, ')') + 2;
    for (int field = 3; field < 22; field++) at = strchr(at, ' ') + 1;
    memcpy(page, "COLDPRS1", 8);
    page[1] = VERSION;
    page[2] = getpid();
    page[3] = strtoull(at, 0, 10);
    page[4] = strtoull(getenv("_COLDPRESS_BUDGET_BYTES"), 0, 10);
    page[7] = 700u << 10;
    uint64_t owner = getpid();
    int fd = open(file, O_RDWR);
    if (pwrite(fd, &owner, 8, OWNERS_AT) != 8) abort();
    if (pwrite(fd, page, sizeof page, SLOTS_AT) != sizeof page) abort();
    close(fd);
}
"#;

struct Setup {
    directory: Directory,
    library: PathBuf,
}

impl Setup {
    fn new(name: &str) -> Option<Self> {
        let directory = Directory::new(name);
        if !full_tier("running a program") {
            return None;
        }
        let library = directory.compile(
            "fake.so",
            FAKE_PAGER,
            &[
                "-shared",
                "-fPIC",
                &format!("-DVERSION={}", coldpress_interface::statistics::VERSION),
                &format!("-DOWNERS_AT={}", run_file::OWNERS_AT),
                &format!("-DSLOTS_AT={}", run_file::SLOTS_AT),
                concat!("-DRELEASE=\"", env!("CARGO_PKG_VERSION"), "\""),
            ],
        )?;
        Some(Self { directory, library })
    }

    fn statistics_dir(&self) -> PathBuf {
        self.directory.path("s")
    }

    fn run(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = coldpress();
        command
            .args(["run", "--budget", "64M"])
            .args(options)
            .arg("--")
            .args(program);
        command.env("COLDPRESS_PRELOAD_LIBRARY", &self.library);
        command.env("COLDPRESS_STATISTICS_DIR", self.statistics_dir());
        command
    }

    fn start(&self, script: &str) -> Child {
        let mut command = self.run(&["-q"], &["sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0u8; 1];
        child
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut ready)
            .unwrap();
        child
    }

    fn no_files_are_left(&self) {
        assert_eq!(fs::read_dir(self.statistics_dir()).unwrap().count(), 0);
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: a process that this test started.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_programs_status_and_output_are_its_own() {
    let Some(setup) = Setup::new("status") else {
        return;
    };
    for code in [0, 1, 42, 125, 255] {
        let script = format!("echo out; echo err >&2; exit {code}");
        let output = setup.run(&[], &["sh", "-c", &script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(stdout(&output), "out\n");
        let lines: Vec<String> = stderr(&output).lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "err");
        assert!(
            lines[1].starts_with("coldpress: sh: nothing to compress: the program ended after"),
            "{lines:?}"
        );
        assert_eq!(lines.len(), 2);
    }
    let output = setup
        .run(&["--quiet"], &["sh", "-c", "exit 3"])
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(3), String::new())
    );
    setup.no_files_are_left();
}

#[test]
fn a_killed_program_is_seen_as_killed_by_that_signal() {
    let Some(setup) = Setup::new("killed") else {
        return;
    };
    for number in [
        libc::SIGKILL,
        libc::SIGSEGV,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGABRT,
        libc::SIGUSR1,
    ] {
        let output = setup
            .run(
                &[],
                &[
                    "sh",
                    "-c",
                    &format!("grep Sig /proc/$$/status; kill -{number} $$"),
                ],
            )
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(number), "{output:?}");
        assert!(!output.status.core_dumped());
        assert!(
            stderr(&output).contains("coldpress: sh: nothing to compress"),
            "{}",
            stderr(&output)
        );
    }
    setup.no_files_are_left();
}

#[test]
fn json_is_found_where_it_is_looked_for() {
    let output = coldpress()
        .args(["run", "--json", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("coldpress run --stats FILE"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn arguments_and_environment_reach_the_program() {
    let Some(setup) = Setup::new("environment") else {
        return;
    };
    let script = "printf '%s|' \"$0\" \"$@\"; echo $$; env";
    let mut command = setup.run(
        &["--cold-after", "1.5s"],
        &["sh", "-c", script, "zero", "-x", "--", "two words", ""],
    );
    let output = command
        .env("LD_PRELOAD", "")
        .env("COLDPRESS_CHAOS", "0")
        .env("ORDINARY", "kept")
        .output()
        .unwrap();
    let text = stdout(&output);
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    let (arguments, pid) = first.rsplit_once('|').unwrap();
    assert_eq!(arguments, "zero|-x|--|two words|");
    let has = |entry: &str| text.lines().any(|line| line == entry);
    for entry in [
        format!("_COLDPRESS_ROOT_PID={pid}"),
        "_COLDPRESS_BUDGET_BYTES=67108864".to_owned(),
        "_COLDPRESS_COLD_AFTER_MS=1500".to_owned(),
        format!("_COLDPRESS_PRELOAD_PATH={}", setup.library.display()),
        format!("LD_PRELOAD={}", setup.library.display()),
        "ORDINARY=kept".to_owned(),
    ] {
        assert!(has(&entry), "{entry}: {text}");
    }
    assert!(
        !text.contains("_COLDPRESS_DEVICE_FD")
            || crate::common::stdout(&output).contains("_COLDPRESS_DEVICE_FD=")
    );
}

#[test]
fn signals_sent_to_coldpress_reach_the_program() {
    let Some(setup) = Setup::new("forward") else {
        return;
    };
    for (name, number) in [
        ("TERM", libc::SIGTERM),
        ("HUP", libc::SIGHUP),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("WINCH", libc::SIGWINCH),
        ("INT", libc::SIGINT),
    ] {
        let script = format!("trap 'exit 42' {name}; echo; while :; do sleep 0.05; done");
        let mut child = setup.start(&script);
        signal(child.id(), number);
        assert_eq!(child.wait().unwrap().code(), Some(42), "{name}");
    }
    setup.no_files_are_left();
}

/// What `tgkill` sends may not be passed on as its own; it was lost.
#[test]
fn signals_sent_to_the_thread_reach_the_program() {
    let Some(setup) = Setup::new("forward-thread") else {
        return;
    };
    let mut child = setup.start("trap 'exit 42' TERM; echo; while :; do sleep 0.05; done");
    let pid = child.id();
    // SAFETY: a signal to a child of ours that has not been waited for.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGTERM) };
    assert_eq!(sent, 0);
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

/// An earlier trace is as it was where the run is refused for something else.
#[test]
fn a_refused_run_leaves_an_earlier_trace_alone() {
    if !full_tier("a refused run") {
        return;
    }
    let directory = Directory::new("refused-trace");
    let trace = directory.file("old.trace", b"earlier", 0o600);
    let existing = directory.file("existing", b"something", 0o600);
    let mut command = coldpress();
    command.args(["run", "--trace"]).arg(&trace);
    command.arg("--writeback").arg(&existing);
    let output = command.args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert_eq!(fs::read(&trace).unwrap(), b"earlier");
}

#[test]
fn stopping_and_continuing_is_passed_on() {
    let Some(setup) = Setup::new("stop") else {
        return;
    };
    // An orphaned process group ignores SIGTSTP's default, so the program stops itself the way
    // the terminal would have it: coldpress must then stop too.
    let script = "echo $$; kill -TSTP $$; exit 7";
    let mut command = setup.run(&["-q"], &["sh", "-c", script]);
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let parent = child.id();
    until("coldpress stops with the program", || state(parent) == 'T');
    signal(parent, libc::SIGCONT);
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

#[test]
fn ignored_signals_stay_ignored_for_the_program() {
    let Some(setup) = Setup::new("ignored") else {
        return;
    };
    for ignored in [true, false] {
        let mut command = setup.run(&["-q"], &["sh", "-c", "grep SigIgn /proc/self/status"]);
        // SAFETY: signal is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                let disposition = if ignored {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                };
                for number in [libc::SIGPIPE, libc::SIGHUP, libc::SIGCHLD] {
                    libc::signal(number, disposition);
                }
                Ok(())
            });
        }
        let output = command.output().unwrap();
        let text = stdout(&output);
        let mask = u64::from_str_radix(text.split_whitespace().nth(1).unwrap(), 16).unwrap();
        for number in [libc::SIGPIPE, libc::SIGHUP] {
            assert_eq!(mask & 1 << (number - 1) != 0, ignored, "{number}: {text}");
        }
        assert_eq!(
            output.status.code(),
            Some(0),
            "even where SIGCHLD was ignored"
        );
    }
}

#[test]
fn the_statistics_are_written_as_json() {
    let Some(setup) = Setup::new("json") else {
        return;
    };
    let target = setup.directory.path("out.json");
    let options = ["-q", "--stats", target.to_str().unwrap()];
    let status = setup
        .run(&options, &["sh", "-c", "exit 5"])
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(5));
    let value: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
    assert_eq!(value["peak_total_bytes"], 700 << 10);
    assert_eq!(value["budget_bytes"], 64 << 20);
    assert_eq!(
        (&value["exit_status"], &value["signal"]),
        (&Value::from(5), &Value::Null)
    );
    assert_eq!(value["pager_started"], true);
    assert!(
        value["failures"]["incompressible"].is_number()
            && value["fault_service"]["p999_ns"].is_null()
    );
    let absent = setup.directory.path("no/such/out.json");
    let output = setup
        .run(&["--stats", absent.to_str().unwrap()], &["touch", "never"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("--stats"), "{}", stderr(&output));
}

#[test]
fn a_program_without_a_pager_is_told_plainly() {
    let Some(setup) = Setup::new("nopager") else {
        return;
    };
    let answers = format!(
        "{FAKE_PAGER_HEAD}\n__attribute__((constructor)) static void start(void) {{ {ANSWER} }}"
    );
    let release = concat!("-DRELEASE=\"", env!("CARGO_PKG_VERSION"), "\"");
    let options = ["-shared", "-fPIC", release];
    let empty = setup
        .directory
        .compile("empty.so", &answers, &options)
        .unwrap();
    let mut command = setup.run(&[], &["sh", "-c", "exit 4"]);
    let output = command
        .env("COLDPRESS_PRELOAD_LIBRARY", &empty)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("the pager did not start"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_library_that_cannot_be_preloaded_is_refused() {
    let Some(setup) = Setup::new("library") else {
        return;
    };
    let split = setup.directory.path("my lib.so");
    fs::copy(&setup.library, &split).unwrap();
    for (path, word) in [
        (split, "splits"),
        (setup.directory.path("absent.so"), "no file"),
        (
            setup
                .directory
                .compile("other.so", "", &["-shared", "-fPIC"])
                .unwrap(),
            "does not answer",
        ),
        (
            setup
                .directory
                .compile(
                    "lacks.so",
                    "int nowhere(void); int f(void) { return nowhere(); }",
                    &["-shared", "-fPIC", "-Wl,-z,now"],
                )
                .unwrap(),
            "undefined symbol: nowhere",
        ),
        (
            setup.directory.file("text.so", b"no library", 0o755),
            "it is no ELF file",
        ),
        (
            setup
                .directory
                .file("cut.so", &fs::read(&setup.library).unwrap()[..3000], 0o755),
            "cannot be loaded",
        ),
    ] {
        let output = setup
            .run(&[], &["true"])
            .env("COLDPRESS_PRELOAD_LIBRARY", path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
    let alone = setup.directory.path("coldpress");
    copy_executable(Path::new(env!("CARGO_BIN_EXE_coldpress")), &alone);
    let mut command = Command::new(&alone);
    command
        .args(["run", "--budget", "64M", "--", "true"])
        .env_remove("COLDPRESS_PRELOAD_LIBRARY");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("cargo build --release -p coldpress-preload"),
        "{}",
        stderr(&output)
    );
    // Installed as bin/ and lib/.
    fs::create_dir_all(setup.directory.path("usr/bin")).unwrap();
    fs::create_dir_all(setup.directory.path("usr/lib/coldpress")).unwrap();
    let installed = setup.directory.path("usr/bin/coldpress");
    copy_executable(&alone, &installed);
    fs::copy(
        &setup.library,
        setup
            .directory
            .path("usr/lib/coldpress/libcoldpress_preload.so"),
    )
    .unwrap();
    let mut command = Command::new(&installed);
    command
        .args(["run", "--budget", "64M", "--", "true"])
        .env_remove("COLDPRESS_PRELOAD_LIBRARY");
    let output = command
        .env("COLDPRESS_STATISTICS_DIR", setup.statistics_dir())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("nothing to compress"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_nobody_with_an_inherited_descriptor_hands_it_on() {
    if !crate::common::root("handing a descriptor of /dev/userfaultfd to a user without privilege")
    {
        return;
    }
    let unprivileged =
        fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").unwrap_or_default();
    let (Ok(device), "0") = (fs::File::open("/dev/userfaultfd"), unprivileged.trim()) else {
        eprintln!("SKIPPED: no /dev/userfaultfd, or the system call is open to everybody");
        return;
    };
    let Some(setup) = Setup::new("nobody") else {
        return;
    };
    let mut command = crate::common::coldpress_as_nobody(&setup.directory);
    let script = "readlink /proc/self/fd/$_COLDPRESS_DEVICE_FD; ls -d ${_COLDPRESS_RUN_FILE%/*}";
    command.args(["run", "--budget", "64M", "--", "sh", "-c", script]);
    command.env("COLDPRESS_PRELOAD_LIBRARY", &setup.library);
    crate::common::inherit(&mut command, &device);
    let output = command.output().unwrap();
    assert_eq!(
        stdout(&output),
        "/dev/userfaultfd\n/tmp/coldpress-65534\n",
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("nothing to compress"),
        "{}",
        stderr(&output)
    );
    let _ = fs::remove_dir("/tmp/coldpress-65534");
}

#[test]
fn codec_and_storage_are_handed_on() {
    let Some(setup) = Setup::new("choice") else {
        return;
    };
    let script = "echo $_COLDPRESS_CODEC $_COLDPRESS_STORAGE";
    for (options, told) in [
        (
            &["-q", "--codec", "zstd:-7", "--storage", "size-class"][..],
            "zstd:-7 size-class",
        ),
        (&["-q", "--codec", "lz4"], "lz4:1 three-slot"),
        (&["-q", "--storage", "two-slot"], "lzo two-slot"),
    ] {
        let mut command = setup.run(options, &["sh", "-c", script]);
        let output = command
            .env("COLDPRESS_CODEC", "lzo")
            .env("COLDPRESS_STORAGE", "three-slot")
            .output()
            .unwrap();
        assert_eq!(stdout(&output).trim(), told);
    }
}

/// Command line over environment over file over what holds otherwise, setting by setting.
#[test]
fn settings_come_from_the_command_line_the_environment_and_a_file() {
    let Some(setup) = Setup::new("settings") else {
        return;
    };
    let file = setup.directory.file(
        "coldpress.toml",
        b"# mine\nbudget = \"32M\"\ncold-after = 5\ntrigger = [\"eager\"]\nquiet = true\n",
        0o644,
    );
    let script = "echo $_COLDPRESS_BUDGET_BYTES $_COLDPRESS_COLD_AFTER_MS $_COLDPRESS_TRIGGER";
    let run = |options: &[&str], environment: &[(&str, &str)]| {
        let mut command = coldpress();
        command.arg("run").args(options);
        command.args(["--", "sh", "-c", script]);
        command.env("COLDPRESS_PRELOAD_LIBRARY", &setup.library);
        command.env("COLDPRESS_STATISTICS_DIR", setup.statistics_dir());
        command.envs(environment.iter().copied());
        command.output().unwrap()
    };
    let told = |options: &[&str], environment: &[(&str, &str)]| {
        let output = run(options, environment);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (stdout(&output).trim().to_owned(), stderr(&output))
    };
    let config = ["--config", file.to_str().unwrap()];
    let (text, message) = told(&config, &[]);
    assert_eq!(
        (text.as_str(), message.as_str()),
        ("33554432 5000 eager", "")
    );
    let by_variable = [("COLDPRESS_CONFIG", config[1])];
    assert_eq!(told(&[], &by_variable).0, "33554432 5000 eager");
    let environment = [
        ("COLDPRESS_BUDGET", "64M"),
        ("COLDPRESS_TRIGGER", "pressure,critical"),
        ("COLDPRESS_QUIET", "no"),
        ("COLDPRESS_COLD_AFTER", ""),
    ];
    let (text, message) = told(&config, &environment);
    assert_eq!(text, "67108864 5000 pressure,critical");
    assert!(message.contains("nothing to compress"), "{message}");
    let upper = [&config[..], &["--budget", "16M", "--cold-after", "none"]].concat();
    let (text, _) = told(&upper, &environment);
    assert_eq!(text, "16777216 pressure,critical");

    // Without a budget, age drives.
    let (text, message) = told(&[], &[]);
    if text.starts_with("18446744073709551615") {
        assert_eq!(
            text,
            format!("{NO_BUDGET} {COLD_AFTER_AUTO} eager,pressure,critical")
        );
        assert!(message.contains("the program ended after"), "{message}");
    } else {
        eprintln!("SKIPPED: this test runs in a memory group with a limit, which is the budget");
        assert!(
            message.contains("its memory group is limited to"),
            "{message}"
        );
    }
    assert!(
        told(&["--budget", "64M"], &[])
            .0
            .starts_with("67108864 eager")
    );

    // What is wrong is one line that says where.
    let refused = |options: &[&str], environment: &[(&str, &str)], what: &str| {
        let output = run(options, environment);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.lines().next().unwrap().contains(what), "{message}");
    };
    let wrong = setup
        .directory
        .file("wrong.toml", b"quiet = true\nbugdet = 1\n", 0o644);
    let wrong = wrong.to_str().unwrap();
    let unknown =
        "wrong.toml:2: there is no setting \"bugdet\": there are budget, cold-after, trigger";
    refused(&["--config", wrong], &[], unknown);
    refused(
        &["--config", "/nonexistent"],
        &[],
        "--config: /nonexistent cannot be read",
    );
    refused(
        &[],
        &[("COLDPRESS_CODEC", "gzip")],
        "COLDPRESS_CODEC: cannot use \"gzip\"",
    );
    refused(
        &["--trigger", "eager,lazy"],
        &[],
        "--trigger: \"lazy\" is no trigger",
    );
}

/// The budget was what was asked for, whatever the memory group allowed: the program was killed at
/// the limit before the pager saw a reason to take anything.
#[test]
fn the_budget_is_no_larger_than_the_memory_group_allows() {
    let Some(setup) = Setup::new("group") else {
        return;
    };
    let group = match MemoryGroup::new(64 << 20) {
        Ok(group) => group,
        Err(why) => {
            eprintln!("SKIPPED: no memory group of cgroup v1: {why}");
            return;
        }
    };
    let target = setup.directory.path("out.json");
    for (budget, in_force) in [("1G", 60 << 20), ("32M", 32 << 20)] {
        let mut command = coldpress();
        command.args(["run", "-v", "--budget", budget, "--stats"]);
        command.arg(&target).args(["--", "true"]);
        command.env("COLDPRESS_PRELOAD_LIBRARY", &setup.library);
        command.env("COLDPRESS_STATISTICS_DIR", setup.statistics_dir());
        let output = group.run(command);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{message}");
        let told = message.contains(
            "the budget is 60.0 MiB, not 1.0 GiB: its memory group is limited to 64.0 MiB",
        ) && message.contains("budget 60.0 MiB, by the limit of its memory group");
        assert_eq!(told, budget == "1G", "{message}");
        let value: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
        assert_eq!(value["budget_bytes"], in_force);
        assert_eq!(
            value["budget_asked_bytes"],
            if budget == "1G" { 1 << 30 } else { in_force }
        );
    }
}

/// A memory group below the test's own, removed at the end.
struct MemoryGroup(PathBuf);

impl MemoryGroup {
    fn new(limit_bytes: u64) -> std::io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let own = groups.lines().find_map(|l| l.split_once(":memory:"));
        let own = own.ok_or(std::io::ErrorKind::NotFound)?.1;
        let parent = Path::new("/sys/fs/cgroup/memory").join(own.trim_start_matches('/'));
        let group = Self(parent.join(format!("coldpress-cli-{}", std::process::id())));
        fs::create_dir(&group.0)?;
        fs::write(
            group.0.join("memory.limit_in_bytes"),
            limit_bytes.to_string(),
        )?;
        Ok(group)
    }

    fn run(&self, mut command: Command) -> std::process::Output {
        let tasks = fs::OpenOptions::new()
            .write(true)
            .open(self.0.join("cgroup.procs"))
            .unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&tasks);
        // SAFETY: write is async-signal-safe, and the file stays open; "0" stands for the writer.
        unsafe {
            command.pre_exec(move || match libc::write(number, c"0".as_ptr().cast(), 1) {
                1 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let output = command.output().unwrap();
        drop(tasks);
        output
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The kernel lets go of a group a moment after its last process.
        for _ in 0..200 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
