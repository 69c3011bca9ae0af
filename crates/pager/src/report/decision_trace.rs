//! A trace of what reclaim decided, and when: which rule was in force, what it did, what came back.
//!
//! `coldpress run --trace FILE` switches it on. The reclaim thread
//! takes a record of the statistics page now and then, into memory of the pager; nothing is
//! done on a fault. The watchdog writes records to the file once a second, and the program's last thread
//! the rest when it ends. `coldpress trace FILE` shows them. What could not be written is written the next time; what is
//! missing at the end is told by the statistics (`trace_error`).
//!
//! FILE itself belongs to the process that `coldpress run` started; where all processes are followed, to the first that
//! has something to write (it finds FILE empty, under a lock). The others write FILE.PID.
//!
//! Memory and file are bounded: when `CAPACITY` records are there, every other one is dropped, and from then
//! on they are taken half as often. Counters are kept as totals and written as differences, so nothing is lost by
//! that but resolution; of memory the highest value since the record before is kept beside the last.
//!
//! The file is lines of JSON, the first about the process, each other about the time since the one before:
//!
//! ```text
//! {"coldpress_trace":1,"pid":4242,"program":"redis-server","codec":"press","storage":"press"}
//! {"t_ms":50,"rule":"cold_age","rules_ms":{"cold_age":50},"peak_bytes":…,"total_bytes":…, … ,"evictions":384, …}
//! ```
//!
//! `rule` is the one in force at the end of that time, `rules_ms` says how long each was. The other names are
//! those of the statistics page.

use crate::Pager;
use crate::machine::os::Os;
use crate::memory::own::Memory;
use crate::settings::config::Config;
use coldpress_arena::CHUNK_BYTES;
use coldpress_interface::control::NO_BUDGET;
use coldpress_interface::statistics::{Failure, NAME_BYTES, Rule, Statistics};
use coldpress_linux::sys;
use coldpress_linux::text::Text;
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Records that there is room for.
const CAPACITY: usize = 4096;
/// The time between two records at the beginning.
const INTERVAL_NS: u64 = 50_000_000;
const CHUNKS: usize = (CAPACITY * size_of::<Record>()).div_ceil(CHUNK_BYTES);

/// Words of a record for the rules: time each was in force, by its number.
const RULES: usize = 16;

macro_rules! fields {
    (gauges { $($gauge:ident,)* } counters { $($counter:ident,)* }) => {
        const GAUGES: &[&str] = &[$(stringify!($gauge),)*];
        const COUNTERS: &[&str] = &[$(stringify!($counter),)* "incompressible", "move_busy"];

        fn gauges(s: &Statistics) -> [u64; GAUGES.len()] {
            [$(s.$gauge.load(Relaxed),)*]
        }

        fn counters(s: &Statistics) -> [u64; COUNTERS.len()] {
            [
                $(s.$counter.load(Relaxed),)*
                s.failed(Failure::Incompressible),
                s.failed(Failure::MoveBusy),
            ]
        }
    };
}

fields! {
    gauges {
        total_bytes,
        committed_bytes,
        content_bytes,
        stored_content_bytes,
        same_filled_bytes,
        storage_bytes,
        overhead_bytes,
        budget_bytes,
        cold_after_ms,
        cold_age_is_chosen,
        tracked_pages,
        failed_pages,
    }
    counters {
        evictions,
        eager_compressions,
        pressure_compressions,
        critical_compressions,
        second_chances,
        failed_compressions,
        decompressions,
        faults,
        faults_decompressed,
        faults_copied,
        faults_same_filled,
        faults_zero,
        read_ahead,
        freed_compressed,
        compaction_moves,
        budget_misses,
        cold_age_longer,
        cold_age_shorter,
    }
}

const AT: usize = 0;
const PEAK: usize = 1;
const RULE: usize = 2;
const FIRST_RULE: usize = 3;
const FIRST_GAUGE: usize = FIRST_RULE + RULES;
const FIRST_COUNTER: usize = FIRST_GAUGE + GAUGES.len();

