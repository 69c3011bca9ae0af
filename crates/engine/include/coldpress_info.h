// What Coldpress tells of VMOs, processes and the system: records with a fixed layout, by topic
// and version. The Rust side is crates/engine/src/metrics; a test compares the two.
//
// A topic's plain name is its newest version, and so is the plain name of its record. A program
// that was compiled with an older header asks for the version that it knows, and gets it; one that
// has to run on older systems asks for an older version where the new one is not known there.
//
// Numbers of bytes are exact; times are in nanoseconds; `reserved` is zero. Byte order and alignment
// are the machine's; there is no padding.

#ifndef COLDPRESS_INFO_H_
#define COLDPRESS_INFO_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// As Zircon declares it. (C11 allows to say so twice.)
typedef int64_t zx_duration_t;

// Version of this header: how many times layouts were added.
#define COLDPRESS_INFO_HEADER_VERSION 2

// A topic: a number, and in the four highest bits the version of its layout, from 0.
#define COLDPRESS_INFO_TOPIC(version, number) (((uint32_t)(version) << 28) | (uint32_t)(number))

#define COLDPRESS_INFO_TASK_STATS_V1 COLDPRESS_INFO_TOPIC(0, 1)  // one record
#define COLDPRESS_INFO_TASK_STATS_V2 COLDPRESS_INFO_TOPIC(1, 1)
#define COLDPRESS_INFO_TASK_STATS COLDPRESS_INFO_TASK_STATS_V2
#define COLDPRESS_INFO_PROCESS_MAPS_V1 COLDPRESS_INFO_TOPIC(0, 2)  // an array
#define COLDPRESS_INFO_PROCESS_MAPS_V2 COLDPRESS_INFO_TOPIC(1, 2)
#define COLDPRESS_INFO_PROCESS_MAPS COLDPRESS_INFO_PROCESS_MAPS_V2
#define COLDPRESS_INFO_PROCESS_VMOS_V1 COLDPRESS_INFO_TOPIC(0, 3)  // an array
#define COLDPRESS_INFO_PROCESS_VMOS_V2 COLDPRESS_INFO_TOPIC(1, 3)
#define COLDPRESS_INFO_PROCESS_VMOS COLDPRESS_INFO_PROCESS_VMOS_V2
#define COLDPRESS_INFO_VMO_V1 COLDPRESS_INFO_TOPIC(0, 4)  // one record
#define COLDPRESS_INFO_VMO_V2 COLDPRESS_INFO_TOPIC(1, 4)
#define COLDPRESS_INFO_VMO COLDPRESS_INFO_VMO_V2
#define COLDPRESS_INFO_TASK_RUNTIME_V1 COLDPRESS_INFO_TOPIC(0, 5)  // one record
#define COLDPRESS_INFO_TASK_RUNTIME_V2 COLDPRESS_INFO_TOPIC(1, 5)
#define COLDPRESS_INFO_TASK_RUNTIME COLDPRESS_INFO_TASK_RUNTIME_V2
#define COLDPRESS_INFO_KMEM_STATS_EXTENDED_V1 COLDPRESS_INFO_TOPIC(0, 6)  // one record
#define COLDPRESS_INFO_KMEM_STATS_EXTENDED_V2 COLDPRESS_INFO_TOPIC(1, 6)
#define COLDPRESS_INFO_KMEM_STATS_EXTENDED COLDPRESS_INFO_KMEM_STATS_EXTENDED_V2
#define COLDPRESS_INFO_KMEM_STATS_COMPRESSION COLDPRESS_INFO_TOPIC(0, 7)  // one record

// Flags of a VMO.
#define COLDPRESS_VMO_RESIZABLE 1u
#define COLDPRESS_VMO_SNAPSHOT (1u << 1)
#define COLDPRESS_VMO_PAGER_BACKED (1u << 2)
#define COLDPRESS_VMO_LATENCY_SENSITIVE (1u << 3)
#define COLDPRESS_VMO_PINNED (1u << 4)

