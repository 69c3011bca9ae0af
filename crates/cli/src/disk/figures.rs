//! The figures of a disk: as JSON, as a line of a table, and one below the other.

use super::content::Content;
use super::write_back_to::Remote;
use crate::grid::{self, Headings, left, right};
use crate::help;
use crate::size::{format_count, format_short};
use crate::streams::visible;
use coldpress_disk::{CacheStatistics, Statistics, TierStore};
use coldpress_nbd::ServerCounts;
use coldpress_remote::Failure;
use serde_json::{Map, Value, json};

/// zram's `mm_stat` and `io_stat`, in their order.
const MM_STAT: [&str; 9] = [
    "orig_data_size",
    "compr_data_size",
    "mem_used_total",
    "mem_limit",
    "mem_used_max",
    "same_pages",
    "pages_compacted",
    "huge_pages",
    "huge_pages_since",
];
const BD_STAT: [&str; 3] = ["bd_count", "bd_reads", "bd_writes"];
const IO_STAT: [&str; 4] = ["failed_reads", "failed_writes", "invalid_io", "notify_free"];

/// All that is known of a disk.
pub fn to_json(name: &str, content: &Content, server: &ServerCounts, listens: &[String]) -> Value {
    let cache = content.cache_statistics();
    let s = cache.map_or_else(|| content.disk().statistics(), |cache| cache.disk);
    let mut figures = mm_and_io_stat(&s);
    let more = json!({
        "schema_version": 1,
        "name": name,
        "pid": std::process::id(),
        "listens": listens,
        "snapshots": content.disk().snapshots(),
        "read_only": content.is_read_only(),
        "codec": s.codec.to_string(),
        "storage": s.storage.name(),
        "disksize": s.disksize,
        "read_bytes": s.read_bytes,
        "written_bytes": s.written_bytes,
        "pages_in_place": s.pages_in_place,
        "compressed_pages": s.compressed_pages,
        "storage_bytes": s.storage_bytes,
        "table_bytes": s.table_bytes,
        "dictionary_bytes": s.dictionary_bytes,
        "compressions": s.compressions,
        "recompressed_pages": s.recompressed_pages,
        "damaged_pages": s.damaged_pages,
        "clients": server.whole.connections_now,
        "requests": {
            "reads": server.whole.reads,
            "writes": server.whole.writes,
            "trims": server.whole.trims,
            "zeroes": server.whole.zeroes,
            "flushes": server.whole.flushes,
            "failed": server.whole.failed_requests,
        },
    });
    let cache = cache.map(|cache| of_cache(&cache, content));
    let tier = content.tier().map(|tier| of_tier(&tier.store));
    let remote = content.tier().and_then(|tier| tier.remote.as_ref());
    let remote = remote.map(of_remote);
    for more in [Some(more), cache, tier, remote].into_iter().flatten() {
        if let Value::Object(more) = more {
            figures.extend(more);
        }
    }
    Value::Object(figures)
}

/// What a cache has besides, under zswap's names.
fn of_cache(c: &CacheStatistics, content: &Content) -> Value {
    json!({
        "backing": content.path(),
        "stored_pages": c.stored_pages,
        "pool_total_size": c.pool_total_size,
        "same_filled_pages": c.same_filled_pages,
        "stored_incompressible_pages": c.stored_incompressible_pages,
        "written_back_pages": c.written_back_pages,
        "pool_limit_hit": c.pool_limit_hit,
        "reject_compress_poor": c.reject_compress_poor,
        "reject_compress_fail": c.reject_compress_fail,
        "reject_alloc_fail": c.reject_alloc_fail,
        "reject_reclaim_fail": c.reject_reclaim_fail,
        "dirty_pages": c.dirty_pages,
        "evicted_pages": c.evicted_pages,
        "written_through_pages": c.written_through_pages,
        "read_hits": c.read_hits,
        "read_misses": c.read_misses,
        "backing_read_errors": c.backing_read_errors,
        "backing_write_errors": c.backing_write_errors,
        "backing_sync_errors": c.backing_sync_errors,
        "syncs": c.syncs,
    })
}

