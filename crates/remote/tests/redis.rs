//! Promise: on a real Redis server a tier returns every byte, and whatever becomes of the server or its objects is
//! detected: no wrong byte is returned, each call ends, and what is not in the store stays.

use crate::common::process::{Directory, Process, program, redis_command, serve, start_again};
use crate::common::two_ways::TwoWays;
use crate::common::{Local, Run, SEGMENT, device, patience, wait_until};
use coldpress_remote::{Location, RedisStore, RemoteDevice, Store};
use coldpress_tier::{Handle, Refused};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// No call takes longer: a few attempts, a connection and an answer each, on a machine that is busy.
const LONGEST_CALL: Duration = Duration::from_secs(20);

/// A server, and where it is.
pub struct Redis {
    program: PathBuf,
    directory: Directory,
    process: Option<Process>,
    pub port: u16,
}

impl Redis {
    pub fn start(options: &[&str]) -> Option<Self> {
        let program = program("redis-server", "a tier on Redis")?;
        let directory = Directory::new();
        let (process, port) = serve(|port| redis_command(&program, &directory.0, port, options));
        Some(Self {
            program,
            directory,
            process: Some(process),
            port,
        })
    }

    pub fn process(&self) -> &Process {
        self.process.as_ref().unwrap()
    }

    /// Kills it by SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again, empty.
    pub fn start_again(&mut self) {
        let mut command = redis_command(&self.program, &self.directory.0, self.port, &[]);
        self.process = Some(start_again(&mut command, self.port));
    }

    /// A store that is waited for as long as a busy machine may need.
    pub fn store(&self) -> RedisStore {
        self.store_within("10s")
    }

    pub fn store_within(&self, timeout: &str) -> RedisStore {
        let text = format!("redis://127.0.0.1:{}?timeout={timeout}", self.port);
        RedisStore::new(&Location::parse(&text).unwrap(), None).unwrap()
    }

    fn device(&self, fallback: Option<&Local>) -> RemoteDevice {
        device(Box::new(self.store()), fallback)
    }

    /// As a client of its own.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(("127.0.0.1", self.port)).unwrap();
        client.get_connection().unwrap()
    }

    pub fn objects(&self) -> Vec<String> {
        let mut names: Vec<String> = redis::cmd("KEYS")
            .arg("*")
            .query(&mut self.connection())
            .unwrap();
        names.sort();
        names
    }

    fn object(&self, name: &str) -> Vec<u8> {
        let mut connection = self.connection();
        redis::cmd("GET").arg(name).query(&mut connection).unwrap()
    }

    fn set_object(&self, name: &str, bytes: &[u8]) {
        let mut connection = self.connection();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(bytes).exec(&mut connection).unwrap();
    }
}

#[test]
fn a_tier_on_redis_is_its_records() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    for seed in 0..3 {
        let mut run = Run::new(server.device(None), seed);
        run.live(3000);
        let figures = run.figures();
        assert!(figures.puts > 50 && figures.deletes > 0 && figures.gets > 100);
        assert_eq!((figures.errors, figures.retries), (0, 0), "{figures:?}");
        assert!(figures.get_latency.p99_ns.unwrap() > 0);
        assert!(run.tier.counts().cleaned_segments > 0);
        let name = run.name();
        let objects = server.objects();
        assert!(!objects.is_empty() && objects.iter().all(|object| object.starts_with(&name)));
        drop(run);
        assert!(server.objects().is_empty(), "all were deleted at the end");
    }
}

#[test]
fn two_runs_on_one_server_do_not_meet() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let mut runs = [1, 1].map(|seed| Run::new(server.device(None), seed));
    for _ in 0..20 {
        runs.iter_mut().for_each(|run| run.live(60));
    }
    let [one, mut other] = runs;
    drop(one);
    other.live(60);
}

