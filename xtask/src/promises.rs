//! The promises: the tests of the finished command on real programs, in three kinds of steps.
//!
//! What compares with times of a native run, or changes the whole machine ([`ALONE`]), runs with nothing beside it, one
//! test at a time. What measures memory, or waits for something to happen soon ([`ONE_BY_ONE`]), has only steps in the
//! background beside it: they take no processor that it wants. All others know what each byte must be, however long it
//! takes: they run in parts at the same time, and beside whatever else measures nothing.
//!
//! All promises are one program, each file a module of it; a step names the modules whose tests it runs
//! ([`filters`]).

use crate::steps::Step;
use anyhow::{Context, Result};
use coldpress_harness::install::{self, Package, Probe, program};
use coldpress_harness::workspace;
use std::fs;

/// Files of [`DIRECTORY`] that need the machine for themselves.
const ALONE: [&str; 5] = [
    // So many system calls of each kind must come within its time.
    "a_million_restores_none_wrong",
    // Held memory and faults are compared with what they are natively.
    "output_is_identical_to_native",
    // Processor times are compared with native ones.
    "hostile_prefork",
    // Differences of times.
    "neighbours_learn_nothing",
    // It changes how the machine accounts for memory.
    "hostile_accounting",
];

/// Files whose tests must not wait for a processor for long.
const ONE_BY_ONE: [&str; 8] = [
    // Held memory, faults and cold ages are compared with a limit.
    "a_cold_age_does_not_stop_the_budget",
    "freed_storage_is_compacted",
    "restore_near_cgroup_limit",
    "scans_find_their_pages_in_place",
    "the_working_set_is_found",
    "what_is_restored_is_not_kept_twice",
    "write_back_holds_the_budget",
    // When a fault counts as stuck.
    "stalled_faults_are_reported",
];

/// Files that are run a second time, with a pager that has every assertion: that locks are taken in the order of their ranks,
/// and by a thread of the program while no signal can come. Between them they call all that the preload library wraps.
const CHECKED: [&str; 16] = [
    "brk_grows_zeros",
    "failed_calls_take_nothing_away",
    "fork_advice_keeps_its_meaning",
    "fork_preserves_content",
    "hostile_exec",
    "hostile_futex",
    "hostile_namespaces",
    "hostile_replaced",
    "hostile_sharing",
    "hostile_tunables",
    "madvised_memory_reads_zeros",
    "mremap_carries_content",
    "programs_keep_their_own_userfaultfd",
    "raw_clone_never_reads_zeros",
    "removing_while_restoring",
    "robust_mutexes_are_inherited",
];

/// Where the promises are: a file each, and `main.rs`, which names them all.
const DIRECTORY: &str = "crates/promises/tests/promises";

/// How the files begin that `cargo xtask hostile` runs.
const HOSTILE: &str = "hostile_";

/// What the promises' programs need.
pub const PACKAGES: &[Package] = &[
    install::GCC,
    install::GXX,
    install::REDIS,
    program("redis-tools", "redis-cli"),
    program("memtester", "memtester"),
    program("stress-ng", "stress-ng"),
    program("gdb", "gdb"),
    install::PYTHON,
    Package {
        name: "python3-numpy",
        probe: Probe::PythonModule("numpy"),
    },
    // For the command's tests, which read its OpenMetrics.
    Package {
        name: "python3-prometheus-client",
        probe: Probe::Command(&["/usr/bin/python3", "-c", "import prometheus_client"]),
    },
    program("util-linux", "setpriv"),
    program("musl-tools", "musl-gcc"),
    program("clang", "clang"),
    program("valgrind", "valgrind"),
    Package {
        name: "libclang-rt-dev",
        probe: Probe::Command(&[
            "sh",
            "-c",
            "test -e \"$(clang -print-file-name=libclang_rt.asan-x86_64.a)\" || test -e \"$(clang -print-runtime-dir)/libclang_rt.asan-x86_64.a\"",
        ]),
    },
    Package {
        name: "libgoogle-perftools-dev",
        probe: Probe::Command(&[
            "sh",
            "-c",
            "test -e \"$(gcc -print-file-name=libtcmalloc.so)\"",
        ]),
    },
];

