/*
 * bench_idle: hold memory, and do nothing, or touch it at random.
 *
 * Filled with text, then: SECONDS 0 sleeps until standard input ends; otherwise, for each line of it,
 * THREADS threads add to words at random, all over the memory, for so long, and the number of touches
 * is told.
 *
 * usage: bench_idle MIB SECONDS THREADS
 */
#include "bench.h"

static char *memory;
static uint64_t pages;
static _Atomic uint64_t touches, sum;
static uint64_t until_ns;

static void *touch(void *seed)
{
    uint64_t state = (uintptr_t)seed, done = 0, seen = 0;
    do {
        for (int i = 0; i < 1024; i++) {
            uint64_t random = mix(state += 0x9e3779b97f4a7c15u);
            uint64_t *word = (uint64_t *)(memory + random % pages * PAGE) + (random >> 48) % (WORDS - 2) + 1;
            seen += *word;
            if (random >> 32 & 1) *word = seen;
        }
        done += 1024;
    } while (now_ns() < until_ns);
    touches += done;
    sum += seen;
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench_idle MIB SECONDS THREADS\n");
        return 2;
    }
    pages = strtoull(argv[1], NULL, 0) * (MIB / PAGE);
    double seconds = atof(argv[2]);
    int threads = atoi(argv[3]);
    if (!pages || threads < 1 || threads > 256) return 2;
    make_patterns();
    hello();
    memory = map_bytes(pages * PAGE);
    for (uint64_t n = 0; n < pages; n++) fill_page(memory + n * PAGE, TEXT, n);
    printf("{\"step\":\"filled\"}\n");
    if (seconds == 0) {
        while (getchar() != EOF) {
        }
        return 0;
    }
    while (getchar() != EOF) {
        touches = 0;
        uint64_t begin = now_ns();
        until_ns = begin + (uint64_t)(seconds * 1e9);
        pthread_t ids[256];
        for (int i = 0; i < threads; i++)
            if (pthread_create(&ids[i], NULL, touch, (void *)(uintptr_t)(i + 1))) fail("pthread_create");
        for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
        double took = (now_ns() - begin) / 1e9;
        printf("{\"step\":\"touched\",\"touches\":%" PRIu64 ",\"seconds\":%f,\"sum\":%u}\n", touches, took,
               (unsigned)sum);
    }
    return 0;
}
