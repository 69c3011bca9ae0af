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
        let mut loaded = load(records, device, opener, &slot, room);
        if loaded.is_err() {
            let now = locate(records, (handle, owner), room)?;
            if has_moved(&slot, &now) {
                slot = now;
                continue;
            }
            loaded = load_again(records, device, opener, &slot, room, loaded);
        }
        if loaded.is_err() {
            // Or it was moved while it was read the second time.
            let now = locate(records, (handle, owner), room)?;
            if has_moved(&slot, &now) {
                slot = now;
                continue;
            }
        }
        records.with(|records| records.counts.reads += u64::from(loaded.is_ok()));
        return loaded.map(|()| slot.length as usize - TAG_BYTES);
    }
}

fn has_moved(slot: &Slot, now: &Slot) -> bool {
    now.number != slot.number || now.segment != slot.segment
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

/// As [`load`], and once more if it fails. What fails is counted.
pub(crate) fn load_twice<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    opener: &Opener,
    slot: &Slot,
    room: &mut [u8],
) -> Result<(), Unreadable> {
    let first = load(records, device, opener, slot, room);
    load_again(records, device, opener, slot, room, first)
}

/// The second attempt, if the first has failed. Both are counted.
fn load_again<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    opener: &Opener,
    slot: &Slot,
    room: &mut [u8],
    first: Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    let Err(error) = first else {
        return first;
    };
    if slot.segment == LOST {
        return first;
    }
    records.with(|records| count(records, &error));
    if slot.segment == OPEN || error == Unreadable::Device(DeviceError::Unreachable) {
        return first;
    }
    let second = load(records, device, opener, slot, room);
    records.with(|records| match &second {
        Ok(()) => records.counts.reread_records += 1,
        Err(error) => count(records, error),
    });
    second
}

/// Whether the device answers, if it is asked for a record.
pub(crate) fn answers<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    slot: &Slot,
    room: &mut [u8],
) -> bool {
    let loaded = load_from_device(records, device, slot, room);
    loaded != Err(Unreadable::Device(DeviceError::Unreachable))
}

fn count(records: &mut Records<'_>, error: &Unreadable) {
    match error {
        Unreadable::Device(_) => records.counts.read_errors += 1,
        Unreadable::Damaged => records.counts.damaged_reads += 1,
        Unreadable::Unknown | Unreadable::TooLong => {}
    }
}

/// Has the content of a record in `room`, where it is sealed already if it was in the buffer. An error is not counted:
/// the record may have been moved meanwhile.
fn load<'m, D: Device>(
    records: &mut impl Access<'m>,
    device: &mut D,
    opener: &Opener,
    slot: &Slot,
    room: &mut [u8],
) -> Result<(), Unreadable> {
    match slot.segment {
        LOST => return Err(Unreadable::Damaged),
        OPEN => {}
        _ => load_from_device(records, device, slot, room)?,
    }
    let sealed = &mut room[..slot.length as usize];
    match opener.open(slot.number, slot.owner, sealed) {
        true => Ok(()),
        false => Err(Unreadable::Damaged),
    }
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
            Err(error) => return Err(Unreadable::Device(error)),
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
