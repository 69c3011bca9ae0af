//! Test: `docs/cli.md` and the documents beside it name the sub-commands, options, variables and columns that there are,
//! and `docs/cli.md` names all of them.

use crate::arguments;
use crate::columns::COLUMNS;
use crate::in_force::CONFIG_VARIABLE;
use crate::preload_library;
use crate::settings::SETTINGS;
use clap::Command;
use coldpress_interface::config;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Variables in documents that are no setting of a user's: of tests, and constants of C.
const OTHERS: [&str; 4] = [
    "COLDPRESS_READS",
    "COLDPRESS_LATENCY_SENSITIVE",
    "COLDPRESS_WRITE_DOCS",
    "COLDPRESS_FORBID_SKIPS",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Each sub-command that is shown, by its whole name: `disk serve`.
fn sub_commands() -> BTreeMap<String, Command> {
    fn add(parent: &Command, before: &str, found: &mut BTreeMap<String, Command>) {
        for command in parent.get_subcommands() {
            let name = format!("{before}{}", command.get_name());
            if command.get_name() == "help" || command.is_hide_set() {
                continue;
            }
            add(command, &format!("{name} "), found);
            found.insert(name, command.clone());
        }
    }
    let mut found = BTreeMap::new();
    add(&arguments::definition(), "", &mut found);
    found
}

fn options(command: &Command) -> BTreeSet<String> {
    let shown = command
        .get_arguments()
        .filter(|option| !option.is_hide_set());
    let named = shown.filter_map(|option| Some(format!("--{}", option.get_long()?)));
    named
        .filter(|name| name != "--help" && name != "--version")
        .collect()
}

/// What a document has as code: the lines of its blocks, and its spans, each on one line.
fn code(text: &str) -> Vec<String> {
    let (mut found, mut prose, mut is_block) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
            prose += "\n";
        } else if is_block {
            found.push(line.to_owned());
        } else {
            prose += line;
            prose += if line.is_empty() { "\n" } else { " " };
        }
    }
    for paragraph in prose.split('\n') {
        let spans = paragraph.split('`').skip(1).step_by(2);
        found.extend(spans.map(str::to_owned));
    }
    found
}

/// The options that a piece of code names, up to the command line of another program.
fn named_options(code: &str) -> impl Iterator<Item = &str> {
    let own = code.split(" -- ").next().unwrap_or("");
    let words = own.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

/// The sections of `docs/cli.md` in which a sub-command is explained.
fn sections(text: &str, name: &str) -> Vec<String> {
    let first = name.split(' ').next().unwrap_or(name);
    let heading = match first {
        "settings" => "Settings in files".to_owned(),
        _ => format!("`coldpress {first}"),
    };
    let all = text.split("\n## ").skip(1);
    let matching = all.filter(|section| section.lines().next().unwrap_or("").contains(&heading));
    matching.map(str::to_owned).collect()
}

#[test]
fn every_option_is_documented() {
    let text = read("docs/cli.md");
    let mut missing = Vec::new();
    for (name, command) in sub_commands() {
        let sections = sections(&text, &name);
        assert!(!sections.is_empty(), "docs/cli.md has no section on {name}");
        let code: Vec<String> = sections.iter().flat_map(|section| code(section)).collect();
        let named: BTreeSet<&str> = code.iter().flat_map(|code| named_options(code)).collect();
        let absent = options(&command)
            .into_iter()
            .filter(|option| !named.contains(&**option));
        missing.extend(absent.map(|option| format!("{name} {option}")));
    }
    assert!(missing.is_empty(), "not in docs/cli.md: {missing:?}");
}

#[test]
fn every_documented_option_exists() {
    let commands = sub_commands();
    let text = read("docs/cli.md");
    let mut unknown = BTreeSet::new();
    for section in text.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or("");
        // Options of the section's own commands, and of those that a line names; `--version` is of none.
        let of_heading = |name: &str| {
            let first = name.split(' ').next().unwrap_or(name);
            heading.contains(&format!("`coldpress {first}"))
                || heading.contains(&format!("`{name}`"))
                || heading == "Settings in files" && ["settings", "run"].contains(&name)
        };
        let own: BTreeSet<String> = commands
            .iter()
            .filter(|(name, _)| of_heading(name))
            .flat_map(|(_, command)| options(command))
            .chain(["--version".to_owned(), "--help".to_owned()])
            .collect();
        for code in code(section) {
            let others = ["cargo ", "redis-cli", "redis.call", "aws s3"];
            if others.iter().any(|other| code.contains(other)) {
                continue;
            }
            let of_line = |option: &str| {
                let names = commands.keys().filter(|name| code.contains(&***name));
                names
                    .into_iter()
                    .any(|name| options(&commands[name]).contains(option))
            };
            let strange = named_options(&code)
                .filter(|option| !own.contains(*option) && !of_line(option))
                .map(|option| format!("{heading}: {option}"));
            unknown.extend(strange);
        }
    }
    assert!(
        unknown.is_empty(),
        "in docs/cli.md, and no option: {unknown:?}"
    );
}

