//! Under which name a figure of `status --json` stands in OpenMetrics.
//!
//! | key | name |
//! |---|---|
//! | `…_bytes` | the same, unit bytes |
//! | `…_pages` | the same, unit pages |
//! | `…_ns`, `…_ms` | `…_seconds` |
//! | any other | the same, without a unit |
//! | one of [`RENAMED`] | the name there, with the unit that it ends in |
//! | one of [`LABELLED`] | a family of several figures, with a label that tells them apart |
//!
//! Before all of them stands `coldpress_`; the samples of counters end in `_total`. Figures of the engine know their kind
//! and meaning themselves; of those that only the statistics page has, [`PAGE`] says the kind.

use super::name_tables::{LABELLED, PAGE, RENAMED, SPECIAL};
use crate::figure_help;
use coldpress_engine::metrics::figure::{self, Kind};
use coldpress_interface::statistics::{Failure, Statistics};

/// Before every name.
pub const PREFIX: &str = "coldpress";

/// A figure of a family.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its key in `status --json`.
    pub key: &'static str,
    /// What tells it from the others, if there are others.
    pub label: Option<(&'static str, &'static str)>,
    /// What a sample is divided by to be in the family's unit.
    pub divisor: u64,
}

/// Samples of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name with its unit, without the prefix and without `_total`.
    pub name: String,
    /// Whether it only grows.
    pub kind: Kind,
    /// What it means.
    pub help: String,
    /// The figures in it.
    pub members: Vec<Member>,
}

impl Family {
    /// The name of its samples.
    pub fn sample_name(&self) -> String {
        let total = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge => "",
        };
        format!("{PREFIX}_{}{total}", self.name)
    }
}

/// The unit that a name ends in.
pub fn unit_of(name: &str) -> Option<&'static str> {
    let mut units = ["bytes", "pages", "seconds"].into_iter();
    units.find(|unit| {
        let before = name.strip_suffix(unit);
        before.is_some_and(|before| before.ends_with('_'))
    })
}

/// Whether a figure of the engine is told as a reason of `coldpress_rejected_pages_total`.
pub fn is_reason(key: &str) -> bool {
    Failure::ALL.iter().any(|reason| reason.name() == key)
}

/// Every family of figures that are plain numbers, in the order of the statistics page, then of the engine.
pub fn families() -> Vec<Family> {
    let page = Statistics::MEANINGS.iter().map(|(key, _)| *key);
    let mut keys: Vec<&'static str> = page.filter(|key| !SPECIAL.contains(key)).collect();
    for figure in figure::every() {
        if !keys.contains(&figure.name) && !is_reason(figure.name) {
            keys.push(figure.name);
        }
    }
    let mut families: Vec<Family> = Vec::new();
    for key in keys {
        add(&mut families, key);
    }
    let names: Vec<(&str, String)> = families
        .iter()
        .flat_map(|family| {
            let members = family.members.iter();
            members.map(|member| (member.key, family.sample_name()))
        })
        .collect();
    for family in &mut families {
        family.help = in_base_units(&family.help, &names);
    }
    families
}

fn add(families: &mut Vec<Family>, key: &'static str) {
    let Some((kind, help)) = kind_and_help(key) else {
        return;
    };
    let labelled = LABELLED.iter().find_map(|(name, label, help, members)| {
        let (_, value) = members.iter().find(|(member, _)| *member == key)?;
        Some(((*name).to_owned(), *help, (*label, *value)))
    });
    let divisor = divisor(key);
    let (name, help, label) = match labelled {
        Some((name, help, label)) => (name, help.to_owned(), Some(label)),
        None => (plain_name(key), help, None),
    };
    let member = Member {
        key,
        label,
        divisor,
    };
    match families.iter_mut().find(|family| family.name == name) {
        Some(family) => family.members.push(member),
        None => families.push(Family {
            name,
            kind,
            help,
            members: vec![member],
        }),
    }
}

