//! Facts about other processes from `/proc`.

use std::fs;
use std::io;
use std::path::Path;

/// Text of a file of the kernel's. Names in it may hold any bytes; what is no UTF-8 reads as U+FFFD.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a process is there, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The process that started it, or what took its place.
    pub parent: u32,
    /// State letter: `R`, `S`, `T`, `Z` and so on.
    pub state: char,
    /// Threads; a process whose first thread has ended is a zombie with more than one.
    pub threads: u64,
    /// Start time in clock ticks since boot, which tells two owners of one id apart.
    pub start_time_ticks: u64,
}

impl Identity {
    /// Looks up a process; `None` if there is none with this id.
    pub fn of(pid: u32) -> Option<Self> {
        parse_stat(&read(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether any of it still runs.
    pub fn is_alive(&self) -> bool {
        match self.state {
            'Z' => self.threads > 1,
            'X' => false,
            _ => true,
        }
    }
}

/// Parses `/proc/PID/stat`. The name, second field, may itself hold blanks and parentheses.
fn parse_stat(stat: &str) -> Option<Identity> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads = fields.nth(15)?.parse().ok()?; // field 20, counted from field 4
    let start_time_ticks = fields.nth(1)?.parse().ok()?; // field 22
    Some(Identity {
        parent,
        state,
        threads,
        start_time_ticks,
    })
}

/// CPU time that a process has used, in seconds; `None`: it is gone.
pub fn cpu_time_s(pid: u32) -> Option<f64> {
    let ticks = parse_cpu_ticks(&read(format!("/proc/{pid}/stat")).ok()?)?;
    Some(ticks as f64 / ticks_per_second() as f64)
}

/// What the kernel counts times of processes in.
pub fn ticks_per_second() -> u64 {
    // SAFETY: the call asks, and changes nothing.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

/// User and system time in `/proc/PID/stat`.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11); // field 14, counted from field 3
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Whether a process was started by `ancestor`, or by one that it has started, as far as those in between still run.
pub fn descends_from(pid: u32, ancestor: u32) -> bool {
    let mut pid = pid;
    // Ids are used again: a walk that is longer than any chain of processes leads nowhere.
    for _ in 0..1 << 10 {
        match Identity::of(pid) {
            Some(process) if process.parent == ancestor => return true,
            Some(process) if process.parent > 1 => pid = process.parent,
            _ => return false,
        }
    }
    false
}

/// Name of the program that the process runs, without control characters.
pub fn name(pid: u32) -> String {
    let comm = read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let comm = comm.trim_end_matches('\n').replace(char::is_control, "?");
    if comm.is_empty() {
        "?".to_owned()
    } else {
        comm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_a_child_descends() {
        let own = std::process::id();
        // SAFETY: the call asks, and changes nothing.
        let parent = unsafe { libc::getppid() }.cast_unsigned();
        // No "sleep": another test looks for that.
        let mut command = std::process::Command::new("tail");
        let mut child = command.args(["-f", "/dev/null"]).spawn().unwrap();
        assert!(descends_from(child.id(), own));
        assert!(descends_from(child.id(), parent));
        assert!(!descends_from(own, child.id()) && !descends_from(own, own));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn names_may_hold_anything() {
        let stat = "7 (a) R 1 (b)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 1000 1 2\n";
        let identity = parse_stat(stat).unwrap();
        assert_eq!((identity.state, identity.start_time_ticks), ('S', 123_456));
        assert_eq!((identity.threads, identity.parent), (1, 1));
        let zombie = |threads| Identity {
            parent: 1,
            state: 'Z',
            threads,
            ..identity
        };
        assert!(zombie(2).is_alive() && !zombie(1).is_alive());
        assert_eq!(parse_stat("7 (a) S 1"), None);
        let stat =
            "7 (a) R 1 (b)) S 1 7 7 0 -1 4194560 1 0 0 0 31 11 0 0 20 0 1 0 123456 1000 1 2\n";
        assert_eq!(parse_cpu_ticks(stat), Some(42));
        assert!(cpu_time_s(std::process::id()).is_some() && cpu_time_s(u32::MAX).is_none());
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_is_alive() {
        let own = Identity::of(std::process::id()).unwrap();
        assert!(own.is_alive() && own.start_time_ticks > 0);
        assert_eq!(Identity::of(u32::MAX), None);
    }
}
