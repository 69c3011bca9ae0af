//! Promise: on a real server that speaks S3 a tier returns every byte, and whatever becomes of the server or its
//! objects is detected. The server is moto, which `COLDPRESS_MOTO_SERVER` or the path names.

use crate::common::process::{Process, program, serve, start_again};
use crate::common::two_ways::TwoWays;
use crate::common::{Local, Run, device, wait_until};
use coldpress_remote::{Credentials, Failure, Location, S3Store, Store, open};
use rusty_s3::{Bucket, S3Action, UrlStyle};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

struct S3 {
    program: PathBuf,
    process: Option<Process>,
    port: u16,
}

fn credentials() -> Credentials {
    Credentials {
        key: "key".to_owned(),
        secret: "hush".to_owned(),
        token: None,
    }
}

impl S3 {
    fn start() -> Option<Self> {
        let named = std::env::var_os("COLDPRESS_MOTO_SERVER").map(PathBuf::from);
        let program = match named.filter(|path| path.exists()) {
            Some(path) => path,
            None => program("moto_server", "a tier on S3")?,
        };
        let (process, port) = serve(|port| Self::line(&program, port));
        let server = Self {
            program,
            process: Some(process),
            port,
        };
        server.make_bucket();
        Some(server)
    }

    fn line(program: &PathBuf, port: u16) -> Command {
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        command
    }

    fn bucket(&self) -> Bucket {
        let endpoint = format!("http://127.0.0.1:{}", self.port).parse().unwrap();
        Bucket::new(endpoint, UrlStyle::Path, "bucket", "us-east-1").unwrap()
    }

    fn make_bucket(&self) {
        let bucket = self.bucket();
        let as_user = rusty_s3::Credentials::new("key", "hush");
        let address = bucket.create_bucket(&as_user).sign(Duration::from_secs(60));
        // It listens a while before it answers.
        wait_until("a bucket", || {
            ureq::put(address.as_str()).send_empty().is_ok()
        });
    }

    fn start_again(&mut self) {
        let mut line = Self::line(&self.program, self.port);
        self.process = Some(start_again(&mut line, self.port));
        self.make_bucket();
    }

    fn location(&self, place: &str) -> Location {
        let port = self.port;
        let text = format!("s3://{place}?endpoint=http://127.0.0.1:{port}&timeout=20s&retries=1");
        Location::parse(&text).unwrap()
    }

    fn store(&self) -> S3Store {
        S3Store::new(&self.location("bucket"), &credentials()).unwrap()
    }

