//! Reading `/proc/thread-self/maps` without allocating.

use coldpress_uffd::{AddressRange, Errno};
use core::ffi::CStr;
use rustix::fd::{AsFd, BorrowedFd};

/// The file. Not that of `/proc/self`, which is the first thread's: it has no memory any more where that thread has ended
/// before the others (`pthread_exit` in `main`).
pub const PATH: &CStr = c"/proc/thread-self/maps";

/// One mapping, as a line of the file tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<'a> {
    /// Where it lies.
    pub range: AddressRange,
    /// `rwxp` flags.
    pub permissions: [u8; 4],
    /// Inode of the file; 0 for anonymous memory.
    pub inode: u64,
    /// Path or name; empty for plain anonymous memory.
    pub name: &'a [u8],
}

impl Mapping<'_> {
    /// Private, anonymous, readable, writable, not executable: what may be evicted at all.
    pub fn is_evictable(&self) -> bool {
        // With `glibc.mem.decorate_maps` libc names what it has for itself, as stacks, and what `malloc` gives out.
        let is_libcs = self.name.starts_with(b"[anon: glibc")
            && !self.name.starts_with(b"[anon: glibc: malloc");
        let named_anonymous = self.name.is_empty()
            || self.name == b"[heap]"
            || (self.name.starts_with(b"[anon:") && !is_libcs);
        self.permissions == *b"rw-p" && self.inode == 0 && named_anonymous
    }

    /// Whether a file lies behind it.
    pub fn is_file(&self) -> bool {
        self.inode != 0
    }
}

fn number(text: &[u8], radix: u64) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &c| {
        let digit = (c as char).to_digit(radix as u32)?;
        value.checked_mul(radix)?.checked_add(u64::from(digit))
    })
}

/// Reads one line of the file. `None` where it is not such a line.
pub fn parse(line: &[u8]) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, |&c| c == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|&c| c == b'-')?;
    let permissions = *fields.next()?.first_chunk::<4>()?;
    let _offset = fields.next()?;
    let _device = fields.next()?;
    let inode = number(fields.next()?, 10)?;
    let name = fields.next().unwrap_or(b"").trim_ascii();
    Some(Mapping {
        range: AddressRange {
            start: number(&range[..dash], 16)? as usize,
            end: number(&range[dash + 1..], 16)? as usize,
        },
        permissions,
        inode,
        name,
    })
}

/// So large a buffer holds all of a line but a long name, and lies on a stack that may be small.
pub const BUFFER_BYTES: usize = 384;

/// Calls `with` for every line of `file`, read from its start through `buffer`. Lines longer than the buffer are cut.
pub fn for_each_line(
    file: BorrowedFd<'_>,
    buffer: &mut [u8],
    mut with: impl FnMut(&[u8]),
) -> Result<(), Errno> {
    let mut offset = 0u64;
    let mut kept = 0;
    // The line that goes on in the buffer was told already, cut.
    let mut is_rest = false;
    loop {
        let read = rustix::io::pread(file.as_fd(), &mut buffer[kept..], offset)?;
        let filled = kept + read;
        offset += read as u64;
        let mut start = 0;
        while let Some(end) = buffer[start..filled].iter().position(|&c| c == b'\n') {
            if !is_rest {
                with(&buffer[start..start + end]);
            }
            is_rest = false;
            start += end + 1;
        }
        let is_full = start == 0 && filled == buffer.len();
        if start < filled && (read == 0 || is_full) && !is_rest {
            with(&buffer[start..filled]);
        }
        if read == 0 {
            return Ok(());
        }
        if is_full {
            is_rest = true;
            start = filled;
        }
        buffer.copy_within(start..filled, 0);
        kept = filled - start;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::format;

    #[test]
    fn reads_the_lines_the_kernel_writes() {
        let heap = parse(
            b"55d8c0a00000-55d8c0a21000 rw-p 00000000 00:00 0                          [heap]",
        )
        .unwrap();
        assert_eq!(heap.range.start, 0x55d8_c0a0_0000);
        assert!(heap.is_evictable());
        let anonymous = parse(b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 ").unwrap();
        assert!(anonymous.is_evictable());
        assert_eq!(anonymous.name, b"");
        for named in [
            &b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 [anon:cache]"[..],
            b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 [anon: glibc: malloc]",
            b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 [anon: glibc: malloc arena]",
        ] {
            assert!(parse(named).unwrap().is_evictable());
        }
        let text =
            parse(b"7f12a4000000-7f12a4021000 r-xp 00001000 fe:00 1234 /usr/lib/a b.so").unwrap();
        assert_eq!((text.inode, text.name), (1234, &b"/usr/lib/a b.so"[..]));
        assert!(text.is_file() && !text.is_evictable());
        for unfit in [
            &b"7f12a0000000-7f12a0021000 ---p 00000000 00:00 0 "[..],
            b"7f12a0000000-7f12a0021000 rw-s 00000000 00:01 99 /dev/zero (deleted)",
            b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 [stack]",
            b"7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 [anon: glibc: pthread stack: 7]",
            b"7f12a0000000-7f12a0021000 rw-p 00000000 00:0f 77 /anon_hugepage (deleted)",
        ] {
            assert!(!parse(unfit).unwrap().is_evictable());
        }
        assert_eq!(parse(b"nonsense"), None);
        assert_eq!(parse(b""), None);
    }

    /// However small the buffer is, each line is told once, and nothing of a long one is taken for another.
    #[test]
    fn long_lines_are_cut() {
        let long = format!("7f00-7f01 r-xp 00000000 fe:00 7 /{}", "b ".repeat(300));
        let text = format!(
            "1000-2000 rw-p 00000000 00:00 0 \n{long}\n{long}\n3000-4000 rw-p 00000000 00:00 0 [heap]\n{long}"
        );
        let file = rustix::fs::memfd_create("lines", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, text.as_bytes()).unwrap();
        for bytes in [80, 81, 128, BUFFER_BYTES, long.len(), long.len() + 1, 8192] {
            let mut told = std::vec::Vec::new();
            for_each_line(file.as_fd(), &mut std::vec![0; bytes], |line| {
                let found = parse(line).expect("a mapping");
                assert!(line.len() <= bytes);
                told.push((found.range.start, found.name.len().min(40)));
            })
            .unwrap();
            let long = (0x7f00, 40.min(bytes - 34));
            assert_eq!(
                told,
                [(0x1000, 0), long, long, (0x3000, 6), long],
                "{bytes}"
            );
        }
    }
}
