//! From what was seen of a process to the estimate: reads the sampled pages, compresses them, forms the groups of the model.

use crate::anonymous_pages::PAGE_BYTES;
use crate::estimate::content::Content;
use crate::estimate::costs;
use crate::estimate::model::{Group, Model};
use crate::estimate::referenced::{self, Reading};
use crate::estimate::seen::{Seen, Subject, Touched};
use crate::estimate::survey::{Sampled, Survey};
use crate::memory_limit;
use crate::process;
use crate::refusal::Refusal;
use crate::size::format_bytes;
use crate::unmanaged;
use coldpress_eval::{Fate, Life, Storing};
use coldpress_interface::control::largest_budget;
use std::collections::HashMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;

/// Pages whose content is looked at.
pub const SAMPLE_PAGES: u64 = 8_192;

/// What can be said of a process.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// The process.
    pub pid: u32,
    /// What it runs.
    pub name: String,
    /// How it was started.
    pub command_line: Vec<String>,
    /// Why `run` would not manage it; `None`: it would.
    pub unfit: Option<String>,
    /// What was seen.
    pub seen: Seen,
    /// How pages would be stored.
    pub storing: Storing,
    /// The sampled pages, all together.
    pub content: Content,
    /// What storage takes for each byte of objects.
    pub packing: f64,
    /// What follows.
    pub model: Model,
    /// The limit of the memory group that a run from here would be in, if it has one.
    pub group_bytes: Option<u64>,
}

impl Estimate {
    /// Of a process that was watched.
    pub fn of(
        subject: &Subject,
        seen: Seen,
        storing: Storing,
        sample_pages: u64,
    ) -> Result<Self, Refusal> {
        let sample = sample_of(&seen, sample_pages);
        let (sample, pages) = read(subject, &sample)?;
        let fates = storing.fates(&pages);
        let found = Found {
            seen: &seen,
            sample: &sample,
            fates: &fates,
        };
        let packing = storing.packing(&fates, &Life::NONE);
        let model = found.model(packing);
        let anew = storing.anew(&pages, &fates).map(|anew| {
            let life = Life {
                anew: Some(&anew.lengths),
                each: model.pages() / sample.len().max(1) as f64,
            };
            anew.share * storing.packing(&fates, &life) / packing
        });
        let model = Model { anew, ..model };
        let content = found.content(packing);
        Ok(Self {
            pid: subject.pid,
            name: subject.name.clone(),
            command_line: command_line(subject.pid),
            unfit: unfit(subject.pid),
            seen,
            storing,
            content,
            packing,
            model,
            group_bytes: memory_limit::group_bytes(),
        })
    }

    /// The budget to try. `None`: it would save nothing, that is not known, or the memory group allows less.
    pub fn suggested_budget(&self) -> Option<u64> {
        let budget = self.needed_budget();
        budget.filter(|bytes| self.not_allowed(*bytes).is_none())
    }

    /// The budget that would do, whatever the memory group allows.
    pub fn needed_budget(&self) -> Option<u64> {
        self.knows_ages()
            .then(|| self.model.suggested_budget())
            .flatten()
    }

    /// Why a budget of so many bytes is not suggested; `None`: the memory group allows it.
    pub fn not_allowed(&self, bytes: u64) -> Option<String> {
        let limit = self.group_bytes?;
        (bytes > largest_budget(limit)).then(|| {
            format!(
                "{} would do, but the limit of the memory group, {}, allows {}",
                format_bytes(bytes),
                format_bytes(limit),
                format_bytes(largest_budget(limit))
            )
        })
    }

    /// Whether it is known which pages are used.
    pub fn knows_ages(&self) -> bool {
        !matches!(self.seen.touched, Touched::Unknown(_))
    }

    /// What it holds natively.
    pub fn native_bytes(&self) -> f64 {
        self.model.native_bytes()
    }
}

/// What was found out about a process, and what its sampled pages become.
struct Found<'a> {
    seen: &'a Seen,
    sample: &'a [Sampled],
    fates: &'a [Fate],
}

impl Found<'_> {
    /// The sampled pages, all together.
    fn content(&self, packing: f64) -> Content {
        Content::of(self.fates.iter().copied(), packing)
    }

    /// What follows where storage takes `packing` times what its objects have, and nothing is stored anew.
    fn model(&self, packing: f64) -> Model {
        let Self {
            seen,
            sample,
            fates,
        } = *self;
        let all = self.content(packing);
        let groups = match &seen.touched {
            Touched::Unknown(_) => {
                let none = (&Reading::new(), &[][..]);
                by_mapping(&seen.survey, none, sample, fates, packing, all)
            }
            Touched::ByMapping { before, after } => {
                let readings = (before, &after[..]);
                by_mapping(&seen.survey, readings, sample, fates, packing, all)
            }
            Touched::ByPage(idle) => by_age(seen, idle, sample, fates, packing, all),
        };
        let unmanaged: u64 = seen.survey.unmanaged.values().sum();
        Model {
            unmanaged_bytes: unmanaged as f64,
            times: seen.times.clone(),
            groups,
            windows: seen.survey.blocks(costs::WINDOW_BYTES) as f64,
            peak: seen.survey.peak(),
            threads: costs::OTHER_THREADS + handlers() as f64,
            aged_sample: match &seen.touched {
                Touched::ByPage(idle) => Some(idle.len()),
                _ => None,
            },
            anew: None,
        }
    }
}

