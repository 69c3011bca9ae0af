/* bench_fault: touches that take long, each with its time, by one thread or several.
 *
 *   bench_fault touch MIB SECONDS THREADS FILE   touches pages of a filled mapping at random
 *   bench_fault floor MIB SECONDS THREADS FILE   touches missing pages; each thread has a userfaultfd and a handler of its own
 *                                                on its processor, which reads a message and copies a page that is ready
 *
 * "floor" is the least that a fault answered by a thread can cost here. Each thread has pages of its own. Whoever started the
 * program steers it by lines. FILE gets what took longer than a microsecond: number of the page's first byte, time before and
 * after, and 0 (four numbers of 64 bits each). FILE.handlers gets, for "floor", what the pager's trace of faults has
 * (crates/pager/src/machine/fault_trace.rs): eight numbers, the first record a header. */
#include "bench.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { MOST_THREADS = 16, MOST_SLOW = 1 << 17, SLOW_NS = 1000 };

struct slow {
    uint64_t page, before, after, none;
};

struct record {
    uint64_t page, thread, runs, closed, read, decoded, copied, none;
};

static char *memory;
static uint64_t pages;
static int threads, floor_of_all;
static double seconds;
static pthread_barrier_t together;

static struct toucher {
    pthread_t thread, handler;
    int number, uffd;
    uint64_t touches, wrong, slow_count, handled;
    uint32_t *versions;
    struct slow *slow;
    struct record *records;
} touchers[MOST_THREADS];

static uint64_t *word_of(uint64_t page)
{
    return (uint64_t *)(memory + page * PAGE) + WORDS / 2;
}

static void pin(int number)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all)) fail("sched_getaffinity");
    int skip = number % CPU_COUNT(&all), cpu = 0;
    for (;; cpu++)
        if (CPU_ISSET(cpu, &all) && skip-- == 0) break;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one)) fail("pthread_setaffinity_np");
}

static void note(struct toucher *t, uint64_t page, uint64_t before, uint64_t after)
{
    if (after - before < SLOW_NS) return;
    if (t->slow_count < MOST_SLOW)
        t->slow[t->slow_count] = (struct slow){(uint64_t)(memory + page * PAGE), before, after, 0};
    t->slow_count++;
}

/* Of a filled mapping: three reads to a write, as in bench_pages. */
static void touch_at_random(struct toucher *t)
{
    uint64_t state = mix(t->number + 1), own = pages / threads, end = now_ns() + (uint64_t)(seconds * 1e9);
    for (uint64_t after = 0; after < end; t->touches++) {
        state = mix(state + 0x9e3779b97f4a7c15u);
        uint64_t at = (uint64_t)(((unsigned __int128)state * own) >> 64);
        uint64_t page = at * threads + t->number;
        int writes = (state & 3) == 0;
        volatile uint64_t *word = word_of(page);
        uint64_t expected = mix(page * 4294967296u + (writes ? ++t->versions[at] : t->versions[at]));
        uint64_t before = now_ns();
        if (writes)
            *word = expected;
        else
            t->wrong += *word != expected;
        after = now_ns();
        note(t, page, before, after);
    }
}

/* Of an empty one: each page once, in an order without neighbours. */
static void touch_missing(struct toucher *t)
{
    uint64_t own = pages / threads, end = now_ns() + (uint64_t)(seconds * 1e9), after = 0;
    for (uint64_t n = 0; n < own && after < end; n++, t->touches++) {
        uint64_t page = t->number * own + n * 7919 % own;
        uint64_t before = now_ns();
        t->wrong += *(volatile uint64_t *)word_of(page) != 1;
        after = now_ns();
        note(t, page, before, after);
    }
}

static void *toucher(void *own)
{
    struct toucher *t = own;
    if (floor_of_all) pin(t->number);
    pthread_barrier_wait(&together);
    if (floor_of_all)
        touch_missing(t);
    else
        touch_at_random(t);
    return NULL;
}

