//! Where a server listens.
//!
//! A Unix socket is made for its owner alone: there is no moment at which somebody else could connect. A socket that
//! a server left behind when it was killed is replaced; one that is served is not, nor is a file of another kind. Two
//! servers that start on such a remnant at the same moment may both believe to have it, and the later one has.

use super::stream::Stream;
use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A Unix socket, at this path.
    Unix(PathBuf),
    /// A loopback address; port 0 is any that is free.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listen::Unix(path) => path.display().fmt(f),
            Listen::Tcp(address) => address.fmt(f),
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// There is nowhere to listen.
    #[error("no socket and no address to listen on")]
    Nowhere,
    /// A server is there already.
    #[error("{} is served already, by a program that is running: stop it, or name another path", .0.display())]
    Served(PathBuf),
    /// There is a file of another kind.
    #[error("{} exists and is no socket: name another path", .0.display())]
    NoSocket(PathBuf),
    /// An address that other machines can reach.
    #[error(
        "{0} is no loopback address: NBD is served without encryption, and for this machine only"
    )]
    NotLoopback(SocketAddr),
    /// The kernel refuses the path.
    #[error("cannot listen on {}: {source}", path.display())]
    Unix {
        /// The path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refuses the address.
    #[error("cannot listen on {address}: {source}")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel gives no descriptor by which the server is told to stop.
    #[error("no eventfd: {0}")]
    Descriptor(#[source] io::Error),
}

/// A socket that clients connect to.
pub(super) enum Listener {
    Unix {
        socket: UnixListener,
        file: SocketFile,
    },
    Tcp(TcpListener),
}

/// The file of a Unix socket, which is removed with this.
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode: what somebody else puts at the path since is not ours.
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        let path = std::path::absolute(path)?;
        Ok(Self {
            path,
            identity: (metadata.dev(), metadata.ino()),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let here = fs::symlink_metadata(&self.path);
        if here.is_ok_and(|here| (here.dev(), here.ino()) == self.identity) {
            // Where it cannot be removed it stays, and the next server replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix { socket, .. } => socket.as_fd(),
            Listener::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl Listener {
    /// Begins to listen.
    pub(super) fn bind(listen: &Listen) -> Result<Self, BindError> {
        match listen {
            Listen::Unix(path) => bind_unix(path),
            Listen::Tcp(address) if !address.ip().is_loopback() => {
                Err(BindError::NotLoopback(*address))
            }
            Listen::Tcp(address) => {
                let bound = TcpListener::bind(address).and_then(|socket| {
                    socket.set_nonblocking(true)?;
                    Ok(socket)
                });
                let failed = |source| BindError::Tcp {
                    address: *address,
                    source,
                };
                bound.map(Listener::Tcp).map_err(failed)
            }
        }
    }

    /// Where it listens, with the port that was given.
    pub(super) fn listen(&self) -> Listen {
        match self {
            Listener::Unix { file, .. } => Listen::Unix(file.path.clone()),
            Listener::Tcp(socket) => Listen::Tcp(socket.local_addr().expect("it is bound")),
        }
    }

    /// A client that waits, if there is one.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Unix { socket, .. } => socket.accept().map(|(stream, _)| stream.into()),
            Listener::Tcp(socket) => socket.accept().map(|(stream, _)| stream.into()),
        }
    }
}

fn bind_unix(path: &Path) -> Result<Listener, BindError> {
    let failed = |source: io::Error| BindError::Unix {
        path: path.to_owned(),
        source,
    };
    let address = UnixAddr::new(path).map_err(|errno| failed(errno.into()))?;
    let socket = || {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
    };
    let bound = socket().map_err(|errno| failed(errno.into()))?;
    if let Err(errno) = socket::bind(bound.as_raw_fd(), &address) {
        if errno != Errno::EADDRINUSE {
            return Err(failed(errno.into()));
        }
        if !fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
            return Err(BindError::NoSocket(path.to_owned()));
        }
        let asking = socket().map_err(|errno| failed(errno.into()))?;
        match socket::connect(asking.as_raw_fd(), &address) {
            Err(Errno::ECONNREFUSED) => {}
            Ok(()) | Err(Errno::EAGAIN) => return Err(BindError::Served(path.to_owned())),
            Err(errno) => return Err(failed(errno.into())),
        }
        fs::remove_file(path).map_err(failed)?;
        socket::bind(bound.as_raw_fd(), &address).map_err(|errno| failed(errno.into()))?;
    }
    let file = SocketFile::new(path).map_err(failed)?;
    // Nobody can connect before it listens, so nobody did with other permissions.
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    Backlog::new(BACKLOG)
        .and_then(|backlog| socket::listen(&bound, backlog))
        .map_err(|errno| failed(errno.into()))?;
    let socket = UnixListener::from(bound);
    Ok(Listener::Unix { socket, file })
}
