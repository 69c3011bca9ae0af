//! Installing what is missing: programs through `apt-get`, toolchain parts through `rustup`,
//! programs of crates.io through `cargo install`, of PyPI through `pip`, in an environment of their own.
//!
//! Nothing is installed that is already there, and what will be installed is printed first.
//! `apt-get update` runs only when something is missing. Packages are installed without their
//! services being started (a redis of the system is not what we need).

use crate::workspace::{self, CONTINUES};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How to see whether something is there.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// An executable of this name on the path (or in the system directories).
    Program(&'static str),
    /// A module that the system's python3 can import.
    PythonModule(&'static str),
    /// A file.
    File(&'static str),
    /// A command that succeeds.
    Command(&'static [&'static str]),
}

impl Probe {
    fn present(self) -> bool {
        match self {
            Probe::Program(name) => find_program(name).is_some(),
            Probe::Command(line) => quietly(Command::new(line[0]).args(&line[1..])),
            Probe::File(path) => Path::new(path).exists(),
            Probe::PythonModule(name) => ["/usr/bin/python3", "python3"].iter().any(|python| {
                quietly(Command::new(python).args(["-c", &format!("import {name}")]))
            }),
        }
    }
}

/// A Debian package and how to see that it is not needed.
#[derive(Clone, Copy, Debug)]
pub struct Package {
    /// Name of the package.
    pub name: &'static str,
    /// What it is needed for.
    pub probe: Probe,
}

/// `Package` of one program.
pub const fn program(name: &'static str, program: &'static str) -> Package {
    Package {
        name,
        probe: Probe::Program(program),
    }
}

/// The redis server.
pub const REDIS: Package = program("redis-server", "redis-server");
/// The Python interpreter.
pub const PYTHON: Package = program("python3", "python3");
/// The C compiler.
pub const GCC: Package = program("gcc", "gcc");
/// The C++ compiler.
pub const GXX: Package = program("g++", "g++");

/// Path of an executable, searched in `PATH` and in the system's directories.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Into::into))
        .map(|dir| dir.join(name))
        .find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Installs those of `packages` that are missing.
pub fn packages(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|p| !p.probe.present()).collect();
    let names: Vec<_> = missing.iter().map(|p| p.name).collect();
    if names.is_empty() {
        // The debug build, which this one continues, has said so.
        if std::env::var_os(CONTINUES).is_none() {
            let all: Vec<_> = packages.iter().map(|p| p.name).collect();
            eprintln!("will install: nothing ({} present)", all.join(", "));
        }
        return Ok(());
    }
    let list = names.join(" ");
    eprintln!("will install with apt-get: {list}");
    let by_hand = format!("install them by hand, on Debian with: apt-get install {list}");
    let Some(apt) = find_program("apt-get") else {
        bail!("{list} missing and there is no apt-get here; {by_hand}");
    };
    // SAFETY: geteuid reads nothing and cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    let prefix: &[&str] = match (root, find_program("sudo")) {
        (true, _) => &[],
        (false, Some(_)) => &["sudo"],
        (false, None) => {
            bail!("{list} missing, and we are neither root nor is there sudo; {by_hand}")
        }
    };
    let apt = apt.to_string_lossy().into_owned();
    let run = |arguments: &[&str]| -> Result<()> {
        let settings = ["env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", &apt];
        let line: Vec<&str> = [prefix, &settings, arguments].concat();
        let status = Command::new(line[0])
            .args(&line[1..])
            .stdin(if root {
                Stdio::null()
            } else {
                Stdio::inherit()
            })
            .stdout(std::io::stderr())
            .status()
            .with_context(|| format!("cannot start {}", line[0]))?;
        if !status.success() {
            bail!("`{}` failed; {by_hand}", line.join(" "));
        }
        Ok(())
    };
    run(&["update", "-q"])?;
    let install = ["install", "-q", "-y", "--no-install-recommends"];
    run(&[&install[..], &names[..]].concat())?;
    match missing.iter().find(|p| !p.probe.present()) {
        Some(package) => bail!(
            "{} was installed but {:?} is still missing",
            package.name,
            package.probe
        ),
        None => Ok(()),
    }
}

