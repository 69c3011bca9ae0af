//! Objects of a bucket of S3, or of a store that is compatible with it.
//!
//! PUT, GET with a range, DELETE, and deleting many with one POST. Requests are signed in their address, of which
//! nothing is ever shown.

use crate::location::{Location, Place};
use crate::store::{Failure, Store, StoreError};
use rusty_s3::actions::ObjectIdentifier;
use rusty_s3::{Bucket, S3Action, UrlStyle};
use std::fmt;
use std::io::{self, Read};
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

/// How long a signed request may be under way.
const SIGNED_FOR: Duration = Duration::from_secs(300);

/// So much is read of an answer that says what went wrong.
const MOST_OF_AN_ERROR: u64 = 8 << 10;

/// The longest answer to deleting many.
const MOST_OF_AN_ANSWER: u64 = 1 << 20;

/// Credentials for a store that is compatible with S3.
#[derive(Clone)]
pub struct Credentials {
    /// The access key.
    pub key: String,
    /// The secret that belongs to it.
    pub secret: String,
    /// Of temporary ones.
    pub token: Option<String>,
}

impl Credentials {
    /// Those of `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`; `None`: the first two are not
    /// both there.
    pub fn from_environment() -> Option<Self> {
        let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            key: of("AWS_ACCESS_KEY_ID")?,
            secret: of("AWS_SECRET_ACCESS_KEY")?,
            token: of("AWS_SESSION_TOKEN"),
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(***)")
    }
}

/// A bucket as a store.
pub struct S3Store {
    agent: Agent,
    bucket: Bucket,
    credentials: rusty_s3::Credentials,
}

impl S3Store {
    /// The store of a location. It is connected when it is used first.
    ///
    /// # Errors
    /// It is no location of a bucket, or its endpoint is no address.
    pub fn new(location: &Location, credentials: &Credentials) -> Result<Self, StoreError> {
        let other = |text: String| StoreError::new(Failure::Other, text);
        let Place::S3(place) = &location.place else {
            return Err(other("it is no bucket".to_owned()));
        };
        let (endpoint, style) = match &place.endpoint {
            Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
            None => (
                format!("https://s3.{}.amazonaws.com", place.region),
                UrlStyle::VirtualHost,
            ),
        };
        let is_encrypted = endpoint.starts_with("https://");
        let endpoint = endpoint
            .parse()
            .map_err(|error| other(format!("the endpoint is no address: {error}")))?;
        let bucket = Bucket::new(endpoint, style, place.bucket.clone(), place.region.clone());
        let bucket = bucket.map_err(|error| other(format!("the endpoint: {error}")))?;
        let Credentials { key, secret, token } = credentials.clone();
        Ok(Self {
            agent: agent(location.patience().timeout, is_encrypted),
            bucket,
            credentials: match token {
                Some(token) => rusty_s3::Credentials::new_with_token(key, secret, token),
                None => rusty_s3::Credentials::new(key, secret),
            },
        })
    }
}

fn agent(timeout: Duration, is_encrypted: bool) -> Agent {
    let timeout = Some(timeout);
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_resolve(timeout)
        .timeout_connect(timeout)
        .timeout_send_request(timeout)
        .timeout_send_body(timeout)
        .timeout_recv_response(timeout)
        .timeout_recv_body(timeout);
    if is_encrypted {
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The certificates that the machine trusts.
        let found = rustls_native_certs::load_native_certs().certs;
        let found = found
            .iter()
            .map(|found| Certificate::from_der(found).to_owned());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::from(found));
        config = config.tls_config(tls.build());
    }
    config.build().new_agent()
}