/// What a write-back tier has besides; `bd_stat` under zram's names.
fn of_tier(tier: &TierStore) -> Value {
    let c = tier.counts();
    json!({
        "bd_count": c.records,
        "bd_reads": c.reads,
        "bd_writes": c.writes,
        "writeback_limit_left": tier.budget_left(),
        "tier": {
            "live_bytes": c.live_bytes,
            "written_bytes": c.written_bytes,
            "cleaned_segments": c.cleaned_segments,
            "moved_records": c.moved_records,
            "damaged_reads": c.damaged_reads,
            "reread_records": c.reread_records,
            "lost_records": c.lost_records,
            "read_errors": c.read_errors,
            "short_reads": c.short_reads,
            "write_errors": c.write_errors,
            "no_space_errors": c.no_space_errors,
            "short_writes": c.short_writes,
            "discard_errors": c.discard_errors,
            "refused_full": c.refused_full,
            "refused_budget": c.refused_budget,
        },
    })
}

/// What a store on another machine has done for a tier.
fn of_remote(remote: &Remote) -> Value {
    let f = remote.counts.figures();
    json!({
        "remote": {
            "store": remote.location.to_string(),
            "objects": format!("{}/*", remote.name),
            "puts": f.puts,
            "put_bytes": f.put_bytes,
            "put_p50_ns": f.put_latency.p50_ns,
            "put_p99_ns": f.put_latency.p99_ns,
            "gets": f.gets,
            "get_bytes": f.get_bytes,
            "get_p50_ns": f.get_latency.p50_ns,
            "get_p99_ns": f.get_latency.p99_ns,
            "deletes": f.deletes,
            "retries": f.retries,
            "errors": f.errors,
            "timeouts": f.timeouts,
            "missing": f.missing,
            "refused_puts": f.refused_puts,
            "fallback_puts": f.fallback_puts,
            "fallback_gets": f.fallback_gets,
            "fallback_errors": f.fallback_errors,
            "failing": f.failing.map(Failure::words),
        },
    })
}

fn mm_and_io_stat(s: &Statistics) -> Map<String, Value> {
    let mut figures = Map::new();
    let values = [
        s.orig_data_size,
        s.compr_data_size,
        s.mem_used_total,
        s.mem_limit,
        s.mem_used_max,
        s.same_pages,
        s.pages_compacted,
        s.huge_pages,
        s.huge_pages_since,
        s.failed_reads,
        s.failed_writes,
        s.invalid_io,
        s.notify_free,
    ];
    for (name, value) in MM_STAT.into_iter().chain(IO_STAT).zip(values) {
        figures.insert(name.to_owned(), value.into());
    }
    figures
}

/// A line for each disk, one for each that has snapshots, and one for each whose store on another machine fails.
pub fn table(disks: &[Value], width: Option<usize>) -> String {
    let headings = [
        left("NAME").cut_end(),
        right("SIZE"),
        right("DATA"),
        right("COMPR"),
        right("TOTAL"),
        right("LIMIT"),
        right("BEHIND"),
        right("DIRTY"),
        right("CLIENTS"),
    ];
    let mut text = grid::fitted(&headings, disks.iter().map(row).collect(), width);
    for disk in disks {
        let snapshots = disk["snapshots"].as_array().into_iter().flatten();
        let names: Vec<String> = snapshots.map(shown).collect();
        let snapshots = (!names.is_empty())
            .then(|| format!(" snapshots of {}: {}", name(disk), names.join(", ")));
        for line in [snapshots, failing_store(disk)].into_iter().flatten() {
            text += &width.map_or(line.clone(), |width| help::wrapped(&line, width));
            text += "\n";
        }
    }
    text
}

/// What keeps the blocks from being read that are on another machine, if anything does.
fn failing_store(disk: &Value) -> Option<String> {
    let remote = &disk["remote"];
    let failing = remote["failing"].as_str().map(visible)?;
    let store = remote["store"].as_str().map(visible)?;
    Some(format!(" store of {}: {failing}: {store}", name(disk)))
}

fn name(disk: &Value) -> String {
    visible(disk["name"].as_str().unwrap_or("?"))
}

