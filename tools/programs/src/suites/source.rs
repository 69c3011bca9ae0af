//! Source packages of Debian: the upstream tests are in them, of the very version that is installed.
//!
//! Where the machine's lists of packages name no sources, lists of our own are made of them, with `deb-src` in place
//! of `deb`, in a directory of ours: the machine's own configuration stays as it is.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LISTS: [&str; 2] = ["/etc/apt/sources.list", "/etc/apt/sources.list.d"];

/// The unpacked source of a package, below `dir`: fetched where it is not there yet.
pub fn unpacked(dir: &Path, package: &str) -> Result<PathBuf> {
    let kept = dir.join("source");
    if kept.is_dir() {
        return Ok(kept);
    }
    eprintln!(
        "will fetch the source package {package} with apt-get, to {}",
        dir.display()
    );
    let apt = dir.join("apt");
    let (parts, lists) = (apt.join("parts"), apt.join("lists"));
    fs::create_dir_all(&parts)?;
    fs::create_dir_all(lists.join("partial"))?;
    for (number, path) in lists_of_the_machine().iter().enumerate() {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let extension = path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        fs::write(
            parts.join(format!("{number}.{extension}")),
            with_sources(&text),
        )?;
    }
    let settings = [
        "Dir::Etc::SourceList=/dev/null".to_owned(),
        format!("Dir::Etc::SourceParts={}", parts.display()),
        format!("Dir::State::Lists={}", lists.display()),
    ];
    let get = |arguments: &[&str]| -> Result<()> {
        let mut command = Command::new("apt-get");
        settings.iter().for_each(|setting| {
            command.args(["-o", setting]);
        });
        let status = command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .status()
            .context("cannot start apt-get")?;
        if !status.success() {
            bail!("`apt-get {}` failed", arguments.join(" "));
        }
        Ok(())
    };
    get(&["update", "-q"])?;
    get(&["source", "-q", "--download-only", package])?;
    let archive = fs::read_dir(dir)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains(".orig.tar."))
        .with_context(|| format!("{package} has no upstream archive"))?;
    let half = dir.join("half");
    fs::create_dir_all(&half)?;
    let status = Command::new("tar")
        .args(["--strip-components=1", "-xf"])
        .arg(&archive)
        .arg("-C")
        .arg(&half)
        .status()
        .context("cannot start tar")?;
    if !status.success() {
        bail!("{} cannot be unpacked", archive.display());
    }
    fs::rename(&half, &kept)?;
    Ok(kept)
}

fn lists_of_the_machine() -> Vec<PathBuf> {
    let beside = fs::read_dir(LISTS[1]).into_iter().flatten().flatten();
    let all = beside.map(|entry| entry.path()).chain([LISTS[0].into()]);
    let is_list = |path: &PathBuf| {
        let kind = path.extension().and_then(|extension| extension.to_str());
        path.is_file() && matches!(kind, Some("list" | "sources"))
    };
    all.filter(is_list).collect()
}

/// The sources of what a list names.
fn with_sources(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("deb ") {
        Some(rest) => format!("deb-src {rest}\n"),
        None if line == "Types: deb" => "Types: deb-src\n".to_owned(),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Runs a step of a build in `dir`, its output to standard error if it fails.
pub fn build(dir: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    eprintln!("building: {program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = error.lines().rev().take(20).collect();
        last.iter().rev().for_each(|line| eprintln!("    {line}"));
        bail!("{program} {} failed", arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_list_are_turned_into_sources() {
        let old = "# deb x\ndeb mirror bookworm main\n";
        assert_eq!(with_sources(old), "# deb x\ndeb-src mirror bookworm main\n");
        let new = "Types: deb\nURIs: mirror\nSuites: bookworm\n";
        assert_eq!(
            with_sources(new),
            "Types: deb-src\nURIs: mirror\nSuites: bookworm\n"
        );
    }
}
