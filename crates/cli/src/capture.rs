//! `coldpress capture`: samples the private anonymous pages of a live process into a file.
//!
//! The file is nothing but pages, 4096 bytes each, in the order of their addresses. Zero pages
//! and other same-filled ones are counted and left out; the counts stand beside it in `FILE.json`,
//! where `coldpress eval` finds them. The process runs on meanwhile, so the
//! pages are not of one moment, and one that changes while it is read may hold bytes of both.

use crate::anonymous_pages::{AnonymousPages, PAGE_BYTES, Purpose, Vanished};
use crate::capture_arguments::CaptureArguments;
use crate::inactive;
use crate::managed;
use crate::output_file::{self, OutputFile};
use crate::process;
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::size::{format_bytes, format_count};
use crate::spread::spread;
use crate::streams::{print, say, visible};
use coldpress_eval::Captured;

const PURPOSE: Purpose = Purpose {
    mend: "capture PID -o FILE",
    ended: "ended while it was captured: nothing was written",
};

/// What was met on the way.
#[derive(Debug, Default)]
struct Counts {
    zero: u64,
    same_filled: u64,
    gone: u64,
    written: u64,
}

/// What is done with the address of a page and its bytes.
type Each<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Refusal> + 'a;

/// Captures the process's pages, and tells how many there were.
pub fn capture(arguments: &CaptureArguments) -> Result<u8, Refusal> {
    let pid = arguments.pid;
    let process = AnonymousPages::open(pid, PURPOSE)?;
    if managed::find(pid).is_ok() {
        say!(
            "process {pid} runs under Coldpress: what is compressed is not captured, but the pager's storage is; pages as \
             they are come from a run without it"
        );
    }
    let mut output = OutputFile::create(&arguments.output)?;
    let mut sample = Sample {
        process: &process,
        bar: Bar::new(),
        limit_pages: arguments.limit.map(|bytes| bytes / PAGE_BYTES as u64),
        counts: Counts::default(),
        notes: Vec::new(),
    };
    let present = process.present()?;
    let present_count = format_count(present.len() as u64);
    let wanted = sample.untouched(present, arguments.inactive)?;
    let wanted = sample.within_limit(wanted)?;
    let written = sample.write(&wanted, &mut output)?;
    let Sample {
        bar, counts, notes, ..
    } = sample;
    drop(bar);
    let left_out = left_out(&counts, &notes);
    if written == 0 {
        return Err(Refusal::new(format!(
            "nothing to capture: of {present_count} private anonymous pages of process {pid} ({}) none is left{left_out}",
            process::name(pid),
        )));
    }
    output.finish()?;
    write_note(arguments, &counts, written)?;
    let said = format!(
        "{} pages ({}) of {present_count} private anonymous pages of process {pid} ({}){left_out}",
        format_count(written),
        format_bytes(written * PAGE_BYTES as u64),
        process::name(pid),
    );
    match output_file::is_standard_output(&arguments.output) {
        true => say!("{said}"),
        false => {
            let shown = arguments.output.display().to_string();
            print(&format!("{}: {said}\n", visible(&shown)))?;
        }
    }
    Ok(0)
}

/// A choice of a process's pages, and what was met on the way to it.
struct Sample<'a> {
    process: &'a AnonymousPages,
    bar: Bar,
    /// The most pages to be written.
    limit_pages: Option<u64>,
    counts: Counts,
    /// What is said besides of pages that were left out.
    notes: Vec<String>,
}

