/* Hazard: a page that is being written while it is taken out. Copy-then-drop loses the writes
 * made in between; only a move keeps them. Every thread increments words of its own and, with
 * atomic additions, one shared word in each page; afterwards each sum must be exact.
 * Arguments: seed, threads, MiB, milliseconds. */
#include "common.h"

static uint64_t *region;
static size_t pages;
static uint64_t deadline;

struct writer {
    unsigned index;
    uint64_t done;
};

static void *write_on(void *context) {
    struct writer *w = context;
    uint64_t state = seed + w->index;
    uint64_t done = 0;
    while (now_ms() < deadline) {
        size_t first = rng(&state) % pages;
        for (size_t k = 0; k < 512; k++) { /* a run of pages, some of them cold, some just taken */
            volatile uint64_t *page = region + (first + k) % pages * WORDS;
            page[8 + w->index * 8] += 1;
            __atomic_fetch_add(&region[(first + k) % pages * WORDS + WORDS - 1], 1, __ATOMIC_RELAXED);
            done++;
        }
    }
    w->done = done;
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    unsigned threads = argument(argc, argv, 2, 3);
    size_t bytes = argument(argc, argv, 3, 16) * MIB;
    deadline = now_ms() + argument(argc, argv, 4, 3000);
    region = map_region(bytes);
    pages = bytes / PAGE;
    for (size_t i = 0; i < pages; i++) region[i * WORDS] = i + 1;
    struct writer writers[32];
    pthread_t handles[32];
    for (unsigned t = 0; t < threads; t++) {
        writers[t] = (struct writer){t, 0};
        handles[t] = start_thread(write_on, &writers[t]);
    }
    uint64_t wanted = 0;
    for (unsigned t = 0; t < threads; t++) {
        join_thread(handles[t]);
        wanted += writers[t].done;
    }
    uint64_t shared = 0;
    for (size_t i = 0; i < pages; i++) {
        if (region[i * WORDS] != i + 1)
            die("page %zu at %p: expected id %zu, found %llu", i, (void *)&region[i * WORDS], i + 1,
                (unsigned long long)region[i * WORDS]);
        shared += region[i * WORDS + WORDS - 1];
    }
    for (unsigned t = 0; t < threads; t++) {
        uint64_t own = 0;
        for (size_t i = 0; i < pages; i++) own += region[i * WORDS + 8 + t * 8];
        if (own != writers[t].done)
            die("thread %u: %llu increments made, %llu found", t, (unsigned long long)writers[t].done,
                (unsigned long long)own);
    }
    if (shared != wanted)
        die("atomic additions: %llu made, %llu found", (unsigned long long)wanted, (unsigned long long)shared);
    printf("OK %llu increments by %u threads\n", (unsigned long long)wanted, threads);
}