/// A record: nanoseconds since the trace began, peak, rule, time in each rule, gauges, counters.
const WORDS: usize = FIRST_COUNTER + COUNTERS.len();

type Record = [AtomicU64; WORDS];

/// Longest line: each number has 20 digits at most.
const LINE_BYTES: usize = 3072;

/// Longest path, with the number of a process.
const PATH_BYTES: usize = 288;

/// At the end whoever writes is waited for, so many milliseconds.
const MOST_TRIES: u32 = 200;

/// The trace of a process.
pub struct Trace {
    on: AtomicBool,
    /// `CAPACITY` records, once there are any.
    records: AtomicPtr<Record>,
    len: AtomicUsize,
    /// Changes when records are dropped: what was written is no longer what there is.
    thinned: AtomicU32,
    began_ns: AtomicU64,
    interval_ns: AtomicU64,
    /// The moment of the last look, and of the last record.
    looked_ns: AtomicU64,
    recorded_ns: AtomicU64,
    peak_bytes: AtomicU64,
    rule: AtomicU64,
    rules_ns: [AtomicU64; RULES],
    /// 1: somebody writes, or drops records.
    busy: AtomicU32,
    /// Records that are in the file, and `thinned` when they were written.
    written: AtomicUsize,
    written_thinned: AtomicU32,
    /// Whose file is written: `UNDECIDED`, `FIRST` or `NUMBERED`.
    file: AtomicU32,
    path: Path,
}

struct Path(UnsafeCell<Text<256>>);

// SAFETY: written by `configure` alone, before any other thread exists.
unsafe impl Sync for Path {}

impl Trace {
    /// One with room for as many records as lie at `records`.
    pub(crate) const fn new(records: *mut Record) -> Self {
        Self {
            on: AtomicBool::new(false),
            records: AtomicPtr::new(records),
            len: AtomicUsize::new(0),
            thinned: AtomicU32::new(0),
            began_ns: AtomicU64::new(0),
            interval_ns: AtomicU64::new(INTERVAL_NS),
            looked_ns: AtomicU64::new(0),
            recorded_ns: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            rule: AtomicU64::new(0),
            rules_ns: [const { AtomicU64::new(0) }; RULES],
            busy: AtomicU32::new(0),
            written: AtomicUsize::new(0),
            written_thinned: AtomicU32::new(NEVER),
            file: AtomicU32::new(UNDECIDED),
            path: Path(UnsafeCell::new(Text::new())),
        }
    }
}

/// Nothing was written yet to any file; to the one that was asked for; to one with the process's number behind it.
const UNDECIDED: u32 = 0;
const FIRST: u32 = 1;
const NUMBERED: u32 = 2;

/// Nothing was written yet.
const NEVER: u32 = u32::MAX;

impl Trace {
    /// Switches the trace on, if a file is named.
    ///
    /// # Safety
    /// The program has one thread, and the pager has not started.
    pub unsafe fn configure(&self, file: Option<&[u8]>) {
        if let Some(file) = file.filter(|file| !file.is_empty()) {
            // SAFETY: as the caller promises.
            unsafe { (*self.path.0.get()).push(file) };
            self.on.store(true, Relaxed);
        }
    }

    /// In the child of a fork: it has none, and its parent's is left alone. (A shell forks thousands.)
    pub(crate) fn begin_in_child(&self) {
        self.on.store(false, Relaxed);
        self.reset();
    }
}

impl<O: Os> Pager<O> {
    /// Takes note of how things stand. By the reclaim thread, after each measurement.
    pub(crate) fn observe_decisions(&self) {
        if self.decisions.on.load(Relaxed) {
            let s = self.host.statistics();
            self.decisions.observe(O::now_ns(), s, &self.host.memory);
        }
    }

