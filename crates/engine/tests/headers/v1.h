// The header as it was before compression: version 1, never changed again. A program compiled with
// it has to keep working (tests/metrics_queries.rs).

#ifndef COLDPRESS_INFO_H_
#define COLDPRESS_INFO_H_

#include <stdint.h>

typedef int64_t zx_duration_t;

#define COLDPRESS_INFO_HEADER_VERSION 1

#define COLDPRESS_INFO_TASK_STATS 1u  // one record
#define COLDPRESS_INFO_PROCESS_MAPS 2u  // an array
#define COLDPRESS_INFO_PROCESS_VMOS 3u  // an array
#define COLDPRESS_INFO_VMO 4u  // one record
#define COLDPRESS_INFO_TASK_RUNTIME 5u  // one record
#define COLDPRESS_INFO_KMEM_STATS_EXTENDED 6u  // one record

// Flags of a VMO.
#define COLDPRESS_VMO_RESIZABLE 1u
#define COLDPRESS_VMO_SNAPSHOT (1u << 1)
#define COLDPRESS_VMO_PAGER_BACKED (1u << 2)
#define COLDPRESS_VMO_LATENCY_SENSITIVE (1u << 3)
#define COLDPRESS_VMO_PINNED (1u << 4)

// A VMO.
struct coldpress_info_vmo {
    uint64_t koid;
    uint64_t parent_koid;
    uint64_t size_bytes;
    uint64_t num_children;
    uint64_t num_mappings;
    uint64_t share_count;
    uint32_t flags;
    uint32_t reserved;
    uint64_t committed_bytes;
    uint64_t metadata_bytes;
    uint64_t committed_change_events;
};
typedef struct coldpress_info_vmo coldpress_info_vmo_t;

// A mapping.
struct coldpress_info_mapping {
    uint64_t base;
    uint64_t size_bytes;
    uint32_t mmu_flags;
    uint32_t reserved;
    uint64_t vmo_koid;
    uint64_t vmo_offset;
    uint64_t committed_pages;
};
typedef struct coldpress_info_mapping coldpress_info_mapping_t;

// The memory of a process. All of it is committed memory.
struct coldpress_info_task_stats {
    uint64_t mem_mapped_bytes;
    uint64_t mem_private_bytes;
    uint64_t mem_shared_bytes;
    uint64_t mem_scaled_shared_bytes;
};
typedef struct coldpress_info_task_stats coldpress_info_task_stats_t;

// The times of a task. Nanoseconds.
struct coldpress_info_task_runtime {
    zx_duration_t cpu_time;
    zx_duration_t queue_time;
    zx_duration_t page_fault_time;
    zx_duration_t lock_contention_time;
};
typedef struct coldpress_info_task_runtime coldpress_info_task_runtime_t;

// The memory of the machine.
struct coldpress_info_kmem_stats_extended {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t wired_bytes;
    uint64_t total_heap_bytes;
    uint64_t free_heap_bytes;
    uint64_t vmo_bytes;
    uint64_t vmo_pager_total_bytes;
    uint64_t vmo_pager_newest_bytes;
    uint64_t vmo_pager_oldest_bytes;
    uint64_t mmu_overhead_bytes;
    uint64_t other_bytes;
};
typedef struct coldpress_info_kmem_stats_extended coldpress_info_kmem_stats_extended_t;

#endif  // COLDPRESS_INFO_H_
