//! A process's memory, held and content, by mapping: what the kernel says is in place, joined with what the pager
//! remembers.
//!
//! Every page that the process holds is in one line: of a mapping that the pager manages, of what it does not manage,
//! of compressed storage, or of the pager itself. So the lines add up to what is held in all, which the budget
//! limits, and to the content, which is what the process would hold natively.

use crate::ask;
use crate::smaps::{self, Vma};
use crate::statistics_file::Live;
use coldpress_interface::control::{MAPPINGS, Request};
use coldpress_interface::mappings::{Mapping, Mappings};
use coldpress_interface::statistics::Statistics;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// How long a process is waited for to say what it remembers of each mapping.
const PATIENCE: Duration = Duration::from_millis(1_000);

const PAGE_BYTES: u64 = 4096;

/// A line of the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// First address and first address behind it; `None` for several mappings together.
    pub range: Option<(u64, u64)>,
    /// What it is.
    pub name: String,
    /// Memory of the program held in pages.
    pub committed_bytes: u64,
    /// Memory that Coldpress holds: storage, or the pager.
    pub own_bytes: u64,
    /// Content that is compressed.
    pub compressed_bytes: u64,
    /// Content held as markers.
    pub same_filled_bytes: u64,
}

impl Line {
    /// Memory held, of the program or for it.
    pub fn held_bytes(&self) -> u64 {
        self.committed_bytes + self.own_bytes
    }

    /// Memory of the program, remembered in any form.
    pub fn content_bytes(&self) -> u64 {
        self.committed_bytes + self.compressed_bytes + self.same_filled_bytes
    }

    fn of(mapping: &Mapping, name: String, committed_bytes: u64) -> Self {
        Self {
            range: Some((mapping.start, mapping.end)),
            name,
            committed_bytes,
            own_bytes: 0,
            compressed_bytes: mapping.compressed_pages * PAGE_BYTES,
            same_filled_bytes: mapping.same_filled_pages * PAGE_BYTES,
        }
    }

    fn add(&mut self, other: &Self) {
        self.committed_bytes += other.committed_bytes;
        self.own_bytes += other.own_bytes;
        self.compressed_bytes += other.compressed_bytes;
        self.same_filled_bytes += other.same_filled_bytes;
    }

    fn to_json(&self) -> Value {
        let address = |n: u64| format!("{n:#x}");
        json!({
            "start": self.range.map(|(start, _)| address(start)),
            "end": self.range.map(|(_, end)| address(end)),
            "name": self.name,
            "held_bytes": self.held_bytes(),
            "committed_bytes": self.committed_bytes,
            "compressed_bytes": self.compressed_bytes,
            "same_filled_bytes": self.same_filled_bytes,
            "content_bytes": self.content_bytes(),
        })
    }
}

/// What each mapping of a process holds, or why that is not known.
pub fn ask(file: &Live) -> Result<Vec<Line>, String> {
    let request = Request {
        keys: MAPPINGS,
        ..Request::default()
    };
    let answer = ask::ask(file, &request, PATIENCE).map_err(|why| why.in_one_line().to_string())?;
    let vmas = smaps::read(file.pid)
        .map_err(|error| format!("/proc/{}/smaps cannot be read: {error}", file.pid))?;
    let statistics = answer.after.statistics(file.pid);
    let statistics = statistics.map_err(|error| error.to_string())?;
    Ok(join(answer.after.mappings(), &vmas, Own::of(statistics)))
}

/// Memory that Coldpress holds in a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// Compressed storage.
    pub storage_bytes: u64,
    /// Tables, staging and stacks of the pager.
    pub pager_bytes: u64,
}

impl Own {
    /// As the pager counts it.
    pub fn of(s: &Statistics) -> Self {
        Self {
            storage_bytes: s.storage_bytes.load(Relaxed),
            pager_bytes: s.overhead_bytes.load(Relaxed),
        }
    }

    fn lines(self) -> [Line; 2] {
        let line = |name: &str, own_bytes| Line {
            name: name.to_owned(),
            own_bytes,
            ..Line::default()
        };
        [
            line("compressed storage", self.storage_bytes),
            line("the pager", self.pager_bytes),
        ]
    }
}

/// What is held where the mappings are not known: the program's pages in one line.
pub fn unknown(s: &Statistics) -> Vec<Line> {
    let get = |word: &AtomicU64| word.load(Relaxed);
    let pages = Line {
        name: "the program".to_owned(),
        committed_bytes: get(&s.committed_bytes),
        compressed_bytes: get(&s.stored_content_bytes),
        same_filled_bytes: get(&s.same_filled_bytes),
        ..Line::default()
    };
    [pages].into_iter().chain(Own::of(s).lines()).collect()
}

