//! A `coldpress metrics` that serves, and clients of it.

use super::{Directory, coldpress};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

/// A command that serves at a port of its own choice until it is dropped.
pub struct Serving {
    child: Child,
    /// Kept open: what it says later goes there.
    _messages: BufReader<ChildStderr>,
    /// `127.0.0.1:PORT`.
    pub address: String,
}

impl Serving {
    /// Starts it, with more options.
    pub fn start(directory: &Directory, options: &[&str]) -> Self {
        let mut command = coldpress();
        command.args(["metrics", "--listen", "127.0.0.1:0"]);
        command.args(options).stderr(Stdio::piped());
        command.env("COLDPRESS_STATISTICS_DIR", directory.path("s"));
        let mut child = command.spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        messages.read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("http://").expect(&line);
        let (address, _) = rest.split_once("/metrics").expect(&line);
        Self {
            address: address.to_owned(),
            child,
            _messages: messages,
        }
    }

    /// A connection to it.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        let time = Some(Duration::from_secs(20));
        stream.set_read_timeout(time).unwrap();
        stream
    }

    /// What is answered to these bytes.
    pub fn told(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The body of `/metrics`, for a client that accepts this.
    pub fn metrics(&self, accept: &str) -> String {
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        let answer = self.told(&request);
        let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        body.to_owned()
    }

    /// Sends it a signal, and waits for its end.
    pub fn end(&mut self, signal: i32) -> std::process::ExitStatus {
        // SAFETY: a child of ours that has not been waited for.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
