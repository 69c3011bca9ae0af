//! Promise: a reader that was built before compression keeps working, and one that was built after
//! it sees content besides, of the same state.
//!
//! Both are `headers/reader.c`, compiled with the header as it was (`headers/v1.h`) and as it is
//! (`include/coldpress_info.h`).

use crate::machine::*;
use crate::metrics_common::*;
use coldpress_engine::metrics::accounting::*;
use coldpress_engine::metrics::kmem::KmemStatsCompression;
use coldpress_engine::metrics::layouts::*;
use coldpress_engine::metrics::query::{Answer, QueryError, Subject, get_info, topic};
use coldpress_engine::metrics::record::Record;
use coldpress_engine::metrics::task_times::FaultTimes;
use coldpress_engine::{Entry, SegmentId};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const VMOS: u32 = 3;
const PAGES: u32 = 64;

/// A process with three VMOs, one mapping each. What it says of them it finds in the engine.
struct Process {
    system: &'static System,
    times: FaultTimes,
}

impl Process {
    fn vmo_figures(&self, segment: SegmentId) -> VmoFigures {
        let (mut committed, mut content) = (Share::default(), Share::default());
        // The third is shared by three.
        let sharers = if segment == 3 { 3 } else { 1 };
        for index in 0..PAGES {
            let entry = self.system.engine.entry(segment, index);
            if let Entry::Page(_) = entry {
                committed.add_page(sharers);
            }
            if entry != Entry::Empty {
                content.add_page(sharers);
            }
        }
        VmoFigures {
            koid: 1000 + u64::from(segment),
            size_bytes: u64::from(PAGES) * 4096,
            num_mappings: 1,
            share_count: sharers.into(),
            flags: flags::RESIZABLE | flags::PINNED,
            committed,
            content,
            metadata_bytes: 77,
            committed_change_events: 5,
            ..VmoFigures::default()
        }
    }

    fn sum(&self, which: fn(&VmoFigures) -> Share) -> Share {
        let mut sum = Share::default();
        (1..=VMOS).for_each(|segment| sum.add(which(&self.vmo_figures(segment))));
        sum
    }
}

impl Subject for Process {
    fn vmo(&self) -> Option<VmoFigures> {
        Some(self.vmo_figures(1))
    }

    fn vmos(&self, tell: &mut dyn FnMut(&VmoFigures)) -> bool {
        (1..=VMOS).for_each(|segment| tell(&self.vmo_figures(segment)));
        true
    }

    fn mappings(&self, tell: &mut dyn FnMut(&MappingFigures)) -> bool {
        for segment in 1..=VMOS {
            let vmo = self.vmo_figures(segment);
            tell(&MappingFigures {
                base: u64::from(segment) << 32,
                size_bytes: vmo.size_bytes,
                mmu_flags: 7,
                vmo_koid: vmo.koid,
                vmo_offset: 0,
                committed_pages: vmo.committed.bytes / 4096,
                content_pages: vmo.content.bytes / 4096,
            });
        }
        true
    }

    fn task_memory(&self) -> Option<TaskMemory> {
        Some(TaskMemory {
            mapped_bytes: u64::from(VMOS * PAGES) * 4096,
            committed: self.sum(|vmo| vmo.committed),
            content: self.sum(|vmo| vmo.content),
        })
    }

    fn task_runtime(&self) -> Option<TaskRuntimeFigures> {
        Some(TaskRuntimeFigures {
            cpu_time_ns: 11,
            queue_time_ns: 12,
            faults: self.times,
            lock_contention_time_ns: 13,
        })
    }

    fn kmem(&self) -> Option<KmemFigures> {
        let mut kmem = KmemFigures {
            total_bytes: 1 << 30,
            vmo_committed_bytes: self.sum(|vmo| vmo.committed).bytes,
            vmo_content_bytes: self.sum(|vmo| vmo.content).bytes,
            other_bytes: 21,
            ..KmemFigures::default()
        };
        self.system.engine.add_reclaimable(&mut kmem);
        Some(kmem)
    }

    fn compression(&self) -> Option<KmemStatsCompression> {
        self.system.engine.compression()
    }
}

