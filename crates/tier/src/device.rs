//! What a tier asks of the device below it.

use core::fmt;

/// Why a device refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// Reading or writing failed.
    Io,
    /// There is no room for what was written.
    NoSpace,
    /// It does not answer now: what it has may be read another time. It is not asked a second time at once, and nothing
    /// is given up because of it as long as writing can wait.
    Unreachable,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Io => "reading or writing the device failed",
            Self::NoSpace => "no space is left on the device",
            Self::Unreachable => "the device does not answer",
        })
    }
}

impl core::error::Error for DeviceError {}

/// A file, or a block device, that a tier has for itself.
///
/// Nothing is believed of it but that it returns: it may fail, do less than it says, forget, and return other bytes
/// than were written.
pub trait Device {
    /// Reads from `offset` on. How many bytes, which may be fewer than asked for.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, DeviceError>;

    /// Writes from `offset` on. How many bytes, which may be fewer than given.
    ///
    /// # Errors
    /// It cannot be written. What is there then is not asked for again.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, DeviceError>;

    /// The range is not needed any more: its space may be given up.
    ///
    /// # Errors
    /// It cannot be given up; it is written again one day.
    fn discard(&mut self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// What was written is on the medium.
    ///
    /// # Errors
    /// Some of it may not be.
    fn sync(&mut self) -> Result<(), DeviceError>;
}
