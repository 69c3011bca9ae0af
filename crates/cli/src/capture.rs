//! `coldpress capture`: samples the private anonymous pages of a live process into a file.
//!
//! The file is nothing but pages, 4096 bytes each, in the order of their addresses. Zero pages
//! and other same-filled ones are counted and left out; the counts stand beside it in `FILE.json`,
//! where `coldpress eval` finds them. The process runs on meanwhile, so the
//! pages are not of one moment, and one that changes while it is read may hold bytes of both.

use crate::anonymous_pages::{AnonymousPages, PAGE_BYTES, Vanished};
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
    let process = AnonymousPages::open(pid)?;
    if managed::find(pid).is_ok() {
        say!(
            "process {pid} runs under Coldpress: what is compressed is not captured, but the pager's storage is; pages as \
             they are come from a run without it"
        );
    }
    let mut output = OutputFile::create(&arguments.output)?;
    let bar = Bar::new();
    let present = process.present()?;
    let present_count = present.len() as u64;
    let limit_pages = arguments.limit.map(|bytes| bytes / PAGE_BYTES as u64);
    let mut notes = Vec::new();
    let mut wanted = present;
    if let Some(milliseconds) = arguments.inactive {
        let looked_at = inactive::candidates(wanted, limit_pages);
        let count = looked_at.len() as u64;
        wanted = inactive::untouched(&process, looked_at, milliseconds, &bar)?;
        notes.push(format!(
            "{} of {} looked at were untouched",
            format_count(wanted.len() as u64),
            format_count(count)
        ));
    }
    let mut counts = Counts::default();
    if let Some(limit) = limit_pages {
        // Which pages are same-filled has to be known before the rest can be spread evenly.
        let mut kept = Vec::new();
        let mut keep = |address, _: &[u8]| {
            kept.push(address);
            Ok(())
        };
        read(
            &process,
            &wanted,
            "looking at pages",
            &bar,
            &mut counts,
            &mut keep,
        )?;
        if kept.len() as u64 > limit {
            let beyond = kept.len() as u64 - limit;
            notes.push(format!("{} beyond the limit", format_count(beyond)));
        }
        wanted = spread(kept, limit);
    }
    let mut seen_again = Counts::default();
    let mut write = |_, page: &[u8]| output.append(page);
    let counted = if limit_pages.is_some() {
        &mut seen_again
    } else {
        &mut counts
    };
    read(&process, &wanted, "capturing", &bar, counted, &mut write)?;
    let written = counted.written;
    counts.gone += seen_again.gone;
    drop(bar);
    if written == 0 {
        return Err(Refusal::new(format!(
            "nothing to capture: of {} private anonymous pages of process {pid} ({}) none is left{}",
            format_count(present_count),
            process::name(pid),
            left_out(&counts, &notes)
        )));
    }
    output.finish()?;
    let mut note = Captured::new(process::name(pid), arguments.inactive);
    note.written_pages = written;
    note.content_pages = counts.written.max(written);
    note.zero_pages = counts.zero;
    note.same_filled_pages = counts.same_filled;
    // Beside a pipe or a device there is no place for it.
    if arguments.output.is_file() {
        let text = format!("{:#}\n", serde_json::json!(note));
        output_file::write(&Captured::path(&arguments.output), text.as_bytes())?;
    }
    let said = format!(
        "{} pages ({}) of {} private anonymous pages of process {pid} ({}){}",
        format_count(written),
        format_bytes(written * PAGE_BYTES as u64),
        format_count(present_count),
        process::name(pid),
        left_out(&counts, &notes)
    );
    match output_file::is_dash(&arguments.output) {
        true => say!("{said}"),
        false => {
            let shown = arguments.output.display().to_string();
            print(&format!("{}: {said}\n", visible(&shown)))?;
        }
    }
    Ok(0)
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
