//! Where requests are taken: a TCP address, loopback unless the user says otherwise, or a unix socket.
//!
//! The figures tell the names of a user's programs and how much memory they hold. They are for everybody who can reach the
//! address: on loopback for every user of this machine. A unix socket has the mode that the umask leaves.

use super::http::Hosts;
use crate::refusal::Refusal;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where `--listen` alone listens. The ports from 9100 to 9999, which Prometheus gives to exporters, are all taken.
pub const DEFAULT: &str = "127.0.0.1:10219";

/// Binds a TCP address; for `hosts` of this machine alone, none that others reach.
pub fn tcp(text: &str, hosts: Hosts) -> Result<TcpListener, Refusal> {
    let addresses = addresses(text)?;
    let remote = addresses.iter().find(|address| !is_loopback(address.ip()));
    if let Some(remote) = remote.filter(|_| hosts == Hosts::Loopback) {
        return Err(Refusal::new(format!(
            "--listen: {} can be reached from other machines, and there is neither a password nor encryption",
            remote.ip()
        ))
        .mend(format!("This machine alone: --listen 127.0.0.1:{}", remote.port()))
        .mend("Let everybody read which programs run here, and how much memory they hold: --allow-remote"));
    }
    let listener = TcpListener::bind(&addresses[..])
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
    listener.map_err(|error| {
        let refusal = Refusal::new(format!("--listen: cannot listen at {text}: {error}"));
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                refusal.mend("Choose another port: --listen 127.0.0.1:10220")
            }
            _ => refusal,
        }
    })
}

/// `127.0.0.1:9119`, `[::1]:9119`, `localhost:9119`, or a port alone: `9119`, `:9119`.
fn addresses(text: &str) -> Result<Vec<SocketAddr>, Refusal> {
    let unreadable = |why: &str| {
        Refusal::new(format!(
            "--listen: cannot read {text:?} as an address{why}: write for example {DEFAULT}, [::1]:9119 or 9119 (a port)"
        ))
    };
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
        return Ok(vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))]);
    }
    let found = text.to_socket_addrs().map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => unreadable(""),
        _ => unreadable(&format!(" ({error})")),
    })?;
    let found: Vec<SocketAddr> = found.collect();
    match found.is_empty() {
        true => Err(unreadable("")),
        false => Ok(found),
    }
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A unix socket, removed again when it is dropped, if it still is the one that was made.
#[derive(Debug)]
pub struct Socket {
    /// The listener.
    pub listener: UnixListener,
    path: PathBuf,
    made: Option<(u64, u64)>,
}

impl Socket {
    /// Makes one. A socket that a killed command left is replaced; anything else there is refused.
    pub fn bind(path: &Path) -> Result<Self, Refusal> {
        let failed = |error: io::Error| {
            Refusal::new(format!(
                "--socket: cannot listen at {}: {error}",
                path.display()
            ))
        };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(Refusal::new(format!(
                    "--socket: {} is there, and is no socket: it stays as it is",
                    path.display()
                )));
            }
            Ok(_) => match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?;
                }
                _ => {
                    return Err(Refusal::new(format!(
                        "--socket: somebody listens at {} already",
                        path.display()
                    )));
                }
            },
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            made: identity(path),
        })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.made.is_some() && identity(&self.path) == self.made {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_at_unless_that_is_said() {
        for text in [
            "127.0.0.1:0",
            "[::1]:0",
            "0",
            ":0",
            "localhost:0",
            "127.8.9.1:0",
        ] {
            match tcp(text, Hosts::Loopback) {
                Ok(listener) => assert!(is_loopback(listener.local_addr().unwrap().ip())),
                // A machine without IPv6.
                Err(refusal) => assert!(text.contains("::1"), "{text}: {refusal}"),
            }
        }
        for text in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:10.0.0.1]:0"] {
            let refusal = tcp(text, Hosts::Loopback).unwrap_err().to_string();
            assert!(refusal.contains("from other machines"), "{text}: {refusal}");
            assert!(refusal.contains("--allow-remote"), "{refusal}");
        }
        assert!(tcp("0.0.0.0:0", Hosts::Any).is_ok());
        assert!(is_loopback("::ffff:127.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_address_is_told_with_one_that_is() {
        for text in ["", "localhost", "1:2:3", "127.0.0.1:99999", "-1", "70000"] {
            let refusal = tcp(text, Hosts::Loopback).unwrap_err().to_string();
            assert!(
                refusal.contains(&format!("cannot read {text:?}")),
                "{refusal}"
            );
            assert!(refusal.contains(DEFAULT), "{refusal}");
        }
    }

    #[test]
    fn a_socket_left_behind_is_replaced_and_nothing_else_is() {
        let path = std::env::temp_dir().join(format!("coldpress-socket-{}", std::process::id()));
        let socket = Socket::bind(&path).unwrap();
        let taken = Socket::bind(&path).unwrap_err().to_string();
        assert!(taken.contains("somebody listens"), "{taken}");
        drop(socket);
        assert!(fs::symlink_metadata(&path).is_err(), "it is removed");
        // As a killed command leaves it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(fs::symlink_metadata(&path).is_ok());
        drop(Socket::bind(&path).unwrap());
        fs::write(&path, "mine").unwrap();
        let refusal = Socket::bind(&path).unwrap_err().to_string();
        assert!(refusal.contains("is no socket"), "{refusal}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        fs::remove_file(&path).unwrap();
    }
}
