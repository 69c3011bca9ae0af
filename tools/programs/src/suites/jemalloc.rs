//! jemalloc's own tests, of its source package: an allocator maps, drops and reuses memory in every way there is.

use super::{Suite, Verdicts, source};
use anyhow::Result;
use coldpress_harness::install::{self, Package, program};
use std::path::{Path, PathBuf};

/// jemalloc.
pub struct Jemalloc;

const PACKAGES: &[Package] = &[
    install::GCC,
    install::GXX,
    program("make", "make"),
    program("autoconf", "autoconf"),
    program("tar", "tar"),
];

impl Suite for Jemalloc {
    fn name(&self) -> &'static str {
        "jemalloc"
    }

    fn packages(&self) -> &'static [Package] {
        PACKAGES
    }

    // Without those that test nothing in a plain build: double_free, prof_*, safety_check, smallocx.
    fn units(&self) -> &'static [&'static str] {
        &[
            "unit/arena_reset",
            "unit/background_thread",
            "unit/background_thread_enable",
            "unit/base",
            "unit/bitmap",
            "unit/ckh",
            "unit/decay",
            "unit/edata_cache",
            "unit/emitter",
            "unit/extent_quantize",
            "unit/fork",
            "unit/hash",
            "unit/hpa",
            "unit/huge",
            "unit/junk",
            "unit/mallctl",
            "unit/mq",
            "unit/mtx",
            "unit/pa",
            "unit/pack",
            "unit/pages",
            "unit/psset",
            "unit/ql",
            "unit/qr",
            "unit/rb",
            "unit/retained",
            "unit/rtree",
            "unit/slab",
            "unit/smoothstep",
            "unit/stats",
            "unit/stats_print",
            "unit/tcache_max",
            "unit/thread_event",
            "unit/tsd",
            "unit/zero",
            "integration/aligned_alloc",
            "integration/allocated",
            "integration/extent",
            "integration/malloc",
            "integration/mallocx",
            "integration/MALLOCX_ARENA",
            "integration/overflow",
            "integration/posix_memalign",
            "integration/rallocx",
            "integration/sdallocx",
            "integration/slab_sizes",
            "integration/thread_arena",
            "integration/thread_tcache_enabled",
            "integration/xallocx",
        ]
    }

    fn prepare(&self, dir: &Path) -> Result<()> {
        let source = source::unpacked(dir, "jemalloc")?;
        if source.join("test/integration/xallocx").is_file() {
            return Ok(());
        }
        source::build(&source, "autoconf", &[])?;
        source::build(
            &source,
            "./configure",
            &["--quiet", "--with-version=5.3.0-0-g0"],
        )?;
        source::build(&source, "make", &["-j2", "tests_unit", "tests_integration"])
    }

    fn command(&self, dir: &Path, unit: &str, _scratch: &Path, _number: u16) -> Vec<String> {
        // As test/test.sh does it: a script may say which options a program wants.
        let script = "conf=\"\"; if [ -e test/$1.sh ]; then enable_fill=1; enable_prof=0; . test/$1.sh; \
                      conf=$MALLOC_CONF; fi; MALLOC_CONF=$conf exec test/$1";
        let library = format!("LD_LIBRARY_PATH={}", dir.join("source/lib").display());
        let line = ["env", &library, "sh", "-c", script, "sh", unit];
        line.map(str::to_owned).into()
    }

    fn place(&self, dir: &Path, _scratch: &Path) -> PathBuf {
        dir.join("source")
    }

    fn verdicts(&self, unit: &str, output: &str, _scratch: &Path) -> Verdicts {
        lines(unit, output)
    }
}

/// `test_name (kind): pass`.
fn lines(unit: &str, output: &str) -> Verdicts {
    let of_line = |line: &str| {
        let (name, verdict) = line.rsplit_once(": ")?;
        let passed = match verdict.trim() {
            "pass" => true,
            "fail" => false,
            _ => return None,
        };
        name.starts_with("test_")
            .then(|| (format!("{unit}: {name}"), passed))
    };
    output.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_at_the_ends_of_lines() {
        let output = "test_a (non-reentrant): pass\ntest_b: fail\ntest_c: skip\n--- pass: 1/3\n";
        let verdicts = lines("u", output);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts["u: test_a (non-reentrant)"] && !verdicts["u: test_b"]);
    }
}