impl Sample<'_> {
    /// Of `pages` those that nobody touches for so many milliseconds from now on; all where no time is given.
    fn untouched(
        &mut self,
        pages: Vec<u64>,
        milliseconds: Option<u64>,
    ) -> Result<Vec<u64>, Refusal> {
        let Some(milliseconds) = milliseconds else {
            return Ok(pages);
        };
        let looked_at = inactive::candidates(pages, self.limit_pages);
        let count = looked_at.len() as u64;
        let untouched = inactive::untouched(self.process, looked_at, milliseconds, &self.bar)?;
        self.notes.push(format!(
            "{} of {} looked at were untouched",
            format_count(untouched.len() as u64),
            format_count(count)
        ));
        Ok(untouched)
    }

    /// Spreads the limit over those of `pages` that are not same-filled; all of `pages` where there is no limit.
    fn within_limit(&mut self, pages: Vec<u64>) -> Result<Vec<u64>, Refusal> {
        let Some(limit) = self.limit_pages else {
            return Ok(pages);
        };
        // Which pages are same-filled has to be known before the rest can be spread evenly.
        let mut kept = Vec::new();
        let mut keep = |address, _: &[u8]| {
            kept.push(address);
            Ok(())
        };
        read(
            self.process,
            &pages,
            "looking at pages",
            &self.bar,
            &mut self.counts,
            &mut keep,
        )?;
        if kept.len() as u64 > limit {
            let beyond = kept.len() as u64 - limit;
            self.notes
                .push(format!("{} beyond the limit", format_count(beyond)));
        }
        Ok(spread(kept, limit))
    }

    /// Writes the pages that are not same-filled; returns how many there were. Under a limit all have been counted before.
    fn write(&mut self, pages: &[u64], output: &mut OutputFile) -> Result<u64, Refusal> {
        let mut seen_again = Counts::default();
        let mut write = |_, page: &[u8]| output.append(page);
        let counted = match self.limit_pages {
            Some(_) => &mut seen_again,
            None => &mut self.counts,
        };
        read(
            self.process,
            pages,
            "capturing",
            &self.bar,
            counted,
            &mut write,
        )?;
        let written = counted.written;
        self.counts.gone += seen_again.gone;
        Ok(written)
    }
}

/// Writes beside the file what is in it and what was left out.
fn write_note(arguments: &CaptureArguments, counts: &Counts, written: u64) -> Result<(), Refusal> {
    let mut note = Captured::new(process::name(arguments.pid), arguments.inactive);
    note.written_pages = written;
    note.content_pages = counts.written.max(written);
    note.zero_pages = counts.zero;
    note.same_filled_pages = counts.same_filled;
    // Beside a pipe or a device there is no place for it.
    if arguments.output.is_file() && !output_file::is_standard_output(&arguments.output) {
        let text = format!("{:#}\n", serde_json::json!(note));
        output_file::write(&Captured::path(&arguments.output), text.as_bytes())?;
    }
    Ok(())
}

/// What was not written, as the message goes on.
fn left_out(counts: &Counts, notes: &[String]) -> String {
    let mut parts = vec![
        format!("{} zero", format_count(counts.zero)),
        format!("{} otherwise same-filled", format_count(counts.same_filled)),
    ];
    if counts.gone > 0 {
        parts.push(format!(
            "{} gone before they were read",
            format_count(counts.gone)
        ));
    }
    parts.extend_from_slice(notes);
    format!("; {}", parts.join(", "))
}

/// Reads the pages at `addresses` and gives those that are not same-filled to `each`.
fn read(
    process: &AnonymousPages,
    addresses: &[u64],
    what: &str,
    bar: &Bar,
    counts: &mut Counts,
    each: &mut Each<'_>,
) -> Result<(), Refusal> {
    bar.begin(what, addresses.len() as u64);
    for run in addresses.chunk_by(|one, next| one + PAGE_BYTES as u64 == *next) {
        for run in run.chunks(64) {
            process.read(run, |address, page| {
                match page {
                    Err(Vanished) => counts.gone += 1,
                    Ok(page) => match same_filled(page) {
                        Some(0) => counts.zero += 1,
                        Some(_) => counts.same_filled += 1,
                        None => {
                            counts.written += 1;
                            each(address, page)?;
                        }
                    },
                }
                Ok(())
            })?;
            bar.advance(run.len() as u64);
        }
    }
    Ok(())
}

/// The word that fills a page, if one does.
fn same_filled(page: &[u8]) -> Option<u64> {
    let (words, _) = page.as_chunks::<8>();
    let first = words.first()?;
    words
        .iter()
        .all(|word| word == first)
        .then(|| u64::from_ne_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_filled_pages_are_told() {
        let mut page = vec![7; PAGE_BYTES];
        assert_eq!(same_filled(&page), Some(0x0707_0707_0707_0707));
        page[4095] = 8;
        assert_eq!(same_filled(&page), None);
        assert_eq!(same_filled(&[0; PAGE_BYTES]), Some(0));
    }
}
