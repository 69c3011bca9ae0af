//! A file of pages, and what of it is evaluated.
//!
//! ```text
//!  all pages of the file
//!  ├── same-filled (zero or another word)    counted, not evaluated
//!  ├── training: 512 spread evenly           given to codecs that train tables, not evaluated
//!  └── evaluated: the rest, or an even sample of it
//! ```

use crate::Error;
use crate::captured::Captured;
use crate::random::Random;
use coldpress_codec::same_filled::same_filled;
use coldpress_codec::{PAGE_SIZE, Page};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Pages of each file that tables are trained on; half of the file if it has fewer than twice
/// as many.
pub const TRAINING_PAGES: usize = 512;

/// A page that begins where a page begins, as pages do.
#[derive(Clone)]
#[repr(C, align(4096))]
pub(crate) struct AlignedPage(pub(crate) Page);

/// The pages of one file.
pub struct Corpus {
    pub(crate) name: String,
    pub(crate) evaluated: Vec<AlignedPage>,
    pub(crate) training: Vec<AlignedPage>,
    /// Pages in the file.
    pub(crate) file_pages: usize,
    pub(crate) zero_pages: usize,
    /// Same-filled with another word than zero.
    pub(crate) same_filled_pages: usize,
    /// What its capture says. What that left out is in the three counts above.
    pub(crate) captured: Option<Captured>,
}

impl Corpus {
    /// Reads a file. `sample_pages` limits the pages evaluated, not those trained on.
    ///
    /// # Errors
    /// If the file cannot be read, is empty, is not made of whole pages, or holds nothing but
    /// same-filled pages.
    pub fn read(path: &Path, sample_pages: Option<usize>, seed: u64) -> Result<Self, Error> {
        let unreadable = |error| Error::Unreadable {
            path: path.to_owned(),
            error,
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.is_file() && metadata.len() == 0 {
            return Err(Error::Empty {
                path: path.to_owned(),
            });
        }
        // The size of what is no file says nothing (a directory of tmpfs has 100 bytes): reading it tells.
        if metadata.is_file() && !metadata.len().is_multiple_of(PAGE_SIZE as u64) {
            return Err(Error::NotPages {
                path: path.to_owned(),
                bytes: metadata.len(),
            });
        }
        let mut pages = Vec::new();
        loop {
            let mut page = AlignedPage([0; PAGE_SIZE]);
            match read_page(&mut file, &mut page.0).map_err(unreadable)? {
                0 => break,
                PAGE_SIZE => pages.push(page),
                part => {
                    return Err(Error::NotPages {
                        path: path.to_owned(),
                        bytes: (pages.len() * PAGE_SIZE + part) as u64,
                    });
                }
            }
        }
        if pages.is_empty() {
            return Err(Error::Empty {
                path: path.to_owned(),
            });
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy();
        let captured = Captured::of(path, pages.len())?;
        let mut corpus = Self::of_pages(&name, pages, sample_pages, seed);
        if let Some(captured) = captured {
            corpus.take_note(captured);
        }
        match corpus.evaluated.is_empty() {
            true => Err(Error::OnlySameFilled {
                path: path.to_owned(),
            }),
            false => Ok(corpus),
        }
    }

    /// Counts what a capture left out. Where the file has a sample of the pages with content, the counts are of all
    /// of them.
    fn take_note(&mut self, captured: Captured) {
        let sampled = captured.content_pages - captured.written_pages;
        let left_out = captured.zero_pages + captured.same_filled_pages;
        self.file_pages += (sampled + left_out) as usize;
        self.zero_pages += captured.zero_pages as usize;
        self.same_filled_pages += captured.same_filled_pages as usize;
        self.captured = Some(captured);
    }

    /// Sorts pages that are in memory already.
    pub(crate) fn of_pages(
        name: &str,
        mut pages: Vec<AlignedPage>,
        sample_pages: Option<usize>,
        seed: u64,
    ) -> Self {
        let (file_pages, mut zero_pages, mut same_filled_pages) = (pages.len(), 0, 0);
        pages.retain(|page| {
            let word = same_filled(&page.0);
            zero_pages += usize::from(word == Some(0));
            same_filled_pages += usize::from(word.is_some_and(|word| word != 0));
            word.is_none()
        });
        let mut random = Random::new(seed);
        let chosen = spread(
            &mut random,
            pages.len(),
            TRAINING_PAGES.min(pages.len() / 2),
        );
        let mut training = Vec::new();
        let mut evaluated = Vec::new();
        for (index, page) in pages.into_iter().enumerate() {
            match chosen.get(training.len()) {
                Some(&next) if next == index => training.push(page),
                _ => evaluated.push(page),
            }
        }
        if let Some(sample) = sample_pages.filter(|sample| *sample < evaluated.len()) {
            let kept = spread(&mut random, evaluated.len(), sample);
            evaluated = kept.iter().map(|at| evaluated[*at].clone()).collect();
        }
        Self {
            name: name.to_owned(),
            evaluated,
            training,
            file_pages,
            zero_pages,
            same_filled_pages,
            captured: None,
        }
    }

    /// The file's name, without directories.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of pages that are evaluated.
    pub fn pages(&self) -> usize {
        self.evaluated.len()
    }
}

/// Reads a page, or what there is of it.
fn read_page(file: &mut File, page: &mut Page) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < PAGE_SIZE {
        match file.read(&mut page[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// `count` indices below `len`, rising, one drawn from each of `count` equal stretches.
fn spread(random: &mut Random, len: usize, count: usize) -> Vec<usize> {
    (0..count)
        .map(|at| {
            let (start, end) = (at * len / count, (at + 1) * len / count);
            start + random.below(end - start)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(count: u64) -> Vec<AlignedPage> {
        let page = |number: u64| {
            let mut page = AlignedPage([0; PAGE_SIZE]);
            page.0[..8].copy_from_slice(&number.to_ne_bytes());
            page
        };
        (0..count).map(page).collect()
    }

    #[test]
    fn training_pages_are_spread_and_never_evaluated() {
        for count in [1, 2, 3, 700, 5000] {
            let corpus = Corpus::of_pages("x", numbered(count), None, 7);
            // Page 0 is a zero page.
            let rest = count as usize - 1;
            assert_eq!(corpus.zero_pages, 1);
            assert_eq!(corpus.training.len(), TRAINING_PAGES.min(rest / 2));
            assert_eq!(corpus.training.len() + corpus.evaluated.len(), rest);
            for trained in &corpus.training {
                assert!(corpus.evaluated.iter().all(|page| page.0 != trained.0));
            }
        }
    }

    #[test]
    fn a_sample_takes_nothing_from_training() {
        let corpus = Corpus::of_pages("x", numbered(5000), Some(100), 7);
        assert_eq!((corpus.evaluated.len(), corpus.training.len()), (100, 512));
        let again = Corpus::of_pages("x", numbered(5000), Some(100), 7);
        let same = |(a, b): (&AlignedPage, &AlignedPage)| a.0 == b.0;
        assert!(corpus.evaluated.iter().zip(&again.evaluated).all(same));
    }
}
