//! From the location of a store to a device on it.

use crate::device::{Fallback, RemoteDevice};
use crate::location::{Location, Place};
use crate::store::{Failure, Store, StoreError};
use std::fmt;

/// Why a store is not used, and what mends that. No secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OpenError {
    what: String,
    mend: Option<String>,
    is_not_built: bool,
}

impl OpenError {
    fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        Self {
            what,
            mend: None,
            is_not_built: false,
        }
    }

    #[cfg_attr(all(feature = "redis", feature = "s3"), allow(dead_code))]
    fn not_built(location: &Location, feature: &str) -> Self {
        let what = format!("cannot use {location}: this was built without the feature {feature}");
        Self {
            is_not_built: true,
            ..Self::new(what)
        }
    }

    fn mended_by(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// Whether it was built without what this store needs.
    pub fn is_not_built(&self) -> bool {
        self.is_not_built
    }

    /// What mends it: a command, or what is to be done.
    pub fn mend(&self) -> Option<&str> {
        self.mend.as_deref()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A device of so many segments on the store at a location, after it was tried whether that stores, returns and deletes
/// an object. Credentials come from the location or the environment: `REDISCLI_AUTH` is the password of a Redis whose
/// location has none; `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN` are for S3.
///
/// # Errors
/// The store cannot be used, or the library was built without what it needs.
pub fn open(
    location: &Location,
    segments: (usize, usize),
    fallback: Option<Fallback>,
) -> Result<RemoteDevice, OpenError> {
    let store = store(location)?;
    let patience = location.patience;
    let opened = RemoteDevice::new(store, &location.prefix, segments, patience, fallback);
    opened.map_err(|error| of_store(location, &error))
}

fn store(location: &Location) -> Result<Box<dyn Store>, OpenError> {
    match &location.place {
        #[cfg(feature = "redis")]
        Place::Redis(_) => {
            let password = std::env::var("REDISCLI_AUTH").ok();
            let store = crate::redis::RedisStore::new(location, password.as_deref());
            let store = store.map_err(|error| of_store(location, &error))?;
            Ok(Box::new(store))
        }
        #[cfg(not(feature = "redis"))]
        Place::Redis(_) => Err(OpenError::not_built(location, "redis")),
        #[cfg(feature = "s3")]
        Place::S3(_) => {
            let Some(credentials) = crate::s3::Credentials::from_environment() else {
                return Err(OpenError::new(format!(
                    "cannot use {location}: there are no credentials for it in the environment"
                ))
                .mended_by("export AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=…"));
            };
            let store = crate::s3::S3Store::new(location, &credentials);
            let store = store.map_err(|error| of_store(location, &error))?;
            Ok(Box::new(store))
        }
        #[cfg(not(feature = "s3"))]
        Place::S3(_) => Err(OpenError::not_built(location, "s3")),
    }
}

/// What the failure of a store means for its user.
fn of_store(location: &Location, error: &StoreError) -> OpenError {
    let refused = OpenError::new(format!("cannot use {location}: {error}"));
    let is_redis = matches!(location.place, Place::Redis(_));
    let mend = match (error.failure, is_redis) {
        (Failure::Denied, true) => {
            "give the password in redis://USER:PASSWORD@… or in REDISCLI_AUTH, and let the user write (ACL)"
        }
        (Failure::Denied, false) => {
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, the region, the clock, and that they may put, get and \
             delete objects of the bucket"
        }
        (Failure::NoSuchPlace, true) => {
            "name a database that the server has, and cluster=1 for a cluster alone"
        }
        (Failure::NoSuchPlace, false) => {
            "create the bucket, or name one that exists: s3://BUCKET/PREFIX"
        }
        (Failure::NoSpace, true) => {
            "allow the server more memory (CONFIG SET maxmemory), or name another"
        }
        (Failure::NoSpace, false) => "make room in the store, or name another",
        (Failure::Unreachable | Failure::Timeout, true) => {
            "start the server, or correct the host and port; a slow one has a longer timeout: ?timeout=10s"
        }
        (Failure::Unreachable | Failure::Timeout, false) => {
            "start the store, or correct endpoint=…; a slow one has a longer timeout: &timeout=10s"
        }
        _ => return refused,
    };
    refused.mended_by(mend)
}
