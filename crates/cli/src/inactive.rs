//! Which pages nobody touches for a while.
//!
//! The processor notes in a page's table entry that it was touched. Linux shows these bits by
//! mapping only (`Referenced` in smaps), or by page through idle page tracking, which few kernels
//! have, or through DAMON ([`crate::damon`]), which is what is used here. It asks for each frame by
//! itself, so the answer is exact, for all that it is asked about:
//!
//! ```text
//!  pages ─▶ their frames, those on a list of the kernel's (LRU)
//!             ─▶ DAMON: clear the bits … wait … read the bits
//!                  ─▶ untouched, and still in the same frame, still on a list ─▶ result
//! ```
//!
//! A frame that is on no list yet (fresh pages wait for theirs for a moment) could not be told
//! from an untouched one, and is left out.

use crate::anonymous_pages::AnonymousPages;
use crate::damon::{CannotTell, Damon};
use crate::progress::Bar;
use crate::refusal::Refusal;
use crate::spread::spread;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

/// Pages that are asked about: each costs DAMON a fraction of a millisecond.
const CANDIDATES: u64 = 1 << 14;
/// As many even for a large limit.
const MOST_CANDIDATES: u64 = 1 << 16;
const KPF_LRU: u64 = 1 << 5;
const KPF_THP: u64 = 1 << 22;

/// The pages to ask about: all, or an even sample.
pub fn candidates(pages: Vec<u64>, limit: Option<u64>) -> Vec<u64> {
    let wanted = limit.map_or(CANDIDATES, |limit| limit.saturating_mul(2));
    spread(pages, wanted.clamp(CANDIDATES, MOST_CANDIDATES))
}

/// Those of `pages` that nobody touched for so long, from now on.
pub fn untouched(
    process: &AnonymousPages,
    pages: Vec<u64>,
    milliseconds: u64,
    bar: &Bar,
) -> Result<Vec<u64>, Refusal> {
    let flags = File::open("/proc/kpageflags").map_err(|error| {
        cannot_tell(&format!(
            "/proc/kpageflags cannot be read ({error}); run as root, with sudo"
        ))
    })?;
    let before = process.frames(&pages)?;
    if !pages.is_empty() && before.iter().all(|frame| *frame == 0) {
        return Err(cannot_tell(
            "physical frames are shown to root only; run it with sudo",
        ));
    }
    let listed = |frame: u64| frame != 0 && is_listed(&flags, frame);
    let asked: Vec<u64> = before
        .iter()
        .copied()
        .filter(|frame| listed(*frame))
        .collect();
    bar.begin("asking DAMON", asked.len() as u64);
    let damon = Damon::start(&asked, Duration::from_millis(milliseconds), &mut || {
        bar.advance(1)
    })
    .map_err(refuse)?;
    bar.begin("waiting for pages to be idle", milliseconds);
    let mut waited = 0;
    // Ask before the time is over: the answer comes when it is.
    while waited < milliseconds * 9 / 10 {
        let step = (milliseconds * 9 / 10 - waited).min(100);
        thread::sleep(Duration::from_millis(step));
        waited += step;
        bar.advance(step);
    }
    let idle = damon.untouched().map_err(refuse)?;
    drop(damon);
    let after = process.frames(&pages)?;
    let same =
        |at: usize| before[at] == after[at] && idle.contains_key(&before[at]) && listed(after[at]);
    Ok(pages
        .iter()
        .enumerate()
        .filter(|(at, _)| same(*at))
        .map(|(_, page)| *page)
        .collect())
}

fn refuse(why: CannotTell) -> Refusal {
    cannot_tell(&why.to_string())
}

/// The machine cannot tell, and why.
fn cannot_tell(why: &str) -> Refusal {
    Refusal::new(format!(
        "cannot tell which pages are touched: {why}; or leave --inactive away"
    ))
}

/// Whether the frame is on a list, or is part of a huge page, whose head is.
pub fn is_listed(flags: &File, frame: u64) -> bool {
    let mut bytes = [0; 8];
    let read = flags.read_exact_at(&mut bytes, frame * 8);
    read.is_ok() && u64::from_ne_bytes(bytes) & (KPF_LRU | KPF_THP) != 0
}