/// Adds toolchain components that are missing: pairs of cargo subcommand and component.
pub fn components(components: &[(&str, &str)]) -> Result<()> {
    for (subcommand, component) in components {
        if quietly(workspace::cargo().args([*subcommand, "--version"])) {
            continue;
        }
        eprintln!("will install with rustup: {component}");
        let status = Command::new("rustup")
            .args(["component", "add", component])
            .current_dir(workspace::root())
            .status();
        if !status.is_ok_and(|s| s.success()) {
            bail!(
                "cargo {subcommand} is missing; install it with: rustup component add {component}"
            );
        }
    }
    Ok(())
}

/// Adds the standard parts of a compilation target, where they are missing.
pub fn target(name: &str) -> Result<()> {
    if target_present(name) {
        return Ok(());
    }
    eprintln!("will install with rustup: target {name}");
    rustup(&["target", "add", name])
}

/// A toolchain of the distribution has no rustup, and may still have the target.
fn target_present(name: &str) -> bool {
    let directory = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", name])
        .current_dir(workspace::root())
        .output();
    let Ok(directory) = directory else {
        return false;
    };
    let directory = String::from_utf8_lossy(&directory.stdout);
    let files = std::fs::read_dir(directory.trim()).into_iter().flatten();
    let mut names = files.flatten().map(|file| file.file_name());
    names.any(|name| name.to_string_lossy().starts_with("libcore-"))
}

/// Adds the nightly toolchain, and those of its `components` that are missing.
pub fn nightly(components: &[&str]) -> Result<()> {
    if !quietly(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        let list = components.join(" ");
        eprintln!("will install with rustup: toolchain nightly {list}");
        let install = ["toolchain", "install", "nightly", "--profile", "minimal"];
        // Named at once, so that rustup looks for a nightly that has them.
        let components = components.iter().flat_map(|name| ["--component", *name]);
        return rustup(&install.into_iter().chain(components).collect::<Vec<_>>());
    }
    let output = Command::new("rustup")
        .args(["component", "list", "--toolchain", "nightly", "--installed"])
        .output()
        .context("cannot start rustup")?;
    let installed = String::from_utf8_lossy(&output.stdout);
    let missing: Vec<_> = components
        .iter()
        .filter(|name| !lists_component(&installed, name))
        .copied()
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    eprintln!("will install with rustup: {list} (toolchain nightly)");
    let add = ["component", "add", "--toolchain", "nightly"];
    rustup(&[&add[..], &missing[..]].concat())
}

/// Whether the list names a component, alone or with the machine that it is for.
fn lists_component(list: &str, component: &str) -> bool {
    list.lines().any(|line| {
        line.strip_prefix(component)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("-x86_64-"))
    })
}

