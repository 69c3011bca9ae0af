//! The columns of `coldpress status`: one table with name, description and value.

use crate::duration::{format_cold_after, format_nanoseconds};
use crate::process;
use crate::report;
use crate::rule;
use crate::size::{format_budget, format_bytes, format_count};
use crate::sums::pager_cpu_ns;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::{Rule, Statistics};
use serde_json::{Value as Json, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Bytes.
    Bytes(u64),
    /// More or fewer bytes.
    Difference(i64),
    /// The budget, which may be none.
    Budget(u64),
    /// The cold age in milliseconds; 0: none.
    ColdAge(u64),
    /// So many.
    Count(u64),
    /// The number of a process.
    Number(u64),
    /// A duration in nanoseconds.
    Duration(u64),
    /// One by another.
    Ratio(f64),
    /// A text for people, and its name for programs.
    Named(String, Json),
    /// A text.
    Text(String),
    /// It is not known, or there is none.
    Missing,
}

/// How sizes are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// With a unit that suits them.
    #[default]
    WithUnit,
    /// As bytes, exactly.
    Bytes,
}

impl Value {
    /// For people.
    pub fn text(&self, sizes: Sizes) -> String {
        let is_exact = sizes == Sizes::Bytes;
        match self {
            Value::Bytes(bytes) if is_exact => bytes.to_string(),
            Value::Difference(bytes) if is_exact => bytes.to_string(),
            Value::Budget(bytes) if is_exact && *bytes != NO_BUDGET => bytes.to_string(),
            Value::Bytes(bytes) => format_bytes(*bytes),
            Value::Difference(bytes) if *bytes < 0 => {
                format!("-{}", format_bytes(bytes.unsigned_abs()))
            }
            Value::Difference(bytes) => format_bytes(bytes.unsigned_abs()),
            Value::Budget(bytes) => format_budget(*bytes),
            Value::ColdAge(milliseconds) => format_cold_after(*milliseconds),
            Value::Count(count) => format_count(*count),
            Value::Number(number) => number.to_string(),
            Value::Duration(nanoseconds) => format_nanoseconds(*nanoseconds),
            Value::Ratio(ratio) => format!("{ratio:.2}"),
            Value::Text(text) | Value::Named(text, _) => text.clone(),
            Value::Missing => "-".to_owned(),
        }
    }

    /// For programs that split lines at blanks: none in it, and never empty.
    pub fn raw_text(&self, sizes: Sizes) -> String {
        let text = self.text(sizes);
        match self {
            Value::Count(count) => count.to_string(),
            Value::Text(_) | Value::Named(..) if text.is_empty() => "-".to_owned(),
            Value::Text(_) | Value::Named(..) => escape(&text),
            _ => text.replace(' ', ""),
        }
    }

    /// For programs.
    pub fn json(&self) -> Json {
        match self {
            Value::Budget(NO_BUDGET) | Value::Missing => Json::Null,
            Value::Bytes(n) | Value::Budget(n) | Value::ColdAge(n) | Value::Count(n) => json!(n),
            Value::Number(n) | Value::Duration(n) => json!(n),
            Value::Difference(bytes) => json!(bytes),
            Value::Ratio(ratio) => json!(ratio),
            Value::Text(text) => json!(text),
            Value::Named(_, name) => name.clone(),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Value::Text(_) | Value::Named(..))
    }
}

/// Blanks, backslashes and what is no printable ASCII as `\xNN`.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'\\' => escaped.push(char::from(byte)),
            _ => escaped += &format!("\\x{byte:02x}"),
        }
    }
    escaped
}

/// A column.
pub struct Column {
    /// Its heading, and its name in `--output`.
    pub name: &'static str,
    /// What it says.
    pub help: &'static str,
    /// Whether it is there if nobody asks for columns.
    pub default: bool,
    /// What stands there for a process.
    pub value: fn(&Statistics) -> Value,
}

impl Column {
    /// Its name in JSON.
    pub fn key(&self) -> String {
        self.name.to_lowercase().replace('-', "_")
    }

