//! The pager never calls the program's malloc, nor anything in libc that might: the thread that
//! waits for it may hold the lock. Its library refers to no such symbol, and a program that is
//! itself the malloc counts no call from threads it did not start.

use coldpress_promises::hazards::survive;
use coldpress_promises::managed::{self, PRELOAD};
use std::process::Command;

/// All that the library may find outside itself, and what for. Anything else would be the program's (its malloc,
/// its libzstd, a sanitizer's interceptor of `memcpy`), and could wait for the very page that is being restored.
/// All references are weak: another C library than glibc lacks some, and its loader would end the program.
const IMPORTED: &[(&str, &str)] = &[
    (
        "gnu_get_libc_version",
        "constructor: tells glibc from others",
    ),
    ("environ", "constructor, where the C library is not glibc"),
    ("getauxval", "constructor: the main program's headers"),
    ("__register_atfork", "constructor: the hooks of a fork"),
    (
        "dlsym",
        "wrappers, in threads of the program: libc's function",
    ),
    ("__errno_location", "wrappers, in threads of the program"),
    (
        "pthread_mutexattr_getrobust",
        "wrapper of pthread_mutex_init",
    ),
    (
        "pthread_mutexattr_getprotocol",
        "wrapper of pthread_mutex_init",
    ),
    ("_IO_list_all", "the forking thread: open files are touched"),
    ("_IO_list_lock", "the forking thread"),
    ("_IO_list_unlock", "the forking thread"),
    ("_IO_list_resetlock", "the child of a fork"),
    // Named by the compiler's start files, called by the loader's thread alone.
    ("__cxa_finalize", "unloading"),
    ("__gmon_start__", "loading; nobody defines it"),
    (
        "_ITM_deregisterTMCloneTable",
        "unloading; nobody defines it",
    ),
    ("_ITM_registerTMCloneTable", "loading; nobody defines it"),
];

/// All by which the library stands in for the program's C library, or which a program may call.
const EXPORTED: &[&str] = &[
    "TCMalloc_ListAllProcessThreads",
    "__asan_default_options",
    "__lsan_is_turned_off",
    "_Fork",
    "clone",
    "coldpress_advise",
    "coldpress_describe_page",
    "ioctl",
    "madvise",
    "mlockall",
    "mremap",
    "prctl",
    "process_madvise",
    "pthread_create",
    "prctl",
    "pthread_mutex_init",
    "setns",
    "shmat",
    "sigaltstack",
    "syscall",
    "thrd_create",
    "unshare",
];

/// Type and name of each dynamic symbol.
fn symbols(which: &str) -> Vec<(String, String)> {
    let library = managed::binary().with_file_name(PRELOAD);
    let output = Command::new("nm")
        .args(["-D", which])
        .arg(&library)
        .output();
    let output = output.expect("nm (apt-get install binutils)");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = listing.lines().map(|line| {
        let mut words = line.split_whitespace().rev();
        let name = words.next().unwrap_or_default();
        let name = name.split('@').next().unwrap_or(name);
        (words.next().unwrap_or_default().to_owned(), name.to_owned())
    });
    lines.collect()
}

/// Story: `memcpy` was imported, and a program of AddressSanitizer answered it with an interceptor, which read shadow
/// memory that the pager had taken away: it waited for itself.
#[test]
fn the_library_imports_nothing_but_this() {
    let found = symbols("--undefined-only");
    assert!(found.len() > 3, "nm lists {found:?}");
    for (kind, name) in found {
        let allowed = IMPORTED.iter().any(|(allowed, _)| *allowed == name);
        assert!(allowed, "{name} is imported, and not allowed to be");
        assert!(
            matches!(kind.as_str(), "w" | "v"),
            "{name} is not weak: {kind}"
        );
    }
}

/// Story: `rust_eh_personality` was exported, and stood in for that of programs whose Rust runtime is a shared library:
/// no panic of theirs could be caught.
#[test]
fn the_library_exports_nothing_but_this() {
    for (_, name) in symbols("--defined-only") {
        let allowed = EXPORTED.contains(&name.as_str());
        assert!(allowed, "{name} would stand in for the program's own");
    }
}

#[test]
fn the_pager_calls_no_malloc_of_the_program() {
    let Some(statistics) = survive("malloc_counter") else {
        return;
    };
    statistics.at_least("decompressions", 1000);
}

/// Story: child handlers of a fork run in the order of their registration. Another library's ran
/// first, touched compressed memory before the child had a pager, and read zeros for good.
#[test]
fn the_library_is_initialised_before_all_others() {
    let library = managed::binary().with_file_name(PRELOAD);
    let output = Command::new("readelf").arg("-d").arg(&library).output();
    let output = output.expect("readelf (apt-get install binutils)");
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let flags = listing.lines().find(|l| l.contains("FLAGS_1"));
    let flags = flags.expect("the library has flags");
    assert!(
        flags.contains("INITFIRST") && flags.contains("NOW"),
        "{flags}"
    );
}
