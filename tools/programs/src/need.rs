//! What a program's pages need: the native run is stopped near its peak and its pages are captured;
//! `coldpress eval` says what they take compressed and packed; `smaps` says what of its memory no
//! pager of ours can manage.
//!
//! Same-filled pages need nothing, pages that do not compress need 4096 bytes, and all others what
//! they take in storage after rounds of freeing and refilling, its tables counted. What can be managed
//! stands in [`is_manageable`], after what the pager's own discovery does.

use anyhow::{Context, Result, bail};
use coldpress_harness::process::Status;
use coldpress_harness::text::mib;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most that is captured of a program, evenly spread over its memory.
const SAMPLE: &str = "64M";
/// Mappings that are smaller are left alone by the pager.
const SMALL_BYTES: u64 = 128 << 10;
/// Anonymous memory behind a file's mapping that is no larger is a data segment.
const DATA_SEGMENT_BYTES: u64 = 1 << 20;
/// A page.
const PAGE: f64 = 4096.0;

/// What a program needs, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Need {
    /// Its private anonymous memory when it was looked at.
    pub resident: u64,
    /// Of that, what the pager cannot manage.
    pub unevictable: u64,
    /// What the rest takes, compressed and packed.
    pub packed: u64,
}

impl Need {
    /// What it will be at the peak: memory that can be managed grows, the rest does not.
    pub fn at_peak(self, peak: u64) -> Need {
        let manageable = self.resident.saturating_sub(self.unevictable).max(1) as f64;
        let grown = peak.saturating_sub(self.unevictable) as f64;
        Need {
            resident: peak,
            packed: (self.packed as f64 * (grown / manageable).max(1.0)) as u64,
            ..self
        }
    }

    /// The budget: 1.15 of what the pages need, and what cannot be managed.
    pub fn budget(&self) -> u64 {
        (self.packed * 115 / 100 + self.unevictable) & !4095
    }
}

/// A process at one moment: how much memory it had, and some of its pages in a file, which goes with this.
pub struct Look {
    resident: u64,
    unevictable: u64,
    /// Of its pages, those that have content of their own.
    share: f64,
    file: PathBuf,
}

