//! redis' own tests, of its source package, on the redis that is installed.

use super::{Suite, Verdicts, source};
use anyhow::{Context, Result};
use coldpress_harness::install::{self, Package, program};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// redis.
pub struct Redis;

/// What the tests start as `src/NAME`.
const PROGRAMS: [&str; 5] = [
    "redis-server",
    "redis-cli",
    "redis-benchmark",
    "redis-check-aof",
    "redis-check-rdb",
];

const PACKAGES: &[Package] = &[
    install::REDIS,
    program("redis-tools", "redis-cli"),
    program("tcl", "tclsh8.6"),
    program("tar", "tar"),
];

impl Suite for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn packages(&self) -> &'static [Package] {
        PACKAGES
    }

    fn units(&self) -> &'static [&'static str] {
        &[
            "unit/type/string",
            "unit/type/incr",
            "unit/type/list",
            "unit/type/list-2",
            "unit/type/set",
            "unit/type/zset",
            "unit/type/hash",
            "unit/type/stream",
            "unit/dump",
            "unit/expire",
            "unit/scan",
            "unit/keyspace",
            "unit/sort",
            "unit/multi",
            "unit/scripting",
            "unit/functions",
            "unit/pubsub",
            "unit/info",
            "unit/auth",
            "unit/acl",
            "unit/protocol",
            "unit/querybuf",
            "unit/limits",
            "unit/maxmemory",
            "unit/memefficiency",
            "unit/lazyfree",
            "unit/hyperloglog",
            "unit/bitops",
            "unit/geo",
            "unit/slowlog",
            "unit/latency-monitor",
            "unit/introspection",
            "unit/introspection-2",
            "unit/client-eviction",
            "unit/tracking",
            "unit/networking",
            "unit/oom-score-adj",
            "unit/shutdown",
            "unit/aofrw",
            "integration/aof",
            "integration/rdb",
            "integration/corrupt-dump",
            "integration/replication",
            "integration/replication-psync",
            "integration/logging",
            "integration/redis-cli",
            "integration/redis-benchmark",
        ]
    }

    fn prepare(&self, dir: &Path) -> Result<()> {
        let source = source::unpacked(dir, "redis")?;
        for name in PROGRAMS {
            let link = source.join("src").join(name);
            if !link.exists() {
                let found = install::find_program(name).with_context(|| format!("no {name}"))?;
                symlink(found, link)?;
            }
        }
        Ok(())
    }

    fn command(&self, dir: &Path, unit: &str, _scratch: &Path, number: u16) -> Vec<String> {
        // It writes to its own directory, so each run has one; and two that run at once each have ports.
        let script = "cp -r \"$1\" tests && ln -s \"$2\" src && mkdir -p tests/tmp && shift 2 && exec \"$@\"";
        let source = |name| dir.join("source").join(name).display().to_string();
        let port = 21_111 + number * 1_000;
        let line = ["sh", "-c", script, "sh", &source("tests"), &source("src")];
        let tests = [
            "tclsh8.6",
            "tests/test_helper.tcl",
            "--clients",
            "1",
            // Its own limit: so many seconds without a word.
            "--timeout",
            "1200",
            "--baseport",
            &port.to_string(),
            "--portcount",
            "900",
            "--single",
            unit,
        ];
        line.into_iter().chain(tests).map(str::to_owned).collect()
    }

    fn place(&self, _dir: &Path, scratch: &Path) -> PathBuf {
        scratch.into()
    }

    fn verdicts(&self, unit: &str, output: &str, _scratch: &Path) -> Verdicts {
        lines(unit, output)
    }
}

/// `[ok]: name (12 ms)`, `[err]: name in file`, `[exception]: …`.
fn lines(unit: &str, output: &str) -> Verdicts {
    let mut verdicts = Verdicts::new();
    for line in output.lines() {
        let plain = without_colours(line);
        let (name, passed) = if let Some(rest) = plain.split("[ok]: ").nth(1) {
            (rest, true)
        } else if let Some(rest) = plain.split("[err]: ").nth(1) {
            (rest.split(" in tests/").next().unwrap_or(rest), false)
        } else if plain.contains("[exception]: ") {
            ("exception", false)
        } else {
            continue;
        };
        let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
        *verdicts.entry(format!("{unit}: {name}")).or_insert(true) &= passed;
    }
    verdicts
}

fn without_colours(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let mut plain = parts.next().unwrap_or("").to_owned();
    for part in parts {
        plain += part.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read_with_and_without_colours() {
        let output = "\u{1b}[0;32m[ok]\u{1b}[0m: SET works (3 ms)\n[err]: GET (x) fails in tests/unit/a.tcl\n[ignore]: c\n";
        let verdicts = lines("u", output);
        assert_eq!(verdicts.len(), 2);
        assert!(verdicts["u: SET works"]);
        assert!(!verdicts["u: GET"]);
    }
}
