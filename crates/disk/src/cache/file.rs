//! A file or a block device behind a cache.
//!
//! It is locked (`flock`) as long as it is open, so that no two caches write one file; a block device is opened
//! exclusively besides, which the kernel refuses while it is mounted.

use crate::backing::{Backing, BackingError, Zeroing};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::unistd::{Whence, lseek};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Zeros that are written at once where they cannot be had otherwise.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Why a file cannot stand behind a cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The kernel refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is a directory, a socket, a terminal.
    #[error("it is neither a file nor a block device")]
    WrongKind,
    /// Another process has locked it.
    #[error("another process has it locked: it is served already")]
    Locked,
    /// Its size is 0, or no multiple of a page.
    #[error("its size, {0} bytes, is not a multiple of 4096, or 0")]
    Size(u64),
}

/// What a file or a block device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading, beside others that do so.
    ReadOnly,
    /// Reading and writing, alone.
    ReadWrite,
}

/// A file or a block device, locked.
#[derive(Debug)]
pub struct BackingFile {
    file: File,
    size_bytes: u64,
}

impl BackingFile {
    /// Opens and locks it.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(path: &Path, mode: OpenMode) -> Result<Self, OpenError> {
        let kind = std::fs::metadata(path)?.file_type();
        let writes = mode == OpenMode::ReadWrite;
        let flags = if writes && kind.is_block_device() {
            OFlag::O_EXCL
        } else {
            OFlag::empty()
        };
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::WrongKind);
        }
        let mut options = OpenOptions::new();
        options.read(true).write(writes);
        let file = match options.custom_flags(flags.bits()).open(path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => return Err(OpenError::Locked),
            opened => opened?,
        };
        Self::lock(file, mode)
    }

    /// Creates a file of this size, all zeros, that takes no space yet.
    ///
    /// # Errors
    /// See [`OpenError`]. There is a file already: an [`OpenError::Io`].
    pub fn create(path: &Path, size_bytes: u64) -> Result<Self, OpenError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(4096) {
            return Err(OpenError::Size(size_bytes));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options.mode(0o600).open(path)?;
        file.set_len(size_bytes)?;
        file.sync_all()?;
        Self::lock(file, OpenMode::ReadWrite)
    }

    fn lock(mut file: File, mode: OpenMode) -> Result<Self, OpenError> {
        let locked = match mode {
            OpenMode::ReadOnly => file.try_lock_shared(),
            OpenMode::ReadWrite => file.try_lock(),
        };
        match locked {
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Ok(()) => {}
        }
        // A block device's own length is 0.
        let size_bytes = file.seek(SeekFrom::End(0))?;
        if size_bytes > 0 && size_bytes.is_multiple_of(4096) {
            Ok(Self { file, size_bytes })
        } else {
            Err(OpenError::Size(size_bytes))
        }
    }

    /// Where what `whence` looks for begins, from `offset` on.
    fn seek(&self, offset: u64, whence: Whence) -> Result<u64, Errno> {
        let found = lseek(&self.file, offset.cast_signed(), whence)?;
        Ok(found.cast_unsigned())
    }
}

fn of_io(error: &io::Error) -> BackingError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BackingError::NoSpace,
        _ => BackingError::Io,
    }
}

impl Backing for BackingFile {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|error| of_io(&error))
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        let written = self.file.write_all_at(data, offset);
        written.map_err(|error| of_io(&error))
    }

    fn zero(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), BackingError> {
        let how = match zeroing {
            Zeroing::MayPunch => FallocateFlags::FALLOC_FL_PUNCH_HOLE,
            Zeroing::KeepAllocated => FallocateFlags::FALLOC_FL_ZERO_RANGE,
        };
        let how = how | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.file, how, offset.cast_signed(), length.cast_signed()) {
            Ok(()) => return Ok(()),
            Err(Errno::EOPNOTSUPP | Errno::ENODEV | Errno::ENOSYS | Errno::EINVAL) => {}
            Err(Errno::ENOSPC | Errno::EDQUOT) => return Err(BackingError::NoSpace),
            Err(_) => return Err(BackingError::Io),
        }
        let mut done = 0;
        while done < length {
            let len = ZEROS.len().min((length - done) as usize);
            self.write(offset + done, &ZEROS[..len])?;
            done += len as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), BackingError> {
        self.file.sync_data().map_err(|error| of_io(&error))
    }

    fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        let whole_pages = |end: u64| (end - offset).min(length) / 4096 * 4096;
        match self.seek(offset, Whence::SeekData) {
            Ok(data) if data > offset => match whole_pages(data) {
                // Data begins inside the first page.
                0 => (4096, false),
                bytes => (bytes, true),
            },
            Ok(_) => match self.seek(offset, Whence::SeekHole) {
                Ok(hole) => (whole_pages(hole).max(4096), false),
                Err(_) => (length, false),
            },
            // Nothing but a hole, up to the end.
            Err(Errno::ENXIO) => (length, true),
            Err(_) => (length, false),
        }
    }
}
