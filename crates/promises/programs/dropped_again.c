/* Hazard: memory of which some was taken is dropped and touched again, over and over. The pager stops looking after it
 * where nothing of it is away, while its neighbours are taken and come back: what was dropped must be zero, what was
 * not must be whole. Two threads share the blocks of 2 MiB in which that is decided.
 * Arguments: seed, MiB, rounds of each thread. Says how many pages were touched for the first time after a drop. */
#include "common.h"

static char *base;
static size_t stripes;
static long rounds;
static _Atomic uint64_t touched;

/* Every second stripe is a thread's. */
enum { THREADS = 2, STRIPE = 48 };

static void *churn(void *which) {
    size_t thread = (size_t)which;
    uint64_t state = seed * 977 + thread, *version = calloc(stripes, sizeof *version);
    for (size_t n = thread; n < stripes; n += THREADS) version[n] = 1;
    for (long round = 0; round < rounds; round++) {
        size_t n = rng(&state) % (stripes / THREADS) * THREADS + thread;
        char *at = base + n * STRIPE * PAGE;
        /* A part of it, and the rest stays. */
        size_t first = rng(&state) % STRIPE, pages = 1 + rng(&state) % (STRIPE - first);
        if (rng(&state) % 4 == 0) first = 0, pages = STRIPE;
        for (size_t i = 0; i < STRIPE; i++) {
            if (version[n]) verify_page(at + i * PAGE, n * STRIPE + i, version[n], "what stayed");
            else verify_zero(at + i * PAGE, "what was dropped");
        }
        if (madvise(at + first * PAGE, pages * PAGE, MADV_DONTNEED)) die_errno("madvise");
        if (version[n])
            for (size_t i = 0; i < STRIPE; i++)
                if (i < first || i >= first + pages) verify_page(at + i * PAGE, n * STRIPE + i, version[n], "beside");
        verify_zero_region(at + first * PAGE, pages * PAGE, "just dropped");
        touched += pages;
        if (rng(&state) % 8) {
            version[n] = round + 2;
            for (size_t i = 0; i < STRIPE; i++) fill_page(at + i * PAGE, n * STRIPE + i, version[n]);
        } else {
            if (madvise(at, STRIPE * PAGE, MADV_DONTNEED)) die_errno("madvise");
            version[n] = 0;
        }
    }
    for (size_t n = thread; n < stripes; n += THREADS)
        for (size_t i = 0; i < STRIPE; i++) {
            char *page = base + (n * STRIPE + i) * PAGE;
            if (version[n]) verify_page(page, n * STRIPE + i, version[n], "at the end");
            else verify_zero(page, "at the end");
        }
    free(version);
    return NULL;
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    stripes = argument(argc, argv, 2, 32) * MIB / PAGE / STRIPE / THREADS * THREADS;
    rounds = argument(argc, argv, 3, 4000);
    size_t bytes = stripes * STRIPE * PAGE;
    base = map_region(bytes);
    fill_region(base, bytes, 0, 1);
    settle(base, bytes);
    pthread_t threads[THREADS];
    for (size_t n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, churn, (void *)n)) die_errno("pthread_create");
    for (size_t n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    dprintf(1, "OK %llu touched again\n", (unsigned long long)touched);
}