/// Some pages in place, some compressed, some as markers; one was compressed for long.
fn process() -> Process {
    let s = system(VMOS as usize, PAGES as usize);
    let (mut w, mut r) = (worker(1), reclaimer(2));
    for segment in 1..=VMOS {
        for index in 0..10 * segment {
            let kind = if index % 3 == 0 {
                Kind::Zero
            } else {
                Kind::Text
            };
            s.write(&mut w, segment, index, &content(kind, index.into()));
        }
    }
    s.send_away(&mut r);
    s.machine.advance(500 * SECOND);
    s.read(&mut w, 1, 1);
    for index in 0..7 {
        s.write(&mut w, 1, 40 + index, &content(Kind::Text, 1));
    }
    s.write(&mut w, 3, 50, &content(Kind::Text, 2));
    let times = FaultTimes {
        page_fault_ns: 900,
        page_fault_decompress_ns: 300,
    };
    Process { system: s, times }
}

/// Runs the reader and answers what it asks, as `serve` does it. What it understood.
fn reader(
    name: &str,
    header: &str,
    serve: impl Fn(u32, &mut [u8]) -> Result<Answer, QueryError>,
) -> BTreeMap<String, u64> {
    let header = format!("-DINFO_HEADER=\"{}\"", package(header).display());
    let program = compile(name, &package("tests/headers/reader.c"), &[&header]);
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut request = [0; 16];
    while from.read_exact(&mut request).is_ok() {
        let word = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
        let mut buffer = vec![0xEE; word(8) as usize];
        let (status, answer) = match serve(word(0) as u32, &mut buffer) {
            Ok(answer) => (0i64, answer),
            Err(QueryError::BufferTooSmall(_)) => (1, Answer::default()),
            Err(_) => (2, Answer::default()),
        };
        to.write_all(&status.to_ne_bytes()).unwrap();
        to.write_all(&(answer.actual as u64).to_ne_bytes()).unwrap();
        to.write_all(&(answer.avail as u64).to_ne_bytes()).unwrap();
        to.write_all(&buffer).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

const OLD: &str = "tests/headers/v1.h";
const NEW: &str = "include/coldpress_info.h";

#[test]
#[cfg_attr(miri, ignore = "starts a compiler")]
fn old_and_new_readers_see_the_same_state() {
    if !cc_or_skip() {
        return;
    }
    let process = process();
    let serve = |topic, buffer: &mut [u8]| get_info(&process, topic, buffer);
    let old = reader("reader_old", OLD, serve);
    let new = reader("reader_new", NEW, serve);
    for (name, value) in &old {
        assert_eq!(new.get(name), Some(value), "{name}");
    }
    assert!(old.len() > 40 && new.len() > old.len() + 20);
    // And it is the true state.
    let expect = |name: &str, value: u64| {
        assert_eq!(new.get(name), Some(&value), "{name}");
        if let Some(told) = old.get(name) {
            assert_eq!(*told, value, "{name}, by the old reader");
        }
    };
    expect("vmo.status", 0);
    expect("cramped.status", 1);
    expect("vmo.koid", 1001);
    expect("vmo.reserved", 0);
    expect("vmo.committed_bytes", 8 * 4096);
    expect("vmo.content_bytes", 17 * 4096);
    expect("vmo.committed_private_bytes", 8 * 4096);
    expect("vmos.none.actual", 0);
    expect("vmos.none.avail", 3);
    expect("vmos.two.actual", 2);
    expect("vmos.two.avail", 3);
    expect("vmos.actual", 3);
    expect("vmos.1.koid", 1002);
    expect("vmos.1.committed_bytes", 0);
    expect("vmos.1.content_bytes", 20 * 4096);
    expect("vmos.2.koid", 1003);
    expect("vmos.2.committed_bytes", 4096);
    // 31 pages, a third of each: 42,325 and a third.
    expect("vmos.2.content_scaled_bytes", 31 * 4096 / 3);
    let fraction = new["vmos.2.content_scaled_fraction"];
    assert!((Scaled::ONE / 3).abs_diff(fraction) <= 31, "{fraction}");
    expect("maps.actual", 3);
    expect("maps.bases", 6 << 32);
    expect("maps.committed_pages", 9);
    expect("maps.0.content_pages", 17);
    expect("stats.mem_private_bytes", 8 * 4096);
    expect("stats.mem_shared_bytes", 4096);
    expect("stats.content_private_bytes", 37 * 4096);
    expect("times.page_fault_time", 900);
    expect("times.page_fault_decompress_time", 300);
    expect("times.lock_contention_time", 13);
    expect("kmem.vmo_bytes", 9 * 4096);
    expect("kmem.vmo_content_bytes", (17 + 20 + 31) * 4096);
    expect("kmem.reclaimable", 9 * 4096);
    expect("kmem.newest", 9 * 4096);
    expect("kmem.oldest", 0);
    expect("kmem.other_bytes", 21);
    expect("compression.unit", SECOND);
    expect("compression.later", 1);
    let stored = process.system.engine.storage_usage().objects as u64;
    expect("compression.content", stored * 4096);
    for unknown in ["vmo.content_bytes", "compression.later"] {
        assert!(!old.contains_key(unknown), "the old reader knows {unknown}");
    }
}

/// What versions are for: were the old reader given the new layout, it would misread it. So the test
/// above can fail.
#[test]
#[cfg_attr(miri, ignore = "starts a compiler")]
fn an_old_reader_misreads_new_layouts() {
    if !cc_or_skip() {
        return;
    }
    let process = process();
    let told = reader("reader_misled", OLD, |topic, buffer: &mut [u8]| {
        let mut room = vec![0; buffer.len() + 4096];
        let cut = buffer.len();
        let answer = get_info(&process, 1 << 28 | topic, &mut room)?;
        buffer.copy_from_slice(&room[..cut]);
        Ok(answer)
    });
    assert_eq!(told["vmo.koid"], 1001, "what comes first is the same");
    assert_ne!(told["vmos.1.koid"], 1002);
    assert_ne!(told["vmo.committed_change_events"], 5);
    assert_ne!(told["times.lock_contention_time"], 13);
    assert_ne!(told["kmem.reclaimable"], 9 * 4096);
}

#[test]
fn queries_refuse_what_they_cannot_answer() {
    let process = process();
    let mut buffer = [0; 4096];
    // A version that is yet to come, and a topic that is none.
    for unknown in [
        2 << 28 | topic::VMO_V1,
        1 << 28 | topic::KMEM_STATS_COMPRESSION,
        0,
        99,
    ] {
        let answer = get_info(&process, unknown, &mut buffer);
        assert_eq!(answer, Err(QueryError::UnknownTopic), "{unknown:#x}");
    }
    // A new reader of VMOs on a system that does not know them: it may ask for the old layout.
    struct Nothing;
    impl Subject for Nothing {}
    for (name, topic) in topic::ALL {
        let answer = get_info(&Nothing, topic, &mut buffer);
        assert_eq!(answer, Err(QueryError::WrongSubject), "{name}");
        assert!(get_info(&process, topic, &mut buffer).is_ok(), "{name}");
    }
    let short = VmoV2::LAYOUT.bytes - 1;
    let answer = get_info(&process, topic::VMO_V2, &mut buffer[..short]);
    assert_eq!(answer, Err(QueryError::BufferTooSmall(short + 1)));
    assert!(get_info(&process, topic::VMO_V1, &mut buffer[..short]).is_ok());
    // Nothing is written behind what was answered.
    buffer.fill(0xEE);
    let answer = get_info(&process, topic::PROCESS_VMOS_V1, &mut buffer).unwrap();
    assert_eq!(
        answer,
        Answer {
            actual: 3,
            avail: 3
        }
    );
    let written = 3 * VmoV1::LAYOUT.bytes;
    assert!(buffer[written..].iter().all(|&byte| byte == 0xEE));
    let last = VmoV1::read_from(&buffer[2 * VmoV1::LAYOUT.bytes..]).unwrap();
    assert_eq!((last.koid, last.reserved), (1003, 0));
}
