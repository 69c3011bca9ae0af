//! Reading records, by any thread: the tables are asked where a record is, and the device is read without them.
//!
//! A cleaning may move a record between the two, and its old place be written again. Then what was read does not open,
//! the tables name another number, and the record is read from there.

use crate::device::{Device, DeviceError};
use crate::handle::{Handle, Unreadable};
use crate::memory::{LOST, OPEN, Slot};
use crate::records::{Access, Records};
use crate::seal::{Opener, TAG_BYTES};

/// Reads a record into `room`, which has place for [`SEAL_BYTES`](crate::SEAL_BYTES) more than the record. The record's
/// length.
///
/// # Errors
/// See [`Unreadable`]. What is damaged is read twice before it is given up; it stays until it is removed.
pub fn read<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    opener: &Opener,
    (handle, owner): (Handle, u64),
    room: &mut [u8],
) -> Result<usize, Unreadable> {
    let mut slot = locate(records, (handle, owner), room)?;
    loop {
        let loaded = load(records, device, opener, &slot, room);
        if loaded.is_ok() {
            records.with(|records| records.counts.reads += 1);
            return Ok(slot.length as usize - TAG_BYTES);
        }
        let now = locate(records, (handle, owner), room)?;
        if now.number == slot.number && now.segment == slot.segment {
            return loaded.map(|()| 0);
        }
        slot = now;
    }
}

/// Where a record is. One that is in the buffer is in `room` now.
fn locate<'m>(
    records: &mut impl Access<'m>,
    (handle, owner): (Handle, u64),
    room: &mut [u8],
) -> Result<Slot, Unreadable> {
    records.with(|records| {
        let slot = records.row(handle, owner).ok_or(Unreadable::Unknown)?;
        let room = room.get_mut(..slot.length as usize);
        let room = room.ok_or(Unreadable::TooLong)?;
        if slot.segment == OPEN {
            let length = room.len();
            room.copy_from_slice(&records.buffer[slot.offset as usize..][..length]);
        }
        Ok(slot)
    })
}

/// Has the content of a record in `room`, where it is sealed already if it was in the buffer.
pub(crate) fn load<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    opener: &Opener,
    slot: &Slot,
    room: &mut [u8],
) -> Result<(), Unreadable> {
    match slot.segment {
        LOST => return Err(Unreadable::Damaged),
        OPEN => return open(records, opener, slot, room),
        _ => {}
    }
    let mut from_device = || {
        load_from_device(records, device, slot, room)?;
        open(records, opener, slot, room)
    };
    let first = from_device();
    if first.is_ok() {
        return first;
    }
    let second = from_device();
    if second.is_ok() {
        records.with(|records| records.counts.reread_records += 1);
    }
    second
}

fn load_from_device<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    slot: &Slot,
    room: &mut [u8],
) -> Result<(), Unreadable> {
    let mut at = records.with(|records| records.offset_of(slot));
    let mut room = &mut room[..slot.length as usize];
    while !room.is_empty() {
        let read = match device.read_at(at, room) {
            Ok(read) => read.min(room.len()),
            Err(error) => {
                records.with(|records| records.counts.read_errors += 1);
                return Err(Unreadable::Device(error));
            }
        };
        if read < room.len() {
            records.with(|records| records.counts.short_reads += 1);
            if read == 0 {
                return Err(Unreadable::Device(DeviceError::Io));
            }
        }
        at += read as u64;
        room = &mut room[read..];
    }
    Ok(())
}

fn open<'m>(
    records: &mut impl Access<'m>,
    opener: &Opener,
    slot: &Slot,
    room: &mut [u8],
) -> Result<(), Unreadable> {
    let sealed = &mut room[..slot.length as usize];
    if opener.open(slot.number, slot.owner, sealed) {
        return Ok(());
    }
    records.with(|records: &mut Records<'m>| records.counts.damaged_reads += 1);
    Err(Unreadable::Damaged)
}
