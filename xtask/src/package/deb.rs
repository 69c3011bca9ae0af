//! The Debian package, by `dpkg-deb`.
//!
//! It has no maintainer scripts: installing it starts nothing, changes no setting and adds no rule. What it depends on is
//! computed by `dpkg-shlibdeps` from the symbols that the binaries use.

use super::layout::{Layout, read_text};
use super::{Release, command, emptied};
use anyhow::{Context, Result};
use coldpress_harness::workspace;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const DOC: &str = "usr/share/doc/coldpress";

/// Makes it in `directory`.
pub fn make(release: &Release, layout: &Layout, directory: &Path) -> Result<PathBuf> {
    let staging = directory.join("deb");
    emptied(&staging)?;
    fs::set_permissions(&staging, fs::Permissions::from_mode(0o755))?;
    layout.write(&staging.join("usr"))?;
    let mut own = Layout::empty();
    own.text(&format!("{DOC}/copyright"), copyright(release)?);
    own.compressed(
        &format!("{DOC}/changelog.gz"),
        changelog(release)?.as_bytes(),
    )?;
    own.text(
        "usr/share/lintian/overrides/coldpress",
        read_text(&packaging("lintian-overrides"))?,
    );
    own.write(&staging)?;
    let mut control = Layout::empty();
    control.text("DEBIAN/control", control_file(release, &staging)?);
    control.text("DEBIAN/md5sums", sums(&staging)?);
    for name in ["shlibs", "triggers"] {
        control.text(&format!("DEBIAN/{name}"), read_text(&packaging(name))?);
    }
    control.write(&staging)?;
    let deb = directory.join(format!("coldpress_{}_amd64.deb", release.version));
    let mut build = Command::new("dpkg-deb");
    build
        .args(["--root-owner-group", "-Zxz", "--build"])
        .arg(&staging)
        .arg(&deb)
        .env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    command::text(&mut build)?;
    fs::remove_dir_all(&staging)?;
    Ok(deb)
}

fn packaging(name: &str) -> PathBuf {
    workspace::root().join("packaging/debian").join(name)
}

fn control_file(release: &Release, staging: &Path) -> Result<String> {
    let template = read_text(&packaging("control.in"))?;
    let kibibytes = installed_bytes(&staging.join("usr"))?.div_ceil(1024);
    Ok(release
        .fill(&template)
        .replace("@installed-size@", &kibibytes.to_string())
        .replace("@depends@", &depends(staging)?))
}

/// The packages without which the binaries do not start.
fn depends(staging: &Path) -> Result<String> {
    let (place, _removed) = workspace::temporary_dir("shlibdeps")?;
    // It wants the sources of a package around it.
    fs::create_dir(place.join("debian"))?;
    fs::write(
        place.join("debian/control"),
        "Source: coldpress\n\nPackage: coldpress\nArchitecture: amd64\n",
    )?;
    let mut ask = Command::new("dpkg-shlibdeps");
    ask.arg("-O").current_dir(&place);
    for path in files_below(&staging.join("usr"))? {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "coldpress" && path.parent().is_some_and(|dir| dir.ends_with("bin"))
            || name.contains(".so")
        {
            ask.arg(path);
        }
    }
    let answer = command::text(&mut ask)?;
    let depends = answer.trim().strip_prefix("shlibs:Depends=");
    let depends = depends.context("dpkg-shlibdeps tells nothing")?;
    Ok(depends.to_owned())
}

/// The licences in the form that Debian wants.
fn copyright(release: &Release) -> Result<String> {
    let head = release.fill(&read_text(&packaging("copyright.head"))?);
    let mit = read_text(&workspace::root().join("LICENSE-MIT"))?;
    // Behind the title and the line of the copyright, which the head has.
    let at = mit
        .find("Permission is")
        .context("LICENSE-MIT has no permission")?;
    let lines = mit[at..]
        .trim_end()
        .lines()
        .map(|line| match line.trim_end() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        });
    let lines: String = lines.collect();
    Ok(format!("{head}License: Expat\n{lines}"))
}

/// The changelog of the package, which has one entry: what changed is told by the repository.
fn changelog(release: &Release) -> Result<String> {
    let time = format!("--date=@{}", release.epoch);
    let date = command::text(Command::new("date").args(["--utc", "--rfc-email", &time]))?;
    Ok(format!(
        "coldpress ({}) unstable; urgency=medium\n\n  * See CHANGELOG.md of the sources: {}\n\n \
         -- Coldpress contributors <coldpress@users.noreply.github.com>  {date}",
        release.version, release.url
    ))
}

fn sums(staging: &Path) -> Result<String> {
    let mut md5sum = Command::new("md5sum");
    md5sum.current_dir(staging);
    for path in files_below(&staging.join("usr"))? {
        md5sum.arg(path.strip_prefix(staging)?);
    }
    command::text(&mut md5sum)
}

/// Regular files below a directory, in the order of their names.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let metadata = fs::symlink_metadata(&path)?;
        if metadata.is_dir() {
            files.extend(files_below(&path)?);
        } else if metadata.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn installed_bytes(directory: &Path) -> Result<u64> {
    let sizes = files_below(directory)?
        .into_iter()
        .map(|path| Ok(fs::metadata(path)?.len()));
    sizes.sum::<Result<u64>>()
}
