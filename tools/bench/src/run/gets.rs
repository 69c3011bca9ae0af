//! GETs of a redis that holds JSON values: keys uniformly random, or skewed as real traffic is.
//!
//! The work is the same in every run: the same values are stored, the same keys are asked for in the
//! same order, and each answer is compared. First the requests go one at a time, for their
//! latency as a client sees it; then sixteen are in flight, for the rate.

use anyhow::{Context, Result, bail};
use coldpress_demo::records;
use coldpress_demo::resp::{Client, Reply};
use coldpress_demo::server::{Plan, Server};
use coldpress_programs::place::Start;
use coldpress_programs::redis;
use coldpress_programs::run::{self, Begun, Done, Figure, Killed, Program, Watch};
use std::path::Path;
use std::time::Instant;

/// Values: about 290 MiB as redis holds them.
pub const RECORDS: u64 = 310_000;
/// Requests one at a time.
const ALONE: u64 = 30_000;
/// Requests that go together, and how many are in flight.
const TOGETHER: u64 = 160_000;
const DEPTH: u64 = 16;
/// Clients that fill the store together.
const CLIENTS: u64 = 20;
/// Exponent of the skewed distribution (that of YCSB).
const SKEW: f64 = 0.99;
const SEED: u64 = 1;

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Each as likely as any other.
    Uniform,
    /// The n-th most popular in proportion to n^-0.99; popular ones are spread over the store.
    Skewed,
    /// None: the store is only filled.
    None,
}

/// redis and its client.
pub struct Gets(pub Keys);

impl Program for Gets {
    fn run(&self, start: &Start, watch: Watch) -> Result<Done> {
        let place = start.place;
        let dir = redis::directory(place)?;
        let begun = Begun::now();
        let mut server = redis::serve(start, &dir, watch)?;
        let plan = Plan {
            seed: SEED,
            count: place.scaled(RECORDS).next_multiple_of(64),
        };
        let scale = place.scale_percent as f64 / 100.0;
        let done = self.work(&mut server, plan, scale, &dir.join("redis.sock"));
        let figures = match done {
            Ok(figures) => figures,
            // The kernel's OOM killer ends the server, and the client sees a closed connection.
            Err(error) if server.was_killed()? => return Err(error.context(Killed)),
            Err(error) => return Err(error),
        };
        server.end()?;
        Ok(begun.done(Vec::new(), run::statistics(&start.wrapper), figures))
    }
}

impl Gets {
    fn work(
        &self,
        server: &mut Server,
        plan: Plan,
        scale: f64,
        socket: &Path,
    ) -> Result<Vec<Figure>> {
        if self.0 == Keys::None {
            return Ok(vec![rate(
                "filling/s",
                fill_by_many(server.client(), plan, socket)?,
            )]);
        }
        let filled = server.fill(plan, "filling redis")?;
        let mut figures = vec![rate("filling/s", filled.rate())];
        let mut keys = Chooser::new(self.0, plan.count);
        let client = server.client();
        let alone = (ALONE as f64 * scale) as u64;
        let mut times = Vec::with_capacity(alone as usize);
        let mut key = Vec::new();
        for _ in 0..alone {
            let index = keys.next();
            records::key(index, &mut key);
            let asked = Instant::now();
            let reply = client.call(&[b"GET", &key])?;
            times.push(asked.elapsed().as_secs_f64() * 1e6);
            compare(client, reply, index)?;
        }
        times.sort_by(f64::total_cmp);
        for (name, share) in [
            ("GET p50 µs", 0.5),
            ("GET p99 µs", 0.99),
            ("GET p99.9 µs", 0.999),
        ] {
            let value = times[((times.len() - 1) as f64 * share) as usize];
            figures.push(figure(name, value, false));
        }
        let together = ((TOGETHER as f64 * scale) as u64).next_multiple_of(DEPTH);
        let begun = Instant::now();
        let mut asked = std::collections::VecDeque::new();
        for number in 0..together + DEPTH {
            if number >= DEPTH {
                let index = asked.pop_front().context("as many answers as requests")?;
                let reply = client.reply()?;
                compare(client, reply, index)?;
            }
            if number < together {
                let index = keys.next();
                records::key(index, &mut key);
                client.request(&[b"GET", &key]);
                client.send()?;
                asked.push_back(index);
            }
        }
        figures.push(rate(
            "GET/s",
            together as f64 / begun.elapsed().as_secs_f64(),
        ));
        Ok(figures)
    }
}