    /// Whether it is one of texts, which begin at the left.
    pub fn is_text(&self) -> bool {
        (self.value)(&Statistics::new()).is_text()
            || ["COMMAND", "RULE", "TRIGGERS"].contains(&self.name)
    }
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

/// What an older pager does not know.
fn known(s: &Statistics, value: Value) -> Value {
    if s.answers() { value } else { Value::Missing }
}

fn quantile(s: &Statistics, quantile: f64) -> Value {
    let ns = s.fault_service.quantile_ns(quantile);
    ns.map_or(Value::Missing, Value::Duration)
}

/// Content stored by the memory that storage takes for it, fragmentation included.
fn ratio(s: &Statistics) -> Value {
    match (get(&s.stored_content_bytes), get(&s.storage_bytes)) {
        (0, _) | (_, 0) => Value::Missing,
        (content, storage) => Value::Ratio(content as f64 / storage as f64),
    }
}

fn rule_in_force(s: &Statistics) -> Value {
    let name = Rule::from_word(get(&s.rule)).map(Rule::name);
    rule::explain(s).map_or(Value::Missing, |text| Value::Named(text, json!(name)))
}

fn run(s: &Statistics) -> Value {
    match get(&s.run_pid) {
        0 => Value::Missing,
        pid => Value::Number(pid),
    }
}

fn triggers(s: &Statistics) -> Value {
    rule::triggers(s).map_or(Value::Missing, |on| Value::Text(on.to_string()))
}

macro_rules! columns {
    ($($name:literal $default:literal $help:literal $value:expr;)*) => {
        /// All columns, in the order of `--output-all`.
        pub const COLUMNS: &[Column] = &[$(Column {
            name: $name, help: $help, default: $default, value: $value,
        },)*];
    };
}

columns! {
    "PID" true "process" |s| Value::Number(get(&s.pid));
    "COMMAND" true "name of the program" |s| Value::Text(process::name(get(&s.pid) as u32));
    "RUN" false "process that coldpress run --follow started it under" run;
    "BUDGET" true "memory that it may hold" |s| Value::Budget(get(&s.budget_bytes));
    "TOTAL" true "memory that it holds: pages, storage and pager; what the budget limits" |s| Value::Bytes(get(&s.total_bytes));
    "PEAK" false "the highest TOTAL" |s| Value::Bytes(get(&s.peak_total_bytes));
    "COMMITTED" false "memory held in pages" |s| Value::Bytes(get(&s.committed_bytes));
    "CONTENT" true "memory remembered in any form: what it would hold natively" |s| Value::Bytes(get(&s.content_bytes));
    "STORED" false "content that is compressed, at its full size" |s| Value::Bytes(get(&s.stored_content_bytes));
    "COMPR" false "the same, compressed" |s| Value::Bytes(get(&s.payload_bytes));
    "SAME" false "content that repeats one word, which takes no storage" |s| Value::Bytes(get(&s.same_filled_bytes));
    "MEM-USED" false "memory that storage takes for the compressed bytes" |s| Value::Bytes(get(&s.storage_bytes));
    "OVERHEAD" false "memory of the pager itself: tables, staging, stacks" |s| Value::Bytes(get(&s.overhead_bytes));
    "RATIO" true "STORED by MEM-USED" ratio;
    "SAVED" true "CONTENT less TOTAL; below 0 the pager takes more than it saves" |s| Value::Difference(get(&s.content_bytes).wrapping_sub(get(&s.total_bytes)) as i64);
    "SAVED-MAX" false "the highest SAVED" |s| known(s, Value::Bytes(get(&s.peak_saved_bytes)));
    "EVICTIONS" false "pages taken out, ever" |s| Value::Count(get(&s.evictions));
    "EAGER" false "pages compressed for their age" |s| Value::Count(get(&s.eager_compressions));
    "PRESSURE" false "pages compressed near the budget" |s| Value::Count(get(&s.pressure_compressions));
    "CRITICAL" false "pages compressed above the budget" |s| Value::Count(get(&s.critical_compressions));
    "FAILED" false "compressions whose result was not kept" |s| Value::Count(get(&s.failed_compressions));
    "FAULTS" false "faults answered" |s| Value::Count(get(&s.faults));
    "P50" false "half of all faults with content were answered in this time" |s| quantile(s, 0.5);
    "P99" false "99 % of them were" |s| quantile(s, 0.99);
    "P999" false "99.9 % of them were" |s| quantile(s, 0.999);
    "CPU" false "CPU time of the pager" |s| Value::Duration(pager_cpu_ns(s));
    "COLD-AGE" false "age from which pages are compressed even within the budget" |s| Value::ColdAge(get(&s.cold_after_ms));
    "RULE" false "which pages go in this moment, and why" rule_in_force;
    "TRIGGERS" false "what may compress pages" triggers;
    "CODEC" false "how pages are compressed" |s| Value::Text(report::names(s).0);
    "WRITTEN-BACK" false "content in the file of --writeback, at its full size" |s| known(s, Value::Bytes(get(&s.written_back_pages) * 4096));
    "STORAGE" false "how compressed pages are kept" |s| Value::Text(report::names(s).1);
}

/// The columns that are there if nobody asks for any: they fit a terminal of 80 columns.
pub fn default() -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| column.default).collect()
}

