//! What is agreed on before the first request.

use crate::common::client::*;
use crate::common::served::Served;
use coldpress_nbd::Memory;

const MIB: u64 = 1 << 20;

fn served() -> Served {
    let served = Served::memory(MIB);
    served.disks.add("other", Memory::new(2 * MIB).read_only());
    served
}

#[test]
fn the_export_is_described() {
    let served = served();
    let mut client = Client::connect(&served);
    let replies = client.option(INFO, &export_request("other", &[3, 2, 1, 77]));
    let (last, infos) = replies.split_last().unwrap();
    assert_eq!(*last, (ACK, vec![]));
    assert!(infos.iter().all(|(kind, _)| *kind == 3));
    let info = |number: u16| {
        let mut found = infos
            .iter()
            .filter(|(_, data)| data[..2] == number.to_be_bytes());
        let (_, data) = found.next().unwrap();
        assert!(found.next().is_none());
        &data[2..]
    };
    assert_eq!(long(info(0), 0), 2 * MIB);
    // Read-only, no trim, no zeros, no DF before structured replies were agreed on.
    assert_eq!(u16::from_be_bytes(info(0)[8..].try_into().unwrap()), 0x50f);
    assert_eq!(info(1), b"other");
    assert_eq!(info(2), b"2097152 bytes of plain memory");
    assert_eq!([0, 4, 8].map(|at| word(info(3), at)), [1, 4096, 32 << 20]);
    // It is asked again, for the default, and entered.
    client.option(STRUCTURED_REPLY, &[]);
    let replies = client.option(GO, &export_request("", &[]));
    assert_eq!(replies.len(), 2);
    assert_eq!(long(&replies[0].1, 2), MIB);
    assert_eq!(replies[0].1[10..], 0x0ded_u16.to_be_bytes());
    assert_eq!(client.ask(0, FLUSH, 0, 0).error(), None);
}

#[test]
fn exports_are_listed_as_they_come_and_go() {
    let served = served();
    let mut client = Client::connect(&served);
    let listed = client.option(LIST, &[]);
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[1].1, b"\0\0\0\x05other2097152 bytes of plain memory");
    served.disks.add("a snapshot", Memory::new(512));
    assert_eq!(client.option(LIST, &[]).len(), 4);
    assert_eq!(
        client
            .option(GO, &export_request("a snapshot", &[]))
            .last()
            .unwrap()
            .0,
        ACK
    );
}

#[test]
fn what_is_not_understood_is_refused_and_the_handshake_goes_on() {
    let served = served();
    let mut client = Client::connect(&served);
    let unsupported = ERROR + 1;
    let invalid = ERROR + 3;
    let unknown = ERROR + 6;
    let too_big = ERROR + 9;
    let refused: &[(u32, Vec<u8>, u32)] = &[
        (5, vec![], unsupported),
        (5, vec![1], invalid),
        (11, vec![], unsupported),
        (4, vec![1, 2, 3], unsupported),
        (u32::MAX, vec![0; 60_000], unsupported),
        (LIST, vec![0], invalid),
        (STRUCTURED_REPLY, vec![0], invalid),
        (LIST, vec![0; 70_000], too_big),
        (GO, export_request("nobody", &[]), unknown),
        (INFO, export_request("nobody", &[]), unknown),
        (GO, vec![], invalid),
        (GO, vec![0xff; 6], invalid),
        (GO, export_request("o\0ther", &[]), invalid),
        (
            GO,
            [export_request("other", &[]), vec![0]].concat(),
            invalid,
        ),
        (
            GO,
            [&6_u32.to_be_bytes()[..], b"\xc3\x28abcd\0\0"].concat(),
            invalid,
        ),
        (GO, export_request(&"x".repeat(4097), &[]), invalid),
        (
            SET_META_CONTEXT,
            meta_request("", &["base:allocation"]),
            invalid,
        ),
        (LIST_META_CONTEXT, meta_request("nobody", &[]), unknown),
        (
            LIST_META_CONTEXT,
            vec![0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            invalid,
        ),
    ];
    for (number, data, error) in refused {
        let replies = client.option(*number, data);
        assert_eq!(replies.len(), 1, "{number}");
        assert_eq!(
            replies[0].0,
            *error,
            "{number} {:?}",
            String::from_utf8_lossy(&replies[0].1)
        );
    }
    assert_eq!(
        client.option(GO, &export_request("", &[])).last(),
        Some(&(ACK, vec![]))
    );
    assert_eq!(client.ask(0, FLUSH, 0, 0).error(), None);
}

#[test]
fn contexts_are_listed_and_selected_for_one_export() {
    let served = served();
    let mut client = Client::connect(&served);
    let context = |id: u32| (4, [&id.to_be_bytes()[..], b"base:allocation"].concat());
    for queries in [&[][..], &["base:"], &["x-none:a", "base:allocation"]] {
        let listed = client.option(LIST_META_CONTEXT, &meta_request("", queries));
        assert_eq!(listed, [context(0), (ACK, vec![])], "{queries:?}");
    }
    for queries in [&["x-none:a"][..], &["base:other", "nothing"]] {
        assert_eq!(
            client.option(LIST_META_CONTEXT, &meta_request("", queries)),
            [(ACK, vec![])]
        );
    }
    client.option(STRUCTURED_REPLY, &[]);
    for queries in [&[][..], &["base:"], &["qemu:dirty"]] {
        assert_eq!(
            client.option(SET_META_CONTEXT, &meta_request("", queries)),
            [(ACK, vec![])]
        );
    }
    let set = client.option(SET_META_CONTEXT, &meta_request("", &["base:allocation"]));
    assert_eq!(set, [context(1), (ACK, vec![])]);
    // It was selected for the default; the other export has none.
    client.option(GO, &export_request("other", &[]));
    assert_eq!(client.ask(0, BLOCK_STATUS, 0, 4096).error(), Some(22));
}

#[test]
fn a_selection_that_fails_leaves_none() {
    let served = served();
    let mut client = Client::connect(&served);
    client.option(STRUCTURED_REPLY, &[]);
    client.option(SET_META_CONTEXT, &meta_request("", &["base:allocation"]));
    assert_eq!(
        client
            .option(
                SET_META_CONTEXT,
                &meta_request("nobody", &["base:allocation"])
            )
            .len(),
        1
    );
    client.option(GO, &export_request("", &[]));
    assert_eq!(client.ask(0, BLOCK_STATUS, 0, 4096).error(), Some(22));
}

#[test]
fn the_old_option_leads_to_an_export_too() {
    let served = served();
    for (flags, padding) in [(1_u32, 124), (3, 0), (0, 124)] {
        let mut client = Client::mute(&served);
        client.bytes(18);
        client.send(&flags.to_be_bytes());
        client.send(&option(EXPORT_NAME, b"other"));
        let answer = client.bytes(10 + padding);
        assert_eq!(long(&answer, 0), 2 * MIB);
        assert!(answer[10..].iter().all(|byte| *byte == 0));
        assert_eq!(client.read(0, 512), [0; 512]);
    }
    let mut client = Client::connect(&served);
    client.send(&option(EXPORT_NAME, b"nobody"));
    assert!(client.is_closed());
}

#[test]
fn a_client_can_leave_during_the_handshake() {
    let served = served();
    let mut client = Client::connect(&served);
    assert_eq!(client.option(ABORT, b"whatever"), [(ACK, vec![])]);
    assert!(client.is_closed());
    served.wait_until("ended", |counts| counts.ended_handshakes == 1);
    assert_eq!(served.counts().malformed_handshakes, 0);
}
