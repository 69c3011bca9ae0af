//! Requests and their answers, byte by byte.

use crate::common::client::*;
use crate::common::served::Served;
use crate::common::tool::content;
use coldpress_nbd::Memory;
use coldpress_nbd::{Export, Extent, Failure, Limits, Zeroing};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};

const MIB: usize = 1 << 20;

/// A chunk of content or a hole: where it begins, and what it is.
fn content_chunk(reply: &Reply) -> (u64, Result<&[u8], u32>) {
    match reply {
        Reply::Chunk {
            kind: 1, payload, ..
        } => (long(payload, 0), Ok(&payload[8..])),
        Reply::Chunk {
            kind: 2, payload, ..
        } => (long(payload, 0), Err(word(payload, 8))),
        other => panic!("no content: {other:?}"),
    }
}

#[test]
fn what_was_written_is_read_by_both_kinds_of_replies() {
    let served = Served::memory(64 << 20);
    let mut simple = Client::simple(&served);
    let mut structured = Client::structured(&served);
    let data = content(5 * MIB + 777, 1);
    assert_eq!(
        simple.write(0, 12_345, &data),
        Reply::Simple {
            cookie: 8,
            error: 0
        }
    );
    assert_eq!(simple.read(12_345, data.len() as u32), data);
    let mut read = vec![0xaa; data.len()];
    structured.send(&request(0, READ, 9, 12_345, data.len() as u32));
    let (mut at, mut holes) = (12_345, 0);
    loop {
        let reply = structured.reply();
        assert_eq!(reply.cookie(), 9);
        let (offset, content) = content_chunk(&reply);
        assert_eq!(offset, at);
        let begin = offset as usize - 12_345;
        let bytes = match content {
            Ok(data) => {
                read[begin..begin + data.len()].copy_from_slice(data);
                data.len()
            }
            Err(bytes) => {
                holes += bytes as usize;
                read[begin..begin + bytes as usize].fill(0);
                bytes as usize
            }
        };
        at += bytes as u64;
        if matches!(reply, Reply::Chunk { done: true, .. }) {
            break;
        }
    }
    assert_eq!(at, 12_345 + data.len() as u64);
    assert!(read == data);
    // The zeros in the middle were named, but for what shares a page with content.
    let zeros = data.len() / 2 - data.len() / 3;
    assert!(
        (zeros - 8192..=zeros).contains(&holes),
        "{holes} of {zeros}"
    );
}

#[test]
fn a_read_of_a_hole_is_one_short_message() {
    let served = Served::memory(64 << 20);
    let mut client = Client::structured(&served);
    for flags in [0, DF] {
        let reply = client.ask(flags, READ, 4096, 32 << 20);
        assert_eq!(content_chunk(&reply), (4096, Err(32 << 20)));
    }
    client.write(0, 1 << 20, &[1]);
    // Not fragmented: one chunk, with its zeros.
    let reply = client.ask(DF, READ, 0, 4 << 20);
    let (offset, data) = content_chunk(&reply);
    assert_eq!((offset, data.unwrap().len()), (0, 4 << 20));
    assert_eq!(data.unwrap()[MIB], 1);
}

