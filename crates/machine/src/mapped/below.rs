//! A place below memory, for payloads that are written back.

use crate::kit::Hook;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Records by number, each with its owner, and the last number.
#[derive(Default)]
struct Records {
    last: u32,
    held: HashMap<u32, (u64, Vec<u8>)>,
}

/// The place.
#[derive(Default)]
pub struct Below {
    /// Whether it takes any.
    pub takes: AtomicBool,
    records: Mutex<Records>,
    /// Before a record is taken.
    pub on_write: Hook,
    /// Before a record is read.
    pub on_read: Hook,
}

impl Below {
    pub fn records(&self) -> usize {
        self.records.lock().unwrap().held.len()
    }

    /// All records are lost, or changed by `act`.
    pub fn damage(&self, act: impl Fn(&mut Vec<u8>)) {
        let mut records = self.records.lock().unwrap();
        records.held.values_mut().for_each(|(_, bytes)| act(bytes));
    }

    pub(super) fn put(&self, owner: u64, payload: &[u8]) -> Option<u32> {
        if !self.takes.load(Relaxed) {
            return None;
        }
        self.on_write.run();
        let mut records = self.records.lock().unwrap();
        records.last += 1;
        let number = records.last;
        records.held.insert(number, (owner, payload.to_vec()));
        Some(number)
    }

    pub(super) fn get(&self, record: u32, owner: u64, into: &mut [u8]) -> Option<usize> {
        self.on_read.run();
        let records = self.records.lock().unwrap();
        let (of, payload) = records.held.get(&record)?;
        assert_eq!(*of, owner, "another's record");
        into.get_mut(..payload.len())?.copy_from_slice(payload);
        (!payload.is_empty()).then_some(payload.len())
    }

    pub(super) fn remove(&self, record: u32, owner: u64) {
        let removed = self.records.lock().unwrap().held.remove(&record);
        assert_eq!(removed.map(|(of, _)| of), Some(owner), "given up twice");
    }
}