    /// Brings the file up to date. By the watchdog, or at the end.
    pub(crate) fn write_decisions(&self) {
        if self.decisions.on.load(Relaxed) {
            self.decisions.write(self, Moment::Meanwhile);
        }
    }

    /// Brings the file up to date with what has happened since the last record, at the end of the program. (The
    /// reclaim thread may take a record in the same moment; one of both is not taken then.)
    pub(crate) fn finish_decisions(&self) {
        if self.decisions.on.load(Relaxed) {
            self.decisions.write(self, Moment::AtTheEnd);
        }
    }
}

/// When the file is brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// While the program runs; one that is at it already is enough.
    Meanwhile,
    /// At the end of the program, with what has happened since the last record.
    AtTheEnd,
}

impl Trace {
    fn reset(&self) {
        for word in [&self.began_ns, &self.looked_ns, &self.recorded_ns] {
            word.store(0, Relaxed);
        }
        self.peak_bytes.store(0, Relaxed);
        self.rules_ns.iter().for_each(|ns| ns.store(0, Relaxed));
        self.interval_ns.store(INTERVAL_NS, Relaxed);
        self.len.store(0, Relaxed);
        self.written.store(0, Relaxed);
        self.written_thinned.store(NEVER, Relaxed);
        self.file.store(UNDECIDED, Relaxed);
        self.busy.store(0, Relaxed);
    }

    fn records(&self) -> Option<&[Record]> {
        let records = self.records.load(Acquire);
        // SAFETY: memory of the pager that stays, zeroed, with room for so many.
        (!records.is_null()).then(|| unsafe { core::slice::from_raw_parts(records, CAPACITY) })
    }

    fn observe<O: Os>(&self, now: u64, s: &Statistics, memory: &Memory<O>) {
        if self.records().is_none() {
            let Some(chunks) = memory.chunks(CHUNKS) else {
                self.on.store(false, Relaxed);
                return;
            };
            self.records.store(chunks.as_ptr().cast(), Release);
        }
        if self.began_ns.load(Relaxed) == 0 {
            for word in [&self.began_ns, &self.looked_ns, &self.recorded_ns] {
                word.store(now, Relaxed);
            }
        }
        self.look(now, s);
        let since = now.saturating_sub(self.recorded_ns.load(Relaxed));
        if since >= self.interval_ns.load(Relaxed) && self.take() {
            self.record(now, s);
            self.give();
        }
    }

    fn take(&self) -> bool {
        self.busy.swap(1, Acquire) == 0
    }

    fn give(&self) {
        self.busy.store(0, Release);
    }

    /// The time since the last look counts for the rule that was in force then.
    fn look(&self, now: u64, s: &Statistics) {
        let since = now.saturating_sub(self.looked_ns.swap(now, Relaxed));
        let rule = self.rule.swap(s.rule.load(Relaxed), Relaxed) as usize % RULES;
        self.rules_ns[rule].fetch_add(since, Relaxed);
        self.peak_bytes
            .fetch_max(s.total_bytes.load(Relaxed), Relaxed);
    }

    fn record(&self, now: u64, s: &Statistics) {
        let Some(records) = self.records() else {
            return;
        };
        if self.len.load(Relaxed) == CAPACITY {
            self.thin_out(records);
        }
        let len = self.len.load(Relaxed);
        let record = &records[len];
        let set = |at: usize, value: u64| record[at].store(value, Relaxed);
        set(AT, now.saturating_sub(self.began_ns.load(Relaxed)));
        set(PEAK, self.peak_bytes.swap(0, Relaxed));
        set(RULE, s.rule.load(Relaxed));
        for (n, ns) in self.rules_ns.iter().enumerate() {
            set(FIRST_RULE + n, ns.load(Relaxed));
        }
        for (n, value) in gauges(s).into_iter().enumerate() {
            set(FIRST_GAUGE + n, value);
        }
        for (n, value) in counters(s).into_iter().enumerate() {
            set(FIRST_COUNTER + n, value);
        }
        self.recorded_ns.store(now, Relaxed);
        self.len.store(len + 1, Release);
    }

