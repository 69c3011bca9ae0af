//! Every file that a command writes because the user named it.
//!
//! A regular file is there whole or not at all: it is written beside its place, as FILE.partial, and renamed when it
//! is complete. On failure, and when SIGINT, SIGTERM or SIGHUP ends the command, FILE.partial is
//! removed.
//!
//! | the name leads to | what is done |
//! |---|---|
//! | nothing, also through symbolic links | a new file there |
//! | a regular file, also through symbolic links | replaced beside itself; mode and owner stay, links stay links |
//! | … with several names, attributes or another owner that cannot be given | written in place |
//! | … in a directory that cannot be written, or that cannot be renamed over (a mount point) | written in place |
//! | a device, FIFO or socket | written into |
//! | `-`, `/dev/stdout`, `/dev/fd/3` | written into that descriptor, where it stands |
//! | a directory, a file that may not be written | refused before the work is done |
//!
//! O1 Nothing but a regular file is ever removed, renamed or truncated.
//! O2 The partial file is made anew (O_EXCL): none that somebody put there is written into.

mod place;

use crate::at_start;
use crate::on_signal;
use crate::refusal::Refusal;
use crate::streams;
use place::Place;
use std::ffi::{CString, OsString};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file being written.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    shown: PathBuf,
    /// What is to be renamed, and to what.
    beside: Option<(PathBuf, PathBuf)>,
    patience: Option<Duration>,
    is_standard_output: bool,
}

/// Whether `target` is standard output, by one of its names.
pub fn is_standard_output(target: &Path) -> bool {
    let names = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    names.iter().any(|name| target == Path::new(name))
}

/// Refuses two streams of data on standard output, one after the other.
pub fn one_on_standard_output(targets: &[(&str, bool)]) -> Result<(), Refusal> {
    let there: Vec<&str> = targets
        .iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| *name)
        .collect();
    match there.len() {
        0 | 1 => Ok(()),
        _ => Err(Refusal::new(format!(
            "{} would all go to standard output: name a file",
            there.join(" and ")
        ))),
    }
}

/// Whether `target` could be written, to be known before the work is done.
pub fn check(target: &Path) -> Result<(), Refusal> {
    let failed = |error: io::Error| refusal(target, &error);
    match Place::of(target).map_err(failed)? {
        Place::New(_) => OutputFile::create(target).map(drop),
        Place::Descriptor(number) => descriptor(number).map(drop).map_err(failed),
        _ => Ok(()),
    }
}

/// The descriptor of this process that `target` leads to, if it leads to one.
pub fn descriptor_of(target: &Path) -> Option<RawFd> {
    match Place::of(target) {
        Ok(Place::Descriptor(number)) => Some(number),
        _ => None,
    }
}

/// Writes a whole file.
pub fn write(target: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let mut file = OutputFile::create(target)?;
    file.append(bytes)?;
    file.finish()
}

/// Writes a whole file, but gives up where for so long nobody opens the FIFO, or reads the pipe.
pub fn write_within(target: &Path, bytes: &[u8], patience: Duration) -> Result<(), Refusal> {
    let mut file = OutputFile::open(target, Some(patience))?;
    file.append(bytes)?;
    file.finish()
}

/// Writes a whole file at the end of a program, whose status waits for it: a reader has five seconds.
pub fn write_at_end(target: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    write_within(target, bytes, Duration::from_secs(5))
}

/// The regular file that `target` leads to, or could; `None`: something else.
pub fn regular(target: &Path) -> Result<Option<PathBuf>, Refusal> {
    match Place::of(target).map_err(|error| refusal(target, &error))? {
        Place::New(path) | Place::Replace(path, _) | Place::Kept(path) => Ok(Some(path)),
        _ => Ok(None),
    }
}

fn refusal(target: &Path, error: &io::Error) -> Refusal {
    Refusal::new(format!("cannot write {}: {error}", target.display()))
}

impl OutputFile {
    /// Begins `target`; a regular file does not appear before [`finish`](Self::finish). One at a time.
    pub fn create(target: &Path) -> Result<Self, Refusal> {
        Self::open(target, None)
    }

    fn open(target: &Path, patience: Option<Duration>) -> Result<Self, Refusal> {
        let failed = |error: io::Error| refusal(target, &error);
        let place = Place::of(target).map_err(failed)?;
        let is_standard_output = matches!(place, Place::Descriptor(libc::STDOUT_FILENO));
        let (file, beside) = open_place(place, patience).map_err(failed)?;
        Ok(Self {
            file,
            shown: target.to_owned(),
            beside,
            patience,
            is_standard_output,
        })
    }