/// All files of promises, by name.
fn files() -> Result<Vec<String>> {
    let dir = workspace::root().join(DIRECTORY);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path.file_stem().expect("a file has a name");
            let stem = stem.to_string_lossy();
            if stem != "main" {
                files.push(stem.into_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// These files, as the test harness is told of them: it runs every test whose name has one of these words in it, and the
/// name of a test begins with that of its file. No file's name may end as another's does, nor may a file have modules.
fn filters<'a>(files: impl Iterator<Item = &'a str>) -> String {
    files.map(|file| format!(" {file}::")).collect()
}

fn step(headline: impl Into<String>, filters: &str, binary: &str) -> Step {
    let arguments = format!(
        "test --release -p coldpress-promises --test promises -- --test-threads=1 --show-output{filters}"
    );
    Step::new(headline, arguments).with("COLDPRESS_BIN", binary)
}

/// The unit tests of the crate that the promises are written with. The filters are for every program of a call, so they
/// have a call of their own.
pub fn unit_tests() -> Step {
    Step::new(
        "What the promises are written with",
        "test --release -p coldpress-promises --lib -- --test-threads=1 --show-output",
    )
    .beside_others()
}

/// Builds them all, and what they are written with.
pub fn build() -> Step {
    Step::new(
        "The promises, built",
        "test --release -p coldpress-promises --lib --test promises --no-run",
    )
}

/// The promises that `cargo xtask hostile` runs, in one step.
pub fn hostile(binary: &str) -> Result<Step> {
    let files = files()?;
    let hostile = files.iter().map(String::as_str);
    let hostile = filters(hostile.filter(|file| file.starts_with(HOSTILE)));
    Ok(step("Hostile programs", &hostile, binary))
}

/// The promises that are run with a pager that has every assertion: the command takes that library.
pub fn checked(binary: &str, library: &str) -> Step {
    let headline = "Promises of a pager with every assertion";
    step(headline, &filters(CHECKED.into_iter()), binary)
        .with("COLDPRESS_PRELOAD_LIBRARY", library)
        .beside_others()
}

/// The steps of the promises that may run beside others: so many that no processor waits for long for the last one.
const PARTS: usize = 12;

/// Files that take longest, beginning with the longest: each begins a part, and the first parts are the longest.
const LONGEST: [&str; 10] = [
    "written_back_pages_keep_content",
    "hostile_sanitizers",
    "followed_children_are_managed",
    "recoded_pages_keep_content",
    "hostile_seccomp",
    "hostile_budget",
    "programs_pass_natively",
    "hostile_replaced",
    "hostile_layout",
    "every_codec_and_storage_keeps_content",
];

/// Whether the tests of a file may run beside others.
fn is_beside_others(file: &str) -> bool {
    !ALONE.contains(&file) && !ONE_BY_ONE.contains(&file)
}

/// The promises that run beside each other, in parts.
pub fn beside_others(binary: &str) -> Result<Vec<Step>> {
    let files = files()?;
    let beside = files.iter().map(String::as_str);
    let beside = beside.filter(|file| is_beside_others(file) && !LONGEST.contains(file));
    let beside: Vec<_> = LONGEST.into_iter().chain(beside).collect();
    let part = |first| {
        let files = beside.iter().skip(first).step_by(PARTS).copied();
        let headline = format!("Promises on content, {} of {PARTS}", first + 1);
        step(headline, &filters(files), binary).beside_others()
    };
    Ok((0..PARTS).map(part).collect())
}

/// The promises that run one by one.
pub fn one_by_one(binary: &str) -> Step {
    let headline = "Promises that run one by one";
    step(headline, &filters(ONE_BY_ONE.into_iter()), binary)
}

/// The promises that run alone.
pub fn alone(binary: &str) -> Step {
    let headline = "Promises that need the machine for themselves";
    step(headline, &filters(ALONE.into_iter()), binary).alone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_checked_or_takes_long_is_there() {
        let files = files().unwrap();
        for file in CHECKED.into_iter().chain(LONGEST) {
            assert!(files.iter().any(|known| known == file), "{file}");
            assert!(is_beside_others(file), "{file} may not run beside others");
        }
    }

    #[test]
    fn every_promise_is_in_one_step() {
        let mut steps = beside_others("coldpress").unwrap();
        steps.extend([one_by_one("coldpress"), alone("coldpress")]);
        let lines: Vec<_> = steps.iter().map(Step::line).collect();
        let is_named = |line: &str, file: &str| {
            let filter = format!("{file}::");
            line.split(' ').any(|word| word == filter)
        };
        let files = files().unwrap();
        for file in &files {
            let named = lines.iter().filter(|line| is_named(line, file)).count();
            assert_eq!(named, 1, "{file}");
        }
        let [.., one_by_one, alone] = &lines[..] else {
            panic!("{lines:?}");
        };
        let of_each = [(one_by_one, &ONE_BY_ONE[..]), (alone, &ALONE[..])];
        for (line, names) in of_each {
            for name in names {
                assert!(files.iter().any(|known| known == name), "no file {name}");
                assert!(is_named(line, name), "{name}: {line}");
            }
        }
    }

    /// A filter is for one file and for all of it.
    #[test]
    fn a_filter_chooses_the_tests_of_one_file() {
        let files = files().unwrap();
        for file in &files {
            let ends = |other: &&String| *other != file && other.ends_with(file.as_str());
            let other = files.iter().find(ends);
            assert_eq!(other, None, "the filter for {file} chooses this as well");
            let path = workspace::root().join(DIRECTORY).join(format!("{file}.rs"));
            let text = fs::read_to_string(path).unwrap();
            let mut lines = text.lines().map(str::trim_start);
            let module =
                lines.find(|line| line.starts_with("mod ") || line.starts_with("pub mod "));
            assert_eq!(module, None, "{file}: another file's filter may choose it");
        }
    }
}