#[test]
fn a_server_that_was_killed_and_is_empty_costs_what_it_had() {
    let Some(mut server) = Redis::start(&[]) else {
        return;
    };
    for local in [None, Some(Local::default())] {
        let mut run = Run::new(server.device(local.as_ref()), 5);
        run.put_many(120);
        let before: Vec<u32> = run.held.keys().copied().collect();
        server.kill();
        let since = Instant::now();
        let gone = run.refused();
        assert!(
            !gone.is_empty() && gone.len() < before.len(),
            "some are in memory"
        );
        assert!(since.elapsed() < LONGEST_CALL * gone.len() as u32);
        // What is written now goes to the fallback, or is refused.
        let mut written = Vec::new();
        for _ in 0..60 {
            match run.put() {
                Ok(number) => written.push(number),
                Err(Refused::Device(_)) if local.is_none() => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(run.figures().fallback_puts > 0, local.is_some());
        let intact = |run: &mut Run, numbers: &[u32]| {
            numbers.iter().for_each(|number| run.get(*number).unwrap());
        };
        intact(&mut run, &written);
        assert_eq!(run.refused(), gone, "and nothing else");
        server.start_again();
        wait_until("connected", || {
            run.refused() == gone && run.figures().missing > 0
        });
        run.remove_all_of(&gone);
        wait_until("taken again", || {
            run.put().is_ok() && run.tier.sync().is_ok()
        });
        run.put_many(80);
        intact(&mut run, &written);
        let rest: Vec<u32> = before.into_iter().filter(|n| !gone.contains(n)).collect();
        intact(&mut run, &rest);
        assert_eq!(run.refused().len(), 0);
        run.tier.check_invariants();
    }
}

#[test]
fn a_server_that_stops_is_waited_for_and_then_goes_on() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let is_hasty = Arc::new(AtomicBool::new(false));
    let store = TwoWays {
        patient: Box::new(server.store()),
        hasty: Box::new(server.store_within("400ms")),
        is_hasty: is_hasty.clone(),
    };
    let mut run = Run::new(device(Box::new(store), None), 6);
    run.put_many(120);
    is_hasty.store(true, Relaxed);
    wait_until("connected", || run.refused().is_empty());
    server.process().stop();
    let timed = |act: &mut dyn FnMut() -> bool| {
        let since = Instant::now();
        let failed = act();
        assert!(since.elapsed() < LONGEST_CALL, "{:?}", since.elapsed());
        failed
    };
    let all: Vec<u32> = run.held.keys().copied().collect();
    let mut failed = 0;
    for number in all.iter().step_by(20) {
        failed += u32::from(timed(&mut || run.get(*number).is_err()));
    }
    assert!(failed > 0, "some were asked for");
    while !timed(&mut || run.put().is_err()) {}
    assert!(run.figures().timeouts > 0, "{:?}", run.figures());
    // A connection that is made now is not answered, either.
    let mut other = server.store_within("400ms");
    assert!(timed(&mut || other.put("x", b"y").is_err()));
    server.process().go_on();
    is_hasty.store(false, Relaxed);
    wait_until("answered", || run.refused().is_empty());
    wait_until("taken again", || run.put().is_ok());
    wait_until("as before", || {
        run.tier.sync().is_ok() && run.refused().is_empty()
    });
}

#[test]
fn a_connection_that_was_cut_is_made_anew() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let mut run = Run::new(server.device(None), 7);
    run.put_many(100);
    for _ in 0..5 {
        let mut kill = redis::cmd("CLIENT");
        let killed: u32 = kill
            .arg("KILL")
            .arg("TYPE")
            .arg("normal")
            .query(&mut server.connection())
            .unwrap();
        assert!(killed > 0);
        assert_eq!(run.refused().len(), 0);
    }
    assert!(run.figures().retries > 0);
}

/// What is changed in the objects of a server, the first of which is not that in memory.
type Change = fn(&Redis, [&str; 2]);

fn flip(server: &Redis, [name, _]: [&str; 2]) {
    let byte = server.object(name)[5000] ^ 0x10;
    let mut set = redis::cmd("SETRANGE");
    let set = set.arg(name).arg(5000).arg(&[byte][..]);
    set.exec(&mut server.connection()).unwrap();
}

fn truncate(server: &Redis, [name, _]: [&str; 2]) {
    let object = server.object(name);
    server.set_object(name, &object[..object.len() / 2]);
}

fn exchange(server: &Redis, [name, other]: [&str; 2]) {
    let objects = [name, other].map(|name| server.object(name));
    server.set_object(name, &objects[1]);
    server.set_object(other, &objects[0]);
}

fn flush(server: &Redis, _: [&str; 2]) {
    redis::cmd("FLUSHALL")
        .exec(&mut server.connection())
        .unwrap();
}

fn forget(server: &Redis, [name, _]: [&str; 2]) {
    redis::cmd("DEL")
        .arg(name)
        .exec(&mut server.connection())
        .unwrap();
}

