//! Promise: `coldpress disk serve --writeback redis://…` is a disk larger than its memory, whose other part is on
//! another machine; a store that cannot be used is refused with why, and no password is shown.

use crate::common::{Directory, coldpress, stderr};
use std::process::Stdio;

/// The exit status and the message of `disk serve` with these options.
fn refused(directory: &Directory, options: &[&str]) -> String {
    let mut command = coldpress();
    command.args(["disk", "serve", "--size", "8M", "--socket"]);
    command.arg(directory.path("nbd.sock")).args(options);
    command.env("COLDPRESS_STATISTICS_DIR", directory.path("run"));
    command.env_remove("AWS_ACCESS_KEY_ID");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(125), "{options:?}: {told}");
    assert!(!told.contains("hush"), "{told}");
    told
}

#[test]
fn a_location_that_is_none_is_refused() {
    let directory = Directory::new("remote-refused");
    for (location, why) in [
        ("ftp://me:hush@h/x", "names no store that is known"),
        ("redis://me:hush@h:x", "no port"),
        ("redis://:hush@h?colour=hush", "no setting"),
        ("s3:///x", "name of a bucket"),
    ] {
        let told = refused(&directory, &["--writeback", location]);
        assert!(told.contains(why), "{location}: {told}");
    }
    let store = "redis://me:hush@127.0.0.1:1?retries=0&timeout=1s";
    let both = ["--writeback", store, "--backing", "x"];
    assert!(refused(&directory, &both).contains("redis://***@127.0.0.1:1"));
    let told = refused(
        &directory,
        &["--writeback", "file", "--writeback-fallback", "x"],
    );
    assert!(told.contains("--writeback redis://HOST:6379"), "{told}");
    // What clap refuses shows no other option's value.
    let told = refused(&directory, &["--writeback", store, "--cold-after", "x"]);
    assert!(told.contains("--cold-after"), "{told}");
}

#[cfg(not(feature = "remote"))]
#[test]
fn without_the_feature_the_command_that_builds_it_is_said() {
    let directory = Directory::new("remote-not-built");
    for store in ["redis://me:hush@127.0.0.1:1", "s3://bucket/x"] {
        let told = refused(&directory, &["--writeback", store]);
        assert!(told.contains("built without the feature"), "{told}");
        assert!(told.contains("cargo install --path crates/cli --features remote"));
    }
}

#[cfg(feature = "remote")]
mod with_servers {
    use super::refused;
    use crate::common::{Directory, coldpress};
    use crate::disk::{Served, has};
    use crate::nbd_client::{Client, Command as Request};
    use std::net::{TcpListener, TcpStream};
    use std::process::{Child, Command, Stdio};

    const PASSWORD: &str = "hush-hush";

    struct Redis(Child, u16);

    impl Drop for Redis {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    impl Redis {
        fn start(directory: &Directory) -> Self {
            for _ in 0..10 {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let port = listener.local_addr().unwrap().port();
                drop(listener);
                let mut command = Command::new("redis-server");
                command.args([
                    "--bind",
                    "127.0.0.1",
                    "--save",
                    "",
                    "--requirepass",
                    PASSWORD,
                ]);
                command.arg("--dir").arg(directory.path(""));
                command.args(["--port", &port.to_string()]);
                let child = command.stdout(Stdio::null()).spawn().unwrap();
                let mut redis = Self(child, port);
                while redis.0.try_wait().unwrap().is_none() {
                    if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                        return redis;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
            panic!("no port could be had");
        }

        /// What redis-cli prints.
        fn ask(&self, words: &[&str]) -> String {
            let mut command = Command::new("redis-cli");
            command.args(["-p", &self.1.to_string()]).args(words);
            let output = command.env("REDISCLI_AUTH", PASSWORD).output().unwrap();
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }

        fn location(&self, password: &str) -> String {
            format!("redis://:{password}@127.0.0.1:{}?timeout=10s", self.1)
        }
    }

    fn page(number: u64) -> Vec<u8> {
        let mut state = number << 1 | 1;
        let words = (0..512).map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        });
        words.flat_map(u64::to_le_bytes).collect()
    }

