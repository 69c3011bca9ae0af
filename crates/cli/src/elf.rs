//! The few facts of an ELF executable that decide whether a library can be preloaded into it.
//!
//! Only the ELF header and the program headers are read: the class, the machine, and the dynamic
//! loader that the program asks for (`PT_INTERP`). The file is not trusted: every offset in it is
//! read with bounds, and a damaged file is an error, never a panic.

use object::elf::{
    self, EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_MIPS, EM_PPC64, EM_RISCV, EM_S390,
    EM_X86_64, ET_DYN, ET_EXEC,
};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadCacheOps, ReadRef};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The kernel refuses more than 64 KiB of program headers and longer interpreter paths.
const MOST_SEGMENTS: usize = 65_536 / size_of::<elf::ProgramHeader64<Endianness>>();
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

/// Why a file cannot be understood as an ELF executable: it ends early, contradicts itself, or cannot be read there.
#[derive(Debug, thiserror::Error)]
#[error("its ELF headers are damaged ({0})")]
pub struct Damaged(&'static str);

/// Whether the first bytes of a file are those of an ELF file.
pub fn is_elf(start: &[u8]) -> bool {
    start.starts_with(b"\x7fELF")
}

/// Reads the headers of an ELF file.
pub fn read(file: &File) -> Result<Elf, Damaged> {
    headers(&ReadCache::new(Positioned { file, at: 0 }))
}

/// A file that is read at positions, without a call that seeks: an inherited filter of system calls may refuse that.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl ReadCacheOps for Positioned<'_> {
    fn len(&mut self) -> Result<u64, ()> {
        self.file.metadata().map(|it| it.len()).map_err(drop)
    }

    fn seek(&mut self, to: u64) -> Result<u64, ()> {
        self.at = to;
        Ok(to)
    }

    fn read(&mut self, into: &mut [u8]) -> Result<usize, ()> {
        let read = self.file.read_at(into, self.at).map_err(drop)?;
        self.at += read as u64;
        Ok(read)
    }

    fn read_exact(&mut self, into: &mut [u8]) -> Result<(), ()> {
        self.file.read_exact_at(into, self.at).map_err(drop)?;
        self.at += into.len() as u64;
        Ok(())
    }
}

fn headers<'data>(file: impl ReadRef<'data>) -> Result<Elf, Damaged> {
    match FileKind::parse(file).map_err(damaged)? {
        FileKind::Elf64 => {}
        FileKind::Elf32 => {
            let header = elf::FileHeader32::<Endianness>::parse(file).map_err(damaged)?;
            return Ok(Elf::OtherMachine(name_of_32_bit(header)?));
        }
        _ => return Err(Damaged("no header")),
    }
    let header = elf::FileHeader64::<Endianness>::parse(file).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    if endian == Endianness::Big {
        return Ok(Elf::OtherMachine("a big-endian processor".to_owned()));
    }
    let machine = header.e_machine(endian);
    if machine != EM_X86_64 {
        return Ok(Elf::OtherMachine(machine_name(Class::Bits64, machine)));
    }
    if ![ET_EXEC, ET_DYN].contains(&header.e_type(endian)) {
        return Err(Damaged("neither an executable nor position independent"));
    }
    let segments = header.program_headers(endian, file).map_err(damaged)?;
    if segments.is_empty() || segments.len() > MOST_SEGMENTS {
        return Err(Damaged("no usable program headers"));
    }
    for segment in segments {
        if segment.p_type(endian) == elf::PT_INTERP {
            return interpreter(file, segment, endian).map(Elf::Dynamic);
        }
    }
    Ok(Elf::Static)
}

fn interpreter<'data>(
    file: impl ReadRef<'data>,
    segment: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
) -> Result<PathBuf, Damaged> {
    if !(2..=LONGEST_INTERPRETER).contains(&segment.p_filesz(endian)) {
        return Err(Damaged("length of the loader's path"));
    }
    let bytes = segment.data(endian, file);
    let bytes = bytes.map_err(|()| Damaged("the loader's path is missing"))?;
    match bytes.split_last() {
        Some((0, path)) if !path.contains(&0) => {
            Ok(Path::new(std::ffi::OsStr::from_bytes(path)).to_owned())
        }
        _ => Err(Damaged("the loader's path does not end")),
    }
}

fn damaged(_: object::Error) -> Damaged {
    Damaged("offsets and sizes")
}

fn name_of_32_bit(header: &elf::FileHeader32<Endianness>) -> Result<String, Damaged> {
    Ok(match header.endian().map_err(damaged)? {
        Endianness::Big => "a big-endian processor".to_owned(),
        endian => machine_name(Class::Bits32, header.e_machine(endian)),
    })
}

/// How wide the addresses of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Bits32,
    Bits64,
}

fn machine_name(class: Class, machine: elf::Machine) -> String {
    let name = match machine {
        EM_386 => "32-bit x86 (i386)",
        EM_X86_64 => "the 32-bit x32 mode of x86_64",
        EM_ARM => "32-bit ARM",
        EM_AARCH64 => "64-bit ARM (aarch64)",
        EM_RISCV if class == Class::Bits64 => "64-bit RISC-V",
        EM_RISCV => "32-bit RISC-V",
        EM_PPC64 => "64-bit PowerPC",
        EM_MIPS => "MIPS",
        EM_S390 => "s390",
        EM_LOONGARCH => "LoongArch",
        _ => return format!("an unknown processor (ELF machine {})", machine.0),
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

    fn read_bytes(bytes: &[u8]) -> Result<Elf, Damaged> {
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
                matches!(read_bytes(&whole[..length]), Err(Damaged(_))),
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
