//! Finding the program, and refusing those into which the pager cannot be loaded.
//!
//! The checks, in this order: found (else 127), executable (else 126), then what the kernel would
//! do with the file: follow a script to its interpreter, and an ELF file to its dynamic loader.
//! Each refusal names the file that is to blame, which for a script is not the one that was typed.

use crate::elf::{self, Elf};
use crate::privilege::{self, Secure};
use crate::refusal::Refusal;
use crate::script::{self, Env};
use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where programs are searched when PATH is not set, as `execvp` does it.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// Interpreters that may themselves be scripts, as the kernel limits it.
const MOST_INTERPRETERS: usize = 5;
/// File name of glibc's dynamic loader for x86_64, wherever it is installed.
pub const GLIBC_LOADER: &str = "ld-linux-x86-64.so.2";

/// A program that can be started under the pager.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// File to execute.
    pub path: PathBuf,
    /// Name for messages: the last part of what was typed.
    pub name: String,
}

/// Finds `typed` as a shell would and checks that the pager can be loaded into it.
pub fn find(typed: &OsStr) -> Result<Program, Refusal> {
    let path = search(typed)?;
    inspect(&path)?;
    let name = Path::new(typed).file_name().unwrap_or(typed);
    Ok(Program {
        path,
        name: name.to_string_lossy().replace(char::is_control, "?"),
    })
}

/// The executable file that `typed` stands for.
fn search(typed: &OsStr) -> Result<PathBuf, Refusal> {
    let shown = typed.to_string_lossy();
    if typed.is_empty() {
        return Err(Refusal::not_found("the program's name is empty"));
    }
    if typed.as_bytes().contains(&b'/') {
        let path = PathBuf::from(typed);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(refuse_file(&path, &error)),
        };
    }
    let directories = env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    let mut not_executable = None;
    for directory in env::split_paths(&directories) {
        // An empty entry in PATH is the current directory.
        let path = if directory.as_os_str().is_empty() {
            Path::new(".").join(typed)
        } else {
            directory.join(typed)
        };
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if is_present(&error) => {
                not_executable.get_or_insert_with(|| refuse_file(&path, &error));
            }
            Err(_) => {}
        }
    }
    Err(not_executable.unwrap_or_else(|| {
        let hint = if Path::new(typed).is_file() {
            format!("For the file in this directory, write ./{shown}")
        } else {
            "Check the spelling, or give the program's whole path.".to_owned()
        };
        Refusal::not_found(format!("{shown}: not found in any directory of PATH")).mend(hint)
    }))
}

fn is_present(error: &io::Error) -> bool {
    !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

/// Whether `path` is a regular file that this user may execute.
fn executable(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is terminated; the call changes nothing.
    match unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), libc::X_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn refuse_file(path: &Path, error: &io::Error) -> Refusal {
    let shown = path.display();
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => Refusal::not_found(format!("{shown}: no such file")),
        Some(libc::EISDIR) => Refusal::not_executable(format!(
            "{shown}: not a program but a directory or special file"
        )),
        Some(libc::EACCES) if path.is_file() => {
            Refusal::not_executable(format!("{shown}: you may not execute it"))
                .mend(format!("If it is meant to be a program: chmod +x {shown}"))
        }
        _ => Refusal::not_executable(format!("{shown}: cannot be executed: {error}")),
    }
}

/// Follows `program` to the ELF file that the kernel would load, and checks that one.
fn inspect(program: &Path) -> Result<(), Refusal> {
    let mut path = program.to_owned();
    if VALGRIND
        .iter()
        .any(|name| path.file_name() == Some(OsStr::new(name)))
    {
        return Err(Refusal::new(format!(
            "{}: Valgrind runs programs on a processor of its own making, which has no userfaultfd: the pager cannot be \
             in them",
            path.display()
        ))
        .mend("Use one at a time: run Valgrind without coldpress, or the program without Valgrind."));
    }
    for _ in 0..=MOST_INTERPRETERS {
        let mut file = File::open(&path).map_err(|error| {
            Refusal::new(format!(
                "{}: cannot be read ({error}), so it cannot be told whether the pager would work in it",
                path.display()
            ))
            .mend(format!("Let it be read: chmod a+r {}", path.display()))
        })?;
        let start = read_start(&mut file).map_err(|error| refuse_file(&path, &error))?;
        if elf::is_elf(&start) {
            return inspect_elf(&path, &file);
        }
        let line = script::first_line(&start).ok_or_else(|| {
            let shown = path.display();
            Refusal::not_executable(format!(
                "{shown}: neither an ELF program nor a script with a first line like #!/bin/sh"
            ))
            .mend(format!(
                "If it is a shell script, name the shell: coldpress run … -- /bin/sh {shown}"
            ))
        })?;
        path = follow(&path, line)?;
    }
    Err(Refusal::not_executable(format!(
        "{}: its interpreter is a script again, more than {MOST_INTERPRETERS} times",
        program.display()
    )))
}

