//! Servers that a test starts, and stops by their process ids.

use super::wait_until;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A directory that goes with the test.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "coldpress-remote-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port on which nobody listens at the moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Path of a program, or `None`, which is told.
pub fn program(name: &str, what: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(["/usr/bin", "/usr/sbin", "/bin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: {what}: {name} is not installed");
        assert_ne!(std::env::var("COLDPRESS_FORBID_SKIPS").as_deref(), Ok("1"));
    }
    found
}

/// A process that is killed at the end, and reaped.
pub struct Process(Child);

impl Process {
    /// Starts it, and waits until somebody listens on `port`. `None`: it has ended; the port may have been taken.
    pub fn start(command: &mut Command, port: u16) -> Option<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Self(command.spawn().unwrap());
        let since = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if process.0.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(
                since.elapsed() < Duration::from_secs(60),
                "it does not listen"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(process)
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a signal to a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as libc::pid_t, signal) }, 0);
    }

    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server on a port of its own, with what `line` makes of that.
pub fn serve(mut line: impl FnMut(u16) -> Command) -> (Process, u16) {
    for _ in 0..10 {
        let port = free_port();
        if let Some(process) = Process::start(&mut line(port), port) {
            return (process, port);
        }
    }
    panic!("no port could be had");
}

/// Starts a server once more on the port that it had, which others may have for a moment.
pub fn start_again(command: &mut Command, port: u16) -> Process {
    let mut process = None;
    wait_until("started again", || {
        process = Process::start(command, port);
        process.is_some()
    });
    process.unwrap()
}

/// A Redis server whose data is in memory alone.
pub fn redis_command(program: &Path, directory: &Path, port: u16, options: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &port.to_string()]).args(options);
    command
}
