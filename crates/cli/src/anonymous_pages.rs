//! The private anonymous pages of another process: where they are, and what is in them.
//!
//! `/proc/PID/maps` names the mappings, `/proc/PID/pagemap` (Linux, `admin-guide/mm/pagemap`)
//! tells which of their pages are in memory, `/proc/PID/mem` gives the bytes.

use crate::mapping::Mapping;
use crate::own_name;
use crate::process::{self, Identity};
use crate::refusal::Refusal;
use coldpress_uffd::{AddressRange, Errno, Pagemap, Region};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

const PRESENT: u64 = 1 << 63;
/// The page is of a file, or shared.
const FILE_OR_SHARED: u64 = 1 << 61;
/// No other process has it, too (after a `fork`).
const EXCLUSIVE: u64 = 1 << 56;
const FRAME_MASK: u64 = (1 << 55) - 1;
/// Pages of which the page map is read at a time.
const BATCH_PAGES: u64 = 1 << 16;

/// What a process's memory is read for, as messages say it.
#[derive(Clone, Copy, Debug)]
pub struct Purpose {
    /// What of this command's line is to be run as root where rights are missing, `PID` for the process.
    pub mend: &'static str,
    /// What is said of a process that ends meanwhile, behind its number.
    pub ended: &'static str,
}

/// A page that was not there any more when it was to be read.
#[derive(Debug)]
pub struct Vanished;

/// Pages of some ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Populated {
    /// Those that only this process has: first address and how many follow one another, rising.
    pub own: Vec<(u64, u64)>,
    /// How many pages are another process's, too, since a `fork`.
    pub shared: u64,
}

/// A process whose memory can be read.
#[derive(Debug)]
pub struct AnonymousPages {
    pid: u32,
    purpose: Purpose,
    identity: Identity,
    memory: File,
    page_map: File,
}

impl AnonymousPages {
    /// Opens a process's memory.
    pub fn open(pid: u32, purpose: Purpose) -> Result<Self, Refusal> {
        let identity = Identity::of(pid).filter(Identity::is_alive);
        let Some(identity) = identity else {
            return Err(Refusal::new(format!(
                "there is no process {pid}: list processes with: ps -e"
            )));
        };
        let open = |name: &str| {
            File::open(format!("/proc/{pid}/{name}"))
                .map_err(|error| unreadable(pid, purpose.mend, &error))
        };
        Ok(Self {
            pid,
            purpose,
            identity,
            memory: open("mem")?,
            page_map: open("pagemap")?,
        })
    }

    /// Addresses of all private anonymous pages that are in memory, rising.
    pub fn present(&self) -> Result<Vec<u64>, Refusal> {
        let maps = process::read(format!("/proc/{}/maps", self.pid));
        let maps = maps.map_err(|error| self.gone_or(&error))?;
        let mut present = Vec::new();
        for (start, end) in maps.lines().filter_map(private_anonymous) {
            let mut from = start / PAGE_BYTES as u64;
            let end = end / PAGE_BYTES as u64;
            while from < end {
                let count = (end - from).min(BATCH_PAGES);
                let entries = self
                    .entries(from, count)
                    .map_err(|error| self.gone_or(&error))?;
                let here = |entry: &u64| entry & PRESENT != 0 && entry & FILE_OR_SHARED == 0;
                let pages = entries.iter().zip(from..).filter(|(entry, _)| here(entry));
                present.extend(pages.map(|(_, page)| page * PAGE_BYTES as u64));
                from += count;
            }
        }
        self.check_identity()?;
        Ok(present)
    }

    /// The pages with content in some ranges, which rise.
    pub fn populated(&self, ranges: &[(u64, u64)]) -> Result<Populated, Refusal> {
        let pagemap = Pagemap::of(self.pid).map_err(|errno| self.gone_or(&io_error(errno)))?;
        let mut all = Populated::default();
        let mut regions = [Region::default(); 256];
        for &(start, end) in ranges {
            let mut rest = AddressRange {
                start: start as usize,
                end: end as usize,
            };
            while !rest.is_empty() {
                let (found, walked) = pagemap
                    .populated(rest, &mut regions)
                    .map_err(|errno| self.gone_or(&io_error(errno)))?;
                for region in &regions[..found] {
                    self.sort(region.start, region.end, &mut all)
                        .map_err(|error| self.gone_or(&error))?;
                }
                if walked <= rest.start {
                    break;
                }
                rest.start = walked;
            }
        }
        self.check_identity()?;
        Ok(all)
    }

