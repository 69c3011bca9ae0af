//! The file of `coldpress run --writeback`: opened here, without a name from then on, and inherited by the program, whose
//! pager alone knows the key to what is in it.

use crate::arguments::RunArguments;
use crate::memory_limit;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use coldpress_interface::PAGE_SIZE;
use coldpress_storage::StorageKind;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Programs and libraries use low numbers of their own.
const HIGH_DESCRIPTOR: RawFd = 900;

/// The least that is of use: the pager writes 128 KiB at once.
const SMALLEST_BYTES: u64 = 1 << 20;

/// `linux/magic.h`.
const RAMFS_MAGIC: libc::__fsword_t = 0x8584_58f6;

/// A file without a name, or a block device.
#[derive(Debug)]
pub struct WriteBackFile {
    file: File,
    bytes: u64,
    daily_bytes: Option<u64>,
}

impl WriteBackFile {
    /// That of a run, if it is to have one.
    pub fn of_run(arguments: &RunArguments, storage: StorageKind) -> Result<Option<Self>, Refusal> {
        let Some(path) = &arguments.writeback else {
            return Ok(None);
        };
        if matches!(storage, StorageKind::TwoSlot | StorageKind::ThreeSlot) {
            return Err(Refusal::new(format!(
                "--writeback: what stays in memory of a page is 16 bytes, for which storage {storage} takes a third of a \
                 frame or more: use --storage press or size-class"
            )));
        }
        let (size, limit) = (arguments.writeback_size, arguments.writeback_limit);
        let opened = Self::open(path, size, limit);
        opened
            .map(Some)
            .map_err(|why| Refusal::new(format!("--writeback {}: {why}", path.display())))
    }

    fn open(path: &Path, size: Option<u64>, daily_bytes: Option<u64>) -> Result<Self, String> {
        let told = |error: io::Error| error.to_string();
        if let Some(size) = size.filter(|&size| size < SMALLEST_BYTES) {
            return Err(format!(
                "{} are too few to write back to (--writeback-size 1M or more)",
                format_bytes(size)
            ));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let kind = std::fs::metadata(path).map(|metadata| metadata.file_type());
        let (file, bytes) = match kind {
            Ok(kind) if kind.is_block_device() => {
                let exclusively = options.custom_flags(libc::O_EXCL);
                let mut file = exclusively.open(path).map_err(told)?;
                let there = file.seek(SeekFrom::End(0)).map_err(told)?;
                if there < SMALLEST_BYTES {
                    return Err(format!("{} are too few", format_bytes(there)));
                }
                (file, size.unwrap_or(there).min(there))
            }
            Ok(_) => {
                return Err(
                    "it exists already, and is left alone: name a file that does not, or a block device"
                        .to_owned(),
                );
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(told(error)),
            Err(_) => {
                let bytes = match size {
                    Some(size) => size,
                    None => memory_limit::machine_bytes().map_err(|why| why.to_string())?,
                };
                let file = options.create_new(true).mode(0o600).open(path);
                let file = file.map_err(told)?;
                std::fs::remove_file(path).map_err(told)?;
                file.set_len(bytes).map_err(|error| {
                    format!(
                        "{} are more than it may have: {error} (allow less: --writeback-size)",
                        format_bytes(bytes)
                    )
                })?;
                (file, bytes)
            }
        };
        try_out(&file)?;
        Ok(Self {
            file: out_of_the_way(file),
            bytes,
            daily_bytes,
        })
    }

    /// What is to be said of it before the program starts.
    pub fn doubt(&self) -> Option<&'static str> {
        is_in_memory(&self.file).then_some(
            "the file of --writeback is on a tmpfs, which is memory: nothing is saved by it (name one on a disk)",
        )
    }

    /// Its descriptor, which the program inherits.
    pub fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// What the pager is told of it.
    pub fn for_the_pager(&self) -> String {
        let identity = self.file.metadata().map(|file| (file.dev(), file.ino()));
        let (device, inode) = identity.unwrap_or_default();
        let limit = self.daily_bytes.map(|bytes| bytes.to_string());
        let limit = limit.as_deref().unwrap_or("none");
        format!(
            "{} {device} {inode} {} {limit}",
            self.descriptor(),
            self.bytes
        )
    }
}

/// Makes each call that the pager makes on the file: what is wrong with it shows before the program runs, a seccomp
/// filter that kills for one of them included.
fn try_out(file: &File) -> Result<(), String> {
    let told = |error: io::Error| format!("it cannot be written: {error} (name one that can)");
    // A device keeps what it holds until the program runs.
    let mut content = [0; PAGE_SIZE];
    file.read_exact_at(&mut content, 0).map_err(told)?;
    file.write_all_at(&content, 0).map_err(told)?;
    // Without either of these the file takes more space, or none is given back after a fork.
    // SAFETY: the calls take numbers and a structure of ours.
    unsafe {
        let page = PAGE_SIZE as libc::off_t;
        libc::sync_file_range(file.as_raw_fd(), 0, page, libc::SYNC_FILE_RANGE_WRITE);
        if content == [0; PAGE_SIZE] {
            let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            libc::fallocate(file.as_raw_fd(), hole, 0, page);
        }
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as libc::c_short;
        lock.l_len = 1;
        libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock);
    }
    Ok(())
}

/// Whether what is written to the file stays in memory.
fn is_in_memory(file: &File) -> bool {
    // SAFETY: zeros are a valid answer to be overwritten.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut found) == 0
            && matches!(found.f_type, libc::TMPFS_MAGIC | RAMFS_MAGIC)
    }
}

/// The file under a high number, if there is one for it.
fn out_of_the_way(file: File) -> File {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills a structure of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let last = RawFd::try_from(limit.rlim_cur).unwrap_or(RawFd::MAX);
    let high = HIGH_DESCRIPTOR.min(last.saturating_sub(8)).max(0);
    // SAFETY: a descriptor of ours; the call makes another.
    let high = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, high) };
    match high {
        // SAFETY: just made, and nobody else's.
        0.. => File::from(unsafe { OwnedFd::from_raw_fd(high) }),
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_is_told() {
        let name = std::ffi::CString::new("coldpress-wb").unwrap();
        // SAFETY: the name is terminated; the descriptor is nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(name.as_ptr(), 0)) };
        assert!(is_in_memory(&File::from(file)));
        assert!(!is_in_memory(&File::open("/proc/self/exe").unwrap()));
    }

    #[test]
    fn a_file_has_no_name_and_one_that_exists_is_left_alone() {
        let directory = std::env::temp_dir().join(format!("coldpress-wb-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("tier");
        let file = WriteBackFile::open(&path, Some(8 << 20), Some(7)).unwrap();
        assert!(!path.exists());
        assert_eq!(file.file.metadata().unwrap().len(), 8 << 20);
        let words: Vec<u64> = file
            .for_the_pager()
            .split(' ')
            .map(|word| word.parse().unwrap())
            .collect();
        let metadata = file.file.metadata().unwrap();
        let expected = [
            file.descriptor() as u64,
            metadata.dev(),
            metadata.ino(),
            8 << 20,
            7,
        ];
        assert_eq!(words, expected);
        std::fs::write(&path, b"precious").unwrap();
        assert!(
            WriteBackFile::open(&path, None, None)
                .unwrap_err()
                .contains("exists")
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(WriteBackFile::open(&directory.join("x"), Some(4096), None).is_err());
        let refused = WriteBackFile::open(&directory.join("x"), Some(u64::MAX / 2), None);
        assert!(refused.unwrap_err().contains("--writeback-size"));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
