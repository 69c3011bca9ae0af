//! The few facts of an ELF executable that decide whether a library can be preloaded into it.
//!
//! Only the ELF header and the program headers are read: the class, the machine, and the dynamic
//! loader that the program asks for (`PT_INTERP`). The file is not trusted: every offset in it is
//! read with bounds, and a damaged file is an error, never a panic.

use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const MACHINE_X86_64: u16 = 62;
const TYPE_EXECUTABLE: u16 = 2;
const TYPE_SHARED: u16 = 3;
const SEGMENT_INTERPRETER: u32 = 3;
const HEADER_BYTES: usize = 64;
const SEGMENT_BYTES: usize = 56;
/// The kernel refuses more than 64 KiB of program headers and longer interpreter paths.
const MOST_SEGMENTS: u16 = (65_536 / SEGMENT_BYTES) as u16;
const LONGEST_INTERPRETER: u64 = 4096;

/// What kind of executable a file is.
#[derive(Debug, PartialEq, Eq)]
pub enum Elf {
    /// x86_64, started by the dynamic loader at this path.
    Dynamic(PathBuf),
    /// x86_64 without a dynamic loader: nothing can be preloaded.
    Static,
    /// For a processor or mode that Coldpress does not support, by name.
    OtherMachine(String),
}

/// Why a file cannot be understood as an ELF executable.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// The file ends early or contradicts itself.
    #[error("its ELF headers are damaged ({0})")]
    Damaged(&'static str),
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Whether the first bytes of a file are those of an ELF file.
pub fn is_elf(start: &[u8]) -> bool {
    start.starts_with(b"\x7fELF")
}

/// Reads the headers of an ELF file.
pub fn read(file: &File) -> Result<Elf, ElfError> {
    let mut header = [0u8; HEADER_BYTES];
    // The first 20 bytes have the same place in every class; a 32-bit header is shorter than ours.
    read_at(file, &mut header[..20], 0, "no header")?;
    let u16_at = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    if header[5] != LITTLE_ENDIAN {
        return Ok(Elf::OtherMachine("a big-endian processor".to_owned()));
    }
    let machine = u16_at(&header, 18);
    if header[4] != CLASS_64 || machine != MACHINE_X86_64 {
        return Ok(Elf::OtherMachine(machine_name(header[4], machine)));
    }
    read_at(file, &mut header, 0, "no header")?;
    if ![TYPE_EXECUTABLE, TYPE_SHARED].contains(&u16_at(&header, 16)) {
        return Err(ElfError::Damaged(
            "neither an executable nor position independent",
        ));
    }
    let segments = u16_at(&header, 56);
    if usize::from(u16_at(&header, 54)) != SEGMENT_BYTES
        || segments == 0
        || segments > MOST_SEGMENTS
    {
        return Err(ElfError::Damaged("no usable program headers"));
    }
    let table = u64_at(&header, 32);
    for index in 0..u64::from(segments) {
        let mut segment = [0u8; SEGMENT_BYTES];
        let offset = table.checked_add(index * SEGMENT_BYTES as u64);
        read_at(
            file,
            &mut segment,
            offset.ok_or(ElfError::Damaged("offset"))?,
            "program headers end early",
        )?;
        let kind = u32::from_le_bytes([segment[0], segment[1], segment[2], segment[3]]);
        if kind == SEGMENT_INTERPRETER {
            return interpreter(file, u64_at(&segment, 8), u64_at(&segment, 32)).map(Elf::Dynamic);
        }
    }
    Ok(Elf::Static)
}

fn interpreter(file: &File, offset: u64, bytes: u64) -> Result<PathBuf, ElfError> {
    if !(2..=LONGEST_INTERPRETER).contains(&bytes) {
        return Err(ElfError::Damaged("length of the loader's path"));
    }
    let mut path = vec![0u8; bytes as usize];
    read_at(file, &mut path, offset, "the loader's path is missing")?;
    if path.pop() != Some(0) || path.contains(&0) {
        return Err(ElfError::Damaged("the loader's path does not end"));
    }
    Ok(PathBuf::from(std::ffi::OsString::from_vec(path)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0u8; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn read_at(
    file: &File,
    buffer: &mut [u8],
    offset: u64,
    damage: &'static str,
) -> Result<(), ElfError> {
    file.read_exact_at(buffer, offset)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => ElfError::Damaged(damage),
            _ => ElfError::Unreadable(error),
        })
}

fn machine_name(class: u8, machine: u16) -> String {
    let name = match machine {
        3 => "32-bit x86 (i386)",
        MACHINE_X86_64 => "the 32-bit x32 mode of x86_64",
        40 => "32-bit ARM",
        183 => "64-bit ARM (aarch64)",
        243 if class == CLASS_64 => "64-bit RISC-V",
        243 => "32-bit RISC-V",
        21 => "64-bit PowerPC",
        8 => "MIPS",
        22 => "s390",
        258 => "LoongArch",
        _ => return format!("an unknown processor (ELF machine {machine})"),
    };
    name.to_owned()
}

#[cfg(test)]
pub mod fixtures {
    //! Minimal ELF files for tests.

    /// An x86_64 ELF file with one segment: a loader's path, or (without one) a plain load segment.
    pub fn elf(interpreter: Option<&str>) -> Vec<u8> {
        let mut file = vec![0u8; 64 + 56];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[16] = 3;
        file[18] = 62;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        let segment = &mut file[64..];
        segment[0] = 1;
        if let Some(path) = interpreter {
            segment[0] = 3;
            segment[8] = 120;
            segment[32] = path.len() as u8 + 1;
            file.extend(path.bytes().chain([0]));
        }
        file
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::elf;
    use super::*;
    use std::io::Write;

    fn read_bytes(bytes: &[u8]) -> Result<Elf, ElfError> {
        // SAFETY: memfd_create takes a terminated name and returns a new descriptor or -1.
        let fd = unsafe { libc::memfd_create(c"elf-test".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: `fd` is open and owned by nobody else.
        let mut file = unsafe { <File as std::os::fd::FromRawFd>::from_raw_fd(fd) };
        file.write_all(bytes).unwrap();
        read(&file)
    }

    #[test]
    fn the_loader_is_found() {
        let path = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(
            read_bytes(&elf(Some(path))).unwrap(),
            Elf::Dynamic(path.into())
        );
        assert_eq!(read_bytes(&elf(None)).unwrap(), Elf::Static);
        let own = File::open("/proc/self/exe").unwrap();
        assert!(matches!(read(&own).unwrap(), Elf::Dynamic(_)));
    }

    #[test]
    fn other_machines_are_named() {
        let mut arm = elf(None);
        arm[18] = 183;
        assert_eq!(
            read_bytes(&arm).unwrap(),
            Elf::OtherMachine("64-bit ARM (aarch64)".into())
        );
        let mut i386 = elf(None);
        i386[4] = 1;
        i386[18] = 3;
        i386.truncate(52);
        assert_eq!(
            read_bytes(&i386).unwrap(),
            Elf::OtherMachine("32-bit x86 (i386)".into())
        );
        let mut x32 = elf(None);
        x32[4] = 1;
        assert!(
            matches!(read_bytes(&x32).unwrap(), Elf::OtherMachine(name) if name.contains("x32"))
        );
    }

    #[test]
    fn every_truncation_is_damage_and_no_panic() {
        let whole = elf(Some("/lib64/ld-linux-x86-64.so.2"));
        for length in 0..whole.len() {
            assert!(
                matches!(read_bytes(&whole[..length]), Err(ElfError::Damaged(_))),
                "{length}"
            );
        }
    }

    #[test]
    fn every_damaged_byte_is_survived() {
        let whole = elf(Some("/lib/ld.so"));
        for index in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[index] = value;
                let _ = read_bytes(&damaged);
            }
        }
    }
}
