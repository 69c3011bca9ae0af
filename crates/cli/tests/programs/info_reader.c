// A program that asks a disk over its control socket, and prints what it understood: "name value" a line. It knows of
// Coldpress what coldpress_info.h says, and that the socket speaks one line of JSON each way.

#include "coldpress_info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char* path;

static void fail(const char* what) {
    perror(what);
    exit(1);
}

// The records of a topic. Returns how many bytes were told; 0: it was refused.
static size_t ask(uint32_t topic, void* records, size_t room) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr*)&address, sizeof(address)) != 0) fail("connect");
    char line[8192];
    int length = snprintf(line, sizeof(line),
                          "{\"command\":\"get_info\",\"topic\":%" PRIu32 ",\"room\":%zu}\n", topic, room);
    if (write(fd, line, (size_t)length) != length) fail("write");
    size_t filled = 0;
    ssize_t more;
    while (filled < sizeof(line) - 1 && (more = read(fd, line + filled, sizeof(line) - 1 - filled)) > 0) {
        filled += (size_t)more;
    }
    close(fd);
    line[filled] = 0;
    const char* digits = strstr(line, "\"records\":\"");
    if (digits == NULL) return 0;
    digits += strlen("\"records\":\"");
    size_t bytes = 0;
    for (unsigned byte; bytes < room && sscanf(digits, "%2x", &byte) == 1; digits += 2) {
        ((unsigned char*)records)[bytes++] = (unsigned char)byte;
    }
    return bytes;
}

#define PRINT(record, field) printf("%s %" PRIu64 "\n", #field, (uint64_t)(record).field)

int main(int count, char** arguments) {
    if (count != 2) return 2;
    path = arguments[1];

    zx_info_kmem_stats_compression_t stats;
    if (ask(COLDPRESS_INFO_KMEM_STATS_COMPRESSION, &stats, sizeof(stats)) != sizeof(stats)) return 3;
    PRINT(stats, uncompressed_content_bytes);
    PRINT(stats, compressed_storage_bytes);
    PRINT(stats, compressed_fragmentation_bytes);
    PRINT(stats, compression_time);
    PRINT(stats, decompression_time);
    PRINT(stats, total_page_compression_attempts);
    PRINT(stats, failed_page_compression_attempts);
    PRINT(stats, total_page_decompressions);
    PRINT(stats, compressed_page_evictions);
    PRINT(stats, eager_page_compressions);
    PRINT(stats, memory_pressure_page_compressions);
    PRINT(stats, critical_memory_page_compressions);
    PRINT(stats, pages_decompressed_unit_ns);
    uint64_t within = 0;
    for (int n = 0; n < 8; n++) within += stats.pages_decompressed_within_log_time[n];
    printf("within %" PRIu64 "\n", within);

    coldpress_info_task_runtime_t times;
    if (ask(COLDPRESS_INFO_TASK_RUNTIME, &times, sizeof(times)) != sizeof(times)) return 4;
    PRINT(times, page_fault_time);
    PRINT(times, page_fault_decompress_time);
    // What a program asks that was compiled when there was no second version.
    struct coldpress_info_task_runtime_v1 before;
    if (ask(COLDPRESS_INFO_TASK_RUNTIME_V1, &before, sizeof(before)) != sizeof(before)) return 5;
    if (before.page_fault_time != times.page_fault_time || before.cpu_time < times.cpu_time) return 6;

    // Refused: too little room, a topic that a disk knows nothing of, and one that there is not.
    if (ask(COLDPRESS_INFO_TASK_RUNTIME, &times, sizeof(times) - 1) != 0) return 7;
    coldpress_info_vmo_t vmo;
    if (ask(COLDPRESS_INFO_VMO, &vmo, sizeof(vmo)) != 0) return 8;
    if (ask(COLDPRESS_INFO_TOPIC(9, 7), &stats, sizeof(stats)) != 0) return 9;
    return 0;
}
