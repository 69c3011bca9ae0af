//! `cargo xtask package`: what is installed without a toolchain, a Debian package and a tarball; and `install`, `uninstall`.
//!
//! ```text
//!  product  cargo build --profile dist ──▶ binaries, stripped ─┐
//!  layout   a tree of files below a prefix: binaries, headers, │
//!           man pages, completions, examples, licences  ◀──────┘
//!             ├─▶ deb       prefix /usr        target/package/coldpress_VERSION_amd64.deb
//!             ├─▶ tarball   prefix anywhere    target/package/coldpress-VERSION-x86_64.tar.gz
//!             └─▶ prefix    --prefix           cargo xtask install, uninstall
//!  check    installs them in a clean root and uses them there, and what cargo installs (check, by_cargo,
//!           clean_root)
//! ```
//!
//! Both packages are reproducible: every time in them is that of the last commit, no path of this machine is in a
//! binary (`product`), and files are in the order of their names.

mod by_cargo;
mod check;
mod clean_root;
mod command;
mod deb;
mod layout;
mod licences;
mod prefix;
mod product;
mod tarball;

pub use prefix::{InstallOptions, UninstallOptions, install, uninstall};

use anyhow::{Context, Result, bail};
use coldpress_harness::{install as missing, workspace};
use layout::{Kind, Layout};
use std::fs;
use std::path::{Path, PathBuf};

/// Options of `cargo xtask package`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Install the packages in a clean root of Debian and use them there (needs root and Debian's archive)
    #[arg(long)]
    check: bool,
    /// Package changes that are not committed, too; the version then names a commit without them
    #[arg(long)]
    allow_dirty: bool,
}

/// What makes the packages, beside what every Debian has.
const PACKAGES: &[missing::Package] = &[
    missing::GCC,
    missing::program("dpkg-dev", "dpkg-shlibdeps"),
    missing::program("binutils", "strip"),
];

/// What the packages are called by.
struct Release {
    version: String,
    /// Home page.
    url: String,
    /// Seconds since 1970 of the last commit: the time of everything in the packages.
    epoch: u64,
}

impl Release {
    fn of_this_checkout() -> Result<Self> {
        let output = workspace::cargo()
            .args(["metadata", "--format-version=1", "--no-deps"])
            .output()
            .context("cannot start cargo metadata")?;
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let packages = metadata["packages"].as_array().context("no packages")?;
        let cli = packages
            .iter()
            .find(|package| package["name"] == "coldpress-cli");
        let cli = cli.context("cargo metadata names no coldpress-cli")?;
        let text = |key: &str| cli[key].as_str().unwrap_or_default().to_owned();
        let git = ["log", "-1", "--format=%ct"];
        let epoch = command::output("git", &git)?;
        Ok(Self {
            version: text("version"),
            url: text("repository"),
            epoch: epoch.trim().parse().context("git tells no time")?,
        })
    }

    /// Fills in the names of a template.
    fn fill(&self, template: &str) -> String {
        template
            .replace("@version@", &self.version)
            .replace("@url@", &self.url)
    }
}

/// The finished packages.
struct Made {
    deb: PathBuf,
    tarball: PathBuf,
}

/// Makes the packages, and uses them where that is asked for; 1 if something does not work.
pub fn run(options: &Options) -> Result<u8> {
    missing::packages(PACKAGES)?;
    let changes = command::output("git", &["status", "--porcelain"])?;
    if !changes.is_empty() && !options.allow_dirty {
        bail!(
            "there are changes that are not committed, and `coldpress --version` would name a commit without them; \
             commit them, or: cargo xtask package --allow-dirty\n{changes}"
        );
    }
    let made = make()?;
    for path in [&made.deb, &made.tarball] {
        let bytes = fs::metadata(path)?.len();
        println!("{} ({bytes} bytes)", path.display());
    }
    if !options.check {
        return Ok(0);
    }
    check::check(&made)
}

fn make() -> Result<Made> {
    let release = Release::of_this_checkout()?;
    let product = product::build()?;
    let directory = workspace::target_dir()?.join("package");
    fs::create_dir_all(&directory)?;
    let layout = |kind: Kind| Layout::new(&release, &product, kind);
    Ok(Made {
        deb: deb::make(&release, &layout(Kind::Debian)?, &directory)?,
        tarball: tarball::make(&release, &layout(Kind::Anywhere)?, &directory)?,
    })
}

/// An empty directory at `path`.
fn emptied(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot empty {}", path.display()))?;
    }
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}