#[test]
fn what_is_not_allowed_is_refused_and_the_connection_goes_on() {
    const END: u64 = 8 << 20;
    let (invalid, no_space, overflow, not_supported) = (22, 28, 75, 95);
    let table: &[(u16, u16, u64, u32, u32)] = &[
        (0, READ, END, 1, invalid),
        (0, READ, END - 1, 2, invalid),
        (0, READ, u64::MAX, u32::MAX, invalid),
        (0, READ, u64::MAX - 10, 11, invalid),
        (0, READ, 0, 0, invalid),
        (REQ_ONE, READ, 0, 512, invalid),
        (1 << 5, READ, 0, 512, invalid),
        (1 << 15, FLUSH, 0, 0, invalid),
        (0, FLUSH, 1, 0, invalid),
        (0, FLUSH, 0, 1, invalid),
        (0, TRIM, END - 512, 513, invalid),
        (NO_HOLE, TRIM, 0, 512, invalid),
        (0, TRIM, 0, 0, invalid),
        (0, WRITE_ZEROES, END, 1, no_space),
        (0, WRITE_ZEROES, u64::MAX, 1, no_space),
        (0, WRITE_ZEROES, 0, 0, invalid),
        (DF, WRITE_ZEROES, 0, 512, invalid),
        (NO_HOLE | FAST_ZERO, WRITE_ZEROES, 0, 512, not_supported),
        (0, CACHE, END, 1, invalid),
        (DF, CACHE, 0, 512, invalid),
        (DF, BLOCK_STATUS, 0, 512, invalid),
        (0, BLOCK_STATUS, END, 1, invalid),
        (0, BLOCK_STATUS, 0, 0, invalid),
        (0, 8, 0, 0, invalid),
        (0, u16::MAX, 0, u32::MAX, invalid),
    ];
    let served = Served::memory(END);
    let (mut simple, mut structured) = (Client::simple(&served), Client::structured(&served));
    for (flags, command, offset, length, error) in table {
        let what = format!("{command} {flags:#x} {offset:#x} {length}");
        let reply = simple.ask(*flags, *command, *offset, *length);
        assert_eq!(
            reply,
            Reply::Simple {
                cookie: 7,
                error: *error
            },
            "{what}"
        );
        let reply = structured.ask(*flags, *command, *offset, *length);
        assert_eq!(reply.error(), Some(*error), "{what}");
        assert!(
            matches!(
                reply,
                Reply::Chunk {
                    done: true,
                    cookie: 7,
                    ..
                }
            ),
            "{what}"
        );
    }
    // Writes are refused once their payload was read, so that the stream stays in step.
    for (flags, offset, length, error) in [
        (0, END, 512, no_space),
        (0, u64::MAX, 4096, no_space),
        (NO_HOLE, 0, 512, invalid),
        (1 << 5, 0, 512, invalid),
        (0, 0, 0, invalid),
        (0, 1, 8 << 20, no_space),
    ] {
        assert_eq!(
            simple.write(flags, offset, &vec![1; length]).error(),
            Some(error)
        );
        assert_eq!(
            structured.write(flags, offset, &vec![1; length]).error(),
            Some(error)
        );
    }
    // Flags that depend on what was agreed on.
    assert_eq!(simple.ask(DF, READ, 0, 512).error(), Some(invalid));
    assert_eq!(simple.ask(0, BLOCK_STATUS, 0, 512).error(), Some(invalid));
    let large = Served::memory(64 << 20);
    assert_eq!(
        Client::simple(&large)
            .ask(0, READ, 0, (32 << 20) + 1)
            .error(),
        Some(invalid)
    );
    assert_eq!(
        Client::structured(&large)
            .ask(0, READ, 0, (32 << 20) + 1)
            .error(),
        Some(overflow)
    );
    assert_eq!(simple.read(0, 4096), [0; 4096]);
    let counts = served.counts().whole;
    assert_eq!(counts.malformed_requests, 2 * (table.len() as u64 + 6) + 2);
    assert_eq!(counts.failed_requests, 0);
}

#[test]
fn a_read_only_export_refuses_changes() {
    let served = Served::new(Memory::new(1 << 20).read_only());
    let mut client = Client::simple(&served);
    assert_eq!(client.write(0, 0, &[1; 512]).error(), Some(1));
    assert_eq!(client.ask(0, TRIM, 0, 512).error(), Some(1));
    assert_eq!(client.ask(0, WRITE_ZEROES, 0, 512).error(), Some(1));
    assert_eq!(client.ask(0, FLUSH, 0, 0).error(), None);
    assert_eq!(client.read(0, 512), [0; 512]);
}

#[test]
fn the_largest_payload_goes_through_and_one_byte_more_ends_the_connection() {
    let served = Served::memory(64 << 20);
    let mut client = Client::simple(&served);
    let data = content(32 << 20, 5);
    assert_eq!(client.write(FUA, 1, &data).error(), None);
    assert!(client.read(1, 32 << 20) == data);
    client.send(&request(0, WRITE, 1, 0, (32 << 20) + 1));
    assert!(client.is_closed());
    served.wait_until("counted", |counts| counts.whole.malformed_requests == 1);
}

