//! `cargo xtask lazyfree --source DIR`: LazyFree's own test program on our cache.
//!
//! Its source is not in this repository; DIR is a checkout of it. Its test program is compiled unchanged, with
//! our `crates/cache-c/include/upstream` in place of its `include` and our library in place of its
//! `src/cache`, and run with the suites and sizes of its `run_tests.sh`.

use anyhow::{Context, Result, bail};
use coldpress_harness::text::Table;
use coldpress_harness::{install, workspace};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Options of the task.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// A checkout of LazyFree (github.com/olegbbtr/lazyfree_cache)
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
}

/// Suites, with the gibibytes of memory that each fills.
const SUITES: [(&str, &str); 4] = [
    ("lazyfree", "2"),
    ("lazyfree_full", "2"),
    ("anon", "1"),
    ("disk", "2"),
];

/// What is compiled of LazyFree beside a program: helpers of its tests. (The rest of `src/cache` is
/// the cache itself.)
const HELPERS: [&str; 2] = ["src/util/refill.c", "src/cache/util.c"];

fn compile(source: &Path, library: &Path, program: &Path) -> Result<()> {
    let include = workspace::root().join("crates/cache-c/include/upstream");
    let compiler = std::env::var("CC").unwrap_or("cc".to_owned());
    let mut command = Command::new(&compiler);
    command
        .args(["-O2", "-g", "-march=native", "-std=gnu18", "-I"])
        .arg(include)
        .arg("-I")
        .arg(source.join("src/include"))
        .arg(source.join("src/test.c"))
        .args(HELPERS.map(|helper| source.join(helper)))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(program);
    let status = command
        .status()
        .with_context(|| format!("cannot start {compiler}"))?;
    if !status.success() {
        bail!("LazyFree's test program does not compile against our headers: {status}");
    }
    Ok(())
}

/// Runs the suites; 1 if one failed.
pub fn run(options: &Options) -> Result<u8> {
    let source = &options.source;
    if !source.join("src/test.c").is_file() {
        bail!(
            "{} has no src/test.c; get LazyFree's source with: git clone \
             https://github.com/olegbbtr/lazyfree_cache",
            source.display()
        );
    }
    install::packages(&[install::GCC])?;
    let built = workspace::cargo()
        .args(["build", "--release", "-p", "coldpress-cache-c"])
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("the cache's library does not build");
    }
    let library = workspace::target_dir()?.join("release/libcoldpress_cache_c.a");
    let (directory, _removed) = workspace::temporary_dir("lazyfree")?;
    let program = directory.join("test");
    compile(source, &library, &program)?;
    let mut table = Table::new(&["suite", "GiB", "s", "outcome"]);
    let mut failed = false;
    for (suite, gibibytes) in SUITES {
        let began = Instant::now();
        let output = Command::new(&program)
            .args([suite, gibibytes])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let passed = output.status.success();
        if !passed {
            failed = true;
            eprint!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
        }
        table.row(&[
            suite.to_owned(),
            gibibytes.to_owned(),
            format!("{:.1}", began.elapsed().as_secs_f64()),
            match passed {
                true => "passed".to_owned(),
                false => output.status.to_string(),
            },
        ]);
    }
    println!("{table}");
    Ok(u8::from(failed))
}
