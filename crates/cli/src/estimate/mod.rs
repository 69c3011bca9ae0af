//! `coldpress estimate`: what `run` would save, said before it is switched on.
//!
//! Nothing is injected. A process is looked at from outside, for a while: which of its memory the pager would manage,
//! which of that is touched how often, and what a sample of it becomes by the codec and the storage that `run` would
//! use. From these follows what would be held.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`] | which mappings would be managed, and why not the others |
//! | [`survey`] | a process's pages at one moment, and a sample of them |
//! | [`seen`], [`watch`] | what is watched; by which means |
//! | [`referenced`], [`by_page`] | which pages are touched: by the kernel's notes, by DAMON |
//! | [`content`] | what pages hold and would take |
//! | [`model`], [`costs`] | what would be held, without any process; what is taken as given |
//! | [`assemble`] | all of it, of one process |
//! | [`text`], [`commands`], [`json`], [`chart`] | what is printed |
//! | [`all`], [`program`] | all processes; a program that is started, over its life |
//!
//! What it deliberately does not do: change anything of the program, stop it, read swapped memory, guess at what a
//! program will do that it did not do while it was watched.

pub mod all;
pub mod arguments;
mod assemble;
mod by_page;
mod chart;
mod commands;
mod content;
mod costs;
mod json;
mod layout;
mod model;
mod program;
mod referenced;
mod seen;
mod survey;
mod text;
mod watch;

use crate::help;
use crate::managed;
use crate::output_file;
use crate::own_name;
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use crate::streams::print;
use arguments::{Chosen, EstimateArguments};
use assemble::{Estimate, SAMPLE_PAGES};
use seen::Subject;

/// Of what holds less that could be managed nothing is worth telling.
const LEAST_BYTES: u64 = 1 << 20;

/// Tells what would be saved.
pub fn estimate(arguments: &EstimateArguments) -> Result<u8, Refusal> {
    let chosen = arguments.chosen()?;
    if !arguments.program.is_empty() {
        return program::estimate(arguments, chosen);
    }
    let drawn_on_output = arguments
        .svg
        .as_deref()
        .is_some_and(output_file::is_standard_output);
    output_file::one_on_standard_output(&[
        ("--json", arguments.json),
        ("--svg -", drawn_on_output),
    ])?;
    if let Some(path) = &arguments.svg {
        output_file::check(path)?;
    }
    match arguments.pid {
        None => all::estimate(arguments, &chosen),
        Some(pid) => {
            let estimate = one(pid, arguments, &chosen)?;
            if let Some(path) = &arguments.svg {
                output_file::write(path, chart::plot(&estimate).as_bytes())?;
            }
            match arguments.json {
                true => print(&format!("{:#}\n", json::process(&estimate, chosen.budget)))?,
                false if drawn_on_output => {}
                false => print(&text::detail(&estimate, &chosen, help::table_width()))?,
            }
            Ok(0)
        }
    }
}

fn one(pid: u32, arguments: &EstimateArguments, chosen: &Chosen) -> Result<Estimate, Refusal> {
    let subject = Subject::open(pid)?;
    if managed::find(pid).is_ok() {
        return Err(Refusal::new(format!(
            "process {pid} ({}) runs under Coldpress already; what it saves: {} status {pid}",
            subject.name,
            own_name::get()
        )));
    }
    let before = survey::Survey::take(pid, &subject.process)?;
    let managed_bytes = before.managed_pages() * 4096;
    if managed_bytes < LEAST_BYTES {
        return Err(Refusal::new(format!(
            "nothing to estimate: process {pid} ({}) holds {} of private anonymous memory, of which {} could be managed",
            subject.name,
            format_bytes(before.anonymous_bytes),
            format_bytes(managed_bytes)
        )));
    }
    let bar = Bar::new();
    let subjects = [subject];
    let mut seen = watch::watch(&subjects, arguments.ages, arguments.watching(), &bar);
    let seen = seen
        .pop()
        .unwrap_or_else(|| Err(Refusal::new("nothing was seen")))?;
    bar.begin("looking at pages", 1);
    Estimate::of(&subjects[0], seen, chosen.storing, SAMPLE_PAGES)
}
