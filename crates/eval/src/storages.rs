//! The storages: one line each.

use crate::Error;
use crate::dyn_storage::DynStorage;
use crate::options::Options;
use coldpress_storage::{CompressedStorage, Press, SizeClass, ThreeSlot, TwoSlot};

/// A storage by its name.
pub(crate) struct Packing {
    pub(crate) name: &'static str,
    pub(crate) make: fn() -> Box<dyn DynStorage>,
}

const fn packing<S: CompressedStorage + Default + 'static>() -> Packing {
    Packing {
        name: S::NAME,
        make: || Box::new(S::default()),
    }
}

/// Every storage, in the order of the table.
const ALL: &[Packing] = &[
    packing::<TwoSlot>(),
    packing::<ThreeSlot>(),
    packing::<SizeClass>(),
    packing::<Press>(),
];

/// The names that `--storage` takes.
pub fn storage_names() -> Vec<String> {
    ALL.iter().map(|packing| packing.name.to_owned()).collect()
}

/// The storages that the options ask for.
pub(crate) fn chosen(options: &Options) -> Result<Vec<&'static Packing>, Error> {
    for name in &options.storages {
        if ALL.iter().all(|packing| packing.name != name) {
            return Err(Error::Unknown {
                kind: "storage",
                name: name.clone(),
                known: storage_names(),
            });
        }
    }
    let named = |packing: &&Packing| {
        options.storages.is_empty() || options.storages.iter().any(|name| name == packing.name)
    };
    Ok(ALL.iter().filter(named).collect())
}
