//! Promise: `coldpress eval` reports on every strategy, the same from run to run but for times,
//! and refuses what is no file of pages in one line.

use crate::common::{Directory, coldpress, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Pages such as a program has: pointers, small numbers, text; some random, zero, same-filled.
fn pages(directory: &Directory, name: &str, count: u64) -> PathBuf {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let words = [
        "coldpress ",
        "page ",
        "the ",
        "of ",
        "memory ",
        "value=",
        "null, ",
        "\"id\": ",
    ];
    let mut bytes = Vec::new();
    for page in 0..count {
        let mut content = Vec::new();
        while content.len() < 4096 {
            match page % 8 {
                0 => content.extend((0x7f00_1234_0000 + random() % 4096 * 16).to_le_bytes()),
                1 => content.extend((random() % 100).to_le_bytes()),
                2 | 3 => content.extend(words[random() as usize % words.len()].as_bytes()),
                4 => content.extend((page * 8 + content.len() as u64).to_le_bytes()),
                5 => content.extend(random().to_le_bytes()),
                6 => content.extend((if random() % 16 == 0 { random() } else { 0 }).to_le_bytes()),
                _ => content.extend(0x0102_0304u64.to_le_bytes()),
            }
        }
        content.truncate(4096);
        if page % 24 == 7 {
            content.fill(0);
        }
        bytes.extend(content);
    }
    directory.file(name, &bytes, 0o644)
}

fn eval(files: &[&Path], options: &[&str]) -> Output {
    coldpress()
        .arg("eval")
        .args(files)
        .args(options)
        .output()
        .unwrap()
}

fn json(files: &[&Path], options: &[&str]) -> Value {
    let output = eval(files, &[&["--json"], options].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_else(|| panic!("{key}: {row}"))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn the_json_has_a_row_for_every_strategy_corpus_and_stage() {
    let directory = Directory::new("eval-json");
    let (one, two) = (
        pages(&directory, "one.pages", 72),
        pages(&directory, "two.pages", 48),
    );
    let report = json(&[&one, &two], &["--rounds", "1", "--sample", "48"]);
    let codecs = report["codecs"].as_array().unwrap();
    for codec in [
        "memcpy",
        "lz4:1",
        "lz4:11",
        "zstd:1",
        "zstd:-7",
        "lzo",
        "wkdm",
        "press",
        "press-dense",
    ] {
        let rows: Vec<_> = codecs.iter().filter(|row| row["codec"] == codec).collect();
        let corpora: Vec<_> = rows.iter().map(|row| text(row, "corpus")).collect();
        assert_eq!(corpora, ["pooled", "one.pages", "two.pages"], "{codec}");
        for row in &rows {
            let (pages, failed) = (number(row, "pages"), number(row, "failed"));
            assert!(failed < pages && number(row, "compress_mib_s") > 0.0);
            assert!(
                number(row, "decompress_mib_s") > 0.0 && number(row, "decompress_p99_ns") >= 0.0
            );
            assert!(number(row, "total_bytes") <= pages * 4096.0 + number(row, "table_bytes"));
            assert!(number(row, "total_bytes") >= failed * 4096.0);
        }
        for key in ["pages", "failed", "total_bytes"] {
            let parts = number(rows[1], key) + number(rows[2], key);
            assert_eq!(number(rows[0], key), parts, "{codec}: pooled {key}");
        }
    }
    let storages = report["storages"].as_array().unwrap();
    for storage in ["two-slot", "three-slot", "size-class", "press"] {
        for stage in ["fill", "churned", "compacted"] {
            let row = storages
                .iter()
                .find(|row| {
                    row["storage"] == storage && row["stage"] == stage && row["corpus"] == "pooled"
                })
                .unwrap_or_else(|| panic!("{storage} {stage}"));
            assert!(!text(row, "codec").is_empty());
            let total = number(row, "total_bytes");
            assert!(total >= number(row, "frames") * 4096.0);
            assert!(number(row, "payload_bytes") < total && number(row, "ratio") > 0.0);
        }
    }
    let same = &report["same_filled"][0];
    // In each 24 pages one is zero, and two hold another word.
    assert_eq!(
        (
            number(same, "zero_pages"),
            number(same, "same_filled_pages")
        ),
        (5.0, 10.0)
    );
    assert!(
        report["ratios"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["codec"] == "press")
    );
}

/// Takes out of a report what no two runs have in common.
fn without_times(value: &mut Value) {
    if let Value::Object(object) = value {
        object.retain(|key, _| {
            let is_time = key.ends_with("_ns") || key.ends_with("_mib_s");
            !is_time
                && !matches!(
                    key.as_str(),
                    "ratios"
                        | "percent_of_press"
                        | "method"
                        | "same_filled_test"
                        | "same_filled_gain"
                )
        });
        object.values_mut().for_each(without_times);
    }
    if let Value::Array(array) = value {
        array.iter_mut().for_each(without_times);
    }
}

#[test]
fn everything_but_times_follows_from_the_seed() {
    let directory = Directory::new("eval-seed");
    let file = pages(&directory, "one.pages", 200);
    let run = |seed: &str| {
        let mut report = json(
            &[&file],
            &[
                "--rounds",
                "1",
                "--sample",
                "40",
                "--codec",
                "press-dense",
                "--codec",
                "lz4:1",
                "--seed",
                seed,
            ],
        );
        without_times(&mut report);
        report
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first["codecs"], run("8")["codecs"], "the sample is another");
}

#[test]
fn strategies_can_be_chosen() {
    let directory = Directory::new("eval-choice");
    let file = pages(&directory, "one.pages", 64);
    let plot = directory.path("plot.svg");
    let options = [
        "--rounds",
        "1",
        "--sample",
        "40",
        "--codec",
        "press",
        "--codec",
        "lz4:1",
        "--storage",
        "three-slot",
        "--simd",
        "portable",
        "--threshold",
        "50%",
        "--pin",
        "none",
        "--against",
        "lz4:11",
        "--plot",
    ];
    let report = json(
        &[&file],
        &[&options[..], &[plot.to_str().unwrap()]].concat(),
    );
    let names = |rows: &str, key: &str| -> Vec<String> {
        let mut names: Vec<_> = report[rows]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| text(row, key).to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(
        names("codecs", "codec"),
        ["lz4:1", "lz4:11", "memcpy", "press"]
    );
    assert_eq!(names("storages", "storage"), ["three-slot"]);
    assert_eq!(names("ratios", "against"), ["lz4:11"]);
    assert_eq!(
        (
            &report["method"]["simd"],
            &report["method"]["threshold_bytes"]
        ),
        (&"portable".into(), &2048.into())
    );
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("press") && svg.contains("three-slot"));
    let tables = eval(
        &[&file],
        &[
            "--rounds",
            "1",
            "--sample",
            "40",
            "--codec",
            "lz4:1",
            "--storage",
            "two-slot",
        ],
    );
    let tables = stdout(&tables);
    for word in [
        "lz4:1",
        "two-slot",
        "failed %",
        "density",
        "one.pages",
        "worst case",
    ] {
        assert!(tables.contains(word), "{word}: {tables}");
    }
}

#[test]
fn bad_input_is_refused_in_one_line_that_names_it() {
    let directory = Directory::new("eval-bad");
    let good = pages(&directory, "good.pages", 16);
    let empty = directory.file("empty.pages", b"", 0o644);
    let odd = directory.file("odd.pages", &[1; 4097], 0o644);
    let zeros = directory.file("zeros.pages", &[0; 8192], 0o644);
    let missing = directory.path("missing.pages");
    for (file, words) in [
        (&empty, "is empty"),
        (&odd, "4097 bytes, which is no multiple of 4096"),
        (&zeros, "only same-filled pages"),
        (&missing, "cannot read"),
        (&PathBuf::from("/tmp"), "cannot read /tmp"),
    ] {
        // A good file before it does not help.
        for files in [&[file.as_path()][..], &[good.as_path(), file.as_path()]] {
            let output = eval(files, &[]);
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(125), "{message}");
            assert!(
                message.contains(words) && message.contains(file.to_str().unwrap()),
                "{message}"
            );
            assert_eq!(
                (message.lines().count(), stdout(&output)),
                (1, String::new()),
                "{message}"
            );
        }
    }
    for (options, words) in [
        (["--codec", "gzip"], "there is no codec \"gzip\""),
        (["--against", "gzip"], "there is no codec \"gzip\""),
        (["--storage", "attic"], "there is no storage \"attic\""),
        (["--simd", "sse9"], "\"sse9\""),
        (["--threshold", "5K"], "\"5K\""),
        (["--rounds", "0"], "\"0\""),
        (["--pin", "4095"], "cannot pin to CPU 4095"),
        (["--plot", "/proc/no.svg"], "cannot write /proc/no.svg"),
    ] {
        let output = eval(&[&good], &options);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(125), "{message}");
        assert!(message.contains(words), "{message}");
        assert_eq!(
            (message.lines().count(), stdout(&output)),
            (1, String::new()),
            "{message}"
        );
    }
}

/// The note that a capture leaves beside its file.
fn note(file: &Path, written: u64, content: u64, zero: u64, same: u64) {
    let note = serde_json::json!({
        "schema_version": 1, "program": "prog", "written_pages": written, "content_pages": content,
        "zero_pages": zero, "same_filled_pages": same, "inactive_ms": 30_000,
    });
    let mut path = file.as_os_str().to_owned();
    path.push(".json");
    std::fs::write(path, note.to_string()).unwrap();
}

#[test]
fn the_tables_of_the_rfc_are_computed_as_there() {
    let directory = Directory::new("eval-seed-tables");
    let file = pages(&directory, "one.pages", 96);
    let options = ["--rounds", "1", "--pin", "none"];
    let table = |name: &str| json(&[&file], &[&["--table", name], &options[..]].concat());
    let rfc1 = table("rfc1");
    assert_eq!(
        (&rfc1["schema_version"], &rfc1["table"]),
        (&1.into(), &"rfc1".into())
    );
    let rows = rfc1["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| text(row, "algorithm")).collect();
    assert_eq!(names, ["Zstd(-7)", "minilzo", "lz4(1)", "lz4(11)", "WKdm"]);
    let all = number(&rfc1, "pages") * 4096.0;
    for row in rows {
        assert!(number(row, "compress_mib_s") > 0.0 && number(row, "decompress_mib_s") > 0.0);
        assert!(number(row, "decompress_worst_ns") > 0.0);
        assert!((1.0..=all).contains(&number(row, "total_bytes")), "{row}");
    }
    // Two slots, three slots; what failed has its full size in both.
    let rfc2 = table("rfc2");
    let rows = rfc2["rows"].as_array().unwrap();
    let pages_of = |row: &Value| number(row, "storage_pages") * 4096.0;
    let failed = number(&rows[0], "total_bytes") - pages_of(&rows[0]);
    assert!(failed > 0.0, "some of the pages are random");
    for (row, name) in rows.iter().zip(["Two-slot", "Three-slot"]) {
        assert_eq!(text(row, "slots"), name);
        let total = number(row, "total_bytes");
        assert_eq!(total, pages_of(row) + failed);
        assert_eq!(number(row, "savings_bytes"), all - total);
        assert!((number(row, "ratio") - all / total).abs() < 1e-9);
    }
    assert!(pages_of(&rows[1]) <= pages_of(&rows[0]));
    // In words, with their age, which only the note knows.
    let shown = |name: &str| {
        let output = eval(&[&file], &[&["--table", name], &options[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    assert!(shown("rfc1").contains("of any age: for the RFC's table of inactive pages"));
    note(&file, 96, 96, 0, 0);
    let words = shown("rfc2");
    assert!(
        words.contains("that nobody had touched for 30 s"),
        "{words}"
    );
    assert!(words.contains("Pages for storage") && words.contains("left uncompressed"));
    let wrong = eval(&[&file], &["--table", "rfc3"]);
    assert!(stderr(&wrong).contains("there are rfc1, rfc2, same-filled"));
    assert_eq!(wrong.status.code(), Some(125));
}

#[test]
fn same_filled_pages_are_counted_also_where_a_capture_left_them_out() {
    let directory = Directory::new("eval-same-filled");
    // Of 48 pages two are zero and four hold another word.
    let file = pages(&directory, "one.pages", 48);
    let options = ["--rounds", "1", "--pin", "none", "--table", "same-filled"];
    let kinds = || {
        let found = json(&[&file], &options);
        let gains = found["rows"]["gain"].as_array().unwrap().len();
        assert_eq!(gains, 6, "three codecs, two kinds");
        let row = &found["rows"]["kinds"][0];
        ["file_pages", "zero_pages", "same_filled_pages"].map(|key| row[key].as_u64().unwrap())
    };
    assert_eq!(kinds(), [48, 2, 4]);
    // The file is a sample of 100 pages with content; 50 zero pages and 10 others were left out.
    note(&file, 48, 100, 50, 10);
    assert_eq!(kinds(), [160, 52, 14]);
    // A note to another file is no note to this.
    note(&file, 47, 100, 50, 10);
    let refused = eval(&[&file], &options);
    assert_eq!(refused.status.code(), Some(125));
    assert!(
        stderr(&refused).contains("is no note of coldpress capture to the file of pages beside it")
    );
}
