//! `coldpress manual [PAGE|--to DIR]`: manual pages, made of the definition of the command line.
//!
//! One page for the command and one for each sub-command that help shows. Packagers write them to files, and so does a
//! user after `cargo install`. What help shows behind the options becomes sections of its own. The pages say nothing
//! of the machine that they are made on.

use crate::arguments;
use crate::output_file;
use crate::refusal::Refusal;
use crate::streams;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::Path;

/// Prints the page of that name, or the names of all pages; or writes all into a directory.
pub fn manual(name: Option<&str>, to: Option<&Path>) -> Result<u8, Refusal> {
    let pages = pages();
    let text = match (name, to) {
        (_, Some(directory)) => return write(&pages, directory),
        (None, None) => pages.iter().map(|page| page.name() + "\n").collect(),
        (Some(name), None) => {
            let full = format!("coldpress-{name}");
            let page = pages
                .iter()
                .find(|page| [name, &full].contains(&&*page.name()));
            let missing = || {
                Refusal::new(format!("there is no manual page {name:?}"))
                    .mend("Their names: coldpress manual")
            };
            page.ok_or_else(missing)?.text()
        }
    };
    streams::print(&text)?;
    Ok(0)
}

/// Where `man` looks for them: a directory `man1` of its path, made if it is not there.
fn write(pages: &[Page], directory: &Path) -> Result<u8, Refusal> {
    let made = fs::create_dir_all(directory);
    made.map_err(|error| {
        Refusal::new(format!(
            "cannot make the directory {}: {error}",
            directory.display()
        ))
    })?;
    for page in pages {
        output_file::write(&directory.join(page.name() + ".1"), page.text().as_bytes())?;
    }
    streams::print(&format!(
        "{} manual pages in {}\n",
        pages.len(),
        directory.display()
    ))?;
    Ok(0)
}

/// A page: the command that it is of.
struct Page(Command);

/// All pages, that of the command itself first.
fn pages() -> Vec<Page> {
    let mut all = arguments::definition().disable_help_subcommand(true);
    all.build();
    let mut pages = Vec::new();
    collect(&all, &mut pages);
    pages
}

fn collect(command: &Command, pages: &mut Vec<Page>) {
    pages.push(Page(command.clone()));
    for command in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        collect(command, pages);
    }
}

impl Page {
    /// As `man` is asked for it: `coldpress-run`.
    fn name(&self) -> String {
        let name = self.0.get_display_name();
        name.unwrap_or(self.0.get_name()).to_owned()
    }

    /// The page in roff.
    fn text(&self) -> String {
        let behind = self.0.get_after_long_help().or(self.0.get_after_help());
        let behind = behind.map(ToString::to_string).unwrap_or_default();
        let source = concat!("coldpress ", env!("CARGO_PKG_VERSION"));
        let man = Man::new(self.0.clone()).source(source);
        let mut text = Vec::new();
        let written = (|| -> io::Result<()> {
            man.render_title(&mut text)?;
            // Names of variables and files are not broken.
            Roff::new().control("nh", []).to_writer(&mut text)?;
            man.render_name_section(&mut text)?;
            man.render_synopsis_section(&mut text)?;
            man.render_description_section(&mut text)?;
            if self
                .0
                .get_arguments()
                .any(|argument| !argument.is_hide_set())
            {
                man.render_options_section(&mut text)?;
            }
            if self.0.has_subcommands() {
                man.render_subcommands_section(&mut text)?;
            }
            sections(&behind).to_writer(&mut text)?;
            self.see_also().to_writer(&mut text)
        })();
        written.expect("memory takes every write");
        String::from_utf8_lossy(&text).into_owned()
    }

    fn see_also(&self) -> Roff {
        let own = self.name();
        let others = pages().into_iter().map(|page| page.name());
        let others: Vec<String> = others.filter(|name| *name != own).collect();
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        let mut line = Vec::new();
        for (n, name) in others.iter().enumerate() {
            line.push(bold(name));
            let comma = if n + 1 < others.len() { ", " } else { "" };
            line.push(roman(format!("(1){comma}")));
        }
        roff.text(line);
        roff
    }
}

/// What stands behind the options in help: `Examples:` on a line of its own begins a section, lines that are set in
/// stay as they are, prose behind them is a section of notes.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_verbatim = false;
    // There is a section for prose.
    let mut is_begun = false;
    for line in text.lines() {
        let is_set_in = line.starts_with(' ');
        if is_verbatim && !is_set_in {
            roff.control("EE", []);
            (is_verbatim, is_begun) = (false, false);
        }
        let heading = line
            .strip_suffix(':')
            .filter(|heading| !heading.contains(' '));
        if let Some(heading) = heading {
            roff.control("SH", [heading.to_uppercase().as_str()]);
            is_begun = true;
        } else if is_set_in {
            if !is_verbatim {
                roff.control("EX", []);
                is_verbatim = true;
            }
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        } else if line.is_empty() {
            if is_begun {
                roff.control("PP", []);
            }
        } else {
            if !is_begun {
                roff.control("SH", ["NOTES"]);
                is_begun = true;
            }
            roff.text([roman(line)]);
        }
    }
    if is_verbatim {
        roff.control("EE", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sub_command_that_is_shown_has_a_page() {
        let names: Vec<String> = pages().iter().map(Page::name).collect();
        assert_eq!(names[0], "coldpress");
        for command in ["run", "doctor", "settings", "set", "status", "trace"] {
            assert!(names.contains(&format!("coldpress-{command}")), "{names:?}");
        }
        assert!(names.contains(&"coldpress-bench-cache".to_owned()));
    }

    #[test]
    fn what_stands_behind_the_options_becomes_sections() {
        let text = sections("Examples:\n  one two\n  three\n\nProse of\nlines.").to_roff();
        let expected = ".SH EXAMPLES\n.EX\none two\nthree\n.EE\n.SH NOTES\nProse of\nlines.\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn no_page_tells_of_this_machine() {
        for page in pages() {
            let text = page.text();
            assert!(!text.contains("vectors:"), "{}", page.name());
            assert!(text.contains("SEE ALSO"));
        }
    }
}
