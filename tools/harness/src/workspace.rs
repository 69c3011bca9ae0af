//! Where the repository and its build results are, and building them.

use crate::child::without_our_signals;
use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("this crate lies in a directory of the workspace root")
}

/// A `cargo` command of the same toolchain, in the repository root. What interrupts us interrupts it, too.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_our_signals(command.current_dir(root()));
    // Where a task is started in `crates/cli`, whose settings are for `cargo install`.
    command.env_remove("COLDPRESS_EMBED_LIBRARY");
    command
}

/// The `cargo` of rustup, which takes a toolchain as its first argument. (The one that started us
/// is that of one toolchain, and takes none.)
pub fn cargo_of_rustup() -> Command {
    let mut command = Command::new("cargo");
    command
        .current_dir(root())
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN");
    without_our_signals(&mut command);
    command
}

/// Directory that cargo builds into (`CARGO_TARGET_DIR` and configuration files respected).
pub fn target_dir() -> Result<PathBuf> {
    target_dir_of("Cargo.toml")
}

/// The same of another workspace in the repository.
pub fn target_dir_of(manifest: &str) -> Result<PathBuf> {
    let output = cargo()
        .args(["metadata", "--format-version=1", "--no-deps"])
        .args(["--manifest-path", manifest])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let path = metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target_directory")?;
    Ok(root().join(path))
}

/// The command: that which `COLDPRESS_BIN` names, or [`build_release`].
pub fn coldpress() -> Result<PathBuf> {
    match std::env::var_os("COLDPRESS_BIN") {
        Some(named) => Ok(named.into()),
        None => build_release(),
    }
}

/// Builds the command and the preload library in release, and returns the command's path.
pub fn build_release() -> Result<PathBuf> {
    let arguments = [
        "build",
        "--release",
        "-p",
        "coldpress-cli",
        "-p",
        "coldpress-preload",
    ];
    eprintln!("building: cargo {}", arguments.join(" "));
    let status = cargo()
        .args(arguments)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!(
            "the build failed; repeat it with: cargo {}",
            arguments.join(" ")
        );
    }
    let binary = target_dir()?.join("release/coldpress");
    if !binary.is_file() {
        bail!("the build left no {}", binary.display());
    }
    Ok(binary)
}

/// In the environment of a build of the tasks that continues another.
pub(crate) const CONTINUES: &str = "_COLDPRESS_TASKS_CONTINUE";

/// Where this process, the tasks (`xtask`), is a debug build: builds them in release and becomes that build, with the
/// same arguments, because clients and generators in it would otherwise be what is measured.
/// Call it before anything is set up: nothing is cleaned up on this way out.
pub fn continue_in_release() -> Result<()> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    eprintln!("building the tasks themselves, optimised: cargo build --release -p xtask");
    let status = cargo()
        .args(["build", "--release", "-p", "xtask"])
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("xtask does not build in release");
    }
    let path = target_dir()?.join("release/xtask");
    let error = Command::new(&path)
        .args(std::env::args_os().skip(1))
        .env(CONTINUES, "1")
        .exec();
    Err(error).with_context(|| format!("cannot continue as {}", path.display()))
}

/// A directory of our own under the system's temporary directory, removed on the way out.
pub fn temporary_dir(name: &str) -> Result<(PathBuf, crate::cleanup::Guard)> {
    let path = std::env::temp_dir().join(format!("coldpress-{name}-{}", std::process::id()));
    crate::cleanup::acquire(
        format!("directory {}", path.display()),
        || {
            std::fs::create_dir(&path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            Ok(path.clone())
        },
        |path| Ok(std::fs::remove_dir_all(path)?),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    /// Adds a file of a test program, and the files of its modules.
    fn follow(file: &Path, reached: &mut BTreeSet<PathBuf>) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let is_root = reached.is_empty();
        reached.insert(file.to_owned());
        let dir = match is_root || file.ends_with("mod.rs") {
            true => file
                .parent()
                .expect("a file lies in a directory")
                .to_owned(),
            false => file.with_extension(""),
        };
        let modules = text.lines().filter_map(|line| {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            line.strip_prefix("mod ")?.strip_suffix(';')
        });
        for module in modules {
            let own = dir.join(format!("{module}.rs"));
            let directory = dir.join(module).join("mod.rs");
            follow(if own.exists() { &own } else { &directory }, reached);
        }
    }

    fn sources(dir: &Path, found: &mut BTreeSet<PathBuf>) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.insert(path);
            }
        }
    }

    /// A file of tests that no program names is never compiled, and says nothing.
    #[test]
    fn every_file_of_tests_belongs_to_a_test_program() {
        let output = cargo()
            .args(["metadata", "--format-version=1", "--no-deps"])
            .output()
            .unwrap();
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut checked = 0;
        for package in metadata["packages"].as_array().unwrap() {
            let mut reached = BTreeSet::new();
            let targets = package["targets"].as_array().unwrap();
            for target in targets.iter().filter(|target| target["kind"][0] == "test") {
                let mut files = BTreeSet::new();
                follow(Path::new(target["src_path"].as_str().unwrap()), &mut files);
                reached.append(&mut files);
            }
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let mut found = BTreeSet::new();
            sources(&manifest.with_file_name("tests"), &mut found);
            let forgotten: Vec<_> = found.difference(&reached).collect();
            assert!(forgotten.is_empty(), "no test program has {forgotten:?}");
            checked += found.len();
        }
        assert!(checked > 200, "{checked} files");
    }
}
