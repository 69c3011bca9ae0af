//! Hands the compiler what `coldpress --version` says of the build, and for `cargo install --path` the pager's library.

mod commit;
mod library;

use std::env;
use std::path::PathBuf;

const UNKNOWN: &str = "unknown";

fn main() {
    println!("cargo:rerun-if-changed=build");
    let manifest_dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let commit = commit::of(&manifest_dir);
    let commit = commit.as_deref().unwrap_or(UNKNOWN);
    println!("cargo:rustc-env=COLDPRESS_COMMIT={commit}");
    let target = env::var("TARGET").unwrap_or(UNKNOWN.to_owned());
    println!("cargo:rustc-env=COLDPRESS_TARGET={target}");
    library::embed(&manifest_dir);
}
