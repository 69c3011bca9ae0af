//! Files of settings: TOML, under the names of the options.
//!
//! ```toml
//! budget = "1G"            # or bytes: 1073741824
//! cold-after = "30s"       # or seconds: 30
//! trigger = ["eager", "pressure"]
//!
//! [tune]                   # the engine's tunables
//! threshold = 60
//! "kernel.page-scanner.lru-action" = "none"
//! ```
//!
//! What is wrong is said with the number of its line. A key that is no setting is refused: a budget
//! that is misspelt would be none.

use crate::config_layers::{self, Directory};
use crate::config_trust;
use crate::refusal::Refusal;
use crate::settings::{self, Told};
use crate::tune;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Reads the file that the caller has named.
pub fn read(path: &Path) -> Result<Told, Refusal> {
    let text = fs::read_to_string(path).map_err(|error| {
        Refusal::new(format!(
            "--config: {} cannot be read: {error}",
            path.display()
        ))
    })?;
    parse_file(path, &text)
}

/// Reads all files of settings that are found in the directories (lowest first), the higher over the lower; and tells
/// which these are, lowest first.
pub fn read_found(directories: &[Directory]) -> Result<(Told, Vec<PathBuf>), Refusal> {
    let files = config_layers::files(directories)?;
    let mut all = Told::default();
    for path in &files {
        let mut text = String::new();
        if let Some(mut file) = config_trust::open(path)? {
            file.read_to_string(&mut text).map_err(|error| {
                Refusal::new(format!("{} cannot be read: {error}", path.display()))
            })?;
        }
        all = parse_file(path, &text)?.over(all);
    }
    Ok((all, files))
}

fn parse_file(path: &Path, text: &str) -> Result<Told, Refusal> {
    let shown = path.display();
    parse(text, &shown.to_string())
        .map_err(|(line, why)| Refusal::new(format!("{shown}:{line}: {why}")))
}

/// The settings in `text`, of the file `name`; or the line of what is wrong, and why.
fn parse(text: &str, name: &str) -> Result<Told, (usize, String)> {
    let line = |span: Range<usize>| 1 + text[..span.start.min(text.len())].matches('\n').count();
    let place = |span: Range<usize>| format!("{name}:{}", line(span));
    let table = DeTable::parse(text).map_err(|error| {
        let message = error.message().replace('\n', ", ");
        (error.span().map_or(1, line), message)
    })?;
    let mut read = Told::default();
    for (key, value) in table.get_ref() {
        let name = key.get_ref().as_ref();
        let setting = settings::named(name).ok_or_else(|| {
            let why = format!(
                "there is no setting {name:?}: there are {}",
                settings::names()
            );
            (line(key.span()), why)
        })?;
        if name == "tune"
            && let DeValue::Table(table) = value.get_ref()
        {
            for (key, value) in table {
                let name = key.get_ref().as_ref();
                let text = as_text(value.get_ref())
                    .ok_or_else(|| (line(value.span()), format!("{name}: it takes one value")))?;
                let (name, word) = tune::value_of(name, &text)
                    .map_err(|why| (line(key.span()), format!("tune: {why}")))?;
                read.set_tunable(name, word, &place(key.span()));
            }
            continue;
        }
        let wrong = |why: String| (line(value.span()), format!("{name}: {why}"));
        let text = as_text(value.get_ref())
            .ok_or_else(|| wrong("it takes a text, such as \"30s\", or a number".to_owned()))?;
        read.set(setting, &text, &place(key.span()))
            .map_err(wrong)?;
    }
    Ok(read)
}

/// A value as it would stand on the command line. `None`: it could not stand there.
fn as_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.as_ref().to_owned()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(switch) => Some(switch.to_string()),
        DeValue::Array(list) => {
            let parts = list.iter().map(|part| match part.get_ref() {
                DeValue::String(text) => Some(text.as_ref()),
                _ => None,
            });
            Some(parts.collect::<Option<Vec<&str>>>()?.join(","))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::size::Budget;
    use coldpress_interface::triggers::Triggers;

    fn settings_in(text: &str) -> Settings {
        parse(text, "file").unwrap().settings
    }

    #[test]
    fn values_are_those_of_the_command_line() {
        let text = "# a comment\nbudget = 1_073_741_824\ncold-after = 1.5\nquiet = true\n\
                    trigger = [\"eager\", \"critical\"]\nstats = 'a b.json'\n";
        let read = settings_in(text);
        assert_eq!(read.budget, Some(Budget::Bytes(1 << 30)));
        assert_eq!(read.cold_after_ms, Some(1_500));
        assert_eq!(read.triggers, Triggers::from_text("eager,critical").ok());
        assert_eq!((read.quiet, read.codec), (Some(true), None));
        assert_eq!(read.stats.unwrap().to_str(), Some("a b.json"));
        assert_eq!(settings_in(""), Settings::default());
        let tuned = "[tune]\nthreshold = 60\nsame_filled = false\n\
                     \"kernel.page-scanner.lru-action\" = \"compress_only\"\n";
        let list = tune::parse("threshold=60 same_filled=off lru_action=compress_only");
        assert_eq!(settings_in(tuned).tune, list.ok());
        let list = "tune = ['same_filled=off', 'lru_action=compress_only', 'threshold=60']";
        assert_eq!(settings_in(tuned), settings_in(list));
    }

    #[test]
    fn each_setting_knows_its_line() {
        let text = "quiet = true\n\nbudget = '1G'\n[tune]\nthreshold = 60\n";
        let said = parse(text, "/etc/x.toml").unwrap().said;
        let mut lines: Vec<String> = said
            .iter()
            .map(|said| format!("{} {} {}", said.name, said.value, said.from))
            .collect();
        lines.sort();
        let expected = [
            "budget 1G /etc/x.toml:3",
            "quiet true /etc/x.toml:1",
            "tune.kernel.compression.threshold 60 /etc/x.toml:5",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, word) in [
            (
                "\n\nbugdet = '1G'",
                3,
                "there is no setting \"bugdet\": there are budget, cold",
            ),
            (
                "quiet = true\nbudget = 'lots'",
                2,
                "budget: cannot read \"lots\"",
            ),
            ("quiet = 'perhaps'", 1, "quiet: cannot read \"perhaps\""),
            ("[tune]\ntreshold = 1", 2, "tune: there is no tunable"),
            ("[tune]\nthreshold = 0", 2, "it takes per cent, 1 to 100"),
            ("[tune]\nthreshold = {}", 2, "threshold: it takes one value"),
            ("\n[budget]\nx = 1", 2, "budget: it takes a text"),
            ("trigger = [1]", 1, "trigger: it takes a text"),
            ("trigger = []", 1, "trigger:"),
            ("budget = 0x10", 1, "budget: it takes"),
            ("budget = \"1G", 1, ""),
            ("\nbudget = '1G'\nbudget = '2G'", 3, "duplicate"),
        ] {
            let (found, why) = parse(text, "file").unwrap_err();
            assert!(
                found == line && why.contains(word),
                "{text:?}: {found}: {why}"
            );
            assert!(!why.contains('\n'), "{why}");
        }
    }
}
