//! A disk and its snapshots as exports of the NBD server.
//!
//! The disk is the default export, and that of its name; a snapshot is one under its own. A client that has found a
//! snapshot keeps it; once it is dropped, what the client reads fails.

use super::content::{Behind, Content};
use coldpress_disk::{
    BackingError, Cache, Extent as DiskExtent, IoError, Volume, Zeroing as DiskZeroing,
};
use coldpress_nbd::{Export, Exports, Extent, Failure, Zeroing};
use std::sync::Arc;

/// A volume, served.
struct Served {
    volume: Volume,
    description: String,
}

fn failure(error: IoError) -> Failure {
    match error {
        IoError::OutOfRange => Failure::Invalid,
        IoError::ReadOnly => Failure::ReadOnly,
        IoError::NoSpace | IoError::Backing(BackingError::NoSpace) => Failure::NoSpace,
        IoError::Gone => Failure::Shutdown,
        _ => Failure::Io,
    }
}

impl Export for Served {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn read_only(&self) -> bool {
        self.volume.is_read_only()
    }

    fn description(&self) -> String {
        self.description.clone()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.volume.read(offset, buffer).map_err(failure)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.volume.write(offset, data).map_err(failure)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.volume.trim(offset, length).map_err(failure)
    }

    /// The disk is thin whether or not a hole may be punched: zeros take no memory, and a later write may find none.
    fn write_zeroes(&self, offset: u64, length: u64, _zeroing: Zeroing) -> Result<(), Failure> {
        self.volume.write_zeroes(offset, length).map_err(failure)
    }

    /// Memory is all there is.
    fn flush(&self) -> Result<(), Failure> {
        Ok(())
    }

    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        let (length, kind) = self.volume.extent(offset, length).map_err(failure)?;
        Ok((length, kind_of(kind)))
    }
}

fn kind_of(kind: DiskExtent) -> Extent {
    match kind {
        DiskExtent::Data => Extent::Data,
        DiskExtent::Hole => Extent::Hole,
    }
}

/// A cache, served.
struct ServedCache(Arc<Cache>);

impl Export for ServedCache {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn description(&self) -> String {
        "the disk".to_owned()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        self.0.read(offset, buffer).map_err(failure)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        self.0.write(offset, data).map_err(failure)
    }

    fn trim(&self, offset: u64, length: u64) -> Result<(), Failure> {
        self.0.trim(offset, length).map_err(failure)
    }

    fn write_zeroes(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), Failure> {
        let zeroing = match zeroing {
            Zeroing::MayPunch => DiskZeroing::MayPunch,
            Zeroing::NoHole => DiskZeroing::KeepAllocated,
        };
        let zeroed = self.0.write_zeroes(offset, length, zeroing);
        zeroed.map_err(failure)
    }

    /// Everything, whoever wrote it.
    fn flush(&self) -> Result<(), Failure> {
        self.0.flush().map_err(failure)
    }

    fn extent(&self, offset: u64, length: u64) -> Result<(u64, Extent), Failure> {
        let (length, kind) = self.0.extent(offset, length).map_err(failure)?;
        Ok((length, kind_of(kind)))
    }
}

/// The exports of one disk.
pub struct OfDisk {
    pub content: Content,
    pub name: String,
}

impl Exports for OfDisk {
    fn find(&self, name: &str) -> Option<Arc<dyn Export>> {
        let is_disk = name.is_empty() || name == self.name;
        let disk = match &self.content {
            Content::Ram(disk) => disk,
            Content::Cached(cache, _) => {
                return is_disk.then(|| Arc::new(ServedCache(cache.clone())) as _);
            }
        };
        let (volume, description) = match name {
            _ if is_disk => (disk.volume().clone(), "the disk".to_owned()),
            name => {
                let description = format!("snapshot of {}", self.name);
                (disk.find_snapshot(name)?, description)
            }
        };
        Some(Arc::new(Served {
            volume,
            description,
        }))
    }

    fn names(&self) -> Vec<(String, String)> {
        let description = match &self.content {
            Content::Ram(_) => "compressed RAM disk".to_owned(),
            Content::Cached(_, Behind::File(path)) => format!("cache of {}", path.display()),
            Content::Cached(_, Behind::Tier(_)) => "compressed RAM disk".to_owned(),
        };
        let disk = (self.name.clone(), description);
        let snapshots = self.content.disk().snapshots().into_iter();
        let of = |name| (name, format!("snapshot of {}", self.name));
        std::iter::once(disk).chain(snapshots.map(of)).collect()
    }
}
