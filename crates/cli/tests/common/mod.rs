//! Helpers of the command's integration tests: run the built binary, and make things to run.
#![allow(dead_code, reason = "each test file uses some of them")]

pub mod pseudo_terminal;
pub mod serving;

pub use coldpress_promises::workplace::copy_executable;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub const NOBODY: u32 = 65534;

/// The built binary, with nothing inherited from whoever runs the tests: no settings, and no
/// ignored or blocked signals. (A shell without job control starts what it runs in the background
/// with SIGINT and SIGQUIT ignored, `nohup` ignores SIGHUP; a program keeps that, and so does
/// Coldpress, so a test that expects to see a program die by SIGINT failed there.)
pub fn coldpress() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_coldpress")))
}

fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COLDPRESS_") {
            command.env_remove(name);
        }
    }
    command
        .env_remove("LD_PRELOAD")
        .envs(release_library().map(|library| ("COLDPRESS_PRELOAD_LIBRARY", library)))
        .env_remove("XDG_RUNTIME_DIR")
        // Not the settings of the machine and of the user.
        .env("COLDPRESS_CONFIG", "/dev/null")
        .stdin(Stdio::null());
    // SAFETY: the calls are async-signal-safe, and zeros are an empty set.
    unsafe {
        command.pre_exec(|| {
            for number in 1..32 {
                libc::signal(number, libc::SIG_DFL);
            }
            let none: libc::sigset_t = std::mem::zeroed();
            libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
            Ok(())
        });
    }
    command
}

/// A copy of the binary in a place that every user may enter, to be run as nobody.
pub fn coldpress_as_nobody(directory: &Directory) -> Command {
    let copy = directory.path("coldpress");
    copy_executable(Path::new(env!("CARGO_BIN_EXE_coldpress")), &copy);
    let mut command = clean(Command::new(copy));
    if let Some(library) = release_library() {
        let copy = directory.path(LIBRARY);
        copy_executable(&library, &copy);
        command.env("COLDPRESS_PRELOAD_LIBRARY", copy);
    }
    command.uid(NOBODY).gid(NOBODY).current_dir("/");
    command
}

/// Lets the command's process inherit the open device. Returns the number that it has there, which is that it has here: not
/// one of our choice by dup2, which does nothing where it has that already, so that it stays close-on-exec (seen under load).
pub fn inherit(command: &mut Command, device: &fs::File) -> i32 {
    let number = device.as_raw_fd();
    // SAFETY: fcntl is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(number, libc::F_SETFD, 0);
            Ok(())
        });
    }
    number
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Whether the tests run as root; says loudly what is skipped if not.
pub fn root(why: &str) -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("SKIPPED: {why}: needs root");
    }
    root
}

