//! The pager's library inside the command, for `cargo install --path crates/cli`.
//!
//! Cargo installs executables alone. What it installs from a checkout therefore carries the library, and puts it in its
//! place when it is first needed (`src/carried_library.rs`). Every other build leaves it out: packages and `cargo xtask
//! install` have the file itself. `cargo install --path` reads `.cargo/config.toml` of this directory, and nothing that
//! is started at the root of the workspace does: the variable is set there.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set by `.cargo/config.toml` of this directory.
const VARIABLE: &str = "COLDPRESS_EMBED_LIBRARY";

/// Builds the library and says where it is, if it is to be embedded.
pub fn embed(manifest_dir: &Path) {
    println!("cargo:rustc-check-cfg=cfg(carries_library)");
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let preload = manifest_dir.join("../preload");
    let is_asked_for = env::var(VARIABLE).is_ok_and(|value| value == "yes");
    if !is_asked_for || !is_release || !preload.is_dir() {
        return;
    }
    for changed in ["..", "../../Cargo.lock"] {
        println!("cargo:rerun-if-changed={changed}");
    }
    let library = build(&preload);
    println!(
        "cargo:rustc-env=COLDPRESS_CARRIED_LIBRARY={}",
        library.display()
    );
    println!("cargo:rustc-cfg=carries_library");
}

/// In a target directory of its own: this one's is locked by the cargo that waits for us.
fn build(preload: &Path) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
    let target = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("library");
    let triple = env::var("TARGET").unwrap_or_default();
    let mut command = Command::new(cargo);
    command
        .args(["build", "--locked", "--profile", "dist", "--lib"])
        .arg("--manifest-path")
        .arg(preload.join("Cargo.toml"))
        .args(["--target", &triple, "--target-dir"])
        .arg(&target);
    for (name, _) in env::vars_os() {
        let is_of_this_build = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_FEATURE_") || name.starts_with("CARGO_CFG_")
        });
        if is_of_this_build {
            command.env_remove(name);
        }
    }
    let status = command
        .status()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        status.success(),
        "the pager's library was not built: {command:?} ended with {status}"
    );
    target.join(triple).join("dist/libcoldpress_preload.so")
}
