//! What `run` tells programs at the end: the file of `--stats`. (`closing` is what it tells people.)

use crate::budget::BudgetInForce;
use crate::report;
use crate::sums::Sums;
use crate::supervise::Ending;
use coldpress_interface::statistics::Statistics;
use serde_json::{Map, Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The object for `--stats`: the statistics, if the pager started, and how the program ended.
pub fn to_json(
    program: &str,
    pid: u32,
    statistics: Option<&Statistics>,
    budget: &BudgetInForce,
    ending: Ending,
) -> Value {
    let mut object =
        statistics.map_or_else(Map::new, |statistics| report::to_json(program, statistics));
    let (status, signal) = match ending {
        Ending::Exited(status) => (Some(status), None),
        Ending::Killed(signal) => (None, Some(signal)),
    };
    for (name, value) in [
        ("program", json!(program)),
        ("pid", json!(pid)),
        ("pager_started", json!(statistics.is_some())),
        ("exit_status", json!(status)),
        ("signal", json!(signal)),
        ("budget_asked_bytes", json!(budget.asked())),
        ("memory_group_limit_bytes", json!(budget.group_bytes)),
        (
            "summary",
            json!(
                statistics
                    .map(Sums::of)
                    .map(|sums| sums.to_json(sums.managed_ns))
            ),
        ),
    ] {
        object.insert(name.to_owned(), value);
    }
    object.into()
}

/// Writes `value` so that a reader sees the old file or the whole new one. A target that exists
/// and is no regular file (`/dev/null`, a pipe) is written directly.
pub fn write_json(target: &Path, value: &Value) -> io::Result<()> {
    let text = format!("{value:#}\n");
    if fs::metadata(target).is_ok_and(|metadata| !metadata.is_file()) {
        return fs::write(target, text);
    }
    let temporary = temporary_beside(target)?;
    let written = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Whether `target` could be written, to be known before the program has run for hours.
pub fn check_writable(target: &Path) -> io::Result<()> {
    if target.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if target.exists() && !target.is_file() {
        return Ok(());
    }
    let temporary = temporary_beside(target)?;
    fs::write(&temporary, "")?;
    fs::remove_file(&temporary)
}

fn temporary_beside(target: &Path) -> io::Result<PathBuf> {
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_or_not_at_all() {
        let directory = std::env::temp_dir().join(format!("coldpress-json-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let target = directory.join("out.json");
        let value = to_json(
            "p",
            7,
            None,
            &BudgetInForce::of(1 << 30, None).unwrap(),
            Ending::Killed(9),
        );
        assert_eq!(
            (&value["pager_started"], &value["signal"]),
            (&json!(false), &json!(9))
        );
        check_writable(&target).unwrap();
        write_json(&target, &value).unwrap();
        write_json(&target, &value).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
        assert_eq!(read, value);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        assert!(check_writable(&directory).is_err());
        assert!(check_writable(&directory.join("no/x.json")).is_err());
        assert!(write_json(Path::new("/dev/null"), &value).is_ok());
        assert!(Path::new("/dev/null").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
