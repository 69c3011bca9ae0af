//! A process's private anonymous memory at one moment: what would be managed, page by page, what would not, and a sample.

use crate::anonymous_pages::{AnonymousPages, PAGE_BYTES, Populated};
use crate::estimate::layout::{self, Mapping, Reason};
use crate::refusal::Refusal;
use crate::smaps::{self, Vma};
use std::collections::BTreeMap;

const PAGE: u64 = PAGE_BYTES as u64;

/// A mapping of which something would be managed.
#[derive(Clone, Debug, Default)]
pub struct Managed {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// First address of each run of its pages, and how many they are.
    runs: Vec<(u64, u64)>,
    /// How many of its pages would be managed: fewer than the runs have where some were given to `MADV_FREE`.
    pub pages: u64,
}

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// What would be managed.
    pub managed: Vec<Managed>,
    /// What would stay as it is, by reason, in bytes.
    pub unmanaged: BTreeMap<Reason, u64>,
    /// All private anonymous memory in place: what a budget limits.
    pub anonymous_bytes: u64,
    /// The most private anonymous memory that it ever had in place, as far as the kernel tells: the most that was in place at
    /// a time, without the files and shared memory that are in place now.
    pub peak_bytes: u64,
    /// What else is in place, files and shared memory: no budget counts it.
    pub other_bytes: u64,
}

/// A page of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The mapping that it is in: the index in [`Survey::managed`].
    pub mapping: usize,
    /// Where it is.
    pub address: u64,
}

impl Survey {
    /// Looks at a process.
    pub fn take(pid: u32, process: &AnonymousPages) -> Result<Self, Refusal> {
        let vmas = smaps::read_all(pid).map_err(|error| process.gone_or(&error))?;
        let stacks = layout::stacks(pid, &vmas);
        let mut survey = Self {
            anonymous_bytes: vmas.iter().map(|vma| vma.anonymous_bytes).sum(),
            other_bytes: vmas.iter().map(not_anonymous).sum(),
            ..Self::default()
        };
        let status = crate::process::read(format!("/proc/{pid}/status")).unwrap_or_default();
        survey.peak_bytes = peak_bytes(&status).unwrap_or(0).max(survey.anonymous_bytes);
        for mapping in layout::mappings(&vmas, &stacks) {
            let populated = match mapping.managed.is_empty() {
                true => Populated::default(),
                false => process.populated(&mapping.managed)?,
            };
            survey.add(&mapping, populated);
        }
        Ok(survey)
    }

    fn add(&mut self, mapping: &Mapping, populated: Populated) {
        let pages: u64 = populated.own.iter().map(|(_, pages)| pages).sum();
        let lazily_freed = (mapping.lazily_freed_bytes / PAGE).min(pages);
        let rest = (mapping.anonymous_bytes / PAGE).saturating_sub(pages + populated.shared);
        for (reason, pages) in [
            (mapping.rest, rest),
            (Reason::SharedWithFork, populated.shared),
            (Reason::LazilyFreed, lazily_freed),
        ] {
            if pages > 0 {
                *self.unmanaged.entry(reason).or_default() += pages * PAGE;
            }
        }
        if pages > 0 {
            self.managed.push(Managed {
                start: mapping.start,
                end: mapping.end,
                runs: populated.own,
                pages: pages - lazily_freed,
            });
        }
    }

    /// How many aligned blocks of so many bytes hold a page that would be managed.
    pub fn blocks(&self, bytes: u64) -> u64 {
        let (mut count, mut next) = (0, 0);
        let runs = self.managed.iter().flat_map(|managed| &managed.runs);
        for (start, pages) in runs {
            let (first, last) = (start / bytes, (start + pages * PAGE - 1) / bytes);
            count += (last + 1).saturating_sub(first.max(next));
            next = next.max(last + 1);
        }
        count
    }

    /// How many times as many pages would have been managed at the peak: all that came to the rest was.
    pub fn peak(&self) -> f64 {
        let now = (self.managed_pages() * PAGE).max(1);
        let grown = self.peak_bytes.saturating_sub(self.anonymous_bytes);
        1.0 + grown as f64 / now as f64
    }

    /// How many pages would be managed.
    pub fn managed_pages(&self) -> u64 {
        self.managed.iter().map(|mapping| mapping.pages).sum()
    }

    /// At most so many of the pages that would be managed, one at a place of chance in each stretch of equal length.
    pub fn sample(&self, most: u64) -> Vec<Sampled> {
        let runs = || {
            let mappings = self.managed.iter().enumerate();
            mappings
                .flat_map(|(mapping, managed)| managed.runs.iter().map(move |run| (mapping, *run)))
        };
        let all: u64 = runs().map(|(_, (_, pages))| pages).sum();
        let count = most.min(all);
        let mut sample = Vec::with_capacity(count as usize);
        let mut passed = 0;
        let mut wanted = (0..count).map(|at| place(at, count, all)).peekable();
        for (mapping, (start, pages)) in runs() {
            while let Some(at) = wanted.next_if(|at| *at < passed + pages) {
                sample.push(Sampled {
                    mapping,
                    address: start + (at - passed) * PAGE,
                });
            }
            passed += pages;
        }
        sample
    }
}

