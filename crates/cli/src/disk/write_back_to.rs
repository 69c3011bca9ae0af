//! What `coldpress disk serve --writeback` names: a file, a block device, or a store on another machine; and the tier
//! that is made of it.

use crate::refusal::Refusal;
use crate::size::format_count;
use crate::streams::say;
use clap::builder::{OsStringValueParser, TypedValueParser};
use coldpress_disk::{
    OpenError, Options, SEGMENT_BYTES, TierDevice, TierFile, TierStore, segments_for,
};
use coldpress_remote::{Counts, Fallback, Location};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where pages are written back to. The location of a store may have a password in it, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub enum WriteBackTo {
    /// A file that does not exist, or a block device.
    Path(PathBuf),
    /// A store on another machine, as it was typed.
    Store(String),
}

impl WriteBackTo {
    /// Tells a store from a path. It refuses nothing: clap would show what it refuses.
    pub fn parser() -> impl TypedValueParser<Value = Self> {
        OsStringValueParser::new().map(Self::of)
    }

    fn of(text: OsString) -> Self {
        match text.to_str() {
            Some(text) if coldpress_remote::is_location(text) => Self::Store(text.to_owned()),
            _ => Self::Path(text.into()),
        }
    }

    /// The tier of a disk: with a fallback for what a store does not take, and a limit to what is written in a day.
    pub fn make(
        &self,
        options: &Options,
        fallback: Option<&Path>,
        daily_bytes: Option<u64>,
    ) -> Result<Tier, Refusal> {
        let size = options.size_bytes;
        let (device, remote) = match self {
            Self::Path(path) => (create(path, size)?.into(), None),
            Self::Store(text) => {
                let (device, remote) = open(text, fallback, size)?;
                (device, Some(remote))
            }
        };
        let made = TierStore::new(device, size, options.codec, daily_bytes);
        let store = made
            .map_err(|error| Refusal::new(format!("cannot make the write-back tier: {error}")))?;
        Ok(Tier {
            store: Arc::new(store),
            remote,
        })
    }
}

impl fmt::Display for WriteBackTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Store(text) => f.write_str(&coldpress_remote::shown(text)),
        }
    }
}

impl fmt::Debug for WriteBackTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteBackTo({self})")
    }
}

/// A write-back tier.
#[derive(Clone)]
pub struct Tier {
    /// What a disk reads and writes.
    pub store: Arc<TierStore>,
    /// Where its segments are, if they are on another machine.
    pub remote: Option<Remote>,
}

/// A store on another machine.
#[derive(Clone)]
pub struct Remote {
    pub location: Location,
    /// What the names of all its objects begin with.
    pub name: String,
    pub counts: Arc<Counts>,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { location, name, .. } = self;
        write!(f, "its tier is {location}, objects {name}/*")
    }
}

impl Tier {
    /// The command is about to end: what is in a store is deleted there.
    pub fn end(&self) {
        self.store.end();
        let Some(remote) = &self.remote else {
            return;
        };
        let left = remote.counts.figures().left_objects;
        if left > 0 {
            say!(
                "{} objects may be left in {}: delete them when it answers again\n  {}",
                format_count(left),
                remote.location,
                remote.location.removal(&remote.name)
            );
        }
    }
}

fn create(path: &Path, size: u64) -> Result<TierFile, Refusal> {
    TierFile::create(path, size).map_err(|error| match &error {
        OpenError::Io(io) if io.kind() == std::io::ErrorKind::AlreadyExists => Refusal::new(
            format!("{} exists, and would be overwritten", path.display()),
        )
        .mend("name a file that does not exist: it has no name while it is used"),
        error => Refusal::new(format!("cannot use {}: {error}", path.display())),
    })
}

fn open(text: &str, fallback: Option<&Path>, size: u64) -> Result<(TierDevice, Remote), Refusal> {
    let shown = coldpress_remote::shown(text);
    let location =
        Location::parse(text).map_err(|why| Refusal::new(format!("--writeback {shown}: {why}")))?;
    let segments = segments_for(size);
    let fallback = fallback.map(|path| create(path, size)).transpose()?;
    let fallback = fallback.map(|file| Fallback {
        segments: file.segments(),
        device: Box::new(file),
    });
    let opened = coldpress_remote::open(&location, (segments, SEGMENT_BYTES), fallback);
    let device = opened.map_err(|error| {
        let refusal = Refusal::new(format!("--writeback: {error}"));
        match error.mend() {
            _ if error.is_not_built() => {
                refusal.mend("cargo install --path crates/cli --features remote")
            }
            Some(mend) => refusal.mend(mend),
            None => refusal,
        }
    })?;
    let remote = Remote {
        location,
        name: device.name().to_owned(),
        counts: device.counts(),
    };
    let memory = device.memory_bytes();
    let device = TierDevice::new(Box::new(device), segments, memory);
    Ok((device, remote))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_from_paths_and_hide_their_passwords() {
        let store = WriteBackTo::of("redis://me:hush@h:1".into());
        assert!(matches!(store, WriteBackTo::Store(_)));
        assert!(!format!("{store} {store:?}").contains("hush"));
        let path = WriteBackTo::of("/var/tmp/tier".into());
        assert_eq!(path, WriteBackTo::Path("/var/tmp/tier".into()));
    }
}
