//! How much of each mapping is touched while we watch, by soft means: for the process's own user, without root.
//!
//! Writing 1 to `/proc/PID/clear_refs` clears the notes of the processor and the kernel that pages were touched;
//! `Referenced` in `/proc/PID/smaps` then tells how much of each mapping was touched since. One clearing, and a reading
//! after each of several times, give how much is touched within each of them.
//!
//! No content changes by it, no page moves, and the program notices nothing. What does change is the kernel's own
//! record of what was used lately: should the machine run short of memory at once, it chooses as if all of it had
//! been used equally long ago. So it is said in the output, and `--ages none` does without.
//!
//! A page in the processor's own buffer of translations may be used without a new note, so of what is used all
//! the time a few MiB may look idle for moments.

use crate::smaps::{self, Vma};
use std::fs;
use std::io;

/// What each mapping held at one moment, and what of it was touched since the notes were cleared.
pub type Reading = Vec<Mapping>;

/// A mapping at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Private anonymous memory in it, in bytes.
    pub held_bytes: u64,
    /// Of that, what was touched.
    pub touched_bytes: u64,
}

/// Whether this user may clear the notes of a process.
pub fn may_clear(pid: u32) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    options.open(format!("/proc/{pid}/clear_refs")).map(drop)
}

/// Clears the notes.
pub fn clear(pid: u32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/clear_refs"), "1")
}

/// Reads what was touched since.
pub fn read(pid: u32) -> io::Result<Reading> {
    let vmas = smaps::read_all(pid)?;
    let touched = vmas.iter().filter(|vma| vma.anonymous_bytes > 0);
    Ok(touched.map(reading).collect())
}

fn reading(vma: &Vma) -> Mapping {
    Mapping {
        start: vma.start,
        end: vma.end,
        held_bytes: vma.anonymous_bytes,
        touched_bytes: vma.referenced_bytes.min(vma.anonymous_bytes),
    }
}

/// Bytes touched in a range: of the mappings that lie in it, or begin or end in it.
pub fn touched_in(reading: &Reading, start: u64, end: u64) -> u64 {
    inside(reading, start, end).map(|m| m.touched_bytes).sum()
}

/// Bytes held in a range, of those mappings.
pub fn held_in(reading: &Reading, start: u64, end: u64) -> u64 {
    inside(reading, start, end).map(|m| m.held_bytes).sum()
}

fn inside(reading: &Reading, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
    let overlaps = move |m: &&Mapping| m.start < end && start < m.end;
    reading.iter().filter(overlaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_seen_and_the_rest_is_not() {
        let own = std::process::id();
        let mut memory = vec![1u8; 64 << 20];
        let at = memory.as_ptr() as u64;
        may_clear(own).unwrap();
        clear(own).unwrap();
        for byte in memory.iter_mut().step_by(4096).take(16 << 8) {
            *byte += 1;
        }
        let touched = touched_in(&read(own).unwrap(), at, at + (64 << 20));
        // Other tests of this program touch memory that may lie in the same mapping.
        assert!(touched >= 15 << 20, "{touched}");
        assert!(touched < 60 << 20, "{touched}");
        assert!(memory.iter().step_by(4096).any(|byte| *byte == 2));
    }

    #[test]
    fn mappings_that_overlap_count() {
        let mapping = |start, end, touched_bytes| Mapping {
            start,
            end,
            held_bytes: 10 * touched_bytes,
            touched_bytes,
        };
        let reading = vec![mapping(0, 10, 1), mapping(10, 20, 2), mapping(30, 40, 4)];
        assert_eq!(touched_in(&reading, 10, 20), 2);
        assert_eq!(touched_in(&reading, 5, 35), 7);
        assert_eq!(held_in(&reading, 5, 35), 70);
        assert_eq!(touched_in(&reading, 20, 30), 0);
    }
}