    /// Writes more.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let written = streams::write(self.file.as_raw_fd(), bytes, self.patience);
        written.map_err(|error| match self.is_standard_output {
            true => streams::refuse_output(&error),
            false => refusal(&self.shown, &error),
        })
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), Refusal> {
        let Some((partial, target)) = &self.beside else {
            return Ok(());
        };
        let named = match fs::rename(partial, target) {
            // A mount point, a sticky directory: the file may be written all the same.
            Err(error) if target.is_file() && (is_forbidden(&error) || is_mount_point(&error)) => {
                copy_over(partial, target)
            }
            renamed => renamed,
        };
        named.map_err(|error| refusal(&self.shown, &error))?;
        self.forget();
        Ok(())
    }

    /// Removes what is not complete. After a rename there is nothing of that name any more.
    fn forget(&mut self) {
        if let Some((partial, _)) = self.beside.take() {
            let _ = fs::remove_file(partial);
            on_signal::remove_file(None);
        }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        self.forget();
    }
}

type Opened = (File, Option<(PathBuf, PathBuf)>);

fn open_place(place: Place, patience: Option<Duration>) -> io::Result<Opened> {
    let direct = |file: io::Result<File>| file.map(|file| (file, None));
    match place {
        Place::Descriptor(number) => direct(descriptor(number)),
        Place::Special(path) => direct(existing().open(path)),
        Place::Fifo(path) => direct(fifo(&path, patience)),
        Place::Socket(path) => {
            direct(UnixStream::connect(path).map(|socket| OwnedFd::from(socket).into()))
        }
        Place::Kept(path) => direct(existing().truncate(true).open(path)),
        Place::New(path) => beside(&path, None),
        Place::Replace(path, old) => match beside(&path, Some(&old)) {
            // There may be no new file, or none of this owner: the old one stays what it is.
            Err(error) if is_forbidden(&error) => direct(existing().truncate(true).open(path)),
            made => made,
        },
    }
}

/// For a file that is there: none is made.
fn existing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOCTTY);
    options
}

fn is_forbidden(error: &io::Error) -> bool {
    const FORBIDDEN: [i32; 4] = [libc::EACCES, libc::EPERM, libc::EROFS, libc::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|number| FORBIDDEN.contains(&number))
}

fn is_mount_point(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EXDEV))
}

/// A second descriptor for one that is open for writing.
fn descriptor(number: RawFd) -> io::Result<File> {
    let closed = || io::Error::from_raw_os_error(libc::EBADF);
    // SAFETY: the call takes a number and changes nothing.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
    if at_start::was_closed(number) || flags < 0 || flags & libc::O_ACCMODE == libc::O_RDONLY {
        return Err(closed());
    }
    // SAFETY: it is open, as was just seen, and nobody closes it meanwhile.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(borrowed.try_clone_to_owned()?.into())
}

/// Opened as soon as somebody reads from it.
fn fifo(path: &Path, patience: Option<Duration>) -> io::Result<File> {
    let Some(patience) = patience else {
        return existing().open(path);
    };
    let until = Instant::now() + patience;
    loop {
        let opened = existing()
            .custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK)
            .open(path);
        match opened {
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) && Instant::now() < until => {
                on_signal::pause();
            }
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                return Err(io::Error::new(error.kind(), "nobody reads from it"));
            }
            opened => return opened,
        }
    }
}

/// A new file in the directory of `target`, with mode and owner of the one that it will replace.
fn beside(target: &Path, old: Option<&Metadata>) -> io::Result<Opened> {
    let (file, partial) = create_partial(target, old.map_or(0o666, |_| 0o600))?;
    let made = OpenedPartial(partial);
    if let Some(old) = old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
    }
    Ok((file, Some((made.keep(), target.to_owned()))))
}

/// Removed again unless it is kept.
struct OpenedPartial(PathBuf);

impl OpenedPartial {
    fn keep(mut self) -> PathBuf {
        std::mem::take(&mut self.0)
    }
}

impl Drop for OpenedPartial {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.0);
            on_signal::remove_file(None);
        }
    }
}

/// FILE.partial, or another name where that is taken or too long.
fn create_partial(target: &Path, mode: u32) -> io::Result<(File, PathBuf)> {
    let with = |suffix: String| {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(suffix);
        name
    };
    let own = std::process::id();
    let names = [
        with(".partial".to_owned()),
        with(format!(".{own}.partial")),
        OsString::from(format!(".coldpress-{own}.partial")),
    ];
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for name in names {
        let partial = target.with_file_name(name);
        let path = CString::new(partial.as_os_str().as_bytes())?;
        // Created and made known with signals held back: what one finds here is ours.
        let made = on_signal::held_back(|| {
            let options = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&partial);
            options.inspect(|_| on_signal::remove_file(Some(path)))
        });
        match made {
            Ok(file) => return Ok((file, partial)),
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EEXIST | libc::ENAMETOOLONG)
                ) =>
            {
                last = error
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn copy_over(partial: &Path, target: &Path) -> io::Result<()> {
    let mut from = File::open(partial)?;
    io::copy(&mut from, &mut existing().truncate(true).open(target)?).map(drop)
}

#[cfg(test)]
mod tests;