    #[test]
    fn a_disk_is_larger_than_its_memory_by_a_store() {
        if !has(&["redis-server", "redis-cli"], "a disk on Redis") {
            return;
        }
        let files = Directory::new("remote-files");
        let server = Redis::start(&files);
        let location = server.location(PASSWORD);
        let fallback = files.path("fallback");
        let options = [
            "--size",
            "16M",
            "--mem-limit",
            "4M",
            "--writeback",
            &location,
        ];
        let fallback = ["--writeback-fallback", fallback.to_str().unwrap()];
        let served = Served::start("remote", &[&options[..], &fallback].concat());
        let mut client = Client::connect(&served.directory.path("nbd.sock"));
        let write = Request::Write { fua: false };
        for number in 0..3000 {
            client.ask(write, number * 4096, &page(number), 0).unwrap();
        }
        let mut read = vec![0; 4096];
        for number in 0..3000 {
            client.read(number * 4096, &mut read).unwrap();
            assert!(read == page(number), "page {number}");
        }
        drop(client);
        let remote = &served.figures()["remote"];
        for name in ["puts", "gets", "put_bytes", "get_bytes", "get_p99_ns"] {
            assert!(remote[name].as_u64().unwrap() > 0, "{name}: {remote}");
        }
        assert_eq!(
            (&remote["errors"], &remote["fallback_puts"]),
            (&0.into(), &0.into())
        );
        let objects: u64 = server.ask(&["dbsize"]).parse().unwrap();
        assert!(objects > 10, "{objects}");
        let all = served.done("status -v") + &served.done("status --json") + &remote.to_string();
        assert!(
            all.contains("remote.puts") && all.contains("redis://***@127.0.0.1"),
            "{all}"
        );
        assert!(!all.contains("hush"), "{all}");
        served.stop();
        assert_eq!(server.ask(&["dbsize"]), "0", "all were deleted at the end");
    }

    #[test]
    fn a_store_that_fails_is_told_by_status() {
        if !has(&["redis-server", "redis-cli"], "a disk on Redis") {
            return;
        }
        let files = Directory::new("remote-fails");
        let server = Redis::start(&files);
        let location = server.location(PASSWORD) + "&retries=0";
        let options = ["--size", "16M", "--mem-limit", "4M"];
        let options = [&options[..], &["--writeback", &location]].concat();
        let served = Served::start("remote-failing", &options);
        let mut client = Client::connect(&served.directory.path("nbd.sock"));
        let write = Request::Write { fua: false };
        for number in 0..2000 {
            client.ask(write, number * 4096, &page(number), 0).unwrap();
        }
        assert!(served.figures()["remote"]["failing"].is_null());
        assert!(!served.done("status").contains("store of"));
        drop(server);
        let mut read = vec![0; 4096];
        // EIO.
        let mut is_refused = |number: u64| client.try_read(number * 4096, &mut read).unwrap() == 5;
        assert!((0..2000).any(&mut is_refused));
        let told = served.done("status");
        assert!(
            told.contains(" store of disk: no connection: redis://***@"),
            "{told}"
        );
        assert!(!told.contains("hush"), "{told}");
        drop(client);
        served.stop();
    }

    #[test]
    fn a_store_that_cannot_be_used_is_refused() {
        if !has(&["redis-server", "redis-cli"], "a disk on Redis") {
            return;
        }
        let directory = Directory::new("remote-unusable");
        let server = Redis::start(&directory);
        let told = refused(&directory, &["--writeback", &server.location("hush")]);
        assert!(
            told.contains("writing an object") && told.contains("REDISCLI_AUTH"),
            "{told}"
        );
        drop(server);
        let none = "redis://:hush@127.0.0.1:1?retries=0";
        let told = refused(&directory, &["--writeback", none]);
        assert!(told.contains("start the server"), "{told}");
        let told = refused(&directory, &["--writeback", "s3://bucket/x"]);
        assert!(told.contains("AWS_ACCESS_KEY_ID"), "{told}");
        // A file that cannot be made is told before the store is asked.
        let fallback = ["--writeback-fallback", "/proc/none/x"];
        let told = refused(
            &directory,
            &[&["--writeback", none], &fallback[..]].concat(),
        );
        assert!(told.contains("/proc/none/x"), "{told}");
        assert!(!coldpress().get_program().is_empty());
    }
}
