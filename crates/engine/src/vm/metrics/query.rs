//! Queries by topic and version: how records evolve and old readers keep working.
//!
//! ```text
//!  topic   31   28 27                          0
//!         │version│ number                      │
//! ```
//!
//! A reader is compiled with a header that gives each topic's plain name the newest version it
//! knows, and the layout that goes with it. Version 0 is the first layout, V1: it is what a reader
//! asks for that was built when nobody thought of versions. A new layout gets the next version and
//! the plain name; the old one stays and is answered from the same figures. So:
//!
//! * an old reader and a new system: asks for the old version, gets the old layout;
//! * a new reader and an old system: gets [`QueryError::UnknownTopic`], and may ask for an older
//!   version;
//! * arrays need versions most: their elements have another length.
//!
//! Answers are those of `zx_object_get_info`: how many records were written, and how many there are.
//! A topic of one record wants room for it; an array is cut to whole records that fit.
//!
//! Nothing is allocated, and a subject is asked once: elements come one by one.

use super::accounting::{KmemFigures, MappingFigures, TaskMemory, TaskRuntimeFigures, VmoFigures};
use super::kmem::KmemStatsCompression;
use super::layouts::*;
use super::record::Record;
use crate::{Engine, Host};
use coldpress_codec::PageCodec;
use coldpress_storage::CompressedStorage;

/// Numbers of the topics, with their versions.
pub mod topic {
    const fn second(first: u32) -> u32 {
        1 << 28 | first
    }

    /// The memory of a process: [`TaskStatsV1`](super::TaskStatsV1).
    pub const TASK_STATS_V1: u32 = 1;
    /// The same: [`TaskStatsV2`](super::TaskStatsV2).
    pub const TASK_STATS_V2: u32 = second(TASK_STATS_V1);
    /// The mappings of a process, an array: [`MappingV1`](super::MappingV1).
    pub const PROCESS_MAPS_V1: u32 = 2;
    /// The same: [`MappingV2`](super::MappingV2).
    pub const PROCESS_MAPS_V2: u32 = second(PROCESS_MAPS_V1);
    /// The VMOs of a process, an array: [`VmoV1`](super::VmoV1).
    pub const PROCESS_VMOS_V1: u32 = 3;
    /// The same: [`VmoV2`](super::VmoV2).
    pub const PROCESS_VMOS_V2: u32 = second(PROCESS_VMOS_V1);
    /// A VMO: [`VmoV1`](super::VmoV1).
    pub const VMO_V1: u32 = 4;
    /// The same: [`VmoV2`](super::VmoV2).
    pub const VMO_V2: u32 = second(VMO_V1);
    /// The times of a task: [`TaskRuntimeV1`](super::TaskRuntimeV1).
    pub const TASK_RUNTIME_V1: u32 = 5;
    /// The same: [`TaskRuntimeV2`](super::TaskRuntimeV2).
    pub const TASK_RUNTIME_V2: u32 = second(TASK_RUNTIME_V1);
    /// The memory of the machine: [`KmemStatsExtendedV1`](super::KmemStatsExtendedV1).
    pub const KMEM_STATS_EXTENDED_V1: u32 = 6;
    /// The same: [`KmemStatsExtendedV2`](super::KmemStatsExtendedV2).
    pub const KMEM_STATS_EXTENDED_V2: u32 = second(KMEM_STATS_EXTENDED_V1);
    /// How compression is doing: [`KmemStatsCompression`](super::KmemStatsCompression). New, so it
    /// has one version.
    pub const KMEM_STATS_COMPRESSION: u32 = 7;

    /// Every topic in every version, by the name it has in C behind `COLDPRESS_INFO_`.
    pub const ALL: [(&str, u32); 13] = [
        ("TASK_STATS_V1", TASK_STATS_V1),
        ("TASK_STATS_V2", TASK_STATS_V2),
        ("PROCESS_MAPS_V1", PROCESS_MAPS_V1),
        ("PROCESS_MAPS_V2", PROCESS_MAPS_V2),
        ("PROCESS_VMOS_V1", PROCESS_VMOS_V1),
        ("PROCESS_VMOS_V2", PROCESS_VMOS_V2),
        ("VMO_V1", VMO_V1),
        ("VMO_V2", VMO_V2),
        ("TASK_RUNTIME_V1", TASK_RUNTIME_V1),
        ("TASK_RUNTIME_V2", TASK_RUNTIME_V2),
        ("KMEM_STATS_EXTENDED_V1", KMEM_STATS_EXTENDED_V1),
        ("KMEM_STATS_EXTENDED_V2", KMEM_STATS_EXTENDED_V2),
        ("KMEM_STATS_COMPRESSION", KMEM_STATS_COMPRESSION),
    ];
}

