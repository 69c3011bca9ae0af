//! Names of records, and why one is not taken or read.

use crate::device::DeviceError;
use core::fmt;

/// Names a record, until it is [removed](crate::Tier::remove).
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It is empty, or longer than the buffers.
    Length,
    /// The device, or the table of records, is full.
    Full,
    /// What may be written in a day was written.
    Budget,
    /// The device refused to be written, at several places.
    Device(DeviceError),
}

/// Why a record could not be read. Others are not concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// There is no such record of this owner.
    Unknown,
    /// The buffer is shorter than the record.
    TooLong,
    /// The device returns other bytes than were written.
    Damaged,
    /// The device refused to be read.
    Device(DeviceError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("a record of this length cannot be taken"),
            Self::Full => f.write_str("the tier is full"),
            Self::Budget => f.write_str("the write budget of the day is spent"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such record"),
            Self::TooLong => f.write_str("the record is longer than the buffer"),
            Self::Damaged => f.write_str("the record is damaged"),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Unreadable {}