/// The place of sample number `at` of `count` in `all`: inside its stretch, where a sequence without a period says.
fn place(at: u64, count: u64, all: u64) -> u64 {
    let edge = |at: u64| (u128::from(at) * u128::from(all) / u128::from(count)) as u64;
    let (from, to) = (edge(at), edge(at + 1));
    let chance = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    from + ((u128::from(chance) * u128::from(to - from)) >> 64) as u64
}

/// From `/proc/PID/status`.
fn peak_bytes(status: &str) -> Option<u64> {
    let bytes = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")? + bytes("RssShmem:")?))
}

fn not_anonymous(vma: &Vma) -> u64 {
    vma.resident_bytes.saturating_sub(vma.anonymous_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, anonymous_pages: u64, lazily_freed_pages: u64) -> Mapping {
        Mapping {
            start,
            end: start + 1000 * PAGE,
            anonymous_bytes: anonymous_pages * PAGE,
            lazily_freed_bytes: lazily_freed_pages * PAGE,
            managed: vec![(start, start + 1000 * PAGE)],
            rest: Reason::Stack,
        }
    }

    fn survey() -> Survey {
        let mut survey = Survey::default();
        let populated = |own: &[(u64, u64)], shared| Populated {
            own: own.to_vec(),
            shared,
        };
        survey.add(
            &mapping(0x10_0000, 100, 10),
            populated(&[(0x10_0000, 80)], 5),
        );
        let runs = [(0x100_0000, 10), (0x120_0000, 30)];
        survey.add(&mapping(0x100_0000, 40, 0), populated(&runs, 0));
        survey
    }

    #[test]
    fn every_page_is_managed_or_has_a_reason() {
        let survey = survey();
        assert_eq!(survey.managed_pages(), 110);
        let pages = |reason| survey.unmanaged.get(&reason).map(|bytes| bytes / PAGE);
        assert_eq!(pages(Reason::Stack), Some(15));
        assert_eq!(pages(Reason::SharedWithFork), Some(5));
        assert_eq!(pages(Reason::LazilyFreed), Some(10));
        assert_eq!(pages(Reason::Small), None);
    }

    /// node held 155 MiB before it collected its heap, and the pager had tables for them still: 6.7 MiB, where 5.4 were
    /// foretold for the 119 MiB that were left.
    #[test]
    fn tables_are_those_of_the_peak() {
        let status = "VmHWM:\t  195452 kB\nRssAnon:\t  120672 kB\nRssFile:\t   39988 kB\nRssShmem:\t       0 kB\n";
        assert_eq!(peak_bytes(status), Some(155_464 << 10));
        assert_eq!(peak_bytes("VmHWM:\t 5 kB\n"), None);
        let mut survey = survey();
        assert_eq!(survey.peak(), 1.0, "unknown");
        survey.anonymous_bytes = 140 * PAGE;
        survey.peak_bytes = 195 * PAGE;
        assert!((survey.peak() - 1.5).abs() < 1e-9, "{}", survey.peak());
    }

    #[test]
    fn a_sample_has_each_page_once_at_most_and_is_spread() {
        let survey = survey();
        let all = survey.sample(1000);
        assert_eq!(all.len(), 120);
        assert!(all.windows(2).all(|two| two[0].address < two[1].address));
        let some = survey.sample(30);
        assert_eq!(some.len(), 30);
        assert!(some.iter().all(|page| all.contains(page)));
        // 0x10_0000 and 80 pages lie in two blocks of 256 KiB, the others in one each.
        assert_eq!(survey.blocks(256 << 10), 4);
        assert_eq!(survey.blocks(32 << 20), 1);
        let second = some.iter().filter(|page| page.mapping == 1).count();
        assert_eq!(second, 10);
        assert_eq!(Survey::default().sample(5), []);
    }

    #[test]
    fn this_process_is_surveyed() {
        let purpose = crate::anonymous_pages::Purpose {
            mend: "",
            ended: "ended",
        };
        let own = std::process::id();
        let memory = vec![1u8; 8 << 20];
        let process = AnonymousPages::open(own, purpose).unwrap();
        let survey = Survey::take(own, &process).unwrap();
        assert!(survey.managed_pages() >= 2000, "{survey:?}");
        assert!(survey.anonymous_bytes > 8 << 20 && survey.other_bytes > 0);
        assert!(survey.peak_bytes >= survey.anonymous_bytes && survey.peak() >= 1.0);
        let at = memory.as_ptr() as u64 + (4 << 20);
        let holds = |m: &Managed| m.start <= at && at < m.end;
        assert!(survey.managed.iter().any(holds));
    }
}
