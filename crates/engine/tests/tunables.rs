//! Promise: what can be set is in one table: every row can be parsed, printed and refused, and
//! `docs/tunables.md` says what the table says.

use coldpress_engine::Tunables;
use coldpress_engine::tunables::{
    LruAction, StorageStrategy, Strategy, TABLE, TunableError, named,
};
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The document, as the table has it.
fn document() -> String {
    let mut text = String::from(
        "# Tunables\n\n\
         All settings of the engine, as `name=value`. The table is generated from the one in\n\
         `crates/engine/src/compression/tunables.rs`. A test compares the two, and writes this file with\n\
         `COLDPRESS_WRITE_DOCS=1`:\n\n\
         ```console\n\
         $ COLDPRESS_WRITE_DOCS=1 cargo test -p coldpress-engine --test engine tunables\n\
         ```\n\n\
         Names that begin with `kernel.` are those of Zircon, where RFC-0219 was implemented. The column *Linux* says when a\n\
         program under `coldpress run` takes a value: at the start by `coldpress run --tune NAME=VALUE` (repeatable, or `tune` in\n\
         the file of `--config`), or at any time by `coldpress set PID tune.NAME=VALUE`. NAME may also be the name of the field,\n\
         and `-` and `_` are equivalent. `kernel.compression.strategy`, `kernel.compression.storage-strategy` and\n\
         `kernel.compression.lz4.acceleration` are `--codec` and `--storage` by other names.\n\n\
         | name | field of `Tunables` | values | default | Linux | meaning |\n|---|---|---|---|---|---|\n",
    );
    for row in TABLE {
        writeln!(
            text,
            "| `{}` | `{}` | {} | {} | {} | {} |",
            row.name,
            row.field,
            row.unit,
            Tunables::DEFAULT.value(row.name),
            row.linux.name(),
            row.meaning,
        )
        .unwrap();
    }
    text
}