impl Store for S3Store {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let put = self.bucket.put_object(Some(&self.credentials), name);
        let address = put.sign(SIGNED_FOR);
        let answer = self.agent.put(address.as_str()).send(bytes);
        let mut answer = answer.map_err(|error| of_http(&error))?;
        match answer.status().is_success() {
            true => finish(&mut answer),
            false => Err(refusal(&mut answer)),
        }
    }

    fn get(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        if into.is_empty() {
            return Ok(0);
        }
        let get = self.bucket.get_object(Some(&self.credentials), name);
        let range = format!("bytes={offset}-{}", offset + into.len() as u64 - 1);
        let request = self.agent.get(get.sign(SIGNED_FOR).as_str());
        let answer = request.header("range", range).call();
        let mut answer = answer.map_err(|error| of_http(&error))?;
        let skipped = match answer.status().as_u16() {
            206 => 0,
            // It gives no ranges.
            200 => offset,
            _ => return Err(refusal(&mut answer)),
        };
        let mut body = answer.body_mut().as_reader();
        io::copy(&mut (&mut body).take(skipped), &mut io::sink()).map_err(|error| of_io(&error))?;
        let mut length = 0;
        while length < into.len() {
            match body.read(&mut into[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) => return Err(of_io(&error)),
            }
        }
        match length {
            0 => Err(StoreError::new(Failure::Missing, "the object is too short")),
            length => Ok(length),
        }
    }

    fn delete(&mut self, names: &[String]) -> Result<(), StoreError> {
        let credentials = Some(&self.credentials);
        let answer = match names {
            [] => return Ok(()),
            [name] => {
                let address = self
                    .bucket
                    .delete_object(credentials, name)
                    .sign(SIGNED_FOR);
                self.agent.delete(address.as_str()).call()
            }
            names => {
                let objects: Vec<ObjectIdentifier> = names
                    .iter()
                    .map(|name| ObjectIdentifier::new(name.clone()))
                    .collect();
                let mut delete = self.bucket.delete_objects(credentials, objects.iter());
                delete.set_quiet(true);
                let address = delete.sign(SIGNED_FOR);
                let (body, md5) = delete.body_with_md5();
                let request = self.agent.post(address.as_str());
                let request = request.header("content-md5", md5);
                request.header("content-type", "text/xml").send(&body[..])
            }
        };
        let mut answer = answer.map_err(|error| of_http(&error))?;
        let is_done = answer.status().is_success() || answer.status().as_u16() == 404;
        if !is_done || names.len() == 1 {
            return match is_done {
                true => finish(&mut answer),
                false => Err(refusal(&mut answer)),
            };
        }
        // It answers 200, and says which were not deleted.
        let text = text_of(&mut answer, MOST_OF_AN_ANSWER)?;
        match text.contains("<Error>") {
            false => Ok(()),
            true => Err(of_code(200, code_in(&text))),
        }
    }
}

/// Reads what is left of an answer, so that the connection can be used again.
fn finish(answer: &mut Response<Body>) -> Result<(), StoreError> {
    let mut rest = answer.body_mut().as_reader().take(MOST_OF_AN_ERROR);
    let read = io::copy(&mut rest, &mut io::sink());
    read.map(drop).map_err(|error| of_io(&error))
}

fn text_of(answer: &mut Response<Body>, most: u64) -> Result<String, StoreError> {
    let mut bytes = Vec::new();
    let read = answer
        .body_mut()
        .as_reader()
        .take(most)
        .read_to_end(&mut bytes);
    read.map_err(|error| of_io(&error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What an answer that is no success means.
fn refusal(answer: &mut Response<Body>) -> StoreError {
    let status = answer.status().as_u16();
    match text_of(answer, MOST_OF_AN_ERROR) {
        Ok(text) => of_code(status, code_in(&text)),
        Err(_) => of_code(status, ""),
    }
}

/// S3's word for an error, of the XML that comes with it.
fn code_in(text: &str) -> &str {
    let (_, rest) = text.split_once("<Code>").unwrap_or_default();
    let (code, _) = rest.split_once("</Code>").unwrap_or_default();
    match code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => code,
        false => "",
    }
}

fn of_code(status: u16, code: &str) -> StoreError {
    let failure = match (code, status) {
        ("NoSuchBucket", _) => Failure::NoSuchPlace,
        ("NoSuchKey" | "InvalidRange", _) => Failure::Missing,
        ("SlowDown" | "InternalError" | "ServiceUnavailable" | "RequestTimeout", _) => {
            Failure::Busy
        }
        ("QuotaExceeded" | "EntityTooLarge" | "XMinioStorageFull", _) | (_, 507) => {
            Failure::NoSpace
        }
        (_, 404 | 416) => Failure::Missing,
        (_, 401 | 403) => Failure::Denied,
        (_, 429 | 500..) => Failure::Busy,
        _ => Failure::Other,
    };
    let code = match code {
        "" => String::new(),
        code => format!(" ({code})"),
    };
    StoreError::new(failure, format!("the store answered {status}{code}"))
}

fn of_http(error: &ureq::Error) -> StoreError {
    match error {
        ureq::Error::Timeout(_) => StoreError::new(Failure::Timeout, "there was no answer in time"),
        ureq::Error::Io(error) => of_io(error),
        ureq::Error::HostNotFound => StoreError::new(Failure::Unreachable, "the host is not known"),
        ureq::Error::ConnectionFailed => {
            StoreError::new(Failure::Unreachable, "there is no connection")
        }
        ureq::Error::Protocol(_) => StoreError::new(
            Failure::Unreachable,
            "the answer is not that of a web server",
        ),
        ureq::Error::Rustls(error) => {
            StoreError::new(Failure::Unreachable, format!("TLS: {error}"))
        }
        // Of no other error the text is shown: it may have the address in it.
        _ => StoreError::new(Failure::Other, "the request failed"),
    }
}

fn of_io(error: &io::Error) -> StoreError {
    // The library passes its own errors through the reader of a body.
    if let Some(error) = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<ureq::Error>())
    {
        return of_http(error);
    }
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            StoreError::new(Failure::Timeout, "there was no answer in time")
        }
        kind => StoreError::new(Failure::Unreachable, kind.to_string()),
    }
}