    /// Notes which pages of a populated range are the process's own.
    fn sort(&self, start: u64, end: u64, all: &mut Populated) -> io::Result<()> {
        let page = PAGE_BYTES as u64;
        let mut from = start / page;
        while from < end / page {
            let count = (end / page - from).min(BATCH_PAGES);
            for (entry, number) in self.entries(from, count)?.into_iter().zip(from..) {
                match entry & (PRESENT | FILE_OR_SHARED | EXCLUSIVE) {
                    wanted if wanted == PRESENT | EXCLUSIVE => match all.own.last_mut() {
                        Some((first, pages)) if *first + *pages * page == number * page => {
                            *pages += 1;
                        }
                        _ => all.own.push((number * page, 1)),
                    },
                    PRESENT => all.shared += 1,
                    _ => {}
                }
            }
            from += count;
        }
        Ok(())
    }

    /// The frame in which each page is; 0 where it is in none, or where frames are not shown to us.
    pub fn frames(&self, addresses: &[u64]) -> Result<Vec<u64>, Refusal> {
        let mut frames = Vec::with_capacity(addresses.len());
        let is_near = |one: &u64, next: &u64| next - one < 64 * PAGE_BYTES as u64;
        for run in addresses.chunk_by(is_near) {
            let first = run[0] / PAGE_BYTES as u64;
            let last = run[run.len() - 1] / PAGE_BYTES as u64;
            let entries = self
                .entries(first, last - first + 1)
                .map_err(|error| self.gone_or(&error))?;
            frames.extend(run.iter().map(|address| {
                let at = (address / PAGE_BYTES as u64 - first) as usize;
                let entry = entries.get(at).copied().unwrap_or(0);
                if entry & PRESENT != 0 {
                    entry & FRAME_MASK
                } else {
                    0
                }
            }));
        }
        self.check_identity()?;
        Ok(frames)
    }

    /// Reads pages that follow one another and gives each to `each`.
    pub fn read(
        &self,
        addresses: &[u64],
        mut each: impl FnMut(u64, Result<&[u8], Vanished>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let mut buffer = vec![0; addresses.len() * PAGE_BYTES];
        let all = self.memory.read_exact_at(&mut buffer, addresses[0]);
        for (address, page) in addresses.iter().zip(buffer.chunks_mut(PAGE_BYTES)) {
            // Where one of them is gone, each is tried by itself.
            let read = match &all {
                Ok(()) => Ok(()),
                Err(_) => self.memory.read_exact_at(page, *address),
            };
            match read {
                Ok(()) => each(*address, Ok(page))?,
                Err(_) => {
                    self.check_identity()?;
                    each(*address, Err(Vanished))?;
                }
            }
        }
        Ok(())
    }

    fn entries(&self, first: u64, count: u64) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; count as usize * 8];
        let mut filled = 0;
        while filled < bytes.len() {
            match self
                .page_map
                .read_at(&mut bytes[filled..], first * 8 + filled as u64)?
            {
                0 => break,
                more => filled += more,
            }
        }
        let (entries, _) = bytes.as_chunks::<8>();
        Ok(entries
            .iter()
            .map(|entry| u64::from_ne_bytes(*entry))
            .collect())
    }

    /// Refuses if the process has ended, or another one has its id.
    pub fn check_identity(&self) -> Result<(), Refusal> {
        match Identity::of(self.pid) {
            Some(now)
                if now.is_alive() && now.start_time_ticks == self.identity.start_time_ticks =>
            {
                Ok(())
            }
            _ => Err(Refusal::new(format!(
                "process {} {}",
                self.pid, self.purpose.ended
            ))),
        }
    }

    pub fn gone_or(&self, error: &io::Error) -> Refusal {
        match self.check_identity() {
            Err(gone) => gone,
            Ok(()) => unreadable(self.pid, self.purpose.mend, error),
        }
    }
}

fn io_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}

