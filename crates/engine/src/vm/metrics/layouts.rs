//! The records that queries answer with, old and new.
//!
//! Each is made from the plain figures ([`accounting`](super::accounting)); none is made from
//! another. What a version adds stands where it belongs and not at the end, so an old record is no
//! prefix of a new one: only the version of the topic tells them apart.

use super::accounting::{KmemFigures, MappingFigures, TaskMemory, TaskRuntimeFigures, VmoFigures};
use super::kmem::KmemStatsCompression;
use super::record::{Layout, Record, record};

/// Every record, for whoever checks layouts.
pub const ALL: [Layout; 11] = [
    KmemStatsCompression::LAYOUT,
    VmoV1::LAYOUT,
    VmoV2::LAYOUT,
    MappingV1::LAYOUT,
    MappingV2::LAYOUT,
    TaskStatsV1::LAYOUT,
    TaskStatsV2::LAYOUT,
    TaskRuntimeV1::LAYOUT,
    TaskRuntimeV2::LAYOUT,
    KmemStatsExtendedV1::LAYOUT,
    KmemStatsExtendedV2::LAYOUT,
];

record! {
    /// A VMO, before there was compression.
    #[c_name = "coldpress_info_vmo_v1"]
    pub struct VmoV1(vmo: VmoFigures) {
        /// Its number.
        koid: u64 = vmo.koid,
        /// The number of the VMO it is a snapshot of, or 0.
        parent_koid: u64 = vmo.parent_koid,
        /// Its size.
        size_bytes: u64 = vmo.size_bytes,
        /// Snapshots of it.
        num_children: u64 = vmo.num_children,
        /// Mappings of it.
        num_mappings: u64 = vmo.num_mappings,
        /// Processes that have mapped it.
        share_count: u64 = vmo.share_count,
        /// `COLDPRESS_VMO_*`.
        flags: u32 = vmo.flags,
        /// Zero.
        reserved: u32 = 0,
        /// Held in pages. Pages that are compressed are not in it.
        committed_bytes: u64 = vmo.committed.bytes,
        /// Memory for its tables.
        metadata_bytes: u64 = vmo.metadata_bytes,
        /// How often `committed_bytes` changed without anybody asking for it.
        committed_change_events: u64 = vmo.committed_change_events,
    }
}

record! {
    /// A VMO, with RFC-0219's content.
    #[c_name = "coldpress_info_vmo_v2"]
    pub struct VmoV2(vmo: VmoFigures) {
        /// Its number.
        koid: u64 = vmo.koid,
        /// The number of the VMO it is a snapshot of, or 0.
        parent_koid: u64 = vmo.parent_koid,
        /// Its size.
        size_bytes: u64 = vmo.size_bytes,
        /// Snapshots of it.
        num_children: u64 = vmo.num_children,
        /// Mappings of it.
        num_mappings: u64 = vmo.num_mappings,
        /// Processes that have mapped it.
        share_count: u64 = vmo.share_count,
        /// `COLDPRESS_VMO_*`.
        flags: u32 = vmo.flags,
        /// Zero.
        reserved: u32 = 0,
        /// Held in pages. Pages that are compressed are not in it.
        committed_bytes: u64 = vmo.committed.bytes,
        /// Of it: shared with nobody.
        committed_private_bytes: u64 = vmo.committed.private_bytes,
        /// Each page of it divided by how many share it.
        committed_scaled_bytes: u64 = vmo.committed.scaled.bytes,
        /// And so many parts of a byte, of 2^63.
        committed_scaled_fraction: u64 = vmo.committed.scaled.fraction,
        /// Remembered in any form: held in pages, compressed, or as a marker.
        content_bytes: u64 = vmo.content.bytes,
        /// Of it: shared with nobody.
        content_private_bytes: u64 = vmo.content.private_bytes,
        /// Each page of it divided by how many share it.
        content_scaled_bytes: u64 = vmo.content.scaled.bytes,
        /// And so many parts of a byte, of 2^63.
        content_scaled_fraction: u64 = vmo.content.scaled.fraction,
        /// Memory for its tables.
        metadata_bytes: u64 = vmo.metadata_bytes,
        /// How often `committed_bytes` changed without anybody asking for it.
        committed_change_events: u64 = vmo.committed_change_events,
    }
}

