//! The pager's library of a command that `cargo install --path` has installed: carried inside, put where it is looked for
//! before it is first needed.
//!
//! The place is `../lib/coldpress` from the command's directory `bin`, and beside the command elsewhere. Whoever may write
//! there may replace the command as well, so a file there is trusted no less than the command is. It is compared with
//! what is carried at each start and replaced where it differs, so the command never loads the library of another
//! version.

use crate::preload_library::NAME;
use crate::refusal::Refusal;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::process;

/// What this command carries; nothing unless cargo installs it from a checkout.
#[cfg(carries_library)]
pub const CARRIED: Option<&[u8]> = Some(include_bytes!(env!("COLDPRESS_CARRIED_LIBRARY")));
/// What this command carries; nothing unless cargo installs it from a checkout.
#[cfg(not(carries_library))]
pub const CARRIED: Option<&[u8]> = None;

/// Puts `library` into its place from `executable`, unless it is there. Returns the path.
pub fn put(library: &[u8], executable: &Path) -> Result<PathBuf, Refusal> {
    let directory = place(executable);
    let path = directory.join(NAME);
    if fs::read(&path).is_ok_and(|found| found == library) {
        return Ok(path);
    }
    match write(library, executable, &path) {
        Ok(()) => Ok(path),
        Err(error) => Err(Refusal::new(format!(
            "the pager's library, which this command carries, cannot be put into {}: {error}",
            directory.display()
        ))
        .mend(format!(
            "Once, as a user who may write there: {} doctor",
            executable.display()
        ))),
    }
}

/// The directory for the library of a command.
fn place(executable: &Path) -> PathBuf {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    let prefix = directory.parent().filter(|_| directory.ends_with("bin"));
    prefix.map_or_else(
        || directory.to_owned(),
        |prefix| prefix.join("lib/coldpress"),
    )
}

/// Beside its place under another name, then renamed: programs that run now keep the file they have loaded.
fn write(library: &[u8], executable: &Path, path: &Path) -> io::Result<()> {
    let owner = fs::metadata(executable)?;
    let directory = path.parent().unwrap_or(path);
    for made in [directory.parent().unwrap_or(directory), directory] {
        match fs::create_dir(made) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => {
                created.and_then(|()| hand_over(&owner, |uid, gid| lchown(made, uid, gid)))?
            }
        }
    }
    let fresh = directory.join(format!(".{NAME}.{}", process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(library)?;
            hand_over(&owner, |uid, gid| fchown(&file, uid, gid))?;
            fs::rename(&fresh, path)
        });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// What root puts beside another user's command belongs to that user, who will replace it some day.
fn hand_over(
    owner: &Metadata,
    chown: impl Fn(Option<u32>, Option<u32>) -> io::Result<()>,
) -> io::Result<()> {
    // SAFETY: geteuid reads nothing and cannot fail.
    match unsafe { libc::geteuid() } {
        0 => chown(Some(owner.uid()), Some(owner.gid())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// A prefix with a command in it, removed when it is dropped.
    struct Prefix(PathBuf);

    impl Prefix {
        fn new(name: &str, directory: &str) -> (Self, PathBuf) {
            let prefix = env::temp_dir().join(format!("coldpress-{name}-{}", process::id()));
            let executable = prefix.join(directory).join("coldpress");
            fs::create_dir_all(prefix.join(directory)).unwrap();
            fs::write(&executable, "").unwrap();
            (Self(prefix), executable)
        }

        fn in_lib(&self) -> Vec<PathBuf> {
            let found = fs::read_dir(self.0.join("lib/coldpress")).unwrap();
            found.map(|entry| entry.unwrap().path()).collect()
        }
    }

    impl Drop for Prefix {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_put_where_packages_have_it_and_an_earlier_one_replaced() {
        let (prefix, executable) = Prefix::new("carried", "bin");
        let path = put(b"first", &executable).unwrap();
        assert_eq!(path, prefix.0.join("lib/coldpress").join(NAME));
        let first = fs::metadata(&path).unwrap();
        put(b"first", &executable).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), first.ino());
        let running = fs::File::open(&path).unwrap();
        put(b"second", &executable).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        // A program that has loaded the first one keeps it.
        assert_eq!(io::read_to_string(running).unwrap(), "first");
        assert_eq!(prefix.in_lib(), [path]);
    }

    #[test]
    fn outside_of_a_directory_bin_it_lies_beside_the_command() {
        let (prefix, executable) = Prefix::new("carried-elsewhere", "tools");
        let path = put(b"library", &executable).unwrap();
        assert_eq!(path, prefix.0.join("tools").join(NAME));
        assert!(!prefix.0.join("lib").exists());
    }

    #[test]
    fn where_it_cannot_be_put_the_refusal_says_where_and_how() {
        let (prefix, executable) = Prefix::new("carried-refused", "bin");
        fs::write(prefix.0.join("lib"), "a file").unwrap();
        let refusal = put(b"library", &executable).unwrap_err().to_string();
        assert!(refusal.contains("cannot be put into"), "{refusal}");
        assert!(
            refusal.contains(&format!("{} doctor", executable.display())),
            "{refusal}"
        );
    }
}
