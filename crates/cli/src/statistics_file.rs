//! Reading statistics files: `PID.stats`, written by the pager inside each managed process.
//!
//! The file is copied with `read` into words of our own and looked at there, so a writer (or a
//! stranger who damaged the file) cannot change what has been checked.

use crate::process::Identity;
use coldpress_interface::figures::Figures;
use coldpress_interface::mappings::Mappings;
use coldpress_interface::page::{FILE_BYTES, LEAST_FILE_BYTES, Page};
use coldpress_interface::statistics::{MAGIC, Statistics, VERSION};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORDS: usize = FILE_BYTES / 8;

/// A copy of a statistics page.
#[derive(Debug)]
pub struct Copy {
    words: Box<[AtomicU64; WORDS]>,
}

/// Why a file cannot be taken for the statistics of a process.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be opened or read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// It is shorter than a statistics page, or its writer has not completed it.
    #[error("it is incomplete")]
    Incomplete,
    /// It is of another layout.
    #[error(
        "it was written by another version of Coldpress (layout {0}; this command reads layout {VERSION})"
    )]
    OtherVersion(u64),
    /// It names another process than its file name does.
    #[error("it is about another process ({0})")]
    OtherProcess(u64),
}

impl Copy {
    /// Copies the page out of an open file.
    pub fn of(file: &File) -> Result<Self, Unusable> {
        let mut bytes = [0u8; FILE_BYTES];
        let mut len = 0;
        while len < FILE_BYTES {
            match file.read_at(&mut bytes[len..], len as u64)? {
                0 if len < LEAST_FILE_BYTES => return Err(Unusable::Incomplete),
                0 => break, // of an older writer: the rest is zero
                more => len += more,
            }
        }
        let words = Box::new([const { AtomicU64::new(0) }; WORDS]);
        for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        Ok(Self { words })
    }

    /// The page, whatever it holds.
    fn page(&self) -> &Page {
        // SAFETY: `Page` is `repr(C)` and made of nothing but `AtomicU64` and padding bytes, so every
        // content is a valid value and the alignment is that of the words; it has `FILE_BYTES`
        // (asserted where it is defined); the reference borrows the words.
        unsafe { &*self.words.as_ptr().cast::<Page>() }
    }

    /// The table of mappings, whatever it holds.
    pub fn mappings(&self) -> &Mappings {
        &self.page().mappings
    }

    /// The engine's figures and tunables, whatever they hold: nothing, if the writer is an older one.
    pub fn figures(&self) -> &Figures {
        &self.page().figures
    }

    /// The page, if it was completed by a writer of our layout for the process `pid`.
    pub fn statistics(&self, pid: u32) -> Result<&Statistics, Unusable> {
        let page = &self.page().statistics;
        if page.magic.load(Relaxed) != MAGIC {
            return Err(Unusable::Incomplete);
        }
        if !page.is_current() {
            return Err(Unusable::OtherVersion(page.version.load(Relaxed)));
        }
        match page.pid.load(Relaxed) {
            named if named == u64::from(pid) => Ok(page),
            named => Err(Unusable::OtherProcess(named)),
        }
    }

    /// The process that the page says it is of.
    pub fn pid(&self) -> u32 {
        self.page().statistics.pid.load(Relaxed) as u32
    }

    /// Start time of the writer. The first four words are the same in every layout.
    fn start_time_ticks(&self) -> Option<u64> {
        let page = &self.page().statistics;
        (page.magic.load(Relaxed) == MAGIC).then(|| page.start_time_ticks.load(Relaxed))
    }
}

/// Path of the statistics file of a process.
pub fn path(directory: &Path, pid: u32) -> PathBuf {
    directory.join(format!("{pid}.stats"))
}

/// Opens a statistics file: a regular file and no symbolic link.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Opens a statistics file to write a request into it.
pub fn open_to_ask(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true).write(true), path)
}

fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = options.custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}

/// A statistics file of a process that runs.
#[derive(Debug)]
pub struct Live {
    /// Process id.
    pub pid: u32,
    /// Its file.
    pub path: PathBuf,
    /// The copy, or why there is none.
    pub copy: Result<Copy, Unusable>,
}

