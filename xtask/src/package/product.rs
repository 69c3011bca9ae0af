//! The binaries of a package: built by the profile `dist`, without paths of this machine, stripped.
//!
//! They have a target directory of their own: flags that leave paths out would otherwise make cargo build everything
//! anew for each `cargo build --release` in between.

use super::command;
use anyhow::{Context, Result, bail};
use coldpress_harness::workspace;
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What programs are linked to: `libcoldpress_cache_c.so.0`.
pub const SONAME: &str = "libcoldpress_cache_c.so.0";

/// The finished binaries.
pub struct Product {
    /// `coldpress`.
    pub command: PathBuf,
    /// `libcoldpress_preload.so`.
    pub preload: PathBuf,
    /// `libcoldpress_cache_c.so`.
    pub cache_shared: PathBuf,
    /// `libcoldpress_cache_c.a`.
    pub cache_static: PathBuf,
}

/// Builds them.
pub fn build() -> Result<Product> {
    let target = workspace::target_dir()?.join("package/build");
    cargo(
        &target,
        &["build", "-p", "coldpress-cli", "-p", "coldpress-preload"],
        &[],
    )?;
    // A library that is installed has a name for the loader; in the build tree it has none, so that it is found there.
    let soname = format!("link-arg=-Wl,-soname,{SONAME}");
    cargo(
        &target,
        &["rustc", "-p", "coldpress-cache-c", "--lib"],
        &["-C", &soname],
    )?;
    let file = |name: &str| target.join("dist").join(name);
    let product = Product {
        command: file("coldpress"),
        preload: file("libcoldpress_preload.so"),
        cache_shared: file("libcoldpress_cache_c.so"),
        cache_static: target.join("libcoldpress_cache_c.a"),
    };
    strip_archive(&file("libcoldpress_cache_c.a"), &product.cache_static)?;
    for path in [
        &product.command,
        &product.preload,
        &product.cache_shared,
        &product.cache_static,
    ] {
        refuse_paths(path)?;
    }
    Ok(product)
}

/// No binary names the place where it was built: it would be another one elsewhere.
fn refuse_paths(binary: &Path) -> Result<()> {
    let bytes = fs::read(binary)?;
    for place in [workspace::root().to_owned(), cargo_home()?] {
        let name = place.as_os_str().as_bytes();
        if bytes.windows(name.len()).any(|window| window == name) {
            bail!("{} holds the path {}", binary.display(), place.display());
        }
    }
    Ok(())
}

/// Where cargo keeps the sources of other crates.
fn cargo_home() -> Result<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    let named = env::var_os("CARGO_HOME").map(PathBuf::from);
    named.or_else(home).context("there is no home directory")
}

fn cargo(target: &Path, arguments: &[&str], to_rustc: &[&str]) -> Result<()> {
    let mut command = workspace::cargo();
    command
        .args(arguments)
        .args(["--locked", "--profile", "dist", "--target-dir"])
        .arg(target);
    if !to_rustc.is_empty() {
        command.arg("--").args(to_rustc);
    }
    for (name, value) in without_paths(target)? {
        command.env(name, value);
    }
    let line = arguments.join(" ");
    eprintln!("building: cargo {line} --profile dist");
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo {line} failed ({status})");
    }
    Ok(())
}

/// Flags for the Rust and the C compiler that leave paths of this machine out of the binaries.
fn without_paths(target: &Path) -> Result<[(&'static str, String); 2]> {
    let cargo_home = cargo_home()?;
    let sysroot = command::text(Command::new("rustc").args(["--print", "sysroot"]))?;
    // Of several that fit the last counts.
    let paths = [
        (Path::new(sysroot.trim()), "/rust"),
        (cargo_home.as_path(), "/cargo"),
        (workspace::root(), "/coldpress"),
        (target, "/coldpress/target"),
    ];
    let flags = |flag: &str| {
        let flags = paths.map(|(path, name)| format!("{flag}={}={name}", path.display()));
        flags.to_vec()
    };
    Ok([
        // Parts are separated by a character that stands in no path.
        (
            "CARGO_ENCODED_RUSTFLAGS",
            flags("--remap-path-prefix").join("\x1f"),
        ),
        ("CFLAGS", flags("-ffile-prefix-map").join(" ")),
    ])
}

/// An archive keeps the symbols by which it is linked; all else goes, times and owners of its members too.
fn strip_archive(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    let mut strip = Command::new("strip");
    strip
        .args(["--strip-unneeded", "--enable-deterministic-archives"])
        .arg(to);
    command::text(&mut strip).map(drop)
}
