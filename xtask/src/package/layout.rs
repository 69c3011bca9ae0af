//! The tree of files that is installed, below a prefix.
//!
//! ```text
//!  bin/coldpress
//!  lib/coldpress/libcoldpress_preload.so      where the command looks for it, from its own place
//!  lib[/TRIPLET]/libcoldpress_cache_c.so*, .a, pkgconfig/
//!  include/coldpress/
//!  share/man/man1/, share/{bash-completion,zsh,fish}/
//!  share/doc/coldpress/                       licences, changelog, examples
//! ```
//!
//! Nothing here is active by itself: the udev rule and the systemd drop-in are examples.

use super::product::{Product, SONAME};
use super::{Release, command, licences};
use anyhow::{Context, Result};
use coldpress_harness::workspace;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the tree is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Debian package.
    Debian,
    /// Unpacked anywhere: nothing in it names its place.
    Anywhere,
    /// This prefix.
    Prefix(PathBuf),
}

/// What is at a path.
enum Content {
    File { bytes: Vec<u8>, mode: u32 },
    Link(String),
}

/// The tree: paths from the prefix, in the order of their names.
pub struct Layout {
    entries: BTreeMap<String, Content>,
    kind: Kind,
}

const DOC: &str = "share/doc/coldpress";

impl Layout {
    /// The tree of a build.
    pub fn new(release: &Release, product: &Product, kind: Kind) -> Result<Self> {
        let mut layout = Self {
            entries: BTreeMap::new(),
            kind,
        };
        layout.binaries(release, product)?;
        layout.headers(release)?;
        layout.made_by_the_command(&product.command)?;
        layout.documents(release)?;
        Ok(layout)
    }

    /// A tree without files.
    pub fn empty() -> Self {
        Self {
            entries: BTreeMap::new(),
            kind: Kind::Anywhere,
        }
    }

