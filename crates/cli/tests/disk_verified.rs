//! Promise: fio, which gives each block a CRC and the number of its place, finds all that it wrote: behind a write-back
//! file under a memory limit, and in the backing file of a server that was killed once it had answered a flush.
//! `cargo xtask verify --disk` does it for half an hour.

use crate::common::{Directory, stderr, stdout};
use crate::disk::{Served, has};
use std::fs;
use std::process::{Command, Output, Stdio};

const PARTS: [&str; 10] = [
    "--name=blocks",
    "--verify_state_save=0",
    "--rw=randwrite",
    "--bs=4k",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--numjobs=2",
    "--size=16m",
    "--offset_increment=16m",
    "--buffer_compress_percentage=60",
];

/// fio on two parts of 16 MiB, with blocks of this seed.
fn fio(on: &[&str], seed: u64, more: &[&str]) -> Command {
    let mut command = Command::new("fio");
    command.args(on).args(PARTS).args(more);
    command.arg(format!("--randseed={seed}"));
    command.stdin(Stdio::null());
    command
}

fn succeeds(command: &mut Command) {
    let output: Output = command.output().unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(
        output.status.success() && !said.contains("verify failed"),
        "{said}"
    );
    assert!(said.contains("err= 0"), "{said}");
}

fn by_nbd(served: &Served) -> Vec<String> {
    let socket = served.directory.path("nbd.sock");
    vec![
        "--ioengine=nbd".to_owned(),
        "--iodepth=8".to_owned(),
        format!("--uri=nbd+unix:///?socket={}", socket.display()),
    ]
}

#[test]
fn blocks_behind_a_write_back_file_are_those_that_were_written() {
    if !has(&["fio"], "verified blocks behind a write-back file") {
        return;
    }
    let files = Directory::new("verified-tier-files");
    let tier = files.path("tier");
    let options = ["--size", "32M", "--mem-limit", "6M", "--cold-after", "20ms"];
    let options = [&options[..], &["--writeback", tier.to_str().unwrap()]].concat();
    let served = Served::start("verified-tier", &options);
    let on = by_nbd(&served);
    let on: Vec<&str> = on.iter().map(String::as_str).collect();
    for seed in 1..3 {
        // fio tells a block of another place or a torn one from the right one, but not an older one.
        served.done("reset --force");
        succeeds(&mut fio(&on, seed, &["--verify_backlog=128"]));
        succeeds(&mut fio(&on, seed, &["--verify_only"]));
    }
    assert!(served.figure("bd_reads") > 1000, "{}", served.figures());
    assert!(
        served.figure("mem_used_max") <= 7 << 20,
        "{}",
        served.figures()
    );
    // What is verified is verified: nothing is there any more.
    served.done("reset --force");
    let wrong = fio(&on, 1, &["--verify_only"]).output().unwrap();
    assert!(!wrong.status.success(), "{}", stdout(&wrong));
    served.stop();
}

#[test]
fn blocks_that_were_flushed_are_in_the_file_of_a_killed_server() {
    if !has(&["fio"], "verified blocks in a backing file") {
        return;
    }
    let files = Directory::new("verified-file-files");
    let file = files.path("file");
    fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
    let path = file.to_str().unwrap();
    let options = [
        "--backing",
        path,
        "--mem-limit",
        "8M",
        "--cold-after",
        "20ms",
    ];
    let mut served = Served::start("verified-file", &options);
    for seed in 1..4 {
        let on = by_nbd(&served);
        let on: Vec<&str> = on.iter().map(String::as_str).collect();
        // Writes that nobody flushes, on the other half, until the server dies.
        let others = [
            "--offset=32m",
            "--do_verify=0",
            "--time_based",
            "--runtime=60",
        ];
        let mut torn = fio(&on, seed + 100, &others);
        let torn = torn.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut torn = torn.unwrap();
        succeeds(&mut fio(&on, seed, &["--end_fsync=1"]));
        assert!(
            torn.try_wait().unwrap().is_none(),
            "the other client has ended"
        );
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        torn.wait().unwrap();
        let in_file = ["--ioengine=psync", "--filename", path];
        succeeds(&mut fio(&in_file, seed, &["--verify_only"]));
        served.child = Served::serve(&served.directory, &options);
        succeeds(&mut fio(&on, seed, &["--verify_only"]));
        // The next round begins without what this one leaves: fio would not tell it from what it expects.
        served.child.kill().unwrap();
        served.child.wait().unwrap();
        fs::write(&file, vec![0; 64 << 20]).unwrap();
        served.child = Served::serve(&served.directory, &options);
    }
    served.stop();
}
