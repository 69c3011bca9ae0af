//! Names of records, and why one is not taken or read.

use crate::device::DeviceError;

/// Names a record, until it is [removed](Tier::remove).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(pub(crate) u32);

impl Handle {
    /// A number for tables, never 0.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The handle of this number.
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// Why a record was not taken. The caller has it still, and so has the tier all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// It is empty, or longer than the buffers.
    #[error("a record of this length cannot be taken")]
    Length,
    /// The device, or the table of records, is full.
    #[error("the tier is full")]
    Full,
    /// What may be written in a day was written.
    #[error("the write budget of the day is spent")]
    Budget,
    /// The device refused to be written, at several places.
    #[error("{0}")]
    Device(DeviceError),
}

/// Why a record could not be read. Others are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unreadable {
    /// There is no such record of this owner.
    #[error("there is no such record")]
    Unknown,
    /// The buffer is shorter than the record.
    #[error("the record is longer than the buffer")]
    TooLong,
    /// The device returns other bytes than were written.
    #[error("the record is damaged")]
    Damaged,
    /// The device refused to be read.
    #[error("{0}")]
    Device(DeviceError),
}
