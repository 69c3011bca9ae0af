//! `cargo xtask install` and `uninstall`: the tree of a package below a prefix of this machine.
//!
//! `cargo install` installs programs alone, and the pager's library is none: this puts both in place. What was installed
//! is written down in `lib/coldpress/installed`, files and the directories that were made for them; `uninstall` removes
//! exactly that, whatever version is checked out then.

use super::layout::{Kind, Layout};
use super::{PACKAGES, Release, product};
use anyhow::{Context, Result, bail};
use coldpress_harness::install as missing;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Options of `cargo xtask install`.
#[derive(clap::Args, Debug)]
pub struct InstallOptions {
    #[command(flatten)]
    place: Place,
}

/// Options of `cargo xtask uninstall`.
#[derive(clap::Args, Debug)]
pub struct UninstallOptions {
    #[command(flatten)]
    place: Place,
}

/// Where.
#[derive(clap::Args, Debug)]
struct Place {
    /// The directory above bin, lib and share
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Put everything below this directory, as if it were the root: for packagers
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
}

/// Where it is written down what was installed, from the prefix.
const LIST: &str = "lib/coldpress/installed";

impl Place {
    /// The prefix as it is on this machine now.
    fn directory(&self) -> Result<PathBuf> {
        let prefix = &self.prefix;
        let Ok(below) = prefix.strip_prefix("/") else {
            bail!("--prefix {} is not absolute", prefix.display());
        };
        let splits = |c: char| c.is_whitespace() || c == ':';
        if prefix.to_string_lossy().contains(splits) {
            bail!(
                "--prefix {:?} will not do: the dynamic loader splits LD_PRELOAD at blanks and colons",
                prefix.display()
            );
        }
        Ok(match &self.destdir {
            None => prefix.clone(),
            Some(destdir) => destdir.join(below),
        })
    }
}

/// Builds and installs.
pub fn install(options: &InstallOptions) -> Result<u8> {
    let directory = options.place.directory()?;
    missing::packages(PACKAGES)?;
    let release = Release::of_this_checkout()?;
    let product = product::build()?;
    let layout = Layout::new(
        &release,
        &product,
        Kind::Prefix(options.place.prefix.clone()),
    )?;
    let installed = put(&layout, &directory)?;
    println!("installed {installed} files below {}", directory.display());
    if options.place.destdir.is_none() {
        let prefix = options.place.prefix.display();
        println!("to remove them: cargo xtask uninstall --prefix {prefix}");
        println!("next: {}", next(&options.place.prefix));
        println!(
            "for programs in C: PKG_CONFIG_PATH={prefix}/lib/pkgconfig, and -Wl,-rpath,{prefix}/lib to link"
        );
    }
    Ok(0)
}

/// The first command to type, which names the directory where the shell does not look there.
fn next(prefix: &Path) -> String {
    let binaries = prefix.join("bin");
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|known| known == binaries) {
        true => "coldpress doctor".to_owned(),
        false => format!(
            "export PATH={}:$PATH, then: coldpress doctor",
            binaries.display()
        ),
    }
}

/// Removes what `install` has put there.
pub fn uninstall(options: &UninstallOptions) -> Result<u8> {
    let directory = options.place.directory()?;
    let removed = take_away(&directory)?;
    println!("removed {removed} files below {}", directory.display());
    Ok(0)
}

/// Writes the tree and the list, and removes what an earlier version had and this one has not. Returns how many files
/// there are.
fn put(layout: &Layout, directory: &Path) -> Result<usize> {
    let earlier = read_list(directory)?;
    let mut list: BTreeSet<String> = layout.paths().map(str::to_owned).collect();
    list.insert(LIST.to_owned());
    let files = list.len();
    let mut directories: BTreeSet<String> = list
        .iter()
        .flat_map(|path| Path::new(path).ancestors().skip(1))
        .filter(|path| !path.as_os_str().is_empty() && !directory.join(path).exists())
        .map(|path| format!("{}/", path.display()))
        .collect();
    directories.extend(earlier.iter().filter(|path| path.ends_with('/')).cloned());
    for path in earlier
        .difference(&list)
        .filter(|path| !path.ends_with('/'))
    {
        remove(&directory.join(path), |path| fs::remove_file(path))?;
    }
    list.extend(directories);
    layout.write(directory)?;
    let lines: Vec<String> = list.into_iter().collect();
    let path = directory.join(LIST);
    fs::create_dir_all(path.parent().unwrap_or(directory))?;
    fs::write(&path, lines.join("\n") + "\n")
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(files)
}

