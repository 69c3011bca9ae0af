//! redis 7: filled with JSON values, loaded by its own benchmark client, read back and compared.

use crate::place::{Owner, Place, Start};
use crate::run::{self, Begun, Done, Figure, Program, Watch};
use anyhow::{Context, Result, bail};
use coldpress_demo::resp::{Client, Reply};
use coldpress_demo::server::{Plan, Server};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Values that are stored.
const RECORDS: u64 = 300_000;
/// Requests of each kind that `redis-benchmark` makes.
const REQUESTS: u64 = 60_000;
/// Values of its own that it writes and reads.
const KEYS: u64 = 5_000;
/// Their size.
const VALUE_BYTES: u64 = 500;
const RANDOM_GET: &str = "return redis.call('get', redis.call('randomkey'))";

/// redis under its benchmark client.
pub struct Redis;

impl Program for Redis {
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let place = start.place;
        let dir = directory(place)?;
        let begun = Begun::now();
        let mut server = serve(start, &dir, watch)?;
        let plan = Plan {
            seed: 1,
            count: place.scaled(RECORDS).next_multiple_of(64),
        };
        server.fill(plan, "filling redis")?;
        let requests = place.scaled(REQUESTS);
        let figures = [
            // What it asks for by itself are its own few keys: this asks for ours.
            benchmark(&dir, requests, &["eval", RANDOM_GET, "0"])?,
            benchmark(&dir, requests, &["-t", "set,get,lpush,lrange_100"])?,
        ]
        .concat();
        let read = server.read_back(plan, "reading everything back")?;
        if read.mismatches > 0 {
            bail!(
                "WRONG CONTENT: {} values differ from what was written",
                read.mismatches
            );
        }
        let value = own_keys(server.client(), requests)?;
        let output = format!(
            "{} values equal, and the benchmark's {value}\n",
            read.records
        );
        server.end()?;
        let statistics = run::statistics(&start.wrapper);
        Ok(begun.done(output.into_bytes(), statistics, figures))
    }
}

/// Where a server keeps its files and its socket.
pub fn directory(place: &Place) -> Result<PathBuf> {
    place.subdirectory("redis", Owner::Us)
}

/// Starts a server there, in the group of the run if it has one.
pub fn serve(start: &Start, directory: &Path, watch: Watch) -> Result<Server> {
    let server = Server::start(&start.wrapper, directory)?;
    if let Some(group) = start.group {
        group.admit(server.pid)?;
    }
    watch(server.pid)?;
    Ok(server)
}

/// Runs `redis-benchmark`; the rate of each of its tests.
fn benchmark(dir: &std::path::Path, requests: u64, test: &[&str]) -> Result<Vec<Figure>> {
    let output = Command::new("redis-benchmark")
        .arg("-s")
        .arg(dir.join("redis.sock"))
        .args([
            "--csv",
            "-n",
            &requests.to_string(),
            "-r",
            &KEYS.to_string(),
        ])
        .args(["-d", &VALUE_BYTES.to_string(), "-c", "20"])
        .args(test)
        .output()
        .context("cannot start redis-benchmark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("redis-benchmark failed: {}", text.trim());
    }
    let rates = text.lines().filter_map(rate).collect::<Vec<_>>();
    if rates.is_empty() {
        bail!("redis-benchmark told no rate: {}", text.trim());
    }
    Ok(rates)
}

/// A line of `redis-benchmark --csv`: the test, its rate, latencies.
fn rate(line: &str) -> Option<Figure> {
    let mut cells = line.split("\",\"").map(|cell| cell.trim_matches('"'));
    let name = match cells.next()? {
        "SET" => "SET/s",
        "GET" => "GET/s",
        "LPUSH" => "LPUSH/s",
        name if name.starts_with("LRANGE_100") => "LRANGE/s",
        name if name.starts_with("eval") => "random GET/s",
        _ => return None,
    };
    let value = cells.next()?.parse().ok()?;
    Some(Figure {
        name,
        value,
        is_rate: true,
    })
}

/// Compares what the benchmark has written: one value under many keys, and a list of it.
fn own_keys(client: &mut Client, requests: u64) -> Result<String> {
    let mut value = Vec::new();
    let mut keys = 0;
    for number in 0..KEYS {
        let key = format!("key:{number:012}");
        match client.call(&[b"GET", key.as_bytes()])? {
            Reply::Nil => continue,
            Reply::Bulk if keys == 0 => value = client.bulk.clone(),
            Reply::Bulk if client.bulk == value => {}
            other => bail!("WRONG CONTENT: {key} is not what was written: {other:?}"),
        }
        keys += 1;
    }
    if keys == 0 {
        bail!("the benchmark has written no key");
    }
    // LPUSH twice: for its own test, and to fill the list for LRANGE.
    let length = 2 * requests;
    match client.call(&[b"LLEN", b"mylist"])? {
        Reply::Integer(found) if found == length as i64 => {}
        other => bail!("WRONG CONTENT: {length} entries were pushed, and now: {other:?}"),
    }
    for at in (0..length).step_by(997) {
        match client.call(&[b"LINDEX", b"mylist", at.to_string().as_bytes()])? {
            Reply::Bulk if client.bulk == value => {}
            other => bail!("WRONG CONTENT: entry {at} of the list: {other:?}"),
        }
    }
    Ok(String::from_utf8_lossy(&value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read() {
        assert!(rate("\"test\",\"rps\",\"avg_latency_ms\"").is_none());
        let figure = rate("\"GET\",\"71428.57\",\"0.123\"").unwrap();
        assert_eq!((figure.name, figure.value), ("GET/s", 71428.57));
        let figure =
            rate("\"eval return redis.call('get', redis.call('randomkey')) 0\",\"5.5\",\"0.1\"");
        assert_eq!(figure.unwrap().name, "random GET/s");
    }
}
