//! A program with its rates and its past.
//!
//! A rate is known from the second reading on. Counters that went back (another program in the same process) give none.

use super::history::History;
use super::reading::Reading;
use std::collections::VecDeque;

/// A program.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its figures.
    pub reading: Reading,
    /// Faults answered a second since the reading before.
    pub faults_per_second: Option<f64>,
    /// Processor time of the pager, as a share of one processor, over the last seconds.
    pub pager_share: Option<f64>,
    /// Memory held, in bytes.
    pub held: History,
    /// Faults a second.
    pub faults: History,
    /// When the pager's processor time was read in the last seconds, and what it was.
    pub(super) processor: VecDeque<(u64, u64)>,
}

/// A pager tells its processor time once a second or so: less than this says nothing.
const SMOOTHED_NS: u64 = 4_000_000_000;

impl Row {
    /// The row of a program after a new reading at `at_ns`. `passed_ns`: the time since the one before.
    pub fn next(
        before: Option<Self>,
        reading: Reading,
        at_ns: u64,
        passed_ns: Option<u64>,
    ) -> Self {
        let old_faults = before.as_ref().map(|row| row.reading.faults);
        let faults_per_second = old_faults
            .zip(passed_ns)
            .and_then(|(old, passed)| rate(reading.faults, old, passed))
            .map(|rate| rate * 1e9);
        let (mut held, mut faults, mut processor) = match before {
            Some(row) => (row.held, row.faults, row.processor),
            None => Default::default(),
        };
        held.push(reading.total_bytes);
        faults.push(faults_per_second.unwrap_or(0.0).round() as u64);
        processor.push_back((at_ns, reading.pager_cpu_ns));
        while processor.len() > 2 && processor[1].0 + SMOOTHED_NS <= at_ns {
            processor.pop_front();
        }
        let (since, then) = processor[0];
        let pager_share = rate(reading.pager_cpu_ns, then, at_ns - since);
        if pager_share.is_none() {
            processor.clear();
            processor.push_back((at_ns, reading.pager_cpu_ns));
        }
        Self {
            reading,
            faults_per_second,
            pager_share,
            held,
            faults,
            processor,
        }
    }
}

/// What was added in a time, a nanosecond; `None`: it was none, or the counter went back.
fn rate(now: u64, then: u64, passed_ns: u64) -> Option<f64> {
    let added = now.checked_sub(then)?;
    (passed_ns > 0).then(|| added as f64 / passed_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::super::model::tests::reading;

    const S: u64 = 1_000_000_000;

    /// A pager that tells its processor time every second is read every second: now and then it has not told it yet.
    #[test]
    fn processor_time_is_smoothed() {
        let mut model = Model::new();
        let told = [0, 100, 100, 300, 400, 400, 600, 700, 700, 900];
        for (second, ms) in told.into_iter().enumerate() {
            let mut reading = reading(2, "a", 50, 0);
            reading.pager_cpu_ns = ms * 1_000_000;
            model.take(vec![reading], second as u64 * S);
        }
        let share = model.rows[0].pager_share.unwrap();
        assert!((0.08..=0.13).contains(&share), "{share}");
        assert_eq!(model.rows[0].processor.len(), 5);
    }
}
