//! Opening a file of settings that nobody has named, and whether to trust it.
//!
//! Settings name files that are written (`stats`, `trace`). Root therefore reads a file that was merely found only if
//! nobody else can have written it: the file and all directories above it belong to root, and neither the group nor
//! others may write to them (a directory with the sticky bit may be written to: what is root's in there stays). So
//! `sudo -E`, which keeps the caller's `HOME`, does not let the caller's files say what root overwrites. A file that is
//! not to be trusted is an error and is not passed over: without its budget the program would run without one.
//!
//! All other users read what they find: there is nothing that they could do for somebody else. What is named by
//! `--config` or `COLDPRESS_CONFIG` is not checked: it is as much the caller's word as the options are.

use crate::refusal::Refusal;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Write permission of the group and of others.
const WRITABLE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// The owner as which a user namespace shows all users that it does not know.
const UNKNOWN_USER: u32 = 65534;

/// Opens a file that was found. `None`: it is `/dev/null`, which masks other files and says nothing.
pub fn open(path: &Path) -> Result<Option<File>, Refusal> {
    let refuse = |error: io::Error| {
        Refusal::new(format!("{} cannot be read: {error}", path.display()))
            .mend("To run without such files: coldpress run --config /dev/null …")
    };
    // A FIFO must not keep us waiting.
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = options.open(path).map_err(refuse)?;
    let metadata = file.metadata().map_err(refuse)?;
    if metadata.file_type().is_char_device() && metadata.rdev() == libc::makedev(1, 3) {
        return Ok(None);
    }
    if !metadata.is_file() {
        return Err(refuse(io::Error::other("it is no regular file")));
    }
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        check(path, &metadata).map_err(|why| {
            let shown = path.display();
            Refusal::new(format!(
                "{shown} is not for root to read settings from: {why}"
            ))
            .mend(format!(
                "If it is root's: chown root:root {shown} && chmod go-w {shown}"
            ))
            .mend(format!("If you trust it: coldpress run --config {shown} …"))
        })?;
    }
    Ok(Some(file))
}

/// Why somebody else than root can have written the file.
fn check(path: &Path, metadata: &Metadata) -> Result<(), String> {
    let namespace = is_in_a_user_namespace();
    belongs_to_root("it", metadata, namespace, 0)?;
    for path in [Ok(path.to_owned()), fs::canonicalize(path)] {
        let path: PathBuf = path.map_err(|error| error.to_string())?;
        for directory in path.ancestors().skip(1) {
            let shown = directory.display().to_string();
            let metadata = fs::metadata(directory).map_err(|error| format!("{shown}: {error}"))?;
            belongs_to_root(&shown, &metadata, namespace, STICKY)?;
        }
    }
    Ok(())
}

/// Whether only root may change it. A mode with a bit of `exempt` may be any.
fn belongs_to_root(
    what: &str,
    metadata: &Metadata,
    namespace: bool,
    exempt: u32,
) -> Result<(), String> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    // In there root is no more than the user who made the namespace, to whom the machine's root is unknown.
    if owner != 0 && !(namespace && owner == UNKNOWN_USER) {
        return Err(format!("{what} belongs to user {owner}"));
    }
    if mode & WRITABLE != 0 && mode & exempt == 0 {
        return Err(format!("{what} may be written by others (mode {mode:04o})"));
    }
    Ok(())
}

/// Whether this process is in another user namespace than the machine's own.
fn is_in_a_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = ["0", "0", "4294967295"];
    !map.is_empty() && !map.split_whitespace().eq(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A directory of a test, removed at the end. `None`: this is not root.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Option<Self> {
            // SAFETY: the call takes nothing and cannot fail.
            if unsafe { libc::geteuid() } != 0 {
                eprintln!("SKIPPED: what root trusts: needs root");
                return None;
            }
            let name = format!("coldpress-trust-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            Some(Self(path))
        }

        fn file(&self, name: &str, owner: u32, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "budget = '1G'\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(owner), Some(owner)).unwrap();
            path
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn refused(path: &Path, why: &str) {
        let text = open(path).unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }

    #[test]
    fn root_trusts_what_only_root_can_have_written() {
        let Some(place) = Place::new("owner") else {
            return;
        };
        assert!(open(&place.file("own", 0, 0o644)).unwrap().is_some());
        refused(
            &place.file("others", 1000, 0o644),
            "it belongs to user 1000",
        );
        refused(
            &place.file("open", 0, 0o666),
            "written by others (mode 0666)",
        );
        refused(
            &place.file("group", 0, 0o664),
            "written by others (mode 0664)",
        );
        let link = place.0.join("link");
        symlink(place.0.join("others"), &link).unwrap();
        refused(&link, "it belongs to user 1000");
        let own = place.file("own", 0, 0o644);
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
        refused(&own, "may be written by others (mode 0777)");
        chown(&place.0, Some(1000), None).unwrap();
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
        refused(&own, "belongs to user 1000");
    }

    #[test]
    fn a_mask_says_nothing_and_what_is_no_file_is_refused() {
        assert!(open(Path::new("/dev/null")).unwrap().is_none());
        refused(Path::new("/dev/zero"), "no regular file");
        refused(Path::new("/proc"), "no regular file");
        refused(Path::new("/nonexistent/file"), "cannot be read");
    }
}
