//! The pager never calls the program's malloc, nor anything in libc that might: the thread that
//! waits for it may hold the lock. Its library refers to no such symbol, and a program that is
//! itself the malloc counts no call from threads it did not start.

use coldpress_promises::hazards::survive;
use coldpress_promises::managed::{self, PRELOAD};
use std::process::Command;

/// What allocates, or prints through buffers that are allocated.
const FORBIDDEN: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "cfree",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "strdup",
    "strndup",
    "asprintf",
    "vasprintf",
    "printf",
    "fprintf",
    "dprintf",
    "vprintf",
    "vfprintf",
    "vdprintf",
    "sprintf",
    "snprintf",
    "vsnprintf",
    "puts",
    "fputs",
    "putchar",
    "fputc",
    "fwrite",
    "fread",
    "fopen",
    "fdopen",
    "fclose",
    "fflush",
    "fgets",
    "getline",
    "scanf",
    "sscanf",
    "fscanf",
    "stdin",
    "stdout",
    "stderr",
    "perror",
    "opendir",
    "readdir",
    "syslog",
    "backtrace",
    "__cxa_thread_atexit_impl",
    "__tls_get_addr",
];

/// The list of open files and its lock (which allocate nothing): walked by the forking thread, so
/// that libc finds the locks of its files in place in the child.
const LIST_OF_FILES: &[&str] = &["_IO_list_all", "_IO_list_lock", "_IO_list_unlock"];

#[test]
fn the_library_refers_to_no_allocator() {
    let library = managed::binary().with_file_name(PRELOAD);
    let output = Command::new("nm")
        .args(["-D", "--undefined-only"])
        .arg(&library)
        .output()
        .expect("nm (apt-get install binutils)");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<&str> = listing
        .lines()
        .filter_map(|l| l.split_whitespace().last())
        .map(|symbol| symbol.split('@').next().unwrap_or(symbol))
        .filter(|symbol| {
            let plain = symbol.trim_start_matches("__").trim_end_matches("_chk");
            FORBIDDEN.contains(symbol)
                || FORBIDDEN.contains(&plain)
                || (symbol.starts_with("_IO_") && !LIST_OF_FILES.contains(symbol))
                || symbol.starts_with("__isoc99_")
                // What the codecs' C code looks for must not be the program's.
                || symbol.starts_with("ZSTD_")
                || symbol.starts_with("LZ4_")
        })
        .collect();
    assert!(
        found.is_empty(),
        "{} refers to {found:?}\n{listing}",
        library.display()
    );
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