#[test]
fn zeros_are_holes_or_not_as_the_client_says() {
    let served = Served::memory(1 << 20);
    let mut client = Client::structured(&served);
    let states = |client: &mut Client, flags| -> Vec<(u32, u32)> {
        let Reply::Chunk {
            kind: 5,
            payload,
            done: true,
            ..
        } = client.ask(flags, BLOCK_STATUS, 0, 1 << 20)
        else {
            panic!("no block status")
        };
        assert_eq!(word(&payload, 0), 1);
        payload[4..]
            .chunks(8)
            .map(|pair| (word(pair, 0), word(pair, 4)))
            .collect()
    };
    assert_eq!(states(&mut client, 0), [(1 << 20, 3)]);
    client.write(0, 8192, &[1; 16_384]);
    assert_eq!(
        states(&mut client, 0),
        [(8192, 3), (16_384, 0), ((1 << 20) - 24_576, 3)]
    );
    assert_eq!(states(&mut client, REQ_ONE), [(8192, 3)]);
    assert_eq!(client.ask(NO_HOLE, WRITE_ZEROES, 8192, 4096).error(), None);
    assert_eq!(
        client
            .ask(FAST_ZERO | FUA, WRITE_ZEROES, 12_288, 4096)
            .error(),
        None
    );
    assert_eq!(client.ask(0, TRIM, 16_384, 4096).error(), None);
    let expected = [
        (8192, 3),
        (4096, 2),
        (8192, 3),
        (4096, 0),
        ((1 << 20) - 24_576, 3),
    ];
    assert_eq!(states(&mut client, 0), expected);
    assert_eq!(client.ask(0, CACHE, 0, 1 << 20).error(), None);
    let counts = served.counts().exports[""].clone();
    assert_eq!(
        (counts.writes, counts.zeroes, counts.trims, counts.caches),
        (1, 2, 1, 1)
    );
    assert_eq!((counts.block_statuses, counts.written_bytes), (4, 16_384));
}

/// A disk that notes when it is flushed, and fails or panics where it is told to.
#[derive(Default)]
struct Noting {
    calls: Mutex<Vec<&'static str>>,
}

const BAD: u64 = 3 << 20;
const PANICS: u64 = 5 << 20;

impl Noting {
    fn note(&self, call: &'static str) -> Result<(), Failure> {
        self.calls.lock().unwrap().push(call);
        Ok(())
    }
}

impl Export for Noting {
    fn size_bytes(&self) -> u64 {
        8 << 20
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        let range = offset..offset + buffer.len() as u64;
        assert!(!range.contains(&PANICS), "as the test wants it");
        buffer.fill(7);
        if range.contains(&BAD) {
            Err(Failure::Io)
        } else {
            Ok(())
        }
    }
    fn write(&self, offset: u64, _: &[u8]) -> Result<(), Failure> {
        self.note("write")?;
        match offset {
            BAD => Err(Failure::NoSpace),
            PANICS => panic!("as the test wants it"),
            _ => Ok(()),
        }
    }
    fn trim(&self, _: u64, _: u64) -> Result<(), Failure> {
        self.note("trim")
    }
    fn write_zeroes(&self, _: u64, _: u64, _: Zeroing) -> Result<(), Failure> {
        self.note("zeroes")
    }
    fn flush(&self) -> Result<(), Failure> {
        self.note("flush")
    }
    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        match offset {
            BAD => Err(Failure::Io),
            _ => Ok((length, Extent::Data)),
        }
    }
}