/// The files of all running processes in `directory`. Those of processes that are gone are
/// removed if they are ours.
pub fn scan(directory: &Path) -> Vec<Live> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut live = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(pid) = pid_of(&path) else { continue };
        let copy = open(&path)
            .map_err(Unusable::from)
            .and_then(|file| Copy::of(&file));
        let writer = copy.as_ref().ok().and_then(Copy::start_time_ticks);
        match Identity::of(pid) {
            Some(process) if writer.is_none_or(|start| start == process.start_time_ticks) => {
                if process.is_alive() {
                    live.push(Live { pid, path, copy });
                }
            }
            _ => remove_own(&path),
        }
    }
    live.sort_by_key(|file| file.pid);
    live
}

/// Process id in a file name `PID.stats`.
fn pid_of(path: &Path) -> Option<u32> {
    let pid: u32 = path
        .file_name()?
        .to_str()?
        .strip_suffix(".stats")?
        .parse()
        .ok()?;
    (pid > 0 && path.file_name()?.to_str()? == format!("{pid}.stats")).then_some(pid)
}

/// Removes a stale file if this user owns it; what cannot be removed harms nobody.
fn remove_own(path: &Path) {
    // SAFETY: the call takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.uid() == user)
    {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
pub mod fixtures {
    //! Statistics pages for tests.

    use super::*;

    /// The bytes of a page for this process, with `budget_bytes` 64 MiB.
    pub fn own_page() -> Vec<u8> {
        let pid = std::process::id();
        let start = Identity::of(pid).unwrap().start_time_ticks;
        let mut bytes: Vec<u8> = [MAGIC, VERSION, pid.into(), start, 64 << 20]
            .into_iter()
            .flat_map(u64::to_ne_bytes)
            .collect();
        bytes.resize(LEAST_FILE_BYTES, 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_files_are_found_and_stale_ones_removed() {
        let directory = std::env::temp_dir().join(format!("coldpress-scan-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pid = std::process::id();
        let own = fixtures::own_page();
        let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
        write(&format!("{pid}.stats"), &own);
        write("4194305.stats", &own); // beyond the largest process id
        write("notes.txt", b"kept");
        write("01.stats", b"kept");
        let mut recycled = own.clone();
        recycled[16..24].copy_from_slice(&1u64.to_ne_bytes());
        recycled[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        write("1.stats", &recycled);

        let live = scan(&directory);
        assert_eq!(live.len(), 1);
        let copy = live[0].copy.as_ref().unwrap();
        assert_eq!(
            copy.statistics(pid).unwrap().budget_bytes.load(Relaxed),
            64 << 20
        );
        assert!(matches!(copy.statistics(1), Err(Unusable::OtherProcess(_))));
        let mut names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        names.sort();
        let expected = ["01.stats", &format!("{pid}.stats"), "notes.txt"];
        assert_eq!(names, expected);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn damaged_pages_are_told_apart() {
        let path = std::env::temp_dir().join(format!("coldpress-page-{}", std::process::id()));
        let pid = std::process::id();
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            Copy::of(&open(&path).unwrap()).and_then(|copy| copy.statistics(pid).map(|_| ()))
        };
        let page = fixtures::own_page();
        assert!(read(&page).is_ok());
        let longer = |len| {
            let mut page = page.clone();
            page.resize(len, 0xFF);
            page
        };
        // Whatever a newer writer keeps behind what we know.
        assert!(read(&longer(LEAST_FILE_BYTES + 5)).is_ok());
        assert!(read(&longer(4 * FILE_BYTES)).is_ok());
        assert!(matches!(
            read(&page[..LEAST_FILE_BYTES - 1]),
            Err(Unusable::Incomplete)
        ));
        assert!(matches!(
            read(&[0; LEAST_FILE_BYTES]),
            Err(Unusable::Incomplete)
        ));
        let mut other = page.clone();
        other[8] = 99;
        assert!(matches!(read(&other), Err(Unusable::OtherVersion(99))));
        fs::remove_file(&path).unwrap();
    }
}
