//! What to type to start this command again: hints are there to be copied.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

static NAME: OnceLock<String> = OnceLock::new();

/// Takes note of how it was started.
pub fn note() {
    let typed = env::args_os().next().unwrap_or_default();
    let typed = typed.to_string_lossy().into_owned();
    let by_path = typed.contains('/') && !is_found_in_path();
    let _ = NAME.set(if by_path {
        typed
    } else {
        "coldpress".to_owned()
    });
}

/// `coldpress`, where that starts this command; else the path that it was started by.
pub fn get() -> &'static str {
    NAME.get().map_or("coldpress", String::as_str)
}

/// Whether the name alone starts this very file.
fn is_found_in_path() -> bool {
    let found = env::var_os("PATH").and_then(|path| {
        let files = env::split_paths(&path).map(|directory| directory.join("coldpress"));
        files.into_iter().find(|file| file.is_file())
    });
    let same = |file: &Path| fs::canonicalize(file).ok() == env::current_exe().ok();
    found.is_some_and(|file| same(&file))
}
