//! What a disk answers to queries of RFC-0219: each field under its name there, or the record as C has it.
//!
//! Both come from one query with one layout (`crates/engine/include/coldpress_info.h`), so they cannot tell different
//! things.

use crate::grid::{self, Headings};
use crate::size::format_count;
use coldpress_disk::{Disk, ProcessTimes};
use coldpress_engine::metrics::KmemStatsCompression;
use coldpress_engine::metrics::layouts::TaskRuntimeV2;
use coldpress_engine::metrics::query::{QueryError, topic};
use coldpress_engine::metrics::record::{Layout, Record};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::fs;

/// The longest answer: many times the longest record.
const MOST_ROOM: u32 = 64 << 10;

/// Topics that are shown, with their layouts, and the names of these.
const SHOWN: [(u32, Layout, &str); 2] = [
    (
        topic::KMEM_STATS_COMPRESSION,
        KmemStatsCompression::LAYOUT,
        "zx_info_kmem_stats_compression",
    ),
    (
        topic::TASK_RUNTIME_V2,
        TaskRuntimeV2::LAYOUT,
        "task_runtime",
    ),
];

/// The fields of all that are shown.
pub fn to_json(name: &str, disk: &Disk) -> Value {
    let mut told = Map::new();
    told.insert("schema_version".to_owned(), json!(1));
    told.insert("name".to_owned(), json!(name));
    for (topic, layout, name) in SHOWN {
        let mut record = vec![0; layout.bytes];
        if disk.get_info(topic, process_times(), &mut record).is_ok() {
            told.insert(name.to_owned(), fields(&layout, &record));
        }
    }
    Value::Object(told)
}

/// A record by the names of its fields. All of them are numbers that are not negative, of 8 bytes, or rows of such.
fn fields(layout: &Layout, record: &[u8]) -> Value {
    let word = |bytes: &[u8]| {
        let word: [u8; 8] = bytes.try_into().expect("chunks of eight");
        u64::from_ne_bytes(word)
    };
    let fields = layout.fields.iter().map(|field| {
        let bytes = &record[field.offset..][..field.bytes];
        let value = match field.bytes {
            8 => json!(word(bytes)),
            _ => bytes.chunks_exact(8).map(word).collect(),
        };
        (field.name.to_owned(), value)
    });
    Value::Object(fields.collect())
}

/// Answers a query as it is: how many records were written, how many there are, and their bytes, as digits to the
/// base of sixteen.
pub fn answer(disk: &Disk, topic: u32, room: u32) -> Result<Value, String> {
    if room > MOST_ROOM {
        return Err(format!("room for {room} bytes: {MOST_ROOM} are the most"));
    }
    let mut records = vec![0; room as usize];
    let answer = disk.get_info(topic, process_times(), &mut records);
    let answer = answer.map_err(|error| match error {
        QueryError::UnknownTopic => format!("there is no topic {topic:#x}, or not in this version"),
        QueryError::WrongSubject => format!("a disk has nothing to say of topic {topic:#x}"),
        QueryError::BufferTooSmall(bytes) => format!("the record has {bytes} bytes, not {room}"),
    })?;
    let digits = records.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    });
    Ok(json!({ "actual": answer.actual, "avail": answer.avail, "records": digits }))
}

/// What the kernel knows of this process. Time in which threads waited for a processor that have ended is lost.
fn process_times() -> ProcessTimes {
    // SAFETY: plain numbers, which the call fills.
    let cpu = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time
    };
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let waited = tasks.filter_map(|task| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    ProcessTimes {
        cpu_time_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        queue_time_ns: waited.sum(),
    }
}

/// Every field, one below the other.
pub fn lines(told: &Value) -> String {
    let mut rows = Vec::new();
    for (_, layout, name) in SHOWN {
        for field in layout.fields {
            let value = match &told[name][field.name] {
                Value::Array(all) => all.iter().map(count).collect::<Vec<_>>().join(" "),
                value => count(value),
            };
            rows.push(vec![field.name.to_owned(), value]);
        }
    }
    grid::aligned(&[("", true), ("", false)], Headings::Hidden, rows)
}

fn count(value: &Value) -> String {
    value.as_u64().map_or("?".to_owned(), format_count)
}