    fn object(&self, name: &str) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let length = self.store().get(name, 0, &mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    fn objects(&self) -> Vec<String> {
        let bucket = self.bucket();
        let as_user = rusty_s3::Credentials::new("key", "hush");
        let list = bucket.list_objects_v2(Some(&as_user));
        let address = list.sign(Duration::from_secs(60));
        let mut answer = ureq::get(address.as_str()).call().unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let keys = text.split("<Key>").skip(1);
        keys.map(|rest| rest.split('<').next().unwrap().to_owned())
            .collect()
    }
}

#[test]
fn a_tier_on_s3_is_its_records_whatever_is_done_to_its_objects() {
    let Some(mut server) = S3::start() else {
        return;
    };
    let mut run = Run::new(device(Box::new(server.store()), None), 1);
    run.live(200);
    run.put_many(100);
    let figures = run.figures();
    assert!(figures.puts > 5 && figures.gets > 10, "{figures:?}");
    assert_eq!((figures.errors, figures.retries), (0, 0), "{figures:?}");
    let name = run.name();
    let objects = server.objects();
    assert!(objects.len() > 3 && objects.iter().all(|object| object.starts_with(&name)));

    // Changed, cut, exchanged.
    let mut store = server.store();
    let numbers: Vec<u32> = run.held.keys().copied().collect();
    let in_memory = run.segment_of(*numbers.last().unwrap());
    let mut segments: Vec<u64> = numbers.iter().filter_map(|n| run.segment_of(*n)).collect();
    segments.sort_unstable();
    segments.dedup();
    // That which was written last is read from memory.
    let before = run.figures().gets;
    segments.retain(|segment| {
        Some(*segment) != in_memory && {
            let (number, _) = run.records_of(*segment)[0];
            let gets = run.figures().gets;
            run.get(number).unwrap();
            run.figures().gets > gets
        }
    });
    assert!(
        run.figures().gets > before && segments.len() >= 4,
        "{segments:?}"
    );
    let of = |segment: u64| format!("{name}/{segment}");
    let mut flipped = server.object(&of(segments[0]));
    flipped[3000] ^= 1;
    store.put(&of(segments[0]), &flipped).unwrap();
    let whole = server.object(&of(segments[1]));
    store
        .put(&of(segments[1]), &whole[..whole.len() / 2])
        .unwrap();
    let [one, other] = [2, 3].map(|n: usize| server.object(&of(segments[n])));
    store.put(&of(segments[2]), &other).unwrap();
    store.put(&of(segments[3]), &one).unwrap();
    let mut expected = Vec::new();
    for (n, segment) in segments.iter().enumerate() {
        for (number, range) in run.records_of(*segment) {
            let is_struck = match n {
                0 => range.contains(&3000),
                1 => range.end > whole.len() as u64 / 2,
                n => n < 4,
            };
            if is_struck {
                expected.push(number);
            }
        }
    }
    expected.sort_unstable();
    assert!(expected.len() > 4, "{expected:?}");
    assert_eq!(run.refused(), expected);
    run.remove_all_of(&expected);
    run.live(30);
    drop(run);
    assert_eq!(
        server.objects().len(),
        0,
        "all were deleted at the end, many at once"
    );
    killed_and_empty(&mut server);
}

fn killed_and_empty(server: &mut S3) {
    let local = Local::default();
    let mut run = Run::new(device(Box::new(server.store()), Some(&local)), 2);
    run.put_many(60);
    server.process = None;
    let gone = run.refused();
    assert!(!gone.is_empty() && gone.len() < run.held.len());
    run.put_many(40);
    assert!(run.figures().fallback_puts > 0);
    assert_eq!(run.refused(), gone);
    server.start_again();
    wait_until("answered", || {
        run.refused() == gone && run.figures().missing > 0
    });
    run.remove_all_of(&gone);
    run.live(30);
}

#[test]
fn a_server_that_stops_is_waited_for_and_then_goes_on() {
    let Some(server) = S3::start() else {
        return;
    };
    let text = format!(
        "s3://bucket?endpoint=http://127.0.0.1:{}&timeout=500ms",
        server.port
    );
    let hasty = S3Store::new(&Location::parse(&text).unwrap(), &credentials()).unwrap();
    let is_hasty = Arc::new(AtomicBool::new(false));
    let store = TwoWays {
        patient: Box::new(server.store()),
        hasty: Box::new(hasty),
        is_hasty: is_hasty.clone(),
    };
    let mut run = Run::new(device(Box::new(store), None), 3);
    run.put_many(60);
    is_hasty.store(true, Relaxed);
    server.process.as_ref().unwrap().stop();
    let since = std::time::Instant::now();
    let first = *run.held.keys().next().unwrap();
    assert!(run.get(first).is_err() && run.figures().timeouts > 0);
    while run.put().is_ok() {}
    assert!(
        since.elapsed() < Duration::from_secs(60),
        "{:?}",
        since.elapsed()
    );
    server.process.as_ref().unwrap().go_on();
    is_hasty.store(false, Relaxed);
    wait_until("answered", || run.refused().is_empty());
    wait_until("taken again", || run.put().is_ok());
}

#[test]
fn a_bucket_that_cannot_be_used_is_refused() {
    let Some(open_to_all) = S3::start() else {
        return;
    };
    let none = open_to_all.location("no-such-bucket/prefix");
    let mut store = S3Store::new(&none, &credentials()).unwrap();
    let error = store.put("x", b"y").unwrap_err();
    assert_eq!(error.failure, Failure::NoSuchPlace, "{error}");
    let mut store = open_to_all.store();
    let mut into = [0; 4];
    assert_eq!(
        store.get("none", 0, &mut into).unwrap_err().failure,
        Failure::Missing
    );
    store.put("short", b"abc").unwrap();
    assert_eq!(store.get("short", 1, &mut into), Ok(2));
    assert_eq!(
        store.get("short", 3, &mut into).unwrap_err().failure,
        Failure::Missing
    );
    assert_eq!(store.delete(&["none".to_owned()]), Ok(()));
    // The environment of the tests has no credentials; if it has, they are of no use here.
    if Credentials::from_environment().is_none() {
        let refused = open(&open_to_all.location("bucket"), (8, 4096), None)
            .err()
            .unwrap();
        assert!(
            refused.mend().unwrap().contains("AWS_ACCESS_KEY_ID"),
            "{refused}"
        );
    }
}

/// Reads a request as a whole: closing a connection with some of it unread would take the answer back.
fn read_request(stream: &mut TcpStream) {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split_once("content-length:").map_or("0", |(_, at)| at);
            let length = length.lines().next().unwrap().trim();
            if body.len() >= length.parse().unwrap() {
                return;
            }
        }
        match stream.read(&mut part).unwrap() {
            0 => return,
            read => request.extend_from_slice(&part[..read]),
        }
    }
}

/// moto lets everybody in: who is not let in is tried on a server of a few lines.
#[test]
fn what_a_store_refuses_is_told_without_a_secret() {
    for (status, code, failure) in [
        ("403 Forbidden", "SignatureDoesNotMatch", Failure::Denied),
        ("403 Forbidden", "<script>", Failure::Denied),
        ("503 Slow Down", "SlowDown", Failure::Busy),
        (
            "507 Insufficient Storage",
            "XMinioStorageFull",
            Failure::NoSpace,
        ),
        ("301 Moved Permanently", "PermanentRedirect", Failure::Other),
        ("200 OK", "", Failure::Unreachable),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            let body = format!("<Error><Code>{code}</Code><Message>hush</Message></Error>");
            let length = if code.is_empty() { 99_999 } else { body.len() };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + &body).as_bytes()).unwrap();
        });
        let text = format!("s3://bucket?endpoint=http://127.0.0.1:{port}&timeout=20s");
        let mut store = S3Store::new(&Location::parse(&text).unwrap(), &credentials()).unwrap();
        let error = match failure {
            // The answer ends before its end.
            Failure::Unreachable => store.get("x", 0, &mut [0; 50_000]).unwrap_err(),
            _ => store.put("x", b"y").unwrap_err(),
        };
        server.join().unwrap();
        assert_eq!(error.failure, failure, "{status}: {error}");
        assert!(
            !error.text.contains("hush") && !error.text.contains("X-Amz"),
            "{error}"
        );
        assert!(!error.text.contains("script"), "{error}");
    }
}
