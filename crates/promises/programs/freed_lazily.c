/* Hazard: memory that the program has given up by MADV_FREE before the pager knew of it. The kernel may drop such a page at
 * any time, wherever it is by then: while it is being compressed, too. Until then, and if the program writes to it, it is
 * memory like any other. Here somebody has the kernel reclaim all that it can, all of the time, as an agent of the system
 * does by process_madvise(MADV_PAGEOUT). Each page must hold all that was in it, or nothing.
 * Arguments: seed, MiB, rounds. */
#include "common.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

static atomic_int done;
static char *region;
static size_t bytes;

static void *reclaim_all(void *unused) {
    (void)unused;
    while (!atomic_load(&done)) {
        FILE *maps = fopen("/proc/self/maps", "r");
        char line[512];
        if (!maps) die_errno("/proc/self/maps");
        while (fgets(line, sizeof line, maps)) {
            unsigned long start, end, inode;
            char rights[8];
            if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &start, &end, rights, &inode) != 4) continue;
            if (inode || rights[1] != 'w' || rights[3] != 'p' || strstr(line, "[stack")) continue;
            /* Not where it was given up: there it would be gone at once, and the pager never meet it. */
            if (start < (uintptr_t)region + bytes && end > (uintptr_t)region) continue;
            madvise((void *)start, end - start, MADV_PAGEOUT);
        }
        fclose(maps);
    }
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    bytes = argument(argc, argv, 2, 8) * MIB;
    long rounds = argument(argc, argv, 3, 20);
    size_t kept = 0, dropped = 0, other_bytes = 8 * MIB;
    char *others = map_region(other_bytes);
    for (long round = 0; round < rounds; round++) {
        /* Nobody has registered this memory yet. */
        region = map_apart(bytes);
        fill_region(region, bytes, 0, round);
        if (madvise(region, bytes, MADV_FREE)) die_errno("MADV_FREE");
        atomic_store(&done, 0);
        pthread_t thread = start_thread(reclaim_all, NULL);
        fill_region(others, other_bytes, 1 << 20, round);
        settle(others, other_bytes);
        verify_region(others, other_bytes, 1 << 20, round, "other memory");
        atomic_store(&done, 1);
        join_thread(thread);
        for (size_t page = 0; page < bytes / PAGE; page++) {
            const uint64_t *words = (const uint64_t *)(region + page * PAGE);
            int is_zero = 1;
            for (unsigned i = 0; is_zero && i < WORDS; i++) is_zero = words[i] == 0;
            dropped += is_zero;
            kept += !is_zero;
            if (!is_zero) verify_page(words, page, round, "given up, and kept");
        }
        munmap(region - PAGE, bytes + 2 * PAGE);
    }
    printf("OK %zu pages kept, %zu dropped\n", kept, dropped);
}
