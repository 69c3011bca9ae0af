//! `--tune NAME=VALUE`: the engine's tunables (`docs/tunables.md`), checked against its table.
//!
//! Codec, storage and LZ4's acceleration are in that table, too, under the names of the RFC's kernel command
//! line: they are taken for `--codec` and `--storage` ([`Tune::codec_and_storage`]).

use crate::choice;
use crate::own_name;
use coldpress_codec::CodecKind;
use coldpress_engine::Tunables;
use coldpress_engine::tunables::{self, Linux, Row, StorageStrategy, Strategy, TABLE};
use coldpress_interface::control::MOST_TUNABLES;
use coldpress_interface::figures::{Figures, name_hash};
use coldpress_storage::StorageKind;

/// Values of tunables, each once, in the order of their names; of two for one tunable the later counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tune(Vec<(&'static str, u64)>);

const STRATEGY: &str = "kernel.compression.strategy";
const STORAGE_STRATEGY: &str = "kernel.compression.storage-strategy";
const LZ4_ACCELERATION: &str = "kernel.compression.lz4.acceleration";

/// Changes of letters that make one word the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (n, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = n + 1;
        for (m, &with) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != with);
            diagonal = row[m + 1];
            row[m + 1] = changed.min(row[m] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

/// Whether a pager takes it, and nobody is told of it in vain.
fn is_taken(row: &Row) -> bool {
    row.linux != Linux::Never
}

fn unknown(name: &str) -> String {
    let near = |row: &&Row| {
        [row.name, row.field]
            .map(|known| distance(name, known))
            .into_iter()
            .min()
    };
    let rows = TABLE.iter().filter(|row| is_taken(row));
    // What differs in more than a third of its letters was not meant.
    let is_near = |row: &&Row| near(row).is_some_and(|changes| changes * 3 <= name.len());
    let closest = rows.clone().filter(is_near).min_by_key(near);
    let meant = closest.map_or(".".to_owned(), |row| {
        format!(": did you mean {}?", row.name)
    });
    let all: Vec<&str> = rows.map(|row| row.field).collect();
    format!(
        "there is no tunable {name:?}{meant} There are {} (docs/tunables.md)",
        all.join(", ")
    )
}

/// The row of a tunable that can be set at the start of a program.
fn row(name: &str) -> Result<&'static Row, String> {
    let row = tunables::named(name).ok_or_else(|| unknown(name))?;
    match is_taken(row) {
        true => Ok(row),
        false => Err(format!(
            "{} does nothing in a Linux program (docs/tunables.md says what it is for)",
            row.name
        )),
    }
}

/// Reads one `NAME=VALUE`.
fn parse_one(text: &str) -> Result<(&'static str, u64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text:?} has no value: write NAME=VALUE"))?;
    value_of(name.trim(), value.trim())
}

/// Reads the value of a tunable.
pub fn value_of(name: &str, value: &str) -> Result<(&'static str, u64), String> {
    let row = row(name)?;
    let mut tunables = Tunables::DEFAULT;
    tunables
        .set_value(row.name, value)
        .map_err(|error| error.to_string())?;
    let word = tunables.word(row.name).expect("it is in the table");
    Ok((row.name, word))
}

/// Reads one or several, with commas or blanks between them.
pub fn parse(text: &str) -> Result<Tune, String> {
    let parts = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    let parts = parts.filter(|part| !part.is_empty());
    let mut tune = Tune::default();
    for part in parts {
        let (name, word) = parse_one(part)?;
        tune.set(name, word);
    }
    match tune.0.is_empty() {
        true => Err("nothing is set: write NAME=VALUE".to_owned()),
        false => Ok(tune),
    }
}

/// The value behind a word, as it is written. `None`: this command knows no such value.
pub fn shown(name: &str, word: u64) -> Option<String> {
    let mut tunables = Tunables::DEFAULT;
    let known = tunables.set_word(name, word);
    known.then(|| tunables.value(name).to_string())
}

