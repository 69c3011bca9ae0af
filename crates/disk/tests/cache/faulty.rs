//! A real file with a layer that fails: by chance, by order, and as disks do.

use crate::common::mix;
use coldpress_disk::{Backing, BackingError, BackingFile, Zeroing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};

/// How the layer fails.
#[derive(Default)]
pub struct Faults {
    /// One call in so many fails; 0: none does.
    pub one_in: AtomicU64,
    /// Every sync fails.
    pub no_sync: AtomicBool,
    /// Every other sync fails.
    pub every_other_sync: AtomicBool,
    pub syncs: AtomicU64,
    /// A sync that fails takes back what was written since the last one, as a kernel does that drops pages it could not
    /// write.
    pub takes_back: AtomicBool,
    /// Every change fails when the first half of its range holds something else.
    pub spoils: AtomicBool,
    pub injected: AtomicU64,
    pub chance: AtomicU64,
}

impl Faults {
    fn strikes(&self) -> Option<u64> {
        let one_in = self.one_in.load(SeqCst);
        let chance = mix(self.chance.fetch_add(1, SeqCst));
        let strikes = one_in > 0 && chance.is_multiple_of(one_in);
        if strikes {
            self.injected.fetch_add(1, Relaxed);
        }
        strikes.then_some(chance >> 32)
    }
}

pub struct Faulty {
    pub file: BackingFile,
    pub faults: Arc<Faults>,
    /// What was there before pages were written that no sync was about yet.
    pub before: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Faulty {
    pub fn new(file: BackingFile) -> (Self, Arc<Faults>) {
        let faults = Arc::new(Faults::default());
        let layer = Self {
            file,
            faults: faults.clone(),
            before: Mutex::default(),
        };
        (layer, faults)
    }

    /// Fails as [`Faults::spoils`] says.
    fn spoil(&self, offset: u64, length: u64) -> Result<(), BackingError> {
        if !self.faults.spoils.load(SeqCst) {
            return Ok(());
        }
        self.file.write(offset, &vec![0x5A; length as usize / 2])?;
        Err(BackingError::Io)
    }

    fn remember(&self, offset: u64, length: usize) {
        let mut before = self.before.lock().unwrap();
        for at in (offset..offset + length as u64).step_by(4096) {
            before.entry(at).or_insert_with(|| {
                let mut page = vec![0; 4096];
                self.file.read(at, &mut page).unwrap();
                page
            });
        }
    }
}

fn error(chance: u64) -> BackingError {
    match chance % 2 {
        0 => BackingError::Io,
        _ => BackingError::NoSpace,
    }
}

impl Backing for Faulty {
    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), BackingError> {
        match self.faults.strikes() {
            Some(_) => {
                // What is in the buffer then must not be taken for content.
                buffer.fill(0x5A);
                Err(BackingError::Io)
            }
            None => self.file.read(offset, buffer),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), BackingError> {
        self.remember(offset, data.len());
        self.spoil(offset, data.len() as u64)?;
        match self.faults.strikes() {
            Some(chance) => {
                // A short write: some of it is there, or nothing.
                let short = (chance / 2) as usize % data.len();
                self.file.write(offset, &data[..short])?;
                Err(error(chance))
            }
            None => self.file.write(offset, data),
        }
    }

    fn zero(&self, offset: u64, length: u64, zeroing: Zeroing) -> Result<(), BackingError> {
        self.spoil(offset, length)?;
        match self.faults.strikes() {
            Some(chance) => Err(error(chance)),
            None => self.file.zero(offset, length, zeroing),
        }
    }

    fn sync(&self) -> Result<(), BackingError> {
        let fails = self.faults.strikes().is_some() || self.faults.no_sync.load(SeqCst);
        let odd = self.faults.syncs.fetch_add(1, SeqCst) % 2 == 1;
        let fails = fails || odd && self.faults.every_other_sync.load(SeqCst);
        let mut before = self.before.lock().unwrap();
        if !fails {
            before.clear();
            return self.file.sync();
        }
        if self.faults.takes_back.load(SeqCst) {
            for (at, page) in std::mem::take(&mut *before) {
                self.file.write(at, &page)?;
            }
        }
        Err(BackingError::Io)
    }

    fn extent(&self, offset: u64, length: u64) -> (u64, bool) {
        self.file.extent(offset, length)
    }
}
