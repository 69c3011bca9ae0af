//! The run file of this `coldpress run`: made before the program starts, removed at the end.
//!
//! Memory that the program's pagers store to must be there. So the file lies in the statistics directory where that
//! is on a file system on which space that was given stays given (tmpfs, ext4, XFS), and its head is given at
//! once. On any other, or where there is no room, it is anonymous memory (`memfd_create`), which the
//! program opens as `/proc/PID/fd/N` and `status` by a link of that target.
//!
//! What is left by a `run` that was killed is cleared away by the next `run` or `status`, once no process
//! of it is left ([`crate::statistics_file::scan`]).

use crate::process::Identity;
use crate::refusal::Refusal;
use crate::statistics_file::{self, Copy, Name, Rights};
use coldpress_interface::run_file::{FILE_BYTES, Head, MAGIC, SLOTS_AT, VERSION};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, Release};

/// File systems that keep what `fallocate` gave, also when a page is written a second time.
const STEADY: [i64; 4] = [0x0102_1994, 0x8584_58f6, 0xEF53, 0x5846_5342];

/// The file, mapped.
#[derive(Debug)]
pub struct RunFile {
    file: File,
    head: *const Head,
    /// Its name in the directory: a file or a link.
    entry: PathBuf,
    /// Where the program finds it.
    path: PathBuf,
}

impl RunFile {
    /// Makes one in `directory`, or without it.
    pub fn create(directory: &Path) -> Result<Self, Refusal> {
        Self::create_in(directory, Form::that_suits(directory)).map_err(|error| {
            let limit = error.raw_os_error() == Some(libc::EFBIG);
            let refusal = Refusal::new(format!(
                "{}: the run file cannot be made: {error}",
                directory.display()
            ));
            if limit {
                refusal.mend("Lift the limit on the size of files: ulimit -f unlimited")
            } else {
                refusal
            }
        })
    }

    fn create_in(directory: &Path, form: Form) -> io::Result<Self> {
        let name = Name::own();
        let entry = directory.join(name.to_string());
        let _larger = FileSizeLimit::lift();
        if form == Form::File
            && let Ok(file) = in_directory(&entry)
        {
            return Self::complete(file, entry.clone(), entry, &name);
        }
        let _ = fs::remove_file(&entry);
        let file = anonymous()?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", name.pid, file.as_raw_fd()));
        // Without the link `status` does not find the run; nothing else needs it.
        let _ = std::os::unix::fs::symlink(&path, &entry);
        Self::complete(file, entry, path, &name)
    }

    fn complete(file: File, entry: PathBuf, path: PathBuf, name: &Name) -> io::Result<Self> {
        let head = statistics_file::map_head(&file, Rights::ReadWrite)?;
        let run = Self {
            file,
            head,
            entry,
            path,
        };
        let head = run.head();
        head.supervisor_pid.store(name.pid.into(), Relaxed);
        head.supervisor_start_ticks.store(name.start_ticks, Relaxed);
        head.pid_namespace.store(name.namespace, Relaxed);
        head.version.store(VERSION, Relaxed);
        head.magic.store(MAGIC, Release);
        Ok(run)
    }

    /// The path for the program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All but the slots.
    pub fn head(&self) -> &Head {
        // SAFETY: mapped as long as this value lives, of nothing but atomics and padding; the pages were
        // given when the file was made, and nobody but this user can make it shorter.
        unsafe { &*self.head }
    }

    /// A copy of what a slot holds.
    pub fn copy(&self, slot: usize) -> Option<Copy> {
        Copy::of(&self.file, slot).ok()
    }

    /// Whether a process of it still runs. (The first, not reaped yet, does not.)
    fn is_in_use(&self) -> bool {
        let runs = |pid| Identity::of(pid).is_some_and(|process| process.is_alive());
        let mut claimed = self.head().claimed();
        claimed.any(|(_, owner)| !owner.is_foreign && runs(owner.pid))
    }
}

