//! The statistics of one process as JSON: raw bytes, nanoseconds and counts, never only a ratio.

use crate::rule;
use crate::tune;
use coldpress_engine::metrics::figure;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::{Failure, NAME_BYTES, Name, Rule, Statistics};
use serde_json::{Map, Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// The percentiles that are reported, with their names.
pub const PERCENTILES: [(&str, f64); 4] = [
    ("p50_ns", 0.5),
    ("p90_ns", 0.9),
    ("p99_ns", 0.99),
    ("p999_ns", 0.999),
];

/// Names of the codec and of the storage.
pub fn names(statistics: &Statistics) -> (String, String) {
    let name = |name: &Name| name.read(&mut [0; NAME_BYTES]).to_owned();
    (name(&statistics.codec), name(&statistics.storage))
}

/// The version of what [`to_json`] makes: larger where a key goes, or means something else. It stays where
/// keys come.
pub const SCHEMA_VERSION: u64 = 1;

/// Every field of the page and every figure of the engine under its own name, failures by reason, and the
/// percentiles of the service time (null where no fault was served). What an older pager does not know is not
/// there; a budget of null is none. `docs/metrics.md` has all keys.
pub fn to_json(program: &str, statistics: &Statistics, figures: &Figures) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
    object.insert("program".to_owned(), json!(program));
    let head = [
        ("version", &statistics.version),
        ("pid", &statistics.pid),
        ("start_time_ticks", &statistics.start_time_ticks),
    ];
    for (name, word) in head {
        object.insert(name.to_owned(), json!(word.load(Relaxed)));
    }
    let (codec, storage) = names(statistics);
    object.insert("codec".to_owned(), json!(codec));
    object.insert("storage".to_owned(), json!(storage));
    for (name, value) in fields(statistics, figures) {
        let value = match name {
            "budget_bytes" if value == NO_BUDGET => Value::Null,
            "triggers" => json!(rule::triggers(statistics).map(|on| on.to_string())),
            // The name stands there by itself.
            "program_head" | "program_tail" => continue,
            "rule" => json!(Rule::from_word(value).map(Rule::name)),
            _ => json!(value),
        };
        object.insert(name.to_owned(), value);
    }
    for (name, value) in engine_figures(statistics, figures) {
        object.insert(name.to_owned(), json!(value));
    }
    object.insert("tunables".to_owned(), tunables(figures));
    if statistics.answers() {
        object.insert("generations".to_owned(), generations(statistics).into());
    }
    let failures: Map<String, Value> = Failure::ALL
        .iter()
        .map(|&reason| (reason.name().to_owned(), json!(statistics.failed(reason))))
        .collect();
    object.insert("failures".to_owned(), failures.into());
    if figures.engine.get("decompressed_later").is_none() {
        // Of an older pager, which has no names for them.
        let residency = statistics.decompressed_within_log_seconds.iter();
        let residency: Vec<u64> = residency.map(|count| count.load(Relaxed)).collect();
        object.insert(
            "decompressed_within_log_seconds".to_owned(),
            json!(residency),
        );
    }
    let mut service = Map::new();
    service.insert("count".to_owned(), json!(statistics.fault_service.count()));
    for (name, quantile) in PERCENTILES {
        service.insert(
            name.to_owned(),
            json!(statistics.fault_service.quantile_ns(quantile)),
        );
    }
    object.insert("fault_service".to_owned(), service.into());
    object
}

/// Fields of the page that an older command knew, and the engine's figure that says it better.
const SAID_BETTER: [(&str, &str); 2] = [
    ("recoded_pages", "recoded"),
    ("compaction_frames", "compaction_frames_freed"),
];

/// The fields of the page, but for those that the engine has figures of its own for.
pub fn fields<'a>(
    statistics: &'a Statistics,
    figures: &'a Figures,
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    statistics.fields().filter(|(name, _)| {
        let mut better = SAID_BETTER.iter().filter(|(field, _)| field == name);
        !better.any(|(_, figure)| figures.engine.get(figure).is_some())
    })
}

/// The figures of the engine that the page has not under the name that they have there.
pub fn engine_figures(
    statistics: &Statistics,
    figures: &Figures,
) -> impl Iterator<Item = (&'static str, u64)> {
    let known: Vec<&str> = statistics.fields().map(|(name, _)| name).collect();
    let others = figure::every().filter(move |figure| !known.contains(&figure.name));
    others.filter_map(|figure| Some((figure.name, figures.engine.get(figure.name)?)))
}

/// The tunables in force, by name.
pub fn tunables(figures: &Figures) -> Value {
    let all = tune::in_force(figures).into_iter();
    Value::Object(
        all.map(|(name, value)| (name.to_owned(), json!(value)))
            .collect(),
    )
}

/// Pages in place by age, the newest generation first.
fn generations(statistics: &Statistics) -> Vec<Value> {
    let pages = statistics.generation_pages.iter();
    let ages = statistics.generation_age_ms.iter();
    let both = pages.zip(ages).map(|(pages, age)| {
        json!({ "untouched_for_ms": age.load(Relaxed), "pages": pages.load(Relaxed) })
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_there() {
        let statistics = Statistics::new();
        statistics.budget_bytes.store(7, Relaxed);
        statistics.fail(Failure::Corrupt);
        statistics.codec.set(b"zstd:-7");
        statistics.fault_service.record(1_000);
        let object = to_json("prog", &statistics, &Figures::default());
        let fields = statistics.fields();
        for (name, value) in fields.filter(|(name, _)| !name.starts_with("program_")) {
            assert_eq!(object[name], value, "{name}");
        }
        assert_eq!(object["codec"], "zstd:-7");
        assert_eq!(object["budget_bytes"], 7);
        assert_eq!(object["failures"]["corrupt"], 1);
        assert_eq!(
            object["decompressed_within_log_seconds"]
                .as_array()
                .unwrap()
                .len(),
            9
        );
        assert_eq!(object["fault_service"]["count"], 1);
        assert!(object["fault_service"]["p999_ns"].as_u64().unwrap() >= 1_000);
        let idle = to_json("prog", &Statistics::new(), &Figures::default());
        assert!(idle["fault_service"]["p50_ns"].is_null());
        assert_eq!(idle.get("generations"), None, "not known to the writer");
    }

    #[test]
    fn what_has_a_name_is_told_by_it() {
        let statistics = Statistics::new();
        statistics.filled_bytes.store(u64::MAX, Relaxed);
        statistics.budget_bytes.store(NO_BUDGET, Relaxed);
        statistics.triggers.store(5, Relaxed);
        statistics.rule.store(Rule::ColdAge as u64, Relaxed);
        statistics.generation_pages[7].store(9, Relaxed);
        let object = to_json("prog", &statistics, &Figures::default());
        assert!(object["budget_bytes"].is_null());
        assert_eq!(object["triggers"], "eager,critical");
        assert_eq!(object["rule"], "cold_age");
        assert_eq!(object["generations"][7]["pages"], 9);
        assert_eq!(object["decompression_p99_ns"], 0);
    }
}
