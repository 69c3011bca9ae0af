//! `cargo install --path crates/cli` in the clean root: what it installs is complete.
//!
//! Rust is this machine's. The sources are those of the commit, the sources of other crates a copy made by `cargo
//! vendor`: the root needs no registry, and nothing of this machine's build is in it.

use super::check::{Check, check_by, succeed};
use super::clean_root::{CleanRoot, USER, Who};
use super::command;
use anyhow::{Context, Result};
use coldpress_harness::workspace;
use std::path::Path;
use std::process::Command;

/// Checks of it, in a root where no package is installed.
pub const CHECKS: &[Check] = &[
    check_by(
        Who::User,
        "cargo install --path crates/cli needs Rust and a C compiler alone",
        r"cd ~/coldpress && PATH=/rust/bin:$PATH cargo install --quiet --locked --path crates/cli
        cd ~ && rm -r coldpress && test -z $(find ~/.cargo/lib ~/.cargo/share 2>/dev/null)",
    ),
    check_by(
        Who::UserWithRule,
        "a real program runs in less by what cargo has installed, as an ordinary user",
        "run ~/.cargo/bin/coldpress
        ~/.cargo/bin/coldpress doctor | grep -q $HOME/.cargo/lib/coldpress/libcoldpress_preload.so",
    ),
    check_by(
        Who::UserWithRule,
        "the library of another version is replaced",
        "echo another >> ~/.cargo/lib/coldpress/libcoldpress_preload.so
        run ~/.cargo/bin/coldpress
        tail -c 8 ~/.cargo/lib/coldpress/libcoldpress_preload.so | grep -q another && exit 1
        test $(ls -A ~/.cargo/lib/coldpress | wc -l) = 1",
    ),
    check_by(
        Who::Root,
        "a real program runs in less by what cargo has installed, as root",
        "mkdir -p ~/.cargo/bin && cp /home/joe/.cargo/bin/coldpress ~/.cargo/bin
        run ~/.cargo/bin/coldpress
        ~/.cargo/bin/coldpress doctor | grep -q /root/.cargo/lib/coldpress/libcoldpress_preload.so
        rm -r ~/.cargo",
    ),
    check_by(
        Who::User,
        "manual pages and completions are where man and bash look for them",
        r"PATH=~/.cargo/bin:$PATH
        coldpress manual --to ~/.cargo/share/man/man1
        MANWIDTH=80 man coldpress-run | grep -q cold-after
        mkdir -p ~/.local/share/bash-completion/completions
        coldpress completions bash > ~/.local/share/bash-completion/completions/coldpress
        completes_in_bash
        rm -r ~/.cargo ~/.local",
    ),
];

/// Where the sources of other crates are seen in the root.
const CRATES: &str = "/crates";

/// Brings sources and Rust into the root.
pub fn prepare(root: &mut CleanRoot) -> Result<()> {
    let sysroot = command::text(Command::new("rustc").args(["--print", "sysroot"]))?;
    root.show(Path::new(sysroot.trim()).to_owned(), "/rust");
    let package = workspace::target_dir()?.join("package");
    let crates = package.join("crates");
    command::text(
        workspace::cargo()
            .args(["vendor", "--locked", "--quiet"])
            .arg(&crates),
    )
    .context("the sources of other crates cannot be copied")?;
    root.show(crates, CRATES);
    let sources = package.join("sources.tar");
    let mut archive = Command::new("git");
    archive.arg("-C").arg(workspace::root());
    archive
        .args(["archive", "--prefix=coldpress/", "--output"])
        .arg(&sources)
        .arg("HEAD");
    command::text(&mut archive)?;
    root.bring(&sources)?;
    let script = format!(
        r#"tar -C /home/{USER} -xf /packages/sources.tar
        mkdir /home/{USER}/.cargo
        printf '[source.crates-io]\nreplace-with = "copied"\n[source.copied]\ndirectory = "{CRATES}"\n' \
            > /home/{USER}/.cargo/config.toml
        chown -R {USER}: /home/{USER}/.cargo /home/{USER}/coldpress"#
    );
    succeed(root, &script).context("the sources are not there")?;
    Ok(())
}