fn row(disk: &Value) -> Vec<String> {
    let bytes = |value: &Value| value.as_u64().map_or("-".to_owned(), format_short);
    let limit = match disk["mem_limit"].as_u64() {
        Some(0) => "none".to_owned(),
        _ => bytes(&disk["mem_limit"]),
    };
    let dirty = disk["dirty_pages"]
        .as_u64()
        .filter(|_| disk["backing"].is_string());
    vec![
        name(disk),
        bytes(&disk["disksize"]),
        bytes(&disk["orig_data_size"]),
        bytes(&disk["compr_data_size"]),
        bytes(&disk["mem_used_total"]),
        limit,
        // What a write-back file holds, in the form that it has there. A backing file holds all.
        bytes(&disk["tier"]["live_bytes"]),
        dirty.map_or("-".to_owned(), |pages| format_short(pages * 4096)),
        disk["clients"].to_string(),
    ]
}

/// Every figure of a disk, one below the other; `mm_stat` and `io_stat` in one line each, as zram has them.
pub fn lines(disk: &Value, width: Option<usize>) -> String {
    let stat = |names: &[&str]| {
        let values = names.iter().map(|name| disk[*name].to_string());
        values.collect::<Vec<_>>().join(" ")
    };
    let mut rows = vec![
        vec!["mm_stat".to_owned(), stat(&MM_STAT)],
        vec!["io_stat".to_owned(), stat(&IO_STAT)],
    ];
    if disk[BD_STAT[0]].is_u64() {
        rows.push(vec!["bd_stat".to_owned(), stat(&BD_STAT)]);
    }
    let figures = disk.as_object().into_iter().flatten();
    let flat = figures.flat_map(|(name, value)| match value {
        Value::Object(inner) => inner
            .iter()
            .map(|(inner, value)| (format!("{name}.{inner}"), value))
            .collect(),
        value => vec![(name.clone(), value)],
    });
    rows.extend(flat.map(|(name, value)| vec![name, shown(value)]));
    let text = grid::aligned(&[("", true), ("", true)], Headings::Hidden, rows);
    width.map_or(text.clone(), |width| help::wrapped(&text, width))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => visible(text),
        Value::Array(all) => {
            if all.is_empty() {
                "none".to_owned()
            } else {
                all.iter().map(shown).collect::<Vec<_>>().join(", ")
            }
        }
        Value::Null => "none".to_owned(),
        value => value
            .as_u64()
            .map_or_else(|| value.to_string(), format_count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Value {
        json!({
            "name": "x".repeat(48), "disksize": u64::MAX >> 10, "orig_data_size": 1023u64 << 30,
            "compr_data_size": 1023u64 << 30, "mem_used_total": 1023u64 << 30, "mem_limit": 1023u64 << 30,
            "dirty_pages": 1023u64 << 18, "clients": 64, "snapshots": [],
        })
    }

    #[test]
    fn it_fits_a_terminal() {
        let mut disk = disk();
        let snapshots = (0..20).map(|n| format!("{}{n}", "snapshot".repeat(3)));
        disk["snapshots"] = snapshots.collect();
        disk["tier"] = json!({ "live_bytes": 1023u64 << 30 });
        disk["backing"] = json!("/x");
        for name in MM_STAT.iter().chain(&IO_STAT).chain(&BD_STAT) {
            disk[*name] = json!(1_099_511_627_775u64);
        }
        for text in [table(&[disk.clone()], Some(80)), lines(&disk, Some(80))] {
            grid::assert_fits(&text, 80);
            assert!(text.contains("snapshotsnapshotsnapshot19"), "{text}");
        }
    }

    #[test]
    fn what_lies_behind_a_disk_is_shown() {
        let cells = |disk: &Value| {
            let row = row(disk);
            (row[6].clone(), row[7].clone())
        };
        let own = |behind: &str, dirty: &str| (behind.to_owned(), dirty.to_owned());
        let mut disk = disk();
        disk["dirty_pages"] = json!(512);
        assert_eq!(cells(&disk), own("-", "-"), "a disk in memory");
        disk["tier"] = json!({ "live_bytes": 3 << 20 });
        assert_eq!(
            cells(&disk),
            own("3.0M", "-"),
            "nothing has to reach a write-back file"
        );
        disk["tier"] = Value::Null;
        disk["backing"] = json!("/a/file");
        assert_eq!(cells(&disk), own("-", "2.0M"));
    }
}