/// All lines together.
pub fn total(lines: &[Line]) -> Line {
    let mut total = Line {
        name: "total".to_owned(),
        ..Line::default()
    };
    lines.iter().for_each(|line| total.add(line));
    total
}

/// Joins both: the mappings that the pager manages, those with the most content first; then all that
/// have no line of their own; then what is not managed; then what Coldpress holds.
pub fn join(managed: &Mappings, vmas: &[Vma], own: Own) -> Vec<Line> {
    let mut elsewhere = Line {
        name: "not managed".to_owned(),
        ..Line::default()
    };
    let mut used = vec![false; vmas.len()];
    let mut lines: Vec<Line> = Vec::new();
    for mapping in managed.rows() {
        let (mut committed, mut name) = (0, String::new());
        for (vma, used) in vmas.iter().zip(&mut used) {
            if vma.start >= mapping.start && vma.end <= mapping.end {
                committed += vma.anonymous_bytes;
                *used = true;
                if name.is_empty() {
                    name.clone_from(&vma.name);
                }
            }
        }
        lines.push(Line::of(&mapping, name, committed));
    }
    for (vma, _) in vmas.iter().zip(used).filter(|(_, used)| !used) {
        elsewhere.committed_bytes += vma.anonymous_bytes;
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.content_bytes()));
    let (mappings, rest) = managed.rest();
    if mappings > 0 {
        // Which of the kernel's mappings these are is not known: of pages, the pager's count.
        let committed = rest.in_place_pages * PAGE_BYTES;
        let mut rest = Line::of(&rest, format!("{mappings} more, smaller"), committed);
        rest.range = None;
        elsewhere.committed_bytes = elsewhere.committed_bytes.saturating_sub(committed);
        lines.push(rest);
    }
    // Storage and the pager are in the kernel's mappings, too, in none that is managed.
    let ours = own.storage_bytes + own.pager_bytes;
    elsewhere.committed_bytes = elsewhere.committed_bytes.saturating_sub(ours);
    lines.push(elsewhere);
    lines.extend(own.lines());
    lines
}

/// The lines with at most `most` mappings by themselves.
pub fn shortened(lines: Vec<Line>, most: usize) -> Vec<Line> {
    let (single, mut sums): (Vec<Line>, Vec<Line>) =
        lines.into_iter().partition(|line| line.range.is_some());
    let mut kept = single;
    let small = kept.split_off(most.min(kept.len()));
    if !small.is_empty() {
        let mut rest = Line {
            name: format!("{} more, smaller", small.len()),
            ..Line::default()
        };
        small.iter().for_each(|line| rest.add(line));
        kept.push(rest);
    }
    kept.append(&mut sums);
    kept
}

/// For programs.
pub fn to_json(lines: &[Line]) -> Value {
    lines.iter().map(Line::to_json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vma(start: u64, end: u64, name: &str) -> Vma {
        Vma {
            start,
            end,
            name: name.to_owned(),
            anonymous_bytes: 1000,
            ..Vma::default()
        }
    }

    #[test]
    fn the_kernels_pages_and_the_pagers_memory_are_joined() {
        let managed = Mappings::new();
        let mapping = |start, end, compressed_pages| Mapping {
            start,
            end,
            in_place_pages: 1,
            compressed_pages,
            same_filled_pages: 2,
        };
        managed.fill([mapping(10, 20, 1), mapping(40, 60, 3)].into_iter());
        let vmas = [
            vma(0, 10, "[heap]"),
            vma(10, 15, ""),
            vma(15, 20, "[anon:x]"),
            vma(40, 60, ""),
            vma(70, 80, "[stack]"),
        ];
        let own = Own {
            storage_bytes: 400,
            pager_bytes: 100,
        };
        let lines = join(&managed, &vmas, own);
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0].range, Some((40, 60)), "the most content first");
        assert_eq!(lines[0].content_bytes(), 1000 + 5 * 4096);
        assert_eq!(
            (lines[1].committed_bytes, lines[1].name.as_str()),
            (2000, "[anon:x]")
        );
        assert_eq!((lines[2].range, lines[2].committed_bytes), (None, 1500));
        let sum = total(&lines);
        assert_eq!(sum.held_bytes(), 5000, "all that the kernel counts");
        assert_eq!(sum.content_bytes(), 4500 + 8 * 4096);

        let short = shortened(lines.clone(), 1);
        assert_eq!(short.len(), 5);
        assert_eq!(total(&short), sum);
        assert_eq!(short[1].name, "1 more, smaller");
        assert_eq!(short[1].content_bytes(), lines[1].content_bytes());
        assert_eq!(shortened(lines.clone(), 20), lines);
        assert_eq!(to_json(&lines)[0]["start"], "0x28");
    }
}
