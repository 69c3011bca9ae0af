//! Reading run files: the slots of the processes that are managed ([`coldpress_interface::run_file`]).
//!
//! A page is copied with `read` into words of our own and looked at there, so a writer (or a
//! stranger who damaged the file) cannot change what has been checked.

use crate::process::Identity;
use coldpress_interface::figures::Figures;
use coldpress_interface::mappings::Mappings;
use coldpress_interface::page::{self, Page};
use coldpress_interface::run_file::{FILE_BYTES, Head, Owner, SLOTS_AT, slot_at};
use coldpress_interface::statistics::{MAGIC, Statistics, VERSION};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORDS: usize = page::FILE_BYTES / 8;

/// A copy of a statistics page.
#[derive(Debug)]
pub struct Copy {
    words: Box<[AtomicU64; WORDS]>,
}

/// Why a slot cannot be taken for the statistics of a process.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It cannot be opened or read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// The file is shorter than it should be, or the writer has not completed the page.
    #[error("it is incomplete")]
    Incomplete,
    /// It is of another layout.
    #[error(
        "it was written by another version of Coldpress (layout {0}; this command reads layout {VERSION})"
    )]
    OtherVersion(u64),
    /// It names another process than the slot's owner.
    #[error("it is about another process ({0})")]
    OtherProcess(u64),
}

impl Copy {
    /// Copies the page of a slot out of an open run file.
    pub fn of(file: &File, slot: usize) -> Result<Self, Unusable> {
        let mut bytes = [0u8; page::FILE_BYTES];
        file.read_exact_at(&mut bytes, slot_at(slot) as u64)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Unusable::Incomplete,
                _ => error.into(),
            })?;
        let words = Box::new([const { AtomicU64::new(0) }; WORDS]);
        for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*bytes), Relaxed);
        }
        Ok(Self { words })
    }

    /// A copy of a page that was made here.
    #[cfg(test)]
    pub fn of_page(page: &Page) -> Self {
        let words = Box::new([const { AtomicU64::new(0) }; WORDS]);
        // SAFETY: `Page` is made of nothing but `AtomicU64` and has so many words; its padding is made of bytes.
        let from =
            unsafe { std::slice::from_raw_parts(ptr::from_ref(page).cast::<AtomicU64>(), WORDS) };
        for (word, from) in words.iter().zip(from) {
            word.store(from.load(Relaxed), Relaxed);
        }
        Self { words }
    }

    /// The page, whatever it holds.
    fn page(&self) -> &Page {
        // SAFETY: `Page` is `repr(C)` and made of nothing but `AtomicU64` and padding bytes, so every
        // content is a valid value and the alignment is that of the words; it has as many bytes
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

    /// Start time of the writer; `None` where it has not said it. The first four words are the same in every
    /// layout.
    pub fn start_time_ticks(&self) -> Option<u64> {
        let page = &self.page().statistics;
        let start = page.start_time_ticks.load(Relaxed);
        (page.magic.load(Relaxed) == MAGIC && start != 0).then_some(start)
    }
}

/// Whether the owner of a slot, whose page was copied, still runs what it ran when it claimed it.
pub fn runs(owner: Owner, copy: &Copy) -> bool {
    if owner.is_past || owner.is_foreign {
        return owner.is_foreign;
    }
    let start = copy.start_time_ticks();
    Identity::of(owner.pid).is_some_and(|process| {
        process.is_alive() && start.is_none_or(|start| start == process.start_time_ticks)
    })
}

/// Name of a run file: which `coldpress run` made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The namespace of processes in which that is its id.
    pub namespace: u64,
}

impl Name {
    /// That of this process.
    pub fn own() -> Self {
        let pid = std::process::id();
        let start = Identity::of(pid).map_or(0, |own| own.start_time_ticks);
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |own| own.ino());
        Self {
            pid,
            start_ticks: start,
            namespace,
        }
    }

    /// The one in a path; `None`: it is no run file.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let mut parts = name.strip_suffix(".run")?.split('-');
        let found = Self {
            pid: parts.next()?.parse().ok()?,
            start_ticks: parts.next()?.parse().ok()?,
            namespace: parts.next()?.parse().ok()?,
        };
        (found.pid > 0 && found.to_string() == name).then_some(found)
    }

    /// Whether that process is gone. One of another namespace is not known.
    fn is_gone(&self, own_namespace: u64) -> bool {
        let same =
            |process: &Identity| process.start_time_ticks == self.start_ticks && process.is_alive();
        self.namespace == own_namespace && !Identity::of(self.pid).is_some_and(|p| same(&p))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            pid,
            start_ticks,
            namespace,
        } = self;
        write!(f, "{pid}-{start_ticks}-{namespace}.run")
    }
}

