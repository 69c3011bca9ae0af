//! Where the pager's library is, and the LD_PRELOAD that loads it.

use crate::carried_library::{self, NAME};
use crate::refusal::Refusal;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names the library outright (tests, packagers).
pub const VARIABLE: &str = "COLDPRESS_PRELOAD_LIBRARY";

/// Where it is looked for, from the directory of the executable.
const PLACES: [&str; 3] = [".", "../lib/coldpress", "../lib"];

/// Absolute path of the library, fit for LD_PRELOAD.
pub fn find() -> Result<PathBuf, Refusal> {
    let path = match env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(named) => resolve(Path::new(&named)).ok_or_else(|| {
            let named = named.to_string_lossy();
            Refusal::new(format!("{VARIABLE} names {named:?}, which is no file"))
                .mend(format!("Correct it, or: unset {VARIABLE}"))
        })?,
        None => beside_the_executable()?,
    };
    check(&path)?;
    Ok(path)
}

fn beside_the_executable() -> Result<PathBuf, Refusal> {
    let executable = env::current_exe().unwrap_or_default();
    let directory = executable.parent().unwrap_or(Path::new("/"));
    if let Some(library) = carried_library::CARRIED {
        return carried_library::put(library, &executable);
    }
    let found = PLACES
        .iter()
        .find_map(|place| resolve(&directory.join(place).join(NAME)));
    found.ok_or_else(|| {
        Refusal::new(format!(
            "the pager's library {NAME} is not installed: it is neither beside {} nor in ../lib/coldpress or ../lib from there",
            executable.display()
        ))
        .mend(how_to_get_it(directory))
        .mend(format!("Or say where it is: {VARIABLE}=/path/to/{NAME} coldpress run …"))
    })
}

/// From a registry cargo installs the command alone, into a directory `bin`; there the whole tree of a package fits
/// around it.
fn how_to_get_it(directory: &Path) -> String {
    match directory.parent() {
        Some(prefix) if directory.ends_with("bin") => format!(
            "Install a package of Coldpress; or in a checkout of its repository: cargo xtask install --prefix {}",
            prefix.display()
        ),
        _ => "Build it: cargo build --release -p coldpress-preload".to_owned(),
    }
}

fn resolve(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}

/// The dynamic loader splits LD_PRELOAD at blanks and colons, with no way to quote them.
fn check(path: &Path) -> Result<(), Refusal> {
    let splits = |byte: &u8| byte.is_ascii_whitespace() || *byte == b':';
    if path.as_os_str().as_bytes().iter().any(splits) {
        return Err(Refusal::new(format!(
            "the pager's library is at {:?}, and the dynamic loader splits LD_PRELOAD at blanks and colons",
            path.display().to_string()
        ))
        .mend(format!("Copy it elsewhere: cp {:?} /usr/local/lib/ && export {VARIABLE}=/usr/local/lib/{NAME}", path.display().to_string())));
    }
    Ok(())
}

/// LD_PRELOAD with `library` in front of what the user preloads already.
pub fn prepend(library: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = library.as_os_str().to_owned();
    let others = existing.map(OsStr::as_bytes).unwrap_or_default();
    for entry in others.split(|byte| byte.is_ascii_whitespace() || *byte == b':') {
        if !entry.is_empty() && entry != library.as_os_str().as_bytes() {
            value.push(":");
            value.push(OsStr::from_bytes(entry));
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_preloads_are_kept_behind_ours() {
        let library = Path::new("/l/ours.so");
        let prepended = |existing: &str| prepend(library, Some(OsStr::new(existing)));
        assert_eq!(prepend(library, None), "/l/ours.so");
        assert_eq!(prepended(""), "/l/ours.so");
        assert_eq!(prepended("/l/a.so b.so"), "/l/ours.so:/l/a.so:b.so");
        assert_eq!(prepended("/l/ours.so:/l/a.so"), "/l/ours.so:/l/a.so");
    }

    #[test]
    fn what_cargo_has_installed_is_completed_where_it_is() {
        let line = how_to_get_it(Path::new("/home/joe/.cargo/bin"));
        assert!(
            line.ends_with("cargo xtask install --prefix /home/joe/.cargo"),
            "{line}"
        );
        assert!(how_to_get_it(Path::new("/c/target/debug")).starts_with("Build it"));
    }

    #[test]
    fn paths_that_the_loader_would_split_are_refused() {
        assert!(check(Path::new("/usr/lib/x.so")).is_ok());
        for path in ["/my lib/x.so", "/a:b/x.so", "/a\tb/x.so"] {
            assert!(
                check(Path::new(path))
                    .unwrap_err()
                    .to_string()
                    .contains("splits"),
                "{path}"
            );
        }
    }
}
