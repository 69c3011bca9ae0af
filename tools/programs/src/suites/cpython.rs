//! CPython's own tests, as Debian packages them: modules that use memory, threads, processes and signals.

use super::{Suite, Verdicts};
use anyhow::Result;
use coldpress_harness::install::{Package, Probe};
use std::fs;
use std::path::{Path, PathBuf};

/// CPython.
pub struct CPython;

const REPORT: &str = "report.xml";

/// Modules of tests.
///
/// Without test_asyncio and test_socketserver, which want a network, and test_lzma, which holds 100 MiB that do not
/// compress.
const UNITS: &[&str] = &[
    "test_array",
    "test_asyncgen",
    "test_atexit",
    "test_bisect",
    "test_buffer",
    "test_bufio",
    "test_bytes",
    "test_bz2",
    "test_collections",
    "test_concurrent_futures",
    "test_context",
    "test_contextlib",
    "test_copy",
    "test_ctypes",
    "test_decimal",
    "test_deque",
    "test_dict",
    "test_eintr",
    "test_epoll",
    "test_exceptions",
    "test_faulthandler",
    "test_fcntl",
    "test_file",
    "test_fileio",
    "test_fork1",
    "test_functools",
    "test_gc",
    "test_generators",
    "test_gzip",
    "test_hashlib",
    "test_heapq",
    "test_io",
    "test_itertools",
    "test_json",
    "test_list",
    "test_long",
    "test_marshal",
    "test_memoryview",
    "test_mmap",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_spawn",
    "test_openpty",
    "test_ordered_dict",
    "test_os",
    "test_pickle",
    "test_poll",
    "test_popen",
    "test_posix",
    "test_pty",
    "test_queue",
    "test_re",
    "test_resource",
    "test_select",
    "test_selectors",
    "test_set",
    "test_shutil",
    "test_signal",
    "test_socket",
    "test_sort",
    "test_struct",
    "test_subprocess",
    "test_tarfile",
    "test_tempfile",
    "test_thread",
    "test_threadedtempfile",
    "test_threading",
    "test_threading_local",
    "test_threadsignals",
    "test_tracemalloc",
    "test_tuple",
    "test_unicode",
    "test_wait3",
    "test_wait4",
    "test_weakref",
    "test_weakset",
    "test_xml_etree",
    "test_zipfile",
    "test_zlib",
];

impl Suite for CPython {
    fn name(&self) -> &'static str {
        "cpython"
    }

    fn packages(&self) -> &'static [Package] {
        &[
            Package {
                name: "python3",
                probe: Probe::Program("python3"),
            },
            Package {
                // Of Debian 12; the name has the version in it.
                name: "libpython3.11-testsuite",
                probe: Probe::Command(&["/usr/bin/python3", "-c", "import test.test_signal"]),
            },
        ]
    }

    fn units(&self) -> &'static [&'static str] {
        UNITS
    }

    fn prepare(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }

    fn command(&self, _dir: &Path, unit: &str, scratch: &Path, _number: u16) -> Vec<String> {
        let report = scratch.join(REPORT).display().to_string();
        let line = [
            "/usr/bin/python3",
            "-m",
            "test",
            "--timeout=500",
            "--junit-xml",
        ];
        let line = line.into_iter().map(str::to_owned);
        line.chain([report, unit.to_owned()]).collect()
    }

    fn place(&self, _dir: &Path, scratch: &Path) -> PathBuf {
        scratch.into()
    }

    fn verdicts(&self, _unit: &str, _output: &str, scratch: &Path) -> Verdicts {
        cases(&fs::read_to_string(scratch.join(REPORT)).unwrap_or_default())
    }
}

/// The cases of a report: failed are those with a `<failure>` or an `<error>` in them.
fn cases(report: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for case in report.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        let Some(name) = case
            .split("name=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next())
        else {
            continue;
        };
        let passed = !case.contains("<failure") && !case.contains("<error");
        let known = verdicts.entry(name.to_owned()).or_insert(true);
        *known &= passed;
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_and_errors_are_told_from_the_rest() {
        let report = "<testsuite tests=\"3\"><testcase name=\"a\" time=\"1\" /><testcase name=\"b\"><failure type=\"x\">\
                      y</failure></testcase><testcase name=\"c\"><error>z</error></testcase></testsuite>";
        let verdicts = cases(report);
        assert_eq!(verdicts.len(), 3);
        assert!(verdicts["a"] && !verdicts["b"] && !verdicts["c"]);
    }
}
