//! What a run is to do, put together from four places: the command line, the environment, files,
//! and what holds where none of them says anything, in this order. What the environment and the files say is
//! kept with the place that said it ([`Told`]).
//!
//! One table has all settings ([`SETTINGS`]). The name of a setting is its option on the command line
//! (`--cold-after`), its key in the file (`cold-after`) and, in capitals, its variable
//! (`COLDPRESS_COLD_AFTER`); the value is written in the same way in all three.

use crate::choice;
use crate::duration;
use crate::refusal::Refusal;
use crate::size::Budget;
use crate::tune::{self, Tune};
use coldpress_codec::CodecKind;
use coldpress_interface::triggers::Triggers;
use coldpress_storage::StorageKind;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// What one place says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Memory that the program may hold.
    pub budget: Option<Budget>,
    /// Cold age in milliseconds; 0: none.
    pub cold_after_ms: Option<u64>,
    /// What may make the pager compress.
    pub triggers: Option<Triggers>,
    /// How pages are compressed.
    pub codec: Option<CodecKind>,
    /// How compressed pages are kept.
    pub storage: Option<StorageKind>,
    /// Milliseconds after which what is compressed is stored anew, denser; 0: never.
    pub recode_after_ms: Option<u64>,
    /// Whether programs that the program starts are managed too.
    pub follow: Option<bool>,
    /// Where the final statistics go.
    pub stats: Option<PathBuf>,
    /// Where a trace of decisions goes.
    pub trace: Option<PathBuf>,
    /// Whether there is no summary.
    pub quiet: Option<bool>,
    /// Whether the summary has details.
    pub verbose: Option<bool>,
    /// Values of the engine's tunables.
    pub tune: Option<Tune>,
}

/// A row of the table: a setting that can be read from text.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Reads its value, or says what is wrong with it.
    pub read: fn(&mut Settings, &str) -> Result<(), String>,
}

macro_rules! settings {
    ($($name:literal: $field:ident = $read:expr,)*) => {
        &[$(Setting {
            name: $name,
            read: |settings, text| {
                settings.$field = Some($read(text)?);
                Ok(())
            },
        },)*]
    };
}

/// All settings.
pub const SETTINGS: &[Setting] = settings! {
    "budget": budget = Budget::parse,
    "cold-after": cold_after_ms = duration::parse_cold_after,
    "trigger": triggers = choice::parse_triggers,
    "codec": codec = choice::parse_codec,
    "storage": storage = choice::parse_storage,
    "recode-after": recode_after_ms = duration::parse_recode_after,
    "follow": follow = choice::parse_switch,
    "stats": stats = parse_path,
    "trace": trace = parse_path,
    "quiet": quiet = choice::parse_switch,
    "verbose": verbose = choice::parse_switch,
    "tune": tune = tune::parse,
};

fn parse_path(text: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(text))
}

/// The setting of that name.
pub fn named(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The names of all settings.
pub fn names() -> String {
    let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    names.join(", ")
}

impl Setting {
    /// The variable of the environment that sets it.
    pub fn variable(&self) -> String {
        format!("COLDPRESS_{}", self.name.to_uppercase().replace('-', "_"))
    }
}

impl Settings {
    /// These settings, and where they say nothing, those of `lower`.
    pub fn over(self, lower: Self) -> Self {
        Self {
            budget: self.budget.or(lower.budget),
            cold_after_ms: self.cold_after_ms.or(lower.cold_after_ms),
            triggers: self.triggers.or(lower.triggers),
            codec: self.codec.or(lower.codec),
            storage: self.storage.or(lower.storage),
            recode_after_ms: self.recode_after_ms.or(lower.recode_after_ms),
            follow: self.follow.or(lower.follow),
            stats: self.stats.or(lower.stats),
            trace: self.trace.or(lower.trace),
            quiet: self.quiet.or(lower.quiet),
            verbose: self.verbose.or(lower.verbose),
            // One by one: the file may say one thing and the command line another.
            tune: match (self.tune, lower.tune) {
                (Some(upper), Some(lower)) => Some(upper.over(lower)),
                (upper, lower) => upper.or(lower),
            },
        }
    }
}

/// A setting, as one place says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its name; of a tunable `tune.NAME`.
    pub name: String,
    /// Its value, as it is written there.
    pub value: String,
    /// The place: a variable, or a file and its line.
    pub from: String,
}

/// Settings, with the places that said them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// The settings.
    pub settings: Settings,
    /// Where each is from.
    pub said: Vec<Said>,
}

impl Told {
    /// Sets what `from` says of a setting.
    pub fn set(&mut self, setting: &Setting, value: &str, from: &str) -> Result<(), String> {
        let mut read = Settings::default();
        (setting.read)(&mut read, value)?;
        match read.tune.take() {
            Some(tune) => {
                for (name, word) in tune.values() {
                    self.set_tunable(name, word, from);
                }
            }
            None => self.note(setting.name.to_owned(), value.to_owned(), from),
        }
        let lower = std::mem::take(&mut self.settings);
        self.settings = read.over(lower);
        Ok(())
    }

