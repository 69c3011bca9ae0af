//! Which files of settings there are on this machine, and in which order they count.
//!
//! | directory, lowest first | whose settings |
//! |---|---|
//! | `/usr/lib/coldpress`, `/usr/local/lib/coldpress` | the distribution's |
//! | `/etc/coldpress` | the administrator's |
//! | `/run/coldpress` | the administrator's, until the next boot |
//! | `$XDG_CONFIG_HOME/coldpress`, else `~/.config/coldpress` | the user's |
//!
//! Each may hold `coldpress.toml` and drop-ins, `coldpress.toml.d/*.conf`. A file masks those of its name in lower
//! directories, so that one `coldpress.toml` counts and each drop-in once; an empty file, or a link to `/dev/null`, masks
//! without saying anything. Drop-ins count over `coldpress.toml`, in the order of their names, whatever directory they
//! are in. (The rules are those of zram-generator and of systemd.)
//!
//! What is not here: whether a file is to be trusted ([`crate::config_trust`]), and what it says
//! ([`crate::config_file`]).

use crate::refusal::Refusal;
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const NAME: &str = "coldpress.toml";
const DROP_INS: &str = "coldpress.toml.d";
const OF_THE_SYSTEM: [&str; 4] = [
    "/usr/lib/coldpress",
    "/usr/local/lib/coldpress",
    "/etc/coldpress",
    "/run/coldpress",
];

/// A directory that may hold settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    path: PathBuf,
    /// One that cannot be entered holds nothing for us: a home directory may be another user's, and below `/run` an
    /// older version of this command made the directory for root alone.
    may_be_closed: bool,
}

/// The directories, lowest first.
pub fn directories() -> Vec<Directory> {
    let of_the_system = OF_THE_SYSTEM.into_iter().map(|path| Directory {
        path: path.into(),
        may_be_closed: path.starts_with("/run"),
    });
    let of_the_user = of_the_user(|name| env::var_os(name)).map(|path| Directory {
        path,
        may_be_closed: true,
    });
    of_the_system.chain(of_the_user).collect()
}

/// The user's directory. Names that are not absolute count for nothing, as the base directory specification has it.
fn of_the_user(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| {
        let path = variable(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    Some(config?.join("coldpress"))
}

/// The files that count, lowest first.
pub fn files(directories: &[Directory]) -> Result<Vec<PathBuf>, Refusal> {
    let mut main = None;
    let mut drop_ins = BTreeMap::new();
    for directory in directories {
        let path = directory.path.join(NAME);
        if directory.has(&path)? {
            main = Some(path);
        }
        let of_drop_ins = directory.path.join(DROP_INS);
        for name in directory.names_in(&of_drop_ins)? {
            let path = of_drop_ins.join(&name);
            drop_ins.insert(name, path);
        }
    }
    Ok(main.into_iter().chain(drop_ins.into_values()).collect())
}

impl Directory {
    /// Whether there is something at `path`, a link that leads nowhere included.
    fn has(&self, path: &Path) -> Result<bool, Refusal> {
        let found = self.if_there(path, fs::symlink_metadata(path));
        Ok(found?.is_some())
    }

    /// The names of drop-ins in a directory.
    fn names_in(&self, path: &Path) -> Result<Vec<OsString>, Refusal> {
        let Some(entries) = self.if_there(path, fs::read_dir(path))? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| unreadable(path, &error))?.file_name();
            if is_drop_in(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn if_there<T>(&self, path: &Path, found: io::Result<T>) -> Result<Option<T>, Refusal> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                io::ErrorKind::PermissionDenied if self.may_be_closed => Ok(None),
                _ => Err(unreadable(path, &error)),
            },
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Refusal {
    Refusal::new(format!(
        "the settings in {} cannot be looked for: {error}",
        path.display()
    ))
    .mend("To run without them: coldpress run --config /dev/null …")
}

fn is_drop_in(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    bytes.ends_with(b".conf") && !bytes.starts_with(b".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Directories of a test, lowest first, removed at the end.
    struct Layers(PathBuf);

    impl Layers {
        fn new() -> Self {
            static MADE: AtomicU32 = AtomicU32::new(0);
            let made = MADE.fetch_add(1, Relaxed);
            let name = format!("coldpress-layers-{}-{made}", std::process::id());
            let path = env::temp_dir().join(name);
            for layer in ["lib", "etc", "user"] {
                fs::create_dir_all(path.join(layer).join(DROP_INS)).unwrap();
            }
            Self(path)
        }

        fn with(self, file: &str) -> Self {
            fs::write(self.0.join(file), "").unwrap();
            self
        }

        /// The files that count, from the root of the test's directories.
        fn files(&self) -> Vec<String> {
            let directories = ["lib", "etc", "user"].map(|name| Directory {
                path: self.0.join(name),
                may_be_closed: name == "user",
            });
            let files = files(&directories).unwrap();
            let shown = files.iter().map(|path| path.strip_prefix(&self.0).unwrap());
            shown.map(|path| path.display().to_string()).collect()
        }
    }

    impl Drop for Layers {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_highest_file_masks_those_of_its_name() {
        assert!(Layers::new().files().is_empty());
        let layers = Layers::new()
            .with("lib/coldpress.toml")
            .with("etc/coldpress.toml")
            .with("lib/coldpress.toml.d/20-b.conf")
            .with("etc/coldpress.toml.d/30-c.conf")
            .with("etc/coldpress.toml.d/20-b.conf")
            .with("user/coldpress.toml.d/10-a.conf");
        let expected = [
            "etc/coldpress.toml",
            "user/coldpress.toml.d/10-a.conf",
            "etc/coldpress.toml.d/20-b.conf",
            "etc/coldpress.toml.d/30-c.conf",
        ];
        assert_eq!(layers.files(), expected);
        assert_eq!(
            layers.with("user/coldpress.toml").files()[0],
            "user/coldpress.toml"
        );
    }

    #[test]
    fn other_files_are_no_drop_ins() {
        let layers = Layers::new()
            .with("etc/coldpress.toml.d/README")
            .with("etc/coldpress.toml.d/.hidden.conf")
            .with("etc/coldpress.toml.d/old.conf~")
            .with("etc/other.toml");
        assert!(layers.files().is_empty());
    }

    #[test]
    fn the_users_directory_is_that_of_the_specification() {
        let place = |config: Option<&str>, home: Option<&str>| {
            of_the_user(|name| match name {
                "HOME" => home.map(Into::into),
                _ => config.map(Into::into),
            })
        };
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(place(Some("/c"), Some("/h")), path("/c/coldpress"));
        assert_eq!(place(None, Some("/h")), path("/h/.config/coldpress"));
        assert_eq!(place(Some("c"), Some("/h")), path("/h/.config/coldpress"));
        assert_eq!(place(Some(""), None), None);
        assert_eq!(place(None, Some("h")), None);
    }
}