fn take_away(directory: &Path) -> Result<usize> {
    let list = read_list(directory)?;
    if list.is_empty() {
        bail!(
            "there is no {}: nothing was installed there by cargo xtask install",
            directory.join(LIST).display()
        );
    }
    let (directories, files): (Vec<_>, Vec<_>) = list.iter().partition(|path| path.ends_with('/'));
    for path in &files {
        remove(&directory.join(path), |path| fs::remove_file(path))?;
    }
    // Those below others first; one that somebody else has put something into stays.
    for path in directories.iter().rev() {
        remove(&directory.join(path), |path| match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => other,
        })?;
    }
    Ok(files.len())
}

/// What was installed; nothing where nothing was.
fn read_list(directory: &Path) -> Result<BTreeSet<String>> {
    let path = directory.join(LIST);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let list: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    // Nothing outside of the prefix is removed, whatever the list says.
    let is_below = |path: &String| {
        let mut components = Path::new(path).components();
        !path.is_empty() && components.all(|part| matches!(part, Component::Normal(_)))
    };
    match list.iter().find(|path| !is_below(path)) {
        Some(wrong) => bail!(
            "{} names {wrong:?}, which is not below the prefix",
            path.display()
        ),
        None => Ok(list),
    }
}

fn remove(path: &Path, remove: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
    match remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coldpress_harness::workspace;

    fn tree(paths: &[&str]) -> Layout {
        let mut layout = Layout::empty();
        for path in paths {
            layout.text(path, "content".to_owned());
        }
        layout
    }

    fn all_below(directory: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(all_below(&path));
            }
            found.push(path.display().to_string());
        }
        found
    }

    #[test]
    fn what_is_uninstalled_is_what_was_installed() {
        let (place, _removed) = workspace::temporary_dir("prefix").unwrap();
        fs::create_dir_all(place.join("share/man")).unwrap();
        fs::write(place.join("share/of-somebody-else"), "").unwrap();
        let before = all_below(&place);
        let first = tree(&["bin/coldpress", "share/man/man1/a.1", "share/old/file"]);
        assert_eq!(put(&first, &place).unwrap(), 4);
        let second = tree(&["bin/coldpress", "share/man/man1/a.1"]);
        assert_eq!(put(&second, &place).unwrap(), 3);
        assert!(!place.join("share/old/file").exists());
        fs::remove_file(place.join("share/man/man1/a.1")).unwrap();
        assert_eq!(take_away(&place).unwrap(), 3);
        assert_eq!(all_below(&place), before);
        assert!(
            take_away(&place)
                .unwrap_err()
                .to_string()
                .contains("nothing was installed")
        );
    }

    #[test]
    fn nothing_outside_of_the_prefix_is_removed() {
        let (place, _removed) = workspace::temporary_dir("prefix-list").unwrap();
        for wrong in ["../x", "/etc/passwd", "bin/../../x", ""] {
            fs::create_dir_all(place.join("lib/coldpress")).unwrap();
            fs::write(place.join(LIST), format!("bin/coldpress\n{wrong}\n")).unwrap();
            let error = take_away(&place).unwrap_err().to_string();
            assert!(error.contains("not below the prefix"), "{error}");
        }
    }

    #[test]
    fn a_prefix_is_absolute_and_of_one_word() {
        let directory = |prefix: &str, destdir: Option<&str>| {
            let place = Place {
                prefix: prefix.into(),
                destdir: destdir.map(PathBuf::from),
            };
            place.directory().map_err(|error| error.to_string())
        };
        assert_eq!(directory("/usr/local", None), Ok("/usr/local".into()));
        assert_eq!(
            directory("/usr/local", Some("/tmp/d")),
            Ok("/tmp/d/usr/local".into())
        );
        assert!(
            directory("local", None)
                .unwrap_err()
                .contains("not absolute")
        );
        assert!(
            directory("/my place", None)
                .unwrap_err()
                .contains("LD_PRELOAD")
        );
    }
}