    /// Drops every other record: the earlier of each two, of which the later says all but the peak.
    fn thin_out(&self, records: &[Record]) {
        for n in 0..CAPACITY / 2 {
            let (first, second, to) = (&records[2 * n], &records[2 * n + 1], &records[n]);
            let peak = first[PEAK].load(Relaxed).max(second[PEAK].load(Relaxed));
            for (to, from) in to.iter().zip(second) {
                to.store(from.load(Relaxed), Relaxed);
            }
            to[PEAK].store(peak, Relaxed);
        }
        self.len.store(CAPACITY / 2, Relaxed);
        self.thinned.fetch_add(1, Relaxed);
        let interval = self.interval_ns.load(Relaxed);
        self.interval_ns.store(interval * 2, Relaxed);
    }

    fn write<O: Os>(&self, pager: &Pager<O>, moment: Moment) {
        let mut tries = match moment {
            Moment::Meanwhile => 1,
            Moment::AtTheEnd => MOST_TRIES,
        };
        while !self.take() {
            tries -= 1;
            if tries == 0 {
                return;
            }
            sys::sleep_ns(1_000_000);
        }
        if moment == Moment::AtTheEnd && self.began_ns.load(Relaxed) != 0 {
            let (now, s) = (sys::now_ns(), pager.host.statistics());
            self.look(now, s);
            self.record(now, s);
        }
        if let Some(records) = self.records() {
            self.write_records(pager, &records[..self.len.load(Acquire)]);
        }
        self.give();
    }

    fn write_records<O: Os>(&self, pager: &Pager<O>, records: &[Record]) {
        let s = pager.host.statistics();
        let written = self.try_to_write(s, &pager.config(), records);
        let error = written.err().map_or(0, |error| error.raw_os_error() as u64);
        s.trace_error.store(error, Relaxed);
    }

    /// Writes what is not in the file yet. After an error the file ends with the last whole line, and the rest follows
    /// the next time.
    fn try_to_write(
        &self,
        s: &Statistics,
        config: &Config,
        records: &[Record],
    ) -> Result<(), Errno> {
        let thinned = self.thinned.load(Relaxed);
        let anew = self.written_thinned.load(Relaxed) != thinned;
        let from = if anew { 0 } else { self.written.load(Relaxed) };
        if from >= records.len() {
            return Ok(());
        }
        // Locked until it is closed: while it is empty nobody else takes it for a new one.
        let file = self.open(config)?;
        let mut end = rustix::fs::fstat(&file)?.st_size as u64;
        if anew {
            rustix::fs::ftruncate(&file, 0)?;
            end = append(&file, 0, head(s).as_bytes())?;
            self.written.store(0, Relaxed);
            self.written_thinned.store(thinned, Relaxed);
        }
        for n in from..records.len() {
            let before = n.checked_sub(1).map(|before| &records[before]);
            let mut line = Text::<LINE_BYTES>::default();
            if describe(&mut line, &records[n], before).is_ok() {
                end = append(&file, end, line.as_bytes())?;
            }
            self.written.store(n + 1, Relaxed);
        }
        Ok(())
    }

    fn open(&self, config: &Config) -> Result<OwnedFd, Errno> {
        let is_root = config.root_pid == sys::process_id();
        if self.file.load(Relaxed) != NUMBERED && (is_root || config.follow) {
            let file = open(self.path_with(None))?;
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let ours = self.file.load(Relaxed) == FIRST || !config.follow;
            let free = || locked.is_ok() && rustix::fs::fstat(&file).is_ok_and(|s| s.st_size == 0);
            if ours || free() {
                self.file.store(FIRST, Relaxed);
                return Ok(file);
            }
        }
        self.file.store(NUMBERED, Relaxed);
        open(self.path_with(Some(sys::process_id())))
    }