/// What a run file is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// To look into it.
    Read,
    /// To write into it, too: a request, or what is for all processes.
    ReadWrite,
}

/// Opens a run file by its entry in the directory: a regular file of the entry's owner, or a link to a
/// descriptor of the `run` that the name tells.
pub fn open(entry: &Path, rights: Rights) -> io::Result<File> {
    let metadata = fs::symlink_metadata(entry)?;
    let mut flags = libc::O_NONBLOCK;
    if metadata.is_symlink() {
        let target = fs::read_link(entry)?;
        let descriptors = Name::of(entry).map(|name| format!("/proc/{}/fd", name.pid));
        if target.parent() != descriptors.as_deref().map(Path::new) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
    } else {
        flags |= libc::O_NOFOLLOW;
    }
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(rights == Rights::ReadWrite)
        .custom_flags(flags)
        .open(entry)?;
    let opened = file.metadata()?;
    if opened.is_file() && opened.uid() == metadata.uid() {
        Ok(file)
    } else {
        Err(io::Error::from(io::ErrorKind::InvalidInput))
    }
}

/// Maps all but the slots of a run file; the caller unmaps [`SLOTS_AT`] bytes.
pub fn map_head(file: &File, rights: Rights) -> io::Result<*const Head> {
    let protection = match rights {
        Rights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        Rights::Read => libc::PROT_READ,
    };
    if file.metadata()?.len() < FILE_BYTES as u64 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    // SAFETY: a fresh mapping of a part of the file, which is long enough.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            SLOTS_AT,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match at {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at.cast_const().cast()),
    }
}

/// A copy of all but the slots.
fn read_head(file: &File) -> Result<Box<Head>, Unusable> {
    let mut head = Box::new(Head::new());
    // SAFETY: `Head` is `repr(C)`, has `SLOTS_AT` bytes (asserted where it is defined) and is made of nothing
    // but `AtomicU64` and padding, so every content is a valid value.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(ptr::from_mut(head.as_mut()).cast::<u8>(), SLOTS_AT)
    };
    file.read_exact_at(bytes, 0)
        .map_err(|_| Unusable::Incomplete)?;
    if head.is_current() {
        Ok(head)
    } else {
        Err(Unusable::Incomplete)
    }
}

/// A slot of a process that runs.
#[derive(Debug)]
pub struct Live {
    /// Process id.
    pub pid: u32,
    /// The run file.
    pub path: PathBuf,
    /// Number of the slot.
    pub slot: usize,
    /// The copy, or why there is none.
    pub copy: Result<Copy, Unusable>,
}

/// A run file that somebody has left, with what it has to say.
#[derive(Debug)]
pub struct Run {
    /// Its slots in use.
    pub live: Vec<Live>,
    /// Whether the `run` that made it is gone.
    pub is_unsupervised: bool,
    /// Its head.
    pub head: Option<Box<Head>>,
}

/// Whether a pager has the run file mapped: a process that has no slot may yet claim one.
pub fn is_mapped(path: &Path) -> bool {
    let Ok(file) = open(path, Rights::Read) else {
        return false;
    };
    // SAFETY: zeros are a valid lock, of the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: the descriptor is open, and the kernel answers in `lock`.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    asked == 0 && lock.l_type != libc::F_UNLCK as libc::c_short
}

/// All runs in `directory`. What is left of runs of which no process is left is removed if it is ours.
pub fn scan(directory: &Path) -> Vec<Run> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let namespace = Name::own().namespace;
    let mut runs = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let Some(name) = Name::of(&path) else {
            continue;
        };
        let run = look_into(&path, name.is_gone(namespace));
        if run.is_unsupervised && run.live.is_empty() && !is_mapped(&path) {
            remove_own(&path)
        } else {
            runs.push(run)
        }
    }
    runs
}

fn look_into(path: &Path, is_unsupervised: bool) -> Run {
    let mut run = Run {
        live: Vec::new(),
        is_unsupervised,
        head: None,
    };
    let Ok(file) = open(path, Rights::Read) else {
        return run;
    };
    let Ok(head) = read_head(&file) else {
        return run;
    };
    for (slot, owner) in head.claimed() {
        let copy = Copy::of(&file, slot);
        // Who cannot be named here is left to those who can.
        let lives = !owner.is_foreign
            && match &copy {
                Ok(copy) => runs(owner, copy),
                Err(_) => Identity::of(owner.pid).is_some_and(|process| process.is_alive()),
            };
        if lives {
            run.live.push(Live {
                pid: owner.pid,
                path: path.to_owned(),
                slot,
                copy,
            });
        }
    }
    run.head = Some(head);
    run
}

