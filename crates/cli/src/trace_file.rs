//! Reading a trace of decisions, as `run --trace FILE` has the pager write it (described at the head of
//! `pager/src/report/decision_trace.rs`): lines of JSON, the first about the process.

use crate::own_name;
use crate::refusal::Refusal;
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

/// A trace.
#[derive(Debug)]
pub struct Trace {
    /// The first line.
    pub head: Map<String, Value>,
    /// The others, in the order of their time.
    pub records: Vec<Record>,
}

/// What happened since the record before.
#[derive(Clone, Debug)]
pub struct Record(pub Map<String, Value>);

impl Record {
    /// The number of that name; 0 where there is none.
    pub fn get(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Seconds since the trace began.
    pub fn seconds(&self) -> f64 {
        self.get("t_ms") as f64 / 1000.0
    }

    /// The budget, if there was one.
    pub fn budget_bytes(&self) -> Option<u64> {
        self.0.get("budget_bytes").and_then(Value::as_u64)
    }

    /// The rules that were in force, with milliseconds.
    pub fn rules_ms(&self) -> impl Iterator<Item = (&str, u64)> {
        let rules = self.0.get("rules_ms").and_then(Value::as_object);
        let rules = rules.into_iter().flatten();
        rules.map(|(name, ms)| (name.as_str(), ms.as_u64().unwrap_or(0)))
    }

    /// Pages that were wanted again.
    pub fn refaults(&self) -> u64 {
        let kinds = ["faults_decompressed", "faults_same_filled", "faults_copied"];
        kinds.into_iter().map(|name| self.get(name)).sum()
    }

    /// Pages in place.
    pub fn pages_in_place(&self) -> u64 {
        self.get("committed_bytes") / 4096
    }
}

/// Reads a trace.
pub fn read(path: &Path) -> Result<Trace, Refusal> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Refusal::new(format!("{shown}: cannot be read: {error}")))?;
    parse(&text).map_err(|why| {
        Refusal::new(format!("{shown}: {why}")).mend(format!(
            "Make one: {} run --trace FILE -- PROGRAM",
            own_name::get()
        ))
    })
}

fn parse(text: &str) -> Result<Trace, String> {
    let mut lines = text.lines();
    let object = |line: &str| serde_json::from_str::<Map<String, Value>>(line);
    let head = lines
        .next()
        .and_then(|line| object(line).ok())
        .filter(|head| head.contains_key("coldpress_trace"))
        .ok_or("it is no trace of decisions")?;
    if head["coldpress_trace"] != 1 {
        return Err(format!(
            "it is a trace of form {}; this command reads form 1",
            head["coldpress_trace"]
        ));
    }
    let mut records = Vec::new();
    let mut lines = lines.enumerate().peekable();
    while let Some((n, line)) = lines.next() {
        match object(line) {
            Ok(record) => records.push(Record(record)),
            // It may be written in this moment.
            Err(_) if lines.peek().is_none() => {}
            Err(error) => return Err(format!("line {}: {error}", n + 2)),
        }
    }
    Ok(Trace { head, records })
}

#[cfg(test)]
pub mod fixtures {
    //! A trace for tests.

    use super::*;
    use serde_json::json;

    /// Ten seconds: five within the budget, then five in which the coldest go.
    pub fn text() -> String {
        let head = json!({"coldpress_trace": 1, "pid": 7, "program": "p", "codec": "press"});
        let mut all = format!("{head}\n");
        for n in 1..=100u64 {
            let pressed = n > 50;
            let rule = if pressed {
                "near_budget"
            } else {
                "within_budget"
            };
            let total = n.min(60) << 20;
            let record = json!({
                "t_ms": n * 100, "rule": rule, "rules_ms": {rule: 100}, "peak_bytes": total + (1 << 20),
                "total_bytes": total, "content_bytes": n << 20, "committed_bytes": total, "budget_bytes": 60 << 20,
                "stored_content_bytes": (n << 20) - total, "storage_bytes": ((n << 20) - total) / 4,
                "cold_after_ms": if pressed { 30_000 } else { 60_000 },
                "evictions": if pressed { 384 } else { 0 }, "pressure_compressions": if pressed { 380 } else { 0 },
                "faults_decompressed": if pressed { 7 } else { 0 }, "incompressible": if pressed { 4 } else { 0 },
                "second_chances": 1,
            });
            all += &format!("{record}\n");
        }
        all
    }

    /// The same, read.
    pub fn trace() -> Trace {
        parse(&text()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_also_while_it_is_written() {
        let text = fixtures::text();
        let trace = parse(&text).unwrap();
        assert_eq!(trace.records.len(), 100);
        assert_eq!(trace.head["program"], "p");
        let last = &trace.records[99];
        assert_eq!((last.seconds(), last.refaults()), (10.0, 7));
        assert_eq!(last.rules_ms().collect::<Vec<_>>(), [("near_budget", 100)]);
        assert_eq!(last.budget_bytes(), Some(60 << 20));
        assert_eq!(last.get("absent"), 0);
        let cut = parse(&text[..text.len() - 9]).unwrap();
        assert_eq!(cut.records.len(), 99);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for text in ["", "x", "{}", "{\"pid\":1}"] {
            assert!(parse(text).unwrap_err().contains("no trace"), "{text}");
        }
        assert!(
            parse("{\"coldpress_trace\":2}")
                .unwrap_err()
                .contains("form 2")
        );
        let damaged = fixtures::text().replacen("\"rule\":\"within", "\"rule\"\"within", 1);
        assert!(parse(&damaged).unwrap_err().starts_with("line 2: "));
        let refusal = read(Path::new("/nonexistent/trace")).unwrap_err();
        assert!(refusal.to_string().contains("cannot be read"));
    }
}
