//! What the kernel says of a process's mappings: how much private memory each holds.

use crate::process;
use std::io;

/// A mapping of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Path or name; empty for plain anonymous memory.
    pub name: String,
    /// Private anonymous memory in place, in bytes.
    pub anonymous_bytes: u64,
}

/// The mappings of process `pid` that hold private memory.
pub fn read(pid: u32) -> io::Result<Vec<Vma>> {
    Ok(parse(&process::read(format!("/proc/{pid}/smaps"))?))
}

fn parse(text: &str) -> Vec<Vma> {
    let mut all: Vec<Vma> = Vec::new();
    for line in text.lines() {
        if let Some(vma) = heading(line) {
            all.push(vma);
        } else if let (Some(vma), Some(size)) = (all.last_mut(), line.strip_prefix("Anonymous:")) {
            let kib = size.trim().strip_suffix("kB").map(str::trim);
            vma.anonymous_bytes = kib.and_then(|kib| kib.parse().ok()).unwrap_or(0) * 1024;
        }
    }
    all.retain(|vma| vma.anonymous_bytes > 0);
    all
}

/// `start-end rw-p offset device inode name`.
fn heading(line: &str) -> Option<Vma> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let name = words.nth(4).unwrap_or_default();
    Some(Vma {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        name: name.trim().to_owned(),
        anonymous_bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_read_for_each_mapping() {
        let text = "\
55d8c0a00000-55d8c0a21000 rw-p 00000000 00:00 0                          [heap]
Size:                132 kB
Anonymous:            72 kB
VmFlags: rd wr mr mw me ac
7f12a0000000-7f12a0021000 r--p 00000000 fe:00 1234                       /usr/lib/a b.so
Rss:                  64 kB
Anonymous:             0 kB
7f12a4000000-7f12a4021000 rw-p 00000000 00:00 0
Anonymous:             4 kB
";
        let found = parse(text);
        let told: Vec<_> = found
            .iter()
            .map(|v| (v.name.as_str(), v.anonymous_bytes))
            .collect();
        assert_eq!(told, [("[heap]", 73_728), ("", 4096)]);
        assert_eq!(found[1].start, 0x7f12_a400_0000);
        assert!(read(std::process::id()).unwrap().len() > 2);
        assert_eq!(parse("nonsense\nAnonymous: x\n"), []);
    }
}
