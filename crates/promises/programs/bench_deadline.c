/*
 * bench_deadline: a thread that must be done with its work every period, beside a thread that works
 * on far more memory.
 *
 * The worker is like audio: it wakes at a fixed grid, goes over its own 4 MiB, which are locked
 * as its stack is, as often as WORK_US of an undisturbed processor hold (measured at the start), and
 * must be through before the next period begins. Nothing raises its priority. The other
 * thread fills MIB of memory with text and then adds to pages of it at random: most of them
 * (9 of 10) in the tenth of the memory that is hot at the time, which moves on.
 *
 * For each period: when it was through after its begin; how late that was, where it was late; and
 * how late it woke. A period that began while the last one was still at work is its own miss.
 *
 * usage: bench_deadline MIB SECONDS PERIOD_US WORK_US
 */
#include "bench.h"
#include <errno.h>
#include <limits.h>

enum { OWN = 4 << 20, STACK = 256 << 10, MOST = 1 << 20 };

static size_t pages;
static char *memory;
static _Atomic int filled, over;
static _Atomic uint64_t touched, sink;
static uint64_t period_ns, work_ns, seconds;
static uint64_t *own;
static uint32_t *took_us, *woke_us; /* of each period, from its begin */
static _Atomic size_t periods;
static size_t all_periods;
static unsigned passes; /* over 64 KiB of the worker's memory */

static uint64_t pass(unsigned count)
{
    enum { STEP = (64 << 10) / 8 };
    static size_t at;
    uint64_t sum = 0;
    for (unsigned n = 0; n < count; n++) {
        for (size_t i = 0; i < STEP; i++) sum += own[at + i] = own[at + i] * 3 + i;
        at = (at + STEP) % (OWN / 8);
    }
    return sum;
}

/* How many passes take as long as they shall: by the fastest of many rounds. */
static void calibrate(void)
{
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 100; round++) {
        uint64_t begin = now_ns();
        sink += pass(OWN / (64 << 10));
        uint64_t took = now_ns() - begin;
        if (took < best) best = took;
    }
    passes = work_ns * (OWN / (64 << 10)) / best;
    if (!passes) passes = 1;
}

static void *work(void *unused)
{
    (void)unused;
    calibrate();
    uint64_t next = now_ns() + period_ns;
    while (!over && periods < MOST) {
        struct timespec t = {next / 1000000000, next % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
        }
        uint64_t woke = now_ns();
        sink += pass(passes);
        uint64_t done = now_ns();
        woke_us[periods] = (woke - next) / 1000;
        took_us[periods] = (done - next) / 1000;
        periods++;
        /* Whole periods that went by meanwhile were missed too, each later than the one before. */
        for (next += period_ns; next + period_ns < done && periods < MOST; next += period_ns) {
            woke_us[periods] = took_us[periods] = (done - next) / 1000;
            periods++;
        }
    }
    return NULL;
}

static void *touch(void *unused)
{
    (void)unused;
    for (size_t n = 0; n < pages; n++) fill_page(memory + n * PAGE, TEXT, n);
    filled = 1;
    uint64_t state = 7;
    for (uint64_t n = 0; !over; n++) {
        uint64_t random = mix(state += 0x9e3779b97f4a7c15u);
        size_t hot = n / 200000 * (pages / 20) % pages;
        size_t page = random % 10 ? hot + (random >> 16) % (pages / 10) : (random >> 16) % pages;
        uint64_t *word = (uint64_t *)(memory + page % pages * PAGE) + 1 + (random >> 52) % (WORDS - 2);
        *word += 1;
        touched++;
    }
    return NULL;
}

static void print_list(const char *name, const uint32_t *list)
{
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < all_periods; i++) printf("%s%u", i ? "," : "", list[i]);
    printf("]");
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench_deadline MIB SECONDS PERIOD_US WORK_US\n");
        return 2;
    }
    pages = strtoull(argv[1], NULL, 0) * (MIB / PAGE);
    seconds = strtoull(argv[2], NULL, 0);
    period_ns = strtoull(argv[3], NULL, 0) * 1000;
    work_ns = strtoull(argv[4], NULL, 0) * 1000;
    if (pages < 100 || !period_ns || seconds * 1000000000 / period_ns > MOST) return 2;
    make_patterns();

    own = map_bytes(OWN);
    char *stack = map_bytes(STACK);
    took_us = map_bytes(MOST * sizeof *took_us);
    woke_us = map_bytes(MOST * sizeof *woke_us);
    size_t lists = (seconds * 1000000000 / period_ns + 1000) * sizeof *took_us;
    if (mlock(own, OWN) || mlock(stack, STACK) || mlock(took_us, lists) || mlock(woke_us, lists)) fail("mlock");
    memset(own, 1, OWN);
    hello();

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, stack, STACK)) fail("pthread_attr_setstack");
    pthread_t worker, toucher;
    memory = map_bytes(pages * PAGE);
    if (pthread_create(&worker, &attributes, work, NULL)) fail("pthread_create");
    while (!periods) usleep(1000);
    uint64_t begin = now_ns();
    if (pthread_create(&toucher, NULL, touch, NULL)) fail("pthread_create");
    while (now_ns() - begin < seconds * 1000000000) usleep(20000);
    all_periods = periods;
    over = 1;
    pthread_join(worker, NULL);
    pthread_join(toucher, NULL);
    printf("{\"step\":\"done\",\"passes\":%u,\"touched\":%" PRIu64 ",\"filled\":%d", passes, touched, filled);
    print_list("took_us", took_us);
    print_list("woke_us", woke_us);
    printf("}\n");
    return 0;
}
