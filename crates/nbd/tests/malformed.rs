//! Bytes that break the protocol: they are answered or end the connection, and nothing else.

use crate::common::client::*;
use crate::common::model::{NAME, check_conversation};
use crate::common::served::Served;
use coldpress_nbd::Limits;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Requests in it that are answered.
const ANSWERED: usize = 11;

#[test]
fn a_conversation_that_is_cut_off_anywhere_is_answered_up_to_there() {
    let whole = conversation();
    assert_eq!(check_conversation(&whole), ANSWERED);
    for end in 0..whole.len() {
        assert!(check_conversation(&whole[..end]) <= ANSWERED);
    }
}

#[test]
fn a_conversation_with_any_bit_wrong_is_answered_by_the_protocol() {
    let whole = conversation();
    for bit in 0..8 * whole.len() {
        let mut wrong = whole.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        check_conversation(&wrong);
    }
}

#[test]
fn claims_of_any_size_are_met_by_what_is_there() {
    let whole = conversation();
    for at in 0..whole.len() - 8 {
        for claim in [
            u64::MAX,
            i64::MAX as u64,
            1 << 32,
            0,
            u64::from(u32::MAX),
            1 << 25,
        ] {
            let mut wrong = whole.clone();
            wrong[at..at + 8].copy_from_slice(&claim.to_be_bytes());
            check_conversation(&wrong);
        }
    }
}

#[test]
fn a_client_that_only_sends_options_is_shut_out() {
    let one = option(LIST, &[]);
    let many = [3_u32.to_be_bytes().to_vec(), one.repeat(5000)].concat();
    assert_eq!(check_conversation(&many), 0);
}

/// One message of a client, of any kind, with any figures.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just(""), Just(NAME), Just("nobody")];
    let offset = prop_oneof![0..25_000_u64, Just(u64::MAX), any::<u64>()];
    let length = prop_oneof![0..5000_u32, 0..25_000_u32, any::<u32>()];
    let flags = prop_oneof![Just(0_u16), 0..32_u16, any::<u16>()];
    prop_oneof![
        (0..12_u32, proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(number, data)| option(number, &data)),
        (
            6..8_u32,
            name.clone(),
            proptest::collection::vec(0..6_u16, 0..4)
        )
            .prop_map(|(number, name, infos)| option(number, &export_request(name, &infos))),
        (9..11_u32, name)
            .prop_map(|(number, name)| option(number, &meta_request(name, &["base:allocation"]))),
        Just(option(STRUCTURED_REPLY, &[])),
        (
            flags.clone(),
            0..9_u16,
            any::<u64>(),
            offset.clone(),
            length
        )
            .prop_map(|(flags, command, cookie, offset, length)| request(
                flags, command, cookie, offset, length
            )),
        (flags, offset, proptest::collection::vec(0..3_u8, 0..3000)).prop_map(
            |(flags, offset, data)| {
                [request(flags, WRITE, 1, offset, data.len() as u32), data].concat()
            }
        ),
        proptest::collection::vec(any::<u8>(), 0..64),
    ]
}

fn agreement() -> impl Strategy<Value = Vec<u8>> {
    let structured = [
        option(STRUCTURED_REPLY, &[]),
        option(SET_META_CONTEXT, &meta_request("", &["base:allocation"])),
    ]
    .concat();
    let go = option(GO, &export_request("", &[]));
    let flags = 3_u32.to_be_bytes().to_vec();
    prop_oneof![
        Just(flags.clone()),
        Just([flags.clone(), option(EXPORT_NAME, b"")].concat()),
        Just([flags.clone(), go.clone()].concat()),
        Just([flags, structured, go].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(512), ..ProptestConfig::default() })]

    #[test]
    fn any_messages_are_answered_by_the_protocol(
        agreed in agreement(),
        messages in proptest::collection::vec(message(), 0..30),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut input = [agreed, messages.concat()].concat();
        for (at, value) in flips {
            let at = at.index(input.len());
            input[at] = value;
        }
        check_conversation(&input);
    }
}

#[test]
fn sockets_are_no_other_than_bytes() {
    let limits = Limits {
        handshake_silence: Duration::from_secs(1),
        request_silence: Duration::from_secs(1),
        ..Limits::default()
    };
    let served = Served::with(coldpress_nbd::Memory::new(1 << 20), limits);
    let mut good = Client::structured(&served);
    good.write(0, 0, &[9; 512]);
    let go = [
        3_u32.to_be_bytes().to_vec(),
        option(GO, &export_request("", &[])),
    ]
    .concat();
    let bad = [
        vec![],
        vec![0xff; 64],
        vec![0; 200],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        [
            3_u32.to_be_bytes().to_vec(),
            option(GO, &[0xff; 40]),
            vec![0xee; 99],
        ]
        .concat(),
        [
            3_u32.to_be_bytes().to_vec(),
            b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff".to_vec(),
            vec![1; 5000],
        ]
        .concat(),
        [
            3_u32.to_be_bytes().to_vec(),
            b"IHAVEOPT\0\0\0\x07\x01\0\0\0".to_vec(),
            vec![1; 5000],
        ]
        .concat(),
        [go.clone(), vec![0; 28]].concat(),
        [go.clone(), request(0, WRITE, 1, 0, u32::MAX)].concat(),
        [go.clone(), request(0, WRITE, 1, 0, 1 << 20), vec![1; 9999]].concat(),
        [go, request(0, READ, 1, 0, 512), vec![0x25]].concat(),
    ];
    for (number, bytes) in bad.iter().enumerate() {
        for half_closed in [true, false] {
            // The server may be gone before all was sent; that is an answer.
            let mut tcp = TcpStream::connect(served.address).unwrap();
            tcp.set_read_timeout(Some(crate::common::served::PATIENCE))
                .unwrap();
            let _ = tcp.write_all(bytes);
            if half_closed {
                let _ = tcp.shutdown(Shutdown::Write);
            }
            let mut answer = Vec::new();
            match tcp.read_to_end(&mut answer) {
                Ok(_) => {}
                Err(error) => assert_eq!(
                    error.kind(),
                    std::io::ErrorKind::ConnectionReset,
                    "{number} hangs"
                ),
            }
        }
    }
    served.wait_until("alone", |counts| {
        counts.whole.connections_now == 1 && counts.handshakes_now == 0
    });
    assert!(served.counts().malformed_handshakes >= 6);
    assert!(good.ask(DF, READ, 0, 512).error().is_none());
}