/// Documents that are read for what they say of the command.
fn documents() -> Vec<String> {
    let folder = fs::read_dir(root().join("docs")).unwrap();
    let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let docs = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"));
    docs.chain(["README.md".to_owned(), "crates/cli/README.md".to_owned()])
        .collect()
}

#[test]
fn what_documents_type_exists() {
    let definition = arguments::definition();
    let (mut unknown, mut typed) = (Vec::new(), 0);
    for document in documents() {
        for line in code(&read(&document)) {
            let line = line
                .trim_start_matches(['$', ' '])
                .trim_start_matches("sudo ");
            let Some(rest) = line.strip_prefix("coldpress ") else {
                continue;
            };
            let is_word =
                |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
            let words: Vec<&str> = rest.split(' ').take_while(is_word).collect();
            let Some(command) = words
                .first()
                .and_then(|word| definition.find_subcommand(word))
            else {
                // What `coldpress --version` and `coldpress top` print begins like a command.
                let is_output = rest.starts_with([' ', '-', '0']);
                unknown.extend((!is_output).then(|| format!("{document}: {line}")));
                continue;
            };
            typed += 1;
            let inner = words.get(1).and_then(|word| command.find_subcommand(word));
            let known = options(inner.unwrap_or(command));
            let strange = named_options(rest)
                .filter(|option| !known.contains(*option) && *option != "--help");
            unknown.extend(strange.map(|option| format!("{document}: {line}: {option}")));
        }
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
    assert!(typed > 60, "{typed}");
}

#[test]
fn variables_are_those_that_are_read() {
    let mut read_by_us: BTreeSet<String> =
        SETTINGS.iter().map(|setting| setting.variable()).collect();
    let others = [
        CONFIG_VARIABLE,
        preload_library::VARIABLE,
        config::STATISTICS_DIR,
        config::DEVICE_FD,
        config::CHAOS,
        config::TRACE_LOCKS,
        config::TRACE_FAULTS,
    ];
    read_by_us.extend(others.map(str::to_owned));
    let named = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        let variables = words.filter(|word| word.starts_with("COLDPRESS_") && !word.ends_with('_'));
        variables.map(str::to_owned).collect()
    };
    let manual = named(&read("docs/cli.md"));
    let missing: Vec<_> = read_by_us.difference(&manual).collect();
    assert!(missing.is_empty(), "not in docs/cli.md: {missing:?}");
    for document in documents() {
        let unknown: Vec<_> = named(&read(&document))
            .into_iter()
            .filter(|name| !read_by_us.contains(name) && !OTHERS.contains(&&**name))
            .collect();
        assert!(
            unknown.is_empty(),
            "{document}: {unknown:?} is read by nothing"
        );
    }
}

#[test]
fn columns_are_those_of_status() {
    let sections = sections(&read("docs/cli.md"), "status");
    let rows = sections[0].lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let documented: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let unique: BTreeSet<&str> = documented.iter().copied().collect();
    assert_eq!(unique.len(), documented.len(), "a column has two rows");
    let columns: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(unique, columns);
}

#[test]
fn options_are_found_where_they_are_typed() {
    let text = "Use `--one` and `a --two=3 -- b --three`.\n\n```sh\nc --four X\n```\n--five is no code, `nor\n--six` one\n";
    let code = code(text);
    let found: Vec<&str> = code.iter().flat_map(|code| named_options(code)).collect();
    assert_eq!(found, ["--four", "--one", "--two", "--six"]);
}
