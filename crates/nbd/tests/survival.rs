//! Clients that die, stall or swarm harm nobody else, and the server ends when it is told to.

use crate::common::client::*;
use crate::common::served::{Disks, PATIENCE, Served};
use crate::common::tool::{content, installed_or_skip, start, succeeds};
use coldpress_nbd::Memory;
use coldpress_nbd::{
    BindError, Export, Exports, Extent, Failure, Limits, Listen, ServeError, Server, Zeroing,
};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Copies in and out by a client of Debian, or by ours where it is missing; what comes out must be what went in.
fn copies_well(served: &Served, seed: u64) {
    let data = content(16 * MIB, seed);
    if installed_or_skip(&["nbdcopy"]) {
        let (original, copy) = (served.file("original"), served.file("copy"));
        fs::write(&original, &data).unwrap();
        succeeds(&["nbdcopy", original.to_str().unwrap(), &served.uri("")]);
        succeeds(&["nbdcopy", &served.uri(""), copy.to_str().unwrap()]);
        assert!(fs::read(&copy).unwrap()[..data.len()] == data);
    }
    let mut client = Client::simple(served);
    assert_eq!(client.write(0, 0, &data).error(), None);
    assert!(client.read(0, data.len() as u32) == data);
    client.send(&request(0, DISC, 0, 0, 0));
    assert!(client.is_closed());
}

/// A disk in memory with a gate: while it is shut, writes wait.
struct Gate {
    memory: Memory,
    shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn shut(memory: Memory) -> Arc<Self> {
        Arc::new(Self {
            memory,
            shut: Mutex::new(true),
            opened: Condvar::new(),
        })
    }

    fn open(&self) {
        *self.shut.lock().unwrap() = false;
        self.opened.notify_all();
    }
}

impl Export for Gate {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.memory.read(offset, buffer)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        drop(
            self.opened
                .wait_while(self.shut.lock().unwrap(), |shut| *shut)
                .unwrap(),
        );
        self.memory.write(offset, data)
    }
    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.memory.trim(offset, length)
    }
    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure> {
        self.memory.write_zeroes(offset, length, zeroing)
    }
    fn flush(&self) -> Result<(), Failure> {
        self.memory.flush()
    }
    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        self.memory.extent(offset, length)
    }
}

#[test]
fn a_client_killed_in_the_middle_leaves_the_server_to_others() {
    if !installed_or_skip(&["nbdcopy"]) {
        return;
    }
    let gate = Gate::shut(Memory::new(64 << 20));
    let served = Served::new(Arc::clone(&gate));
    let original = served.file("original");
    fs::write(&original, content(64 * MIB, 3)).unwrap();
    // Its writes wait at the gate, so that it is in the middle of them when it is killed.
    let mut client = start(&["nbdcopy", original.to_str().unwrap(), &served.uri("")]);
    served.wait_until("in the middle", |counts| {
        counts.whole.received_bytes > 1 << 20
    });
    client.kill().unwrap();
    client.wait().unwrap();
    gate.open();
    served.wait_until("alone", |counts| counts.whole.connections_now == 0);
    copies_well(&served, 4);
    assert_eq!(served.counts().whole.malformed_requests, 0);
}

#[test]
fn what_was_sent_in_part_is_not_written() {
    let served = Served::memory(16 << 20);
    let mut client = Client::simple(&served);
    client.write(0, 0, &[1; 4096]);
    client.send(&[request(0, WRITE, 1, 0, 1 << 20), vec![2; 4096]].concat());
    drop(client);
    served.wait_until("alone", |counts| counts.whole.connections_now == 0);
    assert_eq!(Client::simple(&served).read(0, 4096), [1; 4096]);
}

#[test]
fn clients_that_stall_do_not_harm_one_that_does_not() {
    // Long enough for the good ones on a machine that is busy.
    let time = Duration::from_secs(5);
    let limits = Limits {
        handshake_silence: time,
        request_silence: time,
        reply_time: time,
        ..Limits::default()
    };
    let served = Served::with(Memory::new(64 << 20), limits);
    let data = content(32 << 20, 5);
    assert_eq!(Client::simple(&served).write(0, 0, &data).error(), None);
    let mute: Vec<_> = (0..10).map(|_| Client::mute(&served)).collect();
    let halves: Vec<_> = (0..10)
        .map(|_| {
            let mut client = Client::simple(&served);
            client.send(&request(0, WRITE, 1, 0, 1 << 20));
            client.send(&[1; 1000]);
            client
        })
        .collect();
    let slow: Vec<_> = (0..10)
        .map(|number| {
            let mut client = if number % 2 == 0 {
                Client::simple(&served)
            } else {
                Client::structured(&served)
            };
            let many: Vec<u8> = (0..20)
                .flat_map(|cookie| request(0, READ, cookie, 0, 32 << 20))
                .collect();
            client.send(&many);
            client
        })
        .collect();
    copies_well(&served, 6);
    served.wait_until("rid of them", |counts| {
        counts.stalled_connections == 20
            && counts.ended_handshakes >= 10
            && counts.whole.connections_now == 0
    });
    copies_well(&served, 7);
    drop((mute, halves, slow));
}

