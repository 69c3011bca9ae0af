//! What the name of an output file leads to, and so how it is written.
//!
//! Symbolic links are followed step by step, to where there is a file or could be one.

use std::ffi::CString;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// What a name leads to.
#[derive(Debug)]
pub enum Place {
    /// A descriptor of this process: `-`, `/dev/stdout`, `/dev/fd/3`.
    Descriptor(RawFd),
    /// Nothing yet, in a directory that is there.
    New(PathBuf),
    /// A regular file that may be replaced by another one beside it.
    Replace(PathBuf, Metadata),
    /// A regular file that must stay the one it is: it has several names, or attributes that a new one would lack.
    Kept(PathBuf),
    /// A FIFO, which may have to be waited for.
    Fifo(PathBuf),
    /// A socket, to be connected to.
    Socket(PathBuf),
    /// A device, or a file of the kernel's.
    Special(PathBuf),
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Place {
    /// What `target` leads to. Nothing is opened or changed.
    pub fn of(target: &Path) -> io::Result<Self> {
        if target == Path::new("-") {
            return Ok(Place::Descriptor(libc::STDOUT_FILENO));
        }
        if target.as_os_str().as_bytes().ends_with(b"/") {
            return Err(error(libc::EISDIR));
        }
        let mut path = target.to_owned();
        for _ in 0..MOST_LINKS {
            let name = path
                .file_name()
                .ok_or_else(|| error(libc::EISDIR))?
                .to_owned();
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.canonicalize()?,
                _ => Path::new(".").canonicalize()?,
            };
            path = parent.join(&name);
            if let Some(descriptor) = own_descriptor(&parent, &path) {
                return Ok(Place::Descriptor(descriptor));
            }
            let metadata = match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Place::New(path));
                }
                found => found?,
            };
            // Links below /proc lead to files that may have no name.
            if parent.starts_with("/proc") {
                return Ok(Place::Special(path));
            }
            if !metadata.is_symlink() {
                return Self::of_file(path, metadata);
            }
            path = parent.join(fs::read_link(&path)?);
        }
        Err(error(libc::ELOOP))
    }

    fn of_file(path: PathBuf, metadata: Metadata) -> io::Result<Self> {
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Err(error(libc::EISDIR));
        }
        may_write(&path)?;
        Ok(match () {
            () if kind.is_fifo() => Place::Fifo(path),
            () if kind.is_socket() => Place::Socket(path),
            () if !kind.is_file() => Place::Special(path),
            () if metadata.nlink() > 1 || has_attributes(&path) => Place::Kept(path),
            () => Place::Replace(path, metadata),
        })
    }
}

/// The descriptor of this process that `path` stands for: opened by its name it would be another open file, at
/// its beginning, and a socket could not be opened at all.
fn own_descriptor(parent: &Path, path: &Path) -> Option<RawFd> {
    let own = parent
        .strip_prefix(format!("/proc/{}", std::process::id()))
        .ok()?;
    let table = own == Path::new("fd") || own.starts_with("task") && own.ends_with("fd");
    let name = table.then(|| path.file_name()?.to_str())??;
    name.parse().ok().filter(|number| *number >= 0)
}

fn terminated(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// As opening it for writing would end, without opening it: that could rewind a tape, or end what somebody reads
/// from a FIFO.
fn may_write(path: &Path) -> io::Result<()> {
    let path = terminated(path)?;
    // SAFETY: the path is terminated; the call changes nothing.
    match unsafe { libc::faccessat(libc::AT_FDCWD, path.as_ptr(), libc::W_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the file has extended attributes (access lists among them) that a new one would not get by itself.
fn has_attributes(path: &Path) -> bool {
    let mut names = [0u8; 4096];
    let Ok(path) = terminated(path) else {
        return false;
    };
    // SAFETY: the path is terminated, and the buffer as long as told.
    let len = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    match usize::try_from(len) {
        Ok(len) => names[..len]
            .split(|&byte| byte == 0)
            .any(|name| !name.is_empty() && name != b"security.selinux"),
        // More than there is room for; or this file system has none.
        Err(_) => io::Error::last_os_error().raw_os_error() == Some(libc::ERANGE),
    }
}