/// What is in force in a pager, as it is written, in the order of the table. Codec and storage have keys of
/// their own, unless nothing is compressed at all.
pub fn in_force(figures: &Figures) -> Vec<(&'static str, String)> {
    let rows = TABLE.iter().filter(|row| is_taken(row));
    rows.filter_map(|row| {
        let value = shown(row.name, figures.tunables.get(row.name)?)?;
        let is_told = !is_chosen_by_option(row.name) || value == "none";
        is_told.then_some((row.name, value))
    })
    .collect()
}

/// Whether `--codec` or `--storage` says it, too.
fn is_chosen_by_option(name: &str) -> bool {
    [STRATEGY, STORAGE_STRATEGY, LZ4_ACCELERATION].contains(&name)
}

impl Tune {
    /// Sets one.
    pub fn set(&mut self, name: &'static str, word: u64) {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, word));
        self.0.sort_unstable();
    }

    /// These, and what `lower` says of others.
    pub fn over(self, lower: Self) -> Self {
        let mut all = lower;
        for (name, word) in self.0 {
            all.set(name, word);
        }
        all
    }

    fn get(&self, name: &str) -> Option<u64> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, word)| *word)
    }

    /// The codec and the storage that they name, which are then no tunables any more.
    pub fn codec_and_storage(
        &mut self,
    ) -> Result<(Option<CodecKind>, Option<StorageKind>), String> {
        let mut tunables = Tunables::DEFAULT;
        self.apply(&mut tunables)?;
        let is_off = tunables.strategy == Strategy::None;
        let mut codec = match (self.get(STRATEGY), tunables.strategy) {
            (None, _) | (_, Strategy::None | Strategy::Best) => None,
            (Some(_), strategy) => Some(strategy.name().to_owned()),
        };
        if self.get(LZ4_ACCELERATION).is_some() {
            let lz4 = matches!(tunables.strategy, Strategy::Lz4 | Strategy::Lz4Rust);
            if !lz4 {
                return Err(format!(
                    "{LZ4_ACCELERATION} is for LZ4: add {STRATEGY}=lz4, or lz4-rust"
                ));
            }
            codec = codec.map(|name| format!("{name}:{}", tunables.lz4_acceleration));
        }
        let storage = self.get(STORAGE_STRATEGY).is_some() && !is_off;
        let storage = storage.then(|| tunables.storage_strategy.name());
        if !is_off {
            self.0.retain(|(name, _)| !is_chosen_by_option(name));
        }
        Ok((
            codec.map(|name| choice::parse_codec(&name)).transpose()?,
            storage.map(choice::parse_storage).transpose()?,
        ))
    }

    /// Sets them in a whole set of values, which is then as a whole.
    pub fn apply(&self, tunables: &mut Tunables) -> Result<(), String> {
        for &(name, word) in &self.0 {
            assert!(tunables.set_word(name, word), "it was read by the table");
        }
        if self.get(STRATEGY).is_some() && self.get(STORAGE_STRATEGY).is_none() {
            // Only `none` of both contradicts the one that nobody names.
            if tunables.strategy == Strategy::None {
                tunables.storage_strategy = StorageStrategy::None;
            }
        }
        tunables.check().map_err(|error| error.to_string())
    }

    /// The list that the pager reads.
    pub fn for_the_pager(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for &(name, word) in &self.0 {
            let value = shown(name, word).expect("it was read by the table");
            if name == STRATEGY && self.get(STORAGE_STRATEGY).is_none() {
                parts.push(format!("{STORAGE_STRATEGY}=none"));
            }
            parts.push(format!("{name}={value}"));
        }
        parts.join(" ")
    }

    /// What a running pager is asked for.
    pub fn request(&self) -> Result<[(u64, u64); MOST_TUNABLES], String> {
        let mut asked = [(0, 0); MOST_TUNABLES];
        if self.0.len() > asked.len() {
            return Err(format!("no more than {MOST_TUNABLES} tunables at a time"));
        }
        for (place, &(name, word)) in asked.iter_mut().zip(&self.0) {
            let row = row(name)?;
            if row.linux != Linux::Running {
                return Err(format!(
                    "{name} can be set at the start of a program only: {} run --tune {name}=…",
                    own_name::get()
                ));
            }
            *place = (name_hash(name), word);
        }
        Ok(asked)
    }

    /// Their names and words.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.0.clone().into_iter()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_tables_and_hashes_are_distinct() {
        let tune = parse("threshold=60, kernel.page-scanner.lru_action=none").unwrap();
        let list = "kernel.compression.threshold=60 kernel.page-scanner.lru-action=none";
        assert_eq!(tune.for_the_pager(), list);
        let mut hashes: Vec<u64> = TABLE.iter().map(|row| name_hash(row.name)).collect();
        hashes.extend(coldpress_engine::metrics::figure::every().map(|f| name_hash(f.name)));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
        assert!(!hashes.contains(&0), "no name");
    }

    #[test]
    fn what_is_wrong_is_one_line_with_the_closest_name() {
        for (text, words) in [
            ("threshold", "\"threshold\" has no value: write NAME=VALUE"),
            ("treshold=70", "did you mean kernel.compression.threshold?"),
            (
                "kernel.compression.at-memory-presure=on",
                "did you mean kernel.compression.at_memory_pressure?",
            ),
            (
                "threshold=0",
                "kernel.compression.threshold cannot be '0': it takes per cent",
            ),
            ("threshold=", "cannot be ''"),
            (
                "warning_mb=5",
                "kernel.oom.warning-mb does nothing in a Linux program",
            ),
            ("", "nothing is set"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
        let error = parse("nonsense=1").unwrap_err();
        assert!(error.contains("there is no tunable \"nonsense\""));
        assert!(error.contains("threshold") && error.contains("lru_action"));
    }

    #[test]
    fn codec_and_storage_have_their_names_of_the_kernel_command_line() {
        let read = |text: &str| {
            let mut tune = parse(text).unwrap();
            let chosen = tune.codec_and_storage();
            let chosen = chosen.map(|(codec, storage)| {
                let codec = codec.map(|codec| codec.to_string());
                (codec, storage.map(StorageKind::name))
            });
            (chosen, tune.for_the_pager())
        };
        let some = |text: &str| Some(text.to_owned());
        let (chosen, rest) = read("strategy=zstd threshold=50");
        assert_eq!(chosen, Ok((some("zstd:1"), None)));
        assert_eq!(rest, "kernel.compression.threshold=50");
        let lz4 = read("strategy=lz4,lz4-acceleration=11,storage-strategy=three-slot");
        assert_eq!(
            lz4,
            (Ok((some("lz4:11"), Some("three-slot"))), String::new())
        );
        let (off, list) = read("strategy=none");
        assert_eq!(off, Ok((None, None)));
        let storage = "kernel.compression.storage-strategy=none";
        assert_eq!(list, format!("{storage} kernel.compression.strategy=none"));
        assert_eq!(read("strategy=best").0, Ok((None, None)));
        assert!(
            read("lz4_acceleration=5")
                .0
                .unwrap_err()
                .contains("add kernel")
        );
        let contradiction = read("storage-strategy=none").0.unwrap_err();
        assert!(contradiction.contains("both none"), "{contradiction}");
    }

    #[test]
    fn a_running_pager_takes_what_can_change() {
        let asked = parse("threshold=50 read_ahead_pages=0").unwrap().request();
        let asked = asked.unwrap();
        assert_eq!(asked[1], (name_hash("kernel.compression.threshold"), 50));
        assert_eq!(asked[2], (0, 0));
        let fixed = parse("same_filled=off").unwrap().request().unwrap_err();
        assert!(fixed.contains("at the start of a program only"), "{fixed}");
    }
}