#[test]
fn a_change_that_is_to_persist_is_flushed_before_it_is_answered() {
    let noting = Arc::new(Noting::default());
    let served = Served::new(Arc::clone(&noting));
    let mut client = Client::simple(&served);
    client.write(0, 0, &[1]);
    client.write(FUA, 0, &[1]);
    client.ask(FUA, TRIM, 0, 1);
    client.ask(FUA, WRITE_ZEROES, 0, 1);
    client.ask(FUA, READ, 0, 1);
    client.bytes(1);
    client.ask(0, FLUSH, 0, 0);
    // One that failed is not flushed.
    assert_eq!(client.write(FUA, BAD, &[1]).error(), Some(28));
    let calls = noting.calls.lock().unwrap().clone();
    let expected = [
        "write", "write", "flush", "trim", "flush", "zeroes", "flush", "flush", "write",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn failures_of_the_export_are_told() {
    let served = Served::new(Arc::new(Noting::default()));
    let mut simple = Client::simple(&served);
    assert_eq!(simple.ask(0, READ, 2 << 20, 2 << 20).error(), Some(5));
    assert_eq!(simple.read(0, 3), [7; 3]);
    let mut structured = Client::structured(&served);
    // What came before is content; the failure has its place.
    structured.send(&request(0, READ, 1, 1 << 20, 4 << 20));
    let mut replies = Vec::new();
    while !replies
        .last()
        .is_some_and(|reply| matches!(reply, Reply::Chunk { done: true, .. }))
    {
        replies.push(structured.reply());
    }
    let failed = replies.pop().unwrap();
    let Reply::Chunk { kind, payload, .. } = &failed else {
        panic!()
    };
    assert_eq!((*kind, failed.error()), ((1 << 15) + 2, Some(5)));
    let at = long(payload, payload.len() - 8);
    let content: usize = replies
        .iter()
        .map(|reply| content_chunk(reply).1.unwrap().len())
        .sum();
    assert_eq!(at, (1 << 20) + content as u64);
    assert!((1 << 20..=BAD).contains(&at));
    assert_eq!(structured.ask(DF, READ, 2 << 20, 2 << 20).error(), Some(5));
    assert_eq!(structured.ask(0, BLOCK_STATUS, BAD, 512).error(), Some(5));
    // A panic is a failure, and the server goes on.
    assert_eq!(structured.ask(0, READ, PANICS, 512).error(), Some(5));
    assert_eq!(structured.write(0, PANICS, &[1]).error(), Some(5));
    assert_eq!(structured.ask(0, READ, 0, 512).error(), None);
    assert_eq!(served.counts().whole.failed_requests, 6);
}

/// A disk whose reads at 0 wait until others have come.
#[derive(Default)]
struct Gated {
    others: Mutex<usize>,
    came: Condvar,
    most_at_once: Mutex<(usize, usize)>,
}

impl Export for Gated {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        {
            let mut at_once = self.most_at_once.lock().unwrap();
            at_once.0 += 1;
            at_once.1 = at_once.1.max(at_once.0);
        }
        let mut others = self.others.lock().unwrap();
        if offset == 0 {
            others = self.came.wait_while(others, |others| *others < 20).unwrap();
        } else {
            *others += 1;
            self.came.notify_all();
        }
        drop(others);
        self.most_at_once.lock().unwrap().0 -= 1;
        buffer.fill(1);
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }
    fn trim(&self, _: u64, _: u64) -> Result<(), Failure> {
        Ok(())
    }
    fn write_zeroes(&self, _: u64, _: u64, _: Zeroing) -> Result<(), Failure> {
        Ok(())
    }
    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn extent(&self, _: u64, length: u64) -> Result<(u64, Extent), Failure> {
        Ok((length, Extent::Data))
    }
}

#[test]
fn requests_overtake_one_that_takes_long() {
    let limits = Limits {
        in_flight: 4,
        ..Limits::default()
    };
    let gated = Arc::new(Gated::default());
    let served = Served::with(Arc::clone(&gated), limits);
    let mut client = Client::simple(&served);
    // The first is answered only after twenty that come later.
    let mut all = request(0, READ, 100, 0, 16);
    for cookie in 1..=20 {
        all.extend(request(0, READ, cookie, cookie * 512, 16));
    }
    client.send(&all);
    let mut cookies = Vec::new();
    for _ in 0..21 {
        let reply = client.reply();
        assert_eq!(reply.error(), None);
        client.bytes(16);
        cookies.push(reply.cookie());
    }
    let first = cookies.iter().position(|cookie| *cookie == 100).unwrap();
    assert!(
        first >= 17,
        "answered before those it waits for: {cookies:?}"
    );
    let distinct: BTreeSet<_> = cookies.iter().collect();
    assert_eq!(distinct.len(), 21);
    let most = gated.most_at_once.lock().unwrap().1;
    assert!((2..=4).contains(&most), "{most} at once");
}

#[test]
fn requests_before_a_leave_are_answered() {
    let served = Served::memory(1 << 20);
    let mut client = Client::simple(&served);
    let mut all = Vec::new();
    for cookie in 0..50 {
        all.extend(request(0, READ, cookie, 0, 4096));
    }
    all.extend(request(0, DISC, 0, 0, 0));
    client.send(&all);
    let cookies: BTreeSet<_> = (0..50)
        .map(|_| {
            let reply = client.reply();
            client.bytes(4096);
            reply.cookie()
        })
        .collect();
    assert_eq!(cookies.len(), 50);
    assert!(client.is_closed());
    served.wait_until("left", |counts| counts.whole.connections_now == 0);
    assert_eq!(served.counts().whole.malformed_requests, 0);
}
