//! The programs, and what each of them works on.

use crate::chaos;
use crate::place::{Owner, Place};
use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::run::{Batch, Program};
use anyhow::{Context, Result, bail};
use coldpress_harness::install::{GXX, PYTHON, Package, Probe, REDIS, program};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// A program to be shown.
pub struct Subject {
    /// Its name on the command line and in tables.
    pub name: &'static str,
    /// What it does, in a few words.
    pub does: &'static str,
    /// What must be installed.
    pub needs: &'static [Package],
    /// Readies its data.
    pub prepare: fn(&Place) -> Result<Box<dyn Program>>,
    /// Whether it runs under random eviction, and not under a budget from what it needs.
    pub is_chaos: bool,
}

const PANDAS: Package = Package {
    name: "python3-pandas",
    probe: Probe::PythonModule("pandas"),
};
const REDIS_TOOLS: Package = program("redis-tools", "redis-benchmark");
const JAVA: Package = program("default-jdk-headless", "javac");
const NODE: Package = program("nodejs", "node");
const SQLITE: Package = program("sqlite3", "sqlite3");
// The server itself is not on the path in Debian; this comes with it.
const POSTGRES: Package = program("postgresql", "pg_ctlcluster");
const MEMTESTER: Package = program("memtester", "memtester");
const STRESS_NG: Package = program("stress-ng", "stress-ng");
const UTIL_LINUX: Package = program("util-linux", "setpriv");

/// All programs.
pub static SUBJECTS: [Subject; 9] = [
    Subject {
        name: "redis",
        does: "JSON values, redis-benchmark, every value read back",
        needs: &[REDIS, REDIS_TOOLS],
        prepare: |_| Ok(Box::new(Redis)),
        is_chaos: false,
    },
    Subject {
        name: "pandas",
        does: "CPython with NumPy and pandas: merge, group, sort",
        needs: &[PYTHON, PANDAS],
        prepare: pandas,
        is_chaos: false,
    },
    Subject {
        name: "jvm",
        does: "OpenJDK: maps of orders, looked up and replaced",
        needs: &[JAVA],
        prepare: jvm,
        is_chaos: false,
    },
    Subject {
        name: "node",
        does: "tasks and documents, looked up and replaced",
        needs: &[NODE],
        prepare: node,
        is_chaos: false,
    },
    Subject {
        name: "cc1plus",
        does: "gcc's C++ compiler on templates, -O2",
        needs: &[GXX],
        prepare: cc1plus,
        is_chaos: false,
    },
    Subject {
        name: "sqlite",
        does: "tables and indices in :memory:",
        needs: &[SQLITE],
        prepare: sqlite,
        is_chaos: false,
    },
    Subject {
        name: "postgres",
        does: "as nobody, inherited device: sorts and joins in work_mem",
        needs: &[POSTGRES],
        prepare: |place| Ok(Box::new(Postgres::new(place)?)),
        is_chaos: false,
    },
    Subject {
        name: "memtester",
        does: "all its tests, no right to lock",
        needs: &[MEMTESTER, UTIL_LINUX],
        prepare: chaos::memtester,
        is_chaos: true,
    },
    Subject {
        name: "stress-ng",
        does: "--vm-method all --verify, no right to lock",
        needs: &[STRESS_NG, UTIL_LINUX],
        prepare: chaos::stress_ng,
        is_chaos: true,
    },
];

/// A program by its name.
pub fn named(name: &str) -> Result<&'static Subject> {
    let found = SUBJECTS.iter().find(|subject| subject.name == name);
    found.with_context(|| {
        let names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
        format!(
            "there is no program {name:?}: choose among {}",
            names.join(", ")
        )
    })
}

fn executable(name: &str) -> Result<PathBuf> {
    coldpress_harness::install::find_program(name).with_context(|| format!("there is no {name}"))
}

/// A program that is given a file of ours and numbers.
fn script(program: PathBuf, options: &[&str], file: &str, numbers: &[u64]) -> Batch {
    let mut arguments: Vec<_> = options.iter().map(Into::into).collect();
    arguments.push(Place::data(file).into());
    arguments.extend(numbers.iter().map(|number| number.to_string().into()));
    Batch {
        program,
        arguments,
        ..Batch::default()
    }
}