fn rustup(arguments: &[&str]) -> Result<()> {
    let line = format!("rustup {}", arguments.join(" "));
    let status = Command::new("rustup")
        .args(arguments)
        .current_dir(workspace::root())
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .with_context(|| format!("there is no rustup here to run `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Builds a program of crates.io, locked to what its author built it with, where it is missing.
pub fn cargo_program(name: &str) -> Result<()> {
    if find_program(name).is_some() {
        return Ok(());
    }
    eprintln!("will install with cargo: {name}");
    let status = workspace::cargo()
        .args(["install", "--locked", name])
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("{name} is missing; install it with: cargo install --locked {name}");
    }
    Ok(())
}

/// A program of crates.io in exactly this version: that on the path, or one below our target directory, which is built
/// if it is missing.
pub fn pinned_program(name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    if let Some(path) = find_program(name).filter(|path| has_version(path, version)) {
        return Ok(path);
    }
    let root = workspace::target_dir()?.join(format!("{name}-{version}"));
    let path = root.join("bin").join(name);
    if has_version(&path, version) {
        return Ok(path);
    }
    let mut line = vec!["install", "--locked", "--version", version];
    line.extend(options);
    line.push(name);
    let line = line.join(" ");
    eprintln!(
        "will install with cargo, below {}: {name} {version}",
        root.display()
    );
    let status = workspace::cargo()
        .args(line.split(' '))
        .arg("--root")
        .arg(&root)
        .status()
        .context("cannot start cargo")?;
    if !status.success() {
        bail!("{name} {version} is missing; install it with: cargo {line}");
    }
    Ok(path)
}

/// A program of a Python package in exactly one version, in an environment of its own below our target directory.
#[derive(Clone, Copy, Debug)]
pub struct PythonProgram {
    /// Name of the program.
    pub name: &'static str,
    /// Name of the package.
    pub package: &'static str,
    /// Extras of the package that it needs: `[one,another]`.
    pub extras: &'static str,
    /// Version of the package.
    pub version: &'static str,
}

impl PythonProgram {
    fn root(&self) -> Result<PathBuf> {
        Ok(workspace::target_dir()?.join(format!("{}-{}", self.package, self.version)))
    }

    /// Where it is, or will be.
    pub fn path(&self) -> Result<PathBuf> {
        Ok(self.root()?.join("bin").join(self.name))
    }

    /// Installs it, if it is missing.
    pub fn install(&self) -> Result<()> {
        let root = self.root()?;
        let whole = root.join("whole");
        if self.path()?.exists() && whole.exists() {
            return Ok(());
        }
        let what = format!("{}{}=={}", self.package, self.extras, self.version);
        eprintln!("will install with pip, below {}: {what}", root.display());
        let run = |command: &mut Command| -> Result<()> {
            command.stdin(Stdio::null()).stdout(std::io::stderr());
            let line = format!("{command:?}");
            let status = command.status();
            let status = status.with_context(|| format!("cannot start {line}"))?;
            match status.success() {
                true => Ok(()),
                false => bail!("`{line}` failed ({status})"),
            }
        };
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&root))?;
        let pip = root.join("bin/pip");
        run(Command::new(pip).args(["install", "--quiet", "--disable-pip-version-check", &what]))?;
        // An installation that was interrupted is begun again.
        std::fs::write(&whole, "").with_context(|| format!("cannot write {}", whole.display()))
    }
}

/// Whether a program says that it has this version.
fn has_version(path: &Path, version: &str) -> bool {
    let output = Command::new(path).arg("--version").output();
    output.is_ok_and(|output| says_version(&String::from_utf8_lossy(&output.stdout), version))
}

fn says_version(said: &str, version: &str) -> bool {
    let mut words = said.split_whitespace();
    words.any(|word| word.strip_prefix('v').unwrap_or(word) == version)
}

/// Whether a command starts and succeeds; its output is dropped.
fn quietly(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(Probe::Program("sh").present());
        assert!(!Probe::Program("no-such-program-of-coldpress").present());
        assert!(find_program("sh").unwrap().is_absolute());
    }

    #[test]
    fn a_version_is_that_version_alone() {
        assert!(says_version("mdbook v0.5.4\n", "0.5.4"));
        assert!(says_version("mdbook 0.5.4", "0.5.4"));
        assert!(!says_version("mdbook v0.5.40\n", "0.5.4"));
    }

    #[test]
    fn components_are_listed_alone_or_with_their_machine() {
        let list = "miri-x86_64-unknown-linux-gnu\nrust-src\nrust-std-x86_64-unknown-none\n";
        assert!(lists_component(list, "miri"));
        assert!(lists_component(list, "rust-src"));
        assert!(!lists_component(list, "rust"));
        assert!(!lists_component(list, "clippy"));
    }

    #[test]
    fn targets_are_there_or_not() {
        assert!(target_present("x86_64-unknown-linux-gnu"));
        assert!(!target_present("no-such-target-of-coldpress"));
    }

    #[test]
    fn nothing_is_installed_when_nothing_is_missing() {
        packages(&[program("dash", "sh")]).unwrap();
    }
}