#[test]
fn what_is_done_to_objects_is_detected_and_costs_what_it_strikes() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let changes: [(&str, Change); 5] = [
        ("flipped", flip),
        ("truncated", truncate),
        ("exchanged", exchange),
        ("flushed", flush),
        ("forgotten", forget),
    ];
    for (what, change) in changes {
        let mut run = Run::new(server.device(None), 8);
        run.put_many(120);
        let name = run.name();
        let of = |segment: u64| format!("{name}/{segment}");
        // The oldest two, of which neither is in memory: the reserve is the first that is written.
        let numbers: Vec<u32> = run.held.keys().copied().collect();
        let mut segments: Vec<u64> = numbers.iter().filter_map(|n| run.segment_of(*n)).collect();
        segments.dedup();
        let (first, second) = (segments[0], segments[1]);
        let before = server.object(&of(first));
        change(&server, [&of(first), &of(second)]);
        let mut expected: Vec<u32> = Vec::new();
        for segment in segments.iter().take(segments.len() - 1) {
            for (number, range) in run.records_of(*segment) {
                let is_struck = match what {
                    "flipped" => *segment == first && range.contains(&5000),
                    "truncated" => *segment == first && range.end > before.len() as u64 / 2,
                    "exchanged" => [first, second].contains(segment),
                    "flushed" => true,
                    _ => *segment == first,
                };
                if is_struck {
                    expected.push(number);
                }
            }
        }
        expected.sort_unstable();
        assert!(!expected.is_empty());
        assert_eq!(run.refused(), expected, "{what}");
        run.remove_all_of(&expected);
        run.live(300);
    }
}

const CANARY: &[u8; 16] = b"COLDPRESS-CANARY";

#[test]
fn no_byte_of_a_page_is_in_the_store() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let mut run = Run::new(server.device(None), 9);
    let page: Vec<u8> = CANARY.iter().copied().cycle().take(1500).collect();
    let put = |run: &mut Run, owner| run.tier.put(owner, &page).unwrap();
    let handles: Vec<Handle> = (0..60).map(|owner| put(&mut run, owner)).collect();
    assert_eq!(handles.len(), 60);
    run.tier.sync().unwrap();
    let found = || {
        let names = server.objects();
        let words: Vec<&[u8]> = CANARY.windows(8).collect();
        let in_object = |name: &String| {
            let is_word = |bytes: &&[u8]| words.contains(bytes);
            server.object(name).windows(8).filter(is_word).count()
        };
        (names.len(), names.iter().map(in_object).sum::<usize>())
    };
    let (objects, words) = found();
    assert!(
        objects >= 5 && words == 0,
        "{objects} objects, {words} words"
    );
    // The search finds what is there.
    server.set_object("plain", &page);
    assert!(found().1 > 500);
}

#[test]
fn what_a_killed_run_leaves_behind_is_removed_by_the_documented_command() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    if program("redis-cli", "the command that removes a run").is_none() {
        return;
    }
    let mut run = Run::new(server.device(None), 10);
    run.put_many(100);
    let name = run.name();
    // As if it were killed: its end deletes nothing.
    std::mem::forget(run);
    server.set_object("test/another/0", b"of another run");
    assert!(server.objects().len() > 3);
    let text = format!("redis://127.0.0.1:{}", server.port);
    let command = Location::parse(&text).unwrap().removal(&name);
    let done = std::process::Command::new("sh")
        .arg("-c")
        .arg(&command)
        .output()
        .unwrap();
    assert!(done.status.success(), "{command}: {done:?}");
    assert_eq!(server.objects(), ["test/another/0"], "{command}");
}

#[test]
fn large_segments_go_and_come_whole() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let mut store = server.store();
    let bytes: Vec<u8> = (0..256 << 10).map(|n: u64| ((n * n) >> 7) as u8).collect();
    store.put("whole", &bytes).unwrap();
    let mut into = vec![0; bytes.len() + 10];
    assert_eq!(store.get("whole", 0, &mut into), Ok(bytes.len()));
    assert!(into[..bytes.len()] == bytes[..]);
    let mut part = [0; 4113];
    assert_eq!(store.get("whole", 70_001, &mut part), Ok(4113));
    assert!(part[..] == bytes[70_001..][..4113]);
    assert!(store.get("whole", 1 << 20, &mut part).is_err());
    assert!(SEGMENT < bytes.len() && patience().retries > 0);
}
