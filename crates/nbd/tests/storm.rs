//! Many clients at once, each of which checks what it reads.

use crate::common::client::*;
use crate::common::served::Served;
use crate::common::tool::{content, installed_or_skip, run, succeeds};
use coldpress_nbd::Memory;
use std::fs;

const MIB: u64 = 1 << 20;

#[test]
fn several_programs_copy_at_once() {
    if !installed_or_skip(&["nbdcopy", "qemu-img"]) {
        return;
    }
    let served = Served::memory(16 * MIB);
    for number in 1..5 {
        served
            .disks
            .add(&format!("disk{number}"), Memory::new(16 * MIB));
    }
    std::thread::scope(|scope| {
        for number in 1..5 {
            let served = &served;
            scope.spawn(move || {
                let (original, copy) = (
                    served.file(&format!("in{number}")),
                    served.file(&format!("out{number}")),
                );
                let name = format!("disk{number}");
                let uri = if number % 2 == 0 {
                    served.uri(&name)
                } else {
                    served.tcp_uri(&name)
                };
                for round in 0..3 {
                    let data = content(16 << 20, number * 10 + round);
                    fs::write(&original, &data).unwrap();
                    let (original, copied) = (original.to_str().unwrap(), copy.to_str().unwrap());
                    if round % 2 == 0 {
                        succeeds(&["nbdcopy", "--requests=64", original, &uri]);
                    } else {
                        succeeds(&[
                            "qemu-img", "convert", "-n", "-W", "-f", "raw", "-O", "raw", original,
                            &uri,
                        ]);
                    }
                    succeeds(&["nbdcopy", &uri, copied]);
                    assert!(fs::read(&copy).unwrap() == data, "{uri}, round {round}");
                }
            });
        }
    });
    let counts = served.counts();
    assert_eq!(
        (
            counts.whole.failed_requests,
            counts.whole.malformed_requests
        ),
        (0, 0)
    );
}

#[test]
fn fio_verifies_what_it_writes() {
    if !installed_or_skip(&["fio"]) {
        return;
    }
    if !run(&["fio", "--enghelp=nbd"]).status.success() {
        return crate::common::tool::skipped("fio has no engine for NBD");
    }
    let served = Served::memory(64 * MIB);
    // Four jobs, each in its part, with writes of all sizes and trims among them; each read is verified.
    let uri = format!("--uri={}", served.uri(""));
    let printed = succeeds(&[
        "fio",
        "--name=storm",
        "--ioengine=nbd",
        &uri,
        "--thread",
        "--numjobs=4",
        "--size=8M",
        "--offset_increment=16M",
        "--rw=randwrite",
        "--bsrange=512-64k",
        "--iodepth=16",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--loops=2",
        "--fsync=32",
        "--verify_state_save=0",
    ]);
    assert!(printed.matches("err= 0").count() >= 4, "{printed}");
    let counts = served.counts();
    assert!(
        counts.whole.reads > 100 && counts.whole.writes > 100 && counts.whole.flushes > 4,
        "{counts:?}"
    );
    assert_eq!(
        (
            counts.whole.failed_requests,
            counts.whole.malformed_requests
        ),
        (0, 0)
    );
}

#[test]
fn what_one_connection_was_answered_all_others_see() {
    let served = Served::memory(MIB);
    let mut clients: Vec<_> = (0..8)
        .map(|number| {
            if number % 2 == 0 {
                Client::structured(&served)
            } else {
                Client::simple(&served)
            }
        })
        .collect();
    for round in 0..200_u64 {
        let (writer, reader) = (round as usize % 8, (round * 5 + 3) as usize % 8);
        let (offset, data) = (round * 4096 + round, vec![round as u8 + 1; 5000]);
        assert_eq!(clients[writer].write(0, offset, &data).error(), None);
        let read = if reader.is_multiple_of(2) {
            let Reply::Chunk {
                kind: 1, payload, ..
            } = clients[reader].ask(DF, READ, offset, 5000)
            else {
                panic!("no content")
            };
            payload[8..].to_vec()
        } else {
            clients[reader].read(offset, 5000)
        };
        assert!(read == data, "round {round}");
    }
}

/// A generator of numbers, which a seed says everything of.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Changes and reads its own part of the disk, several requests in flight, and knows what must be there.
fn hammer(served: &Served, number: u64) {
    const PART: u64 = 256 << 10;
    let begin = number * PART;
    let mut client = Client::simple(served);
    let mut random = Random(number + 1);
    let mut expected = vec![0_u8; PART as usize];
    for round in 0..60 {
        // Requests of one round do not overlap: each has its eighth.
        let mut all = Vec::new();
        let mut reads = std::collections::BTreeMap::new();
        for cookie in 0..8 {
            let eighth = cookie * PART / 8;
            let length = 1 + random.below(PART / 8);
            let at = eighth + random.below(PART / 8 - length + 1);
            let range = at as usize..(at + length) as usize;
            match random.below(5) {
                0 | 1 => {
                    let byte = random.below(255) as u8 + 1;
                    all.extend(request(FUA, WRITE, cookie, begin + at, length as u32));
                    all.extend(vec![byte; length as usize]);
                    expected[range].fill(byte);
                }
                2 => {
                    let (command, flags) = if round % 2 == 0 {
                        (TRIM, 0)
                    } else {
                        (WRITE_ZEROES, NO_HOLE)
                    };
                    all.extend(request(flags, command, cookie, begin + at, length as u32));
                    expected[range].fill(0);
                }
                _ => {
                    all.extend(request(0, READ, cookie, begin + at, length as u32));
                    reads.insert(cookie, expected[range].to_vec());
                }
            }
        }
        let mut sender = Client(client.0.try_clone().unwrap());
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(&all));
            for _ in 0..8 {
                let reply = client.reply();
                assert_eq!(reply.error(), None);
                if let Some(content) = reads.remove(&reply.cookie()) {
                    assert!(
                        client.bytes(content.len()) == content,
                        "client {number}, round {round}"
                    );
                }
            }
        });
    }
    assert!(client.read(begin, PART as u32) == expected);
}

#[test]
fn many_clients_with_many_requests_each_find_what_they_left() {
    let served = Served::memory(4 * MIB);
    std::thread::scope(|scope| {
        for number in 0..16 {
            let served = &served;
            scope.spawn(move || hammer(served, number));
        }
    });
    assert_eq!(served.counts().whole.failed_requests, 0);
    assert_eq!(served.counts().whole.connections, 16);
}