fn read_start(file: &mut File) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(script::LOOK_BYTES);
    file.take(script::LOOK_BYTES as u64)
        .read_to_end(&mut start)?;
    Ok(start)
}

/// The file that is executed next for the script at `script_path`.
fn follow(script_path: &Path, line: script::FirstLine) -> Result<PathBuf, Refusal> {
    let shown = script_path.display();
    let interpreter = line.interpreter;
    if let Err(error) = executable(&interpreter) {
        let written = interpreter.to_string_lossy();
        let mut refusal = match is_present(&error) {
            true => Refusal::not_executable(format!(
                "{shown}: its interpreter {written:?} cannot be executed: {error}"
            )),
            false => Refusal::not_found(format!(
                "{shown}: its interpreter {written:?} does not exist"
            )),
        };
        if written.ends_with('\r') {
            refusal = refusal.mend(format!(
                "Its lines end as on Windows: sed -i 's/\\r$//' {shown}"
            ));
        }
        return Err(refusal);
    }
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Ok(interpreter);
    }
    match script::through_env(line.argument.as_deref()) {
        Env::Program(name) => search(&name).map_err(|refusal| {
            let what = format!("{shown}: its first line asks env for {:?}: {refusal}", name.to_string_lossy());
            match refusal.code() {
                crate::refusal::EXIT_NOT_FOUND => Refusal::not_found(what),
                _ => Refusal::not_executable(what),
            }
        }),
        Env::Clears => Err(Refusal::new(format!(
            "{shown}: its first line clears the environment (env -i), and with it LD_PRELOAD, by which the pager is loaded"
        ))
        .mend("Name the interpreter yourself: coldpress run … -- INTERPRETER SCRIPT")),
        Env::Unclear => Ok(interpreter),
    }
}

/// Names of Valgrind's launcher, wherever it is installed.
const VALGRIND: [&str; 2] = ["valgrind", "valgrind.bin"];

