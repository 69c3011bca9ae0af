//! What entries hold: captured pages, or pages made up.
//!
//! Every entry is a page of the pool with its key in the first eight bytes, so that no two are
//! alike and an entry given out for another key is noticed.

use crate::refusal::Refusal;
use crate::size::format_count;
use coldpress_cache::PAGE_BYTES;
use coldpress_codec::press::{Press, PressState};
use coldpress_codec::{Compressed, DEFAULT_TARGET_BYTES, PageCodec};
use serde::Serialize;
use std::path::PathBuf;

/// Pages made up.
const MADE_UP_PAGES: usize = 1024;
/// Random bytes of each; the rest is zero. Pages of programs go to 35 % of their size by press
/// (`coldpress eval` on eight programs, pages that compress at all).
const RANDOM_BYTES: usize = 1400;
/// Pages that are compressed to say how well they do.
const DESCRIBED_PAGES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// The pool that entries are made from.
pub struct Content {
    pages: Vec<Page>,
    files: Vec<String>,
}

/// What is said of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// Names of files, none if the pages are made up.
    pub files: Vec<String>,
    /// Pages of the pool.
    pub pages: u64,
    /// Of those that press compresses, compressed bytes over bytes.
    pub compressed_share: f64,
    /// Share of pages that do not.
    pub incompressible_share: f64,
}

impl Content {
    /// Reads the files, or makes pages up if there are none.
    pub fn load(files: &[PathBuf]) -> Result<Content, Refusal> {
        let mut content = Content {
            pages: Vec::new(),
            files: Vec::new(),
        };
        for path in files {
            let refuse = |why: String| {
                Refusal::new(format!(
                    "cannot take entries from {}: {why}",
                    path.display()
                ))
                .mend("Make a file of pages with: coldpress capture PID -o FILE.pages")
            };
            let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
            let (pages, rest) = bytes.as_chunks::<PAGE_BYTES>();
            if pages.is_empty() || !rest.is_empty() {
                let why = format!("{} bytes are no whole pages of 4096", bytes.len());
                return Err(refuse(why));
            }
            content.pages.extend(pages);
            let name = path.file_name().unwrap_or(path.as_os_str());
            content.files.push(name.to_string_lossy().into_owned());
        }
        if files.is_empty() {
            let mut random = Random::new(4);
            content.pages = (0..MADE_UP_PAGES).map(|_| made_up(&mut random)).collect();
        }
        Ok(content)
    }

    /// Writes the entry of `key` to `page`.
    pub fn make(&self, key: u64, page: &mut Page) {
        page.copy_from_slice(self.of(key));
        page[..8].copy_from_slice(&key.to_ne_bytes());
    }

    /// Whether `page` is the entry of `key`.
    pub fn is(&self, key: u64, page: &Page) -> bool {
        page[..8] == key.to_ne_bytes() && page[8..] == self.of(key)[8..]
    }

    fn of(&self, key: u64) -> &Page {
        &self.pages[(key % self.pages.len() as u64) as usize]
    }

    /// Says what it is, and how well an even sample compresses.
    pub fn describe(&self) -> Described {
        let (codec, mut state) = (Press::new(), Box::new(PressState::new()));
        let mut output = [0; DEFAULT_TARGET_BYTES];
        let step = self.pages.len().div_ceil(DESCRIBED_PAGES);
        let (mut bytes, mut compressed, mut failed) = (0usize, 0usize, 0usize);
        let mut page = [0; PAGE_BYTES];
        for key in (0..self.pages.len()).step_by(step) {
            self.make(key as u64, &mut page);
            match codec.compress(&mut state, &page, &mut output) {
                Compressed::Stored(length) => {
                    bytes += length;
                    compressed += 1;
                }
                Compressed::SameFilled(_) => compressed += 1,
                Compressed::Incompressible => failed += 1,
            }
        }
        Described {
            files: self.files.clone(),
            pages: self.pages.len() as u64,
            compressed_share: bytes as f64 / (compressed.max(1) * PAGE_BYTES) as f64,
            incompressible_share: failed as f64 / (compressed + failed) as f64,
        }
    }
}

impl Described {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        let what = match self.files.as_slice() {
            [] => "made up".to_owned(),
            files => format!("captured ({})", files.join(", ")),
        };
        format!(
            "entries: {} pages, {what}, the key in the first 8 bytes; by press to {:.0} % of their size, but {:.1} % not at all",
            format_count(self.pages),
            100.0 * self.compressed_share,
            100.0 * self.incompressible_share
        )
    }
}

fn made_up(random: &mut Random) -> Page {
    let mut page = [0; PAGE_BYTES];
    let start = 8 + random.below((PAGE_BYTES - RANDOM_BYTES - 8) as u64) as usize;
    for bytes in page[start..start + RANDOM_BYTES].chunks_mut(8) {
        bytes.copy_from_slice(&random.next().to_ne_bytes()[..bytes.len()]);
    }
    page
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// Numbers that follow from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts `items` in another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_keys_alone_and_every_byte_counts() {
        let content = Content::load(&[]).unwrap();
        let mut page = [0; PAGE_BYTES];
        // Keys 5 and 5 + MADE_UP_PAGES have the same page of the pool.
        content.make(5, &mut page);
        assert!(content.is(5, &page) && !content.is(5 + MADE_UP_PAGES as u64, &page));
        for at in [0, 7, 8, 2000, PAGE_BYTES - 1] {
            page[at] ^= 1;
            assert!(!content.is(5, &page), "{at}");
            page[at] ^= 1;
        }
    }

    #[test]
    fn made_up_pages_compress_as_they_are_said_to() {
        let described = Content::load(&[]).unwrap().describe();
        assert!(
            (0.3..0.4).contains(&described.compressed_share),
            "{described:?}"
        );
        assert_eq!(described.incompressible_share, 0.0);
        assert!(described.sentence().contains("1,024 pages, made up"));
    }

    #[test]
    fn what_is_no_file_of_pages_is_refused() {
        for path in ["/nowhere/x.pages", "/proc/self/comm", "/dev/null"] {
            let refusal = Content::load(&[path.into()]).err().unwrap().to_string();
            assert!(refusal.contains(path) && refusal.contains("coldpress capture"));
        }
    }
}
