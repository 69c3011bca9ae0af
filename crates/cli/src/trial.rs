//! Whether the pager's library can be loaded, found out before the program starts.
//!
//! The dynamic loader only warns where it cannot preload a library, and the program runs without a pager. So the
//! library is loaded once into a process that does nothing else: this command again, which ends in the
//! library's constructor. It says its version there; a library that does not is not ours.

use crate::disposition::{disposition, set_disposition};
use crate::elf::{self, Elf};
use crate::refusal::Refusal;
use coldpress_interface::config::handed;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Loads the library. The error says why that is not possible, and how to mend it.
pub fn load(library: &Path) -> Result<(), Refusal> {
    let refuse = |why: &str| {
        Refusal::new(format!(
            "the pager's library {} cannot be loaded: {why}",
            library.display()
        ))
    };
    let with_mend = |why: String| {
        refuse(&why).mend("Install it anew, of the version of this command; or build both: cargo build --release -p coldpress-cli -p coldpress-preload")
    };
    let file = File::open(library).map_err(|error| {
        refuse(&format!("it cannot be read: {error}"))
            .mend(format!("Let it be read: chmod a+r {}", library.display()))
    })?;
    look_at(&file).map_err(with_mend)?;
    let tried = try_it(library)
        .map_err(|error| refuse(&format!("no process can be started to try it: {error}")))?;
    let said = String::from_utf8_lossy(&tried.stdout);
    if let Some(refusal) = of_a_filter(&tried, &said) {
        return Err(refusal);
    }
    match said.trim_end().strip_prefix(handed::TRIAL_ANSWER) {
        Some(version) if version.trim_start() == env!("CARGO_PKG_VERSION") => Ok(()),
        Some(version) => Err(with_mend(format!(
            "it is of version {}, this command of version {}",
            version.trim_start(),
            env!("CARGO_PKG_VERSION")
        ))),
        None => Err(with_mend(reason(&tried, library))),
    }
}

/// The refusal where a seccomp filter, under which this command was started, does not let the pager work.
fn of_a_filter(tried: &Output, said: &str) -> Option<Refusal> {
    let what = match said.trim_end().strip_prefix(handed::TRIAL_FORBIDDEN) {
        Some(number) => format!("refuses {}", system_call(number.trim())),
        None if tried.status.signal() == Some(libc::SIGSYS) => "kills it".to_owned(),
        None => return None,
    };
    let refusal = Refusal::new(format!(
        "the pager cannot work here: a seccomp filter that this command was started under {what}"
    ));
    Some(
        refusal
            .mend("In a systemd unit: SystemCallFilter=mincore userfaultfd sched_setattr, beside what is there")
            .mend("In a container: a seccomp profile that allows these calls, too"),
    )
}

/// A system call that the pager cannot do without, by its number.
fn system_call(number: &str) -> String {
    let name = match number.parse() {
        Ok(libc::SYS_read) => "read",
        Ok(libc::SYS_ppoll) => "ppoll",
        Ok(libc::SYS_pread64) => "pread64",
        Ok(libc::SYS_nanosleep) => "nanosleep",
        Ok(libc::SYS_clock_gettime) => "clock_gettime",
        Ok(libc::SYS_getpid) => "getpid",
        Ok(libc::SYS_gettid) => "gettid",
        Ok(libc::SYS_tgkill) => "tgkill",
        Ok(libc::SYS_mincore) => "mincore",
        Ok(libc::SYS_futex) => "futex",
        Ok(libc::SYS_madvise) => "madvise",
        Ok(libc::SYS_ioctl) => "ioctl",
        _ => return format!("system call {number}"),
    };
    format!("the system call {name}")
}

/// The commonest reasons, in words of our own.
fn look_at(file: &File) -> Result<(), String> {
    let mut start = [0; 4];
    let read = file.read_exact_at(&mut start, 0);
    if read.is_err() || !elf::is_elf(&start) {
        return Err("it is no ELF file".to_owned());
    }
    match elf::read(file) {
        Ok(Elf::OtherMachine(machine)) => Err(format!("it is for {machine}")),
        Ok(_) => Ok(()),
        Err(damaged) => Err(damaged.to_string()),
    }
}

/// Ourselves; where the loader would not preload anything into us (a capability of our file) another program.
fn subject() -> &'static str {
    // SAFETY: the call takes a number and cannot fail.
    match unsafe { libc::getauxval(libc::AT_SECURE) } {
        0 => "/proc/self/exe",
        _ => "/bin/true",
    }
}

fn try_it(library: &Path) -> io::Result<Output> {
    // Ignored, it would discard the status of whom we wait for.
    let before = disposition(libc::SIGCHLD);
    set_disposition(libc::SIGCHLD, libc::SIG_DFL);
    let output = Command::new(subject())
        .arg("--version")
        .env("LD_PRELOAD", library)
        .env(handed::TRIAL, "1")
        .stdin(Stdio::null())
        .output();
    set_disposition(libc::SIGCHLD, before);
    output
}

/// What the loader said, or how the process ended.
fn reason(tried: &Output, library: &Path) -> String {
    let said = String::from_utf8_lossy(&tried.stderr);
    let shown = library.to_string_lossy();
    match said.lines().find(|line| line.contains(&*shown)) {
        Some(line) => format!("the dynamic loader says: {}", line.trim()),
        None if tried.status.success() => "it is not the pager's: it does not answer".to_owned(),
        None => format!("the process that loaded it ended with {}", tried.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::fixtures;
    use std::fs;

    #[test]
    fn what_cannot_be_loaded_is_refused_with_the_reason() {
        let directory =
            std::env::temp_dir().join(format!("coldpress-trial-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let refusal = |name: &str, content: &[u8]| {
            let path = directory.join(name);
            fs::write(&path, content).unwrap();
            load(&path).unwrap_err().to_string()
        };
        assert!(refusal("text", b"#!/bin/sh\n").contains("it is no ELF file"));
        assert!(refusal("empty", b"").contains("it is no ELF file"));
        let whole = fixtures::elf(None);
        assert!(refusal("cut", &whole[..70]).contains("damaged"));
        let mut arm = whole.clone();
        arm[18] = 183;
        assert!(refusal("arm", &arm).contains("aarch64"));
        let hollow = refusal("hollow", &whole);
        assert!(
            hollow.contains("cannot be loaded: the dynamic loader says: "),
            "{hollow}"
        );
        let other = Path::new("/lib/x86_64-linux-gnu/libm.so.6");
        if other.exists() {
            let refusal = load(other).unwrap_err().to_string();
            // The tests' own program does not know --version.
            assert!(refusal.contains("cannot be loaded: "), "{refusal}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
