// A program that asks about a process and prints the answers. It is compiled with one header or the
// other (INFO_HEADER) and knows only what that says.
//
// Asking stands in for a system call: the request goes to standard output, the answer comes from
// standard input. What was understood goes to standard error, "name value" a line.

#include INFO_HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
    uint64_t topic;
    uint64_t room;
};

struct answer {
    int64_t status;
    uint64_t actual;
    uint64_t avail;
};

static struct answer ask(uint32_t topic, void* buffer, uint64_t room) {
    struct request request = {topic, room};
    struct answer answer;
    if (fwrite(&request, sizeof(request), 1, stdout) != 1 || fflush(stdout) != 0 ||
        fread(&answer, sizeof(answer), 1, stdin) != 1 ||
        (room != 0 && fread(buffer, room, 1, stdin) != 1)) {
        perror("ask");
        exit(1);
    }
    return answer;
}

static void print(const char* name, uint64_t value) {
    fprintf(stderr, "%s %" PRIu64 "\n", name, value);
}

static void print_vmo(const char* prefix, const coldpress_info_vmo_t* vmo) {
    char name[80];
#define FIELD(field)                                             \
    do {                                                         \
        snprintf(name, sizeof(name), "%s.%s", prefix, #field);   \
        print(name, vmo->field);                                 \
    } while (0)
    FIELD(koid);
    FIELD(size_bytes);
    FIELD(num_mappings);
    FIELD(flags);
    FIELD(reserved);
    FIELD(committed_bytes);
    FIELD(committed_change_events);
#if COLDPRESS_INFO_HEADER_VERSION >= 2
    FIELD(committed_private_bytes);
    FIELD(content_bytes);
    FIELD(content_scaled_bytes);
    FIELD(content_scaled_fraction);
#endif
}

int main(void) {
    coldpress_info_vmo_t vmo;
    struct answer answer = ask(COLDPRESS_INFO_VMO, &vmo, sizeof(vmo));
    print("vmo.status", (uint64_t)answer.status);
    print_vmo("vmo", &vmo);

    // One byte too few.
    answer = ask(COLDPRESS_INFO_VMO, &vmo, sizeof(vmo) - 1);
    print("cramped.status", (uint64_t)answer.status);

    // First how many there are, then two of them, then all.
    answer = ask(COLDPRESS_INFO_PROCESS_VMOS, NULL, 0);
    print("vmos.none.actual", answer.actual);
    print("vmos.none.avail", answer.avail);
    coldpress_info_vmo_t vmos[4];
    memset(vmos, 0xEE, sizeof(vmos));
    answer = ask(COLDPRESS_INFO_PROCESS_VMOS, vmos, 2 * sizeof(vmos[0]) + 9);
    print("vmos.two.actual", answer.actual);
    print("vmos.two.avail", answer.avail);
    answer = ask(COLDPRESS_INFO_PROCESS_VMOS, vmos, sizeof(vmos));
    print("vmos.actual", answer.actual);
    print("vmos.avail", answer.avail);
    for (uint64_t n = 0; n < answer.actual && n < 4; n++) {
        char prefix[16];
        snprintf(prefix, sizeof(prefix), "vmos.%" PRIu64, n);
        print_vmo(prefix, &vmos[n]);
    }

    coldpress_info_mapping_t maps[4];
    answer = ask(COLDPRESS_INFO_PROCESS_MAPS, maps, sizeof(maps));
    print("maps.actual", answer.actual);
    uint64_t bases = 0, committed_pages = 0;
    for (uint64_t n = 0; n < answer.actual && n < 4; n++) {
        bases += maps[n].base;
        committed_pages += maps[n].committed_pages;
    }
    print("maps.bases", bases);
    print("maps.committed_pages", committed_pages);

    coldpress_info_task_stats_t stats;
    ask(COLDPRESS_INFO_TASK_STATS, &stats, sizeof(stats));
    print("stats.mem_mapped_bytes", stats.mem_mapped_bytes);
    print("stats.mem_private_bytes", stats.mem_private_bytes);
    print("stats.mem_shared_bytes", stats.mem_shared_bytes);

    coldpress_info_task_runtime_t times;
    ask(COLDPRESS_INFO_TASK_RUNTIME, &times, sizeof(times));
    print("times.page_fault_time", (uint64_t)times.page_fault_time);
    print("times.lock_contention_time", (uint64_t)times.lock_contention_time);

    coldpress_info_kmem_stats_extended_t kmem;
    ask(COLDPRESS_INFO_KMEM_STATS_EXTENDED, &kmem, sizeof(kmem));
    print("kmem.total_bytes", kmem.total_bytes);
    print("kmem.vmo_bytes", kmem.vmo_bytes);
    print("kmem.other_bytes", kmem.other_bytes);
#if COLDPRESS_INFO_HEADER_VERSION == 1
    print("kmem.reclaimable", kmem.vmo_pager_total_bytes);
    print("kmem.newest", kmem.vmo_pager_newest_bytes);
    print("kmem.oldest", kmem.vmo_pager_oldest_bytes);
#else
    print("kmem.reclaimable", kmem.vmo_reclaim_total_bytes);
    print("kmem.newest", kmem.vmo_reclaim_newest_bytes);
    print("kmem.oldest", kmem.vmo_reclaim_oldest_bytes);
    print("kmem.vmo_content_bytes", kmem.vmo_content_bytes);
    print("maps.0.content_pages", maps[0].content_pages);
    print("stats.content_private_bytes", stats.content_private_bytes);
    print("times.page_fault_decompress_time", (uint64_t)times.page_fault_decompress_time);

    zx_info_kmem_stats_compression_t compression;
    ask(COLDPRESS_INFO_KMEM_STATS_COMPRESSION, &compression, sizeof(compression));
    uint64_t later = compression.total_page_decompressions;
    for (int n = 0; n < 8; n++) {
        later -= compression.pages_decompressed_within_log_time[n];
    }
    print("compression.content", compression.uncompressed_content_bytes);
    print("compression.unit", compression.pages_decompressed_unit_ns);
    print("compression.later", later);
#endif
    return 0;
}
