//! `cargo xtask book`: the documents of the repository as a book, `target/book/index.html`.
//!
//! The documents lie where they are read on GitHub, beside what they tell of, and link to each other there. mdbook wants
//! them below one folder, and would take all else in it along. So the pages that `book/SUMMARY.md` names are laid out
//! once more, under their own paths, in `target/book-source`. A link to what is no page leads to the repository.
//!
//! mdbook is installed with a fixed version below `target`, where the path has not got exactly that one: what a person
//! has installed stays.

mod links;
mod pictures;

use anyhow::{Context, Result, bail};
use coldpress_harness::install;
use coldpress_harness::workspace;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of the task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Also take pictures of the first screens, as a browser shows them (installs chromium with apt-get).
    #[arg(long)]
    pictures: bool,
}

const VERSION: &str = "0.5.4";
const SUMMARY: &str = "book/SUMMARY.md";
/// Files that pages link to and that mdbook is to copy.
const FILES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// Where a link to a file that is no page leads.
const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

/// Builds the book.
pub fn run(options: &Options) -> Result<u8> {
    let target = workspace::target_dir()?;
    let mdbook = install::pinned_program(
        "mdbook",
        VERSION,
        &["--no-default-features", "--features", "search"],
    )?;
    let (source, built) = (target.join("book-source"), target.join("book"));
    lay_out(&source)?;
    let status = Command::new(&mdbook)
        .arg("build")
        .arg(&source)
        .arg("--dest-dir")
        .arg(&built)
        .status()
        .with_context(|| format!("cannot start {}", mdbook.display()))?;
    if !status.success() {
        bail!("mdbook failed ({status})");
    }
    println!("{}", built.join("index.html").display());
    if options.pictures {
        for picture in pictures::make(&built)? {
            println!("{}", picture.display());
        }
    }
    Ok(0)
}

/// Writes what mdbook reads.
fn lay_out(source: &Path) -> Result<()> {
    match fs::remove_dir_all(source) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", source.display()));
        }
        _ => {}
    }
    let summary = read(Path::new(SUMMARY))?;
    let pages: BTreeSet<PathBuf> = links::relative(&summary)
        .iter()
        .filter_map(|link| links::resolve(Path::new(SUMMARY), &link.path))
        .collect();
    for page in &pages {
        write(source, page, &page_text(page, &read(page)?, &pages))?;
    }
    for file in FILES {
        write(source, Path::new(file), &read(Path::new(file))?)?;
    }
    write(
        source,
        Path::new("SUMMARY.md"),
        &summary.replace("](../", "]("),
    )?;
    for file in ["book.toml", "theme/coldpress.css"] {
        let text = read(&Path::new("book").join(file))?;
        write(source, &Path::new("..").join(file), &text)?;
    }
    Ok(())
}

/// The text of a page as mdbook wants it: what leads to no other page leads to the repository, and a README is the
/// index of its folder.
fn page_text(page: &Path, text: &str, pages: &BTreeSet<PathBuf>) -> String {
    let mut written = text.to_owned();
    for link in links::relative(text).into_iter().rev() {
        let Some(target) = links::resolve(page, &link.path).filter(|_| !link.path.is_empty())
        else {
            continue;
        };
        let end = link.at.start + link.path.len();
        if pages.contains(&target) {
            if target.ends_with("README.md") {
                written.replace_range(end - "README.md".len()..end, "index.md");
            }
        } else if !FILES.iter().any(|file| Path::new(file) == target) {
            written.replace_range(link.at, &format!("{REPOSITORY}{}", target.display()));
        }
    }
    written
}

fn read(path: &Path) -> Result<String> {
    let path = workspace::root().join(path);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(source: &Path, path: &Path, text: &str) -> Result<()> {
    let path = source.join("src").join(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_what_is_no_page_lead_to_the_repository() {
        let pages = [PathBuf::from("docs/a.md"), "b.md".into()].into();
        let text =
            "[b](../b.md#x) [c](../c.rs) [own](#own) [mit](../LICENSE-MIT) [e](https://e.org)";
        let expected = format!(
            "[b](../b.md#x) [c]({REPOSITORY}c.rs) [own](#own) [mit](../LICENSE-MIT) [e](https://e.org)"
        );
        assert_eq!(page_text(Path::new("docs/a.md"), text, &pages), expected);
    }
    #[test]
    fn a_readme_is_the_index_of_its_folder() {
        let pages = [PathBuf::from("docs/a.md"), "docs/x/README.md".into()].into();
        let written = page_text(Path::new("docs/a.md"), "[x](x/README.md#y)", &pages);
        assert_eq!(written, "[x](x/index.md#y)");
    }
}