/// Whether `coldpress run` can work for the user of the tests; says loudly what is skipped if not.
pub fn full_tier(why: &str) -> bool {
    let output = coldpress().args(["doctor", "--json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let full = found["tier"] == "full";
    if !full {
        eprintln!(
            "SKIPPED: {why}: the full tier of userfaultfd is not there (see coldpress doctor)"
        );
    }
    full
}

/// A directory of one test, open to every user, removed at the end.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let (pid, made) = (std::process::id(), MADE.fetch_add(1, Relaxed));
        let path = PathBuf::from(format!("/tmp/coldpress-test-{pid}-{made}-{name}"));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Compiles C source; `None`, loudly, where it cannot be.
    pub fn compile(&self, name: &str, source: &str, options: &[&str]) -> Option<PathBuf> {
        let file = self.file(&format!("{name}.c"), source.as_bytes(), 0o644);
        let target = self.path(name);
        let compiled = Command::new("gcc")
            .arg("-O1")
            .arg("-o")
            .arg(&target)
            .arg(&file)
            .args(options)
            .output();
        match compiled {
            Ok(output) if output.status.success() => Some(target),
            Ok(output) => {
                eprintln!("SKIPPED: gcc {options:?} fails: {}", stderr(&output));
                None
            }
            Err(error) => {
                eprintln!("SKIPPED: no gcc: {error}");
                None
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Start time of a process, field 22 of its stat file.
pub fn start_time(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    rest.split(' ').nth(19).unwrap().parse().unwrap()
}

/// A statistics page with the given head and a few recognisable figures.
pub fn statistics_page(version: u64, pid: u32, start: u64) -> Vec<u8> {
    use coldpress_interface::page::FILE_BYTES;
    use coldpress_interface::statistics::MAGIC;
    let words = [
        MAGIC,
        version,
        pid.into(),
        start,
        64 << 20,
        0,
        60 << 20,
        61 << 20,
        0,
        0,
        200 << 20,
    ];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.resize(FILE_BYTES, 0);
    bytes
}

/// A run file in `s`, as if this test were its `coldpress run`, whose first slot is of process `owner`.
pub fn run_file(directory: &Directory, owner: u32, page: &[u8]) -> PathBuf {
    use coldpress_interface::run_file::{FILE_BYTES, MAGIC, OWNERS_AT, VERSION, slot_at};
    use std::os::unix::fs::{FileExt, MetadataExt};
    let own = std::process::id();
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let name = format!("s/{own}-{}-{namespace}.run", start_time(own));
    let head: Vec<u8> = [MAGIC, VERSION]
        .into_iter()
        .flat_map(u64::to_ne_bytes)
        .collect();
    let path = directory.file(&name, &head, 0o600);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(FILE_BYTES as u64).unwrap();
    file.write_all_at(&u64::from(owner).to_ne_bytes(), OWNERS_AT as u64)
        .unwrap();
    file.write_all_at(page, slot_at(0) as u64).unwrap();
    path
}

/// The run file in `s`, and where the first slot of process `pid` begins in it.
pub fn slot_of(directory: &Directory, pid: u32) -> (fs::File, u64) {
    use coldpress_interface::run_file::{OWNERS_AT, SLOTS, slot_at};
    use std::os::unix::fs::FileExt;
    let entries = fs::read_dir(directory.path("s")).unwrap().flatten();
    let path = entries
        .map(|entry| entry.path())
        .next()
        .expect("a run file");
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut word = [0; 8];
    let slot = (0..SLOTS).find(|slot| {
        file.read_exact_at(&mut word, (OWNERS_AT + slot * 8) as u64)
            .unwrap();
        u64::from_ne_bytes(word) == u64::from(pid)
    });
    (file, slot_at(slot.expect("a slot of it")) as u64)
}

pub fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The real pager's library, in release: beside the command or in the release directory of the same
/// target. Says loudly what is skipped where it was not built.
pub fn pager(why: &str) -> Option<PathBuf> {
    let library = release_library();
    if library.is_none() {
        eprintln!("SKIPPED: {why}: cargo build --release -p coldpress-preload was not run");
    }
    library
}

const LIBRARY: &str = "libcoldpress_preload.so";

fn release_library() -> Option<PathBuf> {
    let binary = Path::new(env!("CARGO_BIN_EXE_coldpress"));
    let target = binary.parent()?.parent()?;
    Some(target.join("release").join(LIBRARY)).filter(|library| library.exists())
}

/// A program that fills memory, says so, and lives on under the real pager until it is dropped.
pub struct Managed {
    /// `coldpress run`.
    pub run: std::process::Child,
    /// The program's id.
    pub pid: u32,
    /// That of its forked child, if it was to have one.
    pub child: u32,
}

/// Fills `argv[1]` MiB with pages that compress, and forks if there is an `argv[2]`.
const HOLD: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv) {
    size_t words = (size_t)atoi(argv[1]) << 17;
    unsigned long *memory = mmap(0, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t n = 0; n < words; n++) memory[n] = n * 3 / 64;
    pid_t parent = getpid(), child = argc > 2 ? fork() : 0;
    if (argc > 2 && child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* Pages shared with the parent cannot be taken; those written are the child's own. */
        for (size_t n = 0; n < words; n += 512) memory[n] ^= 1;
    } else {
        printf("%d %d\n", parent, child);
        fflush(stdout);
    }
    for (;;) pause();
}
"#;

impl Managed {
    /// Starts it, with options of `coldpress run`. `None`, loudly, where that cannot be.
    pub fn start(directory: &Directory, options: &[&str], program: &[&str]) -> Option<Self> {
        if !full_tier("running a program") {
            return None;
        }
        let library = pager("changing what a pager does")?;
        let hold = directory.compile("hold", HOLD, &[])?;
        let mut command = coldpress();
        command.arg("run").args(options).arg("--");
        command.arg(hold).args(program).stdout(Stdio::piped());
        command.env("COLDPRESS_PRELOAD_LIBRARY", library);
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        let mut run = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(run.stdout.as_mut().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap());
        Some(Self {
            run,
            pid: numbers.next().expect("the program's id"),
            child: numbers.next().expect("its child's"),
        })
    }
}

impl Managed {
    /// Stops it, and waits until each of its threads has stopped: until then one may answer.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let running = || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).unwrap();
            let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat"));
            let stopped = |stat: String| stat.rsplit_once(") ").unwrap().1.starts_with('T');
            tasks
                .flatten()
                .any(|task| stat(task).is_ok_and(|stat| !stopped(stat)))
        };
        let start = std::time::Instant::now();
        while running() {
            assert!(start.elapsed().as_secs() < 20, "it does not stop");
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        // SAFETY: the program was started by us, and is waited for by `run`, which is our child.
        unsafe { libc::kill(self.pid.cast_signed(), number) };
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.run.wait();
    }
}