/// The pages to be read: those whose ages are known by page, or a sample of all.
fn sample_of(seen: &Seen, most: u64) -> Vec<Sampled> {
    let Touched::ByPage(idle) = &seen.touched else {
        return seen.survey.sample(most);
    };
    let mut addresses: Vec<u64> = idle.keys().copied().collect();
    addresses.sort_unstable();
    let in_mapping = |address: u64| {
        let holds = |m: &crate::estimate::survey::Managed| m.start <= address && address < m.end;
        let mapping = seen.survey.managed.iter().position(holds)?;
        Some(Sampled { mapping, address })
    };
    addresses.into_iter().filter_map(in_mapping).collect()
}

/// Reads pages. Those that are gone are left out.
fn read(
    subject: &Subject,
    sample: &[Sampled],
) -> Result<(Vec<Sampled>, Vec<[u8; PAGE_BYTES]>), Refusal> {
    let (mut there, mut pages) = (Vec::new(), Vec::new());
    for sampled in sample {
        subject.process.read(&[sampled.address], |_, page| {
            if let Ok(page) = page
                && let Ok(page) = page.try_into()
            {
                there.push(*sampled);
                pages.push(page);
            }
            Ok(())
        })?;
    }
    subject.process.check_identity()?;
    Ok((there, pages))
}

/// A group for each mapping. Of the readings the first is of the beginning.
fn by_mapping(
    survey: &Survey,
    (before, readings): (&Reading, &[Reading]),
    sample: &[Sampled],
    fates: &[Fate],
    packing: f64,
    all: Content,
) -> Vec<Group> {
    let mut of_mapping: Vec<Vec<Fate>> = vec![Vec::new(); survey.managed.len()];
    for (sampled, fate) in sample.iter().zip(fates) {
        of_mapping[sampled.mapping].push(*fate);
    }
    let group = |(mapping, fates): (&crate::estimate::survey::Managed, Vec<Fate>)| {
        let bytes = (mapping.pages * PAGE_BYTES as u64).max(1) as f64;
        let (mut most, mut newest) = (0.0f64, 0.0f64);
        let held = |reading: &Reading| referenced::held_in(reading, mapping.start, mapping.end);
        let held_before = held(before);
        // What has come since the beginning was touched for the first time, which is no refault.
        let fresh = |reading: &Reading| {
            let grown = held(reading).saturating_sub(held_before) as f64;
            newest = newest.max((grown / bytes).min(1.0));
            newest
        };
        let share = |reading: &Reading| {
            let touched = referenced::touched_in(reading, mapping.start, mapping.end) as f64;
            // Memory that has come and gone, or was given back meanwhile.
            most = most.max((touched / bytes).min(1.0));
            most
        };
        Group {
            pages: mapping.pages as f64,
            touched: readings.iter().map(share).collect(),
            fresh: readings.iter().map(fresh).collect(),
            content: Content::of(fates, packing).or(all),
        }
    };
    survey.managed.iter().zip(of_mapping).map(group).collect()
}

/// A group for each age.
fn by_age(
    seen: &Seen,
    idle: &HashMap<u64, Option<f64>>,
    sample: &[Sampled],
    fates: &[Fate],
    packing: f64,
    all: Content,
) -> Vec<Group> {
    let times = &seen.times;
    // The first time within which it was touched; behind the last: within none.
    let class = |idle: Option<f64>| {
        let within = |idle: f64| times.partition_point(|time| *time <= idle);
        idle.map_or(times.len(), |idle| within(idle).min(times.len() - 1))
    };
    let mut classes: Vec<Vec<Fate>> = vec![Vec::new(); times.len() + 1];
    for (sampled, fate) in sample.iter().zip(fates) {
        let idle = idle.get(&sampled.address).copied().flatten();
        classes[class(idle)].push(*fate);
    }
    let pages = seen.survey.managed_pages() as f64;
    let counted = sample.len().max(1) as f64;
    let group = |(at, fates): (usize, Vec<Fate>)| Group {
        pages: pages * fates.len() as f64 / counted,
        touched: (0..times.len())
            .map(|time| f64::from(u8::from(time >= at)))
            .collect(),
        // Only pages that were there at the beginning are asked for.
        fresh: vec![0.0; times.len()],
        content: Content::of(fates, packing).or(all),
    };
    classes.into_iter().enumerate().map(group).collect()
}

/// Threads of the pager that answer faults: one for each processor.
fn handlers() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(costs::MOST_HANDLERS)
}

/// How a process was started. Of one that has written a title over its arguments (`redis-server *:6379`, `nginx: master
/// process …`): its name.
fn command_line(pid: u32) -> Vec<String> {
    let text = process::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words_of(&text, || process::name(pid))
}

fn words_of(text: &str, name: impl FnOnce() -> String) -> Vec<String> {
    let words = text.trim_end_matches('\0').split('\0');
    let words: Vec<_> = words.map(str::to_owned).collect();
    match words.as_slice() {
        [title] if title.is_empty() => Vec::new(),
        [title] if title.contains(' ') && !Path::new(title).exists() => vec![name()],
        _ => words,
    }
}

/// Why `run` would not manage what a process runs.
fn unfit(pid: u32) -> Option<String> {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    unmanaged::unfit(pid, &executable)
}

#[cfg(test)]
mod tests {
    use super::words_of;

    /// Story: `to try: coldpress run -- 'redis-server *:6379'`.
    #[test]
    fn a_title_is_no_command() {
        let of = |text| words_of(text, || "redis-server".to_owned());
        assert_eq!(of("redis-server *:6379\0"), ["redis-server"]);
        assert_eq!(of("python3\0a b.py\0"), ["python3", "a b.py"]);
        assert_eq!(of("/bin/true\0"), ["/bin/true"]);
        assert!(of("").is_empty());
    }
}