    /// Sets what `from` says of a tunable.
    pub fn set_tunable(&mut self, name: &'static str, word: u64, from: &str) {
        let value = tune::shown(name, word).unwrap_or_default();
        self.note(format!("tune.{name}"), value, from);
        self.settings.tune.get_or_insert_default().set(name, word);
    }

    fn note(&mut self, name: String, value: String, from: &str) {
        self.said.retain(|said| said.name != name);
        let from = from.to_owned();
        self.said.push(Said { name, value, from });
    }

    /// These, and what `lower` says of others.
    pub fn over(self, lower: Self) -> Self {
        let mut said = lower.said;
        said.retain(|lower| self.said.iter().all(|upper| upper.name != lower.name));
        said.extend(self.said);
        Self {
            settings: self.settings.over(lower.settings),
            said,
        }
    }

    /// What the environment says. An empty variable says nothing.
    pub fn from_environment() -> Result<Self, Refusal> {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Refusal> {
        let mut told = Self::default();
        for setting in SETTINGS {
            let name = setting.variable();
            let Some(value) = variable(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let refuse = |why: String| {
                Refusal::new(format!("{name}: {why}")).mend(format!("Correct it, or: unset {name}"))
            };
            let text = value.into_string();
            let text = text.map_err(|_| refuse("is no UTF-8 text".to_owned()))?;
            told.set(setting, &text, &name).map_err(refuse)?;
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_variable_of_its_own() {
        let variables: Vec<String> = SETTINGS.iter().map(Setting::variable).collect();
        assert_eq!(variables[1], "COLDPRESS_COLD_AFTER");
        let read = Told::from_variables(|name| {
            let values = [
                ("COLDPRESS_BUDGET", "64M"),
                ("COLDPRESS_COLD_AFTER", "30s"),
                ("COLDPRESS_TRIGGER", "eager,critical"),
                ("COLDPRESS_CODEC", "zstd:3"),
                ("COLDPRESS_STORAGE", ""),
                ("COLDPRESS_FOLLOW", "yes"),
                ("COLDPRESS_QUIET", "no"),
            ];
            let value = values.iter().find(|(variable, _)| *variable == name);
            value.map(|(_, value)| value.into())
        });
        let expected = Settings {
            budget: Some(Budget::Bytes(64 << 20)),
            cold_after_ms: Some(30_000),
            triggers: Triggers::from_text("eager,critical").ok(),
            codec: Some(CodecKind::Zstd { level: 3 }),
            follow: Some(true),
            quiet: Some(false),
            ..Settings::default()
        };
        let read = read.unwrap();
        assert_eq!(read.settings, expected);
        let from = |name: &str| {
            let said = read.said.iter().find(|said| said.name == name);
            said.map(|said| (said.value.as_str(), said.from.as_str()))
        };
        assert_eq!(from("budget"), Some(("64M", "COLDPRESS_BUDGET")));
        assert_eq!(from("storage"), None);
        let wrong = Told::from_variables(|name| {
            (name == "COLDPRESS_COLD_AFTER").then(|| OsString::from("soon"))
        });
        let text = wrong.unwrap_err().to_string();
        assert!(
            text.starts_with("COLDPRESS_COLD_AFTER: cannot read \"soon\""),
            "{text}"
        );
    }

    #[test]
    fn the_upper_place_wins_setting_by_setting() {
        let settings = |budget: u64, quiet: Option<bool>| Settings {
            budget: Some(Budget::Bytes(budget)),
            quiet,
            ..Settings::default()
        };
        let merged = settings(1, None).over(settings(2, Some(true)));
        assert_eq!(merged, settings(1, Some(true)));
    }

    #[test]
    fn of_what_several_places_say_the_upper_one_is_named() {
        let told = |list: &[(&str, &str)], from: &str| {
            let mut told = Told::default();
            for (name, value) in list {
                told.set(named(name).unwrap(), value, from).unwrap();
            }
            told
        };
        let upper = told(&[("budget", "1G"), ("tune", "threshold=60")], "upper");
        let lower = [
            ("budget", "2G"),
            ("tune", "threshold=50,read_ahead_pages=0"),
        ];
        let both = upper.over(told(&lower, "lower"));
        let mut said: Vec<_> = both.said.iter().map(|s| (&*s.value, &*s.from)).collect();
        said.sort_unstable();
        assert_eq!(said, [("0", "lower"), ("1G", "upper"), ("60", "upper")]);
        assert_eq!(both.settings.budget, Some(Budget::Bytes(1 << 30)));
    }
}
