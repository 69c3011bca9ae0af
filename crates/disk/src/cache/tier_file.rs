//! The file of a write-back tier: it has no name as soon as it is open, so that nothing of it is left behind.

use super::file::OpenError;
use super::tier_device::{FEWEST, SEGMENT_BYTES, TierDevice, segments_for};
use coldpress_tier::{Device, DeviceError};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// A file without a name, or a block device.
#[derive(Debug)]
pub struct TierFile {
    file: File,
    segments: usize,
}

impl TierFile {
    /// Creates a file for pages of so many bytes in all, and takes its name away. A block device is opened exclusively;
    /// what is on it is overwritten.
    ///
    /// # Errors
    /// There is a file of this name, or see [`OpenError`].
    pub fn create(path: &Path, size_bytes: u64) -> Result<Self, OpenError> {
        let segment = SEGMENT_BYTES as u64;
        let wanted = segments_for(size_bytes) as u64;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
        let (file, segments) = match kind {
            Ok(kind) if kind.is_block_device() => {
                let exclusively = OFlag::O_EXCL.bits();
                let mut file = match options.custom_flags(exclusively).open(path) {
                    Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                        return Err(OpenError::Locked);
                    }
                    opened => opened?,
                };
                let there = file.seek(SeekFrom::End(0))?;
                if there < FEWEST as u64 * segment {
                    return Err(OpenError::Size(there));
                }
                (file, wanted.min(there / segment))
            }
            _ => {
                let file = options.create_new(true).mode(0o600).open(path)?;
                std::fs::remove_file(path)?;
                file.set_len(wanted * segment)?;
                (file, wanted)
            }
        };
        Ok(Self {
            file,
            segments: segments as usize,
        })
    }

    /// Segments that it has room for.
    pub fn segments(&self) -> usize {
        self.segments
    }
}

impl From<TierFile> for TierDevice {
    fn from(file: TierFile) -> Self {
        let segments = file.segments();
        Self::new(Box::new(file), segments, 0)
    }
}

fn of_io(error: &io::Error) -> DeviceError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => DeviceError::NoSpace,
        _ => DeviceError::Io,
    }
}

fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> Result<T, DeviceError> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done.map_err(|error| of_io(&error)),
        }
    }
}

impl Device for TierFile {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        again(|| self.file.read_at(into, offset))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        again(|| self.file.write_at(bytes, offset))
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.file, how, offset.cast_signed(), length.cast_signed()) {
            // It keeps its space.
            Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(_) => Err(DeviceError::Io),
        }
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|error| of_io(&error))
    }
}
