//! The commit that the command is built of.
//!
//! It is that of the crate's package where `cargo package` made one (`.cargo_vcs_info.json`), else that of the git
//! repository that this directory belongs to. A tarball of the sources has neither.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Digits of a commit's name that are shown.
const DIGITS: usize = 12;

/// The commit, where it is known.
pub fn of(manifest_dir: &Path) -> Option<String> {
    packaged(manifest_dir).or_else(|| checked_out(manifest_dir))
}

/// The commit that `cargo package` made the crate's package of.
fn packaged(manifest_dir: &Path) -> Option<String> {
    let text = fs::read_to_string(manifest_dir.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    let digits = rest.split('"').nth(1)?;
    shortened(digits)
}

/// The commit that is checked out. A repository around a copy of the sources is not theirs.
fn checked_out(manifest_dir: &Path) -> Option<String> {
    let root = manifest_dir.ancestors().nth(2)?.canonicalize().ok()?;
    let top = git(manifest_dir, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    // The log grows with each commit and each checkout; a shallow clone may lack it.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(manifest_dir, &["rev-parse", "--git-path", name]);
        let path = path.map(|path| manifest_dir.join(path));
        if let Some(path) = path.filter(|path| path.exists()) {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    shortened(&git(manifest_dir, &["rev-parse", "HEAD"])?)
}

fn git(directory: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(directory)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn shortened(digits: &str) -> Option<String> {
    let is_commit = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| digits[..DIGITS].to_owned())
}