    fn path_with(&self, number: Option<u32>) -> Text<PATH_BYTES> {
        let mut path = Text::default();
        // SAFETY: not written once threads exist.
        path.push(unsafe { (*self.path.0.get()).as_bytes() });
        if let Some(number) = number {
            let _ = write!(path, ".{number}");
        }
        path
    }
}

fn open(mut path: Text<PATH_BYTES>) -> Result<OwnedFd, Errno> {
    let path = path.as_c_str().ok_or(Errno::NAMETOOLONG)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::APPEND;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)
}

/// Writes `bytes` behind the first `end` bytes, whole or not at all. Returns where the file ends then. A limit of file
/// sizes is asked about before: the kernel would send the thread SIGXFSZ.
fn append(file: &OwnedFd, end: u64, bytes: &[u8]) -> Result<u64, Errno> {
    let to = end + bytes.len() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    if limit.current.is_some_and(|limit| to > limit) {
        return Err(Errno::FBIG);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        let error = match rustix::io::write(file, rest) {
            Ok(0) => Errno::IO,
            Ok(n) => {
                rest = &rest[n..];
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(error) => error,
        };
        let _ = rustix::fs::ftruncate(file, end);
        return Err(error);
    }
    Ok(to)
}

/// The first line.
fn head(s: &Statistics) -> Text<512> {
    let mut line = Text::<512>::default();
    let _ = write!(
        line,
        "{{\"coldpress_trace\":1,\"pid\":{}",
        sys::process_id()
    );
    let program = s.program();
    let mut text = |name: &str, text: &[u8]| {
        let _ = write!(line, ",\"{name}\":\"");
        for &byte in text.iter().take_while(|&&byte| byte != 0) {
            let plain = (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\';
            line.push(&[if plain { byte } else { b'?' }]);
        }
        line.push(b"\"");
    };
    text("program", &program);
    text("codec", s.codec.read(&mut [0; NAME_BYTES]).as_bytes());
    text("storage", s.storage.read(&mut [0; NAME_BYTES]).as_bytes());
    line.push(b"}\n");
    line
}

/// A line for a record, and the time since the one before it.
fn describe(line: &mut impl Write, record: &Record, before: Option<&Record>) -> core::fmt::Result {
    let get = |at: usize| record[at].load(Relaxed);
    let since = |at: usize| get(at).wrapping_sub(before.map_or(0, |b| b[at].load(Relaxed)));
    let rule = |number: u64| Rule::from_word(number).map_or("none", Rule::name);
    write!(
        line,
        "{{\"t_ms\":{},\"rule\":\"{}\",\"rules_ms\":{{",
        get(AT) / 1_000_000,
        rule(get(RULE))
    )?;
    let mut comma = "";
    for number in 0..RULES {
        let ms = (since(FIRST_RULE + number) + 500_000) / 1_000_000;
        if ms > 0 {
            write!(line, "{comma}\"{}\":{ms}", rule(number as u64))?;
            comma = ",";
        }
    }
    write!(line, "}},\"peak_bytes\":{}", get(PEAK))?;
    for (n, name) in GAUGES.iter().enumerate() {
        match get(FIRST_GAUGE + n) {
            NO_BUDGET if *name == "budget_bytes" => write!(line, ",\"{name}\":null")?,
            value => write!(line, ",\"{name}\":{value}")?,
        }
    }
    for (n, name) in COUNTERS.iter().enumerate() {
        write!(line, ",\"{name}\":{}", since(FIRST_COUNTER + n))?;
    }
    line.write_str("}\n")
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;
    use std::string::String;
    use std::vec::Vec;

    static MEMORY: Memory = Memory::new();

    fn trace() -> Trace {
        let records: Vec<Record> = (0..CAPACITY)
            .map(|_| [const { AtomicU64::new(0) }; WORDS])
            .collect();
        let trace = Trace::new(Box::leak(records.into_boxed_slice()).as_mut_ptr());
        trace.on.store(true, Relaxed);
        trace
    }

    fn line(trace: &Trace, n: usize) -> String {
        let records = trace.records().unwrap();
        let mut line = String::new();
        let before = n.checked_sub(1).map(|n| &records[n]);
        describe(&mut line, &records[n], before).unwrap();
        line
    }

    fn has(line: &str, what: &str) {
        assert!(line.contains(what), "no {what} in {line}");
    }

    #[test]
    fn lines_tell_what_was_since_the_one_before() {
        let (trace, s) = (trace(), Statistics::new());
        let ms = 1_000_000;
        s.rule.store(Rule::WithinBudget as u64, Relaxed);
        s.budget_bytes.store(NO_BUDGET, Relaxed);
        s.total_bytes.store(900, Relaxed);
        trace.observe(ms, &s, &MEMORY);
        s.total_bytes.store(100, Relaxed);
        s.evictions.store(40, Relaxed);
        trace.observe(31 * ms, &s, &MEMORY);
        assert_eq!(trace.len.load(Relaxed), 0, "not yet");
        s.rule.store(Rule::NearBudget as u64, Relaxed);
        trace.observe(51 * ms, &s, &MEMORY);
        s.evictions.store(45, Relaxed);
        s.fail(Failure::Incompressible);
        s.budget_bytes.store(7, Relaxed);
        trace.observe(151 * ms, &s, &MEMORY);
        let first = line(&trace, 0);
        has(
            &first,
            "{\"t_ms\":50,\"rule\":\"near_budget\",\"rules_ms\":{\"within_budget\":50}",
        );
        has(&first, "\"peak_bytes\":900,\"total_bytes\":100,");
        has(&first, "\"budget_bytes\":null");
        has(&first, "\"evictions\":40,");
        let second = line(&trace, 1);
        has(&second, "\"rules_ms\":{\"near_budget\":100}");
        has(&second, "\"evictions\":5,");
        has(&second, "\"budget_bytes\":7,");
        has(&second, "\"incompressible\":1,\"move_busy\":0}");
        has(&second, "\"peak_bytes\":100,");
    }

    #[test]
    fn what_is_dropped_counts_in_what_stays() {
        let (trace, s) = (trace(), Statistics::new());
        s.rule.store(Rule::ColdAge as u64, Relaxed);
        let mut now = 1;
        trace.observe(now, &s, &MEMORY);
        for n in 1..=CAPACITY as u64 + 1 {
            now += INTERVAL_NS;
            s.evictions.store(3 * n, Relaxed);
            s.total_bytes.store(n % 2 * 1000 + n, Relaxed);
            trace.observe(now, &s, &MEMORY);
        }
        assert_eq!(trace.len.load(Relaxed), CAPACITY / 2 + 1);
        assert_eq!(trace.interval_ns.load(Relaxed), 2 * INTERVAL_NS);
        let tenth = line(&trace, 10);
        has(&tenth, "\"t_ms\":1100,");
        has(&tenth, "\"rules_ms\":{\"cold_age\":100}");
        has(&tenth, "\"evictions\":6,");
        has(&tenth, "\"peak_bytes\":1021,\"total_bytes\":22,");
        now += INTERVAL_NS;
        trace.observe(now, &s, &MEMORY);
        assert_eq!(trace.len.load(Relaxed), CAPACITY / 2 + 1, "half as often");
    }

    /// With every number as long as it can be, a line is not cut.
    #[test]
    fn no_line_is_longer_than_its_buffer() {
        let record: Record = [const { AtomicU64::new(u64::MAX) }; WORDS];
        for n in 0..RULES {
            record[FIRST_RULE + n].store(u64::MAX / 2, Relaxed);
        }
        let mut text = String::new();
        describe(&mut text, &record, None).unwrap();
        assert!(text.len() < LINE_BYTES, "{}", text.len());
    }
}