record! {
    /// A mapping, before there was compression.
    #[c_name = "coldpress_info_mapping_v1"]
    pub struct MappingV1(mapping: MappingFigures) {
        /// Its address.
        base: u64 = mapping.base,
        /// Its length.
        size_bytes: u64 = mapping.size_bytes,
        /// What it may do.
        mmu_flags: u32 = mapping.mmu_flags,
        /// Zero.
        reserved: u32 = 0,
        /// The VMO.
        vmo_koid: u64 = mapping.vmo_koid,
        /// Where in the VMO it begins.
        vmo_offset: u64 = mapping.vmo_offset,
        /// Pages of the range that the VMO holds.
        committed_pages: u64 = mapping.committed_pages,
    }
}

record! {
    /// A mapping, with RFC-0219's content.
    #[c_name = "coldpress_info_mapping_v2"]
    pub struct MappingV2(mapping: MappingFigures) {
        /// Its address.
        base: u64 = mapping.base,
        /// Its length.
        size_bytes: u64 = mapping.size_bytes,
        /// What it may do.
        mmu_flags: u32 = mapping.mmu_flags,
        /// Zero.
        reserved: u32 = 0,
        /// The VMO.
        vmo_koid: u64 = mapping.vmo_koid,
        /// Where in the VMO it begins.
        vmo_offset: u64 = mapping.vmo_offset,
        /// Pages of the range that the VMO holds.
        committed_pages: u64 = mapping.committed_pages,
        /// Pages of the range that are remembered in any form.
        content_pages: u64 = mapping.content_pages,
    }
}

record! {
    /// The memory of a process, before there was compression. All of it is committed memory.
    #[c_name = "coldpress_info_task_stats_v1"]
    pub struct TaskStatsV1(memory: TaskMemory) {
        /// All that is mapped.
        mem_mapped_bytes: u64 = memory.mapped_bytes,
        /// Held in pages, shared with nobody.
        mem_private_bytes: u64 = memory.committed.private_bytes,
        /// Held in pages, shared.
        mem_shared_bytes: u64 = memory.committed.shared_bytes(),
        /// Each page of `mem_shared_bytes` divided by how many share it.
        mem_scaled_shared_bytes: u64 = memory.committed.scaled_shared_bytes(),
    }
}

record! {
    /// The memory of a process: committed, and content.
    #[c_name = "coldpress_info_task_stats_v2"]
    pub struct TaskStatsV2(memory: TaskMemory) {
        /// All that is mapped.
        mem_mapped_bytes: u64 = memory.mapped_bytes,
        /// Held in pages, shared with nobody.
        mem_private_bytes: u64 = memory.committed.private_bytes,
        /// Held in pages, shared.
        mem_shared_bytes: u64 = memory.committed.shared_bytes(),
        /// Each page of `mem_shared_bytes` divided by how many share it.
        mem_scaled_shared_bytes: u64 = memory.committed.scaled_shared_bytes(),
        /// Remembered in any form, shared with nobody.
        content_private_bytes: u64 = memory.content.private_bytes,
        /// Remembered in any form, shared.
        content_shared_bytes: u64 = memory.content.shared_bytes(),
        /// Each page of `content_shared_bytes` divided by how many share it.
        content_scaled_shared_bytes: u64 = memory.content.scaled_shared_bytes(),
    }
}

record! {
    /// The times of a task, before there was compression. Nanoseconds.
    #[c_name = "coldpress_info_task_runtime_v1"]
    pub struct TaskRuntimeV1(times: TaskRuntimeFigures) {
        /// On a processor.
        cpu_time: i64 = times.cpu_time_ns as i64,
        /// Ready to run, and waiting for one.
        queue_time: i64 = times.queue_time_ns as i64,
        /// In page faults.
        page_fault_time: i64 = times.faults.page_fault_ns as i64,
        /// Waiting for locks of the machine.
        lock_contention_time: i64 = times.lock_contention_time_ns as i64,
    }
}