// How compression is doing, in the RFC's layout.
struct zx_info_kmem_stats_compression {
    // Content that compressed storage holds now, as long as it was before, in bytes.
    // Markers are not in it: they take no storage.
    uint64_t uncompressed_content_bytes;
    // Memory of the compressed storage with its tables, fragmentation and other overheads,
    // in bytes. Tables do not shrink, so it can be above zero while there is no content.
    uint64_t compressed_storage_bytes;
    // Bytes of its frames that are not part of any stored object.
    uint64_t compressed_fragmentation_bytes;
    // Time spent compressing, all threads together, in nanoseconds. Measured by the host's
    // clock: time in which a thread was not running meanwhile is in it.
    zx_duration_t compression_time;
    // Time spent decompressing, likewise.
    zx_duration_t decompression_time;
    // Pages on which compression was tried, whatever came of it.
    uint64_t total_page_compression_attempts;
    // Of these: attempts whose result was not kept.
    uint64_t failed_page_compression_attempts;
    // Pages that left storage by being decompressed.
    uint64_t total_page_decompressions;
    // Pages that left storage without need of being decompressed.
    uint64_t compressed_page_evictions;
    // Pages compressed because they were inactive, without memory pressure.
    uint64_t eager_page_compressions;
    // Pages compressed because of memory pressure.
    uint64_t memory_pressure_page_compressions;
    // Pages compressed because memory had run out or nearly so.
    uint64_t critical_memory_page_compressions;
    // The unit of the buckets, in nanoseconds.
    uint64_t pages_decompressed_unit_ns;
    // How long pages were compressed that were decompressed: bucket 0 below one unit,
    // bucket n from 2^(n-1) to 2^n units, up to 128. Subtract all from
    // total_page_decompressions for what is longer.
    uint64_t pages_decompressed_within_log_time[8];
};
typedef struct zx_info_kmem_stats_compression zx_info_kmem_stats_compression_t;

// A VMO, before there was compression.
struct coldpress_info_vmo_v1 {
    // Its number.
    uint64_t koid;
    // The number of the VMO it is a snapshot of, or 0.
    uint64_t parent_koid;
    // Its size.
    uint64_t size_bytes;
    // Snapshots of it.
    uint64_t num_children;
    // Mappings of it.
    uint64_t num_mappings;
    // Processes that have mapped it.
    uint64_t share_count;
    // COLDPRESS_VMO_*.
    uint32_t flags;
    // Zero.
    uint32_t reserved;
    // Held in pages. Pages that are compressed are not in it.
    uint64_t committed_bytes;
    // Memory for its tables.
    uint64_t metadata_bytes;
    // How often committed_bytes changed without anybody asking for it.
    uint64_t committed_change_events;
};

// A VMO, with RFC-0219's content.
struct coldpress_info_vmo_v2 {
    // Its number.
    uint64_t koid;
    // The number of the VMO it is a snapshot of, or 0.
    uint64_t parent_koid;
    // Its size.
    uint64_t size_bytes;
    // Snapshots of it.
    uint64_t num_children;
    // Mappings of it.
    uint64_t num_mappings;
    // Processes that have mapped it.
    uint64_t share_count;
    // COLDPRESS_VMO_*.
    uint32_t flags;
    // Zero.
    uint32_t reserved;
    // Held in pages. Pages that are compressed are not in it.
    uint64_t committed_bytes;
    // Of it: shared with nobody.
    uint64_t committed_private_bytes;
    // Each page of it divided by how many share it.
    uint64_t committed_scaled_bytes;
    // And so many parts of a byte, of 2^63.
    uint64_t committed_scaled_fraction;
    // Remembered in any form: held in pages, compressed, or as a marker.
    uint64_t content_bytes;
    // Of it: shared with nobody.
    uint64_t content_private_bytes;
    // Each page of it divided by how many share it.
    uint64_t content_scaled_bytes;
    // And so many parts of a byte, of 2^63.
    uint64_t content_scaled_fraction;
    // Memory for its tables.
    uint64_t metadata_bytes;
    // How often committed_bytes changed without anybody asking for it.
    uint64_t committed_change_events;
};
typedef struct coldpress_info_vmo_v2 coldpress_info_vmo_t;

// A mapping, before there was compression.
struct coldpress_info_mapping_v1 {
    // Its address.
    uint64_t base;
    // Its length.
    uint64_t size_bytes;
    // What it may do.
    uint32_t mmu_flags;
    // Zero.
    uint32_t reserved;
    // The VMO.
    uint64_t vmo_koid;
    // Where in the VMO it begins.
    uint64_t vmo_offset;
    // Pages of the range that the VMO holds.
    uint64_t committed_pages;
};

// A mapping, with RFC-0219's content.
struct coldpress_info_mapping_v2 {
    // Its address.
    uint64_t base;
    // Its length.
    uint64_t size_bytes;
    // What it may do.
    uint32_t mmu_flags;
    // Zero.
    uint32_t reserved;
    // The VMO.
    uint64_t vmo_koid;
    // Where in the VMO it begins.
    uint64_t vmo_offset;
    // Pages of the range that the VMO holds.
    uint64_t committed_pages;
    // Pages of the range that are remembered in any form.
    uint64_t content_pages;
};
typedef struct coldpress_info_mapping_v2 coldpress_info_mapping_t;