fn kind_and_help(key: &str) -> Option<(Kind, String)> {
    let of_engine = figure::every().find(|figure| figure.name == key);
    let of_page = PAGE.iter().find(|(name, _)| *name == key);
    match (of_engine, of_page) {
        (Some(figure), _) => Some((figure.kind, figure.help.trim().to_owned())),
        (None, Some((_, kind))) => Some((*kind, figure_help::help(key)?)),
        (None, None) => None,
    }
}

fn divisor(key: &str) -> u64 {
    match key {
        key if key.ends_with("_ns") => 1_000_000_000,
        key if key.ends_with("_ms") => 1_000,
        _ => 1,
    }
}

fn plain_name(key: &str) -> String {
    if let Some((_, name)) = RENAMED.iter().find(|(renamed, _)| *renamed == key) {
        return (*name).to_owned();
    }
    let base = key.strip_suffix("_ns").or(key.strip_suffix("_ms"));
    base.map_or_else(|| key.to_owned(), |base| format!("{base}_seconds"))
}

/// The meaning in seconds, with other figures under the names that they have here.
fn in_base_units(help: &str, names: &[(&str, String)]) -> String {
    let mut text = help
        .replace("nanoseconds", "seconds")
        .replace("milliseconds", "seconds");
    for (key, name) in names {
        text = text.replace(&format!("`{key}`"), &format!("`{name}`"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn named(key: &str) -> (String, Option<(&'static str, &'static str)>) {
        let all = families();
        let mut found = all.iter().flat_map(|family| {
            let members = family.members.iter().filter(|member| member.key == key);
            members.map(|member| (family.sample_name(), member.label))
        });
        let one = found.next().unwrap_or_else(|| panic!("{key} has no name"));
        assert!(found.next().is_none(), "{key} has two names");
        one
    }

    #[test]
    fn every_figure_has_one_name_and_its_kind_is_known() {
        for (key, _) in Statistics::MEANINGS {
            if !SPECIAL.contains(key) {
                named(key);
            }
        }
        for figure in figure::every().filter(|figure| !is_reason(figure.name)) {
            named(figure.name);
        }
        let of_engine: Vec<&str> = figure::every().map(|figure| figure.name).collect();
        for (key, _) in PAGE {
            assert!(!of_engine.contains(key), "{key} is told by the engine");
        }
    }

    #[test]
    fn names_are_in_base_units_and_well_formed() {
        assert_eq!(named("cold_after_ms").0, "coldpress_cold_after_seconds");
        assert_eq!(named("pager_cpu_ns").0, "coldpress_pager_cpu_seconds_total");
        assert_eq!(named("payload_bytes").0, "coldpress_compressed_bytes");
        let (name, label) = named("decompressed_later");
        assert_eq!(name, "coldpress_decompressions_by_residency_total");
        assert_eq!(label, Some(("seconds", "128-")));
        let mut seen = BTreeSet::new();
        for family in families() {
            let name = family.sample_name();
            let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(is_plain), "{name}");
            assert!(seen.insert(name.clone()), "{name} stands twice");
            assert!(!name.ends_with("_ns") && !name.ends_with("_ms"), "{name}");
            assert!(!family.name.ends_with("_total"), "{name}");
            assert!(family.help.ends_with('.'), "{name}: {}", family.help);
            assert_eq!(family.help.trim(), family.help, "{name}");
            // What the encoder would have to escape.
            assert!(!family.help.contains(['\\', '\n']), "{name}");
            assert!(!family.help.contains("nanosec"), "{name}: {}", family.help);
            let label = |member: &Member| member.label.map(|(label, _)| label);
            let first = label(&family.members[0]);
            assert!(family.members.iter().all(|member| label(member) == first));
        }
    }

    /// A label's family in which one figure is a gauge and another a counter, or that has two units, would be neither.
    #[test]
    fn figures_of_one_family_are_alike() {
        for family in families() {
            for member in &family.members {
                let (kind, _) = kind_and_help(member.key).unwrap();
                assert_eq!(kind, family.kind, "{}", member.key);
                assert_eq!(
                    member.divisor > 1,
                    unit_of(&family.name) == Some("seconds"),
                    "{}",
                    member.key
                );
            }
        }
    }
}
