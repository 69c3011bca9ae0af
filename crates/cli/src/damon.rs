//! DAMON, the kernel's data access monitor, asked about single frames.
//!
//! DAMON samples: of each region of physical memory that it watches it takes one page, clears its
//! accessed bits, waits, and looks. With regions of one page each, one sample, and as many regions
//! as it must keep (so that it joins none), the sample is everything and the answer is exact.
//! (Linux, `admin-guide/mm/damon/usage`; needs CONFIG_DAMON_PADDR and CONFIG_DAMON_SYSFS.)
//!
//! Where it goes on for several intervals, it also says for how many of them each frame was left alone.
//!
//! There is one DAMON in a system. Captures and estimates take turns by a lock on its directory; if somebody else
//! uses it, it is left alone. What is set up here is taken down on every way out, by a signal too.

use crate::on_signal;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

const ROOT: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const CONTEXT: &str = "0/contexts/0";
const PAGE_BYTES: u64 = 4096;

/// Why DAMON does not tell.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotTell(String);

/// DAMON at work for us.
#[derive(Debug)]
pub struct Damon {
    /// Held while DAMON is ours.
    _turn: File,
}

impl Damon {
    /// Has DAMON watch these frames, with a sample after each `interval`.
    pub fn start(
        frames: &[u64],
        interval: Duration,
        advance: &mut dyn FnMut(),
    ) -> Result<Self, CannotTell> {
        let count = format!("{ROOT}/nr_kdamonds");
        // Waits while another of us is at it.
        let turn = File::open(&count).and_then(|file| file.lock().map(|()| file));
        let in_use = turn.and_then(|turn| Ok((turn, fs::read_to_string(&count)?)));
        let (turn, in_use) = in_use.map_err(|error| {
            CannotTell(format!(
                "{ROOT} cannot be read ({error}), so this kernel is without CONFIG_DAMON_SYSFS"
            ))
        })?;
        if in_use.trim() != "0" {
            return Err(CannotTell(format!(
                "somebody else uses DAMON; if that is a leftover: echo 0 | sudo tee {ROOT}/nr_kdamonds"
            )));
        }
        on_signal::damon_is_ours(true);
        let damon = Self { _turn: turn };
        let started = set_up(frames, interval, advance);
        started.map_err(|error| {
            CannotTell(format!("DAMON does not watch single frames here ({error})"))
        })?;
        Ok(damon)
    }

    /// The frames that were not touched in the last interval, with the number of intervals that have passed since they were
    /// seen not to be touched any more; waits until the interval is over.
    pub fn untouched(&self) -> Result<HashMap<u64, u64>, CannotTell> {
        read_back().map_err(|error| CannotTell(format!("DAMON does not answer ({error})")))
    }
}

impl Drop for Damon {
    fn drop(&mut self) {
        // Nothing more can be done where this fails.
        let _ = write("0/state", "off");
        let _ = write("nr_kdamonds", "0");
        on_signal::damon_is_ours(false);
    }
}

fn set_up(frames: &[u64], interval: Duration, advance: &mut dyn FnMut()) -> io::Result<()> {
    let mut frames = frames.to_vec();
    frames.sort_unstable();
    frames.dedup();
    let set = |name: &str, value: &str| write(&format!("{CONTEXT}/{name}"), value);
    write("nr_kdamonds", "1")?;
    write("0/contexts/nr_contexts", "1")?;
    set("operations", "paddr")?;
    let microseconds = interval.as_micros().to_string();
    set("monitoring_attrs/intervals/sample_us", &microseconds)?;
    set("monitoring_attrs/intervals/aggr_us", &microseconds)?;
    set(
        "monitoring_attrs/intervals/update_us",
        &(interval.as_micros() * 1000).to_string(),
    )?;
    // At least as many regions as there are frames: none is joined with its neighbour.
    let count = frames.len().max(3);
    set("monitoring_attrs/nr_regions/max", &(count + 16).to_string())?;
    set("monitoring_attrs/nr_regions/min", &count.to_string())?;
    set("targets/nr_targets", "1")?;
    set("targets/0/regions/nr_regions", &frames.len().to_string())?;
    for (number, frame) in frames.iter().enumerate() {
        let region = |name: &str, frame: u64| {
            set(
                &format!("targets/0/regions/{number}/{name}"),
                &(frame * PAGE_BYTES).to_string(),
            )
        };
        region("start", *frame)?;
        region("end", frame + 1)?;
        advance();
    }
    // A scheme that does nothing to the regions without access, but lets them be listed.
    set("schemes/nr_schemes", "1")?;
    set("schemes/0/action", "stat")?;
    let pattern = |name: &str, most: u64| {
        set(
            &format!("schemes/0/access_pattern/{name}/max"),
            &most.to_string(),
        )?;
        set(&format!("schemes/0/access_pattern/{name}/min"), "0")
    };
    pattern("sz", 1 << 62)?;
    pattern("nr_accesses", 0)?;
    pattern("age", u64::from(u32::MAX))?;
    write("0/state", "on")
}

fn read_back() -> io::Result<HashMap<u64, u64>> {
    write("0/state", "update_schemes_tried_regions")?;
    let mut frames = HashMap::new();
    for entry in fs::read_dir(
        Path::new(ROOT)
            .join(CONTEXT)
            .join("schemes/0/tried_regions"),
    )? {
        let region = entry?.path();
        if !region.is_dir() {
            continue;
        }
        let number = |name: &str| -> io::Result<u64> {
            let text = fs::read_to_string(region.join(name))?;
            text.trim()
                .parse()
                .map_err(|_| io::ErrorKind::InvalidData.into())
        };
        let (start, end) = (number("start")?, number("end")?);
        // One page each; what was joined all the same was untouched as a whole only by a guess.
        if end - start == PAGE_BYTES {
            frames.insert(start / PAGE_BYTES, number("age")?);
        }
    }
    Ok(frames)
}

/// Writes a setting; DAMON is busy for moments, and answers so instead of waiting.
fn write(name: &str, value: &str) -> io::Result<()> {
    let mut written = fs::write(format!("{ROOT}/{name}"), value);
    for _ in 0..500 {
        match &written {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(10));
                written = fs::write(format!("{ROOT}/{name}"), value);
            }
            _ => break,
        }
    }
    written.map_err(|error| io::Error::new(error.kind(), format!("{ROOT}/{name}: {error}")))
}
