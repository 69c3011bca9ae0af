//! Promise: the storage of a `static` is chosen when the program starts, by name.

use std::sync::Mutex;

use crate::common::Host;
use crate::common::model::{Model, Returned};
use coldpress_storage::{AnyStorage, CompressedStorage, StorageKind};

/// As the engine has it.
static STORAGE: Mutex<AnyStorage> = Mutex::new(AnyStorage::new(StorageKind::ThreeSlot));

#[test]
fn a_static_storage_takes_a_kind_before_its_first_use() {
    let mut storage = STORAGE.lock().unwrap();
    for kind in StorageKind::ALL {
        storage.select(kind);
        assert_eq!(storage.kind(), kind);
    }
    storage.select(StorageKind::Press);
    let host = Host::new(8);
    crate::common::with_tables(&mut *storage, 8);
    let reference = storage.allocate(&host, 100).unwrap();
    storage.select(StorageKind::Press);
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        storage.select(StorageKind::SizeClass);
    }));
    assert!(changed.is_err(), "something is stored");
    storage.free(&host, reference);
}

#[test]
fn names_are_those_of_the_storages() {
    for (name, kind) in [
        ("two-slot", StorageKind::TwoSlot),
        ("three-slot", StorageKind::ThreeSlot),
        ("size-class", StorageKind::SizeClass),
        ("press", StorageKind::Press),
    ] {
        assert_eq!(StorageKind::from_name(name), Some(kind));
        assert_eq!((kind.name(), kind.to_string()), (name, name.to_owned()));
    }
    for name in ["", "Press", "zbud", "press "] {
        assert_eq!(StorageKind::from_name(name), None);
    }
}

#[test]
fn every_kind_stores_frees_and_compacts() {
    for kind in StorageKind::ALL {
        let (objects, frames) = if cfg!(miri) { (12, 40) } else { (40, 400) };
        let host = Host::new(frames);
        let mut storage = Box::new(AnyStorage::new(kind));
        crate::common::with_tables(&mut *storage, frames);
        let mut model = Model::default();
        let returned = match kind {
            StorageKind::SizeClass => Returned::InChains,
            _ => Returned::OneByOne,
        };
        for n in 0..objects {
            model.store(&host, &mut *storage, 100 + n * 31);
        }
        for index in (0..model.objects.len()).rev().step_by(2) {
            model.free(&host, &mut *storage, index);
        }
        model.compact_pass(&host, &mut *storage, 4096, usize::MAX);
        model.check(&host, &*storage, returned);
        assert!(storage.usage().objects > objects / 4, "{kind}");
    }
}