fn unreadable(pid: u32, mend: &str, error: &io::Error) -> Refusal {
    let name = crate::process::name(pid);
    // SAFETY: the call takes nothing and cannot fail.
    let user = match unsafe { libc::geteuid() } {
        0 => User::Root,
        _ => User::Other,
    };
    Refusal::new(match error.raw_os_error() {
        Some(libc::ESRCH) => {
            format!("process {pid} ({name}) has no memory of its own: it belongs to the kernel")
        }
        _ => format!(
            "cannot read the memory of process {pid} ({name}): {error}; {}",
            missing_right(user, &mend.replace("PID", &pid.to_string()))
        ),
    })
}

/// The user that asks for the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    Root,
    Other,
}

/// What is missing where the kernel refuses a process's memory, and where it is to be had. Root that is refused lacks a
/// capability (in a container), or a security module stands before it: sudo gives neither.
fn missing_right(user: User, mend: &str) -> String {
    let command = format!("{} {mend}", own_name::get());
    match user {
        User::Root => format!(
            "root needs CAP_SYS_PTRACE for it, and a security module may refuse it all the same: run it outside the \
             container, or in one of docker run --cap-add SYS_PTRACE: {command}"
        ),
        User::Other => {
            format!("it takes root, or a debugger's rights to it: sudo {command}")
        }
    }
}

/// Start and end of a mapping, if it is private, anonymous and readable memory of the program.
fn private_anonymous(line: &str) -> Option<(u64, u64)> {
    let mapping = Mapping::parse(line)?;
    let is_readable = mapping.permissions.starts_with('r');
    let is_private = mapping.permissions.ends_with('p');
    let is_kernels = mapping.name.starts_with("[v");
    let is_programs = !mapping.is_of_a_file && !is_kernels;
    (is_programs && is_readable && is_private).then_some(mapping.range)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose = Purpose {
        mend: "test PID",
        ended: "ended",
    };

    #[test]
    fn private_anonymous_mappings_are_told() {
        for (line, range) in [
            ("1000-3000 rw-p 00000000 00:00 0 ", Some((0x1000, 0x3000))),
            (
                "1000-3000 rw-p 00000000 00:00 0    [heap]",
                Some((0x1000, 0x3000)),
            ),
            (
                "1000-3000 rw-p 00000000 00:00 0    [anon: x y]",
                Some((0x1000, 0x3000)),
            ),
            (
                "1000-3000 rw-s 00000000 00:01 7    /dev/zero (deleted)",
                None,
            ),
            ("1000-3000 r--p 00000000 fe:00 247026   /usr/bin/cat", None),
            ("1000-3000 ---p 00000000 00:00 0 ", None),
            ("1000-3000 r-xp 00000000 00:00 0    [vdso]", None),
            ("1000-3000 r--p 00000000 00:00 0    [vvar]", None),
            ("", None),
        ] {
            assert_eq!(private_anonymous(line), range, "{line}");
        }
    }

    /// `estimate 1` told root to use sudo.
    #[test]
    fn root_is_not_sent_to_sudo() {
        let user = missing_right(User::Other, "estimate 1");
        assert!(
            user.contains("sudo ") && user.ends_with(" estimate 1"),
            "{user}"
        );
        let root = missing_right(User::Root, "estimate 1");
        assert!(!root.contains("sudo"), "{root}");
        assert!(
            root.contains("CAP_SYS_PTRACE") && root.ends_with(" estimate 1"),
            "{root}"
        );
    }

    #[test]
    fn our_own_pages_are_found_and_read() {
        let own = AnonymousPages::open(std::process::id(), PURPOSE).unwrap();
        let mut memory = vec![1u8; 64 * PAGE_BYTES];
        memory.fill(0xa7);
        let first = (memory.as_ptr() as u64).next_multiple_of(PAGE_BYTES as u64);
        let present = own.present().unwrap();
        assert!(present.is_sorted() && present.binary_search(&first).is_ok());
        let mut seen = 0;
        own.read(&[first, first + PAGE_BYTES as u64], |_, page| {
            seen += usize::from(page.unwrap().iter().all(|byte| *byte == 0xa7));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, 2);
        drop(memory);
    }
}
