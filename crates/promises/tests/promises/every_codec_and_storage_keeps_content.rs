//! Memory comes back as it went, whichever codec compressed it and whichever storage kept it: by
//! budget and under random eviction, in the program, in its system calls and in its forked children;
//! and none of them calls the program's malloc.

use coldpress_promises::hazards::{self, Hazard};
use coldpress_promises::{Managed, Workplace, skip};

const CODECS: &[&str] = &[
    "lz4:1",
    "lz4:11",
    "lz4-rust:1",
    "zstd:1",
    "zstd:-7",
    "lzo",
    "wkdm",
    "press",
    "press-dense",
];

const STORAGES: &[&str] = &["two-slot", "three-slot", "size-class", "press"];

/// The names that the command knows, of those above. It refuses the others before anything starts.
fn known(option: &str, names: &[&'static str]) -> Vec<&'static str> {
    let place = Workplace::new("names");
    let knows = |name: &&str| {
        let outcome = Managed::new(&place).call(&[
            "run", "--quiet", "--budget", "64M", option, name, "--", "true",
        ]);
        if !outcome.status.success() {
            let message = &outcome.stderr;
            assert_eq!(outcome.status.code(), Some(125), "{outcome}");
            assert!(message.contains("choose ") && message.lines().count() == 1);
            eprintln!("{option} {name} is not there yet");
        }
        outcome.status.success()
    };
    names.iter().copied().filter(|name| knows(name)).collect()
}

fn survive(hazard: &Hazard, arguments: &[&str], codec: &str, storage: &str) {
    let place = Workplace::new(hazard.name);
    let program = place.compile(hazard.program);
    let managed = hazard.managed(&place);
    let managed = managed
        .option("--codec", codec)
        .option("--storage", storage);
    let statistics = managed.survive(&program, arguments);
    let statistics = statistics.expect("the program never skips");
    assert_eq!(
        (statistics.text("codec"), statistics.text("storage")),
        (codec, storage)
    );
    assert!(
        statistics.restores() >= 100,
        "{codec}, {storage}: {}",
        statistics.summary()
    );
}

#[test]
fn cold_memory_reads_back_through_each_pair() {
    if !skip::root_or_skip() {
        return;
    }
    for codec in known("--codec", CODECS) {
        for storage in known("--storage", STORAGES) {
            survive(
                hazards::named("cold_reread"),
                &["8", "24", "1"],
                codec,
                storage,
            );
        }
    }
}

#[test]
fn children_find_their_memory_through_each_codec_and_each_storage() {
    if !skip::root_or_skip() {
        return;
    }
    let (codecs, storages) = (known("--codec", CODECS), known("--storage", STORAGES));
    for (n, codec) in codecs.iter().enumerate() {
        let storage = storages[n % storages.len()];
        let hazard = hazards::named("fork_content_chaos");
        survive(hazard, &["10", "8", "2"], codec, storage);
    }
    // The default of most machines, or what comes nearest to it here.
    let codec = codecs.iter().find(|name| **name == "press");
    let storage = storages.iter().find(|name| **name == "press");
    let (codec, storage) = (codec.unwrap_or(&"lz4:1"), storage.unwrap_or(&"three-slot"));
    let hazard = hazards::named("fork_content");
    survive(hazard, &["9", "32", "1"], codec, storage);
}

/// The malloc of this program counts calls from threads that it did not start.
#[test]
fn no_codec_calls_the_malloc_of_the_program() {
    if !skip::root_or_skip() {
        return;
    }
    for codec in known("--codec", CODECS) {
        let hazard = hazards::named("malloc_counter");
        survive(hazard, &["34", "1000"], codec, "three-slot");
    }
}