impl Drop for Look {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl Look {
    /// Stops a process, captures its pages, and lets it go on.
    pub fn at(coldpress: &Path, pid: u32, file: PathBuf) -> Result<Look> {
        let stopped = Stopped::new(pid);
        let mut look = Look {
            resident: Status::open(pid)?.resident()?.anonymous,
            unevictable: unevictable(pid)?,
            share: 0.0,
            file,
        };
        let output = Command::new(coldpress)
            .args(["capture", &pid.to_string(), "--limit", SAMPLE, "-o"])
            .arg(&look.file)
            .output()
            .context("cannot start coldpress capture")?;
        drop(stopped);
        if !output.status.success() {
            bail!(
                "coldpress capture: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let said = String::from_utf8_lossy(&output.stdout);
        look.share =
            content_share(&said).with_context(|| format!("coldpress capture said {said:?}"))?;
        Ok(look)
    }

    /// What it needed then.
    pub fn need(&self, coldpress: &Path) -> Result<Need> {
        let page_bytes = packed_page_bytes(coldpress, &self.file)?;
        let pages = self.resident.saturating_sub(self.unevictable) as f64 / PAGE;
        let need = Need {
            resident: self.resident,
            unevictable: self.unevictable,
            packed: (pages * self.share * page_bytes) as u64,
        };
        eprintln!(
            "looked at {}: {} cannot be managed, the rest needs {}: {:.1} % of its pages have content of their own, at {:.0} bytes each",
            mib(self.resident),
            mib(self.unevictable),
            mib(need.packed),
            100.0 * self.share,
            page_bytes
        );
        Ok(need)
    }
}

/// A process that stands still as long as this lives.
struct Stopped(u32);

impl Stopped {
    fn new(pid: u32) -> Stopped {
        // SAFETY: kill touches no memory of ours; the caller has not waited for the process.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGSTOP) };
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.0 as libc::pid_t, libc::SIGCONT) };
    }
}

/// The share of pages that are not same-filled, by the line that `coldpress capture` prints.
fn content_share(line: &str) -> Option<f64> {
    let count_before = |mark: &str| -> Option<f64> {
        let before = line[..line.find(mark)?].trim_end();
        let digits = before.rsplit([' ', ';']).next()?.replace(',', "");
        digits.parse().ok()
    };
    let present = count_before(" private anonymous pages")?;
    let zero = count_before(" zero")?;
    let same = count_before(" otherwise same-filled")?;
    Some(1.0 - (zero + same) / present)
}

/// What a page that is not same-filled takes, by `coldpress eval`.
fn packed_page_bytes(coldpress: &Path, file: &Path) -> Result<f64> {
    let output = Command::new(coldpress)
        .args(["eval", "--codec", "press", "--storage", "press"])
        .args(["--rounds", "1", "--json"])
        .arg(file)
        .output()
        .context("cannot start coldpress eval")?;
    if !output.status.success() {
        bail!(
            "coldpress eval: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    page_bytes(&serde_json::from_slice(&output.stdout)?).context("coldpress eval lacks a figure")
}

fn page_bytes(eval: &Value) -> Option<f64> {
    let row = |list: &str, stage: Option<&str>| {
        let is_meant = |row: &&Value| {
            row["codec"] == "press"
                && row["corpus"] == "pooled"
                && stage.is_none_or(|s| row["stage"] == s && row["storage"] == "press")
        };
        eval[list].as_array()?.iter().find(is_meant).cloned()
    };
    let codec = row("codecs", None)?;
    let storage = row("storages", Some("churned"))?;
    let failed = codec["failed"].as_f64()?;
    Some((storage["total_bytes"].as_f64()? + failed * PAGE) / codec["pages"].as_f64()?)
}

/// Private anonymous memory of a stopped process that the pager cannot manage.
fn unevictable(pid: u32) -> Result<u64> {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps"))?;
    Ok(sum_unevictable(&smaps, &stack_pointers(pid)))
}

/// Where the stacks of a process's threads are.
fn stack_pointers(pid: u32) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let pointers = tasks.flatten().flatten().filter_map(|task| {
        let line = std::fs::read_to_string(task.path().join("syscall")).ok()?;
        let pointer = line.split_whitespace().rev().nth(1)?;
        u64::from_str_radix(pointer.strip_prefix("0x")?, 16).ok()
    });
    pointers.collect()
}

/// One mapping of `smaps`.
#[derive(Debug, Default)]
struct Mapping {
    start: u64,
    end: u64,
    permissions: String,
    is_file: bool,
    /// `[heap]`, `[stack]` and the like.
    name: String,
    follows_file: bool,
    anonymous: u64,
    flags: String,
}

fn is_manageable(mapping: &Mapping, stacks: &[u64]) -> bool {
    let has = |flag: &str| mapping.flags.split(' ').any(|f| f == flag);
    let bytes = mapping.end - mapping.start;
    let is_stack = mapping.name == "[stack]"
        || stacks
            .iter()
            .any(|sp| (mapping.start..mapping.end).contains(sp));
    let is_data_segment = mapping.follows_file && bytes <= DATA_SEGMENT_BYTES;
    let is_anonymous = !mapping.is_file && mapping.permissions == "rw-p";
    let is_special = ["lo", "ht", "io", "pf", "wf"].into_iter().any(has);
    is_anonymous && bytes >= SMALL_BYTES && !is_data_segment && !is_stack && !is_special
}

fn sum_unevictable(smaps: &str, stacks: &[u64]) -> u64 {
    let mut sum = 0;
    let mut last = Mapping::default();
    let mut add = |mapping: &Mapping| {
        if !is_manageable(mapping, stacks) {
            sum += mapping.anonymous;
        }
    };
    for line in smaps.lines() {
        if let Some(mapping) = mapping_of(line) {
            add(&last);
            let follows_file = last.is_file && last.end == mapping.start;
            last = Mapping {
                follows_file,
                ..mapping
            };
        } else if let Some(rest) = line.strip_prefix("Anonymous:") {
            let kib = rest
                .split_whitespace()
                .next()
                .and_then(|n| n.parse::<u64>().ok());
            last.anonymous = kib.unwrap_or(0) * 1024;
        } else if let Some(rest) = line.strip_prefix("VmFlags:") {
            last.flags = rest.trim().to_owned();
        }
    }
    add(&last);
    sum
}

/// A line that begins a mapping.
fn mapping_of(line: &str) -> Option<Mapping> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let permissions = fields.next()?.to_owned();
    let inode = fields.nth(2)?;
    Some(Mapping {
        start: number(start)?,
        end: number(end)?,
        permissions,
        is_file: inode != "0",
        name: fields.next().unwrap_or_default().to_owned(),
        ..Mapping::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_capture_is_understood() {
        let line = "n.pages: 2,048 pages (8.0 MiB) of 10,000 private anonymous pages of process 2 (node); \
                    800 zero, 1,200 otherwise same-filled, 8,921 beyond the limit";
        assert!((content_share(line).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(content_share("nothing"), None);
    }

    #[test]
    fn what_eval_says_becomes_bytes_a_page() {
        let eval = serde_json::json!({
            "codecs": [{"codec": "press", "corpus": "pooled", "failed": 1, "pages": 4}],
            "storages": [
                {"codec": "press", "corpus": "pooled", "stage": "fill", "storage": "press", "total_bytes": 1},
                {"codec": "press", "corpus": "pooled", "stage": "churned", "storage": "press", "total_bytes": 3904},
            ],
        });
        assert_eq!(page_bytes(&eval), Some(2000.0));
        assert_eq!(page_bytes(&serde_json::json!({})), None);
    }

    #[test]
    fn what_cannot_be_managed_is_summed() {
        let smaps = "\
10000-90000 r--p 00000000 fe:00 7 /lib/x.so
Anonymous:             4 kB
VmFlags: rd mr
90000-c0000 rw-p 00000000 00:00 0
Anonymous:             8 kB
VmFlags: rd wr
100000-500000 rw-p 00000000 00:00 0 [heap]
Anonymous:          1000 kB
VmFlags: rd wr mr
600000-a00000 rw-p 00000000 00:00 0
Anonymous:            16 kB
VmFlags: rd wr lo
b00000-b10000 rw-p 00000000 00:00 0
Anonymous:            32 kB
VmFlags: rd wr
c00000-d00000 rw-p 00000000 00:00 0
Anonymous:            64 kB
VmFlags: rd wr
e00000-f00000 rw-p 00000000 00:00 0 [stack]
Anonymous:           128 kB
VmFlags: rd wr gd
";
        let kib = |stacks: &[u64]| sum_unevictable(smaps, stacks) / 1024;
        assert_eq!(kib(&[]), 4 + 8 + 16 + 32 + 128);
        assert_eq!(kib(&[0xc80000]), 4 + 8 + 16 + 32 + 64 + 128);
    }

    #[test]
    fn the_budget_is_of_the_peak() {
        let need = Need {
            resident: 110 << 20,
            unevictable: 10 << 20,
            packed: 40 << 20,
        };
        let peak = need.at_peak(210 << 20);
        assert_eq!(peak.packed, 80 << 20);
        assert_eq!(peak.budget(), 102 << 20);
        assert_eq!(need.at_peak(50 << 20).packed, need.packed);
    }
}
