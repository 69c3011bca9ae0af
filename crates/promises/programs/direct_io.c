/* Hazard: O_DIRECT pins the pages of a transfer in flight. A page taken out in between would
 * send stale bytes to the disk, or receive bytes into a frame the program no longer has. Each
 * thread writes its part of the region to a file, scrambles memory, reads it back directly
 * and verifies, while the pager evicts what it can.
 * Arguments: seed, threads, MiB a thread, milliseconds. Writes direct_io.data in its directory. */
#include "common.h"

static size_t bytes;
static uint64_t deadline;
static int file;

struct transfer {
    unsigned index;
    uint64_t rounds;
};

static void *transfer(void *context) {
    struct transfer *t = context;
    char *part = map_region(bytes);
    off_t at = (off_t)t->index * bytes;
    do {
        uint64_t version = t->rounds * 2;
        fill_region(part, bytes, t->index << 20, version);
        for (size_t done = 0; done < bytes; done += MIB)
            if (pwrite(file, part + done, MIB, at + done) != (ssize_t)MIB) die_errno("direct write");
        verify_region(part, bytes, t->index << 20, version, "memory after the direct write");
        fill_region(part, bytes, t->index << 20, version + 1);
        for (size_t done = 0; done < bytes; done += MIB)
            if (pread(file, part + done, MIB, at + done) != (ssize_t)MIB) die_errno("direct read");
        verify_region(part, bytes, t->index << 20, version, "bytes read directly");
        t->rounds++;
    } while (now_ms() < deadline);
    munmap(part, bytes);
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 2);
    bytes = argument(argc, argv, 3, 8) * MIB;
    deadline = now_ms() + argument(argc, argv, 4, 3000);
    file = open("direct_io.data", O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (file < 0) skip("no O_DIRECT in this directory");
    if (ftruncate(file, (off_t)threads * bytes)) die_errno("ftruncate");
    struct transfer transfers[16];
    pthread_t handles[16];
    for (unsigned i = 0; i < threads; i++) {
        transfers[i] = (struct transfer){i, 0};
        handles[i] = start_thread(transfer, &transfers[i]);
    }
    uint64_t rounds = 0;
    for (unsigned i = 0; i < threads; i++) {
        join_thread(handles[i]);
        rounds += transfers[i].rounds;
    }
    unlink("direct_io.data");
    printf("OK %llu rounds of %zu MiB\n", (unsigned long long)rounds, bytes / MIB);
}
