//! What a disk's tier writes to: a file, or a device of the caller's.

use coldpress_tier::{Device, DeviceError};

/// Bytes that are written at once.
pub const SEGMENT_BYTES: usize = 256 << 10;

/// The fewest segments that a tier works with.
pub(crate) const FEWEST: usize = 4;

/// Segments for pages of so many bytes in all: three eighths more than if nothing became smaller. One of which a quarter
/// is free can be cleaned. So many cannot all be fuller than that, however the pages are written, tags included.
pub fn segments_for(size_bytes: u64) -> usize {
    (size_bytes + size_bytes / 8 * 3).div_ceil(SEGMENT_BYTES as u64) as usize + FEWEST
}

/// A device, until it is taken away.
pub struct TierDevice {
    device: Option<Box<dyn Device + Send>>,
    segments: usize,
    memory_bytes: usize,
}

impl TierDevice {
    /// A device with room for so many segments of [`SEGMENT_BYTES`]; it takes so many bytes of memory.
    ///
    /// # Panics
    /// If there are fewer than four segments.
    pub fn new(device: Box<dyn Device + Send>, segments: usize, memory_bytes: usize) -> Self {
        assert!(segments >= FEWEST);
        Self {
            device: Some(device),
            segments,
            memory_bytes,
        }
    }

    pub(crate) fn segments(&self) -> usize {
        self.segments
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The device; from then on there is none.
    pub(crate) fn take(&mut self) -> Option<Box<dyn Device + Send>> {
        self.device.take()
    }

    fn there(&mut self) -> Result<&mut (dyn Device + Send + 'static), DeviceError> {
        self.device.as_deref_mut().ok_or(DeviceError::Io)
    }
}

impl Device for TierDevice {
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError> {
        self.there()?.read_at(offset, into)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError> {
        self.there()?.write_at(offset, bytes)
    }

    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.there()?.discard(offset, length)
    }

    fn sync(&mut self) -> Result<(), DeviceError> {
        self.there()?.sync()
    }
}
