/*
 * bench_wake: hold memory, rest, and go through part of it again, or through all.
 *
 * "hot" touches HOT MIB of its MIB, in stretches of UNIT pages that lie all over it, each time in one and the same order,
 * in which neighbours are far apart. "walk" reads all of it in the order of addresses, each of N threads a part.
 * Once after it has filled its memory, and again for each line on standard input; what it took is told.
 *
 * usage: bench_wake hot MIB HOT UNIT
 *        bench_wake walk MIB THREADS
 */
#include "bench.h"

enum { MOST_THREADS = 64, SLOW_NS = 1000 };

static char *memory;
static uint64_t pages, threads;
static _Atomic uint64_t wrong;

static uint64_t *order, order_pages;
static uint64_t *slow, slow_count;

static void read_page(uint64_t page)
{
    const volatile uint64_t *at = (const volatile uint64_t *)(memory + page * PAGE);
    if (*at != page) wrong++;
}

static void choose(uint64_t hot_pages, uint64_t unit)
{
    uint64_t units = hot_pages / unit, every = pages / unit / units;
    order_pages = units * unit;
    order = map_bytes(order_pages * sizeof *order);
    slow = map_bytes(order_pages * sizeof *slow);
    for (uint64_t n = 0; n < order_pages; n++) order[n] = n / unit * every * unit + n % unit;
    uint64_t state = 7;
    for (uint64_t n = order_pages - 1; n > 0; n--) {
        uint64_t other = mix(state += 0x9e3779b97f4a7c15u) % (n + 1), page = order[n];
        order[n] = order[other];
        order[other] = page;
    }
    memset(slow, 0xff, order_pages * sizeof *slow);
}

static void touch_hot(void)
{
    slow_count = 0;
    for (uint64_t n = 0, before = now_ns(); n < order_pages; n++) {
        read_page(order[n]);
        uint64_t after = now_ns();
        if (after - before > SLOW_NS) slow[slow_count++] = after - before;
        before = after;
    }
}

static void *walk(void *number)
{
    uint64_t part = pages / threads, first = (uintptr_t)number * part;
    for (uint64_t page = first; page < first + part; page++) read_page(page);
    return NULL;
}

static void walk_all(void)
{
    pthread_t ids[MOST_THREADS];
    for (uint64_t n = 0; n < threads; n++)
        if (pthread_create(&ids[n], NULL, walk, (void *)(uintptr_t)n)) fail("pthread_create");
    for (uint64_t n = 0; n < threads; n++) pthread_join(ids[n], NULL);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void tell(uint64_t took_ns, uint64_t done_pages)
{
    if (slow_count) qsort(slow, slow_count, sizeof *slow, ascending);
    uint64_t p50 = slow_count ? slow[slow_count / 2] : 0, p99 = slow_count ? slow[slow_count - 1 - slow_count / 100] : 0;
    printf("{\"step\":\"touched\",\"took_ns\":%" PRIu64 ",\"pages\":%" PRIu64 ",\"slow\":%" PRIu64 ",\"p50_ns\":%" PRIu64
           ",\"p99_ns\":%" PRIu64 ",\"wrong\":%" PRIu64 "}\n",
           took_ns, done_pages, slow_count, p50, p99, wrong);
}

int main(int argc, char **argv)
{
    int hot = argc == 5 && !strcmp(argv[1], "hot");
    if (!hot && (argc != 4 || strcmp(argv[1], "walk"))) {
        fprintf(stderr, "usage: bench_wake hot MIB HOT UNIT | walk MIB THREADS\n");
        return 2;
    }
    pages = strtoull(argv[2], NULL, 0) * (MIB / PAGE);
    uint64_t number = strtoull(argv[3], NULL, 0);
    threads = hot ? 1 : number;
    if (!pages || !number || threads > MOST_THREADS) return 2;
    make_patterns();
    hello();
    memory = map_bytes(pages * PAGE);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    for (uint64_t n = 0; n < pages; n++) fill_page(memory + n * PAGE, TEXT, n);
    if (hot) choose(number * (MIB / PAGE), strtoull(argv[4], NULL, 0));
    do {
        uint64_t began = now_ns();
        if (hot)
            touch_hot();
        else
            walk_all();
        tell(now_ns() - began, hot ? order_pages : pages / threads * threads);
    } while (getchar() != EOF);
    return 0;
}