    /// Where libraries for others to link are.
    fn library_dir(&self) -> &'static str {
        match self.kind {
            Kind::Debian => "lib/x86_64-linux-gnu",
            _ => "lib",
        }
    }

    fn binaries(&mut self, release: &Release, product: &Product) -> Result<()> {
        self.copy("bin/coldpress", &product.command, 0o755)?;
        self.copy(
            "lib/coldpress/libcoldpress_preload.so",
            &product.preload,
            0o644,
        )?;
        let dir = self.library_dir();
        let whole = format!("libcoldpress_cache_c.so.{}", release.version);
        self.copy(&format!("{dir}/{whole}"), &product.cache_shared, 0o644)?;
        self.link(&format!("{dir}/{SONAME}"), &whole);
        self.link(&format!("{dir}/libcoldpress_cache_c.so"), SONAME);
        self.copy(
            &format!("{dir}/libcoldpress_cache_c.a"),
            &product.cache_static,
            0o644,
        )
    }

    fn headers(&mut self, release: &Release) -> Result<()> {
        let root = workspace::root();
        for (from, to) in [
            ("preload/include", ""),
            ("cache-c/include", ""),
            ("cache-c/include/upstream", "upstream/"),
        ] {
            let directory = root.join("crates").join(from);
            for path in files_in(&directory)? {
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                self.copy(&format!("include/coldpress/{to}{name}"), &path, 0o644)?;
            }
        }
        let dir = self.library_dir();
        let prefix = match &self.kind {
            Kind::Debian => "/usr".to_owned(),
            Kind::Anywhere => "${pcfiledir}/../..".to_owned(),
            Kind::Prefix(prefix) => prefix.display().to_string(),
        };
        for name in ["coldpress", "coldpress-cache"] {
            let template = root.join(format!("packaging/pkgconfig/{name}.pc.in"));
            let text = release.fill(&read_text(&template)?);
            let text = text.replace("@prefix@", &prefix).replace("@libdir@", dir);
            self.text(&format!("{dir}/pkgconfig/{name}.pc"), text);
        }
        Ok(())
    }

    /// Manual pages and completions, which the command makes of its own definition.
    fn made_by_the_command(&mut self, binary: &Path) -> Result<()> {
        let ask = |arguments: &[&str]| command::text(Command::new(binary).args(arguments));
        for page in ask(&["manual"])?.lines() {
            let text = ask(&["manual", page])?;
            self.compressed(&format!("share/man/man1/{page}.1.gz"), text.as_bytes())?;
        }
        let zsh = match self.kind {
            Kind::Debian => "share/zsh/vendor-completions/_coldpress",
            _ => "share/zsh/site-functions/_coldpress",
        };
        for (shell, path) in [
            ("bash", "share/bash-completion/completions/coldpress"),
            ("zsh", zsh),
            ("fish", "share/fish/vendor_completions.d/coldpress.fish"),
        ] {
            self.text(path, ask(&["completions", shell])?);
        }
        Ok(())
    }

    fn documents(&mut self, release: &Release) -> Result<()> {
        let root = workspace::root();
        for path in files_in(&root.join("packaging/examples"))? {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            self.copy(&format!("{DOC}/examples/{name}"), &path, 0o644)?;
        }
        self.compressed(
            &format!("{DOC}/THIRD-PARTY.gz"),
            licences::of_what_is_linked()?.as_bytes(),
        )?;
        if self.kind == Kind::Debian {
            // In Debian the changelog is that of the package, and licences are in the file `copyright` (`deb.rs`).
            return Ok(());
        }
        for name in ["LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"] {
            self.copy(&format!("{DOC}/{name}"), &root.join(name), 0o644)?;
        }
        self.text(&format!("{DOC}/README"), release.fill(README));
        Ok(())
    }

    fn copy(&mut self, path: &str, from: &Path, mode: u32) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.entries
            .insert(path.to_owned(), Content::File { bytes, mode });
        Ok(())
    }

    /// Adds a text.
    pub fn text(&mut self, path: &str, text: String) {
        let bytes = text.into_bytes();
        self.entries
            .insert(path.to_owned(), Content::File { bytes, mode: 0o644 });
    }

    /// Adds what `gzip` makes of a text, without name and time.
    pub fn compressed(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        let bytes = gzip(bytes)?;
        self.entries
            .insert(path.to_owned(), Content::File { bytes, mode: 0o644 });
        Ok(())
    }

    fn link(&mut self, path: &str, target: &str) {
        self.entries
            .insert(path.to_owned(), Content::Link(target.to_owned()));
    }

    /// The paths of all files, from the prefix.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Writes the tree below a directory. What is there is replaced: a library that is in use stays what it is for
    /// those who have loaded it.
    pub fn write(&self, below: &Path) -> Result<()> {
        for (path, content) in &self.entries {
            let path = below.join(path);
            let write = || -> std::io::Result<()> {
                make_directories(path.parent().unwrap_or(below))?;
                let fresh = path.with_extension("coldpress-new");
                let _ = fs::remove_file(&fresh);
                match content {
                    Content::Link(target) => symlink(target, &fresh)?,
                    Content::File { bytes, mode } => {
                        fs::write(&fresh, bytes)?;
                        fs::set_permissions(&fresh, fs::Permissions::from_mode(*mode))?;
                    }
                }
                fs::rename(&fresh, &path)
            };
            write().with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Makes a directory and those above it, for everybody to enter, whatever the umask says.
fn make_directories(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directories(parent)?;
    }
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The files of a directory, in the order of their names.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    Ok(files)
}

/// The text of a file of the repository.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = Command::new("gzip")
        .args(["-9", "--no-name", "--stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start gzip")?;
    let mut input = gzip.stdin.take().context("gzip has no input")?;
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&bytes));
    let output = gzip.wait_with_output()?;
    writer.join().expect("a write does not panic")?;
    anyhow::ensure!(output.status.success(), "gzip failed ({})", output.status);
    Ok(output.stdout)
}

/// What the tarball says of itself.
const README: &str = "\
Coldpress @version@: runs programs in less memory by compressing what they do not use. (@url@)

Unpack it where you want it, for example for yourself:

    mkdir -p ~/.local && tar -C ~/.local --strip-components=1 -xf coldpress-@version@-x86_64.tar.gz

or for everybody:

    sudo tar -C /usr/local --strip-components=1 --no-same-owner -xf coldpress-@version@-x86_64.tar.gz

Then: coldpress doctor. It tells whether this user may use Coldpress here, and how to change that; udev rule, systemd
drop-in and Dockerfile are examples in share/doc/coldpress/examples. To remove it:

    tar -tf coldpress-@version@-x86_64.tar.gz | sed -n 's,^[^/]*/\\(.*[^/]\\)$,\\1,p' | (cd ~/.local && xargs rm -f)
";
