//! What real clients copy in comes out unchanged, over both kinds of sockets.

use crate::common::served::Served;
use crate::common::tool::{content, installed_or_skip, run, succeeds};
use coldpress_nbd::Memory;
use std::fs;
use std::path::Path;

const BYTES: usize = 48 << 20;

fn same(left: &Path, right: &Path) -> bool {
    fs::read(left).unwrap() == fs::read(right).unwrap()
}

#[test]
fn nbdcopy_in_and_out() {
    if !installed_or_skip(&["nbdcopy"]) {
        return;
    }
    let served = Served::memory(BYTES as u64);
    let original = served.file("original");
    for (seed, uri) in [served.uri(""), served.tcp_uri("")].into_iter().enumerate() {
        fs::write(&original, content(BYTES, seed as u64)).unwrap();
        let copy = served.file("copy");
        let (original, copied) = (original.to_str().unwrap(), copy.to_str().unwrap());
        succeeds(&["nbdcopy", "--flush", original, &uri]);
        succeeds(&["nbdcopy", &uri, copied]);
        assert!(same(original.as_ref(), &copy), "{uri}");
        // One request at a time, and few connections.
        succeeds(&["nbdcopy", "--synchronous", &uri, copied]);
        assert!(same(original.as_ref(), &copy), "{uri}");
    }
    let counts = served.counts();
    assert_eq!(
        (
            counts.whole.failed_requests,
            counts.whole.malformed_requests
        ),
        (0, 0)
    );
    assert!(counts.whole.flushes > 0);
    // It opened several connections, since it was told that it may.
    assert!(counts.whole.connections > 6, "{counts:?}");
    // Zeros were not sent: neither one way (twice) nor the other (four times).
    let (read, written) = (counts.whole.sent_bytes, counts.whole.written_bytes);
    assert!(
        read < 4 * BYTES as u64 && written < 2 * BYTES as u64,
        "{counts:?}"
    );
}

#[test]
fn qemu_img_in_and_out() {
    if !installed_or_skip(&["qemu-img"]) {
        return;
    }
    let served = Served::memory(BYTES as u64);
    let (original, copy) = (served.file("original"), served.file("copy"));
    for (seed, uri) in [served.uri(""), served.tcp_uri("")].into_iter().enumerate() {
        fs::write(&original, content(BYTES, seed as u64 + 7)).unwrap();
        let (original, copied) = (original.to_str().unwrap(), copy.to_str().unwrap());
        let compare = [
            "qemu-img", "compare", "-f", "raw", "-F", "raw", original, &uri,
        ];
        assert_eq!(
            run(&compare).status.code(),
            Some(1),
            "they are not the same yet"
        );
        succeeds(&[
            "qemu-img", "convert", "-n", "-m", "16", "-W", "-f", "raw", "-O", "raw", original, &uri,
        ]);
        succeeds(&[
            "qemu-img", "convert", "-f", "raw", "-O", "raw", &uri, copied,
        ]);
        assert!(same(original.as_ref(), &copy), "{uri}");
        succeeds(&compare);
    }
    assert_eq!(served.counts().whole.malformed_requests, 0);
}

#[test]
fn from_one_export_to_another() {
    if !installed_or_skip(&["nbdcopy", "qemu-img"]) {
        return;
    }
    let served = Served::memory(BYTES as u64);
    served.disks.add("second", Memory::new(BYTES as u64));
    let original = served.file("original");
    fs::write(&original, content(BYTES, 99)).unwrap();
    succeeds(&["nbdcopy", original.to_str().unwrap(), &served.uri("")]);
    succeeds(&["nbdcopy", &served.uri(""), &served.tcp_uri("second")]);
    let line = [
        "qemu-img",
        "compare",
        "-s",
        "-f",
        "raw",
        "-F",
        "raw",
        &served.uri(""),
        &served.uri("second"),
    ];
    succeeds(&line);
    let written = served.counts().exports["second"].written_bytes;
    assert!(
        written < BYTES as u64,
        "holes were written: {written} bytes"
    );
}