// The memory of a process, before there was compression. All of it is committed memory.
struct coldpress_info_task_stats_v1 {
    // All that is mapped.
    uint64_t mem_mapped_bytes;
    // Held in pages, shared with nobody.
    uint64_t mem_private_bytes;
    // Held in pages, shared.
    uint64_t mem_shared_bytes;
    // Each page of mem_shared_bytes divided by how many share it.
    uint64_t mem_scaled_shared_bytes;
};

// The memory of a process: committed, and content.
struct coldpress_info_task_stats_v2 {
    // All that is mapped.
    uint64_t mem_mapped_bytes;
    // Held in pages, shared with nobody.
    uint64_t mem_private_bytes;
    // Held in pages, shared.
    uint64_t mem_shared_bytes;
    // Each page of mem_shared_bytes divided by how many share it.
    uint64_t mem_scaled_shared_bytes;
    // Remembered in any form, shared with nobody.
    uint64_t content_private_bytes;
    // Remembered in any form, shared.
    uint64_t content_shared_bytes;
    // Each page of content_shared_bytes divided by how many share it.
    uint64_t content_scaled_shared_bytes;
};
typedef struct coldpress_info_task_stats_v2 coldpress_info_task_stats_t;

// The times of a task, before there was compression. Nanoseconds.
struct coldpress_info_task_runtime_v1 {
    // On a processor.
    zx_duration_t cpu_time;
    // Ready to run, and waiting for one.
    zx_duration_t queue_time;
    // In page faults.
    zx_duration_t page_fault_time;
    // Waiting for locks of the machine.
    zx_duration_t lock_contention_time;
};

// The times of a task, with what RFC-0219 adds. Nanoseconds.
struct coldpress_info_task_runtime_v2 {
    // On a processor.
    zx_duration_t cpu_time;
    // Ready to run, and waiting for one.
    zx_duration_t queue_time;
    // In page faults.
    zx_duration_t page_fault_time;
    // Of page_fault_time: decompressing.
    zx_duration_t page_fault_decompress_time;
    // Waiting for locks of the machine.
    zx_duration_t lock_contention_time;
};
typedef struct coldpress_info_task_runtime_v2 coldpress_info_task_runtime_t;

// The memory of the machine, as it was called when only a user pager's pages could be had back.
// RFC-0219 keeps the three fields and redefines them: all that can be had back.
struct coldpress_info_kmem_stats_extended_v1 {
    // All there is.
    uint64_t total_bytes;
    // Used by nobody.
    uint64_t free_bytes;
    // The kernel itself.
    uint64_t wired_bytes;
    // The kernel's heap.
    uint64_t total_heap_bytes;
    // Of it: not in use.
    uint64_t free_heap_bytes;
    // Held in pages by VMOs.
    uint64_t vmo_bytes;
    // Reclaimable, all of it.
    uint64_t vmo_pager_total_bytes;
    // Reclaimable, most recently accessed.
    uint64_t vmo_pager_newest_bytes;
    // Reclaimable, least recently accessed.
    uint64_t vmo_pager_oldest_bytes;
    // Page tables.
    uint64_t mmu_overhead_bytes;
    // All else, compressed storage included.
    uint64_t other_bytes;
};

// The memory of the machine, by the names that RFC-0219's definitions suggest.
struct coldpress_info_kmem_stats_extended_v2 {
    // All there is.
    uint64_t total_bytes;
    // Used by nobody.
    uint64_t free_bytes;
    // The kernel itself.
    uint64_t wired_bytes;
    // The kernel's heap.
    uint64_t total_heap_bytes;
    // Of it: not in use.
    uint64_t free_heap_bytes;
    // Held in pages by VMOs.
    uint64_t vmo_bytes;
    // Remembered by VMOs in any form.
    uint64_t vmo_content_bytes;
    // Reclaimable, all of it: what can be evicted or compressed.
    uint64_t vmo_reclaim_total_bytes;
    // Reclaimable, most recently accessed, and not eligible now.
    uint64_t vmo_reclaim_newest_bytes;
    // Reclaimable, least recently accessed, and the first to go.
    uint64_t vmo_reclaim_oldest_bytes;
    // Would be reclaimable, but for latency-sensitive VMOs and pins.
    uint64_t vmo_reclaim_disabled_bytes;
    // Page tables.
    uint64_t mmu_overhead_bytes;
    // All else, compressed storage included.
    uint64_t other_bytes;
};
typedef struct coldpress_info_kmem_stats_extended_v2 coldpress_info_kmem_stats_extended_t;

#ifdef __cplusplus
}
#endif

#endif  // COLDPRESS_INFO_H_
