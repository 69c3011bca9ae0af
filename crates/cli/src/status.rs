//! `coldpress status`: the processes under a pager, as a table, in detail, or as JSON.

use crate::by_mapping;
use crate::columns::{self, Column, Sizes};
use crate::detail;
use crate::grid::{self, Headings};
use crate::help;
use crate::managed;
use crate::messages;
use crate::own_name;
use crate::pid::are_pids;
use crate::process;
use crate::refusal::Refusal;
use crate::report;
use crate::statistics_file::{Copy, Live, Run, Unusable};
use crate::streams::{PREFIX, print, say};
use clap::Args;
use coldpress_interface::figures::Figures;
use coldpress_interface::statistics::Statistics;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Arguments of `coldpress status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// Show these processes; a single one in detail
    #[arg(value_name = "PID|PROGRAM")]
    processes: Vec<String>,
    /// Print sizes in bytes
    #[arg(short, long)]
    bytes: bool,
    /// Print also what it costs a single process: faults, waits, CPU time, what storage is made of
    #[arg(short, long)]
    verbose: bool,
    /// Print everything: of a single process each figure and tunable, of several all columns
    #[arg(long, conflicts_with_all = ["output", "verbose"])]
    all: bool,
    /// Print no headings
    #[arg(short, long)]
    noheadings: bool,
    /// Columns to print, in this order; with a + before them, behind the default ones
    #[arg(short, long, value_name = "LIST", value_parser = parse_output)]
    output: Option<Output>,
    /// Print all columns
    #[arg(long, conflicts_with = "output")]
    output_all: bool,
    /// Print cells with one blank in between, for programs; blanks in them as \x20
    #[arg(long)]
    raw: bool,
    /// Print JSON (raw bytes and nanoseconds): everything, or the columns asked for
    #[arg(long, conflicts_with = "raw")]
    json: bool,
}

/// The columns asked for.
#[derive(Clone)]
struct Output(Vec<&'static Column>);

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|c| c.name))
            .finish()
    }
}

fn parse_output(list: &str) -> Result<Output, String> {
    columns::parse(list).map(Output)
}

impl StatusArguments {
    /// The columns asked for, if any were.
    fn columns(&self) -> Option<Vec<&'static Column>> {
        match &self.output {
            Some(output) => Some(output.0.clone()),
            None => self.output_all.then(|| columns::COLUMNS.iter().collect()),
        }
    }

    /// How much of a single process is shown.
    fn depth(&self) -> detail::Depth {
        match (self.all, self.verbose) {
            (true, _) => detail::Depth::All,
            (_, true) => detail::Depth::Costs,
            _ => detail::Depth::Glance,
        }
    }
}

/// Shows all managed processes, some, or one in detail.
pub fn status(arguments: &StatusArguments) -> Result<u8, Refusal> {
    if arguments.processes.is_empty() {
        let runs = managed::runs();
        tell_untold(&runs);
        all(&managed::all(runs), arguments)?;
        return Ok(0);
    }
    let mut found: Vec<Live> = Vec::new();
    for wanted in &arguments.processes {
        for file in managed::named(wanted)? {
            if !found.iter().any(|other| other.pid == file.pid) {
                found.push(file);
            }
        }
    }
    // A list is a list for programs, however many it names today.
    let by_number = are_pids(&arguments.processes);
    match found.as_slice() {
        [file] if by_number || !arguments.json => one(file, arguments)?,
        files => all(files, arguments)?,
    }
    Ok(0)
}

/// What the pagers of runs have said whose `coldpress run` was killed.
fn tell_untold(runs: &[Run]) {
    let unsupervised = runs.iter().filter(|run| run.is_unsupervised);
    for head in unsupervised.filter_map(|run| run.head.as_deref()) {
        for line in messages::untold(head) {
            say!("{}", line.trim_end().trim_start_matches(PREFIX));
        }
    }
}

/// The file's statistics, or why it has none.
fn statistics(file: &Live) -> Result<&Statistics, String> {
    let copy = file.copy.as_ref().map_err(Unusable::to_string)?;
    copy.statistics(file.pid).map_err(|error| error.to_string())
}

fn figures(file: &Live) -> Result<&Figures, String> {
    let copy = file.copy.as_ref().map_err(Unusable::to_string)?;
    Ok(copy.figures())
}

fn one(file: &Live, arguments: &StatusArguments) -> Result<(), Refusal> {
    let pid = file.pid;
    let unusable = |error| Refusal::new(format!("{}: not usable: {error}", file.path.display()));
    let seen = statistics(file).map_err(unusable)?;
    let columns = arguments.columns();
    if columns.is_some() || arguments.raw || arguments.noheadings {
        return print_table(&[seen], columns, arguments, Shape::One);
    }
    let mappings = by_mapping::ask(file);
    let program = process::name(pid);
    if arguments.json {
        let mut object = report::to_json(&program, seen, figures(file).map_err(unusable)?);
        let lines = mappings.as_deref().map_or(Value::Null, by_mapping::to_json);
        object.insert("mappings".to_owned(), lines);
        print(&format!("{:#}\n", Value::from(object)))
    } else {
        let figures = figures(file).map_err(unusable)?;
        print(&detail::detail(
            &program,
            seen,
            figures,
            mappings,
            detail::Style {
                sizes: sizes(arguments),
                depth: arguments.depth(),
                width: help::table_width(),
            },
        ))
    }
}

/// Whether a process whose page could not be used was only about to begin or to end.
fn is_on_its_way(file: &Live) -> bool {
    /// Beginning and ending take less.
    const MOMENT: Duration = Duration::from_millis(20);
    std::thread::sleep(MOMENT);
    let again = || Copy::of(&File::open(&file.path).ok()?, file.slot).ok();
    !Path::new(&format!("/proc/{}", file.pid)).exists()
        || again().is_some_and(|copy| copy.statistics(file.pid).is_ok())
}

fn all(live: &[Live], arguments: &StatusArguments) -> Result<(), Refusal> {
    let mut seen = Vec::new();
    for file in live {
        match statistics(file) {
            Ok(statistics) => seen.push(statistics),
            Err(_) if is_on_its_way(file) => {}
            Err(error) => say!("{}: skipped: {error}", file.path.display()),
        }
    }
    let columns = arguments.columns().or_else(|| {
        let is_all = arguments.all && !arguments.json;
        is_all.then(|| columns::COLUMNS.iter().collect())
    });
    if arguments.json && columns.is_none() {
        let objects = live.iter().filter_map(|file| {
            let (seen, figures) = (statistics(file).ok()?, figures(file).ok()?);
            let program = process::name(file.pid);
            Some(Value::from(report::to_json(&program, seen, figures)))
        });
        print(&format!("{:#}\n", objects.collect::<Value>()))
    } else if seen.is_empty() && !arguments.json {
        say!("{}", nothing_to_show());
        Ok(())
    } else {
        print_table(&seen, columns, arguments, Shape::List)
    }
}

/// That there is no process under a pager, and how there is one.
pub fn nothing_to_show() -> String {
    let name = own_name::get();
    format!("no program of yours runs under Coldpress; start one with: {name} run -- PROGRAM")
}

/// The table of all, as it is printed where nobody asks for columns.
#[cfg(feature = "top")]
pub fn table_of(live: &[Live]) -> String {
    let seen: Vec<&Statistics> = live
        .iter()
        .filter_map(|file| statistics(file).ok())
        .collect();
    let columns = columns::default();
    let headings: Vec<(&str, bool)> = columns.iter().map(|c| (c.name, c.is_text())).collect();
    let row = |s: &&Statistics| {
        columns
            .iter()
            .map(|c| (c.value)(s).text(Sizes::WithUnit))
            .collect()
    };
    grid::aligned(&headings, Headings::Shown, seen.iter().map(row).collect())
}

/// What JSON of processes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The object of the one that was named.
    One,
    /// A list of objects.
    List,
}

fn sizes(arguments: &StatusArguments) -> Sizes {
    if arguments.bytes {
        Sizes::Bytes
    } else {
        Sizes::WithUnit
    }
}

fn print_table(
    seen: &[&Statistics],
    columns: Option<Vec<&'static Column>>,
    arguments: &StatusArguments,
    shape: Shape,
) -> Result<(), Refusal> {
    let columns = columns.unwrap_or_else(columns::default);
    if arguments.json {
        let objects: Vec<Value> = seen.iter().map(|s| object(s, &columns)).collect();
        match shape {
            Shape::One => print(&format!("{:#}\n", objects[0])),
            Shape::List => print(&format!("{:#}\n", json!(objects))),
        }
    } else {
        print(&table(seen, &columns, arguments))?;
        let is_read = help::table_width().is_some() && !arguments.raw;
        if is_read && columns.iter().any(|c| c.name == "SAVED") && seen.iter().any(takes_more) {
            say!("SAVED below 0: the pager takes more than it saves, so far");
        }
        Ok(())
    }
}

/// Whether a program holds more than it would natively.
fn takes_more(s: &&Statistics) -> bool {
    s.total_bytes.load(Relaxed) > s.content_bytes.load(Relaxed)
}

fn object(s: &Statistics, columns: &[&'static Column]) -> Value {
    let pairs = columns
        .iter()
        .map(|column| (column.key(), (column.value)(s).json()));
    Value::from(pairs.collect::<Map<String, Value>>())
}

fn table(seen: &[&Statistics], columns: &[&'static Column], arguments: &StatusArguments) -> String {
    let cell = |s: &Statistics, column: &Column| {
        let value = (column.value)(s);
        if arguments.raw {
            value.raw_text(sizes(arguments))
        } else {
            value.text(sizes(arguments))
        }
    };
    let row = |s: &&Statistics| columns.iter().map(|column| cell(s, column)).collect();
    let rows: Vec<Vec<String>> = seen.iter().map(row).collect();
    let headings: Vec<(&str, bool)> = columns.iter().map(|c| (c.name, c.is_text())).collect();
    let shown = if arguments.noheadings {
        Headings::Hidden
    } else {
        Headings::Shown
    };
    if arguments.raw {
        grid::raw(&headings, shown, rows)
    } else {
        grid::aligned(&headings, shown, rows)
    }
}
