//! Bad use of the Rust interface is an error that says what is wrong, never corruption.
//!
//! A program of its own, for it sets a limit of its process.

use coldpress_cache::{Backing, Cache, Error, Options, PAGE_BYTES};

fn refused(options: Options) -> Error {
    match Cache::new(options) {
        Ok(_) => panic!("was made"),
        Err(error) => error,
    }
}

fn small(pages: usize) -> Cache {
    Cache::new(Options::new(pages * PAGE_BYTES, Backing::LazyFree)).unwrap()
}

#[test]
fn a_capacity_of_zero() {
    let error = refused(Options::new(0, Backing::LazyFree));
    assert!(matches!(error, Error::NoCapacity { bytes: 0 }));
    assert!(error.to_string().contains("at least 4096 bytes"), "{error}");
    refused(Options::new(PAGE_BYTES - 1, Backing::Anonymous));
}

#[test]
fn not_enough_address_space() {
    // 15 TiB are pages that could be numbered, but more than one mapping may have here.
    let limit = libc::rlimit {
        rlim_cur: 1 << 40,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: sets a limit of this process; the other tests of this file need little.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    let error = refused(Options::new(15 << 40, Backing::LazyFree));
    let Error::Memory { call, source, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*call, source.raw_os_error()), ("mmap", Some(libc::ENOMEM)));
    assert!(error.to_string().contains("ulimit -v"), "{error}");
    let error = refused(Options::new(usize::MAX, Backing::LazyFree));
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[test]
fn no_chunks_and_too_many() {
    let of = |lazyfree_chunks| Options {
        lazyfree_chunks,
        ..Options::new(1 << 20, Backing::LazyFree)
    };
    assert!(matches!(refused(of(0)), Error::Chunks { chunks: 0, .. }));
    assert!(matches!(
        refused(of(5000)),
        Error::Chunks { chunks: 5000, .. }
    ));
    assert!(matches!(refused(of(usize::MAX)), Error::Chunks { .. }));
}

#[test]
fn a_directory_that_is_not_there() {
    let error = refused(Options {
        directory: "/does/not/exist".into(),
        ..Options::new(1 << 20, Backing::Disk)
    });
    assert!(matches!(
        error,
        Error::Memory {
            call: "open of a file",
            ..
        }
    ));
}

#[test]
fn a_double_lock() {
    let cache = small(64);
    let lock = cache.write_lock(1).unwrap();
    assert!(matches!(cache.write_lock(1), Err(Error::Busy { key: 1 })));
    assert!(matches!(cache.insert(1, b"x"), Err(Error::Busy { key: 1 })));
    assert!(!cache.remove(1));
    assert!(!cache.get(1, &mut [0]));
    lock.commit();
    assert!(cache.get(1, &mut [0]));
}

#[test]
fn all_pages_locked() {
    let cache = small(32);
    let mut locks: Vec<_> = (0..32).map(|key| cache.write_lock(key).unwrap()).collect();
    assert!(matches!(cache.insert(99, b"x"), Err(Error::NoRoom)));
    locks.pop().unwrap().commit();
    cache.insert(99, b"x").unwrap();
    assert!(!cache.get(31, &mut [0]), "was evicted for 99");
}

#[test]
fn too_many_bytes() {
    let cache = small(32);
    let bytes = [0; PAGE_BYTES + 1];
    assert!(matches!(
        cache.insert(1, &bytes),
        Err(Error::TooLong { .. })
    ));
    assert!(!cache.get(1, &mut [0]));
    let mut lock = cache.write_lock(1).unwrap();
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        lock.write(PAGE_BYTES - 1, b"xx");
    }));
    assert!(beyond.is_err());
    drop(lock);
    assert!(
        !cache.get(1, &mut [0]),
        "a lock dropped without commit leaves no entry"
    );
}
