//! Where the trace of `run --trace` goes.
//!
//! The pager opens its file anew whenever it writes, and at times writes it from the beginning: a regular file,
//! then. What is named may be another thing (`-`, a FIFO, a device): then the pager writes a file in
//! memory that this process holds, and what is there at the end goes to its target.

use crate::output_file;
use crate::refusal::Refusal;
use crate::streams::say;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the pager has room for.
const LONGEST_PATH: usize = 250;

/// Traces of other processes that are named at the end.
const MOST_NAMED: usize = 3;

/// The file of one run's trace.
#[derive(Debug)]
pub struct TraceTarget {
    named: PathBuf,
    /// The file that the pager writes.
    path: PathBuf,
    /// It is one in memory, to be copied at the end.
    in_memory: Option<File>,
    /// It was not there before.
    is_new: bool,
}

fn refused(named: &Path, why: &str) -> Refusal {
    Refusal::new(format!("--trace: {}: {why}", named.display()))
}

impl TraceTarget {
    /// The regular file that is named, if it is one: its path has to fit.
    pub fn place(named: &Path) -> Result<Option<PathBuf>, Refusal> {
        let regular = output_file::regular(named).map_err(|refusal| refusal.of("--trace"))?;
        match regular {
            Some(path) if path.as_os_str().len() > LONGEST_PATH => {
                let why = format!("its path is longer than {LONGEST_PATH} bytes");
                Err(refused(named, &why).mend(
                    "Name one in a directory nearer to the root: --trace /tmp/decisions.trace",
                ))
            }
            regular => Ok(regular),
        }
    }

    /// Makes the file empty, so that what is there afterwards is of this run.
    pub fn prepare(named: &Path) -> Result<Self, Refusal> {
        let failed = |error: io::Error| refused(named, &format!("cannot be written: {error}"));
        let Some(path) = Self::place(named)? else {
            output_file::check(named).map_err(|refusal| refusal.of("--trace"))?;
            let file = file_in_memory().map_err(failed)?;
            let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
            return Ok(Self {
                named: named.to_owned(),
                path: path.into(),
                in_memory: Some(file),
                is_new: false,
            });
        };
        let is_new = !path.exists();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&path).map_err(failed)?;
        Ok(Self {
            named: named.to_owned(),
            path,
            in_memory: None,
            is_new,
        })
    }

    /// The file that the pager is to write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// At the end of the run: brings the trace where it belongs, and tells what is missing. `error`: the number that the
    /// pagers have left in their statistics.
    pub fn finish(self, error: u64, quiet: bool) {
        let shown = self.named.display();
        // A file in memory has none beside it.
        let is_of_one = self.in_memory.is_some() && error == libc::ENOENT as u64;
        match error {
            0 => {}
            _ if is_of_one && quiet => {}
            _ if is_of_one => {
                say!("--trace: {shown}: it is that of one process");
                say!("for those of the others, too, name a file: --trace FILE");
            }
            _ => {
                let error = io::Error::from_raw_os_error(error as i32);
                say!("--trace: {shown}: the trace is not whole: it could not be written: {error}");
            }
        }
        if let Some(mut file) = self.in_memory {
            let mut bytes = Vec::new();
            let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
            let read = read.map_err(|error| Refusal::new(format!("cannot be read again: {error}")));
            let written = read.and_then(|_| output_file::write_at_end(&self.named, &bytes));
            if let Err(refusal) = written {
                say!("--trace: {refusal}");
            }
            return;
        }
        let is_empty = fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() == 0);
        if is_empty && error == 0 {
            if self.is_new {
                let _ = fs::remove_file(&self.path);
            }
            if !quiet {
                say!("--trace: {shown}: nothing was recorded");
            }
        }
        let others = of_others(&self.path);
        if !others.is_empty() && !quiet {
            let names: Vec<_> = others
                .iter()
                .take(MOST_NAMED)
                .map(|path| path.display().to_string())
                .collect();
            let more = match others.len().saturating_sub(MOST_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            say!("--trace: other processes wrote {}{more}", names.join(", "));
        }
    }
}

/// A file without a name, which ends with this process.
fn file_in_memory() -> io::Result<File> {
    // SAFETY: the name is terminated.
    match unsafe { libc::memfd_create(c"coldpress-trace".as_ptr(), libc::MFD_CLOEXEC) } {
        // SAFETY: the kernel just made the descriptor for us.
        descriptor @ 0.. => Ok(unsafe { File::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Files FILE.PID that were written since this process began.
fn of_others(file: &Path) -> Vec<PathBuf> {
    let began =
        fs::metadata(format!("/proc/{}", std::process::id())).and_then(|own| own.modified());
    let (Some(directory), Some(name), Ok(began)) = (file.parent(), file.file_name(), began) else {
        return Vec::new();
    };
    let is_other = |entry: &fs::DirEntry| {
        let other = entry.file_name();
        let number = other.to_str().zip(name.to_str()).and_then(|(other, name)| {
            other
                .strip_prefix(name)?
                .strip_prefix('.')?
                .parse::<u32>()
                .ok()
        });
        let metadata = || entry.metadata().and_then(|metadata| metadata.modified());
        number.is_some() && metadata().is_ok_and(|written| written >= began)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter(is_other).map(|entry| entry.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_and_what_is_no_file_gets_the_trace_at_the_end() {
        let directory =
            std::env::temp_dir().join(format!("coldpress-trace-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let directory = directory.canonicalize().unwrap();
        let (file, link) = (directory.join("x"), directory.join("link"));
        fs::write(&file, "of an earlier run").unwrap();
        symlink("x", &link).unwrap();
        let target = TraceTarget::prepare(&link).unwrap();
        assert_eq!(target.path(), file);
        assert_eq!(fs::metadata(&file).unwrap().len(), 0);
        fs::write(directory.join("x.77"), "").unwrap();
        assert_eq!(of_others(&file), [directory.join("x.77")]);
        target.finish(0, true);
        assert!(link.is_symlink() && file.exists());
        let new = TraceTarget::prepare(&directory.join("new")).unwrap();
        assert!(directory.join("new").exists());
        new.finish(0, true);
        assert!(!directory.join("new").exists(), "nothing was recorded");
        let target = TraceTarget::prepare(Path::new("/dev/null")).unwrap();
        fs::write(target.path(), "traced").unwrap();
        target.finish(0, true);
        assert!(TraceTarget::prepare(&directory.join("n".repeat(250))).is_err());
        fs::remove_dir_all(&directory).unwrap();
    }
}
