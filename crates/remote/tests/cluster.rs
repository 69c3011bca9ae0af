//! Promise: on a Redis Cluster a tier returns every byte, its objects are spread over the servers, and one that is gone
//! costs what it had.

use crate::common::process::{Directory, Process, free_port, program, redis_command, serve};
use crate::common::{Run, device, wait_until};
use coldpress_remote::{Location, RedisStore, Store};
use redis::Connection;

const SLOTS: u32 = 16384;

struct Cluster {
    _directories: Vec<Directory>,
    processes: Vec<Process>,
    ports: Vec<u16>,
}

fn connection(port: u16) -> Connection {
    let client = redis::Client::open(("127.0.0.1", port)).unwrap();
    client.get_connection().unwrap()
}

fn cluster_command(port: u16, words: &[&str]) {
    let mut command = redis::cmd("CLUSTER");
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command.exec(&mut connection(port)).unwrap();
}

impl Cluster {
    /// Three servers without replicas, of which one that is gone does not stop the others.
    fn start() -> Option<Self> {
        let program = program("redis-server", "a tier on a Redis Cluster")?;
        let mut cluster = Self {
            _directories: Vec::new(),
            processes: Vec::new(),
            ports: Vec::new(),
        };
        for _ in 0..3 {
            let directory = Directory::new();
            let (process, port) = serve(|port| {
                let bus = free_port().to_string();
                let options = [
                    "--cluster-enabled",
                    "yes",
                    "--cluster-port",
                    &bus,
                    "--cluster-node-timeout",
                    "20000",
                    "--cluster-require-full-coverage",
                    "no",
                ];
                redis_command(&program, &directory.0, port, &options)
            });
            cluster._directories.push(directory);
            cluster.processes.push(process);
            cluster.ports.push(port);
        }
        cluster.join();
        Some(cluster)
    }

    fn join(&self) {
        for (part, port) in (0..).zip(&self.ports) {
            let first = SLOTS * part / 3;
            let last = SLOTS * (part + 1) / 3 - 1;
            let range = [first.to_string(), last.to_string()];
            cluster_command(*port, &["ADDSLOTSRANGE", &range[0], &range[1]]);
            cluster_command(*port, &["SET-CONFIG-EPOCH", &(part + 1).to_string()]);
        }
        for port in &self.ports[1..] {
            let mut ask = redis::cmd("INFO");
            let info: String = ask.arg("server").query(&mut connection(*port)).unwrap();
            assert!(info.contains("redis_mode:cluster"), "{info}");
            let bus = self.bus_of(*port);
            let words = ["MEET", "127.0.0.1", &port.to_string(), &bus];
            cluster_command(self.ports[0], &words);
        }
        let is_whole = |port: &u16| {
            let mut ask = redis::cmd("CLUSTER");
            let info: String = ask.arg("INFO").query(&mut connection(*port)).unwrap();
            info.contains("cluster_state:ok")
                && info.contains("cluster_known_nodes:3")
                && info.contains("cluster_slots_assigned:16384")
        };
        wait_until("one cluster", || self.ports.iter().all(is_whole));
    }

    /// The port on which a server speaks with the others.
    fn bus_of(&self, port: u16) -> String {
        let mut get = redis::cmd("CONFIG");
        let get = get.arg("GET").arg("cluster-port");
        let answer: Vec<String> = get.query(&mut connection(port)).unwrap();
        answer[1].clone()
    }

    fn location(&self) -> Location {
        let text = format!("redis://127.0.0.1:{}?cluster=1&timeout=10s", self.ports[0]);
        Location::parse(&text).unwrap()
    }

    fn sizes(&self) -> Vec<u64> {
        let size = |port: &u16| redis::cmd("DBSIZE").query(&mut connection(*port)).unwrap();
        self.ports.iter().map(size).collect()
    }
}

#[test]
fn a_tier_on_a_cluster_is_its_records() {
    let Some(mut cluster) = Cluster::start() else {
        return;
    };
    let store =
        || -> Box<dyn Store> { Box::new(RedisStore::new(&cluster.location(), None).unwrap()) };
    let mut run = Run::new(device(store(), None), 1);
    run.live(1500);
    run.put_many(150);
    let sizes = cluster.sizes();
    assert!(
        sizes.iter().all(|size| *size > 0),
        "on all servers: {sizes:?}"
    );
    let figures = run.figures();
    assert_eq!((figures.errors, figures.retries), (0, 0), "{figures:?}");
    drop(run);
    assert_eq!(cluster.sizes(), [0, 0, 0], "all were deleted at the end");

    // A run that is killed.
    let mut run = Run::new(device(store(), None), 2);
    run.put_many(150);
    let command = cluster.location().removal(&run.name());
    std::mem::forget(run);
    if program("redis-cli", "the command that removes a run of a cluster").is_some() {
        let done = std::process::Command::new("sh")
            .arg("-c")
            .arg(&command)
            .output()
            .unwrap();
        assert!(done.status.success(), "{command}: {done:?}");
        assert_eq!(cluster.sizes(), [0, 0, 0], "{command}: {done:?}");
    }

    // A server that is gone, which is not the one that the location names.
    let mut run = Run::new(device(store(), None), 3);
    run.put_many(150);
    let sizes = cluster.sizes();
    drop(cluster.processes.pop());
    let gone = run.refused();
    assert!(!gone.is_empty() && gone.len() < run.held.len(), "{sizes:?}");
    // The rest of what was refused is on the servers that are there.
    wait_until("answered", || {
        let again = run.refused();
        let no_other = again.iter().all(|number| gone.contains(number));
        let segments = |numbers: &[u32]| -> Vec<u64> {
            let mut all: Vec<u64> = numbers.iter().filter_map(|n| run.segment_of(*n)).collect();
            all.dedup();
            all
        };
        no_other && segments(&again).len() as u64 <= sizes[2]
    });
}
