//! The pager's library of a command that `cargo install --path` has installed: carried inside, put where it is looked for
//! before it is first needed.
//!
//! The place is `../lib/coldpress` from the command's directory `bin`, and `coldpress-library` beside the command elsewhere.
//! What lies there is compared with what is carried at each start, and replaced where it differs. It is loaded only if
//! nobody else can write it: directory and file belong to the command's owner, to root or to the user, and are not
//! writable by everybody.

use crate::refusal::Refusal;
use std::fs::{self, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// The name of the library's file.
pub const NAME: &str = "libcoldpress_preload.so";
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
    let refuse = |why: &dyn std::fmt::Display| {
        Refusal::new(format!(
            "the pager's library, which this command carries, cannot be put into {}: {why}",
            directory.display()
        ))
        .mend(format!(
            "Once, as a user who may write there: {} doctor",
            executable.display()
        ))
    };
    let owner = fs::metadata(executable).map_err(|error| refuse(&error))?;
    let is_there = fs::read(&path).is_ok_and(|found| found == library);
    if !is_there || !is_safe(&path, &owner) {
        write(library, &owner, &path).map_err(|error| refuse(&error))?;
    }
    match is_safe(&directory, &owner) {
        true => Ok(path),
        false => Err(Refusal::new(format!(
            "the pager's library lies in {}, where others may write",
            directory.display()
        ))
        .mend(format!(
            "chmod go-w {0}; or copy the command into a directory of your own",
            directory.display()
        ))),
    }
}

/// Whether only those can write it who could replace the command, or are the user.
fn is_safe(path: &Path, owner: &Metadata) -> bool {
    // SAFETY: geteuid reads nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    fs::symlink_metadata(path).is_ok_and(|found| {
        [0, user, owner.uid()].contains(&found.uid())
            && found.mode() & 0o002 == 0
            && !found.is_symlink()
    })
}

/// The directory for the library of a command.
fn place(executable: &Path) -> PathBuf {
    let directory = executable.parent().unwrap_or(Path::new("/"));
    match directory.parent() {
        Some(prefix) if directory.ends_with("bin") => prefix.join("lib/coldpress"),
        _ => directory.join("coldpress-library"),
    }
}

/// Beside its place under another name, then renamed: programs that run now keep the file they have loaded. Everybody may
/// read it, whatever the umask of the first start.
fn write(library: &[u8], owner: &Metadata, path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    for made in [directory.parent().unwrap_or(directory), directory] {
        match fs::create_dir(made) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => {
                created?;
                fs::set_permissions(made, Permissions::from_mode(0o755))?;
                hand_over(owner, |uid, gid| lchown(made, uid, gid));
            }
        }
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let fresh = directory.join(format!(".{NAME}.{}.{}", process::id(), now.as_nanos()));
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?;
    let written = file.write_all(library).and_then(|()| {
        file.set_permissions(Permissions::from_mode(0o755))?;
        hand_over(owner, |uid, gid| fchown(&file, uid, gid));
        fs::rename(&fresh, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    written
}

/// What root puts beside another user's command belongs to that user, who will replace it some day.
fn hand_over(owner: &Metadata, chown: impl Fn(Option<u32>, Option<u32>) -> io::Result<()>) {
    // SAFETY: geteuid reads nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        // Root of a user namespace, or of another machine, may not: then it stays root's, which is as safe.
        let _ = chown(Some(owner.uid()), Some(owner.gid()));
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
        assert_eq!(path, prefix.0.join("tools/coldpress-library").join(NAME));
        assert!(!prefix.0.join("lib").exists());
    }

    #[test]
    fn what_others_may_write_is_not_loaded() {
        let (prefix, executable) = Prefix::new("carried-unsafe", "bin");
        let path = put(b"library", &executable).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let directory = prefix.0.join("lib/coldpress");
        assert_eq!((mode(&path), mode(&directory)), (0o755, 0o755));
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        put(b"library", &executable).unwrap();
        assert_eq!(mode(&path), 0o755, "it is replaced");
        fs::set_permissions(&directory, Permissions::from_mode(0o1777)).unwrap();
        let refusal = put(b"library", &executable).unwrap_err().to_string();
        assert!(refusal.contains("where others may write"), "{refusal}");
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