impl Drop for RunFile {
    /// Removes it from the directory, unless processes of it still run: then it goes with the last, at the next look
    /// of anybody.
    fn drop(&mut self) {
        if !self.is_in_use() && !statistics_file::is_mapped(&self.entry) {
            let _ = fs::remove_file(&self.entry);
        }
        // SAFETY: our own mapping, and nobody borrows it any more.
        unsafe { libc::munmap(self.head.cast_mut().cast(), SLOTS_AT) };
    }
}

/// What a run file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file of the directory.
    File,
    /// Anonymous memory, to which a link in the directory leads.
    Memory,
}

impl Form {
    fn that_suits(directory: &Path) -> Self {
        let Ok(path) = CString::new(directory.as_os_str().as_bytes()) else {
            return Self::Memory;
        };
        // SAFETY: the path is terminated, and zeros are a valid answer to be overwritten.
        let is_steady = unsafe {
            let mut found: libc::statfs = mem::zeroed();
            libc::statfs(path.as_ptr(), &mut found) == 0 && STEADY.contains(&found.f_type)
        };
        if is_steady { Self::File } else { Self::Memory }
    }
}

fn in_directory(entry: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(entry)?;
    give(&file)?;
    Ok(file)
}

fn anonymous() -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is terminated; the descriptor is ours.
    let file = unsafe {
        match libc::memfd_create(c"coldpress".as_ptr(), flags) {
            -1 => return Err(io::Error::last_os_error()),
            number => File::from_raw_fd(number),
        }
    };
    give(&file)?;
    // SAFETY: F_ADD_SEALS takes a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    Ok(file)
}

/// Its size, and the pages of its head.
fn give(file: &File) -> io::Result<()> {
    file.set_len(FILE_BYTES as u64)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, SLOTS_AT as libc::off_t) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The limit on the size of files, lifted as far as may be while this value lives. A file that would be
/// larger is refused, and no signal ends us.
struct FileSizeLimit {
    limit: libc::rlimit,
    action: libc::sigaction,
}

impl FileSizeLimit {
    fn lift() -> Self {
        // SAFETY: zeros are valid for both structures, which the calls fill in; nothing but the
        // limit and the disposition of one signal changes.
        unsafe {
            let mut saved: Self = mem::zeroed();
            let mut ignore: libc::sigaction = mem::zeroed();
            ignore.sa_sigaction = libc::SIG_IGN;
            libc::sigaction(libc::SIGXFSZ, &ignore, &mut saved.action);
            libc::getrlimit(libc::RLIMIT_FSIZE, &mut saved.limit);
            let lifted = libc::rlimit {
                rlim_cur: saved.limit.rlim_max,
                ..saved.limit
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &lifted);
            saved
        }
    }
}

impl Drop for FileSizeLimit {
    fn drop(&mut self) {
        // SAFETY: what was there before.
        unsafe {
            libc::setrlimit(libc::RLIMIT_FSIZE, &self.limit);
            libc::sigaction(libc::SIGXFSZ, &self.action, ptr::null_mut());
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// In a directory of the test's own, as a file or as anonymous memory.
    pub fn made(directory: &Path, form: Form) -> RunFile {
        fs::create_dir_all(directory).unwrap();
        RunFile::create_in(directory, form).unwrap()
    }

    #[test]
    fn it_is_found_by_its_path_and_by_its_entry() {
        let directory = std::env::temp_dir().join(format!("coldpress-run-{}", std::process::id()));
        for form in [Form::File, Form::Memory] {
            let run = made(&directory, form);
            let is_file = fs::symlink_metadata(&run.entry).unwrap().is_file();
            assert_eq!(is_file, form == Form::File);
            assert_eq!(
                fs::metadata(run.path()).unwrap().len(),
                FILE_BYTES as u64,
                "as the program opens it"
            );
            let seen = statistics_file::open(&run.entry, Rights::Read).unwrap();
            assert!(seen.metadata().unwrap().len() == FILE_BYTES as u64);
            assert!(run.head().is_current());
            let entry = run.entry.clone();
            drop(run);
            assert!(fs::symlink_metadata(entry).is_err());
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