record! {
    /// The times of a task, with what RFC-0219 adds. Nanoseconds.
    #[c_name = "coldpress_info_task_runtime_v2"]
    pub struct TaskRuntimeV2(times: TaskRuntimeFigures) {
        /// On a processor.
        cpu_time: i64 = times.cpu_time_ns as i64,
        /// Ready to run, and waiting for one.
        queue_time: i64 = times.queue_time_ns as i64,
        /// In page faults.
        page_fault_time: i64 = times.faults.page_fault_ns as i64,
        /// Of `page_fault_time`: decompressing.
        page_fault_decompress_time: i64 = times.faults.page_fault_decompress_ns as i64,
        /// Waiting for locks of the machine.
        lock_contention_time: i64 = times.lock_contention_time_ns as i64,
    }
}

record! {
    /// The memory of the machine, as it was called when only a user pager's pages could be had
    /// back. RFC-0219 keeps the three fields and redefines them: all that can be had back.
    #[c_name = "coldpress_info_kmem_stats_extended_v1"]
    pub struct KmemStatsExtendedV1(kmem: KmemFigures) {
        /// All there is.
        total_bytes: u64 = kmem.total_bytes,
        /// Used by nobody.
        free_bytes: u64 = kmem.free_bytes,
        /// The kernel itself.
        wired_bytes: u64 = kmem.wired_bytes,
        /// The kernel's heap.
        total_heap_bytes: u64 = kmem.total_heap_bytes,
        /// Of it: not in use.
        free_heap_bytes: u64 = kmem.free_heap_bytes,
        /// Held in pages by VMOs.
        vmo_bytes: u64 = kmem.vmo_committed_bytes,
        /// Reclaimable, all of it.
        vmo_pager_total_bytes: u64 = kmem.reclaimable.total_bytes,
        /// Reclaimable, most recently accessed.
        vmo_pager_newest_bytes: u64 = kmem.reclaimable.newest_bytes,
        /// Reclaimable, least recently accessed.
        vmo_pager_oldest_bytes: u64 = kmem.reclaimable.oldest_bytes,
        /// Page tables.
        mmu_overhead_bytes: u64 = kmem.mmu_overhead_bytes,
        /// All else, compressed storage included.
        other_bytes: u64 = kmem.other_bytes,
    }
}

record! {
    /// The memory of the machine, by the names that RFC-0219's definitions suggest.
    #[c_name = "coldpress_info_kmem_stats_extended_v2"]
    pub struct KmemStatsExtendedV2(kmem: KmemFigures) {
        /// All there is.
        total_bytes: u64 = kmem.total_bytes,
        /// Used by nobody.
        free_bytes: u64 = kmem.free_bytes,
        /// The kernel itself.
        wired_bytes: u64 = kmem.wired_bytes,
        /// The kernel's heap.
        total_heap_bytes: u64 = kmem.total_heap_bytes,
        /// Of it: not in use.
        free_heap_bytes: u64 = kmem.free_heap_bytes,
        /// Held in pages by VMOs.
        vmo_bytes: u64 = kmem.vmo_committed_bytes,
        /// Remembered by VMOs in any form.
        vmo_content_bytes: u64 = kmem.vmo_content_bytes,
        /// Reclaimable, all of it: what can be evicted or compressed.
        vmo_reclaim_total_bytes: u64 = kmem.reclaimable.total_bytes,
        /// Reclaimable, most recently accessed, and not eligible now.
        vmo_reclaim_newest_bytes: u64 = kmem.reclaimable.newest_bytes,
        /// Reclaimable, least recently accessed, and the first to go.
        vmo_reclaim_oldest_bytes: u64 = kmem.reclaimable.oldest_bytes,
        /// Would be reclaimable, but for latency-sensitive VMOs and pins.
        vmo_reclaim_disabled_bytes: u64 = kmem.reclaim_disabled_bytes,
        /// Page tables.
        mmu_overhead_bytes: u64 = kmem.mmu_overhead_bytes,
        /// All else, compressed storage included.
        other_bytes: u64 = kmem.other_bytes,
    }
}