fn pandas(place: &Place) -> Result<Box<dyn Program>> {
    // Not a launcher that starts another Python: what we start must be the program itself.
    let has_it = |python: &&str| {
        let status = Command::new(python).args(["-c", "import pandas"]).status();
        status.is_ok_and(|status| status.success())
    };
    let python = ["/usr/bin/python3"].into_iter().find(has_it);
    let python = python.context("/usr/bin/python3 has no pandas")?;
    let mut batch = script(python.into(), &[], "frames.py", &[place.scaled(700_000), 3]);
    batch.environment = vec![("PYTHONHASHSEED", "0"), ("OPENBLAS_NUM_THREADS", "1")];
    Ok(Box::new(batch))
}

fn jvm(place: &Place) -> Result<Box<dyn Program>> {
    // Compiled before, so that the compiler's memory is not in the figures.
    let classes = place.subdirectory("classes", Owner::Us)?;
    let status = Command::new("javac")
        .arg("-d")
        .arg(&classes)
        .arg(Place::data("Store.java"))
        .status()?;
    if !status.success() {
        bail!("Store.java does not compile");
    }
    let mut arguments: Vec<std::ffi::OsString> = vec!["-Xmx448m".into(), "-cp".into()];
    arguments.extend([classes.into(), "Store".into()]);
    arguments.extend([place.scaled(260_000).to_string().into(), "6".into()]);
    Ok(Box::new(Batch {
        program: std::fs::canonicalize(executable("java")?)?,
        arguments,
        ..Batch::default()
    }))
}

fn node(place: &Place) -> Result<Box<dyn Program>> {
    let program = executable("node")?;
    let numbers = [place.scaled(300_000), 6];
    let batch = script(
        program,
        &["--max-old-space-size=1024"],
        "store.js",
        &numbers,
    );
    Ok(Box::new(batch))
}

/// `g++` executes the compiler proper as a child: that is the program to run.
fn cc1plus(place: &Place) -> Result<Box<dyn Program>> {
    let compiler = Command::new("g++")
        .arg("-print-prog-name=cc1plus")
        .output()?;
    let compiler = String::from_utf8(compiler.stdout)?.trim().to_owned();
    let (source, result) = (place.dir.join("heavy.ii"), place.dir.join("heavy.s"));
    let status = Command::new("g++")
        .args(["-E", "-O2", "-std=c++17"])
        .arg(format!("-DRECORDS={}", place.scaled(12)))
        .arg(coldpress_corpus::programs().join("heavy.cpp"))
        .arg("-o")
        .arg(&source)
        .status()?;
    if !status.success() {
        bail!("heavy.cpp cannot be preprocessed");
    }
    let mut arguments: Vec<std::ffi::OsString> =
        ["-quiet", "-O2", "-std=c++17"].map(Into::into).into();
    arguments.extend([source.into(), "-o".into(), result.clone().into()]);
    Ok(Box::new(Batch {
        program: compiler.into(),
        arguments,
        result: Some(result),
        ..Batch::default()
    }))
}

fn sqlite(place: &Place) -> Result<Box<dyn Program>> {
    let input = place.dir.join("shop.sql");
    let mut file = std::fs::File::create(&input)?;
    let rows = place.scaled(400_000);
    writeln!(
        file,
        "create table size (rows integer); insert into size values ({rows});"
    )?;
    file.write_all(&std::fs::read(Place::data("shop.sqlite.sql"))?)?;
    Ok(Box::new(Batch {
        program: executable("sqlite3")?,
        arguments: vec![":memory:".into()],
        input: Some(input),
        ..Batch::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for subject in &SUBJECTS {
            assert!(std::ptr::eq(named(subject.name).unwrap(), subject));
        }
        let error = named("emacs").err().unwrap().to_string();
        assert!(error.contains("redis, pandas"), "{error}");
    }
}