/// Removes what is stale if this user owns it; what cannot be removed harms nobody.
fn remove_own(path: &Path) {
    // SAFETY: the call takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let metadata = fs::symlink_metadata(path);
    if metadata.is_ok_and(|metadata| !metadata.is_dir() && metadata.uid() == user) {
        let _ = fs::remove_file(path);
    }
}

/// What the program that left these figures was called.
pub fn program(s: &Statistics) -> String {
    let name = s.program();
    let len = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    match len {
        0 => "?".to_owned(),
        _ => String::from_utf8_lossy(&name[..len]).replace(char::is_control, "?"),
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
        bytes.resize(page::FILE_BYTES, 0);
        bytes
    }

    /// Writes a page into a slot of a run file and says who owns it.
    pub fn put(path: &Path, slot: usize, owner: u64, page: &[u8]) {
        use coldpress_interface::run_file::OWNERS_AT;
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&owner.to_ne_bytes(), (OWNERS_AT + slot * 8) as u64)
            .unwrap();
        file.write_all_at(page, slot_at(slot) as u64).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::{Form, tests::made};

    #[test]
    fn live_slots_are_found_and_stale_files_removed() {
        let directory = std::env::temp_dir().join(format!("coldpress-scan-{}", std::process::id()));
        let run = made(&directory, Form::File);
        let pid = std::process::id();
        let own = fixtures::own_page();
        fixtures::put(run.path(), 0, pid.into(), &own);
        let mut recycled = own.clone();
        recycled[24..32].copy_from_slice(&u64::MAX.to_ne_bytes());
        fixtures::put(run.path(), 1, pid.into(), &recycled);
        fixtures::put(run.path(), 2, 4_194_305, &own); // beyond the largest process id
        let write = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes).unwrap();
        let namespace = Name::own().namespace;
        write(&format!("4194305-1-{namespace}.run"), b"stale");
        write("4194305-1-7.run", b"of another namespace");
        write(&format!("{pid}-1-{namespace}.run"), b"of another process");
        write("notes.txt", b"kept");
        write("01-1-1.run", b"kept");

        let found: Vec<Live> = scan(&directory).into_iter().flat_map(|r| r.live).collect();
        assert_eq!(found.len(), 1);
        let copy = found[0].copy.as_ref().unwrap();
        let statistics = copy.statistics(pid).unwrap();
        assert_eq!(statistics.budget_bytes.load(Relaxed), 64 << 20);
        assert!(matches!(copy.statistics(1), Err(Unusable::OtherProcess(_))));
        let mut names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let mut expected = [
            "01-1-1.run".to_owned(),
            "4194305-1-7.run".to_owned(),
            "notes.txt".to_owned(),
            Name::own().to_string(),
        ];
        expected.sort();
        assert_eq!(names, expected);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn links_lead_to_descriptors_of_the_run_alone() {
        let directory = std::env::temp_dir().join(format!("coldpress-link-{}", std::process::id()));
        let run = made(&directory, Form::Memory);
        let entry = directory.join(Name::own().to_string());
        assert!(open(&entry, Rights::Read).is_ok());
        fs::remove_file(&entry).unwrap();
        for target in ["/etc/passwd", "/proc/1/fd/3", "/proc/self/fd/3"] {
            std::os::unix::fs::symlink(target, &entry).unwrap();
            assert!(open(&entry, Rights::Read).is_err(), "{target}");
            fs::remove_file(&entry).unwrap();
        }
        drop(run);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn damaged_pages_are_told_apart() {
        let directory = std::env::temp_dir().join(format!("coldpress-page-{}", std::process::id()));
        let run = made(&directory, Form::File);
        let pid = std::process::id();
        let file = open(run.path(), Rights::Read).unwrap();
        let read = |bytes: &[u8]| {
            fixtures::put(run.path(), 3, pid.into(), bytes);
            Copy::of(&file, 3).and_then(|copy| copy.statistics(pid).map(|_| ()))
        };
        let page = fixtures::own_page();
        assert!(read(&page).is_ok());
        let mut other = page.clone();
        other[8] = 99;
        assert!(matches!(read(&other), Err(Unusable::OtherVersion(99))));
        assert!(matches!(
            read(&[0; page::FILE_BYTES]),
            Err(Unusable::Incomplete)
        ));
        let path = run.path().to_owned();
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(slot_at(3) as u64 + 100)
            .unwrap();
        assert!(matches!(Copy::of(&file, 3), Err(Unusable::Incomplete)));
        drop(run);
        fs::remove_dir_all(&directory).unwrap();
    }
}
