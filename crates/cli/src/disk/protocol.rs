//! What goes over the control socket: a request and an answer, one line of JSON each.

use super::arguments::Pages;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest line.
const MOST_BYTES: u64 = 1 << 20;

/// How long a line may take to be sent.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    Status,
    Info,
    /// A query of `coldpress_info.h`: its topic, and how many bytes there is room for.
    GetInfo {
        topic: u32,
        room: u32,
    },
    Snapshot {
        name: String,
    },
    Drop {
        name: String,
    },
    Compact,
    Reset {
        force: bool,
    },
    Limit {
        bytes: Option<u64>,
    },
    Idle,
    Flush,
    Writeback {
        which: Pages,
    },
    Recompress,
}

impl Request {
    /// Whether it changes nothing, and is answered at once.
    pub fn is_question(&self) -> bool {
        matches!(self, Self::Status | Self::Info | Self::GetInfo { .. })
    }
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It is done; what there is to be told.
    Done(Value),
    /// It was refused, and why.
    Refused(String),
}

/// Sends a line.
pub fn send(mut stream: &UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Receives a line.
pub fn receive<T: for<'de> Deserialize<'de>>(stream: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    BufReader::new(stream.take(MOST_BYTES)).read_until(b'\n', &mut line)?;
    match line.last() {
        Some(b'\n') => Ok(serde_json::from_slice(&line)?),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_that_people_can_write() {
        for (request, line) in [
            (Request::Status, r#"{"command":"status"}"#),
            (
                Request::Snapshot { name: "a".into() },
                r#"{"command":"snapshot","name":"a"}"#,
            ),
            (
                Request::GetInfo { topic: 7, room: 8 },
                r#"{"command":"get_info","topic":7,"room":8}"#,
            ),
            (
                Request::Limit { bytes: None },
                r#"{"command":"limit","bytes":null}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        assert!(serde_json::from_str::<Request>(r#"{"command":"explode"}"#).is_err());
    }
}
