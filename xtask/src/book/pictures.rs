//! `cargo xtask book --pictures`: the first screen of the pages that a reader comes to first, as a browser shows it.
//! They are looked at, and not kept.

use anyhow::{Context, Result, bail};
use coldpress_harness::install::{self, program};
use coldpress_harness::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pages of the book, without `.html`.
const PAGES: [&str; 6] = [
    "index",
    "docs/install",
    "docs/cli",
    "docs/measurements",
    "docs/limits",
    "docs/internals/index",
];

/// Width and height of the screen, in pixels: that of a laptop.
const SCREEN: &str = "1280,900";

/// Makes them of the book at `built`, in `target/book-pictures`: where they are.
pub fn make(built: &Path) -> Result<Vec<PathBuf>> {
    install::packages(&[program("chromium", "chromium")])?;
    let folder = workspace::target_dir()?.join("book-pictures");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let picture = |page: &&str| {
        let picture = folder.join(page.replace('/', "-")).with_extension("png");
        show(&built.join(page).with_extension("html"), &picture)?;
        Ok(picture)
    };
    PAGES.iter().map(picture).collect()
}

/// Writes the first screen of `page` to `picture`.
fn show(page: &Path, picture: &Path) -> Result<()> {
    if !page.exists() {
        bail!("the book has no page {}", page.display());
    }
    // An old one must not pass for this one's.
    let _ = fs::remove_file(picture);
    let mut browser = Command::new("chromium");
    browser
        .args(["--headless", "--disable-gpu", "--hide-scrollbars"])
        // As root it starts without its sandbox only; what it shows is ours.
        .args(["--no-sandbox", "--virtual-time-budget=5000"])
        .arg(format!("--window-size={SCREEN}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let output = browser.output().context("cannot start chromium")?;
    if !output.status.success() || !picture.exists() {
        let said = String::from_utf8_lossy(&output.stderr);
        let status = output.status;
        bail!(
            "chromium made no picture of {} ({status}): {said}",
            page.display()
        );
    }
    Ok(())
}