fn rate(name: &'static str, value: f64) -> Figure {
    figure(name, value, true)
}

/// A figure.
pub fn figure(name: &'static str, value: f64, is_rate: bool) -> Figure {
    Figure {
        name,
        value,
        is_rate,
    }
}

/// Stores the records of `plan` by twenty clients at once; records a second. All are there in the end.
fn fill_by_many(asker: &mut Client, plan: Plan, socket: &Path) -> Result<f64> {
    let clients = (0..CLIENTS).map(|_| Client::connect(socket));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    let mut sent = 0;
    while sent < plan.count {
        let first = sent;
        for client in &mut clients {
            for _ in 0..DEPTH.min(plan.count - sent) {
                records::key(sent, &mut key);
                records::value(plan.seed, sent, &mut value);
                client.request(&[b"SET", &key, &value]);
                sent += 1;
            }
            client.send()?;
        }
        let mut awaited = sent - first;
        for client in &mut clients {
            let replies = DEPTH.min(awaited);
            client.stored(replies)?;
            awaited -= replies;
        }
    }
    let rate = plan.count as f64 / begun.elapsed().as_secs_f64();
    match asker.call(&[b"DBSIZE"])? {
        Reply::Integer(count) if count as u64 == plan.count => Ok(rate),
        other => bail!(
            "WRONG CONTENT: {} records were stored, and now: {other:?}",
            plan.count
        ),
    }
}

fn compare(client: &Client, reply: Reply, index: u64) -> Result<()> {
    let mut expected = Vec::new();
    records::value(SEED, index, &mut expected);
    match reply {
        Reply::Bulk if client.bulk == expected => Ok(()),
        other => bail!("WRONG CONTENT: record {index}: {other:?}"),
    }
}

/// Chooses keys, the same ones each time.
struct Chooser {
    keys: Keys,
    state: u64,
    count: u64,
    /// Sum of the weights up to each rank.
    sums: Vec<f64>,
}

impl Chooser {
    fn new(keys: Keys, count: u64) -> Chooser {
        let mut sums = Vec::new();
        if keys == Keys::Skewed {
            let mut sum = 0.0;
            for rank in 1..=count {
                sum += (rank as f64).powf(-SKEW);
                sums.push(sum);
            }
        }
        Chooser {
            keys,
            state: 7,
            count,
            sums,
        }
    }

    fn random(&mut self) -> u64 {
        // SplitMix64.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn next(&mut self) -> u64 {
        let random = self.random();
        if self.keys != Keys::Skewed {
            return random % self.count;
        }
        let wanted = (random >> 11) as f64 / (1u64 << 53) as f64 * self.sums[self.sums.len() - 1];
        let rank = self.sums.partition_point(|&sum| sum < wanted) as u64;
        // Neighbours in rank must not be neighbours in memory: 7919 shares no factor with a
        // multiple of 64 that is below it times anything we use.
        rank.min(self.count - 1) * 7919 % self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_the_same_each_time_and_within_bounds() {
        for keys in [Keys::Uniform, Keys::Skewed] {
            let list = |_| {
                let mut chooser = Chooser::new(keys, 6400);
                (0..1000).map(|_| chooser.next()).collect::<Vec<_>>()
            };
            assert_eq!(list(0), list(1));
            assert!(list(0).iter().all(|&key| key < 6400));
        }
    }

    #[test]
    fn skewed_keys_are_skewed() {
        let share_of_hundred = |keys| {
            let mut chooser = Chooser::new(keys, 64_000);
            let mut seen = std::collections::HashMap::new();
            for _ in 0..50_000 {
                *seen.entry(chooser.next()).or_insert(0u64) += 1;
            }
            let mut counts: Vec<_> = seen.into_values().collect();
            counts.sort_unstable_by(|a, b| b.cmp(a));
            counts.iter().take(100).sum::<u64>() as f64 / 50_000.0
        };
        assert!(share_of_hundred(Keys::Uniform) < 0.02);
        assert!((0.35..0.6).contains(&share_of_hundred(Keys::Skewed)));
    }
}
