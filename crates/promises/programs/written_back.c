/* Pages that hardly compress, or not at all, more of them than the budget has room for even when they are compressed:
 * what is cold must go to the file of --writeback, and every page must hold what was written last, in threads that read
 * and write at random, in children that are forked meanwhile, and in children of these.
 * Arguments: seed, MiB, threads, milliseconds, forks; then 1 to wait for a line on standard input before all is read by
 * one thread, where pages that cannot be read back are counted instead (SIGBUS).
 * Of each four pages one compresses to less than a half, one to two thirds, and two not at all. */
#include "common.h"
#include <setjmp.h>

static const char canary[16] = "COLDPRESS-CANARY";
static char *region;
static size_t pages, still;
static uint64_t until;
static long threads;
static uint32_t *versions;

/* Words of eight that are random: the others are one and the same. */
static unsigned random_of(uint64_t id) {
    static const unsigned of[] = {3, 5, 8, 8};
    return of[id % 4];
}

static uint64_t content(uint64_t id, uint64_t version, unsigned i) {
    uint64_t word;
    if (i < 2) {
        memcpy(&word, canary + 8 * i, 8);
        return word;
    }
    if (i % 8 >= random_of(id)) return id << 32 ^ version;
    return mix(seed * 0x9E3779B97F4A7C15u + id * 0xC2B2AE3D27D4EB4Fu + version * 0x165667B19E3779F9u + i);
}

static void put_page(size_t id, uint32_t version) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    versions[id] = version;
    for (unsigned i = 0; i < WORDS; i++) words[i] = content(id, version, i);
}

static void check(size_t id, const char *when) {
    uint64_t *words = (uint64_t *)(region + id * PAGE);
    for (unsigned i = 0; i < WORDS; i++)
        if (words[i] != content(id, versions[id], i))
            die("%s: page %zu at %p word %u: expected %#llx (version %u), found %#llx", when, id, (void *)words, i,
                (unsigned long long)content(id, versions[id], i), versions[id], (unsigned long long)words[i]);
}

/* Each thread has pages of its own, beside the others'. */
static void *use(void *number) {
    long own = (long)number;
    uint64_t state = seed + 1000 * own, done = 0;
    while (now_ms() < until) {
        size_t id = still + (rng(&state) % ((pages - still) / threads)) * threads + own;
        check(id, "used");
        switch (rng(&state) % 8) {
        case 0:
            if (madvise(region + id * PAGE, PAGE, MADV_DONTNEED)) die_errno("madvise");
            verify_zero(region + id * PAGE, "dropped");
            /* fall through */
        case 1:
        case 2:
            put_page(id, versions[id] + 1);
        }
        done++;
    }
    return (void *)done;
}

static void read_and_change(uint64_t own, const char *when) {
    uint64_t state = seed + own;
    for (unsigned n = 0; n < 600; n++) check(rng(&state) % still, when);
    for (unsigned n = 0; n < 100; n++) {
        size_t id = rng(&state) % still;
        put_page(id, versions[id] + 7);
    }
}

/* A child reads what nobody writes meanwhile, changes some of its own copy, and has a child of its own. */
static _Noreturn void in_child(unsigned round) {
    read_and_change(round * 77, "in a child");
    pid_t child = fork();
    if (child < 0) die_errno("fork in a child");
    if (!child) read_and_change(round * 77 + 1, "in a grandchild");
    for (size_t id = 0; id < still; id += 5) check(id, child ? "all in a child" : "all in a grandchild");
    _exit(child ? wait_exit(child, "grandchild") : 0);
}

static sigjmp_buf lost_page;

static void on_bus(int signal) {
    (void)signal;
    siglongjmp(lost_page, 1);
}

/* All that can be read must be right; what cannot raises SIGBUS. */
static void read_all_when_told(void) {
    printf("READY %d\n", getpid());
    fflush(stdout);
    if (getchar() == EOF) die("nobody said when");
    struct sigaction action = {.sa_handler = on_bus};
    if (sigaction(SIGBUS, &action, NULL)) die_errno("sigaction");
    volatile size_t lost = 0;
    for (volatile size_t id = 0; id < pages; id++)
        if (sigsetjmp(lost_page, 1)) lost++;
        else check(id, "when told");
    printf("OK lost %zu of %zu\n", (size_t)lost, pages);
}

int main(int argc, char **argv) {
    seed = argument(argc, argv, 1, 1);
    size_t bytes = argument(argc, argv, 2, 64) * MIB;
    threads = argument(argc, argv, 3, 3);
    uint64_t duration = argument(argc, argv, 4, 5000);
    long forks = argument(argc, argv, 5, 0);
    pages = bytes / PAGE;
    still = pages / 4;
    region = map_region(bytes);
    versions = calloc(pages, sizeof *versions);
    if (!versions) die_errno("calloc");
    for (size_t id = 0; id < pages; id++) {
        put_page(id, 1);
        /* At full speed it is above the budget before the pager has looked. */
        if (id % 64 == 0) sleep_ms(1);
    }
    if (argument(argc, argv, 6, 0)) {
        read_all_when_told();
        return 0;
    }
    until = now_ms() + duration;
    pthread_t all[64];
    uint64_t touched = 0;
    for (long n = 0; n < threads; n++) all[n] = start_thread(use, (void *)n);
    for (long n = 0; n < forks; n++) {
        pid_t child = fork();
        if (child < 0) die_errno("fork");
        if (!child) in_child(n);
        if (n % 2 == 0 && wait_exit(child, "child")) return 1;
        sleep_ms(duration / (forks + 1) / 2);
        if (n % 2 && wait_exit(child, "child")) return 1;
    }
    for (long n = 0; n < threads; n++) {
        void *done;
        if (pthread_join(all[n], &done)) die("join");
        touched += (uint64_t)done;
    }
    for (int round = 0; round < 2; round++)
        for (size_t id = 0; id < pages; id++) check(id, round ? "again" : "at the end");
    printf("OK %zu MiB, %llu pages touched at random, %ld forks\n", bytes / MIB, (unsigned long long)touched, forks);
    return 0;
}