/// What was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Records written.
    pub actual: usize,
    /// Records there are.
    pub avail: usize,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// There is no such topic, or not in this version.
    UnknownTopic,
    /// The subject has nothing to say of this topic: it is a VMO and was asked for its threads.
    WrongSubject,
    /// The record has so many bytes, and there is no room for it.
    BufferTooSmall(usize),
}

/// Something that can be asked: a VMO, a process, a thread, the system. What it has nothing to say of
/// it leaves out.
pub trait Subject {
    /// It is this VMO.
    fn vmo(&self) -> Option<VmoFigures> {
        None
    }

    /// Tells its VMOs. `false`: it is nothing that has any.
    fn vmos(&self, tell: &mut dyn FnMut(&VmoFigures)) -> bool {
        let _ = tell;
        false
    }

    /// Tells its mappings. `false`: it is nothing that has any.
    fn mappings(&self, tell: &mut dyn FnMut(&MappingFigures)) -> bool {
        let _ = tell;
        false
    }

    /// Its memory.
    fn task_memory(&self) -> Option<TaskMemory> {
        None
    }

    /// Its times.
    fn task_runtime(&self) -> Option<TaskRuntimeFigures> {
        None
    }

    /// The memory of the machine.
    fn kmem(&self) -> Option<KmemFigures> {
        None
    }

    /// How compression is doing.
    fn compression(&self) -> Option<KmemStatsCompression> {
        None
    }
}

/// An engine knows of itself how compression is doing. A system that has one hands this on.
impl<H: Host, C: PageCodec, S: CompressedStorage> Subject for Engine<H, C, S> {
    fn compression(&self) -> Option<KmemStatsCompression> {
        Some(self.kmem_stats_compression())
    }
}

/// Answers a query into `buffer`, in the layout of the topic's version.
pub fn get_info(
    subject: &dyn Subject,
    topic: u32,
    buffer: &mut [u8],
) -> Result<Answer, QueryError> {
    match topic {
        topic::VMO_V1 => one::<VmoV1, _>(subject.vmo(), buffer),
        topic::VMO_V2 => one::<VmoV2, _>(subject.vmo(), buffer),
        topic::PROCESS_VMOS_V1 => many::<VmoV1, _>(|tell| subject.vmos(tell), buffer),
        topic::PROCESS_VMOS_V2 => many::<VmoV2, _>(|tell| subject.vmos(tell), buffer),
        topic::PROCESS_MAPS_V1 => many::<MappingV1, _>(|tell| subject.mappings(tell), buffer),
        topic::PROCESS_MAPS_V2 => many::<MappingV2, _>(|tell| subject.mappings(tell), buffer),
        topic::TASK_STATS_V1 => one::<TaskStatsV1, _>(subject.task_memory(), buffer),
        topic::TASK_STATS_V2 => one::<TaskStatsV2, _>(subject.task_memory(), buffer),
        topic::TASK_RUNTIME_V1 => one::<TaskRuntimeV1, _>(subject.task_runtime(), buffer),
        topic::TASK_RUNTIME_V2 => one::<TaskRuntimeV2, _>(subject.task_runtime(), buffer),
        topic::KMEM_STATS_EXTENDED_V1 => one::<KmemStatsExtendedV1, _>(subject.kmem(), buffer),
        topic::KMEM_STATS_EXTENDED_V2 => one::<KmemStatsExtendedV2, _>(subject.kmem(), buffer),
        topic::KMEM_STATS_COMPRESSION => {
            one::<KmemStatsCompression, _>(subject.compression(), buffer)
        }
        _ => Err(QueryError::UnknownTopic),
    }
}

/// A topic of one record.
fn one<R, F>(figures: Option<F>, buffer: &mut [u8]) -> Result<Answer, QueryError>
where
    R: Record + for<'f> From<&'f F>,
{
    let figures = figures.ok_or(QueryError::WrongSubject)?;
    let bytes = R::LAYOUT.bytes;
    let room = buffer.get_mut(..bytes);
    let room = room.ok_or(QueryError::BufferTooSmall(bytes))?;
    R::from(&figures).write_to(room);
    Ok(Answer {
        actual: 1,
        avail: 1,
    })
}

/// A topic of as many records as there are.
fn many<R, F>(
    tell_all: impl FnOnce(&mut dyn FnMut(&F)) -> bool,
    buffer: &mut [u8],
) -> Result<Answer, QueryError>
where
    R: Record + for<'f> From<&'f F>,
{
    let mut answer = Answer::default();
    let mut room = buffer.chunks_exact_mut(R::LAYOUT.bytes);
    let has_any = tell_all(&mut |figures| {
        answer.avail += 1;
        if let Some(room) = room.next() {
            R::from(figures).write_to(room);
            answer.actual += 1;
        }
    });
    match has_any {
        true => Ok(answer),
        false => Err(QueryError::WrongSubject),
    }
}
