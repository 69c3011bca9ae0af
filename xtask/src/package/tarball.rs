//! The tarball: the tree in one directory, for any prefix.

use super::layout::Layout;
use super::{Release, command, emptied};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes it in `directory`.
pub fn make(release: &Release, layout: &Layout, directory: &Path) -> Result<PathBuf> {
    let name = format!("coldpress-{}-x86_64", release.version);
    let staging = directory.join("tarball");
    emptied(&staging)?;
    layout.write(&staging.join(&name))?;
    let tarball = directory.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--format=gnu",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
    ])
    .arg(format!("--mtime=@{}", release.epoch))
    // Without the name and the time that gzip would put in.
    .arg("--use-compress-program=gzip -9 --no-name")
    .arg("-cf")
    .arg(&tarball)
    .arg("-C")
    .arg(&staging)
    .arg(&name);
    command::text(&mut tar)?;
    std::fs::remove_dir_all(&staging)?;
    Ok(tarball)
}
