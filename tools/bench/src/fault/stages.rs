//! Joining touches and answers, and what each stage took.

use anyhow::{Context, Result};
use coldpress_harness::figures::quantile;
use std::collections::HashMap;
use std::path::Path;

/// The stages of a fault, in order, and all of it.
pub const STAGES: [&str; 7] = [
    "handler runs",
    "gate closed",
    "message read",
    "found, decoded",
    "COPY returned",
    "thread runs",
    "all",
];
const ALL: usize = STAGES.len() - 1;

/// What faults took, stage by stage, in nanoseconds.
#[derive(Default)]
pub struct Taken {
    stages: [Vec<u64>; STAGES.len()],
    /// Touches that took long, those that were joined to no answer included.
    pub slow: u64,
}

/// When the stages of an answer were reached.
type Answer = [u64; 5];

impl Taken {
    /// Adds a run: the program's slow touches, and the answers to them. Without answers only the whole is known.
    pub fn add(&mut self, slow: &Path, answers: Option<&Path>) -> Result<()> {
        let slow = numbers(slow)?;
        let answers = answers.map(numbers).transpose()?;
        let answers = answers.map(|answers| by_page(&answers));
        for touch in slow.chunks_exact(4) {
            self.slow += 1;
            let (page, before, after) = (touch[0], touch[1], touch[2]);
            match &answers {
                None => self.stages[ALL].push(after - before),
                Some(answers) => {
                    if let Some(answer) = answer_within(answers, page, before, after) {
                        self.join(before, answer, after);
                    }
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, before: u64, answer: &Answer, after: u64) {
        let mut last = before;
        // COPY wakes the thread before it returns: a stage may end before the one in front of it.
        for (stage, reached) in self.stages.iter_mut().zip(answer.iter().chain([&after])) {
            let reached = (*reached).clamp(last, after);
            stage.push(reached - last);
            last = reached;
        }
        self.stages[ALL].push(after - before);
    }

    /// Faults whose stages are known.
    pub fn joined(&self) -> u64 {
        self.stages[ALL].len() as u64
    }

    /// Median, 99th percentile and mean of a stage.
    pub fn stage(&self, number: usize) -> [f64; 3] {
        let mut all = self.stages[number].clone();
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() as f64 / all.len().max(1) as f64;
        match all.is_empty() {
            true => [0.0; 3],
            false => [
                quantile(&all, 0.5) as f64,
                quantile(&all, 0.99) as f64,
                mean,
            ],
        }
    }
}

/// All 64-bit numbers of a file.
fn numbers(path: &Path) -> Result<Vec<u64>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let numbers = bytes.as_chunks::<8>().0.iter();
    Ok(numbers.map(|number| u64::from_le_bytes(*number)).collect())
}

/// The answers to the faults of each page, in the order in which they were read. Records as in the pager's `fault_trace`.
fn by_page(numbers: &[u64]) -> HashMap<u64, Vec<Answer>> {
    let mut all: HashMap<u64, Vec<Answer>> = HashMap::new();
    for record in numbers.as_chunks::<8>().0.iter().skip(1) {
        let [page, _, runs, closed, read, decoded, copied, _] = *record;
        if page != 0 {
            let answers = all.entry(page & !4095).or_default();
            answers.push([runs, closed, read, decoded, copied]);
        }
    }
    for answers in all.values_mut() {
        answers.sort_unstable_by_key(|answer| answer[2]);
    }
    all
}

/// The answer whose message was read between the two times.
fn answer_within(
    answers: &HashMap<u64, Vec<Answer>>,
    page: u64,
    before: u64,
    after: u64,
) -> Option<&Answer> {
    let answers = answers.get(&page)?;
    let first = answers.partition_point(|answer| answer[2] < before);
    answers.get(first).filter(|answer| answer[2] <= after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_are_joined_to_their_answers_and_stages_add_up() {
        let dir = std::env::temp_dir();
        let file = |name: &str, numbers: &[u64]| {
            let path = dir.join(format!("coldpress-stages-{name}-{}", std::process::id()));
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
            std::fs::write(&path, bytes).unwrap();
            path
        };
        // Two faults of one page, a touch that no answer belongs to, and a return after the thread had run.
        let slow = file(
            "slow",
            &[4096, 100, 200, 0, 4096, 300, 400, 0, 8192, 100, 200, 0],
        );
        let header = [3, 0, 0, 0, 0, 0, 0, 0];
        let second = [4096, 1, 310, 320, 330, 350, 500, 0];
        let first = [4096 + 8, 1, 90, 110, 120, 150, 190, 0];
        let trace = file("trace", &[header, second, first, [0; 8]].concat());
        let mut taken = Taken::default();
        taken.add(&slow, Some(&trace)).unwrap();
        assert_eq!((taken.slow, taken.joined()), (3, 2));
        let first_of = |taken: &Taken| taken.stages.each_ref().map(|stage| stage[0]);
        assert_eq!(first_of(&taken), [0, 10, 10, 30, 40, 10, 100]);
        let second_of = taken.stages.each_ref().map(|stage| stage[1]);
        assert_eq!(second_of, [10, 10, 10, 20, 50, 0, 100]);
        let means: f64 = (0..ALL).map(|n| taken.stage(n)[2]).sum();
        assert_eq!(means, taken.stage(ALL)[2]);
        let mut whole = Taken::default();
        whole.add(&slow, None).unwrap();
        assert_eq!((whole.slow, whole.joined()), (3, 3));
        for path in [slow, trace] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