#[test]
fn the_document_says_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tunables.md");
    if std::env::var_os("COLDPRESS_WRITE_DOCS").is_some() {
        fs::write(&path, document()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(
        written,
        document(),
        "COLDPRESS_WRITE_DOCS=1 cargo test -p coldpress-engine --test engine tunables writes it anew"
    );
}

#[test]
fn names_and_fields_are_distinct_and_every_default_can_be_read_again() {
    let mut seen = HashSet::new();
    for row in TABLE {
        assert!(seen.insert(row.name) && seen.insert(row.field), "{row:?}");
        let value = Tunables::DEFAULT.value(row.name).to_string();
        let line = format!("{}={value}", row.name);
        let mut tunables = Tunables::DEFAULT;
        tunables.set(&line).unwrap();
        assert_eq!(tunables, Tunables::DEFAULT, "{line}");
        assert!(!row.meaning.is_empty() && !row.unit.is_empty());
    }
    assert_eq!(Tunables::DEFAULT.check(), Ok(()));
    // The names that the RFC's implementation gives.
    for name in [
        "kernel.compression.strategy",
        "kernel.compression.storage-strategy",
        "kernel.compression.threshold",
        "kernel.compression.at_memory_pressure",
        "kernel.compression.reclaim_anonymous",
        "kernel.compression.reclaim_zero_forks",
        "kernel.compression.random-debug-compress",
        "kernel.page-scanner.lru-action",
    ] {
        assert!(seen.contains(name), "{name}");
    }
}

#[test]
fn every_row_is_found_by_name_and_field_and_its_value_is_a_word() {
    for row in TABLE {
        for text in [row.name, row.field] {
            assert_eq!(named(text).unwrap().name, row.name);
            assert_eq!(named(&text.replace('-', "_")).unwrap().name, row.name);
            assert_eq!(named(&text.replace('_', "-")).unwrap().name, row.name);
        }
        let word = Tunables::DEFAULT.word(row.name).unwrap();
        let mut tunables = Tunables::DEFAULT;
        assert!(tunables.set_word(row.name, word));
        assert_eq!(tunables, Tunables::DEFAULT);
    }
    assert!(named("threshold ").is_none() && named("").is_none());
    // What comes from somebody else is looked at.
    let mut tunables = Tunables::DEFAULT;
    for (name, word) in [
        ("kernel.compression.threshold", 0),
        ("kernel.compression.threshold", 101),
        ("kernel.compression.at_memory_pressure", 2),
        ("kernel.page-scanner.lru-action", 4),
        ("kernel.page-scanner.lru-action", u64::MAX),
        ("coldpress.compression.keep-until-pressure", 1),
        ("nothing", 1),
    ] {
        assert!(!tunables.set_word(name, word), "{name} {word}");
        assert_eq!(tunables, Tunables::DEFAULT);
    }
    assert!(tunables.set_word("kernel.compression.threshold", 55));
    assert_eq!(tunables.threshold, 55);
}

#[test]
fn lines_set_what_they_name_and_nothing_else() {
    let mut tunables = Tunables::DEFAULT;
    for line in [
        "kernel.compression.threshold=100",
        " kernel.page-scanner.lru-action = compress_only ",
        "kernel.compression.at_memory_pressure=off",
        "kernel.page-scanner.active-ratio-multiplier=0x10",
        "kernel.compression.strategy=lz4-rust",
        "kernel.compression.storage-strategy=three-slot",
    ] {
        tunables.set(line).unwrap();
    }
    let expected = Tunables {
        threshold: 100,
        lru_action: LruAction::CompressOnly,
        at_memory_pressure: false,
        active_ratio_multiplier: 16,
        strategy: Strategy::Lz4Rust,
        storage_strategy: StorageStrategy::ThreeSlot,
        ..Tunables::DEFAULT
    };
    assert_eq!(tunables, expected);
}

#[test]
fn refusals_name_the_tunable_and_what_it_takes() {
    let mut tunables = Tunables::DEFAULT;
    let mut refusal = |line: &'static str| tunables.set(line).unwrap_err().to_string();
    for (line, message) in [
        (
            "kernel.compression.threshold",
            "'kernel.compression.threshold' has no value: write name=value",
        ),
        (
            "kernel.compression.treshold=70",
            "there is no tunable 'kernel.compression.treshold': docs/tunables.md lists them",
        ),
        (
            "kernel.compression.threshold=0",
            "kernel.compression.threshold cannot be '0': it takes per cent, 1 to 100",
        ),
        (
            "kernel.compression.threshold=101",
            "kernel.compression.threshold cannot be '101': it takes per cent, 1 to 100",
        ),
        (
            "kernel.compression.threshold=-1",
            "kernel.compression.threshold cannot be '-1': it takes per cent, 1 to 100",
        ),
        (
            "kernel.page-scanner.lru-action=evict",
            "kernel.page-scanner.lru-action cannot be 'evict': it takes none, evict_only, compress_only or evict_and_compress",
        ),
        (
            "kernel.compression.at_memory_pressure=",
            "kernel.compression.at_memory_pressure cannot be '': it takes true or false",
        ),
    ] {
        assert_eq!(refusal(line), message);
    }
    assert_eq!(tunables, Tunables::DEFAULT);
}

/// It was in the table, could be set, and did nothing.
#[test]
fn what_is_not_built_is_refused_by_name_and_reason() {
    const LINE: &str = "coldpress.compression.keep-until-pressure=true";
    let mut tunables = Tunables::DEFAULT;
    let refused = tunables.set(LINE).unwrap_err();
    assert!(matches!(refused, TunableError::NotBuilt { .. }));
    let message = refused.to_string();
    assert!(
        message.starts_with("coldpress.compression.keep-until-pressure is not built: every write")
    );
    let record = "docs/adr/0017-no-page-kept-beside-its-copy.md";
    assert!(message.contains(record));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    assert!(root.join(record).exists(), "the record that it names");
    assert_eq!(tunables, Tunables::DEFAULT, "nothing is set");
    tunables
        .set("coldpress.compression.keep-until-pressure=false")
        .unwrap();
    // Nor does an engine take it over that was told otherwise.
    let kept = Tunables {
        keep_until_pressure: true,
        ..Tunables::DEFAULT
    };
    assert_eq!(kept.check(), Err(refused));
}