/// Checks that glibc's dynamic loader will start this file and honour LD_PRELOAD.
fn inspect_elf(path: &Path, file: &File) -> Result<(), Refusal> {
    let shown = path.display();
    let refuse = |why: String| Refusal::new(format!("{shown}: {why}"));
    let elf =
        elf::read(file).map_err(|error| Refusal::not_executable(format!("{shown}: {error}")))?;
    let loader = match elf {
        Elf::Dynamic(loader) => loader,
        // The loader itself, called by its name (`ld-linux-x86-64.so.2 PROGRAM`), preloads as it always does.
        Elf::Static if path.file_name() == Some(OsStr::new(GLIBC_LOADER)) => return Ok(()),
        Elf::Static => {
            return Err(refuse(
                "it is statically linked: it starts without a dynamic loader, which would load the pager".to_owned(),
            )
            .mend("Use a dynamically linked build of it (for C: link without -static; for Go: CGO_ENABLED=1)."));
        }
        Elf::OtherMachine(machine) => {
            return Err(refuse(format!(
                "it is a program for {machine}; Coldpress supports x86_64 only"
            ))
            .mend("Use a 64-bit x86_64 build of it."));
        }
    };
    let loader_name = loader
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if loader_name != GLIBC_LOADER {
        let library = if loader_name.starts_with("ld-musl") {
            "musl"
        } else {
            "a C library other than glibc"
        };
        return Err(refuse(format!(
            "it is built for {library} (its loader is {}); the pager needs glibc",
            loader.display()
        ))
        .mend("Use a build of it for glibc."));
    }
    if !loader.is_file() {
        let why = format!(
            "{shown}: its dynamic loader {} does not exist",
            loader.display()
        );
        return Err(Refusal::not_found(why)
            .mend("Install glibc for x86_64 (Debian: apt install libc6:amd64)."));
    }
    let metadata = file.metadata().map_err(|error| refuse_file(path, &error))?;
    if let Some(secure) = privilege::secure_mode(path, &metadata) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mend = match secure {
            Secure::Caller => "Start coldpress itself without the setuid or setgid bit.".to_owned(),
            _ => format!(
                "If it can do its work without: cp {shown} /tmp/{name} && coldpress run … -- /tmp/{name}   (a copy has plain rights)"
            ),
        };
        return Err(refuse(format!(
            "the dynamic loader would ignore LD_PRELOAD, by which the pager is loaded, because {}",
            secure.reason()
        ))
        .mend(mend));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::fixtures;
    use std::os::unix::fs::PermissionsExt;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path =
                env::temp_dir().join(format!("coldpress-program-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn refusal(&self, name: &str, content: impl AsRef<[u8]>) -> Refusal {
            find(self.file(name, content.as_ref(), 0o755).as_os_str()).unwrap_err()
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn ordinary_programs_are_found() {
        assert_eq!(find(OsStr::new("cat")).unwrap().name, "cat");
        assert_eq!(
            find(OsStr::new("/bin/sh")).unwrap().path,
            Path::new("/bin/sh")
        );
    }

    #[test]
    fn scripts_are_followed() {
        let directory = Directory::new("scripts");
        for first in [
            "#!/bin/sh -e",
            "#!/usr/bin/env sh",
            "#!/usr/bin/env -S sh -e",
        ] {
            let script = directory.file("ok", format!("{first}\n").as_bytes(), 0o755);
            assert_eq!(find(script.as_os_str()).unwrap().name, "ok", "{first}");
        }
        for (first, code, word) in [
            ("#!/nonexistent/python", 127, "/nonexistent/python"),
            ("#!/bin/sh\r", 127, "sed -i"),
            ("#!/etc/passwd", 126, "/etc/passwd"),
            (
                "#!/usr/bin/env no-such-program-xyz",
                127,
                "no-such-program-xyz",
            ),
            ("#!/usr/bin/env -S -i sh", 125, "env -i"),
            ("echo hello", 126, "/bin/sh"),
            ("", 126, "neither"),
        ] {
            let refusal = directory.refusal("bad", format!("{first}\n"));
            assert_eq!(refusal.code(), code, "{first}: {refusal}");
            assert!(refusal.to_string().contains(word), "{first}: {refusal}");
        }
        let own = directory.0.join("loop");
        let refusal = directory.refusal("loop", format!("#!{}\n", own.display()));
        assert_eq!(refusal.code(), 126);
    }

    #[test]
    fn unsuitable_binaries_are_refused_by_name() {
        let directory = Directory::new("binaries");
        let refusal = directory.refusal("static", fixtures::elf(None));
        assert!(refusal.code() == 125 && refusal.to_string().contains("statically linked"));
        let refusal = directory.refusal("musl", fixtures::elf(Some("/lib/ld-musl-x86_64.so.1")));
        assert!(refusal.code() == 125 && refusal.to_string().contains("musl"));
        let refusal = directory.refusal("uclibc", fixtures::elf(Some("/lib/ld64-uClibc.so.0")));
        assert!(refusal.code() == 125 && refusal.to_string().contains("other than glibc"));
        let refusal = directory.refusal("nix", fixtures::elf(Some("/absent/ld-linux-x86-64.so.2")));
        assert_eq!(refusal.code(), 127);
        let mut arm = fixtures::elf(None);
        arm[18] = 183;
        let refusal = directory.refusal("arm", arm);
        assert!(refusal.code() == 125 && refusal.to_string().contains("aarch64"));
        let refusal = directory.refusal("cut", &fixtures::elf(None)[..70]);
        assert_eq!(refusal.code(), 126);
        // A script's refusal names the interpreter that is to blame.
        let refusal = directory.refusal(
            "script",
            format!("#!{}\n", directory.0.join("static").display()),
        );
        assert!(
            refusal
                .to_string()
                .contains("/static: it is statically linked"),
            "{refusal}"
        );
    }

    #[test]
    fn files_that_cannot_be_executed() {
        let directory = Directory::new("modes");
        let plain = directory.file("plain", b"#!/bin/sh\n", 0o644);
        let refusal = find(plain.as_os_str()).unwrap_err();
        assert!(refusal.code() == 126 && refusal.to_string().contains("chmod +x"));
        assert_eq!(find(directory.0.as_os_str()).unwrap_err().code(), 126);
        assert_eq!(find(OsStr::new("/nonexistent/x")).unwrap_err().code(), 127);
        assert_eq!(find(OsStr::new("/bin/sh/x")).unwrap_err().code(), 127);
        assert_eq!(find(OsStr::new("")).unwrap_err().code(), 127);
        assert_eq!(
            find(OsStr::new("no-such-program-xyz")).unwrap_err().code(),
            127
        );
    }
}
