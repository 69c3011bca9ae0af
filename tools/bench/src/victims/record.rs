//! Recording which pages a real program touches, by its page faults.
//!
//! The program runs under `coldpress run --chaos` without read-ahead: pages are evicted all the time, hot or cold,
//! so that each stays for a few milliseconds at most, and nearly every touch of a page is a fault. `perf record`
//! notes the address of each (the software event `page-faults`, for which no hardware is needed). So a trace tells
//! of one touch where a program touched a page many times within milliseconds, and the order of touches is that in
//! which they happened.
//!
//! Left out are faults of the pager's own threads, and pages of mapped files. What is recorded is page numbers alone.
//! The first faults may be missing: `perf` is started when the program has begun.

use super::trace::Trace;
use anyhow::{Context, Result, bail, ensure};
use coldpress_harness::install::{self, Package};
use coldpress_programs::place::{Place, Start};
use coldpress_programs::subjects::Subject;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What notes the faults.
pub const PERF: Package = install::program("linux-perf", "perf");

/// How often mappings are read.
const LOOKS: Duration = Duration::from_millis(50);
const PAGE_BITS: u32 = 12;

/// Ranges of pages that belong to files.
type FilePages = BTreeSet<(u64, u64)>;

/// A command like `coldpress` that adds what recording needs.
fn chaotic(place: &Place) -> Result<PathBuf> {
    let path = place.dir.join("coldpress-chaos");
    let script = format!(
        "#!/bin/sh\nCOLDPRESS_CHAOS=1 COLDPRESS_TUNE=read_ahead_pages=0 exec '{}' \"$@\"\n",
        place.coldpress.display()
    );
    std::fs::write(&path, script)?;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
    Ok(path)
}

/// `perf` on a process, and who reads its mappings.
struct Recorder {
    perf: Child,
    looks: std::thread::JoinHandle<()>,
    files: Arc<Mutex<FilePages>>,
    ended: Arc<AtomicBool>,
}

impl Recorder {
    fn attach(pid: u32, to: &Path) -> Result<Self> {
        let perf = Command::new("perf")
            .args(["record", "--quiet", "-e", "page-faults", "-c", "1", "-d"])
            .args(["-m", "4096", "-p", &pid.to_string(), "-o"])
            .arg(to)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start perf")?;
        let (files, ended) = <(Arc<Mutex<FilePages>>, Arc<AtomicBool>)>::default();
        let (pages, stop) = (files.clone(), ended.clone());
        let looks = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
                let found = maps
                    .iter()
                    .flat_map(|maps| maps.lines().filter_map(of_file));
                pages.lock().expect("nobody panics").extend(found);
                std::thread::sleep(LOOKS);
            }
        });
        Ok(Self {
            perf,
            looks,
            files,
            ended,
        })
    }

    /// The program has ended, and so does `perf`.
    fn end(mut self) -> Result<FilePages> {
        self.ended.store(true, Relaxed);
        self.looks
            .join()
            .ok()
            .context("the mappings were not read")?;
        let status = self.perf.wait()?;
        ensure!(status.success(), "perf record ended with {status}");
        let files = self.files.lock().expect("nobody panics");
        Ok(files.clone())
    }
}

/// The pages of a line of `/proc/PID/maps`, if they are a file's.
fn of_file(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (first, end) = words.next()?.split_once('-')?;
    let inode = words.nth(3)?;
    let page = |address| Some(u64::from_str_radix(address, 16).ok()? >> PAGE_BITS);
    (inode != "0").then_some((page(first)?, page(end)?))
}

fn is_of_file(files: &FilePages, page: u64) -> bool {
    let before = files.range(..=(page, u64::MAX));
    before.rev().take(64).any(|&(_, end)| page < end)
}

/// The page of a line of `perf script -F comm,addr`; `None` for threads of the pager.
fn touched(line: &str) -> Option<u64> {
    let (comm, address) = line.trim().rsplit_once(char::is_whitespace)?;
    let address = u64::from_str_radix(address, 16).ok()?;
    // Threads have at most fifteen bytes of name.
    (!comm.trim().starts_with("coldpress")).then_some(address >> PAGE_BITS)
}

/// What `perf` has noted: up to `most` touches.
fn read(data: &Path, files: &FilePages, most: usize) -> Result<Vec<u64>> {
    let mut script = Command::new("perf")
        .args(["script", "-F", "comm,addr", "-i"])
        .arg(data)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start perf script")?;
    let lines = BufReader::new(script.stdout.take().context("no output")?).lines();
    let mut touches = Vec::new();
    let mut before = None;
    for line in lines {
        // Another touch of the same page says nothing.
        let page = touched(&line?).filter(|&page| before != Some(page));
        if let Some(page) = page.filter(|&page| !is_of_file(files, page)) {
            before = Some(page);
            touches.push(page);
        }
        if touches.len() == most {
            break;
        }
    }
    // It may have more to say than is wanted.
    let _ = script.kill();
    script.wait()?;
    Ok(touches)
}

/// Runs a program, and tells what it touched.
pub fn record(subject: &Subject, place: &mut Place, most: usize) -> Result<Trace> {
    ensure!(!subject.is_chaos, "{} touches all alike", subject.name);
    let program = (subject.prepare)(place)?;
    place.coldpress = chaotic(place)?;
    let data = place.dir.join("faults.data");
    let mut recorder = None;
    let start = Start::by_default(place);
    let done = program.run(&start, &mut |pid| {
        recorder = Some(Recorder::attach(pid, &data)?);
        Ok(())
    });
    let Some(recorder) = recorder else {
        done?;
        bail!("{} had ended before it could be recorded", subject.name);
    };
    let files = recorder.end();
    done?;
    let touches = read(&data, &files?, most)?;
    std::fs::remove_file(&data)?;
    ensure!(!touches.is_empty(), "perf has noted no fault");
    Ok(Trace::from_addresses(subject.name, touches.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_files_and_threads_of_the_pager_are_left_out() {
        let line = "7f90fe900000-7f90fe946000 r-xp 00002000 fe:00 1234   /usr/lib/libc.so.6";
        assert_eq!(of_file(line), Some((0x7f90fe900, 0x7f90fe946)));
        assert_eq!(
            of_file("7f90fe900000-7f90fe946000 rw-p 00000000 00:00 0 "),
            None
        );
        let files = FilePages::from([(10, 20), (30, 31)]);
        let found: Vec<u64> = (0..40).filter(|&page| is_of_file(&files, page)).collect();
        assert_eq!(found, (10..20).chain([30]).collect::<Vec<_>>());
        assert_eq!(
            touched(" redis-server     7f90fe946110 "),
            Some(0x7f90fe946)
        );
        assert_eq!(touched("V8 WorkerThread   55bf1a5b25c0"), Some(0x55bf1a5b2));
        assert_eq!(touched("coldpress/main  55bf1a5b25c0"), None);
    }
}
