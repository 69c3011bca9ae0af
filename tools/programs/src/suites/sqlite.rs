//! sqlite's own tests, of its source package: its test program is built once.

use super::{Suite, Verdicts, source};
use anyhow::Result;
use coldpress_harness::install::{self, Package, Probe, program};
use std::path::{Path, PathBuf};

/// sqlite.
pub struct Sqlite;

const PACKAGES: &[Package] = &[
    install::GCC,
    program("make", "make"),
    program("tcl", "tclsh8.6"),
    Package {
        name: "tcl8.6-dev",
        probe: Probe::File("/usr/lib/tcl8.6/tclConfig.sh"),
    },
    program("tar", "tar"),
];

impl Suite for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn packages(&self) -> &'static [Package] {
        PACKAGES
    }

    fn units(&self) -> &'static [&'static str] {
        &[
            "aggnested",
            "alter",
            "altertab",
            "analyze",
            "atof1",
            "attach",
            "autoinc",
            "autovacuum",
            "avtrans",
            "backup",
            "bigrow",
            "blob",
            "boundary1",
            "btree01",
            "cache",
            "capi3",
            "check",
            "coalesce",
            "collate1",
            "conflict",
            "corrupt",
            "crash",
            "date",
            "delete",
            "distinct",
            "e_select",
            "enc",
            "expr",
            "fkey2",
            "func",
            "hook",
            "in",
            "index",
            "insert",
            "intpkey",
            "ioerr",
            "join",
            "journal2",
            "json101",
            "like",
            "limit",
            "lock",
            "malloc",
            "memdb",
            "memsubsys1",
            "misc1",
            "mmap1",
            "pager1",
            "pragma",
            "rowid",
            "savepoint",
            "schema",
            "select1",
            "sort",
            "subquery",
            "tempdb",
            "thread001",
            "trans",
            "trigger1",
            "vacuum",
            "wal",
            "where",
            "window1",
            "with1",
            "zerodamage",
        ]
    }

    fn prepare(&self, dir: &Path) -> Result<()> {
        let source = source::unpacked(dir, "sqlite3")?;
        let built = dir.join("built");
        if built.join("testfixture").is_file() {
            return Ok(());
        }
        std::fs::create_dir_all(&built)?;
        let configure = source.join("configure").display().to_string();
        source::build(
            &built,
            &configure,
            &["--quiet", "--with-tcl=/usr/lib/tcl8.6"],
        )?;
        source::build(&built, "make", &["-j2", "testfixture"])
    }

    fn command(&self, dir: &Path, unit: &str, _scratch: &Path, _number: u16) -> Vec<String> {
        let program = dir.join("built/testfixture").display().to_string();
        let script = dir.join(format!("source/test/{unit}.test"));
        vec![program, script.display().to_string()]
    }

    fn place(&self, _dir: &Path, scratch: &Path) -> PathBuf {
        scratch.into()
    }

    fn verdicts(&self, unit: &str, output: &str, _scratch: &Path) -> Verdicts {
        lines(unit, output)
    }
}

/// `name... Ok`, and at the end of all `!Failures on these tests: a b`.
fn lines(unit: &str, output: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for line in output.lines() {
        if let Some((name, rest)) = line.split_once("... ") {
            let passed = rest.trim_end().ends_with("Ok");
            *verdicts.entry(format!("{unit}: {name}")).or_insert(true) &= passed;
        }
        if let Some(names) = line.split("Failures on these tests: ").nth(1) {
            for name in names.split_whitespace() {
                verdicts.insert(format!("{unit}: {name}"), false);
            }
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_those_listed_at_the_end() {
        let output = "a-1.1... Ok\na-1.2...\n! a-1.2 expected: [1]\n! a-1.2 got:      [2]\n1 errors out of 2 tests\n\
                      !Failures on these tests: a-1.2\n";
        let verdicts = lines("a", output);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts["a: a-1.1"] && !verdicts["a: a-1.2"]);
    }
}
