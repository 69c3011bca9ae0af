//! What `run` tells programs at the end: the file of `--stats`. (`closing` is what it tells people.)

use crate::budget::BudgetInForce;
use crate::output_file;
use crate::refusal::Refusal;
use crate::report::{self, SCHEMA_VERSION};
use crate::sums::{Sums, Young};
use crate::supervise::Ending;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::Statistics;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The object for `--stats`: the statistics, if the pager started, and how the program ended.
pub fn to_json(
    program: &str,
    pid: u32,
    statistics: Option<(&Statistics, &Figures)>,
    young: &Young,
    budget: &BudgetInForce,
    ending: Ending,
) -> Value {
    let mut object = match statistics {
        Some((statistics, figures)) => report::to_json(program, statistics, figures),
        None => Map::from_iter([("schema_version".to_owned(), json!(SCHEMA_VERSION))]),
    };
    let (status, signal) = match ending {
        Ending::Exited(status) => (Some(status), None),
        Ending::Killed(signal) => (None, Some(signal)),
    };
    for (name, value) in [
        ("program", json!(program)),
        ("pid", json!(pid)),
        ("pager_started", json!(statistics.is_some())),
        ("exit_status", json!(status)),
        ("signal", json!(signal)),
        ("budget_asked_bytes", json!(budget.asked())),
        ("memory_group_limit_bytes", json!(budget.group_bytes)),
        (
            "summary",
            json!(
                statistics
                    .map(|(statistics, _)| Sums::with_young(statistics, young))
                    .map(|sums| sums.to_json(sums.managed_ns))
            ),
        ),
    ] {
        object.insert(name.to_owned(), value);
    }
    object.into()
}

/// Writes `value`. Whoever does not read it does not keep the run from ending.
pub fn write_json(target: &Path, value: &Value) -> Result<(), Refusal> {
    output_file::write_at_end(target, format!("{value:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_whole_or_not_at_all() {
        use std::fs;
        let directory = std::env::temp_dir().join(format!("coldpress-json-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let target = directory.join("out.json");
        let value = to_json(
            "p",
            7,
            None,
            &Young::default(),
            &BudgetInForce::of(1 << 30, None).unwrap(),
            Ending::Killed(9),
        );
        assert_eq!(
            (&value["pager_started"], &value["signal"]),
            (&json!(false), &json!(9))
        );
        write_json(&target, &value).unwrap();
        write_json(&target, &value).unwrap();
        let read: Value = serde_json::from_str(&fs::read_to_string(&target).unwrap()).unwrap();
        assert_eq!(read, value);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
        fs::remove_dir_all(&directory).unwrap();
    }
}
