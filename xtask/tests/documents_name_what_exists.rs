//! What a document names of the sources is there: a path in `backticks` that ends with `.rs` is the end of the path of
//! a file, and a name directly behind it is a word of that file.
//!
//! Decisions (`docs/adr`) and `CHANGELOG.md` tell of their time, and are not looked at.

use std::fs;
use std::path::{Path, PathBuf};

/// How `docs/kernel-behaviour.md` and `docs/hazards.md` shorten folders, as they say at their head.
const SHORT: [(&str, &str); 2] = [("u/", "crates/uffd/tests/"), ("c/", "crates/cli/tests/")];

/// What stands for any file.
const ANY: &str = "file.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn collect(folder: &Path, ends_with: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_built = path.file_name().is_some_and(|name| name == "target");
        if path.is_dir() && !is_built {
            collect(&path, ends_with, found);
        } else if path.to_string_lossy().ends_with(ends_with) {
            found.push(path);
        }
    }
}

/// The documents that say what is.
fn documents() -> Vec<PathBuf> {
    let below = |folder: &str| fs::read_dir(root().join(folder)).unwrap();
    let docs = below("docs").chain(below("docs/internals"));
    let docs = docs.map(|entry| entry.unwrap().path());
    let top = fs::read_dir(root()).unwrap();
    let top = top.map(|entry| entry.unwrap().path());
    let is_present = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("CHANGELOG.md")
    };
    docs.chain(top).filter(is_present).collect()
}

/// A path of a Rust file, and the names that a text gives behind it: `path.rs` `one`, `two`.
#[derive(Debug, PartialEq)]
struct Named<'a> {
    path: &'a str,
    names: Vec<&'a str>,
}

/// What a text names.
fn named(text: &str) -> Vec<Named<'_>> {
    let mut parts = text.split('`');
    let mut found: Vec<Named> = Vec::new();
    // Whether a name that comes now belongs to the last path.
    let mut belongs = false;
    parts.next();
    while let (Some(quoted), between) = (parts.next(), parts.next()) {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_-/.".contains(c);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        if quoted.ends_with(".rs") && quoted.chars().all(is_path) && quoted != ANY {
            let (path, names) = (quoted, Vec::new());
            found.push(Named { path, names });
            belongs = between == Some(" ");
        } else if belongs && quoted.chars().all(is_name) {
            let last = found.last_mut().expect("a path comes first");
            last.names
                .push(quoted.rsplit("::").next().unwrap_or(quoted));
            belongs = between == Some(", ");
        } else {
            belongs = false;
        }
    }
    found
}

/// The files that a path may mean.
fn meant<'f>(path: &str, files: &'f [PathBuf]) -> Vec<&'f PathBuf> {
    let short = SHORT.iter().find_map(|(short, long)| {
        let rest = path.strip_prefix(short)?;
        Some(format!("{long}{rest}"))
    });
    let whole = short.unwrap_or_else(|| path.to_owned());
    files.iter().filter(|file| file.ends_with(&whole)).collect()
}

/// What a text names that is not in `files`; `read` gives the text of one.
fn absent(text: &str, files: &[PathBuf], read: impl Fn(&Path) -> String) -> Vec<String> {
    let mut absent = Vec::new();
    for Named { path, names } in named(text) {
        let meant = meant(path, files);
        if meant.is_empty() {
            absent.push(format!("`{path}`"));
        }
        let has = |name: &str| {
            let in_text = |text: String| {
                let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                words.into_iter().any(|word| word == name)
            };
            meant.iter().any(|file| in_text(read(file)))
        };
        let gone = names
            .into_iter()
            .filter(|name| !meant.is_empty() && !has(name));
        absent.extend(gone.map(|name| format!("`{path}` `{name}`")));
    }
    absent
}

#[test]
fn documents_name_what_exists() {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root().join(folder), ".rs", &mut files);
    }
    let mut missing = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        let shown = document.file_name().unwrap().to_string_lossy().into_owned();
        let absent = absent(&text, &files, |file| fs::read_to_string(file).unwrap());
        missing.extend(absent.into_iter().map(|name| format!("{shown}: {name}")));
    }
    assert!(
        missing.is_empty(),
        "named, and not there:\n{}",
        missing.join("\n")
    );
}

#[test]
fn what_is_not_there_is_noticed() {
    let files = [
        PathBuf::from("/x/crates/uffd/tests/a.rs"),
        "/x/b/c.rs".into(),
    ];
    let read = |_: &Path| "fn one() {} struct Two;".to_owned();
    let text =
        "`u/a.rs`, `c.rs` `X::one`, `Two` and `three`; `b/c.rs` `four`, `{a,b}.rs`, `d.rs` `one`";
    assert_eq!(absent(text, &files, read), ["`b/c.rs` `four`", "`d.rs`"]);
}
