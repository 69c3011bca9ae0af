//! Promise: a Redis that cannot be used is refused before anything is written, with what happened, why, and what mends
//! it, and without its password.

use crate::common::process::free_port;
use crate::redis::Redis;
use coldpress_remote::{Location, open};

const LAYOUT: (usize, usize) = (8, 16 << 10);

/// Opens a device, or tells why not, with what mends it.
fn opened(text: &str) -> Result<(), String> {
    let location = Location::parse(text).unwrap();
    match open(&location, LAYOUT, None) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}\n{}", error.mend().unwrap_or_default())),
    }
}

fn refused(text: &str, why: &[&str]) {
    let told = opened(text).unwrap_err();
    for why in why {
        assert!(told.contains(why), "{text}: {told}");
    }
    assert!(!told.contains("hush"), "{told}");
}

#[test]
fn passwords_are_right_or_wrong() {
    let Some(server) = Redis::start(&["--requirepass", "hush:1/2@3"]) else {
        return;
    };
    let at = format!("127.0.0.1:{}", server.port);
    for login in [":hush%3A1%2F2%403", "default:hush%3A1%2F2%403"] {
        assert_eq!(opened(&format!("redis://{login}@{at}/3")), Ok(()));
    }
    refused(
        &format!("redis://:hush@{at}"),
        &["cannot use redis://***@", "REDISCLI_AUTH"],
    );
    refused(&format!("redis://hush:hush@{at}"), &["REDISCLI_AUTH"]);
    refused(&format!("redis://{at}"), &["REDISCLI_AUTH"]);
}

#[test]
fn a_user_who_may_not_write_or_delete_is_refused() {
    let Some(server) = Redis::start(&[]) else {
        return;
    };
    let mut connection = server.connection();
    for (user, may) in [("reader", "+getrange"), ("hoarder", "+getrange +set")] {
        let mut rule = redis::cmd("ACL");
        rule.arg("SETUSER")
            .arg(user)
            .arg("on")
            .arg(">hush")
            .arg("~*");
        may.split(' ').for_each(|may| {
            rule.arg(may);
        });
        rule.exec(&mut connection).unwrap();
    }
    let at = format!("127.0.0.1:{}", server.port);
    refused(
        &format!("redis://reader:hush@{at}"),
        &["writing an object", "ACL"],
    );
    refused(
        &format!("redis://hoarder:hush@{at}"),
        &["deleting an object", "ACL"],
    );
}

#[test]
fn a_server_without_room_or_place_is_refused() {
    let Some(server) = Redis::start(&["--maxmemory", "1"]) else {
        return;
    };
    let at = format!("127.0.0.1:{}", server.port);
    refused(
        &format!("redis://{at}"),
        &["writing an object", "maxmemory"],
    );
    refused(&format!("redis://{at}/9999"), &["cannot use"]);
    refused(&format!("redis://{at}?cluster=1"), &["cannot use"]);
}

#[test]
fn no_server_and_one_that_is_no_redis_are_refused() {
    let none = free_port();
    refused(
        &format!("redis://:hush@127.0.0.1:{none}?retries=0"),
        &["start the server"],
    );
    refused(
        &format!("redis://127.0.0.1:{none}?retries=0&cluster=1"),
        &["start the server"],
    );
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    refused(
        &format!("redis://127.0.0.1:{port}?retries=0&timeout=100ms"),
        &["in time", "?timeout=10s"],
    );
    refused(
        "redis://no-such-host.invalid?retries=0",
        &["start the server"],
    );
}
