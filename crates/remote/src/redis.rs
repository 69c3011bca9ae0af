//! Objects as strings of a Redis or Valkey server, or of a cluster of them.
//!
//! SET, GETRANGE and UNLINK. Objects have no expiry: a run that is cut off, or whose machine sleeps, would lose what
//! the store still had.

use crate::location::{Location, Place, RedisPlace};
use crate::store::{Failure, Store, StoreError};
use redis::cluster::{ClusterClient, ClusterClientBuilder, ClusterConnection};
use redis::{
    Client, Connection, ConnectionAddr, ConnectionLike, ErrorKind, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, RedisError, RedisResult, ServerErrorKind, cmd,
};
use std::time::Duration;

/// Redirections and reconnections that the library makes within one attempt.
const REDIRECTIONS: u32 = 3;

enum Server {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

enum Connected {
    One(Box<Connection>),
    Cluster(Box<ClusterConnection>),
}

impl Connected {
    fn any(&mut self) -> &mut dyn ConnectionLike {
        match self {
            Self::One(connection) => &mut **connection,
            Self::Cluster(connection) => &mut **connection,
        }
    }
}

/// A Redis or Valkey server, or a cluster, as a store.
pub struct RedisStore {
    server: Server,
    /// None as long as it was not needed, and after an error.
    connected: Option<Connected>,
    timeout: Duration,
}

impl RedisStore {
    /// The store of a location. It is connected when it is used first. `password`: if the location has none.
    ///
    /// # Errors
    /// It is no location of a Redis.
    pub fn new(location: &Location, password: Option<&str>) -> Result<Self, StoreError> {
        let Place::Redis(place) = &location.place else {
            return Err(StoreError::new(Failure::Other, "it is no Redis"));
        };
        if place.is_encrypted {
            // The other libraries that use rustls in this process have chosen already, or will.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let timeout = location.patience().timeout;
        let server = server(place, password, timeout).map_err(|error| of_redis(&error))?;
        Ok(Self {
            server,
            connected: None,
            timeout,
        })
    }

    fn connect(&self) -> RedisResult<Connected> {
        let timeout = Some(self.timeout);
        Ok(match &self.server {
            Server::One(client) => {
                let connection = client.get_connection_with_timeout(self.timeout)?;
                connection.set_read_timeout(timeout)?;
                connection.set_write_timeout(timeout)?;
                Connected::One(Box::new(connection))
            }
            Server::Cluster(client) => {
                let connection = client.get_connection()?;
                connection.set_read_timeout(timeout)?;
                connection.set_write_timeout(timeout)?;
                Connected::Cluster(Box::new(connection))
            }
        })
    }

    /// Connects if need be. A connection that has failed is not used again: the answer to another question may come.
    fn ask<T>(
        &mut self,
        act: impl FnOnce(&mut Connected) -> RedisResult<T>,
    ) -> Result<T, StoreError> {
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => self.connect().map_err(|error| of_redis(&error))?,
        };
        let done = act(&mut connected);
        let is_answered = match &done {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension),
        };
        self.connected = is_answered.then_some(connected);
        done.map_err(|error| of_redis(&error))
    }
}

fn server(place: &RedisPlace, password: Option<&str>, timeout: Duration) -> RedisResult<Server> {
    let (host, port) = (place.host.clone(), place.port);
    let address = match place.is_encrypted {
        false => ConnectionAddr::Tcp(host, port),
        true => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            tls_params: None,
        },
    };
    let mut login = RedisConnectionInfo::default()
        .set_db(place.database)
        .set_protocol(ProtocolVersion::RESP2)
        .set_skip_set_lib_name();
    if let Some(user) = &place.user {
        login = login.set_username(user);
    }
    if let Some(password) = place.password.as_deref().or(password) {
        login = login.set_password(password);
    }
    let info = address.into_connection_info()?.set_redis_settings(login);
    Ok(match place.is_cluster {
        false => Server::One(Box::new(Client::open(info)?)),
        true => {
            let client = ClusterClientBuilder::new([info])
                .connection_timeout(timeout)
                .response_timeout(timeout)
                .retries(REDIRECTIONS)
                .min_retry_wait(10)
                .max_retry_wait(100)
                .build()?;
            Server::Cluster(Box::new(client))
        }
    })
}

impl Store for RedisStore {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.ask(|connected| cmd("SET").arg(name).arg(bytes).exec(connected.any()))
    }

    fn get(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        if into.is_empty() {
            return Ok(0);
        }
        let last = offset + into.len() as u64 - 1;
        let bytes: Vec<u8> = self.ask(|connected| {
            let mut get = cmd("GETRANGE");
            get.arg(name).arg(offset).arg(last).query(connected.any())
        })?;
        if bytes.is_empty() {
            let text = "the store has no such object, or it is too short";
            return Err(StoreError::new(Failure::Missing, text));
        }
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn delete(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.ask(|connected| match connected {
            Connected::One(one) => cmd("UNLINK").arg(names).exec(&mut **one),
            // Each lies on one of the servers.
            Connected::Cluster(cluster) => names
                .iter()
                .try_for_each(|name| cmd("UNLINK").arg(name).exec(&mut **cluster)),
        })
    }
}

fn of_redis(error: &RedisError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let failure = match error.kind() {
        _ if error.is_timeout() => Failure::Timeout,
        _ if code == "OOM" => Failure::NoSpace,
        _ if ["NOAUTH", "WRONGPASS", "NOPERM"].contains(&code) => Failure::Denied,
        _ if ["MISCONF", "NOREPLICAS", "MASTERDOWN"].contains(&code) => Failure::Busy,
        ErrorKind::AuthenticationFailed
        | ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ReadOnly) => Failure::Denied,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::TryAgain
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown,
        ) => Failure::Busy,
        ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask) => Failure::NoSuchPlace,
        ErrorKind::Io | ErrorKind::Parse | ErrorKind::ClusterConnectionNotFound => {
            Failure::Unreachable
        }
        _ => Failure::Other,
    };
    let text = match failure {
        Failure::Timeout => "there was no answer in time".to_owned(),
        _ => error.to_string(),
    };
    StoreError::new(failure, text)
}
