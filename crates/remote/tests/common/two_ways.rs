//! A store whose patience a test changes.

use coldpress_remote::{Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A store by either of two ways: one that waits as long as a busy machine may need, and one that soon gives up.
pub struct TwoWays {
    pub patient: Box<dyn Store>,
    pub hasty: Box<dyn Store>,
    pub is_hasty: Arc<AtomicBool>,
}

impl TwoWays {
    fn now(&mut self) -> &mut dyn Store {
        match self.is_hasty.load(Relaxed) {
            true => &mut *self.hasty,
            false => &mut *self.patient,
        }
    }
}

impl Store for TwoWays {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.now().put(name, bytes)
    }

    fn get(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        self.now().get(name, offset, into)
    }

    fn delete(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.now().delete(names)
    }
}