/* Reads before it polls, as the pager's handlers do. */
static void *handler(void *own)
{
    struct toucher *t = own;
    static uint64_t ready[WORDS] __attribute__((aligned(PAGE)));
    pin(t->number);
    ready[WORDS / 2] = 1;
    for (;;) {
        struct uffd_msg message;
        struct record record = {.runs = now_ns()};
        ssize_t got = read(t->uffd, &message, sizeof message);
        if (got < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = t->uffd, .events = POLLIN};
            if (poll(&wait, 1, -1) < 0) fail("poll");
            continue;
        }
        if (got != sizeof message) fail("read of a userfaultfd");
        record.closed = record.runs;
        record.read = record.decoded = now_ns();
        record.page = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
        struct uffdio_copy copy = {.dst = record.page, .src = (uint64_t)ready, .len = PAGE};
        if (ioctl(t->uffd, UFFDIO_COPY, &copy)) fail("UFFDIO_COPY");
        record.copied = now_ns();
        t->records[t->handled++] = record;
    }
    return NULL;
}

static void handle_faults(struct toucher *t)
{
    uint64_t own = pages / threads;
    t->uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (t->uffd < 0) fail("userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    if (ioctl(t->uffd, UFFDIO_API, &api)) fail("UFFDIO_API");
    struct uffdio_register all = {.range = {(uint64_t)memory + t->number * own * PAGE, own * PAGE},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(t->uffd, UFFDIO_REGISTER, &all)) fail("UFFDIO_REGISTER");
    t->records = map_bytes((own + 1) * sizeof *t->records);
    memset(t->records, 0, (own + 1) * sizeof *t->records);
    if (pthread_create(&t->handler, NULL, handler, t)) fail("pthread_create");
}

static void write_all(const char *path, const char *suffix, int handlers)
{
    char name[4096];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    FILE *file = fopen(name, "w");
    if (!file) fail(name);
    struct record header = {0};
    for (int n = 0; n < threads; n++) header.page += touchers[n].handled;
    if (handlers) fwrite(&header, sizeof header, 1, file);
    for (int n = 0; n < threads; n++) {
        struct toucher *t = &touchers[n];
        uint64_t kept = t->slow_count < MOST_SLOW ? t->slow_count : MOST_SLOW;
        if (handlers)
            fwrite(t->records, sizeof *t->records, t->handled, file);
        else
            fwrite(t->slow, sizeof *t->slow, kept, file);
    }
    if (fclose(file)) fail(name);
}

static void prepare(struct toucher *t, int number)
{
    t->number = number;
    t->slow = map_bytes(MOST_SLOW * sizeof *t->slow);
    memset(t->slow, 0, MOST_SLOW * sizeof *t->slow);
    if (floor_of_all) {
        handle_faults(t);
        return;
    }
    uint64_t own = pages / threads;
    t->versions = map_bytes(own * sizeof *t->versions);
    for (uint64_t at = 0; at < own; at++) {
        uint64_t page = at * threads + number;
        fill_page(memory + page * PAGE, TEXT, page);
        *word_of(page) = mix(page * 4294967296u);
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_fault touch|floor MIB SECONDS THREADS FILE\n");
        return 2;
    }
    floor_of_all = !strcmp(argv[1], "floor");
    threads = atoi(argv[4]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    pages = strtoull(argv[2], NULL, 10) * (MIB / PAGE) / threads * threads;
    seconds = strtod(argv[3], NULL);
    hello();
    make_patterns();
    memory = map_bytes(pages * PAGE);
    madvise(memory, pages * PAGE, MADV_NOHUGEPAGE);
    pthread_barrier_init(&together, NULL, threads + 1);
    for (int n = 0; n < threads; n++) {
        prepare(&touchers[n], n);
        if (pthread_create(&touchers[n].thread, NULL, toucher, &touchers[n])) fail("pthread_create");
    }
    printf("{\"step\":\"filled\"}\n");
    if (getchar() == EOF) return 2;
    uint64_t began = now_ns(), touches = 0, wrong = 0, slow = 0;
    pthread_barrier_wait(&together);
    for (int n = 0; n < threads; n++) {
        pthread_join(touchers[n].thread, NULL);
        touches += touchers[n].touches;
        wrong += touchers[n].wrong;
        slow += touchers[n].slow_count;
    }
    printf("{\"step\":\"touched\",\"touches\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"slow\":%" PRIu64 ",\"took_ns\":%" PRIu64 "}\n",
           touches, wrong, slow, now_ns() - began);
    if (getchar() == EOF) return 2;
    write_all(argv[5], "", 0);
    if (floor_of_all) write_all(argv[5], ".handlers", 1);
    printf("{\"step\":\"written\"}\n");
    return 0;
}