#[test]
fn a_handshake_byte_by_byte_is_over_when_its_time_is() {
    let limits = Limits {
        handshake_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = Served::with(Memory::new(MIB as u64), limits);
    let mut client = Client::mute(&served);
    // Never silent for long, and never done.
    let options = [3_u32.to_be_bytes().to_vec(), option(LIST, &[]).repeat(1000)].concat();
    let sent = options
        .iter()
        .take_while(|byte| {
            std::thread::sleep(Duration::from_millis(10));
            client.0.write_all(&[**byte]).is_ok()
        })
        .count();
    assert!(sent < options.len(), "it was never shut out");
    served.wait_until("rid of it", |counts| counts.ended_handshakes == 1);
}

#[test]
fn a_reply_byte_by_byte_is_over_when_its_time_is() {
    let limits = Limits {
        reply_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let served = Served::with(Memory::new(64 << 20), limits);
    let mut client = Client::simple(&served);
    client.send(&request(0, READ, 1, 0, 32 << 20));
    let mut taken = 0;
    let mut piece = [0; 16 << 10];
    while let Ok(bytes @ 1..) = client.0.read(&mut piece) {
        taken += bytes;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(taken < 32 << 20, "it was waited for");
    served.wait_until("rid of it", |counts| counts.stalled_connections == 1);
}

#[test]
fn a_client_that_is_idle_between_requests_stays() {
    let limits = Limits {
        request_silence: Duration::from_millis(20),
        ..Limits::default()
    };
    let served = Served::with(Memory::new(MIB as u64), limits);
    let mut client = Client::simple(&served);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(client.read(0, 512), [0; 512]);
    assert_eq!(served.counts().stalled_connections, 0);
}

#[test]
fn a_thousand_mute_connections_keep_nobody_out() {
    // Nobody has to go because of the time.
    let limits = Limits {
        handshake_silence: PATIENCE * 60,
        handshake_time: PATIENCE * 60,
        ..Limits::default()
    };
    let served = Served::with(Memory::new(64 << 20), limits);
    let mut before = Client::structured(&served);
    let mut mute: Vec<_> = (0..1000).map(|_| Client::mute(&served)).collect();
    assert_eq!(before.write(0, 0, &[1; 4096]).error(), None);
    copies_well(&served, 8);
    assert_eq!(before.ask(DF, READ, 0, 4096).error(), None);
    let counts = served.counts();
    assert!(
        counts.handshakes_now <= 64 && counts.refused_connections >= 1000 - 64,
        "{counts:?}"
    );
    // Those that had to go are told, whether they had their greeting or not.
    let mut greeting = Vec::new();
    match mute[0].0.read_to_end(&mut greeting) {
        Ok(bytes) => assert!([0, 18].contains(&bytes), "{greeting:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    drop(mute);
    served.wait_until("rid of them", |counts| counts.handshakes_now == 0);
}

#[test]
fn a_thousand_clients_meet_the_limit_and_those_within_it_are_served() {
    let served = Served::memory(64 << 20);
    let mut within: Vec<_> = (0..128).map(|_| Client::structured(&served)).collect();
    for _ in 128..1000 {
        assert!(
            Client::mute(&served).is_closed(),
            "beyond the limit, and not closed"
        );
    }
    for (number, client) in within.iter_mut().enumerate() {
        let offset = number as u64 * 4096;
        assert_eq!(client.write(0, offset, &[number as u8; 4096]).error(), None);
    }
    let counts = served.counts();
    assert_eq!(
        (counts.whole.connections_now, counts.refused_connections),
        (128, 872)
    );
    within.pop();
    served.wait_until("one less", |counts| counts.whole.connections_now == 127);
    let read = Client::simple(&served).read(0, 128 * 4096);
    assert!(
        read.chunks(4096)
            .enumerate()
            .all(|(number, page)| page.iter().all(|byte| *byte == number as u8))
    );
}

#[test]
fn stopping_answers_what_is_under_way_and_closes_what_is_idle() {
    let gate = Gate::shut(Memory::new(MIB as u64));
    let mut served = Served::new(Arc::clone(&gate));
    let (mut busy, mut idle, mut mute) = (
        Client::simple(&served),
        Client::structured(&served),
        Client::mute(&served),
    );
    mute.bytes(18);
    busy.send(&[request(FUA, WRITE, 42, 0, 512), vec![9; 512]].concat());
    served.wait_until("under way", |counts| {
        counts.whole.received_bytes == 28 + 512
    });
    served.handle.stop();
    assert!(idle.is_closed());
    assert!(mute.is_closed());
    gate.open();
    assert_eq!(
        busy.reply(),
        Reply::Simple {
            cookie: 42,
            error: 0
        }
    );
    assert!(busy.is_closed());
    served.stop();
    let mut written = [0; 512];
    gate.read(0, &mut written).unwrap();
    assert_eq!(written, [9; 512]);
}

#[test]
fn stopping_does_not_wait_for_a_client_that_does_not_read() {
    let limits = Limits {
        stop_time: Duration::from_secs(3),
        reply_time: Duration::from_secs(3600),
        ..Limits::default()
    };
    let mut served = Served::with(Memory::new(64 << 20), limits);
    let mut client = Client::simple(&served);
    let many: Vec<u8> = (0..20)
        .flat_map(|cookie| request(0, READ, cookie, 0, 4 << 20))
        .collect();
    client.send(&many);
    served.wait_until("at work", |counts| counts.whole.received_bytes > 28);
    served.stop();
}

#[test]
fn an_export_that_does_not_return_is_told() {
    let gate = Gate::shut(Memory::new(MIB as u64));
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let disks = Disks::default();
    disks.add("", Arc::clone(&gate));
    let limits = Limits {
        stop_time: Duration::from_millis(50),
        ..Limits::default()
    };
    let server = Server::bind(&[Listen::Unix(socket.clone())], Arc::new(disks), limits).unwrap();
    let handle = server.handle();
    let serving = std::thread::spawn(move || server.serve());
    let mut client = Client::simple_at(&socket);
    client.send(&[request(0, WRITE, 1, 0, 512), vec![9; 512]].concat());
    while handle.counts().whole.received_bytes < 28 + 512 {
        std::thread::yield_now();
    }
    handle.stop();
    assert!(matches!(
        serving.join().unwrap(),
        Err(ServeError::Unfinished(1))
    ));
    gate.open();
}

fn disks() -> Arc<dyn Exports> {
    Arc::new(Disks::default())
}

#[test]
fn a_socket_is_taken_from_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, file) = (
        directory.path().join("socket"),
        directory.path().join("file"),
    );
    let bind = |path: &std::path::Path| {
        Server::bind(&[Listen::Unix(path.into())], disks(), Limits::default())
    };
    let server = bind(&socket).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can connect");
    assert!(matches!(bind(&socket), Err(BindError::Served(_))));
    fs::write(&file, "precious").unwrap();
    assert!(matches!(bind(&file), Err(BindError::NoSocket(_))));
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    drop(server);
    assert!(!socket.exists());
    // What a killed server leaves behind.
    drop(UnixListener::bind(&socket).unwrap());
    let server = bind(&socket).unwrap();
    // What somebody else put in its place is not removed.
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "another's").unwrap();
    drop(server);
    assert!(socket.exists());
    assert!(matches!(
        bind(&directory.path().join("x".repeat(200))),
        Err(BindError::Unix { .. })
    ));
    assert!(matches!(
        bind(&directory.path().join("none/socket")),
        Err(BindError::Unix { .. })
    ));
}

#[test]
fn other_machines_are_not_listened_to() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let listen = Listen::Tcp(address.parse().unwrap());
        assert!(matches!(
            Server::bind(&[listen], disks(), Limits::default()),
            Err(BindError::NotLoopback(_))
        ));
    }
    assert!(matches!(
        Server::bind(&[], disks(), Limits::default()),
        Err(BindError::Nowhere)
    ));
    let served = Served::memory(MIB as u64);
    let taken = Server::bind(&[Listen::Tcp(served.address)], disks(), Limits::default());
    assert!(matches!(taken, Err(BindError::Tcp { .. })));
}
