//! A directory for one test: programs compiled there, files they write, statistics. Everybody
//! may read and write in it, because some programs run as nobody. It is removed when the test
//! has passed and kept for inspection when it failed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A directory for one test.
#[derive(Debug)]
pub struct Workplace {
    dir: PathBuf,
}

impl Workplace {
    /// A new, empty directory whose name begins with `name`.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new(name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let unique = format!(
            "coldpress-{name}-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Relaxed)
        );
        let dir = std::env::temp_dir().join(unique);
        fs::create_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777))
            .expect("mode of the workplace");
        Self { dir }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path inside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Copies a file to the workplace, readable and executable for everybody.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn copy(&self, file: &Path) -> PathBuf {
        let to = self.dir.join(file.file_name().expect("a file has a name"));
        copy_executable(file, &to);
        to
    }

    /// The executable of `programs/NAME.c`, compiled where no test has compiled it yet as it is.
    ///
    /// # Panics
    /// When the compiler finds anything to complain about.
    pub fn compile(&self, name: &str) -> PathBuf {
        let executable = self.dir.join(name);
        if !executable.exists() {
            let kept = kept(name);
            if !kept.exists() {
                gcc(name, &[], &executable);
                // Whole or not at all, for whoever compiles the same beside.
                let half = kept.with_extension(self.dir.file_name().expect("a name"));
                copy_executable(&executable, &half);
                fs::rename(&half, &kept).unwrap_or_else(|e| panic!("{}: {e}", kept.display()));
            } else {
                copy_executable(&kept, &executable);
            }
        }
        executable
    }

    /// Compiles `programs/NAME.c` as a shared library, with `LIBRARY` defined.
    ///
    /// # Panics
    /// When the compiler finds anything wrong with it.
    pub fn compile_library(&self, name: &str) -> PathBuf {
        let library = self.dir.join(format!("lib{name}.so"));
        gcc(name, &["-fPIC", "-shared", "-DLIBRARY"], &library);
        library
    }
}

/// Copies what will be executed, for everybody to read and execute. By a process of its own, not by `fs::copy`:
/// a process that another thread forks at that moment inherits the descriptor open for writing, and
/// until it has executed its own program the kernel refuses to execute the copy (ETXTBSY).
///
/// # Panics
/// When it cannot be copied.
pub fn copy_executable(from: &Path, to: &Path) {
    let output = Command::new("install")
        .args(["-m", "0755"])
        .arg(from)
        .arg(to)
        .output()
        .expect("install (apt-get install coreutils)");
    assert!(
        output.status.success(),
        "copy of {}: {}",
        from.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Where the executable of `programs/NAME.c` is kept, beside the test's own: every test has a workplace of its own, and
/// compiling takes longer than some of what is compiled. The name follows from all sources.
fn kept(name: &str) -> PathBuf {
    static SOURCES: LazyLock<u64> = LazyLock::new(|| {
        let mut files: Vec<_> = [source(""), source("../../preload/include")]
            .iter()
            .flat_map(|dir| fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())))
            .map(|entry| entry.expect("a directory can be read").path())
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        let mut hasher = DefaultHasher::new();
        for file in files {
            let content = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            (file.file_name(), content).hash(&mut hasher);
        }
        hasher.finish()
    });
    let own = std::env::current_exe().expect("where the test lies");
    let dir = own.with_file_name("programs");
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir.join(format!("{name}-{:016x}", *SOURCES))
}

const WARNINGS: [&str; 2] = ["-Wall", "-Wextra"];

fn gcc(name: &str, more: &[&str], output_file: &Path) {
    let output = Command::new("gcc")
        .args(["-O2", "-pthread", "-g"])
        .args(WARNINGS)
        .args(more)
        .arg("-o")
        .arg(output_file)
        .arg(source(&format!("{name}.c")))
        .output()
        .expect("gcc (apt-get install gcc)");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "gcc {name}.c: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for inspection: {}", self.dir.display());
        } else {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// A file of `programs/`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("programs")
        .join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// The promises themselves come late in `cargo xtask test`; a change to what all programs share is told at once.
    #[test]
    fn every_program_compiles() {
        let programs = fs::read_dir(source("")).expect("the programs' directory");
        let mut compiled = 0;
        for program in programs {
            let program = program.expect("a directory can be read").path();
            if program.extension().is_some_and(|e| e == "c") {
                let mut gcc = Command::new("gcc");
                let output = gcc
                    .args(WARNINGS)
                    .arg("-fsyntax-only")
                    .arg(&program)
                    .output();
                let output = output.expect("gcc (apt-get install gcc)");
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success() && said.is_empty(),
                    "{}: {said}",
                    program.display()
                );
                compiled += 1;
            }
        }
        assert!(compiled > 50, "only {compiled} programs were found");
    }

    #[test]
    fn copies_are_executed_while_others_fork() {
        let place = Workplace::new("copies");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        let status = Command::new("true").status();
                        assert!(status.expect("true").success());
                    }
                });
            }
            let failed = (0..200).find_map(|_| {
                let copy = place.copy(Path::new("/bin/true"));
                let failed = Command::new(&copy).status().err();
                fs::remove_file(copy).expect("the copy");
                failed
            });
            done.store(true, Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }
}
