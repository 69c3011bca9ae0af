//! The directories in which managed processes keep their statistics files.
//!
//! `run` chooses one: `$COLDPRESS_STATISTICS_DIR`, else `$XDG_RUNTIME_DIR/coldpress`, else
//! `/run/coldpress/runs` (root), else `/tmp/coldpress-UID`. It is made with mode 0700 and used only if
//! it is a real directory that this user owns and nobody else may enter: in `/tmp` somebody else
//! could have made it before. `status` reads all of them, and as root those of every user.

use crate::refusal::Refusal;
use coldpress_interface::config;
use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Root's, beside settings that every user may read (`config_layers.rs`).
const OF_ROOT: &str = "/run/coldpress/runs";

/// Makes (or finds) the directory for the files of programs that this user starts.
pub fn prepare() -> Result<PathBuf, Refusal> {
    let mut reasons = Vec::new();
    for directory in own_candidates() {
        if directory == Path::new(OF_ROOT) {
            let parent = directory.parent().unwrap_or(Path::new("/"));
            let _ = DirBuilder::new().mode(0o755).create(parent);
        }
        match usable(&directory) {
            Ok(()) => return Ok(directory),
            Err(reason) => reasons.push(format!("{}: {reason}", directory.display())),
        }
    }
    let refusal = Refusal::new(format!(
        "no directory for the statistics file can be used: {}",
        reasons.join("; ")
    ));
    Err(refusal.mend(format!(
        "Name one that only you may enter: mkdir -m 0700 ~/.coldpress && export {}=~/.coldpress",
        config::STATISTICS_DIR
    )))
}

/// Every directory that may hold statistics files this user can read.
pub fn all() -> Vec<PathBuf> {
    let mut directories = own_candidates();
    let mut add = |directory: PathBuf| {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    };
    // Where a login has its programs' (`XDG_RUNTIME_DIR`), also if this is none (cron, `sudo -u`).
    add(PathBuf::from(format!("/run/user/{}/coldpress", user())));
    if user() == 0 {
        let names = |directory: &str| fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in names("/run/user") {
            add(entry.path().join("coldpress"));
        }
        for entry in names("/tmp") {
            let name = entry.file_name();
            let user = name
                .to_str()
                .and_then(|name| name.strip_prefix("coldpress-"));
            if user.is_some_and(|user| user.parse::<u32>().is_ok()) {
                add(entry.path());
            }
        }
    }
    directories.retain(|directory| directory.is_dir());
    directories
}

fn user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn own_candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let mut candidates = Vec::new();
    candidates.extend(absolute(config::STATISTICS_DIR));
    candidates.extend(absolute("XDG_RUNTIME_DIR").map(|path| path.join("coldpress")));
    if user() == 0 {
        candidates.push(PathBuf::from(OF_ROOT));
    }
    candidates.push(PathBuf::from(format!("/tmp/coldpress-{}", user())));
    candidates
}

/// Makes the directory if need be and checks that it is ours alone.
fn usable(directory: &Path) -> Result<(), String> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.to_string()),
    }
    let metadata = fs::symlink_metadata(directory).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("not a directory".to_owned());
    }
    if metadata.uid() != user() {
        return Err(format!("belongs to user {}, not to you", metadata.uid()));
    }
    if metadata.mode() & 0o077 != 0 {
        fs::set_permissions(directory, Permissions::from_mode(0o700))
            .map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_an_own_real_directory_is_used() {
        let base = env::temp_dir().join(format!("coldpress-dirs-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let fresh = base.join("fresh");
        assert_eq!(usable(&fresh), Ok(()));
        fs::set_permissions(&fresh, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(usable(&fresh), Ok(()));
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o700);
        let link = base.join("link");
        symlink(&fresh, &link).unwrap();
        assert_eq!(usable(&link), Err("not a directory".to_owned()));
        assert!(usable(&base.join("no/parent")).is_err());
        if user() == 0 {
            let foreign = base.join("foreign");
            fs::create_dir(&foreign).unwrap();
            std::os::unix::fs::chown(&foreign, Some(65534), None).unwrap();
            assert!(
                usable(&foreign)
                    .unwrap_err()
                    .contains("belongs to user 65534")
            );
        } else {
            eprintln!("SKIPPED: a directory of another user can only be made by root");
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
