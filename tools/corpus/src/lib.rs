//! `cargo xtask corpus`: pages of real programs, for `coldpress eval`.
//!
//! Eight programs are started one after the other, filled with data such as they usually hold,
//! and captured while they run. The files stay out of git: they are large, and whoever wants
//! them makes them.
//!
//! | module | holds |
//! |---|---|
//! | `filled` | programs that tell when they hold their data, and wait |
//! | `compilers` | compilers, stopped near the peak of their memory |
//! | `programs/` | the data: one small program each |

mod compilers;
mod filled;

pub use filled::python;

use anyhow::{Context, Result, bail};
use coldpress_harness::install::{self, PYTHON, Package, Probe, REDIS, program};
use coldpress_harness::{text, workspace};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `cargo xtask corpus`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// At most this much of each program, as `coldpress capture --limit` takes it
    #[arg(long, value_name = "SIZE", default_value = "36M")]
    size: String,
    /// Only this program (can be repeated)
    #[arg(long = "only", value_name = "NAME")]
    only: Vec<String>,
    /// Capture anew what is there already
    #[arg(long)]
    again: bool,
}

/// A program to capture.
struct Subject {
    name: &'static str,
    needs: &'static [Package],
    /// Starts it, captures it by the given means, ends it.
    run: fn(&Capture) -> Result<()>,
}

/// pandas, for the system's Python.
pub const PANDAS: Package = Package {
    name: "python3-pandas",
    probe: Probe::PythonModule("pandas"),
};
/// A Java compiler and virtual machine.
pub const JAVA: Package = program("default-jdk-headless", "javac");
/// Node.
pub const NODE: Package = program("nodejs", "node");
const GXX: Package = program("g++", "g++");

const SUBJECTS: [Subject; 8] = [
    Subject {
        name: "redis",
        needs: &[REDIS, PYTHON],
        run: filled::redis,
    },
    Subject {
        name: "cpython",
        needs: &[PYTHON],
        run: filled::cpython,
    },
    Subject {
        name: "pandas",
        needs: &[PYTHON, PANDAS],
        run: filled::pandas,
    },
    Subject {
        name: "jvm",
        needs: &[JAVA],
        run: filled::jvm,
    },
    Subject {
        name: "node",
        needs: &[NODE],
        run: filled::node,
    },
    Subject {
        name: "sqlite",
        needs: &[PYTHON],
        run: filled::sqlite,
    },
    Subject {
        name: "cc1plus",
        needs: &[GXX],
        run: compilers::cc1plus,
    },
    Subject {
        name: "rustc",
        needs: &[],
        run: compilers::rustc,
    },
];

/// Where the files go: `$COLDPRESS_CORPUS`, or `corpus/` in the repository.
fn directory() -> PathBuf {
    match std::env::var_os("COLDPRESS_CORPUS") {
        Some(path) if !path.is_empty() => path.into(),
        _ => workspace::root().join("corpus"),
    }
}

/// Captures the programs.
pub fn run(options: &Options) -> Result<u8> {
    let names = || SUBJECTS.iter().map(|subject| subject.name);
    if let Some(unknown) = options
        .only
        .iter()
        .find(|only| names().all(|name| name != *only))
    {
        let names: Vec<_> = names().collect();
        bail!(
            "there is no program {unknown:?}: choose among {}",
            names.join(", ")
        );
    }
    let directory = directory();
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let file = |subject: &Subject| directory.join(format!("{}.pages", subject.name));
    let is_wanted = |subject: &&Subject| {
        let named = options.only.is_empty() || options.only.iter().any(|only| only == subject.name);
        named && (options.again || !file(subject).exists())
    };
    let wanted: Vec<_> = SUBJECTS.iter().filter(is_wanted).collect();
    let mut needs: Vec<Package> = Vec::new();
    for package in wanted.iter().flat_map(|subject| subject.needs) {
        if needs.iter().all(|need| need.name != package.name) {
            needs.push(*package);
        }
    }
    if !needs.is_empty() {
        install::packages(&needs)?;
    }
    let coldpress = workspace::build_release()?;
    for subject in &wanted {
        let capture = Capture {
            coldpress: &coldpress,
            file: file(subject),
            limit: &options.size,
        };
        (subject.run)(&capture).with_context(|| format!("{} was not captured", subject.name))?;
    }
    let mut total = 0;
    for subject in &SUBJECTS {
        total += file(subject)
            .metadata()
            .map_or(0, |metadata| metadata.len());
    }
    println!("{} in {}", text::mib(total), directory.display());
    println!(
        "measure with: {} eval {}/*.pages",
        coldpress.display(),
        directory.display()
    );
    Ok(0)
}

/// How to capture one program.
struct Capture<'a> {
    coldpress: &'a Path,
    file: PathBuf,
    limit: &'a str,
}

impl Capture<'_> {
    /// Captures a process; what the command prints is shown.
    fn capture(&self, pid: u32) -> Result<()> {
        let status = Command::new(self.coldpress)
            .args(["capture", &pid.to_string(), "--limit", self.limit, "-o"])
            .arg(&self.file)
            .status()
            .with_context(|| format!("cannot start {}", self.coldpress.display()))?;
        match status.success() {
            true => Ok(()),
            false => bail!("coldpress capture ended with {status}"),
        }
    }
}

/// Where the programs that make the data are.
pub fn programs() -> PathBuf {
    workspace::root().join("tools/corpus/programs")
}
