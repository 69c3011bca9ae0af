//! Files for a disk: real ones of this machine, so that what is compressed is what people keep.

use anyhow::{Context, Result, bail};
use coldpress_harness::install::find_program;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they come from, unless another directory is named.
pub const FROM: &str = "/usr";
/// A file system needs so much for itself, and for the ends of files, in percent.
const OVERHEAD_PERCENT: u64 = 12;
/// How a file system is made: blocks as large as pages on devices of any kind, and inodes for many small files.
pub const EXT4: [&str; 7] = ["-q", "-m", "0", "-b", "4096", "-i", "8192"];
const BLOCK_BYTES: u64 = 4096;
/// Larger ones are left out: one of them would be much of the whole.
const LARGEST_BYTES: u64 = 32 << 20;

/// Files below `from` of so many bytes together, taken evenly from all there are, in the order of their paths.
fn choose(from: &Path, bytes: u64) -> Vec<PathBuf> {
    let mut all = Vec::new();
    collect(from, &mut all);
    all.sort();
    let there: u64 = all.iter().map(|(_, bytes)| bytes).sum();
    let mut chosen = Vec::new();
    let (mut passed, mut taken) = (0_u64, 0_u64);
    for (path, length) in all {
        passed += length;
        // As much of what was passed as is wanted of all.
        let due = u128::from(passed) * u128::from(bytes) / u128::from(there.max(1));
        if u128::from(taken + length) <= due.max(u128::from(length)) && taken + length <= bytes {
            taken += length;
            chosen.push(path);
        }
    }
    chosen
}

/// Regular files below a directory, with the bytes of their blocks. What cannot be read is passed over.
fn collect(directory: &Path, found: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(&entry.path(), found);
        } else if kind.is_file()
            && let Ok(metadata) = entry.metadata()
            && (1..=LARGEST_BYTES).contains(&metadata.len())
        {
            found.push((entry.path(), metadata.len().next_multiple_of(BLOCK_BYTES)));
        }
    }
}

/// Copies files below `from` of so many bytes below `to`, each into a directory for every few hundred.
pub fn copy(from: &Path, to: &Path, bytes: u64) -> Result<()> {
    for (number, file) in choose(from, bytes).iter().enumerate() {
        let directory = to.join(format!("{:04}", number / 256));
        if number % 256 == 0 {
            fs::create_dir_all(&directory)?;
        }
        let copy = directory.join(number.to_string());
        // The bytes alone, and not that a program may run as root.
        let copied = fs::read(file).and_then(|bytes| fs::write(&copy, bytes));
        copied.with_context(|| format!("cannot copy {}", file.display()))?;
    }
    Ok(())
}

/// An ext4 image of so many bytes in `dir`, full of files below `from` but for what the file system needs.
pub fn image(from: &Path, dir: &Path, bytes: u64) -> Result<PathBuf> {
    let (tree, image) = (dir.join("tree"), dir.join("image"));
    copy(from, &tree, bytes / 100 * (100 - OVERHEAD_PERCENT))?;
    run("mke2fs", &|command| {
        command.args(EXT4).args(["-t", "ext4", "-d"]).arg(&tree);
        command.arg(&image).arg(format!("{}K", bytes / 1024));
    })?;
    fs::remove_dir_all(&tree)?;
    Ok(image)
}

/// Runs a program of the system to a good end, and gives what it prints.
pub fn run(program: &str, arguments: &dyn Fn(&mut Command)) -> Result<String> {
    let path = find_program(program).with_context(|| format!("no {program} here"))?;
    let mut command = Command::new(path);
    arguments(&mut command);
    let output = command.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_from_everywhere_and_not_too_many() {
        let chosen = choose(Path::new(FROM), 4 << 20);
        let sum: u64 = chosen
            .iter()
            .map(|path| path.metadata().unwrap().len())
            .sum();
        assert!(sum <= 4 << 20 && sum > 1 << 20, "{sum}");
        let first = chosen[0].components().nth(2);
        assert!(chosen.iter().any(|path| path.components().nth(2) != first));
    }
}
