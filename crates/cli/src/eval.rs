//! `coldpress eval`: measures codecs and storages on captured pages.

use crate::eval_arguments::EvalArguments;
use crate::help::table_width;
use crate::output_file;
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::streams::print;
use coldpress_eval::{Progress, plot, run, tables};

/// Prints the report; with `--plot` draws it too.
pub fn eval(arguments: &EvalArguments) -> Result<u8, Refusal> {
    let plot_on_output = arguments
        .plot
        .as_deref()
        .is_some_and(output_file::is_standard_output);
    output_file::one_on_standard_output(&[
        ("--json", arguments.json),
        ("--plot -", plot_on_output),
    ])?;
    if let Some(path) = &arguments.plot {
        output_file::check(path)?;
    }
    let mut shown = Shown(Bar::new());
    let options = arguments.options();
    let options = match arguments.table {
        Some(table) => table.options(options),
        None => options,
    };
    let report = run(&arguments.files, &options, &mut shown)
        .map_err(|error| Refusal::new(error.to_string()))?;
    drop(shown);
    if let Some(path) = &arguments.plot {
        output_file::write(path, plot(&report).as_bytes())?;
    }
    match (arguments.table, arguments.json) {
        (Some(table), true) => print(&format!("{:#}\n", table.json(&report)))?,
        (Some(table), false) => print(&table.text(&report, table_width()))?,
        (None, true) => print(&format!("{:#}\n", serde_json::json!(report)))?,
        (None, false) if plot_on_output => {}
        (None, false) => print(&tables(&report, table_width()))?,
    }
    Ok(0)
}

/// Progress on the terminal.
struct Shown(Bar);

impl Progress for Shown {
    fn begin(&mut self, what: &str, steps: u64) {
        self.0.begin(what, steps);
    }

    fn advance(&mut self, steps: u64) {
        self.0.advance(steps);
    }
}
