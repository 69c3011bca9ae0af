//! What is answered to a request: bytes in, bytes out.
//!
//! `GET` and `HEAD` of `/metrics` and `/`, in HTTP/1.0 and 1.1; `httparse` reads the request. Each connection is good for one
//! answer (`Connection: close`). A body that comes with a request is not looked at. Nothing here is compressed, cached or
//! encrypted: that is for a proxy.

use super::exposition::Format;
use super::negotiation;
use std::net::IpAddr;

/// Longest request head. Prometheus' own takes half a kilobyte.
pub const MOST_REQUEST_BYTES: usize = 8 << 10;

const MOST_HEADERS: usize = 64;

const PAGE: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>Coldpress</title></head>\n\
    <body><h1>Coldpress</h1><p>Figures of the programs that run under Coldpress: <a href=\"/metrics\">/metrics</a></p></body></html>\n";

/// What is known of a request that begins with `bytes`.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// More of it has to come.
    NotYet,
    /// The answer, whole.
    Now(Vec<u8>),
}

/// By which names a client may call the server, in the header `Host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// By any.
    Any,
    /// By names of this machine alone. A page of another site, open in a browser here, reaches a loopback address by
    /// having its own name lead there (DNS rebinding), and would read the answer.
    Loopback,
}

impl Hosts {
    fn allow(self, headers: &[httparse::Header<'_>]) -> bool {
        let is_host = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("host");
        self == Self::Any
            || headers
                .iter()
                .filter(is_host)
                .all(|host| is_loopback(host.value))
    }
}

/// Whether a host, with or without a port, is this machine by a name that nobody else gives.
fn is_loopback(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host);
    let host = host.trim();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let address: Result<IpAddr, _> = address.parse();
    name.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The answer to what has come so far. `metrics` makes the text of `/metrics`.
pub fn answer(bytes: &[u8], hosts: Hosts, metrics: impl FnOnce(Format) -> String) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if bytes.len() < MOST_REQUEST_BYTES => return Answer::NotYet,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Answer::Now(refuse("431 Request Header Fields Too Large", ""));
        }
        Err(_) => return Answer::Now(refuse("400 Bad Request", "")),
    }
    if !hosts.allow(request.headers) {
        return Answer::Now(refuse("421 Misdirected Request", ""));
    }
    let (method, target) = (request.method.unwrap_or(""), request.path.unwrap_or(""));
    let sent = match method {
        "GET" => Body::Sent,
        "HEAD" => Body::LeftOut,
        _ => return Answer::Now(refuse("405 Method Not Allowed", "Allow: GET, HEAD\r\n")),
    };
    let accept = accepted(request.headers);
    Answer::Now(match path(target) {
        "/metrics" => {
            let format = negotiation::format(&accept);
            let kind = format.content_type();
            let vary = "Vary: Accept\r\n";
            response("200 OK", kind, vary, &metrics(format), sent)
        }
        "/" => response("200 OK", "text/html; charset=utf-8", "", PAGE, sent),
        _ => {
            let text = "404 Not Found: the figures are at /metrics\n";
            response("404 Not Found", TEXT, "", text, sent)
        }
    })
}

/// Whether an answer has a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Sent,
    /// Only its length is told.
    LeftOut,
}

/// The refusal for a client that does not get on with its request.
pub fn too_slow() -> Vec<u8> {
    refuse("408 Request Timeout", "")
}

const TEXT: &str = "text/plain; charset=utf-8";

fn refuse(status: &str, more: &str) -> Vec<u8> {
    response(status, TEXT, more, &format!("{status}\n"), Body::Sent)
}

fn response(status: &str, kind: &str, more: &str, body: &str, sent: Body) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    if sent == Body::Sent {
        bytes.extend_from_slice(body.as_bytes());
    }
    bytes
}

