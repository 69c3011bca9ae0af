//! A store in memory that fails as it is told.

use coldpress_remote::{Failure, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct Inside {
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Every call fails so.
    pub always: Option<Failure>,
    /// So many calls fail so.
    pub next: Option<(Failure, u32)>,
    /// It does so many calls more, and then none.
    pub left: Option<u32>,
    pub calls: u32,
}

#[derive(Clone, Default)]
pub struct Fake(pub Arc<Mutex<Inside>>);

impl Fake {
    pub fn calls(&self) -> u32 {
        self.0.lock().unwrap().calls
    }

    pub fn objects(&self) -> usize {
        self.0.lock().unwrap().objects.len()
    }

    pub fn fails(&self, always: Option<Failure>) {
        self.0.lock().unwrap().always = always;
    }

    fn called(&self) -> Result<std::sync::MutexGuard<'_, Inside>, StoreError> {
        let mut inside = self.0.lock().unwrap();
        inside.calls += 1;
        let mut failure = inside.always;
        match &mut inside.left {
            Some(0) => failure = Some(Failure::Unreachable),
            Some(left) => *left -= 1,
            None => {}
        }
        if let Some((next, left)) = inside.next {
            failure = Some(next);
            inside.next = (left > 1).then_some((next, left - 1));
        }
        match failure {
            Some(failure) => Err(StoreError::new(failure, "as told")),
            None => Ok(inside),
        }
    }
}

impl Store for Fake {
    fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let mut inside = self.called()?;
        inside.objects.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn get(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize, StoreError> {
        let inside = self.called()?;
        let missing = || StoreError::new(Failure::Missing, "it is not there");
        let object = inside.objects.get(name).ok_or_else(missing)?;
        let there = object.get(offset as usize..).unwrap_or_default();
        let length = there.len().min(into.len());
        into[..length].copy_from_slice(&there[..length]);
        match length {
            0 => Err(missing()),
            length => Ok(length),
        }
    }

    fn delete(&mut self, names: &[String]) -> Result<(), StoreError> {
        let mut inside = self.called()?;
        for name in names {
            inside.objects.remove(name);
        }
        Ok(())
    }
}
