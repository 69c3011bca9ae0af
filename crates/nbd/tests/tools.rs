//! What clients show of an export, and do to it.

use crate::common::served::Served;
use crate::common::tool::{fails, installed_or_skip, succeeds};
use coldpress_nbd::Memory;

const MIB: u64 = 1 << 20;

fn qemu_io(uri: &str, commands: &[&str]) -> String {
    let mut line = vec!["qemu-io", "-f", "raw"];
    for command in commands {
        line.extend(["-c", command]);
    }
    line.push(uri);
    succeeds(&line)
}

#[test]
fn exports_are_listed_and_described() {
    if !installed_or_skip(&["nbdinfo", "qemu-nbd", "qemu-img"]) {
        return;
    }
    let served = Served::memory(16 * MIB);
    served
        .disks
        .add("a snapshot", Memory::new(4 * MIB).read_only());
    for uri in [served.uri(""), served.tcp_uri("")] {
        let listed = succeeds(&["nbdinfo", "--list", &uri]);
        for expected in [
            "export=\"\"",
            "export=\"a snapshot\"",
            "4194304 bytes of plain memory",
            "base:allocation",
        ] {
            assert!(listed.contains(expected), "{expected}: {listed}");
        }
    }
    let described = succeeds(&["nbdinfo", &served.uri("a%20snapshot")]);
    for expected in [
        "newstyle-fixed without TLS, using structured packets",
        "export-size: 4194304 (4M)",
        "is_read_only: true",
        "can_multi_conn: true",
        "can_trim: false",
        "block_size_minimum: 1\n",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(described.contains(expected), "{expected}: {described}");
    }
    for can in [
        "cache",
        "df",
        "fast_zero",
        "flush",
        "fua",
        "multi-conn",
        "trim",
        "write",
        "zero",
    ] {
        succeeds(&["nbdinfo", "--can", can, &served.uri("")]);
    }
    for can in ["trim", "write", "zero"] {
        fails(&["nbdinfo", "--can", can, &served.uri("a%20snapshot")]);
    }
    succeeds(&["nbdinfo", "--is", "read-only", &served.uri("a%20snapshot")]);
    assert!(succeeds(&["nbdinfo", "--size", &served.uri("")]).starts_with("16777216"));
    let listed = succeeds(&["qemu-nbd", "--list", "-k", served.socket.to_str().unwrap()]);
    assert!(
        listed.contains("exports available: 2") && listed.contains("base:allocation"),
        "{listed}"
    );
    let said = fails(&["nbdinfo", &served.uri("nobody")]);
    assert!(
        said.contains("No such file or directory for export: nobody"),
        "{said}"
    );
    let said = fails(&["qemu-img", "info", &served.uri("nobody")]);
    assert!(said.contains("no export"), "{said}");
}

#[test]
fn what_was_trimmed_is_a_hole_again() {
    if !installed_or_skip(&["nbdinfo", "qemu-io", "qemu-img"]) {
        return;
    }
    let served = Served::memory(16 * MIB);
    let uri = served.uri("");
    let map = || -> Vec<Vec<String>> {
        let printed = succeeds(&["nbdinfo", "--map", &uri]);
        let fields = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        printed.lines().map(fields).collect()
    };
    let row = |row: &[&str]| {
        row.iter()
            .map(|field| (*field).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(map(), [row(&["0", "16777216", "3", "hole,zero"])]);
    qemu_io(&uri, &["write -P 0x5a 1M 8M"]);
    let written = [
        row(&["0", "1048576", "3", "hole,zero"]),
        row(&["1048576", "8388608", "0", "data"]),
        row(&["9437184", "7340032", "3", "hole,zero"]),
    ];
    assert_eq!(map(), written);
    qemu_io(
        &uri,
        &[
            "discard 2M 2M",
            "write -z -u 6M 1M",
            "write -z 8M 512k",
            "flush",
        ],
    );
    let trimmed = [
        row(&["0", "1048576", "3", "hole,zero"]),
        row(&["1048576", "1048576", "0", "data"]),
        row(&["2097152", "2097152", "3", "hole,zero"]),
        row(&["4194304", "2097152", "0", "data"]),
        row(&["6291456", "1048576", "3", "hole,zero"]),
        row(&["7340032", "1048576", "0", "data"]),
        row(&["8388608", "524288", "2", "zero"]),
        row(&["8912896", "524288", "0", "data"]),
        row(&["9437184", "7340032", "3", "hole,zero"]),
    ];
    assert_eq!(map(), trimmed);
    let read = qemu_io(
        &uri,
        &[
            "read -P 0 2M 2M",
            "read -P 0 6M 1M",
            "read -P 0x5a 4M 2M",
            "read -P 0 8M 512k",
            "read -P 0x5a 8704k 512k",
        ],
    );
    assert!(!read.contains("failed"), "{read}");
    let map = succeeds(&["qemu-img", "map", "--output=json", "-f", "raw", &uri]);
    assert_eq!(
        map.matches("\"zero\": false, \"data\": true").count(),
        4,
        "{map}"
    );
}

#[test]
fn unaligned_requests_touch_what_they_name_and_no_more() {
    if !installed_or_skip(&["qemu-io"]) {
        return;
    }
    let served = Served::memory(MIB);
    let uri = served.tcp_uri("");
    let read = qemu_io(
        &uri,
        &[
            "write -P 1 0 65536",
            "write -P 2 511 1026",
            "write -z 4097 4095",
            "discard 9000 5000",
            "read -P 1 0 511",
            "read -P 2 511 1026",
            "read -P 1 1537 2560",
            "read -P 0 4097 4095",
            "read -P 1 8192 808",
            "read -P 1 14000 51536",
        ],
    );
    assert!(!read.contains("failed"), "{read}");
}

#[test]
fn a_read_only_export_is_refused_to_writers() {
    if !installed_or_skip(&["qemu-io", "nbdcopy"]) {
        return;
    }
    let served = Served::new(Memory::new(MIB).read_only());
    let uri = served.uri("");
    let said = fails(&["qemu-io", "-f", "raw", "-c", "write 0 512", &uri]);
    assert!(said.contains("Permission denied"), "{said}");
    fails(&["nbdcopy", "/dev/zero", &uri]);
    qemu_io_read_only(&uri);
    assert_eq!(served.counts().whole.writes, 0);
}

fn qemu_io_read_only(uri: &str) {
    let read = succeeds(&["qemu-io", "-r", "-f", "raw", "-c", "read -P 0 0 1M", uri]);
    assert!(read.contains("read 1048576/1048576"), "{read}");
}

#[test]
fn nbdkit_passes_it_on() {
    if !installed_or_skip(&["nbdkit", "nbdcopy", "nbdinfo", "qemu-io"]) {
        return;
    }
    let served = Served::memory(16 * MIB);
    qemu_io(&served.uri(""), &["write -P 0x77 4M 4M"]);
    let plugin = format!("uri={}", served.uri(""));
    let run =
        "nbdinfo --map --totals \"$uri\" && qemu-io -r -f raw -c 'read -P 0x77 4M 4M' \"$uri\"";
    let printed = succeeds(&[
        "nbdkit",
        "-U",
        "-",
        "nbd",
        &plugin,
        "shared=true",
        "--run",
        run,
    ]);
    assert!(printed.contains("4194304  25.0%   0 data"), "{printed}");
    assert!(printed.contains("read 4194304/4194304"), "{printed}");
}
