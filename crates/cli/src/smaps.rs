//! What the kernel says of a process's mappings: how much private memory each holds.

use crate::process;
use std::io;

/// A mapping of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Path or name; empty for plain anonymous memory.
    pub name: String,
    /// `rwxp` flags.
    pub permissions: String,
    /// Inode of the file; 0: there is none.
    pub inode: u64,
    /// Memory in place, in bytes.
    pub resident_bytes: u64,
    /// Private anonymous memory in place, in bytes.
    pub anonymous_bytes: u64,
    /// Of what is in place: what was touched since the kernel's record of that was last cleared.
    pub referenced_bytes: u64,
    /// Given to `MADV_FREE` and not taken yet, in bytes.
    pub lazily_freed_bytes: u64,
    /// What holds for the mapping: words of two letters (Linux, `filesystems/proc`, VmFlags).
    pub flags: String,
}

impl Vma {
    /// Whether the kernel says so of the mapping.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|word| word == flag)
    }
}

/// The mappings of process `pid` that hold private memory.
pub fn read(pid: u32) -> io::Result<Vec<Vma>> {
    let mut all = read_all(pid)?;
    all.retain(|vma| vma.anonymous_bytes > 0);
    Ok(all)
}

/// All mappings of process `pid`, rising.
pub fn read_all(pid: u32) -> io::Result<Vec<Vma>> {
    Ok(parse(&process::read(format!("/proc/{pid}/smaps"))?))
}

/// Reads the file's text, or any part of it that begins with a heading.
pub fn parse(text: &str) -> Vec<Vma> {
    let mut all: Vec<Vma> = Vec::new();
    for line in text.lines() {
        if let Some(vma) = heading(line) {
            all.push(vma);
        } else if let (Some(vma), Some((name, value))) = (all.last_mut(), line.split_once(':')) {
            let bytes = || {
                let kib = value.trim().strip_suffix("kB").map(str::trim);
                kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
            };
            match name {
                "Rss" => vma.resident_bytes = bytes(),
                "Anonymous" => vma.anonymous_bytes = bytes(),
                "Referenced" => vma.referenced_bytes = bytes(),
                "LazyFree" => vma.lazily_freed_bytes = bytes(),
                "VmFlags" => value.trim().clone_into(&mut vma.flags),
                _ => {}
            }
        }
    }
    all
}

/// `start-end rw-p offset device inode name`.
fn heading(line: &str) -> Option<Vma> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next().unwrap_or_default();
    let inode = words.nth(2).unwrap_or_default();
    let name = words.next().unwrap_or_default();
    Some(Vma {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        name: name.trim().to_owned(),
        permissions: permissions.to_owned(),
        inode: inode.parse().unwrap_or(0),
        ..Vma::default()
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
        let mut found = parse(text);
        assert_eq!((found[1].inode, found[1].resident_bytes), (1234, 65_536));
        assert_eq!(found[0].permissions, "rw-p");
        assert!(found[0].has("mr") && !found[0].has("lo"));
        found.retain(|vma| vma.anonymous_bytes > 0);
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
