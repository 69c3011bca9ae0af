//! The licences of what is linked into the binaries: crates, and the C libraries in them.
//!
//! Cargo tells which crates are linked; the texts lie in their sources. A crate whose sources hold none is named with
//! what its manifest says.

use anyhow::{Context, Result};
use coldpress_harness::workspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The packages whose binaries are installed.
const INSTALLED: [&str; 3] = ["coldpress-cli", "coldpress-preload", "coldpress-cache-c"];

/// Names and licences of all, and each text once.
pub fn of_what_is_linked() -> Result<String> {
    let output = workspace::cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .context("cannot start cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let mut list = String::new();
    // Each text, with the packages that hold it.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let linked = linked(&metadata)?;
    let mut foreign: Vec<&Value> = packages
        .iter()
        .filter(|package| !package["source"].is_null())
        .filter(|package| package["id"].as_str().is_some_and(|id| linked.contains(id)))
        .collect();
    foreign.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    for package in foreign {
        let text = |key: &str| package[key].as_str().unwrap_or("not said");
        let name = format!("{} {}", text("name"), text("version"));
        let _ = writeln!(list, "{name}: {}", text("license"));
        let manifest = Path::new(text("manifest_path"));
        for path in licence_files(manifest.parent().unwrap_or(manifest), 2) {
            let bytes = fs::read(&path)?;
            let licence = String::from_utf8_lossy(&bytes).trim().to_owned();
            if licence.lines().count() < 3 {
                // A link to the text, as some archives hold it.
                continue;
            }
            let holders = texts.entry(licence).or_default();
            if !holders.contains(&name) {
                holders.push(name.clone());
            }
        }
    }
    let mut all = format!(
        "The binaries of Coldpress hold parts of these, and of Rust's standard library (MIT OR Apache-2.0):\n\n{list}"
    );
    for (licence, holders) in texts {
        let line = "-".repeat(80);
        let _ = write!(all, "\n{line}\n{}:\n\n{licence}\n", holders.join(", "));
    }
    Ok(all)
}

/// The ids of all packages that are linked into what is installed.
fn linked(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"]
        .as_array()
        .context("no resolve")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let is_macro = |id: &str| {
        let package = packages.iter().find(|package| package["id"] == id);
        let targets = package.and_then(|package| package["targets"].as_array());
        let mut targets = targets.into_iter().flatten();
        targets.any(|target| target["kind"][0] == "proc-macro")
    };
    let mut waiting: Vec<String> = packages
        .iter()
        .filter(|package| INSTALLED.iter().any(|name| package["name"] == *name))
        .filter_map(|package| package["id"].as_str().map(str::to_owned))
        .collect();
    let mut linked = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if is_macro(&id) || !linked.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == *id);
        let dependencies = node.and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array();
            let mut kinds = kinds.into_iter().flatten();
            if kinds.any(|kind| kind["kind"].is_null()) {
                waiting.extend(dependency["pkg"].as_str().map(str::to_owned));
            }
        }
    }
    Ok(linked)
}

/// Files of licences in a directory and in so many levels below it.
fn licence_files(directory: &Path, levels: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_uppercase();
        let is_licence = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"]
            .iter()
            .any(|word| name.starts_with(word));
        if path.is_file() && is_licence {
            found.push(path);
        } else if path.is_dir() && levels > 0 {
            found.extend(licence_files(&path, levels - 1));
        }
    }
    found
}