/// Reads a list of columns. With a `+` before it they come behind the default ones.
pub fn parse(list: &str) -> Result<Vec<&'static Column>, String> {
    let (mut chosen, names) = match list.strip_prefix('+') {
        Some(names) => (default(), names),
        None => (Vec::new(), list),
    };
    for name in names.split(',').map(str::trim) {
        let column = COLUMNS
            .iter()
            .find(|column| column.name.eq_ignore_ascii_case(name));
        chosen.push(column.ok_or_else(|| {
            let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
            format!("{name:?} is no column: columns are {}", names.join(", "))
        })?);
    }
    Ok(chosen)
}

/// The list of columns for the help text.
pub fn help() -> String {
    let mut text = "Columns (* is there by default):\n".to_owned();
    for column in COLUMNS {
        let mark = if column.default { '*' } else { ' ' };
        text += &format!(" {mark}{:<10} {}\n", column.name, column.help);
    }
    text + "\nExamples:\n  coldpress status\n  coldpress status -o PID,TOTAL,RATIO -b --noheadings\n  coldpress status -o +FAULTS,P99,RULE\n  coldpress status 4242\n  coldpress status --all 4242\n  coldpress status redis-server python3"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_name_of_its_own_and_a_description() {
        for (n, column) in COLUMNS.iter().enumerate() {
            assert_eq!(column.name, column.name.to_uppercase());
            assert!(help().contains(&format!("{:<10} {}", column.name, column.help)));
            assert!(COLUMNS[..n].iter().all(|other| other.name != column.name));
        }
        let texts = COLUMNS.iter().filter(|column| column.is_text());
        let texts: Vec<&str> = texts.map(|column| column.name).collect();
        assert_eq!(texts, ["COMMAND", "RULE", "TRIGGERS", "CODEC", "STORAGE"]);
    }

    #[test]
    fn the_default_columns_fit_a_terminal() {
        let widest = |column: &Column| match column.name {
            "PID" => 7,      // 4,194,304 at most
            "COMMAND" => 15, // as the kernel keeps it
            "RATIO" => 5,
            _ => "1023.9 MiB".len(),
        };
        let widths = default()
            .into_iter()
            .map(|c| widest(c).max(c.name.len()) + 2);
        // Blanks at the end of a line are left out.
        assert!(widths.sum::<usize>() - 1 <= 80);
    }

    #[test]
    fn lists_are_read_in_their_order() {
        let names = |list: &str| -> Vec<&str> {
            let columns = parse(list).unwrap();
            columns.iter().map(|column| column.name).collect()
        };
        assert_eq!(names("ratio,PID,Cold-Age"), ["RATIO", "PID", "COLD-AGE"]);
        assert_eq!(names("+CPU").len(), default().len() + 1);
        let error = parse("PID,SIZE").err().unwrap();
        assert!(
            error.starts_with("\"SIZE\" is no column: columns are PID, COMMAND"),
            "{error}"
        );
        assert!(parse("").is_err());
    }

    #[test]
    fn values_are_written_in_every_form() {
        let forms = |value: Value| {
            let plain = value.text(Sizes::Bytes);
            (
                value.text(Sizes::WithUnit),
                plain,
                value.raw_text(Sizes::WithUnit),
                value.json(),
            )
        };
        let own = str::to_owned;
        let bytes = forms(Value::Bytes(3 << 19));
        assert_eq!(
            bytes,
            (
                own("1.5 MiB"),
                own("1572864"),
                own("1.5MiB"),
                json!(1_572_864)
            )
        );
        let less = forms(Value::Difference(-2048));
        assert_eq!(
            less,
            (own("-2.0 KiB"), own("-2048"), own("-2.0KiB"), json!(-2048))
        );
        let none = forms(Value::Budget(NO_BUDGET));
        assert_eq!(none, (own("none"), own("none"), own("none"), Json::Null));
        assert_eq!(Value::Count(12_345).text(Sizes::WithUnit), "12,345");
        assert_eq!(Value::Count(12_345).raw_text(Sizes::WithUnit), "12345");
        assert_eq!(
            Value::Text(own("a b\\c\u{e9}")).raw_text(Sizes::WithUnit),
            "a\\x20b\\x5cc\\xc3\\xa9"
        );
        assert_eq!(Value::Text(String::new()).raw_text(Sizes::WithUnit), "-");
        assert_eq!(Value::Missing.json(), Json::Null);
    }
}