/// All `Accept` headers together.
fn accepted(headers: &[httparse::Header<'_>]) -> String {
    let accept = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("accept");
    let values = headers.iter().filter(accept);
    let values: Vec<_> = values
        .map(|header| String::from_utf8_lossy(header.value))
        .collect();
    values.join(",")
}

/// The path of a request's target, which may be a whole address, without the query.
fn path(target: &str) -> &str {
    let behind_scheme = target.strip_prefix("http://");
    let path = match behind_scheme {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    path.split(['?', '#']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(request: &str) -> String {
        told_by(request, Hosts::Any)
    }

    fn told_by(request: &str, hosts: Hosts) -> String {
        let metrics = |format| match format {
            Format::Openmetrics => "open\n".to_owned(),
            Format::Prometheus => "older\n".to_owned(),
        };
        match answer(request.as_bytes(), hosts, metrics) {
            Answer::Now(bytes) => String::from_utf8(bytes).unwrap(),
            Answer::NotYet => "not yet".to_owned(),
        }
    }

    #[test]
    fn metrics_are_given_in_the_format_that_is_wanted() {
        let text = told("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        assert!(text.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(text.contains("Content-Length: 6\r\n") && text.ends_with("\r\n\r\nolder\n"));
        let open = "GET /metrics?x=1 HTTP/1.0\r\naccept: text/plain;q=0.1\r\nAccept: application/openmetrics-text\r\n\r\n";
        assert!(told(open).ends_with("\r\n\r\nopen\n"));
        let head = told("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"));
        assert!(told("GET http://host:1/metrics HTTP/1.1\r\n\r\n").ends_with("older\n"));
    }

    #[test]
    fn on_loopback_the_names_of_others_are_refused() {
        let told = |host: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\n{host}\r\n");
            told_by(&request, Hosts::Loopback)
        };
        for host in [
            "",
            "Host: localhost:10219\r\n",
            "host: LOCALHOST\r\n",
            "Host: 127.0.0.1:10219\r\n",
            "Host: 127.1.2.3\r\n",
            "Host: [::1]:10219\r\n",
            "Host: [::1]\r\n",
        ] {
            assert!(told(host).starts_with("HTTP/1.1 200 "), "{host}");
        }
        for host in [
            "Host: example.org\r\n",
            "Host: example.org:10219\r\n",
            "Host: localhost.example.org\r\n",
            "Host: 10.0.0.1\r\n",
            "Host: localhost\r\nHost: example.org\r\n",
        ] {
            assert!(told(host).starts_with("HTTP/1.1 421 "), "{host}");
        }
    }

    #[test]
    fn there_is_a_page_and_nothing_else() {
        assert!(told("GET / HTTP/1.1\r\n\r\n").contains("<a href=\"/metrics\">"));
        assert!(told("GET http://host HTTP/1.1\r\n\r\n").contains("text/html"));
        for path in [
            "/nonexistent",
            "/metrics/",
            "/../etc/passwd",
            "*",
            "//metrics",
        ] {
            let text = told(&format!("GET {path} HTTP/1.1\r\n\r\n"));
            assert!(text.starts_with("HTTP/1.1 404 "), "{path}: {text}");
        }
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "BREW"] {
            let text = told(&format!("{method} /metrics HTTP/1.1\r\n\r\n"));
            assert!(text.starts_with("HTTP/1.1 405 "), "{method}: {text}");
            assert!(text.contains("Allow: GET, HEAD\r\n"));
        }
    }

    #[test]
    fn what_is_no_request_is_refused_and_a_part_of_one_waited_for() {
        for part in [
            "",
            "G",
            "GET /metrics",
            "GET /metrics HTTP/1.1\r\nHost: x\r\n",
        ] {
            assert_eq!(told(part), "not yet", "{part}");
        }
        let garbage = [
            "\0\0\0\0",
            "GET\r\n\r\n",
            "GET / HTTP/9.9\r\n\r\n",
            "\u{16}\u{3}\u{1}",
        ];
        for garbage in garbage {
            let text = told(garbage);
            assert!(text.starts_with("HTTP/1.1 400 "), "{garbage:?}: {text}");
        }
        let long = format!("GET /{} HTTP/1.1\r\n", "x".repeat(MOST_REQUEST_BYTES));
        assert!(told(&long).starts_with("HTTP/1.1 431 "));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert!(told(&many).starts_with("HTTP/1.1 431 "));
    }
}
