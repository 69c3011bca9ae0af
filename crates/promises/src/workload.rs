//! Real programs: the managed run must give, byte for byte, what the native run gave, in less
//! memory than the native run needed.

use crate::{Managed, Outcome, Workplace, process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Share of the native peak that the managed run gets, in percent.
const SHARE_PERCENT: u64 = 65;

const LIMIT: Duration = Duration::from_secs(240);

/// A program and, where it writes one, the file that is its result.
#[derive(Debug)]
pub struct Workload {
    /// Name in the printed line.
    pub name: &'static str,
    /// Executable.
    pub program: PathBuf,
    /// Arguments.
    pub arguments: Vec<String>,
    /// File it writes, in the workplace; standard output is compared in any case.
    pub result: Option<&'static str>,
}

impl Workload {
    /// Runs natively (measuring the peak of private anonymous memory every 5 ms), then managed
    /// under 65 % of that peak; prints one line of figures.
    ///
    /// # Panics
    /// When output or exit status differ, or nothing was evicted.
    #[track_caller]
    pub fn compare(&self, place: &Workplace) {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let native = process::run(place, command, LIMIT);
        assert!(native.status.success(), "native run: {native}");
        let wanted = self.take_result(place, &native);

        let peak = native.peak_rss_anon_bytes;
        let budget = (peak * SHARE_PERCENT / 100) & !4095;
        let (managed, statistics) = Managed::new(place)
            .budget(budget.to_string())
            .within(LIMIT.as_secs())
            .run(&self.program, &self.arguments);
        assert!(managed.status.success(), "managed run: {managed}");
        let found = self.take_result(place, &managed);
        let statistics = statistics.unwrap_or_else(|| panic!("no statistics: {managed}"));
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let line = format!(
            "{}: native peak {:.1} MiB, budget {:.1} MiB, peak total {:.1} MiB, {} evictions, {} decompressions, native {:.2} s, managed {:.2} s",
            self.name,
            mib(peak),
            mib(budget),
            mib(statistics.get("peak_total_bytes")),
            statistics.get("evictions"),
            statistics.get("decompressions"),
            native.wall.as_secs_f64(),
            managed.wall.as_secs_f64(),
        );
        println!("{line}");
        eprintln!("{line}");
        let first_difference = wanted.iter().zip(&found).position(|(a, b)| a != b);
        assert!(
            wanted == found,
            "{}: {} bytes natively, {} managed, first difference at {first_difference:?}\n{managed}",
            self.name,
            wanted.len(),
            found.len(),
        );
        assert!(
            statistics.get("evictions") > 0,
            "nothing was evicted: {line}"
        );
    }

    /// What the run produced. The file is removed, so that the next run cannot borrow it.
    fn take_result(&self, place: &Workplace, outcome: &Outcome) -> Vec<u8> {
        let mut bytes = outcome.stdout.clone().into_bytes();
        if let Some(name) = self.result {
            let path = place.path(name);
            bytes.extend(std::fs::read(&path).unwrap_or_else(|e| panic!("{name}: {e}: {outcome}")));
            std::fs::remove_file(Path::new(&path)).expect("remove the result");
        }
        bytes
    }
}
